"""Thoughts in tags are parted from what is said, however both are cut into pieces."""

from __future__ import annotations

from time import process_time

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.wire.thinking import BLANKS, Thinking, without_thoughts
from tests.thoughts import CANARY, blocks, cuts, thoughts

TRACE = '@begin p abcdef\n1 a = 3\n2 note = "<think>"\n3 return 3\n@end abcdef\n'


def parted(text: str | list[str], *, begun: bool = False) -> tuple[str, str]:
    """What is thought, and what is said."""
    thinking = Thinking(begun=begun)
    pieces = [thinking.feed(piece) for piece in ([text] if isinstance(text, str) else text)]
    pieces.append(thinking.close())
    return "".join(thought for thought, _ in pieces), "".join(said for _, said in pieces)


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>hm</think>@begin p", "hm", "@begin p"),
        ("<think>\nhm\n</think>\n\n@begin p", "\nhm\n", "@begin p"),
        ("<think></think>\n@begin p", "", "@begin p"),
        ("\n<Thinking>hm</THINKING>\n5 a = 3", "hm", "5 a = 3"),
        ("[THINK]hm[/THINK]@begin p", "hm", "@begin p"),
        ("<think>a</think> <reasoning>b</reasoning>\n@begin p", "ab", "@begin p"),
        ("<think>a</thinking>b</think>@begin p", "a</thinking>b", "@begin p"),
        ("<think>\n<think>a</think>@begin p", "\na", "@begin p"),
        ("<think>a <think>b</think> c</think>\n@begin p", "a b\nc", "@begin p"),
        ("<think>the tag <think> is odd</think>\n@begin p", "the tag  is odd", "@begin p"),
        ("<think>@begin p\n1 a = 3\n", "@begin p\n1 a = 3\n", ""),
        ("<think>a</thi", "a</thi", ""),
        ("Sure. <think>a</think>@begin p", "a", "Sure. \n@begin p"),
        ("Sure.\n<think>a</think>\n```\n@begin p", "a", "Sure.\n```\n@begin p"),
        ("```\n@begin p\n<think>a</think>", "", "```\n@begin p\n<think>a</think>"),
        ("@begin p\n<think>a</think>", "", "@begin p\n<think>a</think>"),
        ('{"1 a =": "<think>a</think>"}', "", '{"1 a =": "<think>a</think>"}'),
        ('= "<think>" x', "", '= "<think>" x'),
        ('a "b"\n<think>c</think>', "c", 'a "b"\n'),
        ("a</think>\n@begin p", "", "a</think>\n@begin p"),
        ("<thinks>a</thinks>", "", "<thinks>a</thinks>"),
        ("a < b <", "", "a < b <"),
        ("<\u017feed:think>", "", "<\u017feed:think>"),
        ("", "", ""),
    ],
)
def test_a_block_in_front_of_the_trace_is_no_part_of_it(text: str, thought: str, said: str) -> None:
    assert parted(text) == (thought, said)
    assert parted(list(text)) == (thought, said)


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("hm\n</think>\n\n@begin p", "hm\n", "@begin p"),
        ("<think>\nhm</think>@begin p", "\nhm", "@begin p"),
        ("hm <think> hm</think>@begin p", "hm <think> hm", "@begin p"),
        ("a</think><think>b</think>@begin p", "ab", "@begin p"),
        ("@begin p\n1 a = 3\n", "@begin p\n1 a = 3\n", ""),
    ],
)
def test_where_the_prompt_has_begun_it_all_is_thought_up_to_the_closing_tag(
    text: str, thought: str, said: str
) -> None:
    assert parted(text, begun=True) == (thought, said)
    assert parted(list(text), begun=True) == (thought, said)


@given(st.data(), thoughts())
def test_thoughts_leave_the_trace_as_it_is(data: st.DataObject, front: str) -> None:
    pieces = data.draw(cuts(front + TRACE))
    thought, said = parted(pieces)
    assert said.lstrip() == TRACE
    assert thought.count(CANARY) == front.count(CANARY)


PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<thin",
            "king>",
            "</",
            "[THINK]",
            "\n",
            " ",
            "@",
            "1 ",
            "a",
            '"',
            "{",
            "◁",
            "İ",
        ]
    )
    | st.text(max_size=3),
    max_size=20,
)


@given(PIECES, st.booleans())
def test_how_it_is_cut_changes_nothing(pieces: list[str], begun: bool) -> None:
    whole = parted("".join(pieces), begun=begun)
    assert parted(pieces, begun=begun) == whole
    assert parted(list("".join(pieces)), begun=begun) == whole


@given(PIECES)
def test_nothing_is_said_that_was_not_there(pieces: list[str]) -> None:
    text = "".join(pieces)
    rest = iter(text)
    thought, said = parted(pieces)
    added = said.replace("\n", "")
    assert all(character in rest for character in added)  # in this order
    assert len(thought) + len(said) <= len(text) + text.count(">") + text.count("]") + text.count("▷")


def test_little_is_held() -> None:
    thinking = Thinking()
    thinking.feed("<think>")
    for _ in range(1000):
        thought, said = thinking.feed("x" * 1000 + "</thin")
        assert len(thought) >= 1000
        assert said == ""


@pytest.mark.parametrize(("blanks", "said"), [(64, ""), (65, " " * 65)])
def test_white_space_goes_with_the_block_behind_it_up_to_a_limit(blanks: int, said: str) -> None:
    text = " " * blanks + "<think>a</think>" + " " * blanks
    assert parted(text) == parted(list(text)) == ("a", said)


# --- whole answers -------------------------------------------------------------------------------

FRONTS = st.sampled_from(["", "Sure.\n", "Sure. ", "\n\n", '"quoted" ', "```\n", " " * 100, "a < b"])


@given(
    st.tuples(FRONTS, blocks() | st.just("<think>hm"), FRONTS).map("".join), st.sampled_from([TRACE, "", "x"])
)
def test_what_is_said_stands_where_it_stood_and_all_else_is_blank(front: str, rest: str) -> None:
    text = front + rest
    left = without_thoughts(text)
    assert len(left) == len(text)
    assert all(now in (then, " ", "\n") for now, then in zip(left, text, strict=True))
    _, said = parted(text)
    assert left.split() == said.split()
    assert [line for line in map(str.strip, left.split("\n")) if line] == [
        line for line in map(str.strip, said.split("\n")) if line
    ]


@given(thoughts())
def test_a_trace_behind_thoughts_stays_as_it_is(front: str) -> None:
    left = without_thoughts(front + TRACE)
    assert left.endswith(TRACE)
    assert not left.removesuffix(TRACE).strip()
    assert without_thoughts(TRACE + front) == TRACE + front
    assert without_thoughts(left) == left


def test_long_thoughts_leave_no_long_line_and_take_no_time_to_speak_of() -> None:
    left = without_thoughts(f"<think>{'x' * 1_000_000}</think>{TRACE}")
    assert max(map(len, left.splitlines())) < BLANKS
    assert left.endswith(f"\n{TRACE}")
    said = "so it is\n" * 100_000
    assert without_thoughts(said) == said


def test_the_prompt_may_have_opened_the_thoughts() -> None:
    assert without_thoughts(f"hm</think>{TRACE}", begun=True).strip() == TRACE.strip()
    assert without_thoughts(f"hm</think>{TRACE}") == f"hm</think>{TRACE}"


@pytest.mark.parametrize("line", ["ab\n", "\n", "<think>a</think>\n", "[[", "a b <"])
def test_a_long_piece_takes_as_long_as_many_short_ones(line: str) -> None:
    """It took the square of its lines: 21 s for a megabyte."""
    began = process_time()
    thinking = Thinking()
    thinking.feed(line * (1_000_000 // len(line)))
    thinking.close()
    assert process_time() - began < 8
