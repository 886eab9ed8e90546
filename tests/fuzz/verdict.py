"""What is wrong with a run that was played, in sentences; none where the oracle has nothing against it.

What the oracle knows of a policy: which actions a violation may lead to, who may write a line, how often and how
much may be asked for, and that a model which makes no mistake, or few under a policy that asks again, comes through.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final

from guard.check.verdict import Kind, Violation
from guard.dialect.line import Level
from guard.run.ladders import ALL, Action, Rule, Rung
from guard.run.messages import Emit, Finish, Open, Outcome, StepClass, Strategy
from guard.run.policy import ForceBy
from tests.faults.faithful import NONCE
from tests.fuzz.blame import HARMLESS, is_due, missed
from tests.fuzz.client import read
from tests.fuzz.model import squeezed
from tests.fuzz.oracle import Forbidden, Foreseen, foresee, means, quotes, shows, stands
from tests.fuzz.play import Played
from tests.fuzz.scenario import AMPLE, NOTE, OWN_ENDS, Manner, Mishap

ACCEPTED: Final = frozenset(
    {Outcome.ACCEPTED_FIRST, Outcome.ACCEPTED_AFTER_RETRY, Outcome.ACCEPTED_BY_FALLBACK, Outcome.REPAIRED}
)
BY_MODEL: Final = frozenset({StepClass.VERIFIED, StepClass.MODEL_DECIDED})
BY_GUARD: Final = frozenset({StepClass.REPAIRED, StepClass.COMPUTED})
_PASS: Final = re.compile(r"\[[0-9]+\]")
WITHIN_PATIENCE: Final = 2  # mistakes


def complaints(played: Played) -> list[str]:
    """Say what is wrong with a run."""
    verdict = _Verdict(played)
    try:
        return [f"{check.__name__.strip('_')}: {what}" for check in verdict.checks for what in check()]
    except Forbidden as forbidden:
        return [f"decided: step {forbidden} stands though its `where` does not hold"]


class _Verdict:
    def __init__(self, played: Played) -> None:
        assert played.finish is not None
        self._played, self._finish = played, played.finish
        self._scenario, self._policy = played.scenario, played.scenario.policy
        self.checks = (
            self._delivered,
            self._written,
            self._decided,
            self._answered,
            self._read,
            self._held,
            self._counted,
            self._blamed,
            self._budgets,
            self._ended,
            self._came_through,
        )

    @cached_property
    def _lines(self) -> list[str]:
        """The lines that stood in the end, with their ends."""
        return self._finish.trace.splitlines(keepends=True)[1:]

    @cached_property
    def _foreseen(self) -> Foreseen:
        """What the lines ought to be, on what the model decided."""
        scenario, memory = self._scenario, self._played.model.memory
        body = [line for line in self._lines if line.strip() and not line.startswith("@")]
        paths = [line.split()[0] for line in body]
        decided = {
            path: memory[squeezed(line)]
            for path, line in zip(paths, body, strict=True)
            if squeezed(line) in memory
        }
        types = {name: program.types for name, program in scenario.library.procedures.items()}
        return foresee(scenario.library.module, types, scenario.inputs, decided, paths)

    # --- what the client got ---------------------------------------------------------------------

    def _delivered(self) -> Iterator[str]:
        """A prefix of the expected lines, in a frame of its own, each once and whole."""
        given = "".join(emit.text for emit in self._played.emits)
        opening = f"@begin main {NONCE}\n"
        closing = f"@end {NONCE}\n" if self._finish.outcome in ACCEPTED else ""
        trace, whole = self._finish.trace, self._finish.outcome in {*ACCEPTED, Outcome.RELEASED}
        if given and not (
            trace == f"{opening}{given}{closing}" if whole else trace.startswith(opening + given)
        ):
            yield f"the trace {trace!r} is not what was delivered, {given!r}"
        for emit, (path, value) in zip(self._played.emits, self._foreseen.lines, strict=False):
            if emit.step != path:
                yield f"step {emit.step} came where {path} was to come"
                return
            if not emit.text.endswith("\n") or emit.text.count("\n") != 1:
                yield f"{emit.text!r} is not one line"
            if value is not None and emit.value != value:
                yield f"step {path} has the value {emit.value!r} instead of {value!r}"
            if value is not None and not shows(emit.text, value) and " return " not in emit.text:
                yield f"the line {emit.text!r} does not show {value!r}"
        if len(self._played.emits) > len(self._foreseen.lines):
            yield f"{len(self._played.emits)} steps came where {len(self._foreseen.lines)} were to come"

    def _written(self) -> Iterator[str]:
        """A line is the model's where it says so, and the guard's where the policy lets it."""
        for emit in self._played.emits:
            yield from self._who(emit)

    def _who(self, emit: Emit) -> Iterator[str]:
        written = _bare(emit.text) in self._played.written
        decided = squeezed(emit.text) in self._played.model.memory
        if emit.step_class in BY_MODEL and not written and not emit.isolated:
            yield f"{emit.text!r} is {emit.step_class.value}, and no model wrote it"
        if (
            emit.step_class is StepClass.SCAFFOLDED
            and not written
            and self._policy.force_by is ForceBy.GRAMMAR
            and not emit.isolated
        ):
            yield f"{emit.text!r} is scaffolded, and no model wrote it"
        if decided != (emit.step_class is StepClass.MODEL_DECIDED):
            yield f"{emit.text!r} is {emit.step_class.value}"
        if emit.step_class is StepClass.COMPUTED and self._policy.force is not Level.VALUES:
            yield f"{emit.text!r} was written by the guard, which nobody asked for"
        if emit.step_class is StepClass.REPAIRED and not self._may(Action.REPAIR):
            yield f"{emit.text!r} was repaired, which the policy has not"

    def _decided(self) -> Iterator[str]:
        """What was decided is quoted where it has to be, in words of the source."""
        for emit in self._played.emits:
            if emit.step_class is not StepClass.MODEL_DECIDED:
                continue
            if emit.step in self._foreseen.quoted and " <- " not in emit.text:
                yield f"{emit.text!r} has no quote"
            yield from (
                f"{quote!r} does not stand in the note"
                for quote in quotes(emit.text)
                if not stands(quote, NOTE)
            )

    def _answered(self) -> Iterator[str]:
        """Who has an answer has all lines, and the right one; who has none has an error."""
        finish, foreseen = self._finish, self._foreseen
        if finish.outcome in ACCEPTED:
            if len(self._played.emits) != len(foreseen.lines) or foreseen.end not in {
                "return",
                "deny",
                "escalate",
            }:
                yield f"accepted with {len(self._played.emits)} of {len(foreseen.lines)} lines, {foreseen.end!r}"
            elif finish.end != foreseen.end or not means(finish.answer or "", foreseen.value):
                yield f"the answer {finish.end} {finish.answer!r} is not {foreseen.end} {foreseen.value!r}"
            if finish.error is not None or finish.unverified:
                yield "an answer has an error, or something unverified"
        elif finish.outcome is Outcome.RELEASED:
            if not self._may(Action.RELEASE) or not finish.violations:
                yield "released, which the policy has not"
        elif (finish.answer, finish.end, finish.unverified) != (None, None, ""):
            yield f"{finish.outcome.value} with the answer {finish.answer!r}"
        elif finish.error is None and finish.outcome is not Outcome.CANCELLED:
            yield f"{finish.outcome.value} without an error"

    def _read(self) -> Iterator[str]:
        """The client reads what was delivered, in the form that it asked for, and a report that says the same."""
        finish, content = self._finish, self._scenario.content
        if finish.outcome is Outcome.CANCELLED:
            return  # nobody reads any more
        told = read(self._played)
        lines = "".join(emit.text for emit in self._played.emits)
        trace = f"@begin main {NONCE}\n{lines}"
        if not told.done or (told.error is None) != (
            finish.error is None
        ):  # its code may be the upstream's own
            yield f"the client reads the error {told.error!r} instead of {finish.error}"
        if finish.outcome in ACCEPTED:
            text = told.content.removeprefix(f"{trace}@end {NONCE}\n" if content != "answer" else "")
            if not (
                text == "" if content == "trace" else means(text.removeprefix("\n"), self._foreseen.value)
            ):
                yield f"the client reads {told.content!r} for {content}"
            if told.refusal != ("" if self._foreseen.end == "return" else self._foreseen.value):
                yield f"the client reads the refusal {told.refusal!r} at a {self._foreseen.end}"
        elif finish.outcome is not Outcome.RELEASED:
            given = trace if content != "answer" and lines and not self._scenario.job.whole else ""
            if told.content != given:
                yield f"the client reads {told.content!r} of a run that was {finish.outcome.value}"
        if content == "answer" and told.steps != lines and finish.error is None and not finish.unverified:
            yield f"the client reads the steps {told.steps!r} instead of {lines!r}"
        if told.report and told.report["steps"]["expected"] != finish.steps.expected:
            yield "the report counts otherwise"
        if (
            told.report.get("outcome") != finish.outcome.value
            or told.report.get("attempts") != finish.attempts
        ):
            yield f"the report is {told.report}"
        if told.thoughts and not self._policy.relay_thoughts:
            yield f"the client reads the thought {told.thoughts!r}"

    def _held(self) -> Iterator[str]:
        """Under `hold_all` nothing leaves before the end, and nothing at all without an answer."""
        commands = self._played.commands
        first = next((i for i, c in enumerate(commands) if isinstance(c, Emit)), len(commands))
        if self._policy.deliver == "hold_all" or self._scenario.job.whole:
            if any(isinstance(c, Open) for c in commands[first:]):
                yield "a step left while all were to be held"
            if self._played.emits and self._finish.outcome not in {*ACCEPTED, Outcome.RELEASED}:
                yield f"steps left of a run that was {self._finish.outcome.value}"

    # --- what the report says --------------------------------------------------------------------

    def _counted(self) -> Iterator[str]:
        """Counts agree with each other, with the lines and with what happened."""
        finish, steps = self._finish, self._finish.steps
        counts = Counter(finish.classes.values())
        told = {each: getattr(steps, each.value) for each in StepClass if each is not StepClass.MISSING}
        if any(counts[each] != number for each, number in told.items()):
            yield f"counts {told} are not those of the classes, {dict(counts)}"
        if steps.expected is not None and sum(told.values()) + (steps.missing or 0) != steps.expected:
            yield f"classes {told} and {steps.missing} missing do not come to {steps.expected}"
        if finish.outcome in ACCEPTED and steps.expected != len(self._foreseen.lines):
            yield f"{steps.expected} steps were expected of {len(self._foreseen.lines)}"
        if finish.outcome in ACCEPTED:
            given = {emit.step: emit.step_class for emit in self._played.emits}
            if given != finish.classes:
                yield f"the classes {finish.classes} are not those that were delivered, {given}"
        if finish.generations != len(self._played.generations) or len(finish.usage) != finish.generations:
            yield f"{finish.generations} generations of {len(self._played.generations)}"
        if finish.raced is None and len(finish.violations) != sum(
            len(g.found) for g in self._played.generations
        ):
            yield f"{len(finish.violations)} violations are reported"
        if (StepClass.REPAIRED in counts) != (
            finish.outcome is Outcome.REPAIRED
        ) and finish.outcome in ACCEPTED:
            yield f"{finish.outcome.value} with {counts[StepClass.REPAIRED]} lines repaired"
        if finish.outcome is Outcome.ACCEPTED_FIRST and any(
            v.kind is not Kind.TRUNCATED for v in finish.violations
        ):
            yield "accepted at first in spite of a violation"

    # --- what the model is blamed for ------------------------------------------------------------

    def _blamed(self) -> Iterator[str]:
        """The model is blamed for its mistakes, each by its kind and place, and for nothing else."""
        tolerant, ample = self._policy.tolerant, self._limit >= AMPLE
        begun = self._policy.isolates
        numbers = {"", *self._scenario.program.step_numbers}
        for violation in self._finish.violations:
            if _PASS.sub("", violation.step) not in numbers:
                yield f"{violation.step!r} is no step of the procedure"
        for generation in self._played.generations:
            number, mistake = generation.command.generation, generation.said.mistake
            wrong = f"{mistake.name}, {mistake.kind} at {mistake.step!r}," if mistake else "nothing"
            yield from (
                f"generation {number}: {violation.kind.value} at {violation.step!r} ({violation.expected!r},"
                f" {violation.found!r}), where {wrong} was wrong"
                for violation in generation.found
                if not is_due(generation, violation, tolerant=tolerant, ample=ample, begun=begun)
            )
            if overlooked := missed(generation):
                yield f"generation {number}: {overlooked} was not blamed"

    # --- what was asked for ----------------------------------------------------------------------

    @property
    def _limit(self) -> int:
        asked = self._scenario.job.max_tokens
        return self._policy.output_tokens if asked is None else min(asked, self._policy.output_tokens)

    def _budgets(self) -> Iterator[str]:
        """Tokens, retries and repetitions are counted, and hold."""
        policy, spent = self._policy, 0
        for generation in self._played.generations:
            command, close = generation.command, generation.close
            together = policy.isolates and policy.parallel > 1  # then nobody knows what was spent by when
            left = self._limit - (0 if together else spent)
            if policy.race == 1 and not 1 <= command.max_tokens <= left:
                yield f"{command.max_tokens} tokens were asked for with {spent} of {self._limit} spent"
            spent += 0 if close is None else close.usage.completion
            told = generation.answer.usage
            heard = generation.ended is not None and generation.ended.usage is not None
            heard = heard and generation.answer.manner is not Manner.NO_USAGE
            if heard and told and close is not None and close.usage.completion != told:
                yield f"{close.usage.completion} tokens were entered where the server said {told}"
        opens = [generation.command for generation in self._played.generations]
        if any(command.attempt > 1 + policy.attempts for command in opens):
            yield f"attempt {opens[-1].attempt} of {1 + policy.attempts}"
        if opens and policy.race == 1 and self._finish.attempts != opens[-1].attempt:
            yield f"{self._finish.attempts} attempts are reported of {opens[-1].attempt}"
        yield from self._repetitions(opens)

    def _repetitions(self, opens: list[Open]) -> Iterator[str]:
        """One action is taken at one step of one upstream as often as its rungs say, for each kind of violation."""
        if (
            self._policy.race > 1
            or len(self._policy.rules) != 1
            or self._policy.rules[0].kinds
            or self._policy.rules[0].steps
        ):
            return
        rungs, kinds = self._policy.rules[0].ladder, self._kinds_before
        for strategy in (Strategy.RESUME, Strategy.FEEDBACK, Strategy.SCAFFOLD, Strategy.ISOLATE):
            cap = sum(self._times(rung) for rung in rungs if rung.action.value == strategy.value)
            taken = Counter(
                (after.upstream, after.resume_from, kinds.get(after.generation))
                for before, after in pairwise(opens)
                if after.strategy is strategy and after.attempt > before.attempt
            )
            for place, times in taken.items():
                if times > cap:
                    yield f"{strategy.value} was tried {times} times at {place}, with a cap of {cap}"

    def _times(self, rung: Rung) -> int:
        if rung.times == ALL:
            return self._policy.attempts
        return self._policy.attempts_per_step if rung.times is None else int(rung.times)

    @cached_property
    def _kinds_before(self) -> dict[int, Kind]:
        """The kind of the violation in front of each generation."""
        return {
            generation.command.generation + 1: generation.found[-1].kind
            for generation in self._played.generations
            if generation.found
        }

    # --- how it ended ----------------------------------------------------------------------------

    def _ended(self) -> Iterator[str]:
        """A run ends as what happened in it lets it end."""
        finish = self._finish
        if finish.outcome is Outcome.CANCELLED and not self._played.stopped:
            yield "cancelled by nobody"
        if finish.outcome is Outcome.ERROR and not (self._faulty or self._limit < AMPLE):
            yield f"an error where nothing failed: {finish.error}"
        error = finish.error
        if finish.outcome is Outcome.REJECTED and error is not None:
            kinds = {violation.kind.value for violation in finish.violations}
            if error.code not in {*kinds, "procedure_failed"} and not (
                error.code == "truncated" and self._limit < AMPLE
            ):
                yield f"rejected for {error.code}, which nobody found"
            if error.code == "procedure_failed" and self._foreseen.end != "failed":
                yield f"the procedure is said to fail at {error.param}"
        if finish.outcome is Outcome.REJECTED and error is not None and error.type == "procedure_violation":
            yield from self._unrepaired(finish)

    def _unrepaired(self, finish: Finish) -> Iterator[str]:
        """No run ends because of a line that the guard could have written, and may."""
        if not finish.violations or error_of(finish) != finish.violations[-1].kind.value:
            return
        last = finish.violations[-1]
        rule = next((rule for rule in self._policy.rules if _fits(rule, last)), None)
        # The default actions end in a repair for every kind.
        actions = [Action.REPAIR] if rule is None else [rung.action for rung in rule.ladder]
        before = actions[: actions.index(Action.REJECT)] if Action.REJECT in actions else actions
        computable = self._foreseen_step(last.step)
        if Action.REPAIR in before and computable and self._limit >= AMPLE:
            yield f"rejected for {last.kind.value} at {last.step}, which could have been repaired"

    def _foreseen_step(self, path: str) -> bool:
        """Whether a step is one that comes next and is computed."""
        place = len([line for line in self._lines if line.strip() and not line.startswith("@")])
        lines = self._foreseen.lines
        return place < len(lines) and lines[place][0] == path

    def _came_through(self) -> Iterator[str]:
        """A model without a mistake comes through, and so does one with few under a policy that asks again."""
        played, finish = self._played, self._finish
        if self._limit < AMPLE or played.stopped or self._faulty or self._fails:
            return
        mistakes = [g for g in played.generations if g.said.mistake is not None]
        cut = any(g.answer.mishap not in HARMLESS for g in played.generations)
        if not mistakes and not cut:
            right = {Outcome.ACCEPTED_FIRST}
            if finish.outcome not in right or finish.violations or finish.attempts > 1:
                yield f"{finish.outcome.value} ({finish.error}) where no mistake was made"
        patient = self._scenario.patient and not cut
        if patient and len(mistakes) <= WITHIN_PATIENCE and finish.outcome not in ACCEPTED:
            yield f"{finish.outcome.value} ({finish.reason}) after {len(mistakes)} mistakes under a policy that asks again"

    # --- what happened ---------------------------------------------------------------------------

    @cached_property
    def _faulty(self) -> bool:
        """Whether a server was at fault."""
        faults = {
            Mishap.RESET,
            Mishap.BUSY,
            Mishap.BROKEN,
            Mishap.IN_BAND,
            Mishap.REFUSED,
            Mishap.OUT_OF_TIME,
        }
        return any(
            g.answer.mishap in faults
            or (g.answer.finish_reason not in OWN_ENDS and g.answer.mishap is not Mishap.NONE)
            or g.answer.finish_reason is None
            for g in self._played.generations
        )

    @cached_property
    def _fails(self) -> bool:
        """Whether the procedure fails on something that the model may have decided."""
        return self._foreseen.end == "failed" or any(g.said.fails for g in self._played.generations)

    def _may(self, action: Action) -> bool:
        """Whether the policy has an action; the default one is known to repair and never to release."""
        rules = self._policy.rules
        listed = any(rung.action is action for rule in rules for rung in rule.ladder)
        return listed or (action is Action.REPAIR and not any(not r.kinds and not r.steps for r in rules))


def _fits(rule: Rule, violation: Violation) -> bool:
    kinds = not rule.kinds or violation.kind in rule.kinds
    return kinds and (not rule.steps or violation.step_kind in rule.steps)


def _bare(line: str) -> str:
    """A line without its blanks: some of them a run writes itself."""
    return "".join(line.split())


def error_of(finish: Finish) -> str:
    """The code of a run's error."""
    return "" if finish.error is None else finish.error.code
