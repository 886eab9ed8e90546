"""A faithful model whose text is cut anywhere, for whatever reason: nobody blames it, and no line is spoilt."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Kind, Verdict, Violation
from guard.run.endings import ACCEPTED
from guard.run.messages import (
    Close,
    Command,
    Emit,
    Ended,
    Finish,
    Observe,
    Open,
    Outcome,
    Result,
    Text,
    Wait,
    Waited,
)
from guard.run.policy import ForceBy, Policy
from guard.run.run import Job, Run
from guard.wire.finish import End, end_of
from tests.alone import answer
from tests.run.procedures import DIALOGUE, GRAMMAR, PREFILL
from tests.strategies import NONCE, Sample, samples
from tests.wire.test_finish import CALLS, CUT, FAULTS, OWN

TARGETS = st.sampled_from([PREFILL, DIALOGUE, GRAMMAR])
POLICIES = st.builds(
    Policy,
    force_by=st.sampled_from(ForceBy),
    parallel=st.just(1),
    deliver=st.sampled_from(["hold_step", "hold_all"]),
    attempts=st.just(3),
    output_tokens=st.just(100_000),
)
UNLISTED = st.sampled_from((*CUT, *CALLS)) | st.text(max_size=12).filter(lambda r: end_of(r) is End.CUT)


@dataclass
class Faithful:
    """A model that writes the rest of a faithful trace, whatever it is asked to go on from."""

    run: Run
    sample: Sample
    commands: list[Command] = field(default_factory=list)
    open: Open | None = None

    def start(self) -> None:
        self._take(self.run.start())

    @property
    def finish(self) -> Finish | None:
        return next((each for each in self.commands if isinstance(each, Finish)), None)

    @property
    def emitted(self) -> list[str]:
        return [each.text for each in self.commands if isinstance(each, Emit)]

    def blamed(self) -> list[Kind]:
        return [
            each.judgement.kind
            for each in self.commands
            if isinstance(each, Observe) and isinstance(each.judgement, Violation)
        ]

    def rest(self) -> str:
        """What a faithful model would write now."""
        assert self.open is not None
        trace, prefix = self.sample.trace, self.open.prefix
        if prefix and trace.startswith(prefix):
            return trace[len(prefix) :]
        lines = self.sample.lines
        if self.open.isolated:
            at = next(
                i for i, (step, _) in enumerate(self.sample.steps) if step.path == self.open.resume_from
            )
            return answer(self.sample.program, self.sample.inputs, self.sample.steps, at)
        if all(message["role"] != "assistant" for message in self.open.messages):
            return trace
        at = next(
            (i for i, line in enumerate(lines) if line.startswith(f"{self.open.resume_from} ")),
            len(lines) - 1,
        )
        return "".join(f"{line}\n" for line in lines[at:])

    def says(self, text: str, finish_reason: str | None) -> None:
        """Write something, and end if the generation is still open."""
        assert self.open is not None
        opened = self.open
        for event in (Text(text), Ended(finish_reason)):
            if self.open is opened and self.finish is None:
                self._take(self.run.handle(event))

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            self.commands.append(command)
            match command:
                case Open():
                    self.open = command
                case Close():
                    self.open = None
                case Wait():
                    self._take(self.run.handle(Waited()))
                case _:
                    pass


def playing(sample: Sample, policy: Policy, target: object) -> Faithful:
    messages = ({"role": "user", "content": "Go."},)
    job = Job(program=sample.program, inputs=sample.inputs, messages=messages, nonce=NONCE)  # type: ignore[arg-type]
    model = Faithful(Run(job, policy, (target,)), sample)  # type: ignore[arg-type]
    model.start()
    return model


@settings(max_examples=40)
@given(samples(groups=False), POLICIES, TARGETS, st.data())
def test_no_cut_is_blamed_on_the_model_whatever_it_is_called(
    sample: Sample, policy: Policy, target: object, data: st.DataObject
) -> None:
    model = playing(sample, policy, target)
    for _ in range(8):
        if model.finish is not None:
            break
        rest = model.rest()
        cut = data.draw(st.integers(0, max(0, len(rest) - len(f"@end {NONCE}\n") - 1)))
        model.says(rest[:cut], data.draw(UNLISTED))
    assert set(model.blamed()) <= {Kind.TRUNCATED}
    assert sample.trace.startswith(f"{sample.lines[0]}\n" + "".join(model.emitted)) or not model.emitted


@settings(max_examples=40)
@given(samples(groups=False), POLICIES, TARGETS, st.sampled_from(FAULTS), st.data())
def test_a_fault_that_a_reason_names_is_the_servers(
    sample: Sample, policy: Policy, target: object, reason: str, data: st.DataObject
) -> None:
    model = playing(sample, policy, target)
    generations = 0
    while model.finish is None:
        rest = model.rest()
        cut = data.draw(st.integers(0, max(0, len(rest) - len(f"@end {NONCE}\n") - 1)))
        generations += 1
        model.says(rest[:cut], reason)
    if model.finish.outcome is Outcome.ERROR:
        assert not model.blamed()
        closes = [each.result for each in model.commands if isinstance(each, Close)]
        assert closes.count(Result.UPSTREAM_ERROR) == 1 + policy.transport_retries
        assert model.finish.error is not None
        assert model.finish.error.type == "upstream_error"


@settings(max_examples=40)
@given(samples(groups=False), POLICIES, TARGETS, st.data())
def test_what_is_delivered_reads_as_the_lines_that_were_verified(
    sample: Sample, policy: Policy, target: object, data: st.DataObject
) -> None:
    """A line whose line feed is left out by a model that ends there is a line like any other."""
    model = playing(sample, replace(policy, attempts=20), target)
    for _ in range(40):
        if model.finish is not None:
            break
        rest = model.rest()
        line_ends = [at for at, char in enumerate(rest) if char == "\n"]
        cut = data.draw(st.sampled_from([*line_ends, *(at + 1 for at in line_ends)]))
        model.says(rest[:cut], data.draw(st.sampled_from(OWN)))
    text = f"{sample.lines[0]}\n" + "".join(model.emitted)
    if model.emitted:
        checker = Checker(sample.program, sample.inputs, nonce=NONCE)
        checker.feed(text)
        assert checker.violation is None
        assert checker.verified == text
        assert len(checker.paths) == len(model.emitted)
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in model.emitted)
    if model.finish is not None and model.finish.outcome in ACCEPTED:
        whole = Checker(sample.program, sample.inputs, nonce=NONCE)
        whole.feed(model.finish.trace)
        assert whole.verdict is Verdict.PASSED
        assert model.finish.trace.count("\n") == len(sample.lines)
