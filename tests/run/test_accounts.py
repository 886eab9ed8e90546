"""What a run cost, what of it served its client, and what early cuts saved: no token is lost or counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from guard.run.ladders import Action, Rung, always
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Ended,
    Finish,
    Open,
    Result,
    RunEvent,
    Target,
    Text,
    Usage,
    Wait,
    Waited,
)
from guard.run.policy import Policy, Votes
from guard.run.run import Run
from tests.run.procedures import DIALOGUE, NOTE, ORDER, PREFILL, SUMS, job

# As one token a character, so that every number below can be counted by hand.
A: Final = " a = 3 + 4 = 7\n"
B: Final = "2 b = 7 * 2 = 14\n"
C: Final = "3 c = 14 - 3 = 11\n"
D: Final = "4 return 11\n"
WRONG_B: Final = "2 b = 7 * 2 = 15\n"
END: Final = "@end 3fa92c\n"
ONCE: Final = Policy(rules=always([Action.RESUME, Action.REJECT]))


def text(said: str, **fields: object) -> Text:
    return Text(said, len(said), **fields)  # type: ignore[arg-type]


def carried_out(run: Run, *events: RunEvent) -> tuple[list[Command], Finish]:
    """A run to which this happens, and at last that its client leaves."""
    commands = run.start()
    for event in events:
        commands += run.handle(event)
    if not isinstance(commands[-1], Finish):
        commands += run.handle(Cancelled())
    finish = commands[-1]
    assert isinstance(finish, Finish)
    return commands, finish


def sums(policy: Policy = ONCE, target: Target = PREFILL, **fields: object) -> Run:
    return Run(job(SUMS, {"x": 3, "y": 4}, **fields), policy, [target])


def completion(finish: Finish) -> list[int]:
    return [usage.completion for usage in finish.usage]


def test_a_faithful_trace_discards_and_saves_nothing() -> None:
    _, finish = carried_out(sums(), text(A + B + C + D + END), Ended("stop"))
    assert (completion(finish), finish.discarded, finish.saved) == ([len(A + B + C + D + END)], (0,), 0)


def test_the_opening_line_counts_with_the_first_step() -> None:
    whole = "@begin sums 3fa92c\n1" + A + B + C + D + END
    _, finish = carried_out(sums(target=DIALOGUE), text(whole), Ended("stop"))
    assert finish.discarded == (0,)


def test_what_is_wrong_is_discarded_and_the_steps_behind_it_are_saved() -> None:
    commands, finish = carried_out(sums(), text(A + WRONG_B), text(B[1:] + C + D), Ended("stop"))
    (cut, _) = [c for c in commands if isinstance(c, Close)]
    assert (cut.result, cut.discarded) == (Result.VIOLATION, len(WRONG_B))
    assert finish.discarded == (len(WRONG_B), 0)
    mean = sum(completion(finish)) / 5  # of the lines: two, then three
    assert finish.saved == round(2 * mean)  # steps 3 and 4


def test_what_came_in_the_same_piece_is_discarded_unread() -> None:
    _, finish = carried_out(sums(), text(A + WRONG_B + C), text(B[1:] + C + D), Ended("stop"))
    assert finish.discarded == (len(WRONG_B + C), 0)


def test_what_was_not_told_yet_is_discarded_and_was_not_saved() -> None:
    _, finish = carried_out(sums(), text(A + WRONG_B, ahead=500), text(B[1:] + C + D), Ended("stop"))
    assert completion(finish)[0] == len(A + WRONG_B) + 500
    assert (finish.discarded, finish.saved) == ((len(WRONG_B) + 500, 0), 0)


def test_a_generation_that_has_ended_by_itself_cannot_be_cut() -> None:
    _, finish = carried_out(sums(), text(A), Ended("stop"), text(B[1:] + C + D), Ended("stop"))
    assert (finish.discarded, finish.saved) == ((0, 0), 0)


@pytest.mark.parametrize(("whole", "discarded"), [(False, len(WRONG_B)), (True, len(A + WRONG_B))])
def test_a_rejected_run_served_only_a_client_who_streamed(whole: bool, discarded: int) -> None:
    policy = Policy(rules=always([Action.REJECT]))
    _, finish = carried_out(sums(policy, whole=whole), text(A + WRONG_B))
    assert finish.discarded == (discarded,)


def test_a_restart_discards_what_stood() -> None:
    policy = Policy(rules=always([Rung(Action.RESTART), Action.REJECT]), deliver="hold_all")
    commands, finish = carried_out(sums(policy), text(A + WRONG_B), text(A + B + C + D), Ended("stop"))
    assert finish.discarded == (len(A + WRONG_B), 0)
    assert [c.discarded for c in commands if isinstance(c, Close)] == [len(A + WRONG_B), 0]


def test_only_the_vote_that_stands_served() -> None:
    first, second = ' = 6 <- "Six"\n', ' = 6 <- "Six panels"\n'
    policy = Policy(votes=Votes(ahead=2, most=3))
    run = Run(job(ORDER, {"note": NOTE}), policy, [PREFILL])
    opened = run.start()[-1]
    assert isinstance(opened, Open)
    begun = "qty" if opened.prefix.endswith("1") else ""
    one, two = (f" {begun}{line}" if begun else line for line in (first, second))
    commands = [*run.handle(text(one + "2 loyal = t")), *run.handle(text(two + "2 loyal = t"))]
    commands += run.handle(Cancelled())
    finish = commands[-1]
    assert isinstance(finish, Finish)
    tail = len("2 loyal = t")
    assert finish.discarded == (tail, len(two) + tail, 0)


def test_what_the_guard_wrote_is_nobodys() -> None:
    policy = Policy(rules=always([Action.REPAIR]))
    _, finish = carried_out(sums(policy), text(A + WRONG_B), text(C[1:] + D), Ended("stop"))
    assert finish.discarded == (len(WRONG_B), 0)


def test_a_model_that_only_thinks_is_cut_at_its_budget() -> None:
    policy = Policy(rules=always([Action.REJECT]), output_tokens=50)
    commands, finish = carried_out(sums(policy), Text("", 30), Text("", 21))
    assert [c.result for c in commands if isinstance(c, Close)] == [Result.BUDGET_EXHAUSTED]
    assert (completion(finish), finish.discarded) == ([51], (51,))


def test_the_budget_holds_by_what_the_server_says_so_far() -> None:
    policy = Policy(rules=always([Action.RESUME]), output_tokens=100)
    _, finish = carried_out(sums(policy), Text(A, 4, usage=Usage(prompt=7, completion=101)))
    assert finish.error is not None
    assert finish.error.code == "truncated"
    assert finish.usage == (Usage(prompt=7, completion=101),)


def test_a_closing_line_serves_nobody_who_got_no_answer() -> None:
    run = sums(Policy(), DIALOGUE, whole=True)
    run.start()
    for line in ("@begin sums 3fa92c\n", "1" + A, B, C, D, END):
        run.handle(Text(line, 1))
    finish = run.handle(Cancelled())[-1]
    assert isinstance(finish, Finish)
    assert finish.answer is None
    assert list(finish.discarded) == completion(finish) == [6]


PIECES: Final = (
    A, B, C, D, END, WRONG_B, B[1:], C[1:], D[1:], "1" + A, "@begin sums 3fa92c\n", "?\n", "prose", "",
)  # fmt: skip
EVENTS: Final = st.one_of(
    st.builds(
        Text,
        st.sampled_from(PIECES),
        st.integers(0, 30),
        st.integers(0, 9),
        st.none() | st.builds(Usage, prompt=st.integers(0, 9), completion=st.integers(10, 99)),
    ),
    st.builds(
        Ended,
        st.sampled_from(["stop", "length", None]),
        st.none() | st.builds(Usage, prompt=st.integers(0, 99), completion=st.integers(0, 99)),
    ),
)
POLICIES: Final = st.builds(
    Policy,
    rules=st.just(())
    | st.lists(st.sampled_from(sorted(set(Action) - {Action.RELEASE})), min_size=1, unique=True).map(always),
    output_tokens=st.integers(30, 400),
    deliver=st.sampled_from(["hold_step", "hold_all"]),
    tolerant=st.booleans(),
)


@given(
    policy=POLICIES,
    target=st.sampled_from([PREFILL, DIALOGUE]),
    events=st.lists(EVENTS, max_size=20),
    whole=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_no_token_is_lost_or_counted_twice(
    policy: Policy, target: Target, events: Sequence[RunEvent], whole: bool
) -> None:
    run = sums(policy, target, whole=whole)
    commands = run.start()
    for event in events:
        if isinstance(commands[-1], Wait):
            commands += run.handle(Waited())
        elif not isinstance(commands[-1], Finish):
            commands += run.handle(event)
    if not isinstance(commands[-1], Finish):
        commands += run.handle(Cancelled())
    finish = commands[-1]
    assert isinstance(finish, Finish)
    closes = [command for command in commands if isinstance(command, Close)]
    assert [close.usage for close in closes] == list(finish.usage)
    assert len(finish.discarded) == len(finish.usage) == finish.generations
    for close, discarded in zip(closes, finish.discarded, strict=True):
        assert 0 <= discarded <= close.usage.completion
    if finish.answer is None and (whole or policy.deliver == "hold_all"):
        assert list(finish.discarded) == completion(finish)
    assert finish.saved >= 0
    assert not finish.saved or any(c.result in {Result.VIOLATION, Result.BUDGET_EXHAUSTED} for c in closes)
