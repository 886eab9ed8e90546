"""Which numbers, days and times stand in a text, in every spelling that people use, each with its place.

A spelling is read as a whole: nothing is read inside a longer number, a date, a time or a code such as `A5`.
Where two conventions read a spelling differently (`1.250`, `03/04/2026`) it stands for either value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from fractions import Fraction
from typing import Final

from guard.procedure.dates import DATE, MOMENT, parse_date, parse_moment
from guard.procedure.numbers import DIGITS, Number
from guard.trace.languages import LANGUAGES
from guard.trace.numberwords import MOST_WORDS, begins_number, number_words
from guard.trace.numerals import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """One spelling: the values that it may stand for, and where it does, in code points.

    `numbers` are as any number reads it, `shares` as a percentage does, `unscaled` without a word for a
    magnitude. `moments` have an offset; a day and a time that stand apart have none.
    """

    at: int
    end: int
    numbers: tuple[Number, ...] = ()
    shares: tuple[Number, ...] = ()
    unscaled: tuple[Number, ...] = ()
    days: tuple[date, ...] = ()
    times: tuple[time, ...] = ()
    moments: tuple[datetime, ...] = ()


def spelled_in(text: str) -> Iterator[Spelled]:
    """Give every spelling in a text, in order. White space in it is blanks, one at a time."""
    flat = plain(text.replace("\N{EM DASH}", ";"))  # which divides, and is no hyphen
    at, negative = 0, False
    found: Iterable[Spelled]
    while (match := _TOKEN.search(flat, at)) is not None:
        at = match.end()
        match match.lastgroup:
            case "moment" | "iso" | "figures" | "day_first" | "month_first":
                found = _dated(match)
            case "clock" | "hour":
                found = _clock(match)
            case "number":
                found, at = _number(flat, match, negative=negative)
            case "word":
                found, at = _words(flat, match, negative=negative)
            case _:
                found = ()
        yield from found
        negative = match.lastgroup == "word" and match["word"].lower() in _MINUS


# --- what begins where -----------------------------------------------------------------------------


def _any(words: set[str] | frozenset[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


_MONTHS: Final = {
    name: place for language in LANGUAGES for place, names in enumerate(language.months, 1) for name in names
}
_SCALES: Final = {word: scale for language in LANGUAGES for word, scale in language.scales.items()}
_MINUS: Final = {language.minus for language in LANGUAGES}
_PERCENT: Final = {word for language in LANGUAGES for word in language.percent}
_ORDINAL: Final = _any({ending for language in LANGUAGES for ending in language.ordinal})
_OF: Final = _any({word for language in LANGUAGES for word in language.of})
_CLOCK: Final = _any({word for language in LANGUAGES for word in language.clock})
_MONTH: Final = rf"(?:{_any(set(_MONTHS))})\b\.?"
_CODES: Final = (
    "AED|AUD|BGN|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PHP|PLN|RON|RUB|SAR|SEK"
    "|SGD|THB|TRY|TWD|UAH|USD|ZAR|Rs|US|Fr"
)
_MONEY: Final = "\\$\u20ac\u00a3\u00a5\u20b9\u20bd\u20a9\u20ba\u20aa\u00a2"
_PARTS: Final = {
    "\u00bd": (1, 2), "\u2153": (1, 3), "\u2154": (2, 3), "\u00bc": (1, 4), "\u00be": (3, 4), "\u215b": (1, 8)
}  # fmt: skip
_FRACTIONS: Final = {sign: Fraction(*parts) for sign, parts in _PARTS.items()}
# In front of figures stands neither a word nor more of the same figures; `4x61.20` is two numbers.
_FREE: Final = r"(?:(?<![\w])(?<![0-9][.,:])|(?<=[0-9][xX]))"
_TOKEN: Final = re.compile(
    rf"""
    (?P<moment> {_FREE}{MOMENT}(?![\w:]) )
  | (?P<iso> {_FREE}{DATE}(?![0-9\-]) )
  | (?P<figures> {_FREE}(?: [0-9]{{1,2}}(?P<sign>[./\-])[ ]?[0-9]{{1,2}}(?P=sign)[ ]?(?:[0-9]{{4}}|[0-9]{{2}})
        | [0-9]{{4}}(?P<sign2>[./])[0-9]{{1,2}}(?P=sign2)[0-9]{{1,2}} )(?![\w]|[./\-][0-9]) )
  | (?P<day_first> {_FREE}(?P<day>[0-9]{{1,2}})(?:{_ORDINAL})?[ \-]?(?:(?:{_OF})[ ])?(?P<month>{_MONTH})
        (?:,?[ ]|-)(?P<year>[0-9]{{4}})(?![\w]) )
  | (?P<month_first> (?<!\w)(?P<month2>{_MONTH})[ \-]?(?P<day2>[0-9]{{1,2}})(?:{_ORDINAL})?
        (?:,[ ]?|[ ]|-)(?P<year2>[0-9]{{4}})(?![\w]) )
  | (?P<clock> {_FREE}(?P<h>[0-9]{{1,2}}):(?P<m>[0-9]{{2}})(?::(?P<s>[0-9]{{2}}))?(?![0-9:])
        (?:[ ]?(?P<half>[ap])\.?m\b\.?)? )
  | (?P<hour> {_FREE}(?P<h2>[0-9]{{1,2}})
        (?:(?:[.](?P<m2>[0-9]{{2}}))?[ ](?:{_CLOCK})\b|[ ]?(?P<half2>[ap])\.?m\b\.?) )
  | (?P<number> (?:(?<!\w)(?:{_CODES})(?=[ ]?[\-{_MONEY}]?[.]?[0-9])[ ]?|{_FREE})
        (?P<minus>(?<![\w)\]])-[ ]?(?=[{_MONEY}]))?(?P<money>[{_MONEY}][ ]?)?
        (?P<minus2>(?<![\w)\]])[\-\u2013])?
        (?: (?P<whole>[0-9]+)[ ](?P<over>[0-9]{{1,2}})/(?P<under>[0-9]{{1,2}})(?![\w/])
          | (?P<over2>[0-9]{{1,2}})/(?P<under2>[0-9]{{1,2}})(?![\w/]|[.,][0-9])
          | (?P<raw>(?: (?:[0-9]{{1,3}}(?:[ ][0-9]{{3}}(?![0-9])){{1,4}}
                (?![ ][0-9]{{3}}(?![0-9]))(?:[.,][0-9]+)?
              | [0-9]+(?:(?:\{{,\}}|\\,|[.,'\u2019])[0-9]+)* | \.[0-9]+)(?:[eE][+\-]?[0-9]{{1,3}}(?![0-9]))?))
            (?P<part>[ ]?[{"".join(_FRACTIONS)}])?
          | (?P<part2>[{"".join(_FRACTIONS)}]) )
        (?:(?![\w])|(?=[xX][0-9])|(?=[^\W\d_]+(?![\w]))) )
  | (?P<times> (?<=[0-9])[xX](?=[0-9]) )
  | (?P<label> (?<!\w)(?:no|nr|art|pp?)\.(?=[ ]?[0-9]) )
  | (?P<word> [^\W\d_]\w*(?:['\u2019\-]\w+){{0,{MOST_WORDS}}} )
  | (?P<code> \w+ )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_RUN: Final = re.compile(r"[ \-]?([^\W\d_]+)(?![\w])")
_AFTER: Final = re.compile(
    rf"(?P<scale>(?:[ ]?(?:{_any({word for word in _SCALES if len(word) > 1})})|[kmb])(?![\w])\.?)?"
    rf"(?P<percent>[ ]?(?:\\?%|(?:{_any(_PERCENT)})(?![\w])))?",
    re.IGNORECASE,
)
_MONEY_SCALES: Final = {"m": 10**6, "b": 10**9}  # for nothing else: `3m` are metres


# --- days and times --------------------------------------------------------------------------------


def _dated(match: re.Match[str]) -> Iterator[Spelled]:
    at, end = match.span()
    match match.lastgroup:
        case "moment":
            moment = parse_moment(match[0].upper())
            if moment is not None:
                yield Spelled(at=at, end=end, days=(moment.date(),), moments=(moment,))
        case "iso":
            yield from _days(match, [(match[0][:4], match[0][5:7], match[0][8:])])
        case "figures":
            first, second, third = re.findall("[0-9]+", match[0])
            if len(first) == 4:
                yield from _days(match, [(first, second, third)])
                return
            years = [third] if len(third) == 4 else [f"20{third}", f"19{third}"]
            orders = [(first, second)] if match["sign"] == "." else [(first, second), (second, first)]
            yield from _days(match, [(year, month, day) for year in years for day, month in orders])
        case "day_first":
            yield from _days(match, [(match["year"], _month(match["month"]), match["day"])])
        case "month_first":
            yield from _days(match, [(match["year2"], _month(match["month2"]), match["day2"])])
        case _:
            raise AssertionError("this is no day")


def _month(name: str) -> str:
    return str(_MONTHS[name.lower().rstrip(".")])


def _days(match: re.Match[str], written: list[tuple[str, str, str]]) -> Iterator[Spelled]:
    spelled = (f"{year:0>4}-{month:0>2}-{day:0>2}" for year, month, day in written)
    days = tuple(dict.fromkeys(day for text in spelled if (day := parse_date(text)) is not None))
    if days:
        yield Spelled(at=match.start(), end=match.end(), days=days)


def _clock(match: re.Match[str]) -> Iterator[Spelled]:
    names = ("h", "m", "s", "half") if match.lastgroup == "clock" else ("h2", "m2", None, "half2")
    hour, minute, second, half = (match[name] if name is not None else None for name in names)
    hours = int(hour or 0)
    if half is not None and not 1 <= hours <= _NOON:
        return
    numbers = (hours,) if minute is None else ()
    if half is not None:
        hours = hours % _NOON + (_NOON if half.lower() == "p" else 0)
    try:
        found = time(hours % _DAY, int(minute or 0), int(second or 0)) if hours <= _DAY else None
    except ValueError:
        found = None
    yield Spelled(at=match.start(), end=match.end(), numbers=numbers, times=() if found is None else (found,))


_NOON: Final = 12
_DAY: Final = 24


# --- numbers ---------------------------------------------------------------------------------------


def _number(text: str, match: re.Match[str], *, negative: bool) -> tuple[list[Spelled], int]:
    """Read figures, and the words for a magnitude and a percentage after them."""
    negative = negative or match["minus"] is not None or match["minus2"] is not None
    money = match["money"] is not None or text[match.start()].isalpha()
    parts: list[Spelled] = []
    if match["over2"] is not None:
        values, parts = _ratio(match)
    elif match["over"] is not None:
        under = int(match["under"])
        values = (int(match["whole"]) + Fraction(int(match["over"]), under),) if under else ()
    else:
        part = match["part"] or match["part2"]
        more = _FRACTIONS[part.strip()] if part else 0
        values = tuple(value + more for value in _figures(match["raw"] or "0"))
        if not values and match["raw"] is not None:
            parts = _listed(match)
    after = _AFTER.match(text, match.end())
    assert after is not None  # it takes the empty text
    scale = 1
    if after["scale"] is not None:
        word = after["scale"].strip(" .").lower()
        scale = _SCALES.get(word) or (_MONEY_SCALES[word] if money else 0)
    if not scale:
        return [_made(match.start(), match.end(), values, negative=negative), *parts], match.end()
    return [
        _made(
            match.start(),
            after.end(),
            values,
            negative=negative,
            scale=scale,
            percent=after["percent"] is not None,
        ),
        *parts,
    ], after.end()


def _made(
    at: int,
    end: int,
    values: tuple[Number, ...],
    *,
    negative: bool = False,
    scale: int = 1,
    percent: bool = False,
) -> Spelled:
    signed: tuple[Number, ...] = tuple(-value if negative else value for value in values)
    scaled: tuple[Number, ...] = tuple(value * scale for value in signed)
    shares: tuple[Number, ...]
    if percent:
        shares = tuple(Fraction(value) / 100 for value in scaled)
    else:  # without a sign of it, a share is between 0 and 1
        shares = tuple(value for value in scaled if -1 <= value <= 1)
    return Spelled(
        at=at,
        end=end,
        numbers=tuple(dict.fromkeys((*shares, *scaled))),
        shares=shares,
        unscaled=signed if scale != 1 else (),
    )


def _ratio(match: re.Match[str]) -> tuple[tuple[Number, ...], list[Spelled]]:
    """Read `3/4`, which may be a fraction, and `96/60`, which are two numbers in any case."""
    over, under = int(match["over2"]), int(match["under2"])
    sides = [_made(*match.span(name), (int(match[name]),)) for name in ("over2", "under2")]
    return ((Fraction(over, under),) if 0 < over < under else ()), sides


def _listed(match: re.Match[str]) -> list[Spelled]:
    """Read `1,2,3`: what is no number with commas in it is a list."""
    if re.fullmatch("[0-9]+(?:,[0-9]+)+", match["raw"]) is None:
        return []
    start = match.start("raw")
    return [
        _made(start + one.start(), start + one.end(), _figures(one[0]))
        for one in re.finditer("[0-9]+", match["raw"])
    ]


_SPACED: Final = re.compile(r"\{,\}|\\,")
_GROUPED: Final = re.compile(
    r"[0-9]{1,3}(?:(?P<sign>[,.' \u2019])[0-9]{3})(?:(?P=sign)[0-9]{3})*(?P<rest>[.,][0-9]+)?"
)
_INDIAN: Final = re.compile(r"[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?")
_SIMPLE: Final = re.compile(r"(?P<whole>[0-9]*)(?:[.,](?P<decimals>[0-9]+))?")


def _figures(raw: str) -> tuple[Number, ...]:
    """Give what figures with separators can stand for: nothing where they are no number."""
    figures, _, exponent = _SPACED.sub(",", raw).lower().partition("e")
    if len(figures) > 2 * DIGITS:
        return ()
    found: list[Number | None] = []
    grouped = _GROUPED.fullmatch(figures)
    simple = _SIMPLE.fullmatch(figures)
    rest = (grouped["rest"] or "") if grouped is not None else ""
    if grouped is not None and not rest.startswith(grouped["sign"]) and figures[0] != "0":
        found.append(_value(re.sub("[^0-9]", "", figures[: len(figures) - len(rest)]), rest[1:], exponent))
        # `1.250` may be either; `1,250`, and what has more groups or decimals besides, is in thousands.
        if simple is not None and grouped["sign"] == ".":
            found.append(_value(simple["whole"], simple["decimals"] or "", exponent))
    elif _INDIAN.fullmatch(figures):
        whole, _, decimals = figures.replace(",", "").partition(".")
        found.append(_value(whole, decimals, exponent))
    elif simple is not None:
        found.append(_value(simple["whole"], simple["decimals"] or "", exponent))
    return tuple(value for value in found if value is not None)


def _value(whole: str, decimals: str, exponent: str) -> Number | None:
    # Whatever is too long is never converted: that takes quadratic time.
    if len(whole) + len(decimals) > DIGITS or abs(int(exponent or 0)) > DIGITS:
        return None
    places = len(decimals) - int(exponent or 0)
    number = int(whole + decimals)
    return number * 10**-places if places <= 0 else Fraction(number, 10**places)


# --- words -----------------------------------------------------------------------------------------


def _words(text: str, match: re.Match[str], *, negative: bool) -> tuple[list[Spelled], int]:
    """Read a number in words, which may be several with blanks or hyphens between them."""
    first = _RUN.match(text, match.start())
    if first is None or first.end() > match.end():
        return [], match.end()
    words, ends = [first[1].lower()], [first.end()]
    if not begins_number(words[0]):
        return [], match.end()
    while len(words) < MOST_WORDS and (more := _RUN.match(text, ends[-1])) is not None:
        words.append(more[1].lower())
        ends.append(more.end())
    reading = number_words(words)
    if reading is None:
        return [], match.end()
    value, taken = reading
    end = ends[taken - 1]
    after = _AFTER.match(text, end)
    percent = after is not None and after["percent"] is not None and after["scale"] is None
    return [
        _made(
            match.start(),
            after.end() if percent and after else end,
            (value,),
            negative=negative,
            percent=percent,
        )
    ], max(end, 0)
