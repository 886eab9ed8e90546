"""What OpenAI's guide says of the grammars of custom tools, for either API, is kept to by all that we write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.dialect.lark import Level
from guard.dialect.notation import MAX_CHARACTERS, Dialect, written
from guard.dialect.tree import Grammar
from tests.dialect.readers import narrowed
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS
from tests.strategies import Sample, samples

QUOTED: Final = re.compile(
    r'"(?:[^"\\\n]|\\[nrt"\\]|\\u[0-9a-f]{4})++"|/((?:[^/\\\n]|\\.)++)/'
)  # or an expression
# Definitions of rules, names, choices, brackets and how often something comes. So there is no `%import`, `%ignore`
# or `%declare`, no template, no terminal that has a name, and none with a priority.
LEFT: Final = re.compile(
    r"(?:^[a-z][a-z0-9]*+: |[a-z][a-z0-9]*+|~[0-9]++(?:\.\.[0-9]++)?|[|()?*+ \n])*+", re.MULTILINE
)
CLASS: Final = re.compile(r"\[(?:[^\]\\]|\\.)*\]")
ESCAPE: Final = re.compile(r"\\(?:[^A-Za-z0-9]|[nrt]|x[0-9a-f]{2})")
UNSUPPORTED: Final = re.compile(
    r"\(\?|[*+?}]\?|\\"
)  # lookaround, lazy repetition, what only some engines know


def assert_plain(expression: str) -> None:
    """Neither lookaround nor laziness, and on one line."""
    bare = ESCAPE.sub("x", CLASS.sub(lambda found: ESCAPE.sub("x", found[0]).replace("?", ""), expression))
    assert not UNSUPPORTED.search(bare), expression
    assert "\n" not in expression
    assert "\r" not in expression


def assert_kept(grammar: Grammar | None) -> None:
    assert grammar is not None
    lark = written(grammar, Dialect.LARK)
    assert lark is not None
    assert len(lark) <= MAX_CHARACTERS
    for expression in filter(None, QUOTED.findall(lark)):
        assert_plain(expression)
    assert LEFT.fullmatch(QUOTED.sub("", lark)), lark
    assert lark.startswith("start: ")
    whole = written(grammar, Dialect.REGEX)
    if whole is not None:
        assert_plain(whole)


def grammars(sample: Sample, level: Level) -> Iterator[Grammar | None]:
    for at in {0, len(sample.steps) // 2, len(sample.steps) - 1}:
        for stop in (True, False):
            yield narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=stop).grammar


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_of_every_shipped_procedure(name: str, level: Level) -> None:
    for grammar in grammars(shipped()[name], level):
        assert_kept(grammar)


@settings(max_examples=30, deadline=None)
@given(samples(), LEVELS, st.booleans())
def test_of_any_procedure(sample: Sample, level: Level, stop: bool) -> None:
    assert_kept(narrowed(sample.program, sample.inputs, sample.steps, 0, level=level, stop=stop).grammar)


@pytest.mark.parametrize(
    "expression", ["a(?=b)", "(?<!x)a", "[0-9]+?", "a*?", "a??", "a{1,3}?", r"\d", r"\bx", "a\nb"]
)
def test_what_is_not_supported_is_found(expression: str) -> None:
    with pytest.raises(AssertionError):
        assert_plain(expression)


@pytest.mark.parametrize("expression", [r"a\?b", "[*?]", r"[\]?]+", "(a|b)?", r"\*\+", "x{1,3}"])
def test_and_nothing_else(expression: str) -> None:
    assert_plain(expression)
