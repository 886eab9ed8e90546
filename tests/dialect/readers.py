"""How far a text gets under a narrowed grammar, as readers of either notation see it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from llguidance import LLMatcher, LLTokenizer

from guard.dialect.gbnf import gbnf
from guard.dialect.lark import Level, Narrowed, lark_text, narrow
from guard.dialect.tree import Grammar
from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.types import Value
from guard.trace import render
from tests.dialect.engines import Llama, MissingEnginesError
from tests.dialect.gbnf_reader import Gbnf
from tests.faults.faithful import sent
from tests.strategies import NONCE

Steps = Sequence[tuple[Expected, Value]]


@cache
def _bytes() -> LLTokenizer:
    return LLTokenizer("byte")


def under_lark(grammar: Grammar, text: str) -> tuple[int, bool]:
    """How many bytes can be written, and whether the grammar may end behind the last of them."""
    definition = f"%llguidance {{}}\n{lark_text(grammar)}"
    assert LLMatcher.validate_grammar(definition, _bytes()) == "", definition
    matcher = LLMatcher(_bytes(), definition)
    count = matcher.try_consume_tokens(list(text.encode()))
    return count, count == len(text.encode()) and matcher.is_accepting()


def under_gbnf(grammar: Grammar, text: str) -> tuple[int, bool]:
    """How many characters can be written, and whether the grammar may end behind the last of them."""
    try:
        count, whole = Llama(gbnf(grammar)).reach(text)
    except MissingEnginesError:
        return under_our_gbnf(grammar, text)
    return len(text.encode()[:count].decode()), whole


def under_our_gbnf(grammar: Grammar, text: str) -> tuple[int, bool]:
    """The same by our own reader, which takes some hundred times as long."""
    return Gbnf(gbnf(grammar)).matches(text)


def assert_takes(grammar: Grammar | None, text: str) -> None:
    """The whole text may be written, and nothing need follow, whoever reads."""
    assert grammar is not None
    assert under_gbnf(grammar, text) == (len(text), True), gbnf(grammar)
    assert under_lark(grammar, text) == (len(text.encode()), True), lark_text(grammar)


def assert_refuses_at(grammar: Grammar | None, text: str, at: int) -> None:
    """The first character that may not be written is the one at `at`, whoever reads."""
    assert grammar is not None
    assert under_gbnf(grammar, text) == (at, False), gbnf(grammar)
    assert under_lark(grammar, text) == (len(text[:at].encode()), False), lark_text(grammar)


def narrowed(
    program: Program,
    inputs: dict[str, Value],
    steps: Steps,
    at: int,
    *,
    level: Level = Level.OPERANDS,
    stop: bool = True,
    tail: str = "",
) -> Narrowed:
    """The grammar behind the first `at` steps."""
    # With a tail it is settled which step is due, also of several that might be.
    settled = sent(program, inputs, steps[: at + 1])[:-1] if tail and at < len(steps) else None
    observed = settled if settled is not None else sent(program, inputs, steps[:at])
    return narrow(
        program, inputs, observed, level=level, nonce=NONCE, stop_at_decision=stop, prefix_tail=tail
    )


def behind(program: Program, steps: Steps, at: int, made: Narrowed, tail: str = "") -> str:
    """The faithful text behind the first `at` steps and `tail`, as far as a grammar goes."""
    lines = render.trace(program, steps, NONCE).splitlines(keepends=True)
    last = len(lines)
    if not made.complete:
        last = 2 + next(index for index, (step, _) in enumerate(steps) if step.path == made.last)
    return "".join(lines[(1 if at or tail else 0) + at : last]).removeprefix(tail)
