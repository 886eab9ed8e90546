"""What models think is never a part of the trace: counted, bounded, and dropped or passed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.check.verdict import Ignored, Kind
from guard.dialect.notation import Dialect
from guard.run import thoughts
from guard.run.ladders import Action, always
from guard.run.messages import (
    Close,
    Command,
    Emit,
    Ended,
    Finish,
    Observe,
    Open,
    Outcome,
    Relay,
    Result,
    Strategy,
    Text,
    Usage,
)
from guard.run.policy import Policy, Votes
from guard.run.race import Race, machine
from guard.run.run import Run
from guard.wire.thinking import Thinking
from tests.dialect.gbnf_reader import Gbnf
from tests.playbook import Judged, Playbook, closes, emits, ends, finishes, opens, says, violates
from tests.run.procedures import DIALOGUE, NONCE, PREFILL, SUMS, job, sums
from tests.thoughts import CANARY, cuts
from tests.thoughts import thoughts as thoughts_in_front

BEGIN = f"@begin sums {NONCE}\n"
LINES = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
TRACE = BEGIN + "".join(LINES) + f"@end {NONCE}\n"
WRONG = TRACE.replace("= 14 - 3 = 11", "= 14 - 3 = 12")
RELAYS = Policy(relay_thoughts=True)


def thinks(thought: str, tokens: int = 1) -> Text:
    return Text("", tokens, thought=thought)


def mused(tokens: int) -> Judged:
    """It is told that so many tokens were thoughts."""

    def fits(judgement: object) -> bool:
        return isinstance(judgement, Ignored) and (judgement.why, judgement.tokens) == ("thoughts", tokens)

    return Judged(f"{tokens} tokens of thoughts to be ignored", fits)


def told(run: Run, *events: Text | Ended) -> list[Command]:
    """What a run does about this, its start left out."""
    run.start()
    return [command for event in events for command in run.handle(event)]


def finish_of(commands: list[Command]) -> Finish:
    assert isinstance(commands[-1], Finish)
    return commands[-1]


def test_thoughts_are_told_once_with_their_tokens_and_counted_as_written() -> None:
    events = (thinks(BEGIN, 5), thinks("1 a = 900\n", 7), says(TRACE, tokens=20), ends())
    commands = told(sums(DIALOGUE), *events)
    ignored = [c.judgement for c in commands if isinstance(c, Observe) and isinstance(c.judgement, Ignored)]
    assert ignored == [Ignored(text="", at=0, why="thoughts", tokens=12)]
    (usage,) = finish_of(commands).usage
    assert (usage.completion, usage.reasoning) == (32, 12)
    assert finish_of(commands).discarded == (0,), "a thought serves as much as the lines behind it"


def test_what_the_server_says_of_thoughts_counts() -> None:
    usage = Usage(prompt=9, completion=50, reasoning=30)
    assert finish_of(told(sums(DIALOGUE), thinks("x", 12), says(TRACE), Ended("stop", usage))).usage == (
        usage,
    )


def test_where_the_server_only_says_how_much_it_wrote_the_thoughts_in_it_are_our_own_count() -> None:
    usage = Usage(prompt=9, completion=50)
    (told_of,) = finish_of(told(sums(DIALOGUE), thinks("x", 12), says(TRACE), Ended("stop", usage))).usage
    assert told_of == Usage(prompt=9, completion=50, reasoning=12, counted=True)
    assert told_of.reasoning_estimated
    assert not told_of.estimated


@pytest.mark.parametrize(
    ("finish_reason", "kind", "outcome"),
    [
        ("stop", Kind.MISSING_ANSWER, Outcome.ACCEPTED_AFTER_RETRY),
        ("length", Kind.TRUNCATED, Outcome.ACCEPTED_FIRST),
    ],
)
def test_an_answer_that_is_nothing_but_thoughts_is_none(
    finish_reason: str, kind: Kind, outcome: Outcome
) -> None:
    policy = Policy(rules=always([Action.RESTART]))
    assert (
        Playbook(sums(DIALOGUE, policy=policy))
        << opens()
        >> thinks(TRACE, 30)
        >> ends(finish_reason)
        << mused(30)
        << violates(kind, "1")
        << closes(Result.VIOLATION, discarded=30)
        << opens(Strategy.RESTART, max_tokens=7970)
        >> says(TRACE)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(outcome)
    )


def test_thoughts_take_from_the_budget_while_they_come() -> None:
    policy = Policy(rules=always([Action.RESTART]))
    assert (
        Playbook(sums(DIALOGUE, policy=policy, max_tokens=40))
        << opens(max_tokens=40)
        >> thinks("hm", 30)
        >> thinks("hm", 11)
        << violates(Kind.TRUNCATED, "1")
        << closes(Result.BUDGET_EXHAUSTED)
        << finishes(Outcome.REJECTED)
    )


def test_a_flood_of_thoughts_is_cut_whatever_it_is_said_to_cost() -> None:
    policy = Policy(rules=always([Action.REJECT]))
    run = sums(DIALOGUE, policy=policy)
    run.start()
    pieces = thoughts.LONGEST // 1000
    for _ in range(pieces):
        assert run.handle(thinks("x" * 1000, 0)) == []
    assert finish_of(run.handle(thinks("x", 0))).violations[0].kind is Kind.RUNAWAY


def test_a_model_that_thinks_and_thinks_keeps_tokens_for_another_try() -> None:
    """Whose mistake it was: it counts as an attempt."""
    policy = Policy(output_tokens=1000, rules=always([Action.RESTART, Action.REJECT]))
    run = sums(DIALOGUE, policy=policy)
    run.start()
    assert run.handle(thinks("hm", 750)) == []
    [*_, again] = run.handle(thinks("hm", 1))
    assert isinstance(again, Open)
    assert (again.attempt, again.max_tokens) == (2, 249)


def test_what_cutting_saved_is_reckoned_without_thoughts() -> None:
    policy = Policy(rules=always([Action.REJECT]))
    wrong = BEGIN + LINES[0].replace("= 7", "= 8")
    quick = finish_of(told(sums(DIALOGUE, policy=policy), says(wrong, tokens=20)))
    musing = finish_of(told(sums(DIALOGUE, policy=policy), thinks("x", 500), says(wrong, tokens=20)))
    assert musing.saved == quick.saved > 0


# --- what is passed on ---------------------------------------------------------------------------


def test_thoughts_are_dropped_unless_the_policy_says_otherwise() -> None:
    commands = told(sums(DIALOGUE), thinks("secret"), says(TRACE), ends())
    assert "secret" not in repr(commands)


def test_thoughts_leave_as_they_come() -> None:
    run = sums(DIALOGUE, policy=RELAYS)
    run.start()
    assert run.handle(thinks("hm")) == [Relay(generation=1, text="hm")]
    assert not any(isinstance(c, Relay) for c in [*run.handle(says(TRACE)), *run.handle(ends())])


def test_thoughts_leave_with_the_rest_where_all_is_held() -> None:
    policy = Policy(relay_thoughts=True, deliver="hold_all")
    events: list[Text | Ended] = [*(thinks("h") for _ in range(3000)), says(TRACE), ends()]
    commands = told(sums(DIALOGUE, policy=policy), *events)
    seen = [c for c in commands if isinstance(c, Relay | Emit | Finish)]
    assert seen[0] == Relay(generation=1, text="h" * 3000)
    assert [type(c) for c in seen[1:]] == [Emit] * 4 + [Finish]


def test_thoughts_that_were_held_do_not_leave_with_an_error() -> None:
    policy = Policy(relay_thoughts=True, deliver="hold_all", rules=always([Action.REJECT]))
    commands = told(sums(DIALOGUE, policy=policy), thinks("secret"), says("@begin\n"))
    assert finish_of(commands).error is not None
    assert "secret" not in repr(commands)


def test_no_more_is_passed_on_than_so_much() -> None:
    run = sums(DIALOGUE, policy=RELAYS)
    run.start()
    run.handle(thinks("x" * (thoughts.PASSED_ON - 2)))
    first, *_, opened = run.handle(thinks("abc"))
    assert first == Relay(generation=1, text="ab")
    assert isinstance(opened, Open), "it was cut, too"
    assert run.handle(thinks("abc")) == []


@pytest.mark.parametrize("deliver", ["hold_step", "hold_all"])
def test_of_a_race_the_winner_thinks_aloud(deliver: str) -> None:
    policy = Policy(relay_thoughts=True, race=2, deliver=deliver)  # type: ignore[arg-type]
    race = machine(job(SUMS, {"x": 3, "y": 4}), policy, (DIALOGUE,))
    assert isinstance(race, Race)
    race.start()
    commands: list[Command] = []
    for event, generation in (
        (thinks("mine"), 1),
        (thinks("yours"), 2),
        (says(TRACE), 2),
        (ends(), 2),
    ):
        commands += race.handle(event, generation)
    assert [c for c in commands if isinstance(c, Relay)] == [Relay(generation=2, text="yours")]
    assert finish_of(commands).outcome is Outcome.ACCEPTED_FIRST
    first = next(c for c in commands if isinstance(c, Relay | Emit))
    assert isinstance(first, Relay)


# --- thoughts change nothing else ----------------------------------------------------------------


def spoken(pieces: Iterable[str], *, prefix: str) -> Iterator[Text]:
    """What an upstream tells of an answer in these pieces."""
    thinking = Thinking()
    for piece in pieces:
        thought, said = ("", piece) if prefix else thinking.feed(piece)
        if thought:
            yield thinks(thought)
        if said:
            yield says(said)
    if held := thinking.close()[1]:
        yield says(held)


def played(policy: Policy, answers: Iterable[list[str]]) -> list[Command]:
    """Play answers, the last one again and again, in the lane that was opened last."""
    run = machine(job(SUMS, {"x": 3, "y": 4}), policy, (DIALOGUE,))
    commands = list(run.start())
    replies = iter(answers)
    pieces: list[str] = []
    while not isinstance(commands[-1], Finish):
        opened = [c for c in commands if isinstance(c, Open)]
        closed = {c.generation for c in commands if isinstance(c, Close)}
        command = next(c for c in opened if c.generation not in closed)
        pieces = next(replies, pieces)
        events: list[Text | Ended] = [*spoken(pieces, prefix=command.prefix), ends()]
        for event in events:
            commands += run.handle(event, command.generation)
            if any(isinstance(c, Close) and c.generation == command.generation for c in commands):
                break
    return commands


def outline(commands: list[Command]) -> list[object]:
    """What a run does, without what it costs."""
    finish = finish_of(commands)
    seen: list[object] = [(c.step, c.text, c.step_class) for c in commands if isinstance(c, Emit)]
    kinds = [(v.kind, v.step) for v in finish.violations]
    return [*seen, kinds, finish.outcome, finish.answer, finish.trace, finish.steps, finish.generations]


POLICIES = st.sampled_from(
    [
        Policy(),
        Policy(tolerant=True),
        Policy(deliver="hold_all"),
        Policy(rules=always([Action.RELEASE])),
        Policy(rules=always([Action.RESUME, Action.REPAIR])),
        Policy(race=2),
        Policy(votes=Votes(ahead=1, most=3)),
    ]
)
REST = "".join(LINES[2:])
ANSWERS = st.sampled_from([[TRACE], [WRONG, REST], [WRONG, TRACE], [WRONG, "Here it is:\n" + REST], [WRONG]])


@given(st.data(), POLICIES, ANSWERS)
def test_thoughts_in_front_change_nothing_but_the_cost(
    data: st.DataObject, policy: Policy, answers: list[str]
) -> None:
    fronts = [data.draw(thoughts_in_front()).replace("{nonce}", NONCE) for _ in answers]
    pieces = [data.draw(cuts(front + answer)) for front, answer in zip(fronts, answers, strict=True)]
    with_thoughts = played(policy, pieces)
    without = played(policy, [[answer] for answer in answers])
    assert outline(with_thoughts) == outline(without)
    assert CANARY not in repr(with_thoughts)


# --- under a grammar -----------------------------------------------------------------------------


@pytest.mark.parametrize(("thinks", "front"), [(False, "<think>hm</think>\n"), (True, "hm</think>\n")])
def test_a_grammar_leaves_room_for_thoughts_where_it_has_to(thinks: bool, front: str) -> None:
    target = replace(DIALOGUE, dialect=Dialect.GBNF, thoughts=True, thinks=thinks)
    (opened,) = sums(target).start()
    assert isinstance(opened, Open)
    assert opened.grammar is not None
    assert Gbnf(opened.grammar).matches(front + TRACE) == (len(front + TRACE), True)
    assert Gbnf(opened.grammar).matches(TRACE)[1] is not thinks


def test_a_grammar_behind_a_prefix_has_no_room_for_thoughts() -> None:
    (opened,) = sums(replace(PREFILL, dialect=Dialect.GBNF, thoughts=True)).start()
    assert isinstance(opened, Open)
    assert opened.grammar is not None
    assert "think" not in opened.grammar
