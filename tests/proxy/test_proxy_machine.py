"""Whatever a model server does, byte by byte, both kinds of client get nothing but what was verified."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest import TestCase

import hypothesis.strategies as st
import yaml
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.config import Service
from guard.errors import ConfigError, UpstreamConnectError, UpstreamProtocolError, UpstreamTimeout
from guard.procedure.types import Value
from guard.run.ladders import Action
from guard.trace import render
from guard.upstream.faults import of_status
from tests.faults.faithful import NONCE as SAMPLES
from tests.faults.faithful import Sample, carried_out
from tests.faults.injectors import INJECTORS
from tests.proxy.instant import Lane, Played, Stage
from tests.proxy.reading_clients import Asked, Heard, check_heard, read_stream, read_whole
from tests.proxy.running import configured

ORDER: Final = """\
procedure order(note: text, counts: list of int) -> { kind: string, total: decimal(2) }
  extract qty: int from note quote
    where qty >= 1 and qty <= 50
  judge kind: enum("weiß", "grün") from note
    asking "Which colour?"
  sum = 0
  for count in counts at most 5
    sum = sum + count
  price = 10.50
  if kind == "grün"
    price = price * 90% to 2
  require sum < 100 else deny "Zu viele 🙂."
  return { kind: kind, total: price * qty + sum }
"""
# The first decision is admissible and still may let the procedure fail, at once or later.
SHARES: Final = """\
procedure shares(note: text) -> decimal(2)
  extract people: int from note
  check people < 100
  rest = 10 - people
  each = 90 / rest to 2
  return each
"""
NOTE: Final = "Sechs Türen, bitte: grün."
INPUTS: Final[dict[str, dict[str, Any]]] = {
    "order": {"note": NOTE, "counts": [3, 4]},
    "shares": {"note": NOTE},
}
DECISIONS: Final[dict[str, dict[str, Value]]] = {
    "order": {"qty": 6, "kind": "grün"},
    "shares": {"people": 6},
}
HIDDEN: Final = "HIDDEN"  # in whatever no client may ever see
LATE: Final = {"out_of_time"}

KINDS: Final = st.sampled_from(["generic", "llama.cpp"])
LADDERS: Final = st.one_of(
    st.just("default"),
    st.lists(
        st.sampled_from(sorted(set(Action) - {Action.RELEASE})),
        min_size=1,
        max_size=5,
        unique=True,
    ),
)
POLICIES: Final = st.fixed_dictionaries(
    {
        "actions": LADDERS,
        "deliver": st.sampled_from(["hold_step", "hold_all"]),
        "content": st.sampled_from(["answer", "trace", "both"]),
        "steps_as": st.sampled_from(["reasoning", "none"]),
        "compute": st.sampled_from(["model", "guard"]),
        "force": st.sampled_from(["none", "shape", "operands"]),
        "attempts": st.integers(1, 4),
        "transport_retries": st.integers(0, 2),
        "tolerant": st.booleans(),
        "output_tokens": st.sampled_from([60, 8000]),
        "usage": st.sampled_from(["sum", "last"]),
        "votes": st.sampled_from([None, None, {"ahead": 2, "most": 3}]),
        "commit_after_s": st.sampled_from([0, 2, 10]),
    }
)


@cache
def service(name: str, policy: str) -> Service:
    """The service with a procedure and a policy, which is JSON."""
    try:
        return _service(name, json.loads(policy))
    except ConfigError:  # what could never work is refused
        return _service(name, {**json.loads(policy), "actions": "default"})


def _service(name: str, policy: dict[str, Any]) -> Service:
    if policy["compute"] == "guard":
        policy["force"] = "values"
    config = {
        "procedures": ["them.proc"],
        "upstreams": {
            upstream: {"kind": "generic", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
            for upstream in ("main", "other")
        },
        "routes": [{"model": "m", "procedure": name, "upstream": ["main", "other"]}],
        "policies": {"default": policy},
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "them.proc").write_text(ORDER + SHARES)
        return configured(Path(folder), yaml.safe_dump(config))


class Servers(RuleBasedStateMachine):
    """A model server that does as it likes, twice: once for a client that streams, once for one that does not."""

    procedure: str

    @initialize(
        policy=POLICIES, kinds=st.tuples(KINDS, KINDS), wants_usage=st.booleans(), size=st.integers(1, 60)
    )
    def begin(self, policy: dict[str, Any], kinds: tuple[str, str], wants_usage: bool, size: int) -> None:
        self.service = service(self.procedure, json.dumps(policy))
        program = self.service.policies["default"].procedures[self.procedure].program
        inputs = program.accept(INPUTS[self.procedure])
        self.asked = Asked(
            program=program, inputs=inputs, content=policy["content"], steps_as=policy["steps_as"],
            wants_usage=wants_usage,
        )  # fmt: skip
        self.sample: Sample = carried_out("", program, inputs, DECISIONS[self.procedure])
        self.hold_all, self.size, self.unheard = policy["deliver"] == "hold_all", size, 0
        self.lanes = [self.lane(kinds, stream=stream) for stream in (True, False)]
        self.text = ["" for _ in self.lanes]  # what the assistant has said, as the server knows it
        self.told = [0 for _ in self.lanes]  # generations that were opened
        self.stage = Stage(self.service, *self.lanes)
        self.settle()

    def lane(self, kinds: tuple[str, str], *, stream: bool) -> Lane:
        upstreams = {name: Played(name, kind) for name, kind in zip(("main", "other"), kinds, strict=True)}
        request: dict[str, Any] = {
            "model": "m",
            "messages": [{"role": "user", "content": "Grüße!"}],
            "stepguard": {"inputs": INPUTS[self.procedure]},
            "stream": stream,
        }
        if stream and self.asked.wants_usage:
            request["stream_options"] = {"include_usage": True}
        return Lane(request, upstreams)

    # --- what happens in both --------------------------------------------------------------------

    def settle(self) -> None:
        self.stage.settle()
        for i, lane in enumerate(self.lanes):
            if len(lane.opened) > self.told[i]:
                self.told[i] = len(lane.opened)
                self.text[i] = said_before(lane)

    def say(self, *texts: str, size: int | None = None, **delta: object) -> None:
        """Let both servers say something, in chunks and reads of some size; `{nonce}` is the request's."""
        for i, lane in enumerate(self.lanes):
            for text in texts:
                spoken = text.replace("{nonce}", nonce_of(lane))
                if lane.said is not None:
                    self.text[i] += spoken
                    lane.say(b"".join(chunk(piece, **delta) for piece in cut(spoken, size or self.size)))
        self.settle()

    def send(self, data: bytes | Exception) -> None:
        for lane in self.lanes:
            lane.say(data)
        self.settle()

    def writing(self) -> bool:
        return self.lanes[0].open is not None

    def due(self) -> tuple[str, str]:
        """What is begun of the line that is due, and the whole of it as it should be."""
        text, lane = self.text[0], self.lanes[0]
        checker = Checker(self.asked.program, self.asked.inputs, nonce=nonce_of(lane))
        checker.feed(text)
        begun = text.rpartition("\n")[2]
        if not text.strip():
            return begun, f"@begin {self.procedure} {{nonce}}\n"
        if checker.expected is None or checker.verdict is Verdict.FAILED:
            return begun, "@end {nonce}\n"
        decision = checker.expected.decision
        value = None if decision is None else DECISIONS[self.procedure][checker.expected.target or ""]
        quotes = () if value is None else render.supporting_quotes(checker.expected, value)
        return begun, render.line(checker.expected, value, quotes) + "\n"

    # --- what a server may do --------------------------------------------------------------------

    @precondition(writing)
    @rule(lines=st.integers(1, 13), half=st.booleans())
    def writes_faithfully(self, lines: int, half: bool) -> None:
        for _ in range(lines):
            if not self.writing():
                return
            begun, line = self.due()
            rest = line.removeprefix(begun) if line.startswith(begun) else "\n"
            if half:
                self.say(rest[: len(rest) // 2])
            if self.writing():
                self.say(rest[len(rest) // 2 :] if half else rest)

    @precondition(writing)
    @rule(value=st.sampled_from([10, 50, 99, 120, "weiß"]), rare=st.integers(0, 1))
    def decides_otherwise(self, value: Value, rare: int) -> None:
        if rare == 0 and self.writing():
            begun, line = self.due()
            changed = line.replace("= 6", f"= {value}").replace(
                '"grün"', json.dumps(value, ensure_ascii=False)
            )
            self.say(changed.removeprefix(begun) if changed.startswith(begun) else "\n")

    @precondition(writing)
    @rule(name=st.sampled_from(sorted(INJECTORS)), pick=st.integers(0, 99), ahead=st.integers(0, 9))
    def departs(self, name: str, pick: int, ahead: int) -> None:
        if ahead:
            self.writes_faithfully(lines=ahead, half=False)
        text = self.text[0]
        done = text.count("\n") - 1
        faithful = self.sample.trace.replace(SAMPLES, nonce_of(self.lanes[0]))
        if not self.writing() or not 0 <= done < len(self.sample.steps) or not faithful.startswith(text):
            return
        mutants = list(INJECTORS[name](self.sample, done))
        if mutants:
            mutant = mutants[pick % len(mutants)].text.replace(SAMPLES, "{nonce}")
            behind = mutant[len(text) - len(nonce_of(self.lanes[0])) + len("{nonce}") :]
            self.say(behind[:400])

    @precondition(writing)
    @rule(
        text=st.sampled_from(
            [f"{HIDDEN}\n", f"Sure: {HIDDEN}", "```\n", "\n", "9 x = 1\n", "@end {nonce}\n", "@begin x abcdef\n",
             f"\u2028{HIDDEN}\r\n", "<think>HIDDEN</think>\n", "é🙂" * 9, "1 " + "9" * 999 + "\n"]
        ),
        rare=st.integers(0, 5),
    )  # fmt: skip
    def writes_anything(self, text: str, rare: int) -> None:
        if rare == 0:
            self.say(text)

    @precondition(writing)
    @rule(rare=st.integers(0, 1))
    def repeats_what_stands(self, rare: int) -> None:
        lane = self.lanes[0]
        if rare == 0 and lane.open is not None:
            prefix = lane.open.prefix.replace(nonce_of(lane), "{nonce}")
            stands = self.text[0].replace(nonce_of(lane), "{nonce}")
            fresh = self.text[0] == lane.open.prefix
            self.say(prefix if prefix and fresh else stands)
            if prefix and fresh:
                for i in range(len(self.lanes)):
                    self.text[i] = self.text[i][: -len(lane.open.prefix)] if self.writing() else self.text[i]

    @precondition(writing)
    @rule(
        delta=st.sampled_from(
            [
                {"reasoning_content": f"{HIDDEN} thought"},
                {"reasoning": HIDDEN},
                {"refusal": f"{HIDDEN}, I cannot"},
                {"tool_calls": [{"index": 0, "id": "c", "function": {"name": HIDDEN, "arguments": "{}"}}]},
                {"role": "assistant"},
                {"content": [{"type": "text", "text": ""}, {"type": "image", "text": HIDDEN}]},
                {"audio": HIDDEN},
                {},
            ]
        )
    )
    def says_something_beside(self, delta: dict[str, object]) -> None:
        self.send(event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))

    @precondition(writing)
    @rule(
        data=st.sampled_from(
            [
                {"choices": [{"index": 1, "delta": {"content": f"1 {HIDDEN}\n"}, "finish_reason": None}]},
                {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]},
                {"choices": []},
                {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5}},
                {"choices": [], "x": HIDDEN},
            ]
        )
    )
    def sends_a_chunk_of_no_account(self, data: object) -> None:
        self.send(event(data))

    @precondition(writing)
    @rule(
        reason=st.sampled_from(["stop", "length", "content_filter", "tool_calls", None]),
        usage=st.none() | st.integers(0, 90),
        done=st.booleans(),
        rare=st.integers(0, 3),
    )
    def ends(self, reason: str | None, usage: int | None, done: bool, rare: int) -> None:
        if rare == 0:
            last: dict[str, object] = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
            if usage is not None:
                last["usage"] = {"prompt_tokens": 20, "completion_tokens": usage}
            self.send(event(last))
            self.send(b"data: [DONE]\n\n" if done else b"")
            self.send(b"")

    @precondition(writing)
    @rule(
        data=st.sampled_from(
            [
                b'data: {"error": {"message": "HIDDEN overload", "code": 503}}\n\n',
                b"data: {HIDDEN\n\n",
                b'data: {"choices": [{"delta": {"content": "HID',
                b": a comment\n\n",
                b"event: ping\ndata: {}\n\n",
                b"\xff\xfe",
                b"<html>HIDDEN</html>",
                UpstreamTimeout("nothing was said in time"),
                UpstreamProtocolError("the connection broke off in the middle of the answer"),
                UpstreamConnectError("no connection: refused"),
                *(
                    of_status(status, {"retry-after": "1"}, b"trouble")
                    for status in (400, 401, 429, 500, 503)
                ),
            ]
        ),
        rare=st.integers(0, 7),
    )
    def fails(self, data: bytes | Exception, rare: int) -> None:
        if rare == 0:
            self.send(data)
            if isinstance(data, bytes) and data.startswith(b'data: {"choices'):
                self.send(b"")

    @precondition(writing)
    @rule(seconds=st.sampled_from([1, 3, 11]))
    def is_slow(self, seconds: int) -> None:
        self.stage.wait(seconds)

    @precondition(writing)
    @rule(split=st.integers(1, 5))
    def writes_byte_by_byte(self, split: int) -> None:
        begun, line = self.due()
        rest = line.removeprefix(begun) if line.startswith(begun) else "\n"
        for i, lane in enumerate(self.lanes):
            spoken = rest.replace("{nonce}", nonce_of(lane))
            if lane.said is not None:
                self.text[i] += spoken
                data = b"".join(chunk(piece) for piece in cut(spoken, self.size))
                for at in range(0, len(data), split):
                    lane.say(data[at : at + split])
        self.settle()

    @precondition(lambda self: not self.writing())
    @rule()
    def is_over(self) -> None:
        """Nothing can happen any more."""

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def both_clients_are_served_alike(self) -> None:
        one, other = self.lanes
        assert [story(lane) for lane in one.opened] == [story(lane) for lane in other.opened]
        assert (one.open is None) == (other.open is None)

    @invariant()
    def nothing_leaves_that_was_not_verified(self) -> None:
        stream, whole = self.lanes
        assert HIDDEN.encode() not in stream.body.split(b'"error"')[0] + whole.body.split(b'"error"')[0]
        assert not whole.body or whole.whole
        assert stream.whole is whole.whole
        if stream.opened and self.streaming:
            heard = self.heard_stream()
            check_heard(heard, self.asked, nonce_of(stream))
            if self.hold_all and heard.report is None:
                assert heard.steps + heard.content == ""

    @property
    def streaming(self) -> bool:
        return self.lanes[0].headers.get("content-type", "").startswith("text/event-stream")

    def heard_stream(self) -> Heard:
        stream = self.lanes[0]
        return read_stream(stream.body.decode(), self.asked, whole=stream.whole)

    @invariant()
    def the_ends_are_the_same(self) -> None:
        stream, whole = self.lanes
        if not whole.whole:
            return
        assert not self.writing()
        heard = read_whole(whole.body.decode())
        check_heard(heard, self.asked, nonce_of(whole) if whole.opened else "")
        other = self.heard_stream() if self.streaming else read_whole(stream.body.decode())
        assert stream.status == (200 if self.streaming else whole.status)
        assert (heard.error is None) == (whole.status == 200)
        if other.error is None:
            assert plain(heard.content, whole) == plain(other.content, stream)
        assert verdict(heard) == verdict(other)
        if other.error is None:
            assert heard.steps == other.steps
            assert other.usage == (heard.usage if self.asked.wants_usage else None)

    def teardown(self) -> None:
        """However stubborn it is, both clients get an end."""
        if not hasattr(self, "stage"):
            return
        try:
            for number in range(100):
                if self.lanes[1].whole:
                    break
                self.writes_faithfully(lines=2, half=False)
                self.say(f"nonsense {number}\n")
                self.send(b"")
            assert self.lanes[0].whole
            assert self.lanes[1].whole
            self.both_clients_are_served_alike()
            self.nothing_leaves_that_was_not_verified()
            self.the_ends_are_the_same()
        finally:
            self.stage.close()


def nonce_of(lane: Lane) -> str:
    """The nonce that the last request named last."""
    messages = json.dumps(lane.opened[-1].messages, ensure_ascii=False)
    return messages.rpartition("@begin ")[2].split()[1][:6]


def plain(content: str, lane: Lane) -> str:
    """A content without what is of this request only."""
    return content.replace(nonce_of(lane), "{nonce}") if lane.opened else content


def said_before(lane: Lane) -> str:
    """What the assistant has said when a generation is opened."""
    command = lane.opened[-1]
    if command.prefix:
        return command.prefix
    said = [str(message["content"]) for message in command.messages if message["role"] == "assistant"]
    return f"{said[-1]}\n" if said else ""


def story(command: Any) -> object:
    """A generation that was asked for, without what is of this request only."""
    nonce = json.dumps(command.messages, ensure_ascii=False).rpartition("@begin ")[2].split()[1][:6]
    return repr(command).replace(nonce, "{nonce}")


def verdict(heard: Heard) -> object:
    """What a client is told of how it went, without what is of this request only.

    Where there is no answer, a stream may still have delivered something.
    """
    assert heard.report is not None
    own = {name: value for name, value in heard.report.items() if name != "audit_id"}
    if heard.error is not None:
        usage = {name: value for name, value in own.pop("usage").items() if "delivered" not in name}
        lost = [one.pop("discarded_tokens") for one in usage["generations"]]
        assert usage.pop("discarded_tokens") == sum(lost)
        own["usage"] = usage
    return own, heard.error


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def event(data: object) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def chunk(text: str, **delta: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text, **delta}, "finish_reason": None}]})


def _test_case(name: str) -> type[TestCase]:
    class Case(Servers):
        procedure = name

    case: type[TestCase] = Case.TestCase
    case.settings = settings(  # type: ignore[attr-defined]
        max_examples=100,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    return case


TestOrder = _test_case("order")
TestShares = _test_case("shares")
