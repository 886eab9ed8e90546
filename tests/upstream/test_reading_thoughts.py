"""Thoughts in an answer: parted from its text, with the tokens that each of them cost."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.run.messages import Text, Usage
from guard.upstream.reading import AnswerReader
from tests.thoughts import CANARY, cuts, thoughts
from tests.upstream.servers import DONE, event, said

TRACE = "@begin p aaaaaa\n1 a = 3\n2 return 3\n@end aaaaaa\n"


def read(*events: bytes, **settings: object) -> tuple[list[Text], AnswerReader]:
    reader = AnswerReader(**settings)  # type: ignore[arg-type]
    texts = [text for one in (*events, said(None, "stop"), DONE) for text in reader.feed(one)]
    texts += reader.close()
    assert reader.fault is None
    return texts, reader


def text_of(texts: list[Text]) -> str:
    return "".join(text.text for text in texts)


def thought_of(texts: list[Text]) -> str:
    return "".join(text.thought or "" for text in texts)


@given(st.data(), thoughts(), st.booleans())
def test_every_token_is_a_thought_or_none_and_none_is_lost(
    data: st.DataObject, front: str, by_chunk: bool
) -> None:
    pieces = [piece for piece in data.draw(cuts(front + TRACE)) if piece]
    texts, reader = read(*map(said, pieces), token_per_chunk=by_chunk)
    assert text_of(texts) == TRACE
    assert thought_of(texts).count(CANARY) == front.count(CANARY)
    assert all(text.text == "" for text in texts if text.thought is not None)
    usage = reader.ended().usage
    assert usage is not None
    written = sum(1 if by_chunk else max(1, len(piece) // 4) for piece in pieces)
    assert usage.completion == written
    assert usage.reasoning == sum(text.tokens for text in texts if text.thought is not None)
    assert usage.reasoning <= written
    assert usage.reasoning or by_chunk or not front
    told = sum(text.tokens for text in texts)
    assert told <= written


def test_thoughts_cost_what_they_are_of_a_piece() -> None:
    texts, _ = read(said("<think>" + "x" * 60 + "</think>" + TRACE[:60].ljust(60)))
    (thought,) = (text for text in texts if text.thought)
    (spoken,) = (text for text in texts if text.text)
    assert thought.tokens + spoken.tokens == (60 + 15 + len(spoken.text)) // 4
    assert abs(thought.tokens - (thought.tokens + spoken.tokens) * 60 // (60 + len(spoken.text))) <= 1


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking_text"])
def test_a_row_may_name_another_field(name: str) -> None:
    texts, reader = read(said(None, **{name: "x" * 40}), said(TRACE), reasoning=("thinking_text",))
    assert (thought_of(texts), text_of(texts)) == ("x" * 40, TRACE)
    usage = reader.ended().usage
    assert usage is not None
    assert usage.reasoning == 10


def test_the_same_thought_in_two_fields_is_one() -> None:
    texts, _ = read(said(None, reasoning_content="hm", reasoning="hm"), said(TRACE))
    assert thought_of(texts) == "hm"


def test_thoughts_may_be_parts_of_the_content() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "thinking", "thinking": "so"},
        {"type": "text", "text": TRACE},
    ]
    choice = {"index": 0, "delta": {"content": parts}, "finish_reason": None}
    texts, _ = read(event({"choices": [choice]}))
    assert (thought_of(texts), text_of(texts)) == ("hmso", TRACE)


def test_where_the_prompt_has_begun_them_an_answer_begins_among_them() -> None:
    texts, _ = read(said("hm\n"), said("</think>\n\n"), said(TRACE), thinks=True)
    assert (thought_of(texts), text_of(texts)) == ("hm\n", TRACE)


def test_behind_a_prefix_a_tag_is_text() -> None:
    texts, _ = read(said("<think>hm</think>"), prefix="@begin p aaaaaa\n1")
    assert (thought_of(texts), text_of(texts)) == ("", "<think>hm</think>")


def test_members_of_an_object_come_behind_thoughts() -> None:
    texts, _ = read(said("<think>{hm}</think>\n"), said('{"1 a = ": "3"}'), members=True)
    assert (thought_of(texts), text_of(texts)) == ("{hm}", "1 a = 3\n")


@pytest.mark.parametrize(("told", "most"), [(4, 4), (9, 9), (12, 9)])
def test_what_the_server_says_of_thoughts_is_told_up_to_all_that_it_has_written(told: int, most: int) -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": told}}
    _, reader = read(said(TRACE), event({"choices": [], "usage": usage}))
    assert reader.ended().usage == Usage(completion=9, reasoning=most)


@pytest.mark.parametrize("details", [None, 3, [], {"reasoning_tokens": "many"}, {"reasoning_tokens": -1}, {}])
def test_what_cannot_be_meant_of_them_is_not(details: object) -> None:
    told = {"completion_tokens": 9, "completion_tokens_details": details}
    _, reader = read(said(TRACE), event({"choices": [], "usage": told}))
    assert reader.ended().usage == Usage(completion=9)
