"""What characters that mean nothing here were probably meant to be."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_OPERATORS: Final = {
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
    "–": "-",
    "—": "-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "⇒": "=>",
    "…": "..",
    "∧": "and",
    "∨": "or",
    "¬": "not",
    "∈": "in",
    "!": "not",
    "&": "and",
}
_QUOTES: Final = "“”„‟«»'‘’‚‛`"
_WORD: Final = re.compile(r"\w+")


def character(line: str, column: int) -> tuple[int, str, str]:
    """How wide the unreadable part at a column of a line is, what is wrong with it, and what to write."""
    char = line[column : column + 1] or " "
    if char == '"':
        return (
            len(line) - column,
            "this text has no closing quote",
            r'end it with " in the same line; inside it a quote is \" and a line break \n',
        )
    if char in _QUOTES:
        return _quoted(line, column)
    if char in _OPERATORS:
        return _operator(line, column)
    if char.isspace() or unicodedata.category(char) in ("Cf", "Zs", "Cc"):
        name = unicodedata.name(char, "a control character").lower()
        return 1, f"this is no ordinary blank but U+{ord(char):04X}, {name}", "write an ordinary blank"
    if char.isalnum():
        return _word(line, column)
    return 1, f"the character {char!r} means nothing here", _SIGNS.get(char, "")


_SIGNS: Final = {
    "%": "write mod for the remainder; a percent is a constant such as 5%, for others write x * 1%",
    "^": "write x * x for a power",
    ";": "write each step in a line of its own",
    "\\": "put the expression in brackets to go on in the next line",
    "$": "write the number alone; a value's unit belongs in its name",
    "€": "write the number alone; a value's unit belongs in its name",
    "£": "write the number alone; a value's unit belongs in its name",
    "?": "write if condition then a else b",
    "@": "names are made of letters, digits and _",
    "~": "write not",
}


def _quoted(line: str, column: int) -> tuple[int, str, str]:
    end = next((i for i in range(column + 1, len(line)) if line[i] in _QUOTES), None)
    message = "a text stands in double quotes"
    if end is None:
        return 1, message, 'write "..."'
    return end + 1 - column, message, f'write "{line[column + 1 : end]}"'


def _operator(line: str, column: int) -> tuple[int, str, str]:
    char = line[column]
    width = 2 if line[column : column + 2] == "&&" else 1
    return width, f"the sign {char * width!r} is not part of the language", f"write {_OPERATORS[char]}"


def _word(line: str, column: int) -> tuple[int, str, str]:
    start = column
    while start > 0 and _WORD.fullmatch(line[start - 1]):
        start -= 1
    match = _WORD.match(line, column)
    assert match is not None
    word = line[start : match.end()]
    plain = unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode()
    what = (
        "a number is made of the digits 0 to 9"
        if word[:1].isdigit()
        else "a name is made of a to z, A to Z, 0 to 9 and _"
    )
    return (
        match.end() - column,
        f"{what}, found {word[:40]!r}",
        f"write {plain}, for instance" if plain else "",
    )
