r"""Answers that a text announces: `Answer: 7`, `#### 7`, `\boxed{7}`, `<answer>7</answer>`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from guard.trace.amounts import CURRENCIES
from guard.trace.equations import parts_of
from guard.trace.tokens import Sort, Token, Value, tokens

MARKS: Final = 64  # announcements of an answer in one line
TEXT: Final = 200  # characters of an answer that is no number

_LINK: Final = r"(?P<link>[:=≈]|(?:is|equals|would[ \t]+be|will[ \t]+be|comes[ \t]+to)\b:?)"
_GAP: Final = r"[ \t*_`]*+"
_MARK: Final = re.compile(
    r"(?:####|\b(?:final[ \t]+(?:answer|value|result|number|total|output)|answer)\b)"
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
    reader = _Reader(text, original, end, equations)
    if said is not None:
        return Announced(tuple(reader.said(said, free=True)))
    answers = [*reader.boxed(at), *reader.tagged(at)]
    waits = False
    for mark in islice(_MARK.finditer(text, at, end), MARKS):
        if mark["link"] is None and not mark[0].startswith("####"):
            waits = waits or mark.end() >= end
        elif text[mark.end() : end].strip(_TRIM):
            answers += reader.said(mark.end(), free=mark["link"] == ":")
        else:
            waits = True
    weak = [one for match in _weak(text, at, end) for one in reader.said(match.end(), free=False)]
    return Announced(tuple(answers), tuple(weak), waits)


def _weak(text: str, at: int, end: int) -> Iterator[re.Match[str]]:
    if short := _SHORT.match(text, at, end):
        yield short
    yield from islice(_RESULT.finditer(text, at, end), MARKS)


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
    return _number(original, tokens(text, at, end))


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

    def __init__(self, text: str, original: str, end: int, equations: Callable[[int, int], bool]) -> None:
        self._text, self._original, self._end, self._equations = text, original, end, equations

    def boxed(self, at: int) -> Iterator[Answer]:
        for box in islice(_BOXED.finditer(self._text, at, self._end), MARKS):
            end = self._closing(box.end())
            yield from self._inside(box.end(), end, closed=self._text[end : end + 1] == "}")

    def tagged(self, at: int) -> Iterator[Answer]:
        for tag in islice(_TAG.finditer(self._text, at, self._end), MARKS):
            yield from self._inside(*tag.span("inside"), closed=True)

    def _closing(self, at: int) -> int:
        depth = 1
        for brace in _BRACES.finditer(self._text, at, min(self._end, at + TEXT)):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                return brace.start()
        return min(self._end, at + TEXT)

    def _inside(self, at: int, end: int, *, closed: bool) -> Iterator[Answer]:
        found = number(self._text, self._original, at, end)
        if found is not None:
            yield found if closed else replace(found, value=None)
        else:
            yield from self._text_at(at, end)

    def said(self, at: int, *, free: bool) -> Iterator[Answer]:
        """Give what stands after a mark; `free`: words count as well."""
        found = number(self._text, self._original, at, self._end)
        stop = min(self._end, at + TEXT)
        if said := _SAID.match(self._text, at, self._end):
            yield from self._text_at(*said.span())
        elif found is not None and (found.value is not None or not free):
            yield found
        elif free and not self._equations(at, stop):
            yield from self._text_at(at, self._end)

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
