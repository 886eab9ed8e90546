"""How languages spell numbers and dates in words, as data: another language is another row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words of one language, in lower case.

    `ones` are the numbers below 20 and what else says a small number by itself, `tens` 20 to 90. `joint` is
    the word within a number; with `inverted` the ones stand before the tens, all in one word. `hundred` and
    `scales` multiply what stands before them; `alone` are what may stand there for one. `months` are the
    spellings of each month, `of` the words between a day and its month, `ordinal` the endings of a day,
    `clock` the words after an hour.
    """

    ones: Mapping[str, int]
    tens: Mapping[str, int]
    joint: str
    hundred: str
    scales: Mapping[str, int]
    alone: tuple[str, ...]
    months: tuple[tuple[str, ...], ...]
    percent: tuple[str, ...]
    halves: tuple[str, ...]
    minus: str
    clock: tuple[str, ...]
    of: tuple[str, ...] = ()
    ordinal: tuple[str, ...] = ()
    inverted: bool = False


def _counted(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    """Number words one after the other; spellings of one number have a slash between them."""
    spellings = enumerate(words.split())
    return {word: first + place * step for place, alike in spellings for word in alike.split("/")}


def _months(words: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(month.split("/")) for month in words.split())


ENGLISH: Final = Language(
    ones=_counted(
        "zero/no/none/nil one/once/single two/twice/both/couple/pair three four five six seven eight nine "
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    ),
    tens=_counted("twenty thirty forty/fourty fifty sixty seventy eighty ninety", 20, 10),
    joint="and",
    hundred="hundred",
    scales={
        "dozen": 12,
        "thousand": 10**3,
        "k": 10**3,
        "million": 10**6,
        "millions": 10**6,
        "mn": 10**6,
        "billion": 10**9,
        "billions": 10**9,
        "bn": 10**9,
        "trillion": 10**12,
    },
    alone=("a", "an"),
    months=_months(
        "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep "
        "october/oct november/nov december/dec"
    ),
    percent=("percent", "per cent", "pct"),
    halves=("half",),
    minus="minus",
    clock=("o'clock", "o\u2019clock"),
    of=("of", "of the"),
    ordinal=("st", "nd", "rd", "th"),
)

GERMAN: Final = Language(
    ones=_counted(
        "null/kein/keine/keinen/keiner eins/ein/eine/einen/einem/einer/einmal zwei/zwo/zweimal/beide/paar "
        "drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
        "achtzehn neunzehn"
    ),
    tens=_counted("zwanzig dreißig/dreissig vierzig fünfzig sechzig siebzig achtzig neunzig", 20, 10),
    joint="und",
    hundred="hundert",
    scales={
        "dutzend": 12,
        "tausend": 10**3,
        "million": 10**6,
        "millionen": 10**6,
        "mio": 10**6,
        "milliarde": 10**9,
        "milliarden": 10**9,
        "mrd": 10**9,
    },
    alone=("ein", "eine"),
    months=_months(
        "januar/jänner/jan februar/feb märz/mrz april/apr mai juni/jun juli/jul august/aug "
        "september/sept/sep oktober/okt november/nov dezember/dez"
    ),
    percent=("prozent", "v.h."),
    halves=("halb", "halbe", "halbes", "halben", "halber"),
    minus="minus",
    clock=("uhr",),
    ordinal=(".",),
    inverted=True,
)

LANGUAGES: Final = (ENGLISH, GERMAN)
