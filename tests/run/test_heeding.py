"""What a server can write that heeds a grammar never counts as ignoring it; what none can write does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from guard.dialect.json_schema import Patterns, values
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.dialect.thoughts import behind_thoughts
from guard.dialect.tree import Grammar, Literal
from guard.run.heeding import Heeding
from guard.run.messages import Text
from guard.run.opening import NO_REASON, Job, Opening, opening
from guard.run.progress import Progress
from guard.upstream.reading import AnswerReader
from tests.dialect.readers import under_lark
from tests.dialect.walks import Walk
from tests.run.procedures import GRAMMAR, NONCE
from tests.strategies import Sample, samples
from tests.upstream.servers import DONE

some = settings(max_examples=60, deadline=None)
SEEDS: Final = st.integers(0, 2**32)  # since a draw of hypothesis' own takes a hundred times as long


@dataclass(frozen=True, slots=True)
class Way:
    """How a server is asked for a trace. `thoughts`: where there may be some: `field`, `tags`, `inside`."""

    dialect: Dialect
    prefill: bool = False
    tool: bool = False
    patterns: Patterns = Patterns.PLAIN
    thoughts: str = ""
    thinks: bool = False


CONTINUED: Final = (Dialect.GBNF, Dialect.XGRAMMAR, Dialect.LLGUIDANCE, Dialect.LARK, Dialect.REGEX)
WAYS: Final = (
    *(Way(dialect, prefill) for dialect in CONTINUED for prefill in (True, False)),
    *(Way(dialect, thoughts=where) for dialect in CONTINUED for where in ("field", "tags", "inside")),
    *(Way(dialect, thoughts="inside", thinks=True) for dialect in CONTINUED),
    Way(Dialect.LARK, tool=True),
    Way(Dialect.LARK, tool=True, thoughts="field"),
    *(Way(Dialect.JSON_SCHEMA, patterns=patterns) for patterns in Patterns),
    Way(Dialect.JSON_SCHEMA, thoughts="tags"),
)


def opened(sample: Sample, at: int, way: Way, level: Level) -> Opening:
    """Open a generation behind so many verified lines."""
    job = Job(program=sample.program, inputs=sample.inputs, messages=(), nonce=NONCE)
    progress = Progress(job.program, job.inputs, job.nonce)
    if at:
        for line in sample.trace.splitlines(keepends=True)[: at + 1]:
            progress.read(line, frozenset())
    target = replace(
        GRAMMAR,
        prefill=way.prefill,
        dialect=way.dialect,
        patterns=way.patterns,
        thoughts=way.thoughts == "inside",
        thinks=way.thinks,
    )
    made = opening(job, progress, target, level, NO_REASON)
    assume(made.grammar is not None)
    return made


def grammar_of(made: Opening) -> Grammar:
    assert isinstance(made.promised, partial)
    grammar = made.promised.args[0]
    assert isinstance(grammar, Grammar)
    return grammar


# --- what a server that heeds it writes ----------------------------------------------------------


def written(made: Opening, way: Way, random: Random) -> str:
    """Something that the grammar writes, thoughts inside of it included."""
    grammar = grammar_of(made)
    if way.dialect is Dialect.JSON_SCHEMA:
        return an_object(made, random)
    if way.thoughts == "inside":
        grammar = behind_thoughts(grammar, begun=way.thinks)
    return Walk(grammar, random).text()


def members(made: Opening, random: Random) -> list[tuple[str, str]]:
    assert made.grammar is not None
    grammar = grammar_of(made)
    walk = Walk(grammar, random)
    found = []
    for (name, value), rest in zip(
        json.loads(made.grammar)["properties"].items(), values(grammar), strict=True
    ):
        match value:
            case {"enum": listed}:
                found.append((name, random.choice(listed)))
            case {"pattern": _}:
                found.append((name, walk.text(rest).removesuffix("\n")))
            case _:
                found.append((name, "".join(random.choices('7 a="\\\n{[é', k=random.randint(0, 9)))))
    return found


def an_object(made: Opening, random: Random) -> str:
    found = members(made, random)
    if random.random() < 0.3:
        random.shuffle(found)
    indent = random.choice([None, None, 2])
    return json.dumps(dict(found), ensure_ascii=random.random() < 0.5, indent=indent)


def chunks(way: Way, text: str, random: Random, reason: str | None) -> Iterator[bytes]:
    """The text as a stream of chunks, in whatever pieces, with thoughts in front."""
    if way.thoughts == "field":
        yield sse({"reasoning_content": 'I think: 1 a = 3\n"so" '})
    if way.thoughts == "tags":
        yield sse({"content": "<think>\nSo, 1 a = 3?\n</think>\n\n"})
    at = 0
    while at < len(text):
        size = random.choice((1, 3, 7, 40, 1_000))
        piece, at = text[at : at + size], at + size
        if way.tool:
            call = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "trace", "input": piece}}
            yield sse({"tool_calls": [call]})
        else:
            yield sse({"content": piece})
    if reason is not None:
        yield sse({}, "tool_calls" if way.tool and reason == "stop" else reason)


def sse(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return f"data: {json.dumps({'choices': choices})}\n\n".encode()


def strayed(made: Opening, way: Way, stream: list[bytes], *, ended: bool) -> bool:
    """Whether an answer counts as one of a server that ignores its grammar."""
    assert made.promised is not None
    required = len(json.loads(made.grammar or "")["properties"]) if way.dialect is Dialect.JSON_SCHEMA else 0
    reader = AnswerReader(
        prefix=made.prefix,
        members=way.dialect is Dialect.JSON_SCHEMA,
        required=required,
        tool=way.tool,
        thinks=way.thinks,
        thoughtless=not way.thoughts,
    )
    heeding, off = Heeding(made.promised), False
    texts = [text for data in stream for text in reader.feed(data)]
    texts += reader.feed(DONE) + reader.close() if ended else []
    for text in texts:
        assert isinstance(text, Text)
        off = off or text.strayed
        for piece in text.text.splitlines(keepends=True) if "\r" not in text.text else [text.text]:
            heeding.read(piece)
    if ended:
        assert reader.fault is None
        end = reader.ended()
        heeding.end(end.finish_reason)
        off = off or end.strayed
    return off or heeding.strayed


@settings(some, max_examples=60)
@given(
    samples(),
    st.sampled_from(WAYS),
    st.sampled_from([Level.SHAPE, Level.OPERANDS, Level.VALUES]),
    SEEDS,
    st.sampled_from(["whole", "length", "cut"]),
)
def test_what_a_grammar_writes_never_counts(
    sample: Sample, way: Way, level: Level, seed: int, how: str
) -> None:
    random = Random(seed)
    at = random.randrange(len(sample.steps))
    made = opened(sample, at, way, level)
    text = written(made, way, random)
    if how != "whole":
        text = text[: random.randint(0, len(text))]
    reason = {"whole": "stop", "length": "length", "cut": None}[how]
    stream = list(chunks(way, text, random, reason))
    assert not strayed(made, way, stream, ended=how != "cut"), text


# --- what none of them writes --------------------------------------------------------------------


def faithful(sample: Sample, at: int, made: Opening) -> str:
    """The faithful text behind so many lines, as far as a grammar goes."""
    text = sample.trace.removeprefix(made.prefix)
    if not made.prefix and at:
        text = "".join(sample.trace.splitlines(keepends=True)[at + 1 :])
    count, _ = under_lark(grammar_of(made), text)
    return text.encode()[:count].decode()


def spoiled(text: str, random: Random) -> str:
    """The faithful text with something around its lines, or in them, that no grammar has."""
    lines = text.splitlines(keepends=True)
    place = random.randrange(len(lines))
    ways = ["in_front", "spaces", "behind"]
    ways += ["between", "blank"] if place else []
    ways += ["early"] if place else []
    match random.choice(ways):
        case "in_front":
            lines[0] = f"Sure, here it is:\n{lines[0]}"
        case "between":
            lines[place] = f"So that is clear.\n{lines[place]}"
        case "blank":
            lines[place] = f"\n{lines[place]}"
        case "spaces":
            # Not within texts that the model may choose, so in front of them.
            lines[place] = lines[place].replace(" ", "  ", 1) if place else f"{lines[place]} \n"
        case "early":
            del lines[place:]
        case _:
            lines.append("That is all.\n")
    return "".join(lines)


@settings(some, max_examples=60)
@given(
    samples(shuffle=False),
    st.sampled_from([way for way in WAYS if way.dialect is not Dialect.JSON_SCHEMA and not way.thinks]),
    st.sampled_from([Level.SHAPE, Level.OPERANDS, Level.VALUES]),
    SEEDS,
)
def test_what_it_does_not_write_counts_also_where_every_line_is_right(
    sample: Sample, way: Way, level: Level, seed: int
) -> None:
    random = Random(seed)
    at = random.randrange(len(sample.steps))
    made = opened(sample, at, way, level)
    right = faithful(sample, at, made)
    assert not strayed(made, way, list(chunks(way, right, random, "stop")), ended=True)
    wrong = spoiled(right, random)
    assert strayed(made, way, list(chunks(way, wrong, random, "stop")), ended=True), wrong


# --- where nothing can be told -------------------------------------------------------------------


def a_line() -> Grammar:
    return Grammar(Literal("1 a = 3\n"), {})


@pytest.mark.parametrize(
    ("pieces", "reason", "off"),
    [
        ((), "stop", False),
        ((" ", "\n"), "stop", False),
        (("1 a", " = 3\n"), "stop", False),
        (("\n\n", " 1 a = 3"), "stop", False),
        (("1 a =",), "stop", True),
        (("1 a =",), "length", False),
        (("1 a =",), None, False),
        (("1  a",), None, True),
        (("1 a = 3\n", "\n"), None, True),
    ],
)
def test_blanks_in_front_and_a_missing_end_are_passed_over(
    pieces: tuple[str, ...], reason: str | None, off: bool
) -> None:
    heeding = Heeding(a_line)
    for piece in pieces:
        heeding.read(piece)
    heeding.end(reason)
    assert heeding.strayed is off


def test_nothing_is_made_where_nothing_was_written() -> None:
    def promised() -> Grammar:
        raise AssertionError

    heeding = Heeding(promised)
    heeding.read("")
    heeding.end("stop")
    assert not heeding.strayed
