"""What a client has of an answer by now, and whether it may: read without any help of the endpoint's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.procedure.execute import Program
from guard.procedure.expected import EndKind
from guard.procedure.types import Value
from guard.procedure.values import answer_text

DONE: Final = "[DONE]"
KEEP_ALIVE: Final = ": keep-alive"
SHARED: Final = ("id", "object", "created", "model")
CHUNK: Final = {*SHARED, "choices"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a client asked for. `content` and `steps_as` as in a policy."""

    program: Program
    inputs: dict[str, Value]
    content: str
    steps_as: str
    wants_usage: bool = False

    def checked(self, text: str, nonce: str | None) -> Checker:
        """Let a fresh checker read a text; the whole of it must be verified."""
        checker = Checker(self.program, self.inputs, nonce=nonce)
        checker.feed(text)
        assert checker.verdict is not Verdict.FAILED, checker.violation
        assert checker.verified == text, "what left is more than was verified"
        return checker

    def answer(self, trace: str) -> str:
        """What a trace comes to."""
        ending = self.checked(trace, None).ending
        assert ending is not None
        if ending.kind in {EndKind.DENY, EndKind.ESCALATE}:
            return str(ending.value)
        return answer_text(ending.value, self.program.result)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a client has: steps, content, and how it ended (None where it has not)."""

    steps: str
    content: str
    report: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


def read_stream(body: str, asked: Asked, *, whole: bool) -> Heard:
    """Read a stream, as far as it is there, and see that it is well made."""
    blocks = body.split("\n\n")
    assert blocks.pop() == "", "a piece is a whole event"
    datas = [block.removeprefix("data: ") for block in blocks if block != KEEP_ALIVE]
    assert datas.count(DONE) == whole
    assert not whole or datas.pop() == DONE
    events = [json.loads(data) for data in datas]
    chunks = [event for event in events if "error" not in event]
    assert chunks == events[: len(chunks)], "an error is the last thing"
    assert len({tuple(chunk[name] for name in SHARED) for chunk in chunks}) <= 1
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    deltas = [choice["delta"] for choice in choices]
    assert [bool(delta.get("role")) for delta in deltas] == [True, *[False] * len(deltas)][: len(deltas)]
    assert all(set(delta) <= {"role", "content", "reasoning_content"} for delta in deltas)
    return Heard(
        steps="".join(delta.get("reasoning_content", "") for delta in deltas),
        content="".join(delta.get("content", "") for delta in deltas),
        **_end_of_stream(chunks, events[len(chunks) :], asked, whole=whole),
    )


def _end_of_stream(
    chunks: list[Any], errors: list[Any], asked: Asked, *, whole: bool
) -> dict[str, dict[str, Any]]:
    """See that a stream has one end: a reason to finish and the usage as asked, or one error."""
    ends = [i for i, chunk in enumerate(chunks) if any(c["finish_reason"] for c in chunk["choices"])]
    for i, chunk in enumerate(chunks):
        extra = {"stepguard"} if i in ends else {"usage"} if not chunk["choices"] else set()
        assert set(chunk) == CHUNK | extra
    assert len(ends) + len(errors) == whole
    if errors:
        return {"report": errors[0]["stepguard"], "error": errors[0]["error"]}
    behind = chunks[ends[0] + 1 :] if ends else []
    assert [chunk["choices"] for chunk in behind] == [[]] * (whole and asked.wants_usage)
    assert all(chunk["choices"] for chunk in chunks[: len(chunks) - len(behind)])
    told = {"usage": behind[0]["usage"]} if behind else {}
    return told | ({"report": chunks[ends[0]]["stepguard"]} if ends else {})


def read_whole(body: str) -> Heard:
    """Read an answer in one piece."""
    raw = json.loads(body)
    if "error" in raw:
        return Heard(steps="", content="", report=raw["stepguard"], error=raw["error"])
    (choice,) = raw["choices"]
    assert set(raw) == {*CHUNK, "usage", "stepguard"}
    assert set(choice["message"]) <= {"role", "content", "refusal", "reasoning_content"}
    assert choice["message"]["refusal"] is None
    return Heard(
        steps=choice["message"].get("reasoning_content", ""),
        content=choice["message"]["content"],
        report=raw["stepguard"],
        usage=raw["usage"],
    )


def check_heard(heard: Heard, asked: Asked, nonce: str) -> None:
    """See that a client has nothing but verified steps and, at the end, the answer that they come to."""
    begin, end = f"@begin {asked.program.name} {nonce}\n", f"@end {nonce}\n"
    answered = heard.report is not None and heard.error is None
    if heard.report is not None:
        check_accounts(heard.report["usage"], heard.usage, served=bool(heard.steps or heard.content))
    if asked.content == "answer":
        trace = begin + heard.steps + end * answered
        if asked.steps_as == "none":
            assert heard.steps == ""
        elif heard.steps:
            asked.checked(trace, nonce)
        assert bool(heard.content) is answered
        if answered and asked.steps_as == "reasoning":
            assert heard.content == asked.answer(trace)
        return
    assert heard.steps == ""
    trace = heard.content
    if answered and asked.content == "both":
        trace, _, answer = trace.partition(f"{end}\n")
        trace += end
        assert answer == asked.answer(trace)
    assert trace.endswith(end) is answered
    if trace:
        asked.checked(trace, nonce)


def check_accounts(told: dict[str, Any], usage: dict[str, Any] | None, *, served: bool) -> None:
    """See that all generations add up, and that each token is delivered or discarded."""
    each, numbers = told["generations"], ("prompt_tokens", "completion_tokens", "total_tokens")
    for name in numbers:
        assert told[name] == sum(one[name] for one in each)
        assert told["last"][name] == (each[-1][name] if each else 0)
        if usage is not None:
            assert usage[name] == (told if told["rule"] == "sum" else told["last"])[name]
    assert told["discarded_tokens"] == sum(one["discarded_tokens"] for one in each)
    assert told["delivered_tokens"] + told["discarded_tokens"] == told["completion_tokens"]
    assert all(0 <= one["discarded_tokens"] <= one["completion_tokens"] for one in each)
    assert told["delivered_tokens"] == 0 or served
    assert told["saved_tokens"] >= 0
