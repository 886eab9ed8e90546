"""Whatever a model gets wrong, and however often, what can be computed comes out right under the default policy."""

from __future__ import annotations

from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import assume, event, given, settings

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.config.policies import PolicySettings
from guard.procedure.expected import Unknown
from guard.procedure.values import answer_text
from guard.run.endings import ACCEPTED
from guard.run.messages import Finish, Outcome, StepClass, Target
from tests.faults.faithful import NONCE, Mutant, Sample
from tests.faults.injectors import INJECTORS
from tests.run.hopeless import Constant, Hopeless, asked, played
from tests.run.procedures import DIALOGUE, GRAMMAR, PREFILL
from tests.strategies import samples

POLICY: Final = PolicySettings().policy
BEHIND: Final = {
    "again",
    "corrected",
    "one_pass_more",
    "behind_the_end",
}  # what is wrong comes after the line
NOTHING_RIGHT: Final = [
    "",
    "\n\n\n",
    "nonsense\n",
    "I am sorry, but I cannot do that.",
    f"@end {NONCE}\n",
    f"@begin made {NONCE}\n",
    "999 return 1\n",
    '1 deny "No."\n',
    "1 " * 3_000,
    "7" * 3_000,
]


@st.composite
def departures(draw: st.DrawFn, sample: Sample, index: int) -> Mutant:
    able = {name: made for name, inject in INJECTORS.items() if (made := [*inject(sample, index)])}
    return draw(st.sampled_from(able[draw(st.sampled_from(sorted(able)))]))


@st.composite
def wrong_somewhere(draw: st.DrawFn) -> Hopeless:
    """A model that departs at some steps that are computed, or at all of them, and decides as it should."""
    sample = draw(samples(shuffle=False, decides=draw(st.booleans())))
    computed = [i for i, (step, _) in enumerate(sample.steps) if step.decision is None]
    assume(computed)
    some = draw(st.just(computed) | st.lists(st.sampled_from(computed), min_size=1, unique=True))
    return Hopeless(sample, {index: draw(departures(sample, index)) for index in some})


def ends_right(sample: Sample, finish: Finish) -> None:
    assert finish.outcome in ACCEPTED, finish.reason
    right = sample.ending.value
    assert right is not None
    assert not isinstance(right, Unknown)
    assert finish.answer == (answer_text(right, sample.program.result) if finish.end == "return" else right)
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    checker.feed(finish.trace)
    assert checker.verdict is Verdict.PASSED
    repaired = StepClass.REPAIRED in finish.classes.values()
    assert (finish.outcome is Outcome.REPAIRED) == repaired


@pytest.mark.slow
@settings(max_examples=120)
@given(
    model=wrong_somewhere(),
    target=st.sampled_from([PREFILL, DIALOGUE, GRAMMAR]),
    whole=st.booleans(),
)
def test_every_fault_at_every_computed_step_is_repaired(
    model: Hopeless, target: Target, *, whole: bool
) -> None:
    finish = played(asked(model.sample, POLICY, [target], whole=whole), model)
    ends_right(model.sample, finish)
    if not BEHIND.intersection(mutant.name for mutant in model.wrong.values()):
        assert (finish.outcome is Outcome.REPAIRED) == bool(finish.violations)


@settings(max_examples=40)
@given(sample=samples(decides=False), data=st.data(), target=st.sampled_from([PREFILL, DIALOGUE, GRAMMAR]))
def test_whatever_a_model_writes_what_needs_no_decision_is_answered(
    sample: Sample, data: st.DataObject, target: Target
) -> None:
    kinds = {step.kind for step, _ in sample.steps}
    event(f"kinds of steps: {len(kinds)}")
    says = data.draw(st.sampled_from(NOTHING_RIGHT) | st.text(max_size=40))
    reason = data.draw(st.sampled_from(["stop", "length", None]))
    run = asked(sample, POLICY, [target])
    ends_right(sample, played(run, Constant(says, reason)))
