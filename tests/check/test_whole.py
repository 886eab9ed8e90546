"""One text, one verdict: the run that serves it, `stepguard check` and mode `observe` agree."""

from __future__ import annotations

from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.check.checker import Checker
from guard.check.freely import findings
from guard.check.report import report
from guard.check.verdict import Verdict
from guard.check.whole import whole
from guard.procedure.types import Value
from guard.run.ladders import Action, always
from guard.run.messages import Finish, Outcome
from guard.run.policy import Policy
from tests.check.test_freely import done
from tests.run.procedures import DIALOGUE, NONCE, SUMS, program, sums
from tests.run.test_run_whole import commands

INPUTS: Final[dict[str, Value]] = {"x": 3, "y": 4}
LINES: Final = (
    "@begin sums 3fa92c",
    "1 a = 3 + 4 = 7",
    "2 b = 7 * 2 = 14",
    "3 c = 14 - 3 = 11",
    "4 return 11",
)
END: Final = f"@end {NONCE}"
# What may follow an answer, or stand where a line does.
OTHER: Final = st.sampled_from(
    [
        "",
        " ",
        END,
        "@end abcdef",
        "Done.",
        "4 return 11",
        "4 return 12",
        "3 c = 14 - 3 = 12",
        "5 d = 1",
        "```",
        "\t",
    ]
) | st.text("ab1 .\n", max_size=12)


def verdict_of_run(text: str, finish_reason: str = "stop") -> bool:
    run = sums(DIALOGUE, policy=Policy(rules=always([Action.REJECT]), attempts=0))
    *_, last = commands(run, [text])
    assert isinstance(last, Finish)
    return last.outcome is Outcome.ACCEPTED_FIRST


def checked(text: str) -> Checker:
    checker = Checker(program(SUMS), INPUTS, nonce=NONCE, stop_at_first=False)
    whole(checker, text)
    return checker


@st.composite
def texts(draw: st.DrawFn) -> str:
    lines = list(LINES)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(lines) - 1))
        lines[place : place + draw(st.integers(0, 1))] = [draw(OTHER)]
    lines += draw(st.lists(OTHER, max_size=3))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(texts())
def test_a_run_accepts_what_a_check_passes(text: str) -> None:
    assert verdict_of_run(text) == (checked(text).verdict is Verdict.PASSED)


@given(st.lists(OTHER, max_size=3), st.sampled_from(["", "\n"]))
def test_what_follows_the_answer_changes_no_verdict_and_is_said_to_be_unread(
    after: list[str], end: str
) -> None:
    text = "\n".join([*LINES, *after]) + end
    checker = Checker(program(SUMS), INPUTS, nonce=NONCE, stop_at_first=False)
    rest = whole(checker, text)
    assert checker.verdict is Verdict.PASSED
    seen = done(findings(program(SUMS), INPUTS, text))
    assert (seen.reading, seen.verdict, seen.answer) == ("trace", Verdict.PASSED, "right")
    following = text[len("\n".join(LINES)) :].strip()
    kept = (
        following.removeprefix(END).strip() if following.split("\n")[0].split() == END.split() else following
    )
    assert (rest is None) == (kept == "")
    if rest is not None:
        assert text[rest.at : rest.at + rest.characters] == kept
        assert report(checker, rest=rest).to_json()["unread"] == {"at": rest.at, "characters": len(kept)}


@pytest.mark.parametrize("place", range(1, len(LINES)))
def test_what_is_wrong_before_the_answer_is_all_listed(place: int) -> None:
    lines = [*LINES, END]
    lines[place] = lines[place][:-1] + "9"
    text = "\n".join([*lines, "and more", ""])
    assert checked(text).verdict is Verdict.FAILED
    assert not verdict_of_run(text)


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_cut_after_the_answer_loses_nothing(finish_reason: str) -> None:
    checker = Checker(program(SUMS), INPUTS, nonce=NONCE)
    assert whole(checker, "\n".join([*LINES, "@en"]), finish_reason) is not None
    assert checker.verdict is Verdict.PASSED


def test_a_cut_within_the_answer_is_a_cut() -> None:
    checker = Checker(program(SUMS), INPUTS, nonce=NONCE)
    assert whole(checker, "\n".join(LINES), "length") is None
    assert [one.kind.value for one in checker.violations] == ["truncated"]
