"""Numbers in executions: how they are rounded and carried, and what tables make of them."""

import pytest

from tests.procedure.executions import run, steps


@pytest.mark.parametrize(
    ("mode", "results"),
    [
        ("half_up", ["2.49", "-2.49", "0.13"]),
        ("half_even", ["2.48", "-2.48", "0.12"]),
        ("down", ["2.48", "-2.48", "0.12"]),
        ("up", ["2.49", "-2.49", "0.13"]),
        ("floor", ["2.48", "-2.49", "0.12"]),
        ("ceiling", ["2.49", "-2.48", "0.13"]),
    ],
)
def test_the_file_sets_the_rounding(mode: str, results: list[str]) -> None:
    made = steps(
        "x = 2.485 to 2\ny = -2.485 to 2\nz = a / 8 to 2\nreturn 0",
        before=f"numbers round {mode}, carry shown\n",
    )
    lines, _ = run(made, a=1)
    assert [text.rpartition(" = ")[2] for text in lines[:3]] == results


SPLIT = """
third = a / 3 to 2
six = third * 6 to 2
big = six > 5.99
return six
"""


def test_carry_shown_goes_on_with_what_was_written() -> None:
    made = steps(SPLIT, "p(a: int) -> decimal(2)")
    assert run(made, a=3)[0] == [
        "1 third = 3 / 3 = 1.00",
        "2 six = 1.00 * 6 = 6.00",
        "3 big = 6.00 > 5.99 = true",
        "4 return 6.00",
    ]
    assert run(made, a=1)[0][:2] == ["1 third = 1 / 3 = 0.33", "2 six = 0.33 * 6 = 1.98"]


def test_carry_exact_goes_on_with_the_exact_value_and_shows_it_rounded() -> None:
    made = steps(SPLIT, "p(a: int) -> decimal(2)", "numbers round half_up, carry exact\n")
    lines, ending = run(made, a=1)
    assert lines == [
        "1 third = 1 / 3 = 0.33",
        "2 six = 0.33 * 6 = 2.00",
        "3 big = 2.00 > 5.99 = false",
        "4 return 2.00",
    ]
    assert ending.value == 2


def test_carry_exact_shows_an_operand_as_it_was_written_whatever_rounded_it() -> None:
    made = steps(
        "x = a / 3 to 2 up\ny = x * 3 to 2\nz = [x, y]\nw = { x: x }\nv = w.x * 3\nfor i in z at most 2\n  u = i + 0\nreturn y",
        "p(a: int) -> decimal(2)",
        "numbers round half_up, carry exact\n",
    )
    assert run(made, a=1)[0] == [
        "1 x = 1 / 3 = 0.34",
        "2 y = 0.34 * 3 = 1.00",
        "3 z = [0.34, 1.00]",
        '4 w = {"x": 0.34}',
        "5 v = 0.34 * 3 = 1.00",
        "6 for i in z = 2",
        "6[1].1 u = 0.34 + 0 = 0.33",
        "6[2].1 u = 1.00 + 0 = 1.00",
        "7 return 1.00",
    ]


def test_carry_exact_without_places_shows_ten_decimals() -> None:
    made = steps(
        "x = a / 3\ny = x * 3\nreturn y", "p(a: int) -> decimal", "numbers round half_up, carry exact\n"
    )
    assert run(made, a=1)[0] == ["1 x = 1 / 3 = 0.3333333333", "2 y = 0.3333333333 * 3 = 1", "3 return 1"]


def test_carry_exact_decides_by_the_exact_value() -> None:
    made = steps(
        "x = a / 3 to 1\ny = x * size(x)\nz = if x >= 1.7 then x else y\nreturn 0",
        "p(a: int) -> int",
        "numbers round half_up, carry exact\ntable size(n: decimal) -> int, first match\n  >= 1.7 => 1\n  any    => 7\n",
    )
    lines, _ = run(made, a=5)
    assert lines[:3] == [
        "1 x = 5 / 3 = 1.7",
        "2 y = 1.7 * 7 = 11.7",
        "3 z = if 1.7 >= 1.7 then x else 11.7 = 11.7",
    ]


def test_what_is_rounded_to_whole_numbers_is_carried_whole_in_either_mode() -> None:
    made = steps("x = a / 3 to 0\ny = x * 3\nreturn y", before="numbers round half_up, carry exact\n")
    assert run(made, a=5)[0] == ["1 x = 5 / 3 = 2", "2 y = 2 * 3 = 6", "3 return 6"]


@pytest.mark.parametrize(
    ("cell", "holds"),
    [
        ("2..3", "2 2.5 3"),
        (">= 2", "2 2.5 3 4"),
        ("> 2", "2.5 3 4"),
        ("<= 2", "1 2"),
        ("< 2", "1"),
        ("2", "2"),
        ("2.0 | 4", "2 4"),
        ("any", "1 2 2.5 3 4"),
    ],
)
def test_a_cell_takes_its_numbers_and_no_others(cell: str, holds: str) -> None:
    made = steps(
        "return taken(d)",
        "p(d: decimal(1)) -> bool",
        f"table taken(d: decimal(1)) -> bool, first match\n  {cell} => true\n"
        + "  any => false\n" * (cell != "any"),
    )
    assert [d for d in ("1", "2", "2.5", "3", "4") if run(made, d=d)[1].value is True] == holds.split()


def test_the_first_row_that_takes_all_values_counts() -> None:
    made = steps(
        "return fee(country, n)",
        "p(country: string, n: int) -> int",
        'table fee(country: string, n: int) -> int, first match\n  "DE" | "AT", < 5 => 1\n  "DE", any => 2\n  any, >= 9 => 3\n',
    )
    assert run(made, country="AT", n=4)[0] == ['1 return fee("AT", 4) = 1']
    assert run(made, country="DE", n=5)[1].value == 2
    assert run(made, country="DE", n=9)[1].value == 2
    assert run(made, country="FR", n=9)[1].value == 3
    _, ending = run(made, country="FR", n=8)
    assert ending.reason == "no row of table 'fee' is for country = \"FR\", n = 8"


POLICIES: dict[str, dict[str, str | None]] = {
    "first match": {"5": "1", "15": "3", "25": None},
    "sum": {"5": "4", "10": "6", "15": "5", "25": "0"},
    "min": {"5": "1", "10": "1", "15": "2", "25": None},
    "max": {"5": "3", "10": "3", "15": "3", "25": None},
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_hit_policy_says_what_the_rows_that_fit_give_together(policy: str) -> None:
    table = f"table t(d: decimal(1)) -> int, {policy}\n  0..10 => 1\n  0<..<20 => 3\n  10..<20 => 2\n"
    made = steps("x = t(d)\nreturn x", "p(d: decimal(1)) -> int", table)
    for given_value, wanted_value in POLICIES[policy].items():
        found, ending = run(made, d=given_value)
        if wanted_value is None:
            assert ending.reason == f"no row of table 't' is for d = {given_value}.0"
        else:
            assert found[0] == f"1 x = t({given_value}.0) = {wanted_value}"


@pytest.mark.parametrize(
    ("policy", "second", "reason"),
    [
        ("unique", 1, "more than one row of table 't' is for a = 7"),
        ("any equal", 2, "more than one result of table 't' is for a = 7"),
        ("any equal", 1, ""),
    ],
)
def test_overlaps_of_large_tables_are_found_when_they_are_looked_up(
    policy: str, second: int, reason: str
) -> None:
    rows = [f"  {n} => 1" for n in range(301)] + [f"  7 => {second}"]
    table = f"table t(a: int) -> int, {policy}\n" + "\n".join(rows) + "\n"
    _, ending = run(steps("return t(a)", "p(a: int) -> int", table), a=7)
    assert (ending.reason or "") == reason
