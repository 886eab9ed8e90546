"""What tables have in common and leave out, against looking every value up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from guard.procedure.coverage import clashes
from guard.procedure.functions import EvaluationError
from guard.procedure.gaps import gaps
from guard.procedure.load import parse
from guard.procedure.lookup import lookup
from guard.procedure.model import Table
from guard.procedure.types import Value
from guard.source import Source

_ends = st.integers(0, 6)
_cells = st.one_of(
    st.just("any"),
    st.builds(lambda op, n: f"{op} {n}", st.sampled_from(["<", "<=", ">", ">="]), _ends),
    st.builds(lambda low, above, below, size: f"{low}{above}..{below}{low + size}", _ends, *[st.sampled_from(["", "<"])] * 2, st.integers(2, 4)),
    st.lists(_ends, min_size=1, max_size=2, unique=True).map(lambda ns: " | ".join(map(str, ns))),
)  # fmt: skip
_rows = st.lists(st.tuples(_cells, _cells), min_size=1, max_size=4)


def _table(rows: Sequence[tuple[str, ...]], hit: str, type_: str) -> Table:
    lines = "".join(f"  {', '.join(cells)} => {index}\n" for index, cells in enumerate(rows))
    columns = f"a: {type_}, b: int" if len(rows[0]) > 1 else f"a: {type_}"
    module, problems = parse(Source("t.proc", f"table t({columns}) -> int, {hit}\n{lines}"))
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


_KINDS = {"int": Fraction(1), "decimal(1)": Fraction(1, 10), "decimal(2)": Fraction(1, 100), "decimal": None}
_kinds = st.sampled_from(sorted(_KINDS))


def _has(table: Table | None, *values: Value) -> bool:
    try:
        return table is not None and lookup(table)(values) is not None
    except EvaluationError:
        return False


def _filling(table: Table, type_: str) -> Table | None:
    """A table of what is named as left out."""
    rows = [tuple(row.split(", ")) for gap in gaps(table) for row in gap.rows]
    return _table(rows, "first match", type_) if rows else None


def _between(cells: list[str], type_: str) -> list[Fraction]:
    """Values of a type from the lowest that some row takes to the highest; ends and what is close to them."""
    step = _KINDS[type_] or Fraction(1, 1000)
    ends = [int(end) for cell in cells for end in re.findall(r"[0-9]+", cell)] or [0]
    near = {whole + by * step for whole in range(min(ends) - 1, max(ends) + 2) for by in (-1, 0, 1)}
    column = _table([(cell,) for cell in cells], "first match", type_)
    taken = [value for value in near if _has(column, value)]
    return sorted(value for value in near if taken and min(taken) <= value <= max(taken))


@settings(max_examples=30, deadline=None)
@given(st.lists(_cells, min_size=1, max_size=4), _kinds)
def test_a_value_between_the_ends_has_no_row_exactly_where_a_gap_is_named(
    cells: list[str], type_: str
) -> None:
    table = _table([(cell,) for cell in cells], "first match", type_)
    filling = _filling(table, type_)
    for value in _between(cells, type_):
        assert _has(table, value) != _has(filling, value), value


@settings(max_examples=30, deadline=None)
@given(_rows, _kinds)
def test_so_it_is_over_two_columns(rows: list[tuple[str, str]], type_: str) -> None:
    table = _table(rows, "first match", type_)
    filling = _filling(table, type_)
    for a in _between([a for a, _ in rows], type_):
        for b in _between([b for _, b in rows], "int"):
            assert _has(table, a, b) != _has(filling, a, b), (a, b)


def test_a_table_is_searched_for_gaps_only_as_long_as_that_is_quick() -> None:
    def rows(count: int) -> list[tuple[str, str]]:
        return [(f"{2 * index}", "1") for index in range(count)]

    assert gaps(_table(rows(400), "first match", "int"))[0].words.startswith("a = 1 or 3 or 5")
    assert gaps(_table(rows(7_500), "first match", "int")) == []
