"""Spellings of numbers, dates and moments as people write them, each made from the value it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from fractions import Fraction

from guard.procedure.numbers import Number, decimal_text

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
EINS = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
ZEHN = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
MONATE = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]

# What a number may stand between, without being part of it.
AROUND = (
    "{}",
    "a {} b",
    "({})",
    "of {}, and",
    "is {}.",
    "x: {};",
    '"{}"',
    "{}!",
    "for {} or",
    "about\n{}\nor",
)


def spellings(value: Number) -> Iterator[str]:
    """Ways to write a number that is not negative."""
    plain = decimal_text(value, 0)
    whole, _, decimals = plain.partition(".")
    yield plain
    yield plain + ("0" if decimals else ".00")
    yield from (f"{sign}{plain}" for sign in ("$", "\u20ac", "US$", "EUR ", "EUR", "\u20b9"))
    yield from (f"{plain}{unit}" for unit in ("kg", " kg", "\u20ac", " EUR", "-pack", "th"))
    if len(whole) > 3:
        for sign in (",", ".", " ", "'", "\u2019", "\u202f", "\u00a0", "\\,", "{,}"):
            groups = _grouped(whole, sign)
            if sign != ".":
                yield groups + (f".{decimals}" if decimals else "")
            if sign in (".", " "):
                yield groups + (f",{decimals}" if decimals else ",00")
    if decimals and (len(decimals) != 3 or whole == "0" or len(whole) > 3):
        yield f"{whole},{decimals}"
    if decimals and whole == "0":
        yield f".{decimals}"
    yield plain.translate({ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)})
    for scale, words in (
        (1000, (" thousand", "k", " Tsd.", " tausend")),
        (10**6, (" million", " Mio.", "mn")),
    ):
        if Fraction(value, scale).denominator in (1, 2, 5, 10) and value:
            yield from (
                f"{decimal_text(Fraction(value, scale), 0)}{word}" for word in words if "Tsd" not in word
            )
    if Fraction(value, 12).denominator == 1 and value:
        yield f"{decimal_text(Fraction(value, 12), 0)} dozen"
    if isinstance(value, int) and value < 10**6:
        yield from (in_english(value), in_english(value).capitalize(), in_english(value).replace("-", " "))
        yield from (in_german(value), in_german(value).capitalize())
    half = value - Fraction(1, 2)
    if half >= 1 and half.denominator == 1:
        yield from (f"{half}\u00bd", f"{half} 1/2", f"{in_english(int(half))} and a half")


def shares(value: Fraction) -> Iterator[str]:
    """Ways to write a percentage."""
    plain = decimal_text(value * 100, 0)
    yield from (f"{plain}{sign}" for sign in ("%", " %", "\\%", " percent", " per cent", " Prozent"))
    yield decimal_text(value, 0)


def dates(value: date) -> Iterator[str]:
    """Ways to write a day."""
    day, month, year = value.day, value.month, value.year
    yield value.isoformat()
    for name in (MONTHS[month - 1], MONTHS[month - 1][:3], MONTHS[month - 1][:3] + "."):
        yield from (
            f"{day} {name} {year}",
            f"{name} {day}, {year}",
            f"{name} {day} {year}",
            f"{day:02}-{name}-{year}",
        )
        yield from (f"{day}{_ordinal(day)} of {name} {year}", f"{name} {day}{_ordinal(day)}, {year}")
    yield f"{day}. {MONATE[month - 1]} {year}"
    for sign in "./-":
        yield from (f"{day}{sign}{month}{sign}{year}", f"{day:02}{sign}{month:02}{sign}{year}")
    yield from (f"{month}/{day}/{year}", f"{year}/{month:02}/{day:02}", f"{day}. {month}. {year}")
    if 1926 <= year < 2100 and year % 100 > 0:
        yield f"{day}.{month}.{year % 100:02}"


def moments(value: datetime) -> Iterator[str]:
    """Ways to write a moment, with its offset or as its clock shows it."""
    yield value.isoformat()
    clock = f"{value.hour}:{value.minute:02}" + (f":{value.second:02}" if value.second else "")
    half = "am" if value.hour < 12 else "pm"
    short = f"{value.hour % 12 or 12}:{value.minute:02}" + (f":{value.second:02}" if value.second else "")
    for day in (value.date().isoformat(), f"{value.day} {MONTHS[value.month - 1]} {value.year}"):
        yield from (
            f"{day} {clock}",
            f"{clock} on {day}",
            f"{day} at {short} {half}",
            f"{day}, {short}{half}",
        )
        if not value.minute and not value.second:
            yield from (f"{day}, {value.hour} Uhr", f"{day} at {value.hour % 12 or 12} {half}")


# What holds a number as a part of something longer.
def longer(value: int) -> Iterator[str]:
    """Texts in which the digits of a number stand, and the number does not."""
    yield from (
        f"{value}0",
        f"1{value}",
        f"A{value}",
        f"x_{value}",
        f"{value}.7",
        f"7.{value}1",
        f"{value},5",
    )
    yield from (f"0.{value}", f"v{value}.2", f"INV-{value}", f"INV-7-{value}", f"a{value}b", f"{value}a7")
    yield from (
        f"7,{value:03}",
        f"{value},700",
        f"{value} million",
        f"-{value}",
        f"minus {value}",
        f"{value}e3",
    )
    if value <= 12:
        yield from (f"2026-{value:02}-28", f"2026-01-{value:02}", f"{value} May 2026", f"{value}.5.2026")
        yield from (f"{value:02}:45", f"10:{value:02}", f"{value}/28/2026", f"June {value}, 2026")


def in_english(value: int) -> str:
    """Write a number below a million in English words."""
    if value >= 1000:
        rest = value % 1000
        return f"{in_english(value // 1000)} thousand" + (f" {in_english(rest)}" if rest else "")
    if value >= 100:
        rest = value % 100
        return f"{ONES[value // 100]} hundred" + (f" and {in_english(rest)}" if rest else "")
    if value >= 20:
        return TENS[value // 10 - 2] + (f"-{ONES[value % 10]}" if value % 10 else "")
    return ONES[value]


def in_german(value: int) -> str:
    """Write a number below a million in German words."""
    if value >= 1000:
        return f"{_ein(value // 1000)}tausend" + (in_german(value % 1000) if value % 1000 else "")
    if value >= 100:
        return f"{_ein(value // 100)}hundert" + (in_german(value % 100) if value % 100 else "")
    if value >= 20:
        return (f"{_ein(value % 10)}und" if value % 10 else "") + ZEHN[value // 10 - 2]
    return EINS[value]


def _ein(value: int) -> str:
    return in_german(value).removesuffix("s") if value % 100 == 1 else in_german(value)


def _grouped(whole: str, sign: str) -> str:
    return f"{int(whole):,}".replace(",", sign)


def _ordinal(day: int) -> str:
    return "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


Spell = Callable[[Number], Iterator[str]]
