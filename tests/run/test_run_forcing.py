"""What a run does where a server refuses its grammar, and when it notices that one is ignored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.errors import UpstreamConnectError, UpstreamStatusError
from guard.procedure.execute import Program
from guard.procedure.types import Value
from guard.run.ladders import Action, always
from guard.run.lines import ENDS
from guard.run.messages import Close, Failed, Finish, Open, Outcome, Result, Strategy, Target, Text
from guard.run.policy import ForceBy, Policy, Vary
from guard.run.run import Job, Run
from guard.trace import render
from tests.faults.faithful import carried_out
from tests.playbook import Playbook, closes, emits, ends, finishes, opens, says, violates, waits
from tests.run.procedures import GRAMMAR, NONCE, PREFILL, job, order, program, sums
from tests.strategies import Sample, samples

RIGHT: Final = [" a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
SPARE: Final = replace(GRAMMAR, name="spare")
TURN: Final = replace(GRAMMAR, prefill=False)
REJECT: Final = Policy(rules=always([Action.REJECT]))


def refused(status: int = 400) -> Failed:
    return Failed(UpstreamStatusError("unknown field", upstream_status=status))


@pytest.mark.parametrize("status", [400, 422])
def test_what_is_refused_is_asked_for_once_more_without_its_grammar(status: int) -> None:
    play = (
        Playbook(sums(GRAMMAR))
        << opens(prefix="@begin sums 3fa92c\n1", attempt=1)
        >> refused(status)
        << closes(Result.REFUSED)
        << opens(Strategy.UNFORCED, prefix="@begin sums 3fa92c\n1", attempt=1, grammar=None)
        >> says("".join(RIGHT))
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, attempts=1, generations=2, forced=Level.NONE)
    )
    assert play
    first = play.commands[0]
    assert isinstance(first, Open)
    assert first.grammar is not None


def test_what_is_refused_again_is_the_clients_fault() -> None:
    assert (
        Playbook(sums(GRAMMAR, SPARE))
        << opens()
        >> refused()
        << closes(Result.REFUSED)
        << opens(Strategy.UNFORCED)
        >> refused()
        << closes(Result.REFUSED)
        << opens(Strategy.LESS, grammar=None, prefix="")
        >> refused()
        << closes(Result.UPSTREAM_ERROR)
        << finishes(Outcome.ERROR)
    )


@pytest.mark.parametrize(
    ("target", "policy", "status"),
    [
        (replace(PREFILL, prefill=False), Policy(), 400),
        (TURN, Policy(without_grammar=False), 400),
        (TURN, Policy(force=Level.NONE), 400),
        (GRAMMAR, Policy(), 401),
        (GRAMMAR, Policy(), 404),
    ],
)
def test_other_refusals_have_nothing_to_do_with_it(target: Target, policy: Policy, status: int) -> None:
    play = Playbook(sums(target, policy=policy)) << opens() >> refused(status)
    assert play << closes(Result.UPSTREAM_ERROR) << finishes(Outcome.ERROR)


def test_a_refusal_within_an_answer_has_nothing_to_do_with_it_either() -> None:
    play = Playbook(sums(GRAMMAR)) << opens() >> says(" a = 3") >> refused()
    assert play << closes(Result.UPSTREAM_ERROR) << finishes(Outcome.ERROR)


def test_the_next_generation_goes_without_as_well_and_another_upstream_with_one() -> None:
    play = (
        Playbook(sums(GRAMMAR, SPARE, policy=Policy(rules=always([Action.RESUME, Action.FALLBACK]))))
        << opens()
        >> refused()
        << closes(Result.REFUSED)
        << opens(Strategy.UNFORCED, grammar=None)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, grammar=None, attempt=2)
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, grammar=None, attempt=3)
        >> says(" a = 3 + 4 = 6\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="spare", attempt=4)
    )
    last = play.commands[-1]
    assert isinstance(last, Open)
    assert last.grammar is not None


def test_it_is_the_same_again_in_temperature_and_seed_and_spends_no_retry() -> None:
    policy = Policy(transport_retries=1, vary=frozenset(Vary), seed=5)
    play = (
        Playbook(sums(GRAMMAR, policy=policy))
        << opens(temperature=0.0, seed=5)
        >> refused()
        << closes(Result.REFUSED)
        << opens(Strategy.UNFORCED, temperature=0.0, seed=5)
        >> Failed(UpstreamConnectError("gone"))
        << closes(Result.UPSTREAM_ERROR)
        << waits(0.5)
    )
    assert play.commands


# --- ignored -------------------------------------------------------------------------------------


def closed(run: Run, *pieces: str, finish_reason: str | None = None) -> Close:
    """How the first generation of a run is closed that writes this."""
    (opened,) = run.start()
    assert isinstance(opened, Open)
    commands = [command for piece in pieces for command in run.handle(Text(piece))]
    if not any(isinstance(command, Close) for command in commands):
        commands += run.handle(ends(finish_reason or "stop"))
    return next(command for command in commands if isinstance(command, Close))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (GRAMMAR, f"{RIGHT[0]}3 c = 14 - 3 = 11\n"),  # a step is left out
        (GRAMMAR, f"{RIGHT[0]}{RIGHT[0][1:]}"),
        (GRAMMAR, " a = 3 + 5 = 8\n"),  # an operand that was given
        (GRAMMAR, f"{RIGHT[0]}So b is 14.\n"),
        (GRAMMAR, " a = three\n"),
        (GRAMMAR, "".join(RIGHT[:3]) + "4 return -\n"),
        (TURN, "Sure, here it is:\n"),
        (TURN, f"@begin sums {NONCE}\n1 a = 3 + 4 = 7\n4 return 7\n"),
        (replace(TURN, dialect=Dialect.JSON_SCHEMA), "Sure, here it is:\n"),
    ],
)
def test_what_the_grammar_forbids_shows_that_it_is_ignored(target: Target, text: str) -> None:
    found = closed(sums(target, policy=REJECT), text)
    assert (found.result, found.ignored) == (Result.VIOLATION, True)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (GRAMMAR, " a = 3 + 4 = 8\n"),  # wrong, and what a model under the grammar may write
        (GRAMMAR, "a = 3 + 4 = 8\n"),  # the blank in front was cut off
        (TURN, f"\n@begin sums {NONCE}\n1 a = 3 + 4 = 8\n"),
        (GRAMMAR, f"{RIGHT[0]}2 b = 7 * 2 = 15\n"),
        (GRAMMAR, f"{RIGHT[0]}2 b = 7 * "),  # cut
        (PREFILL, f"{RIGHT[0]}3 c = 14 - 3 = 11\n"),  # there is no grammar
        (replace(TURN, dialect=Dialect.JSON_SCHEMA), "1 a = 3 + 4 = 8\n4 return 7\n"),
    ],
)
def test_what_it_allows_does_not_however_wrong(target: Target, text: str) -> None:
    found = closed(sums(target, policy=REJECT), text, finish_reason="length")
    assert not found.ignored


def test_with_shapes_alone_a_wrong_operand_is_nobodys_disobedience() -> None:
    policy = replace(REJECT, force=Level.SHAPE)
    assert not closed(sums(GRAMMAR, policy=policy), " a = 3 + 5 = 8\n").ignored
    assert closed(sums(GRAMMAR, policy=policy), " a = ! = 8\n").ignored


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (
            [RIGHT[0].replace(" = ", "  = ", 1), *RIGHT[1:], f"@end {NONCE}\n"],
            "stop",
        ),  # verified all the same
        ([*RIGHT, f"@end {NONCE}\n", "That is all."], None),  # behind all that was asked for
        ([*RIGHT], "stop"),  # it may not end there
        ([RIGHT[0], "\n", *RIGHT[1:], f"@end {NONCE}\n"], "stop"),
    ],
)
def test_it_shows_also_where_every_line_is_right(pieces: list[str], reason: str | None) -> None:
    found = closed(sums(GRAMMAR, policy=replace(REJECT, tolerant=True)), *pieces, finish_reason=reason)
    assert (found.result, found.ignored) == (Result.PASSED, True)


def test_what_has_not_the_form_that_was_asked_for_shows_it_whatever_it_says() -> None:
    for strays in ((True, False), (False, True)):
        run = sums(GRAMMAR, policy=REJECT)
        run.start()
        commands = run.handle(Text("".join(RIGHT), strayed=strays[0]))
        commands += run.handle(replace(ends("stop"), strayed=strays[1]))
        assert [command.ignored for command in commands if isinstance(command, Close)] == [True]


def test_lines_of_a_generation_that_heeds_nothing_can_still_be_scaffolded() -> None:
    policy = Policy(rules=always([Action.SCAFFOLD, Action.REJECT]))
    assert (
        Playbook(sums(GRAMMAR, policy=policy))
        << opens()
        >> says(" a = 3 + 5 = 8\n")
        << violates(Kind.WRONG_EXPRESSION, "1")
        << closes(Result.VIOLATION, ignored=True)
        << opens(Strategy.SCAFFOLD, prefix="@begin sums 3fa92c\n1 a = 3 + 4 =")
    ).commands


def test_a_grammar_ends_in_front_of_what_hangs_on_a_decision() -> None:
    decided = [' qty = 6 <- "Six"\n', "2 loyal = true\n", "3 price = 10.00\n"]
    for text, ignores in (("", False), ("4 if true = maybe\n", True)):
        found = closed(order(GRAMMAR, policy=REJECT), *decided, text, finish_reason="length")
        assert found.ignored is ignores


SOME = settings(max_examples=60, deadline=None)
_BYTES: Final = LLTokenizer("byte")


def run_of(sample: Sample, target: Target, level: Level) -> tuple[Run, Open | None]:
    program: Program = sample.program
    job = Job(program=program, inputs=sample.inputs, messages=(), nonce=NONCE)
    run = Run(job, replace(REJECT, force=level), [target])
    *_, last = run.start()
    return run, last if isinstance(last, Open) else None


@SOME
@given(
    samples(),
    st.sampled_from([Level.SHAPE, Level.OPERANDS, Level.VALUES]),
    st.booleans(),
    st.sampled_from(["stop", "length", None]),
    st.data(),
)
def test_text_that_a_real_implementation_accepts_never_counts_as_ignoring(
    sample: Sample, level: Level, prefill: bool, reason: str | None, data: st.DataObject
) -> None:
    target = replace(GRAMMAR, prefill=prefill, dialect=Dialect.LLGUIDANCE)
    run, opened = run_of(sample, target, level)
    if opened is None:  # the guard wrote all of it
        return
    assert opened.grammar is not None
    faithful = render.trace(sample.program, sample.steps, NONCE)
    text = faithful.removeprefix(opened.prefix)
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from('0 7.-=("\\\naé%)]{t'))
    text = text[:place] + char + text[place + data.draw(st.integers(0, 1)) :]
    matcher = LLMatcher(_BYTES, opened.grammar)
    count = matcher.try_consume_tokens(list(text.encode()))
    taken = text.encode()[:count].decode(errors="ignore")
    assume(reason != "stop" or matcher.is_accepting())  # it would not have let it end
    commands: list[Any] = run.handle(Text(taken)) if taken else []
    if not any(isinstance(command, Close) for command in commands):
        commands += run.handle(ends(reason))
    assert not any(isinstance(command, Close) and command.ignored for command in commands)


# --- what no notation can say --------------------------------------------------------------------

# Each pass copies a text that has to stand in the grammar as it is, at every level.
COPIES: Final = """\
procedure copies(xs: list of int, label: string) -> string
  last = label
  for x in xs at most 60
    last = label
  return last
"""
COPIED: Final[dict[str, Value]] = {"xs": (1,) * 40, "label": "x" * 9_000}


def copies(target: Target, **policy: Any) -> Run:
    return Run(job(COPIES, COPIED), Policy(**policy), [target])


@pytest.mark.parametrize("dialect", [dialect for dialect in Dialect if dialect is not Dialect.JSON_SCHEMA])
@pytest.mark.parametrize("level", [Level.OPERANDS, Level.SHAPE])
@pytest.mark.parametrize("by", [ForceBy.AUTO, ForceBy.GRAMMAR, ForceBy.LINES])
def test_what_cannot_be_said_at_any_level_is_asked_for_by_lines_where_a_prefix_is_continued(
    dialect: Dialect, level: Level, by: ForceBy
) -> None:
    opened = copies(replace(GRAMMAR, dialect=dialect), force=level, force_by=by).start()[-1]
    assert isinstance(opened, Open)
    assert opened.grammar is None
    lines = level is Level.OPERANDS and by is not ForceBy.GRAMMAR
    assert (opened.stop == ENDS) is lines
    # By lines from the first one on, no grammar was to be sent.
    assert opened.loosened is (None if lines and by is ForceBy.LINES else Level.NONE)


def test_it_goes_on_line_by_line_and_is_counted_once() -> None:
    run = copies(replace(GRAMMAR, dialect=Dialect.REGEX), force_by=ForceBy.AUTO)
    commands, asked = run.start(), list[Open]()
    steps = iter(
        render.trace(
            program(COPIES), carried_out(COPIES, program(COPIES), COPIED, {}).steps, NONCE
        ).splitlines(keepends=True)[1:]
    )
    verified = ""
    while isinstance(commands[-1], Open):
        opened = commands[-1]
        asked.append(opened)
        assert opened.prefix.startswith(verified)
        begun = opened.prefix.rsplit("\n", 1)[1]
        line = next(step for step in steps if step.startswith(begun))
        verified = opened.prefix.removesuffix(begun) + line
        commands = run.handle(Text(line.removeprefix(begun)))
        if not any(isinstance(command, Close) for command in commands):
            commands += run.handle(ends())
    finish = commands[-1]
    assert isinstance(finish, Finish)
    assert (finish.outcome, finish.forced) == (Outcome.ACCEPTED_FIRST, Level.NONE)
    assert all(opened.grammar is None for opened in asked)
    assert [opened.loosened for opened in asked if opened.loosened is not None] == [Level.NONE]
    assert {opened.strategy for opened in asked} <= {Strategy.INITIAL, Strategy.LINE}


@pytest.mark.parametrize("dialect", list(Dialect))
def test_without_a_prefix_it_is_asked_for_unforced_and_counted(dialect: Dialect) -> None:
    opened = copies(replace(TURN, dialect=dialect)).start()[-1]
    assert isinstance(opened, Open)
    assert (opened.grammar, opened.prefix, opened.stop, opened.loosened) == (None, "", (), Level.NONE)
    play = closed(copies(replace(TURN, dialect=dialect), rules=always([Action.REJECT])), "Sure.\n")
    assert not play.ignored
