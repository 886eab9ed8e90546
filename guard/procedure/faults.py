"""The collector of what is wrong with a procedure's text."""

from __future__ import annotations

import re
from difflib import get_close_matches
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from guard.errors import Problem
    from guard.source import Source, Span

CUT: Final = 40
MOST_ERRORS: Final = 100  # of one text, twice as many as are ever told
COMPARED: Final = 1_000  # words of which the one that was meant is sought; of more, only those
ALIKE: Final = 2  # characters by which their lengths may differ

# Stands for a name in lines that the reader had to replace. It can occur in no text.
MENDED: Final = "?"


_CALL: Final = re.compile(r"(\w+)\s*\(")


class EnoughError(Exception):
    """A text has so many errors that no more are sought. `problems` are those that were found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems


class Faults:
    """Problems of one text, in the order they were found; calling it adds an error.

    Raises `EnoughError` where there are more errors than an author could ever be told of at once.
    `doubtful` names stand in lines that could not be read: nothing is said of calls by these names.
    """

    def __init__(self, source: Source, doubtful: frozenset[str] = frozenset()) -> None:
        self.source, self.doubtful = source, doubtful
        self.problems: list[Problem] = []
        self._errors = 0
        self._found: set[Problem] = set()  # the same, to look them up: a file may have very many

    def __call__(self, span: Span, message: str, help: str = "") -> None:  # noqa: A002 (the field's name)
        self._add(span, message, help, "error")

    def warning(self, span: Span, message: str, help: str = "") -> None:  # noqa: A002
        """Add what is allowed but hardly meant."""
        self._add(span, message, help, "warning")

    def _add(self, span: Span, message: str, help_text: str, severity: str) -> None:
        call = _CALL.match(self.source.text, span.start)
        if call is not None and call[1] in self.doubtful:
            return
        problem = self.source.problem(span, message, help=help_text, severity=severity)
        if problem not in self._found:
            self._found.add(problem)
            self.problems.append(problem)
            self._errors += severity == "error"
            if self._errors >= MOST_ERRORS:
                raise EnoughError(self.problems)

    def join(self, others: Faults) -> None:
        """Take over the problems of others, but for places that have an error already."""
        taken = {(problem.line, problem.column) for problem in self.problems if problem.severity == "error"}
        new = [problem for problem in others.problems if (problem.line, problem.column) not in taken]
        self.problems += new
        self._found.update(new)


def quoted(text: str) -> str:
    """Foreign text for a message: its repr, cut."""
    return repr(str(text) if len(text) <= CUT else f"{text[: CUT - 1]}…")


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Find the one of some words that was probably meant."""
    candidates = set(words) - {word}
    if len(candidates) > COMPARED:
        alike = (one for one in candidates if one[:1] == word[:1] and abs(len(one) - len(word)) <= ALIKE)
        candidates = set(nsmallest(COMPARED, alike))
    folded = {candidate.lower(): candidate for candidate in sorted(candidates)}
    near = get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    if near:
        return folded[near[0]]
    longer = [candidate for candidate in folded if len(word) > 2 and word.lower() in candidate]
    return folded[longer[0]] if len(longer) == 1 else None


def suggestion(word: str, words: Iterable[str]) -> str:
    """`did you mean 'lines'?`, or which words there are, or nothing where there are none."""
    known = set(words) - {MENDED}
    near = nearest(word, known)
    if near is not None:
        return f"did you mean {near!r}?"
    if not known:
        return ""
    listed = ", ".join(nsmallest(12, known)) + (", ..." if len(known) > 12 else "")
    return f"known here: {listed}"
