"""Numbers in words: from a run of words to the number that the longest beginning of it spells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final

from guard.procedure.numbers import Number
from guard.trace.languages import LANGUAGES, Language

MOST_WORDS: Final = 24  # of a number: what is longer is read as several

_HALF: Final = Fraction(1, 2)
_PHRASE: Final = 5  # words of a number below 1,000: `nine hundred and ninety nine`
_SHORT: Final = 3  # letters of a scale that is no number by itself: `k`, `mio`


def begins_number(word: str) -> bool:
    """Whether a number may begin with a word in lower case; quick, for there are many words."""
    return any(reader.may_begin(word) for reader in _readers())


def number_words(words: Sequence[str]) -> tuple[Number, int] | None:
    """Read the number that words in lower case begin with: its value, and how many of them it takes.

    None where they begin with none in any language. Of two readings the longer one counts.
    """
    found = [reading for reader in _readers() if (reading := reader.read(words[:MOST_WORDS])) is not None]
    return max(found, key=lambda reading: reading[1], default=None)


@cache
def _readers() -> tuple[_Reader, ...]:
    return tuple(map(_Reader, LANGUAGES))


class _Reader:
    """Reads the numbers of one language."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._small = below_thousand(language)
        self._firsts = {phrase.partition(" ")[0] for phrase in self._small}
        self._firsts.update(language.alone, language.scales, language.halves)
        self._glue = re.compile("|".join(language.scales) if language.inverted else "(?!)")

    def may_begin(self, word: str) -> bool:
        """Whether a number may begin with a word."""
        return word in self._firsts or self._glue.search(word) is not None

    def read(self, words: Sequence[str]) -> tuple[Number, int] | None:
        language = self._language
        if words[0] not in self._firsts:
            return self._glued(words[0]) if self._glue.search(words[0]) else None
        total, at, below = (
            0,
            0,
            0,
        )  # the scale of the part before, which those of later parts are smaller than
        while at < len(words):
            joined = at > 0 and words[at] == language.joint
            part = self._part(words[at + joined :])
            if part is None or (at and part[1] >= below):
                break
            value, below, taken = part
            total, at = total + value, at + joined + taken
        if at == 0:
            return (_HALF, 1) if words[0] in language.halves else None
        match words[at : at + 3]:
            case [joint, one, half] if (
                joint == language.joint and one in language.alone and half in language.halves
            ):
                return total + _HALF, at + 3
            case _:
                return total, at

    def _part(self, words: Sequence[str]) -> tuple[int, int, int] | None:
        """Read a number below 1,000 and its scale: the value, the scale, and how many words these are."""
        scales = self._language.scales
        count, taken = self._count(words)
        if taken < len(words) and (scale := scales.get(words[taken])) is not None:
            if count is not None or len(words[taken]) > _SHORT:
                return (1 if count is None else count) * scale, scale, taken + 1
        elif taken + 1 < len(words) and words[taken] in self._language.alone and words[taken + 1] in scales:
            scale = scales[words[taken + 1]]
            return scale, scale, taken + 2
        return None if count is None else (count, 1, taken)

    def _count(self, words: Sequence[str]) -> tuple[int | None, int]:
        for taken in range(min(_PHRASE, len(words)), 0, -1):
            value = self._small.get(" ".join(words[:taken]))
            if value is not None:
                return value, taken
        return None, 0

    def _glued(self, word: str) -> tuple[Number, int] | None:
        """Read a word that has a scale inside it: `zweitausendfünfhundert`."""
        for scale, factor in self._language.scales.items():
            before, found, after = word.partition(scale)
            after = after.removeprefix(self._language.joint)
            if found and all(not part or part in self._small for part in (before, after)):
                return self._small.get(before, 1) * factor + self._small.get(after, 0), 1
        return None


def below_thousand(language: Language) -> dict[str, int]:
    """Give every spelling of the numbers below 1,000, its words divided by blanks."""
    gap = "" if language.inverted else " "
    digits = {word: number for word, number in language.ones.items() if 0 < number < 10}
    known = dict(language.ones) | dict(language.tens)
    for ten, tens in language.tens.items():
        for one, ones in digits.items():
            spelled = f"{one}{language.joint}{ten}" if language.inverted else f"{ten} {one}"
            known[spelled] = tens + ones
    small = {word: number for word, number in known.items() if number}
    heads = {
        "": 1,
        **{f"{word}{gap}": many for word, many in {**dict.fromkeys(language.alone, 1), **digits}.items()},
    }
    for head, many in heads.items():
        hundreds = f"{head}{language.hundred}"
        known[hundreds] = many * 100
        for word, number in small.items():
            for joint in (gap, f"{gap}{language.joint}{gap}"):
                known[f"{hundreds}{joint}{word}"] = many * 100 + number
    return known
