"""A whole response checked as far as the endpoint reads one: to its answer, what follows is left unread.

The endpoint ends a generation at the verified answer and writes the closing line itself. So does this, that
one text gets one verdict wherever it is judged. Where something was wrong before, all of the text is read.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from guard.check.checker import Checker
from guard.check.verdict import Judgement, Verdict
from guard.procedure.expected import EndKind
from guard.trace import render
from guard.wire import finish

TURN: Final = 512  # characters that a checker is told in one go

_ANSWERED: Final = frozenset({EndKind.RETURN, EndKind.DENY, EndKind.ESCALATE})


@dataclass(frozen=True, slots=True)
class Rest:
    """Text after the answer that was not read: where it begins and how long it is, in code points."""

    at: int
    characters: int


def check_whole(
    checker: Checker, text: str, finish_reason: str | None = "stop"
) -> Generator[None, None, tuple[list[Judgement], Rest | None]]:
    """Feed a fresh checker a whole response and close it; gives what it judged and what was left unread.

    Yields now and then, so that others get their turn.
    """
    heard: list[Judgement] = []
    at = turn = 0
    while at < len(text) and not _answered(checker):
        line = text[at : (text.find("\n", at) + 1) or len(text)]
        at += len(line)
        # A last line that its model ended itself is whole, as it is where a generation ends.
        whole = line.endswith("\n") or not finish.is_own(finish_reason)
        heard += checker.feed(line if whole else f"{line}\n")
        turn += len(line)
        if turn >= TURN:
            turn = 0
            yield
    rest = None
    if _answered(checker):
        rest = _rest(checker, text, at)
        heard += checker.feed(f"{render.end(checker.nonce or '')}\n")
    heard += checker.close(finish_reason)
    return heard, rest


def whole(checker: Checker, text: str, finish_reason: str | None = "stop") -> Rest | None:
    """Do as `check_whole` does, in one go; gives what was left unread."""
    work = check_whole(checker, text, finish_reason)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            _, rest = stop.value
            return rest if isinstance(rest, Rest) else None


def _answered(checker: Checker) -> bool:
    ending = checker.ending
    return checker.verdict is Verdict.PENDING and ending is not None and ending.kind in _ANSWERED


def _rest(checker: Checker, text: str, at: int) -> Rest | None:
    """What follows the answer, but for the closing line and what is blank."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    line = text[begin : text.find("\n", begin) if "\n" in text[begin:] else len(text)]
    if line.split() == render.end(checker.nonce or "").split():
        begin += len(line)
    following = text[begin:]
    kept = following.strip()
    return Rest(begin + len(following) - len(following.lstrip()), len(kept)) if kept else None
