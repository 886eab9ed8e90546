"""What a client reads of a run: the report, the headers, and the answer in one piece or as a stream."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import orjson

from guard.check.verdict import Violation
from guard.foreign import Sink
from guard.proxy import declined
from guard.proxy.binding import Bound
from guard.run.asked import Asked, Asking
from guard.run.messages import Emit, Finish, Outcome, Raced, Relay, RunError, Usage, Voted
from guard.trace import render
from guard.wire import sse
from guard.wire.chat import Envelope
from guard.wire.problem import ErrorAnswer, of_failure

STREAM_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),  # nginx would hold small pieces back
)
UNVERIFIED = (("x-stepguard-unverified", "true"),)
FINISH_REASONS: Final = frozenset({"stop", "length", "content_filter", "tool_calls"})  # that clients know
_HEADER: Final = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")  # what a header's value may be everywhere
KEEP_ALIVE = sse.comment("keep-alive")
DONE = sse.encode(sse.DONE)


class Answer:
    """What both kinds of answer share. Turns commands of a run into bytes; sends nothing."""

    def __init__(
        self, bound: Bound, *, audit_id: str, nonce: str, created: int, sink: Sink, asking: Asking
    ) -> None:
        self._bound, self._audit_id, self._nonce, self._sink = bound, audit_id, nonce, sink
        self._asking = asking
        self._envelope = Envelope(id=f"chatcmpl-{audit_id}", model=bound.request.model, created=created)
        self._begun = self._traced = False  # whether the role, and some of the trace, has been sent
        self._thoughts: dict[int, list[str]] = {}  # of each generation, for an answer in one piece

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that are known before the end: who is asked can change later."""
        return self._headers(self._asking.last())

    def _headers(self, asked: Asked | None) -> tuple[tuple[str, str], ...]:
        program = self._bound.program
        return (
            ("x-stepguard-procedure", program.name),
            ("x-stepguard-digest", program.digest),
            ("x-stepguard-audit-id", self._audit_id),
            *(() if asked is None else _who(asked)),
        )

    def headers_at(self, finish: Finish) -> tuple[tuple[str, str], ...]:
        """Those of an answer that begins only when the run is over."""
        released = (("x-stepguard-outcome", finish.outcome.value), *UNVERIFIED)
        asked = self._headers(self._asking.last(_lost(finish)))
        return (*asked, *(released if finish.outcome is Outcome.RELEASED else ()))

    # --- in one piece ----------------------------------------------------------------------------

    def whole(self, finish: Finish) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """Status, headers and body of the answer to a client that did not ask for a stream."""
        outcome = (
            *self._headers(self._asking.last(_lost(finish))),
            ("x-stepguard-outcome", finish.outcome.value),
            ("x-stepguard-attempts", str(finish.attempts)),
            *(UNVERIFIED if finish.outcome is Outcome.RELEASED else ()),
        )
        if finish.error is not None:
            failure = self._told(finish.error)
            return failure.status, (*failure.headers, *outcome), self._failure(failure, finish)
        finish = self._let_out(finish)
        body = self._envelope.completion(
            self._content(finish),
            refusal=declined.refusal(finish),
            reasoning=_steps(finish) if self._bound.as_reasoning else self._thought or None,
            finish_reason=finish.finish_reason,
            usage=self._usage(finish),
            stepguard=self.report(finish) | self._thinking(),
        )
        return 200, (("content-type", "application/json"), *outcome), body

    def keep(self, relay: Relay) -> None:
        """Take a thought that is to go out with the answer."""
        self._thoughts.setdefault(relay.generation, []).append(self._sink.redacted(relay.text))

    @property
    def _thought(self) -> str:
        return "\n".join("".join(texts) for texts in self._thoughts.values())

    def _thinking(self) -> dict[str, object]:
        """What models thought, where that goes to the client: unverified, whatever became of the answer."""
        thoughts = [
            {"generation": number, "text": "".join(texts), "unverified": True}
            for number, texts in self._thoughts.items()
        ]
        return {"reasoning": thoughts} if thoughts else {}

    def _content(self, finish: Finish) -> str | None:
        match self._bound.content:
            case "answer" if declined.refusal(finish) is not None:
                return declined.content(self._bound.response_format, finish)
            case "answer":
                return finish.answer or ""
            case "trace":
                return finish.trace + finish.unverified
            case "both":
                return f"{_ended(finish.trace + finish.unverified)}\n{finish.answer or ''}"

    # --- as a stream -----------------------------------------------------------------------------

    def step(self, emit: Emit) -> bytes:
        """Make the events of a verified step; none where the client gets no steps."""
        if self._bound.content != "answer":
            begin = "" if self._traced else render.begin(self._bound.program.name, self._nonce) + "\n"
            self._traced = True
            return self._events(self._envelope.content(begin + emit.text))
        if self._bound.as_reasoning:
            return self._events(self._envelope.reasoning(emit.text))
        return b""

    def thought(self, relay: Relay) -> bytes:
        """Make the event of a thought, marked: in the field for reasoning only where no steps go there."""
        mark: dict[str, object] = {
            "unverified": True,
            "generation": relay.generation,
            "reasoning": self._sink.redacted(relay.text),
        }
        text = "" if self._bound.as_reasoning else self._sink.redacted(relay.text)
        return self._events(self._envelope.thought(text, stepguard=mark))

    def last(self, finish: Finish) -> bytes:
        """Make the events behind the last step: what is left of the answer and the report, or the error."""
        if finish.error is not None:
            return sse.encode(self._failure(self._told(finish.error), finish)) + DONE
        finish = self._let_out(finish)
        released = finish.outcome is Outcome.RELEASED
        mark: dict[str, object] | None = {"unverified": True} if released else None
        left, declines = self._content(finish), declined.refusal(finish)
        if self._traced and left is not None:  # all of the verified trace but its closing line has been sent
            left = left[len(finish.trace) - len(_closing(finish)) :]
        events = [] if left is None else [self._envelope.content(left, stepguard=mark)]
        if declines is not None:
            events.append(self._envelope.refusal(declines, stepguard=mark))
        if self._bound.as_reasoning and _goes_on(finish):
            events.insert(0, self._envelope.reasoning(finish.unverified, stepguard=mark))
        events.append(self._envelope.finish(finish.finish_reason, self.report(finish)))
        if self._bound.request.wants_usage:
            events.append(self._envelope.usage(self._usage(finish)))
        return self._events(*events) + DONE

    def _events(self, *data: bytes) -> bytes:
        role = () if self._begun else (self._envelope.role(),)
        self._begun = True
        return b"".join(map(sse.encode, (*role, *data)))

    def _let_out(self, finish: Finish) -> Finish:
        """Give the end of a run as it may leave: what was released, and how it ended."""
        ended = finish.finish_reason if finish.finish_reason in FINISH_REASONS else "length"
        if finish.outcome is not Outcome.RELEASED:
            return replace(finish, finish_reason=ended)
        return replace(
            finish,
            finish_reason=ended,
            answer=self._sink.redacted(finish.answer or ""),
            unverified=self._sink.redacted(finish.unverified),
        )

    # --- what is said of it ----------------------------------------------------------------------

    def _told(self, error: RunError) -> ErrorAnswer:
        return of_failure(error, self._sink, reveal=self._bound.enforced.settings.reveal)

    def _failure(self, failure: ErrorAnswer, finish: Finish) -> bytes:
        return orjson.dumps({**orjson.loads(failure.body), "stepguard": self.report(finish)})

    def report(self, finish: Finish) -> dict[str, object]:
        """Make the `stepguard` object: what was done for this answer and how it went."""
        steps, program = finish.steps, self._bound.program
        return {
            "outcome": finish.outcome.value,
            "unverified": finish.outcome is Outcome.RELEASED,
            "end": finish.end,
            "procedure": program.name,
            "version": program.version,
            "digest": program.digest,
            "audit_id": self._audit_id,
            "attempts": finish.attempts,
            "generations": finish.generations,
            "forced": None if finish.forced is None else finish.forced.value,
            "violations": self._violations(finish),
            "race": _race(finish.raced),
            "steps": steps.to_json(),
            "votes": [_vote(voted) for voted in finish.votes],
            "fidelity": steps.fidelity,
            "upheld": steps.upheld,
            "usage": self._accounts(finish),
            "reason": finish.reason,
        }

    def _usage(self, finish: Finish) -> dict[str, object]:
        """Make the usage that the client reads, by the policy's rule."""
        return usage(finish.usage if self._bound.enforced.settings.usage == "sum" else _last(finish))

    def _accounts(self, finish: Finish) -> dict[str, object]:
        """Say what all generations cost, what the last one did, and what each did; and what of it served."""
        total, discarded = usage(finish.usage), sum(finish.discarded)
        return {
            **total,
            "estimated": _estimated(finish.usage),
            "rule": self._bound.enforced.settings.usage,
            "last": usage(_last(finish)) | {"estimated": _estimated(_last(finish))},
            "delivered_tokens": sum(one.completion for one in finish.usage) - discarded,
            "discarded_tokens": discarded,
            "saved_tokens": finish.saved,
            "generations": [
                usage((one,)) | {"estimated": one.estimated, "discarded_tokens": lost} | self._asked(number)
                for number, (one, lost) in enumerate(zip(finish.usage, finish.discarded, strict=True), 1)
            ],
        }

    def _asked(self, generation: int) -> dict[str, object]:
        asked = self._asking.of(generation)
        return {} if asked is None else {"upstream": asked.upstream, "model": asked.model}

    def _violations(self, finish: Finish) -> list[dict[str, Any]]:
        """What was done wrong; what only other lanes of a race did is marked with their number."""
        lost = () if finish.raced is None else finish.raced.lost
        others = [self._violation(violation) | {"lane": lane, "lost": True} for lane, violation in lost]
        return [*map(self._violation, finish.violations), *others]

    def _violation(self, violation: Violation) -> dict[str, Any]:
        told: dict[str, Any] = {"kind": violation.kind.value, "step": violation.step, "at": violation.at}
        if self._bound.enforced.settings.reveal:
            told["expected"] = self._sink.redacted(violation.expected)
            told["found"] = self._sink.redacted(violation.found)
        return told


def _closing(finish: Finish) -> str:
    """The closing line of a trace; a released one has none of ours."""
    return "" if finish.outcome is Outcome.RELEASED else finish.trace.splitlines(keepends=True)[-1]


def _goes_on(finish: Finish) -> bool:
    """Whether unverified steps follow the verified ones; a text that is all prose is the content itself."""
    return bool(finish.unverified) and finish.unverified.strip("\n") != finish.answer


def _steps(finish: Finish) -> str:
    """The steps without their frame."""
    verified = finish.trace.removesuffix(_closing(finish))
    return verified.partition("\n")[2] + (finish.unverified if _goes_on(finish) else "")


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _race(raced: Raced | None) -> dict[str, object] | None:
    return None if raced is None else {"lanes": raced.lanes, "lane": raced.lane}


def _vote(voted: Voted) -> dict[str, object]:
    return {
        "step": voted.step,
        "cast": voted.cast,
        "agreed": voted.agreed,
        "margin": voted.margin.value,
    }


def _last(finish: Finish) -> tuple[Usage, ...]:
    """Give the usage of the last generation that was gone on with; none where there was none."""
    lost = _lost(finish)
    return tuple(one for number, one in enumerate(finish.usage, 1) if number not in lost)[-1:]


def _lost(finish: Finish) -> frozenset[int]:
    return frozenset() if finish.raced is None else finish.raced.generations_lost


def _who(asked: Asked) -> tuple[tuple[str, str], ...]:
    """Say in headers who was asked; a name that none can hold is only in the report."""
    told = (("x-stepguard-upstream", asked.upstream), ("x-stepguard-model", asked.model))
    return tuple(
        (name, value) for name, value in told if value.strip() == value != "" and _HEADER.fullmatch(value)
    )


def _estimated(generations: tuple[Usage, ...]) -> bool:
    return any(one.estimated or one.counted for one in generations)


def usage(generations: tuple[Usage, ...]) -> dict[str, object]:
    """Add up what generations cost, as on the wire."""
    prompt = sum(one.prompt for one in generations)
    completion = sum(one.completion for one in generations)
    reasoning = sum(one.reasoning for one in generations)
    told: dict[str, object] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return told | ({"completion_tokens_details": {"reasoning_tokens": reasoning}} if reasoning else {})
