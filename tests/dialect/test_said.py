"""Values out of the sources of a quote: every right one may be written, and no other."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.dialect.lark import Level
from guard.dialect.quotes import MAX_CHARACTERS
from guard.dialect.said import MAX_VALUES
from guard.procedure.execute import Program, reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.procedure.values import spell
from guard.trace import render
from tests import spelling
from tests.dialect.readers import assert_refuses_at, assert_takes, narrowed
from tests.strategies import NONCE
from tests.work import calls


def program(kind: str, where: str = "") -> Program:
    text = f"procedure p(t: text) -> int\n  extract v: {kind} from t quote{where}\n  return 1\n"
    return load(text).procedures["p"]


NUMBERS = program("int")
PRICES = program("decimal(2)?")
DAYS = program("date")
LINES = program("list of { name: string, qty: int }")


def grammar(made: Program, source: str, level: Level = Level.OPERANDS) -> Any:
    return narrowed(made, {"t": source}, (), 0, tail="1", level=level).grammar


def takes(made: Any, line: str) -> None:
    assert_takes(made, f"{line}2 return 1\n@end {NONCE}\n")


def rest(made: Program, source: str, value: Value) -> str:
    steps, _ = reference(made, {"t": source}, {"v": value})
    return render.trace(made, steps[:1], NONCE).splitlines()[1].removeprefix("1") + "\n"


@given(st.lists(st.integers(0, 99_999), min_size=1, max_size=5), st.data())
def test_each_value_that_its_quote_supports_may_be_written(values: list[int], data: st.DataObject) -> None:
    spelled = [data.draw(st.sampled_from(list(spelling.spellings(value)))) for value in values]
    source = "; of ".join(spelled)
    value = data.draw(st.sampled_from(values))
    takes(grammar(NUMBERS, source), rest(NUMBERS, source, value))


@given(st.dates(date(1930, 1, 1), date(2099, 12, 31)), st.data())
def test_each_day_may_be_written_and_no_other(day: date, data: st.DataObject) -> None:
    source = f"due {data.draw(st.sampled_from(list(spelling.dates(day))))} at the latest"
    takes(grammar(DAYS, source), rest(DAYS, source, day))
    assert_refuses_at(grammar(DAYS, source), " v = 3", len(" v = "))


@pytest.mark.parametrize("wrong", ["20", "125", "12 ", "2"])
def test_no_other_value_may_be(wrong: str) -> None:
    source = "twelve hinges, 1,250 screws, A5, 2026-01-02"
    made = grammar(NUMBERS, source)
    for right in (12, 1250):
        takes(made, rest(NUMBERS, source, right))
    text = f' v = {wrong} <- "twelve"'
    with pytest.raises(AssertionError):
        takes(made, f"{text}\n")
    takes(grammar(NUMBERS, source, Level.SHAPE), f"{text.replace('12 ', '12')}\n")


def test_a_value_that_its_step_does_not_allow_is_not_listed() -> None:
    made = program("int", " where v < 100")
    source = "12 of 1250"
    takes(grammar(made, source), rest(made, source, 12))
    assert_refuses_at(grammar(made, source), " v = 1250", len(" v = 12"))


@pytest.mark.parametrize("source", ["such things", "; ".join(map(str, range(1, 2 * MAX_VALUES + 4, 2)))])
def test_where_nothing_or_too_much_is_said_the_value_is_left_open(source: str) -> None:
    takes(grammar(NUMBERS, source), f' v = 4 <- "{source.split(maxsplit=1)[0]}"\n')


def test_null_and_an_empty_list_stand_without_a_quote_and_nothing_else_does() -> None:
    source = "61.20 each"
    takes(grammar(PRICES, source), " v = null\n")
    takes(grammar(PRICES, source), ' v = 61.20 <- "61.20"\n')
    assert_refuses_at(grammar(PRICES, source), " v = 61.20\n", len(" v = 61.20"))
    takes(grammar(LINES, source), " v = []\n")
    assert_refuses_at(grammar(LINES, source), ' v = [] <- "each"', len(" v = []"))


def test_the_items_of_a_list_have_their_numbers_from_the_source_and_a_quote_each() -> None:
    source = "Twelve hinges and 4 knobs, please."
    value: Value = ({"name": "hinges", "qty": 12}, {"name": "knobs", "qty": 4})
    text = rest(LINES, source, value)
    assert text.count(" <- ") == 2
    takes(grammar(LINES, source), text)
    assert_refuses_at(grammar(LINES, source), text.replace("12", "13"), text.index("12") + 1)
    assert spell(value, LINES.types["v"]) in text


@pytest.mark.parametrize("source", ["word 5, " * 37_000, "5" * 300_000, "\u00e4" * 300_000, "1 " * 150_000])
def test_a_source_that_is_too_long_is_not_looked_at(source: str) -> None:
    """Its size is known before: 600 kB took 0.7 s to be taken apart, for nothing."""
    sources = ({"t": "5 " * (MAX_CHARACTERS // 2 + 1)}, {"t": source})

    def work(inputs: dict[str, str]) -> int:
        return calls(lambda: grammar(NUMBERS, inputs["t"]))

    work(sources[0])  # what is made once for a procedure
    assert work(sources[1]) <= work(sources[0]) + 20
