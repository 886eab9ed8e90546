"""Whose a fault is: what only we made different is left out, one thing after the other, before anybody is blamed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.check.verdict import Kind
from guard.errors import (
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.foreign import Said
from guard.run.ladders import Action, always
from guard.run.messages import (
    Close,
    Command,
    Emit,
    Ended,
    Failed,
    Finish,
    Open,
    Ours,
    Outcome,
    Strategy,
    Target,
    Text,
    Wait,
    Waited,
)
from guard.run.policy import Policy, Votes
from guard.run.run import Run
from tests.run.procedures import DIALOGUE, GRAMMAR, LARGER, NONCE, PREFILL, order, sums

LINES: Final = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
REFUSED: Final = [
    UpstreamStatusError("no", upstream_status=status, said=Said.of("", code="odd_code"))
    for status in (400, 413, 422)
]
TROUBLE: Final = [
    UpstreamBusy("oops", upstream_status=500),
    UpstreamBusy("gateway", upstream_status=502),
    UpstreamTimeout("nothing was said in time"),
    UpstreamProtocolError("it closed the connection without an answer"),
]
ELSEWHERE: Final = [
    UpstreamConnectError("refused"),
    UpstreamConnectTimeout("no connection in time"),
    UpstreamBusy("later", upstream_status=503),
    UpstreamBusy("slow down", upstream_status=429),
]
TURN: Final = replace(PREFILL, prefill=False)


@dataclass
class Server:
    """Answers each request of a run; one with something that it does not take, with an error.

    `wrong`: so many first answers have a wrong line.
    """

    hates: frozenset[Ours]
    error: UpstreamError
    wrong: int = 1
    asked: list[Open] = field(default_factory=list)
    waits: int = 0

    def takes(self, command: Open) -> bool:
        held = {
            Ours.GRAMMAR: command.grammar is not None,
            Ours.FIELDS: command.temperature not in (None, 0.0) or command.seed is not None,
            Ours.PREFIX: bool(command.prefix),
            Ours.HISTORY: len(command.messages) > 1 or "\n1 a" in command.prefix,
        }
        return not any(held[one] for one in self.hates)

    def serve(self, run: Run) -> tuple[Finish, str]:
        """Carry a run out; give its end and what the client got."""
        commands, delivered = run.start(), ""
        while True:
            delivered += "".join(command.text for command in commands if isinstance(command, Emit))
            match commands[-1]:
                case Finish() as finish:
                    return finish, delivered
                case Wait():
                    self.waits += 1
                    commands = run.handle(Waited())
                case Open() as command:
                    self.asked.append(command)
                    assert len(self.asked) < 60
                    commands = self.answer(run, command)
                case _:
                    commands = run.handle(Ended("stop"))

    def answer(self, run: Run, command: Open) -> list[Command]:
        if not self.takes(command):
            return run.handle(Failed(self.error))
        stands = command.prefix or "".join(
            str(one["content"]) for one in command.messages if one["role"] == "assistant"
        )
        whole = f"@begin sums {NONCE}\n" + "".join(LINES)
        if self.wrong:
            self.wrong -= 1
            whole = whole.replace("7 * 2 = 14", "7 * 2 = 15")
        begun = stands if command.prefix else f"{stands}\n" if stands else ""
        assert whole.startswith(begun) or not begun
        return run.handle(Text(whole[len(begun) :]))


def bounded(**changes: object) -> Policy:
    return Policy(**{"transport_retries": 3, "rules": always([Action.RESUME, Action.REJECT]), **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [*REFUSED, *TROUBLE], ids=str)
@pytest.mark.parametrize("target", [PREFILL, GRAMMAR, TURN, replace(GRAMMAR, prefill=False)])
@given(hates=st.frozensets(st.sampled_from(Ours)), whole=st.booleans(), seed=st.none() | st.just(7))
def test_what_a_server_does_not_take_is_left_out_and_the_run_goes_on(
    error: UpstreamError, target: Target, hates: frozenset[Ours], whole: bool, seed: int | None
) -> None:
    """As long as nothing was delivered there is the client's own request to come back to."""
    hates -= set() if error in REFUSED else {Ours.FIELDS}
    server = Server(hates, error)
    policy = bounded(
        deliver="hold_all" if whole else "hold_step", seed=seed, attempts_per_step=5, transport_retries=6
    )
    finish, delivered = server.serve(sums(target, policy=policy))
    done = finish.outcome in {Outcome.ACCEPTED_FIRST, Outcome.ACCEPTED_AFTER_RETRY}
    assert (
        done
        or (Ours.HISTORY in hates and delivered)
        or (Ours.HISTORY in hates and finish.outcome is Outcome.REJECTED)
    )
    if not done:
        assert finish.error is not None
        assert (finish.error.status, finish.error.code, finish.error.param) == (422, "wrong_value", "2")
    if error in REFUSED:
        refused = [
            repr(replace(one, generation=0, strategy=Strategy.INITIAL))
            for one in server.asked
            if not server.takes(one)
        ]
        assert len(set(refused)) == len(refused), "what was refused is not sent again"
    else:
        assert server.waits == sum(not server.takes(one) for one in server.asked) or not done


@pytest.mark.parametrize("error", ELSEWHERE, ids=str)
@pytest.mark.parametrize("target", [PREFILL, GRAMMAR, TURN])
def test_what_has_nothing_to_do_with_the_request_changes_nothing(
    error: UpstreamError, target: Target
) -> None:
    run = sums(target, policy=bounded())
    *_, first = run.start()
    assert isinstance(first, Open)
    for _ in range(3):
        assert isinstance(run.handle(Failed(error))[-1], Wait)
        *_, again = run.handle(Waited())
        assert isinstance(again, Open)
        assert (again.prefix, again.grammar, again.messages) == (first.prefix, first.grammar, first.messages)
        assert again.strategy is Strategy.TRANSPORT


def test_silence_under_a_grammar_is_taken_for_a_refusal_of_it() -> None:
    run = sums(GRAMMAR)
    run.start()
    run.handle(Failed(UpstreamTimeout("nothing was said in time")))
    *_, again = run.handle(Waited())
    assert isinstance(again, Open)
    assert (again.strategy, again.grammar) == (Strategy.UNFORCED, None)
    quiet = sums(GRAMMAR, policy=Policy(without_grammar=False))
    quiet.start()
    quiet.handle(Failed(UpstreamTimeout("nothing was said in time")))
    *_, same = quiet.handle(Waited())
    assert isinstance(same, Open)
    assert same.grammar is not None


@pytest.mark.parametrize("error", REFUSED, ids=str)
def test_the_clients_own_mistake_stays_the_clients(error: UpstreamStatusError) -> None:
    run = sums(DIALOGUE, LARGER)
    run.start()
    closed, finish = run.handle(Failed(error))
    assert isinstance(closed, Close)
    assert isinstance(finish, Finish)
    assert finish.error is not None
    assert (finish.error.status, finish.error.cause) == (error.upstream_status, error)


@pytest.mark.parametrize("error", [*REFUSED, *TROUBLE], ids=str)
@pytest.mark.parametrize(
    ("actions", "outcome"),
    [
        ([Action.RESUME, Action.REPAIR, Action.REJECT], Outcome.REPAIRED),
        ([Action.RESUME, Action.REJECT], Outcome.REJECTED),
        ([Action.RESUME, Action.FALLBACK, Action.REJECT], Outcome.ACCEPTED_BY_FALLBACK),
    ],
)
def test_where_nothing_is_left_to_leave_out_the_ladder_of_the_violation_goes_on(
    error: UpstreamError, actions: list[Action], outcome: Outcome
) -> None:
    targets = (PREFILL, LARGER) if Action.FALLBACK in actions else (PREFILL,)
    server = Server(frozenset({Ours.HISTORY}), error)
    takes = server.takes
    server.takes = lambda command: command.upstream == "larger" or takes(command)  # type: ignore[method-assign]
    finish, delivered = server.serve(sums(*targets, policy=Policy(rules=always(actions))))
    assert finish.outcome is outcome
    assert delivered.startswith(LINES[0])
    assert [one.kind for one in finish.violations] == [Kind.WRONG_VALUE]
    if finish.error is not None:
        assert (finish.error.code, finish.error.param) == ("wrong_value", "2")


def test_a_continuation_that_nothing_was_wrong_with_is_no_mistake_of_the_client() -> None:
    run = order(GRAMMAR, policy=Policy(votes=Votes()))
    run.start()
    commands = run.handle(Text(' qty = 6 <- "Six panels"\n'))
    refused = UpstreamStatusError("no", upstream_status=400)
    for _ in range(9):
        if isinstance(commands[-1], Finish):
            break
        commands = (
            run.handle(Failed(refused)) if isinstance(commands[-1], Open) else run.handle(Ended("stop"))
        )
    finish = commands[-1]
    assert isinstance(finish, Finish)
    assert finish.error is not None
    assert (finish.error.status, finish.error.type) == (502, "upstream_error")
