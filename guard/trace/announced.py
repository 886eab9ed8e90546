r"""Answers that a text announces: `Answer: 7`, `#### 7`, `\boxed{7}`, `<answer>7</answer>`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from guard.trace.amounts import CURRENCIES
from guard.trace.equations import parts_of
from guard.trace.tokens import Sort, Token, Value, first_sentence, tokens

MARKS: Final = 64  # announcements of an answer in one line
FAR: Final = 2  # of them that are read to the end of the sentence; each one after that, to the next
TEXT: Final = 200  # characters of an answer that is no number

_LINK: Final = r"(?P<link>[:=≈]|(?:is|equals|would[ \t]+be|will[ \t]+be|comes[ \t]+to)\b:?)"
_GAP: Final = r"[ \t*_`]*+"
_MARK: Final = re.compile(
    r"(?:(?<!#)####(?!#)|\b(?:final[ \t]+(?:answer|value|result|number|total|output)|answer)\b)"
    rf"(?:[ \t]+(?:of|for|to)[ \t]+\S{{1,64}})?+{_GAP}{_LINK}?+{_GAP}",
    re.IGNORECASE,
)
_SHORT: Final = re.compile(rf"{_GAP}(?:A|Ans|ANS)\b\.?{_GAP}:{_GAP}")
_RESULT: Final = re.compile(rf"\b[Rr]esult\b{_GAP}{_LINK}{_GAP}")
_TAG: Final = re.compile(r"<(?:final_?)?answer>(?P<inside>[^\n]{0,200}?)</(?:final_?)?answer>", re.IGNORECASE)
_BOXED: Final = re.compile(r"\\boxed[ \t]*+\{")
_BRACES: Final = re.compile(r"[{}]")
_SAID: Final = re.compile(r"(?:true|false|yes|no)\b|\"[^\"\n]{0,200}\"", re.IGNORECASE)
_TRIM: Final = " \t\r*_`.$"
_TRIMMED: Final = re.compile(rf"[{re.escape(_TRIM)}]*+\Z")
_FIGURES: Final = frozenset({Sort.NUMBER, Sort.DAY})
_LEADS: Final = frozenset({Sort.MONEY, Sort.MARK, Sort.OPEN, Sort.SIGN, Sort.EQUALS, Sort.COLON})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer and where it stands.

    `value` is None where nothing can be made of the text; it is the text itself where that is no number,
    date or truth value. `quoted`: it stands in quotes or in JSON, which hold all of the answer. `about`:
    it is said to be near the value. `percent`: it is written as so many hundredths.
    """

    text: str
    value: Value | None
    at: int
    end: int
    quoted: bool = False
    about: bool = False
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Announced:
    """What a line announces. `weak` counts where there is no other; `waits`: the next line has the answer."""

    answers: tuple[Answer, ...] = ()
    weak: tuple[Answer, ...] = ()
    waits: bool = False


def announced(  # noqa: PLR0917 (a span of a text in both of its spellings)
    text: str,
    original: str,
    at: int,
    end: int,
    equations: Callable[[int, int], bool],
    said: int | None = None,
) -> Announced:
    """Read the announcements of a line of a `plain` text.

    `equations` says whether a span gives a step its value. `said` is where an answer stands that the line is
    known to give.
    """
    reader = _Reader(text, original, equations)
    if said is not None:
        return Announced(tuple(reader.said(said, end, free=True)))
    answers = [*reader.boxed(at, end), *reader.tagged(at, end)]
    waits = False
    for mark, stop in _each(_MARK, text, at, end):
        if mark["link"] is None and not mark[0].startswith("####"):
            waits = waits or mark.end() >= end
        elif _TRIMMED.match(text, mark.end(), end):
            waits = True
        else:
            answers += reader.said(mark.end(), stop, free=mark["link"] == ":")
    weak = [one for mark, stop in _weak(text, at, end) for one in reader.said(mark.end(), stop, free=False)]
    return Announced(tuple(answers), tuple(weak), waits)


def _each(pattern: re.Pattern[str], text: str, at: int, end: int) -> Iterator[tuple[re.Match[str], int]]:
    """Give the first marks of a kind in a line, and how far what each of them announces is read.

    Each is read to the end only a few times, or a line of nothing but marks would take quadratic time.
    """
    marks = list(islice(pattern.finditer(text, at, end), MARKS))
    for place, mark in enumerate(marks):
        following = marks[place + 1].start() if place + 1 < len(marks) else end
        yield mark, end if place < FAR else following


def _weak(text: str, at: int, end: int) -> Iterator[tuple[re.Match[str], int]]:
    if short := _SHORT.match(text, at, end):
        yield short, end
    yield from _each(_RESULT, text, at, end)


def alone(text: str, original: str, at: int, end: int) -> Answer | None:
    """Give the number or date that is all of a line; without a value where it begins one that goes on."""
    found = tokens(text, at, end)
    answer = _number(original, found)
    if answer is None or not _begins(found):
        return None
    words = any(token.sort is Sort.WORD and token.text not in CURRENCIES for token in found)
    if not words and len(parts_of(found)) == 1 and answer.value is not None:
        return answer
    listed = len(found) > 1 and all(
        token.sort is Sort.NUMBER for token in found
    )  # a number that is one of several is none
    return None if listed else replace(answer, value=None)


def number(text: str, original: str, at: int, end: int) -> Answer | None:
    """Give the number or date that a piece of text comes to; without a value where that cannot be read."""
    return _number(original, first_sentence(text, at, end))


def _number(original: str, found: list[Token]) -> Answer | None:
    parts = parts_of(found)
    if not parts or not any(token.sort in _FIGURES for token in found[: _sentence_end(found)]):
        return None
    last = parts[-1]
    text = original[last.at : last.end]
    if not text:
        return None
    return Answer(
        text=text, value=last.value, at=last.at, end=last.end, about=last.about, percent=last.percent
    )


def _sentence_end(found: list[Token]) -> int:
    return next((place for place, token in enumerate(found) if token.sort is Sort.STOP), len(found))


def _begins(found: list[Token]) -> bool:
    """Whether a number stands first, but for what may lead to it."""
    for token in found:
        if token.sort in _FIGURES:
            return True
        if token.sort not in _LEADS:
            return False
    return False


class _Reader:
    """Reads the answers of one line."""

    def __init__(self, text: str, original: str, equations: Callable[[int, int], bool]) -> None:
        self._text, self._original, self._equations = text, original, equations

    def boxed(self, at: int, end: int) -> Iterator[Answer]:
        for box, stop in _each(_BOXED, self._text, at, end):
            closing = self._closing(box.end(), stop)
            yield from self._inside(box.end(), closing, closed=self._text[closing : closing + 1] == "}")

    def tagged(self, at: int, end: int) -> Iterator[Answer]:
        for tag in islice(_TAG.finditer(self._text, at, end), MARKS):
            yield from self._inside(*tag.span("inside"), closed=True)

    def _closing(self, at: int, end: int) -> int:
        depth = 1
        for brace in _BRACES.finditer(self._text, at, min(end, at + TEXT)):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                return brace.start()
        return min(end, at + TEXT)

    def _inside(self, at: int, end: int, *, closed: bool) -> Iterator[Answer]:
        found = number(self._text, self._original, at, end)
        if found is not None:
            yield found if closed else replace(found, value=None)
        else:
            yield from self._text_at(at, end)

    def said(self, at: int, end: int, *, free: bool) -> Iterator[Answer]:
        """Give what stands after a mark; `free`: words count as well."""
        found = number(self._text, self._original, at, end)
        if said := _SAID.match(self._text, at, end):
            yield from self._text_at(*said.span())
        elif found is not None and (found.value is not None or not free):
            yield found
        elif free and not self._equations(at, min(end, at + TEXT)):
            yield from self._text_at(at, end)

    def _text_at(self, at: int, end: int) -> Iterator[Answer]:
        """An answer that is no number."""
        piece = self._text[at : min(end, at + TEXT)]
        at += len(piece) - len(piece.lstrip(_TRIM))
        text = piece.strip(_TRIM)
        if text:
            end = at + len(text)
            quoted = text[0] == text[-1] == '"' and len(text) > 1
            value = {"true": True, "false": False}.get(text.lower(), text.strip('"'))
            yield Answer(text=self._original[at:end], value=value, at=at, end=end, quoted=quoted)
