"""What tables have in common and leave out, against looking every value up."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from guard.procedure.coverage import clashes, gap
from guard.procedure.functions import EvaluationError
from guard.procedure.load import parse
from guard.procedure.lookup import lookup
from guard.procedure.model import Hit, Table
from guard.source import Source

_ends = st.integers(0, 6)
_cells = st.one_of(
    st.just("any"),
    st.builds(lambda op, n: f"{op} {n}", st.sampled_from(["<", "<=", ">", ">="]), _ends),
    st.builds(lambda low, above, below, size: f"{low}{above}..{below}{low + size}", _ends, *[st.sampled_from(["", "<"])] * 2, st.integers(2, 4)),
    st.lists(_ends, min_size=1, max_size=2, unique=True).map(lambda ns: " | ".join(map(str, ns))),
)  # fmt: skip
_rows = st.lists(st.tuples(_cells, _cells), min_size=1, max_size=4)


def _table(rows: list[tuple[str, str]], hit: str, type_: str) -> Table:
    lines = "".join(f"  {a}, {b} => {index}\n" for index, (a, b) in enumerate(rows))
    module, problems = parse(Source("t.proc", f"table t(a: {type_}, b: int) -> int, {hit}\n{lines}"))
    assert module is not None
    assert not problems
    return module.tables["t"]


@settings(max_examples=60, deadline=None)
@given(_rows)
def test_rows_clash_exactly_where_some_value_has_more_than_one(rows: list[tuple[str, str]]) -> None:
    table = _table(rows, "unique", "int")
    found = {row.result.value for _, row in clashes(table)}
    look = [lookup(_table([row], "first match", "int")) for row in rows]

    def takes(index: int, a: int, b: int) -> bool:
        try:
            look[index]((a, b))
        except EvaluationError:
            return False
        return True

    grid = [(a, b) for a in range(-1, 12) for b in range(-1, 12)]
    wanted = {
        later
        for earlier, later in combinations(range(len(rows)), 2)
        if any(takes(earlier, *point) and takes(later, *point) for point in grid)
    }
    assert found == wanted


@settings(max_examples=60, deadline=None)
@given(_rows, st.sampled_from(["int", "decimal(1)"]))
def test_what_is_named_as_a_gap_has_no_row(rows: list[tuple[str, str]], type_: str) -> None:
    table = _table(rows, "first match", type_)
    found = gap(table)
    if found:
        a, b = (part.partition(" = ")[2] for part in found.split(", "))
        module, _ = parse(Source("t.proc", f"table t(a: int) -> int, unique\n  {'0' if a == 'any' else a} => 1\n"))  # fmt: skip
        assert module is not None
        value = module.tables["t"].rows[0].cells[0].values[0].value  # type: ignore[union-attr]
        try:
            lookup(table)((value, 0 if b == "any" else int(b)))
        except EvaluationError as reason:
            assert "no row" in str(reason)  # noqa: PT017
        else:
            raise AssertionError(found)
    assert table.hit is Hit.FIRST


def test_a_table_is_searched_for_gaps_only_as_long_as_that_is_quick() -> None:
    def rows(count: int) -> list[tuple[str, str]]:
        return [(f"{2 * index}", "any") for index in range(count)]

    assert gap(_table(rows(400), "first match", "int")) == "a = 1, b = any"
    assert gap(_table(rows(9_000), "first match", "int")) == ""
