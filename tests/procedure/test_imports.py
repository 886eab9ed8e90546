"""Files that import others: what they see of each other, and what is said where that goes wrong."""

from __future__ import annotations

import re
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import guard
from guard.errors import Problem, ProcedureError
from guard.procedure.execute import Program, reference
from guard.procedure.format import formatted
from guard.procedure.imports import MAX_CHAIN, MAX_FILES, resolved
from guard.procedure.interchange import compiled
from guard.procedure.load import load
from guard.trace import render
from tests.strategies import Sample, samples

FEES = """
numbers round down, carry shown

enum Zone: "home" | "abroad"

table base(zone: Zone) -> decimal(2), unique
  "home"   => 3.00
  "abroad" => 9.00

procedure fee(zone: Zone, weight: decimal(1)) -> decimal(2)
  part = weight * 1.255 to 2
  return base(zone) + part
"""
TYPES = """
record Parcel { weight: decimal(1), count: int }
"""
MAIN = """
import "types.proc"
import "tables/fees.proc"

procedure ship(parcel: Parcel, zone: Zone) -> decimal(2)
  one = do fee(zone, parcel.weight)
  share = one * 0.5 to 1
  return one * parcel.count + share

example ship
  parcel = { weight: 1.1, count: 2 }
  zone = "abroad"
"""
FILES = {"types.proc": TYPES, "tables/fees.proc": FEES}


def ship(main: str = MAIN, **files: str) -> Program:
    return load(main, "main.proc", files=FILES | files).procedures["ship"]


def problems(main: str, files: dict[str, str] | None = None, name: str = "main.proc") -> list[Problem]:
    with pytest.raises(ProcedureError) as caught:
        load(main, name, files=files)
    return list(caught.value.problems)


def said(main: str, files: dict[str, str] | None = None) -> list[str]:
    return [f"{p.file}:{p.line}:{p.column} {p.message}" for p in problems(main, files)]


# --- what a file sees ------------------------------------------------------------------------------


def test_types_tables_and_procedures_are_taken_over() -> None:
    library = load(MAIN, "main.proc", files=FILES)
    assert list(library.procedures) == ["ship"]
    program = library.procedures["ship"]
    inputs = program.accept({"parcel": {"weight": 1.1, "count": 2}, "zone": "abroad"})
    steps, ending = reference(program, inputs, {})
    # 1.1 * 1.255 is 1.3805, rounded down by the file of fee; 10.38 * 0.5 half up by that of ship
    assert render.trace(program, steps, "3fa92c").splitlines()[1:-1] == [
        '1 one = do fee("abroad", 1.1)',
        "1.1 part = 1.1 * 1.255 = 1.38",
        "1.2 return 9.00 + 1.38 = 10.38",
        "2 share = 10.38 * 0.5 = 5.2",
        "3 return 10.38 * 2 + 5.2 = 25.96",
    ]
    assert ending.value is not None


def test_the_model_sees_all_that_is_used_and_by_which_rules_numbers_are_rounded() -> None:
    text = ship().numbered
    assert "numbers round half_up, carry shown" in text
    assert "record Parcel { weight: decimal(1), count: int }" in text
    assert "table base" in text
    assert (
        '  procedure fee(zone: "home" or "abroad", weight: decimal(1)) -> decimal(2), '
        "numbers round down, carry shown" in text
    )


@pytest.mark.parametrize(
    ("outer", "inner", "told"),
    [("exact", "shown", "3.4"), ("shown", "exact", "3.35"), ("exact", "exact", "3.35")],
)
def test_each_file_carries_numbers_by_its_own_rules(outer: str, inner: str, told: str) -> None:
    other = f"""
numbers carry {inner}
procedure half(a: decimal) -> decimal
  b = a * 0.5 to 1
  return b * 1
"""
    main = f"""
numbers carry {outer}
import "half.proc"
procedure p(a: decimal) -> decimal
  c = do half(a)
  return c
"""
    program = load(main, files={"half.proc": other}).procedures["p"]
    _, ending = reference(program, program.accept({"a": "6.7"}), {})
    assert str(float(ending.value)) == told  # type: ignore[arg-type]


def test_what_an_imported_file_imports_is_seen_too_and_may_be_reached_by_two_ways() -> None:
    files = {
        "a/one.proc": 'import "../base.proc"\ntable one(x: Size) -> int, unique\n  "s" => 1\n  "l" => 2\n',
        "two.proc": 'import "./base.proc"\ntable two(x: Size) -> int, unique\n  "s" | "l" => 3\n',
        "base.proc": 'enum Size: "s" | "l"\n',
    }
    main = """
import "a/one.proc"
import "two.proc"
procedure p(x: Size) -> int
  return one(x) + two(x)
"""
    program = load(main, files=files).procedures["p"]
    assert reference(program, program.accept({"x": "l"}), {})[1].value == 5


def test_a_file_may_hold_only_what_others_import() -> None:
    assert load(TYPES).procedures == {}
    assert load('import "types.proc"\n', files={"types.proc": TYPES}).procedures == {}


def test_a_name_may_still_be_import() -> None:
    program = load("procedure p(import: int) -> int\n  return import\n").procedures["p"]
    assert program.parameters[0].name == "import"


def test_the_texts_may_come_from_a_function() -> None:
    asked: list[str] = []

    def files(path: str) -> str:
        asked.append(path)
        return FILES[path]

    assert guard.load(MAIN, "deep/main.proc", files=files).procedures["ship"].digest == ship().digest
    assert asked == ["types.proc", "tables/fees.proc"]


def test_the_digest_covers_what_is_used_and_nothing_else() -> None:
    digest = ship().digest
    assert ship(**{"tables/fees.proc": FEES.replace("9.00", "9.10")}).digest != digest
    assert ship(**{"tables/fees.proc": FEES.replace("round down", "round up")}).digest != digest
    assert (
        ship(
            **{
                "types.proc": TYPES.replace(
                    "weight: decimal(1), count: int", "count: int, weight: decimal(1)"
                )
            }
        ).digest
        != digest
    )
    more = "\nprocedure other() -> int\n  return 1\n\ntable unused(a: int) -> int, unique\n  any => 1\n"
    assert ship(**{"tables/fees.proc": "# changed\n" + FEES + more}).digest == digest


def test_a_procedure_means_the_same_in_its_own_file() -> None:
    own = load(FEES, "fees.proc").procedures["fee"]
    assert own.digest == load(MAIN, "main.proc", files=FILES).procedures["ship"].callees["fee"].digest


def test_the_interchange_form_has_what_was_imported() -> None:
    library = load(MAIN, "main.proc", files=FILES)
    data: Any = compiled(library.module, library.procedures["ship"])
    assert [table["name"] for table in data["tables"]] == ["base"]
    [callee] = data["callees"]
    assert callee["procedure"]["numbers"]["rounding"] == "down"


def test_the_layout_keeps_imports() -> None:
    assert formatted('import   "a.proc"   # why\n') == 'import "a.proc"  # why\n'


# --- what goes wrong -------------------------------------------------------------------------------


def test_everything_that_is_wrong_in_all_files_comes_at_once() -> None:
    files = {
        "a.proc": "table one(x: int) -> int, unique\n  1 => yes\n",
        "b.proc": "procedure two(x: int) -> int\n  return y\n",
    }
    main = """import "a.proc"
import "b.proc"
procedure p(x: int) -> int
  z = do two("x")
  return one(z) + w
"""
    found = problems(main, files, "dir/main.proc")
    assert [(p.file, p.line, p.column) for p in found] == [
        ("dir/main.proc", 4, 14),
        ("dir/main.proc", 5, 19),
        ("dir/a.proc", 2, 8),
        ("dir/b.proc", 2, 10),
    ]
    assert found[-1].snippet == "  2 |   return y\n    |          ^"


def test_a_missing_file_is_reported_where_it_is_imported_and_nothing_is_blamed_for_it() -> None:
    main = """import "a.proc"
import "gone/b.proc"
procedure p(x: Size) -> int
  y = do other(x)
  return fee(y)
"""
    [found] = problems(main, {"a.proc": TYPES})
    assert (found.line, found.column) == (2, 8)
    assert found.message == "the file 'gone/b.proc' cannot be read: no such file"
    assert found.snippet.endswith('| import "gone/b.proc"\n    |        ^^^^^^^^^^^^^')
    found, _ = problems(main)
    assert "without others" in found.message


def test_a_circle_of_imports_shows_its_chain() -> None:
    files = {"a.proc": 'import "sub/b.proc"\n' + TYPES, "sub/b.proc": 'import "../a.proc"\nimport "c.proc"\n'}
    assert said('import "a.proc"\n', files | {"sub/c.proc": "x\n"}) == [
        "sub/b.proc:1:8 a file cannot import itself: a.proc > sub/b.proc > a.proc",
        "sub/c.proc:1:1 expected a declaration, found 'x'",
    ]
    assert said('import "main.proc"\n') == [
        "main.proc:1:8 a file cannot import itself: main.proc > main.proc"
    ]


def test_a_name_from_two_files_names_both_places() -> None:
    files = {"a.proc": "\n" + TYPES, "b.proc": TYPES}
    main = 'import "a.proc"\nimport "b.proc"\nprocedure p(x: Parcel) -> int\n  return x.count\n'
    assert said(main, files) == [
        "main.proc:2:8 the type 'Parcel' is declared in a.proc, line 3, and in b.proc, line 2"
    ]


@pytest.mark.parametrize(
    ("kind", "declaration"),
    [
        ("type", 'enum Zone: "x"\n'),
        ("table", "table base(a: int) -> int, unique\n  any => 1\n"),
        ("procedure", "procedure fee(a: int) -> int\n  return a\n"),
    ],
)
def test_an_own_name_that_is_imported_too_says_where(kind: str, declaration: str) -> None:
    [found] = problems('import "tables/fees.proc"\n' + declaration, FILES)
    assert found.line == 2
    assert f"there is a {kind} " in found.message
    assert " already, in tables/fees.proc, line " in found.message


def test_a_file_is_imported_once() -> None:
    main = 'import "types.proc"\nimport "./x/../types.proc"\n'
    assert said(main, FILES) == ["main.proc:2:8 'types.proc' is imported already, in line 1"]


def test_an_example_stands_in_the_file_of_its_procedure() -> None:
    main = MAIN + '\nexample fee\n  zone = "home"\n  weight = 1.0\n'
    assert said(main, FILES) == ["main.proc:14:9 there is no procedure 'fee' in this file"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "names no file"),
        ("tables/", "names no file"),
        ("/etc/passwd", "is a path from the root of a disk"),
        ("C:/fees.proc", "is a path from the root of a disk"),
        ("..\\\\fees.proc", "has a \\ in it"),
        ("../fees.proc", "leads out of the folder"),
        ("a/../../fees.proc", "leads out of the folder"),
        ("a\\u0000.proc", "cannot be printed"),
    ],
)
def test_a_path_that_is_none_is_refused_and_no_file_is_asked_for(written: str, message: str) -> None:
    def files(path: str) -> str:
        raise AssertionError(path)

    with pytest.raises(ProcedureError) as caught:
        load(f'import "{written}"\n', "main.proc", files=files)
    [found] = caught.value.problems
    assert message in found.message
    assert "tables/fees.proc" in found.help


def test_imports_and_their_chain_are_bounded() -> None:
    files = {f"{n}.proc": f'import "{n + 1}.proc"\n' for n in range(MAX_CHAIN + 5)}
    [found] = problems('import "0.proc"\n', files)
    assert "in a row" in found.message
    many = {f"{n}.proc": f'enum E{n}: "a"\n' for n in range(MAX_FILES + 5)}
    main = "".join(f'import "{name}"\n' for name in many)
    assert len(problems(main, many)) == 5


def test_imported_procedures_count_to_the_depth_where_they_are_carried_out() -> None:
    def stairs(name: str, last: str) -> str:
        steps = [
            f"procedure {name}{n}(a: int) -> int\n  b = do {name}{n + 1}(a)\n  return b\n" for n in range(12)
        ]
        return "".join(steps) + f"procedure {name}12(a: int) -> int\n  b = {last}\n  return b\n"

    files = {"deep.proc": stairs("deep", "a + 1")}
    assert load(files["deep.proc"]).procedures
    found = problems('import "deep.proc"\n' + stairs("top", "do deep0(a)"), files)
    assert {p.file for p in found} == {"main.proc"}
    assert found[0].message == "procedures nest at most 20 deep"


PARTS = st.lists(st.sampled_from(["a", "b.proc", "..", ".", "", "c d"]), min_size=1, max_size=8)


@given(PARTS, PARTS)
def test_a_resolved_path_is_plain_and_stays_inside(at: list[str], written: list[str]) -> None:
    here = "/".join(part for part in at if part not in ("..", ".", "")) or "x"
    try:
        path = resolved(here, "/".join(written))
    except ValueError:
        return
    assert not {"..", ".", ""} & set(path.split("/")[:-1])
    assert resolved("x.proc", path) == path if path else True


@settings(max_examples=8, deadline=None)
@given(samples())
def test_declarations_mean_the_same_from_another_file(sample: Sample) -> None:
    blocks = re.split(r"\n(?=\S)", sample.text)
    moved = [block for block in blocks if block.split()[0] in ("record", "enum", "table")]
    moved += [block for block in blocks if block.startswith("procedure helped")]
    rules = [block for block in blocks if block.split()[0] == "numbers"]
    rest = [block for block in blocks if block not in moved]
    files = {"base.proc": "\n".join([*rules, *moved, 'enum Unused: "a"', ""])}
    program = load("\n".join(['import "base.proc"', *rest]), files=files).procedures["made"]
    whole = load(sample.text).procedures["made"]
    assert (program.digest, program.numbered) == (whole.digest, whole.numbered)
    decisions = {expected.path: value for expected, value in sample.steps if expected.decision is not None}
    (steps, ending), (others, other) = (reference(one, sample.inputs, decisions) for one in (program, whole))
    assert ending == other
    assert render.trace(program, steps, "3fa92c") == render.trace(whole, others, "3fa92c")


def test_a_file_of_very_many_mistakes_is_refused_in_time() -> None:
    text = 'import "fees.proc"\n' * 16_000 + "procedure p(a: int) -> int\n  return a\n"
    start = process_time()
    with pytest.raises(ProcedureError) as caught:
        load(text, files={"fees.proc": FEES})
    assert process_time() - start < 6  # some ten times as much where each is compared with each
    assert "is imported already" in caught.value.problems[0].message
