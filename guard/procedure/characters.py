"""What characters that mean nothing here were probably meant to be."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from guard.procedure.normal import normal
from guard.source import Span

_OPERATORS: Final = {
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "⇒": "=>",
    "…": "..",
    "\N{LOGICAL AND}": "and",
    "\N{LOGICAL OR}": "or",
    "¬": "not",
    "∈": "in",
    "!": "not",
    "&": "and",
}
_UNIT: Final = "write the number alone, or 5 EUR with a line unit EUR at the top of the file"
_SIGNS: Final = {
    "%": "write mod for the remainder; a percent is a constant such as 5%, for others write x * 1%",
    "^": "write pow(x, 2)",
    ";": "write each step in a line of its own",
    "\\": "put the expression in brackets to go on in the next line",
    "$": _UNIT,
    "€": _UNIT,
    "£": _UNIT,
    "?": "write if condition then a else b",
    "~": "write not",
}
_QUOTES: Final = "“”„‟«»'`\u2018\u2019\u201a\u201b"
_WORD: Final = re.compile(r"\w+")
_PLAIN: Final = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o"})


def character(line: str, column: int) -> tuple[Span, str, str]:
    """Give the part of a line around an unreadable column, what is wrong with it, and what to write."""
    char = line[column : column + 1] or " "
    one = Span(column, column + 1)
    if char == '"':
        return (
            Span(column, len(line)),
            "this text has no closing quote",
            r'end it with " in the same line; inside it a quote is \" and a line break \n',
        )
    if char in _QUOTES:
        return _quoted(line, column)
    if char == "%" and re.search(r"[0-9]\s+$", line[:column]):
        number = line[:column].rsplit(maxsplit=1)[-1]
        return (
            one,
            "a percent sign stands right behind its number",
            f"write {number}%, or mod for the remainder",
        )
    if char in _OPERATORS:
        width = 2 if line[column : column + 2] == "&&" else 1
        message = f"the sign {char * width!r} is not part of the language"
        return Span(column, column + width), message, f"write {_OPERATORS[char]}"
    if char == "\r":
        return one, "a line ends in a carriage return alone", "save the file with line ends LF or CR LF"
    if unicodedata.category(char) in ("Cf", "Zs", "Cc"):
        name = unicodedata.name(char, "a control character").lower()
        return one, f"this is no ordinary blank but U+{ord(char):04X}, {name}", "write an ordinary blank"
    if char.isalnum():
        return _word(line, column)
    return one, f"the character {char!r} means nothing here", _SIGNS.get(char, "")


def _quoted(line: str, column: int) -> tuple[Span, str, str]:
    end = next((i for i in range(column + 1, len(line)) if line[i] in _QUOTES), None)
    message = "a text stands in double quotes"
    if end is None:
        return Span(column, column + 1), message, 'write "..."'
    return Span(column, end + 1), message, f'write "{line[column + 1 : end]}"'


def _word(line: str, column: int) -> tuple[Span, str, str]:
    words = (match for match in _WORD.finditer(line) if match.start() <= column < match.end())
    match = next(words)
    word = match[0]
    plain = normal(word.translate(_PLAIN), "NFKD").encode("ascii", "ignore").decode()
    what = "a number is made of the digits 0 to 9"
    if not word[0].isdigit():
        what = "a name is made of a to z, A to Z, 0 to 9 and _"
    return Span(*match.span()), f"{what}, found {word[:40]!r}", f"write {plain}" if plain else ""
