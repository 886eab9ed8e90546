"""Grammars that cannot be read are refused, whether or not one like them was read before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from threading import Event
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.dialect.json_schema import Patterns
from guard.dialect.lark import Level
from guard.dialect.notation import MAX_CHARACTERS, Dialect, written
from guard.dialect.thoughts import behind_thoughts
from guard.dialect.tree import Chars, Grammar, Literal, Repeat, sequence
from guard.trace import render
from guard.upstream.proven import Proofs, refused
from guard.upstream.skeleton import skeleton
from tests.dialect.readers import narrowed
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS
from tests.strategies import Sample, samples
from tests.upstream.servers import HANGS_S, run

some = settings(max_examples=40, deadline=None)

# What each reader has to find, in each notation.
_MISTAKES: Final[dict[Dialect, Sequence[str]]] = {
    Dialect.LARK: (
        "start: s1\n",
        'start: ("a"\n',
        'start: "a")\n',
        'start: "a\n',
        'start: "a\\q"\n',
        'start: "\\ud800"\n',
        'start: "\ud800"\n',
        'start: "a"~3..2\n',
        'start: "z".."a"\n',
        "start: /a\n",
        "start: /[a/\n",
        "start: /[\ud800]/\n",
        "start: /(a/\n",
        "start: /\\q/\n",
        "start: /a{3,2}/\n",
        "start: /a(?=b)/\n",
        "start: /(?<!a)b/\n",
        "start: /(a)\\1/\n",
        "start: /\\bb/\n",
        'start: "a"\nstart: "b"\n',
        's1: "a"\n',
        'root ::= "a"\n',
        "",
    ),
    Dialect.GBNF: (
        "root ::= s1\n",
        'root ::= ("a"\n',
        'root ::= "a")\n',
        'root ::= "a\n',
        'root ::= "a',
        'root ::= "a\\',
        'root ::= "a\\q"\n',
        'root ::= "a\\x4"\n',
        'root ::= "\ud800"\n',
        "root ::= [a\n",
        "root ::= [\ud800]\n",
        "root ::= [z-a]\n",
        'root ::= "a"{3,2}\n',
        'root ::= "a"{,2}\n',
        'root = "a"\n',
        's1 ::= "a"\n',
        'start: "a"\n',
        f"root ::= {'(' * 5_000}",
        "",
    ),
    Dialect.JSON_SCHEMA: (
        "{",
        '{"type": "nonsense"}',
        '{"type": "object", "properties": {"a": {"type": "strnig"}}, "required": ["a"]}',
        '{"type": "string", "enum": ["a]}',
        '{"type": "string", "enum": ["\\q"]}',
        '{"type": "string", "enum": ["\\ud800"]}',
        '{"type": "string", "enum": ["\ud800"]}',
        '{"type": "string", "enum": []}',
        '{"type": "string", "pattern": "(a"}',
        '{"type": "string", "pattern": "[\ud800]"}',
        '{"type": "string", "pattern": "a(?=b)"}',
        '{"type": "object", "properties": {}, "required": ["a"], "additionalProperties": false}',
        "",
    ),
    Dialect.REGEX: (
        "(a",
        "a)",
        "[a",
        "\\q",
        "a{3,2}",
        "a(?=b)",
        "(?<!a)b",
        "(a)\\1",
        "\\bb",
        "\ud800",
        "[\ud800]",
        "*a",
    ),
}
MISTAKES: Final = {
    **_MISTAKES,
    Dialect.XGRAMMAR: _MISTAKES[Dialect.GBNF],
    Dialect.LLGUIDANCE: tuple(f"%llguidance {{}}\n{text}" for text in _MISTAKES[Dialect.LARK]),
}


@pytest.mark.parametrize(("dialect", "text"), [(name, text) for name in MISTAKES for text in MISTAKES[name]])
def test_a_mistake_is_found(dialect: Dialect, text: str) -> None:
    assert refused(dialect, text)
    assert run(Proofs().refused(dialect, text)) == refused(dialect, text)


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
def test_what_is_sent_for_shipped_procedures_can_be_read_and_has_a_skeleton(
    dialect: Dialect, level: Level
) -> None:
    for sample in shipped().values():
        made = narrowed(sample.program, sample.inputs, sample.steps, 0, level=level, stop=dialect != "regex")
        assert made.grammar is not None
        for grammar in (made.grammar, behind_thoughts(made.grammar)):
            for patterns in Patterns if dialect is Dialect.JSON_SCHEMA else [Patterns.PLAIN]:
                text = written(grammar, dialect, patterns)
                assert text is None or refused(dialect, text) == ""
                assert text is None or skeleton(dialect, text) is not None


@pytest.mark.parametrize("dialect", Dialect)
def test_the_length_of_a_literal_is_no_reason_to_refuse(dialect: Dialect) -> None:
    digits = Repeat(Chars((("0", "9"),)), 1, 9)
    for count in (1, MAX_CHARACTERS // 5):
        line = sequence(Literal("7é a"[:4] * count), digits, Literal("\n"))
        text = written(Grammar(line, {}), dialect)
        assert text is None or refused(dialect, text) == ""


# --- what was read before ------------------------------------------------------------------------


def test_a_grammar_is_read_beside_other_work_and_recognised_at_once() -> None:
    proofs, told = Proofs(), list[str]()

    async def other() -> None:
        told.append("other work")

    async def body() -> None:
        beside = asyncio.create_task(other())
        told.append(await proofs.refused(Dialect.REGEX, "a[0-9]"))
        await beside

    run(body())
    assert told == ["other work", ""]
    with pytest.raises(StopIteration) as ended:
        proofs.refused(Dialect.REGEX, "b[0-9]").send(None)
    assert ended.value.value == ""


def test_what_differs_in_literals_only_is_read_once() -> None:
    proofs = Proofs()
    for number in range(5):
        assert run(proofs.refused(Dialect.GBNF, f'root ::= "{number}" [0-9]\n')) == ""
    assert len(proofs._read) == 1
    assert run(proofs.refused(Dialect.GBNF, 'root ::= "1" [0-8]\n')) == ""
    assert run(proofs.refused(Dialect.XGRAMMAR, 'root ::= "1" [0-9]\n')) == ""
    assert len(proofs._read) == 3


def test_of_many_that_come_at_once_one_is_read_also_where_the_first_one_leaves() -> None:
    read, go_on = list[str](), Event()

    async def body() -> list[str]:
        loop, begun = asyncio.get_running_loop(), asyncio.Queue[None]()

        def slowly(dialect: Dialect, grammar: str) -> str:
            read.append(grammar)
            loop.call_soon_threadsafe(begun.put_nowait, None)
            go_on.wait(HANGS_S)
            return refused(dialect, grammar)

        proofs = Proofs(read=slowly)
        texts = [f'root ::= "{number}" [0-9]\n' for number in range(9)]
        first, *others = [asyncio.create_task(proofs.refused(Dialect.GBNF, text)) for text in texts]
        unlike = asyncio.create_task(proofs.refused(Dialect.GBNF, "root ::= [0-8]\n"))
        await begun.get()
        await begun.get()
        first.cancel()
        await begun.get()
        go_on.set()
        return await asyncio.gather(*others, unlike)

    assert run(body()) == [""] * 9
    assert len(read) == 3


def test_no_text_passes_for_the_skeleton_of_another() -> None:
    proofs = Proofs()
    assert run(proofs.refused(Dialect.GBNF, 'root ::= "a"\n')) == ""
    assert run(proofs.refused(Dialect.GBNF, "root ::= \0\n\n"))


def test_what_was_not_asked_for_longest_is_forgotten_and_what_is_refused_not_remembered() -> None:
    proofs, keys = Proofs(most=2), dict[str, list[bytes]]()
    for text in ("a[0]", "a[1]", "a[0]", "a[2]", "a[0]", "a[1-0]"):
        run(proofs.refused(Dialect.REGEX, text))
        keys[text] = list(proofs._read)
    assert keys["a[2]"] == [keys["a[0]"][1], keys["a[2]"][1]] == [keys["a[1]"][0], keys["a[2]"][1]]
    assert keys["a[1-0]"] == keys["a[0]"]


SIGNS: Final = [
    *'"\\/()[]{}|*+?.~:=#%&^$-,<@ a0zA\n\0\x01\x7f\ud800\u2028é',
    '""',
    "//",
    "..",
    "(?",
    "\\u",
    "\\x",
    "0a",
]


def mutated(text: str, data: st.DataObject) -> str:
    """Change one place: leave out, put in or write over; sometimes what stands at another."""
    at = data.draw(st.integers(0, len(text)))
    upto = min(len(text), at + data.draw(st.integers(0, 3)))
    sign = data.draw(st.sampled_from(SIGNS) | st.just(""))
    return text[:at] + sign + text[upto:]


@pytest.mark.slow
@some
@given(samples(), LEVELS, st.sampled_from(Dialect), st.data())
def test_what_was_read_makes_no_difference_to_what_is_said(
    sample: Sample, level: Level, dialect: Dialect, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    tail = data.draw(st.sampled_from(["", render.stub(sample.steps[at][0])])) if at else ""
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, tail=tail)
    text = None if made.grammar is None else written(made.grammar, dialect)
    if text is None:
        return
    proofs = Proofs()
    assert run(proofs.refused(dialect, text)) == refused(dialect, text) == ""
    for _ in range(5):
        other = mutated(text, data)
        assert run(proofs.refused(dialect, other)) == refused(dialect, other)


# Parts of a text with room for what stands in literals.
_LARK: Final = (
    *(
        '"@"',
        "/@/",
        "/@[0-9]{1,3}/",
        "/@*(@)?/",
        "/(a|@)+@/",
        "/[@]/",
        "/[^@-z]/",
        "/@{2}/",
        "/(?@)/",
        "/{@}/",
        "/(@)/x",
        '"@"i',
    ),
    *(
        '"@".."z"',
        '"a"  ..  "@"',
        '"a"~@',
        '("@" "@")+ | "b"',
        '"" "@"',
        "a\na: /@/",
        '"@" // @',
        '"@" # @',
        "@",
    ),
)
_BNF: Final = (
    *('"@"', '("@" "@"){1,3}', '"a"{@}', '"" "@"', "[@]", "[^@0-9]", "[a-@]", '["@]', "a\na ::= [0-9] | @"),
    *('"@" # @', "@"),
)
_STRING: Final = '"@": {"type": "string"}'
PARTS: Final[dict[Dialect, Sequence[str]]] = {
    Dialect.LARK: _LARK,
    Dialect.LLGUIDANCE: _LARK,
    Dialect.GBNF: _BNF,
    Dialect.XGRAMMAR: _BNF,
    Dialect.REGEX: (
        "@",
        "a(@)b",
        "(a|@)",
        "[@]",
        "[^@-z]",
        "@*",
        "@{1,2}",
        "a{@}",
        "(?@a)",
        "[a]@[b]",
        "{@}",
    ),
    Dialect.JSON_SCHEMA: (
        *(
            _STRING,
            f'{_STRING}, "x": {{"type": "string", "enum": ["@", "a"]}}',
            f"{_STRING}, {_STRING}",
            f"{_STRING}, 7, {_STRING}",
            '"a": {"type": "@"}',
        ),
        *(
            '"a": {"type": "string", "pattern": "^(@)$"}',
            '"a": {"type": "string", "enum": ["@", ""]}',
            '"a": @',
        ),
        '"a": {"type": "string", "enum": ["@"], "pattern": "a"}',
    ),
}
ESCAPES: Final = '\\n \\r \\t \\b \\f \\\\ \\" \\/ \\+ \\[ \\- \\& \\q \\d \\x \\x4 \\x41 \\u \\u0041 \\u0000 \\ud83d \\1 \\bb \\p{L}'
WILD: Final = (*ESCAPES.split(" "), *SIGNS)


def text_of(dialect: Dialect, part: str) -> str:
    match dialect:
        case Dialect.LARK:
            return f"start: {part}\n"
        case Dialect.LLGUIDANCE:
            return f"%llguidance {{}}\nstart: {part}\n"
        case Dialect.GBNF | Dialect.XGRAMMAR:
            return f"root ::= {part}\n"
        case Dialect.REGEX:
            return part
        case Dialect.JSON_SCHEMA:
            names = ", ".join(re.findall(r'(?:^|(?<=, ))("[^"]*"): {', part))
            members = f'{{"type": "object", "properties": {{{part}}}'
            return f'{members}, "required": [{names}], "additionalProperties": false}}'


def assert_alike(dialect: Dialect, texts: Iterable[str]) -> None:
    """Of those with one skeleton either all can be read or none."""
    found: dict[str, dict[bool, str]] = {}
    for text in texts:
        kept = skeleton(dialect, text)
        if kept is not None:
            found.setdefault(kept, {})[bool(refused(dialect, text))] = text
    assert [each for each in found.values() if len(each) > 1] == []


@pytest.mark.parametrize("dialect", Dialect)
def test_no_sign_in_a_literal_makes_a_difference_to_texts_with_one_skeleton(dialect: Dialect) -> None:
    literals = ["", "a", "b", "ab", "a b", *WILD, *(f"a{sign}b" for sign in WILD)]
    assert_alike(
        dialect, (text_of(dialect, part.replace("@", each)) for part in PARTS[dialect] for each in literals)
    )


@some
@given(st.sampled_from(Dialect), st.data())
def test_either_all_texts_with_one_skeleton_can_be_read_or_none(
    dialect: Dialect, data: st.DataObject
) -> None:
    between = ", " if dialect is Dialect.JSON_SCHEMA else data.draw(st.sampled_from(["", " ", " | "]))
    part = between.join(data.draw(st.lists(st.sampled_from(PARTS[dialect]), min_size=1, max_size=3)))
    literal = st.text("ab 1é", max_size=2) | st.sampled_from(WILD)
    texts = [re.sub("@", lambda _: data.draw(literal), part) for _ in range(6)]
    assert_alike(dialect, [text_of(dialect, text) for text in [part.replace("@", "a"), *texts]])
