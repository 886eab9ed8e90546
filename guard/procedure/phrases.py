"""What people write the way they say or print it: `between 1 and 5`, `a is 3`, `0,30`, `20/05/2026`, `x ^ 2`.

Each rule finds one such phrase around the word at which reading failed, and gives it back as this language
writes it.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from guard.procedure.dates import dates_meant
from guard.procedure.faults import quoted
from guard.procedure.layout import CLOSERS, OPENERS
from guard.procedure.stumble import Finding, Stumble, across, place
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Token

    from guard.procedure.stumble import Rule

# What an operand of a comparison cannot go across, in the words before it and behind it.
_BOUNDS: Final = frozenset(
    {"IF", "ELIF", "WHILE", "REQUIRE", "CHECK", "RETURN", "WHERE", "AND", "OR", "NOT", "THEN", "ELSE"}
    | {"EQUAL", "COMPARE", "COMMA", "FOR", "TO", "AT", "DENY", "ESCALATE", "COLON", "IS", "IN"}
)
_CONSTANTS: Final = frozenset({"COMMA", "STRING", "NUMBER", "PERCENT", "DATE", "MINUS"})
_MOST_SHOWN: Final = 40  # characters of a comment


# --- words around ----------------------------------------------------------------------------------


def _text(at: Stumble, words: Sequence[Token]) -> str:
    """Give some neighbouring words as they are written."""
    if not words:
        return ""
    return at.source.text[words[0].start_pos or 0 : words[-1].end_pos or 0]


def _before(words: Sequence[Token]) -> Sequence[Token]:
    """Find the operand that some words end in."""
    depth, start = 0, len(words)
    while start > 0:
        kind = words[start - 1].type
        depth += (kind in OPENERS) - (kind in CLOSERS)
        if depth < 0 or (depth == 0 and kind in _BOUNDS):
            break
        start -= 1
    return words[start:]


def _behind(words: Sequence[Token]) -> Sequence[Token]:
    """Find the operand that some words begin with."""
    depth = end = 0
    while end < len(words):
        kind = words[end].type
        depth += (kind in CLOSERS) - (kind in OPENERS)
        if depth < 0 or (depth == 0 and kind in _BOUNDS):
            break
        end += 1
    return words[:end]


def _primary(words: Sequence[Token]) -> Sequence[Token]:
    """Find the innermost operand that some words end in: a name with its fields, a call, brackets."""
    start, depth = len(words), 0
    while start > 0:
        kind = words[start - 1].type
        depth += (kind in OPENERS) - (kind in CLOSERS)
        start -= 1
        if depth == 0:
            before = words[start - 1].type if start else ""
            joins = before == "DOT" or (kind == "LPAR" and before == "NAME") or kind == "DOT"
            if not joins:
                break
    return words[start:]


def _first(words: Sequence[Token]) -> Sequence[Token]:
    """Find the innermost operand that some words begin with."""
    depth = end = 0
    while end < len(words):
        kind = words[end].type
        depth += (kind in CLOSERS) - (kind in OPENERS)
        end += 1
        following = words[end].type if end < len(words) else ""
        if depth == 0 and kind not in ("MINUS", "DOT") and following not in ("DOT", "LPAR"):
            break
    return words[:end]


def _bare(text: str) -> str:
    """Leave out brackets that stand around the whole of a text."""
    inner = text[1:-1]
    return inner if text[:1] == "(" and text[-1:] == ")" and "(" not in inner and ")" not in inner else text


# --- comparisons -----------------------------------------------------------------------------------


def _between(at: Stumble) -> Finding | None:
    """`a between 1 and 5`, `a not between 1 and 5`, `a is between 1 and 5`."""
    if str(at.token).lower() != "between" or not at.line:
        return None
    line = list(at.line)
    negated = False
    while line and line[-1].type in ("NOT", "IS"):
        negated |= line.pop().type == "NOT"
    value, low = _text(at, _before(line)), _text(at, _behind(at.rest))
    rest = at.rest[len(_behind(at.rest)) :]
    high = _text(at, _behind(rest[1:])) if rest[:1] and rest[0].type == "AND" else ""
    if not (value and low and high):
        advice = "write x >= 1 and x <= 5 for a number from 1 to 5"
    elif negated:
        advice = f"write ({value} < {low} or {value} > {high})"
    else:
        advice = f"write {value} >= {low} and {value} <= {high}"
    return Finding(at.span, "there is no word 'between': two comparisons say it", advice)


def _is(at: Stumble) -> Finding | None:
    """`a is 3`, `a is not "x"`."""
    if "NULL" not in at.accepts or "NUMBER" in at.accepts:
        return None
    line = list(at.line)
    negated = line[-1].type == "NOT"
    value = _text(at, _before(line[: -2 if negated else -1]))
    other = _text(at, _behind([at.token, *at.rest]))
    op = "!=" if negated else "=="
    if not value or not other or at.ends:
        return Finding(at.span, f"'is' tests for null only, found {at.found}", f"write x {op} 3 to compare")
    return Finding(at.span, f"'is' tests for null only, found {at.found}", f"write {value} {op} {other}")


def _half(at: Stumble) -> Finding | None:
    """`a >= 1 and <= 5`."""
    if at.kind != "COMPARE" or at.before not in ("AND", "OR") or not at.wants_value:
        return None
    left = at.line[:-1]
    first = next((index for index in reversed(range(len(left))) if left[index].type == "COMPARE"), None)
    value = "" if first is None else _text(at, _before(left[:first]))
    written = f"{at.line[-1]} {value or 'x'} {at.token} {_text(at, _behind(at.rest))}"
    whole = _text(at, [*_before(left[:first]), *left[first:]]) if first is not None else "..."
    return Finding(at.span, "each comparison names both its sides", f"write {whole} {written}")


def _listed(at: Stumble) -> Finding | None:
    """`x in "a", "b"`."""
    if at.kind != "COMMA" or at.open is not None:
        return None
    line = list(at.line)
    operand = _before(line)
    left = line[: len(line) - len(operand)]
    if not left or left[-1].type != "IN" or left[0].type == "FOR":
        return None
    negated = len(left) > 1 and left[-2].type == "NOT"
    value = _text(at, _before(left[: -2 if negated else -1]))
    items = _text(at, [*operand, *takewhile(lambda token: token.type in _CONSTANTS, [at.token, *at.rest])])
    op = "not in" if negated else "in"
    return Finding(at.span, "a list of values stands in brackets", f"write {value} {op} [{items}]")


# --- numbers ---------------------------------------------------------------------------------------

_GROUPED: Final = re.compile(r"[0-9]+(?:[.,'_][0-9]+)+|[0-9]{1,3}(?: [0-9]{3})+(?:[.,][0-9]+)?")
_FIRST_GROUP: Final = 3


def _separated(at: Stumble) -> Finding | None:
    """`0,30`, `1.250,00`, `1,250.00`, `3,000,000`, `1 000`."""
    if not at.line or at.line[-1].type not in ("NUMBER", "PERCENT", "DOT"):
        return None
    number, column = at.source.position(at.line[-1].start_pos or 0)
    line = at.source.line(number)
    start = (at.line[-1].start_pos or 0) - (column - 1)
    stumbled = (at.token.start_pos or 0) - start
    for match in _GROUPED.finditer(line):
        if match.start() < stumbled <= match.end() and (_spaced(match[0]) or at.adjoins):
            found = Span(start + match.start(), start + match.end())
            meant = _numbers_meant(match[0])
            if meant:
                message = "a number has no separators, and a point before its decimals"
                return Finding(found, message, f"write {' or '.join(meant)}")
    return None


def _spaced(text: str) -> bool:
    return " " in text


def _numbers_meant(text: str) -> list[str]:
    """Give what a number with separators may mean: `0,30` is 0.30, `1,250` one of two."""
    signs = [char for char in text if not char.isdigit()]
    groups = re.split(r"[^0-9]", text)
    whole, last = "".join(groups[:-1]).lstrip("0") or "0", groups[-1]
    joined = "".join(groups).lstrip("0") or "0"
    thousands = all(len(group) == _FIRST_GROUP for group in groups[1:]) and groups[0] not in ("", "0")
    if len(set(signs)) == len(signs) and len(signs) > 1 and signs[-1] in ".,":
        return [f"{whole}.{last}"]  # 1.250,00
    if len(set(signs)) > 1:
        return [f"{whole}.{last}"] if signs[-1] in ".," else []
    if len(signs) > 1 or signs[0] in " '_":
        return [joined] if thousands else []
    if signs[0] == ".":
        return []
    return [joined, f"{whole}.{last}, whichever it means"] if thousands else [f"{whole}.{last}"]


def _power(at: Stumble) -> Finding | None:
    """`x ^ 2`, `x ** 2`, `x squared`."""
    word = str(at.token)
    stars = word == "*" and (at.before == "STAR" or (at.rest[:1] and str(at.rest[0]) == "*"))
    if word not in ("^", "squared", "cubed") and not stars:
        return None
    line, rest = list(at.line), list(at.rest)
    if stars:
        line, rest = (line[:-1], rest) if at.before == "STAR" else (line, rest[1:])
    base = _bare(_text(at, _primary(line)))
    exponent = {"squared": "2", "cubed": "3"}.get(word) or _bare(_text(at, _first(rest)))
    return Finding(
        at.span, "a power is written as a function", f"write pow({base or 'x'}, {exponent or '2'})"
    )


# --- dates -----------------------------------------------------------------------------------------

_DATED: Final = re.compile(r"(?<![0-9.])[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{1,4}(?![0-9])")


def _date(at: Stumble) -> Finding | None:
    """`20.05.2026`."""
    if at.before not in ("DOT", "NUMBER") or at.kind not in ("DOT", "NUMBER"):
        return None
    start = at.token.start_pos or 0
    number, column = at.source.position(start)
    for match in _DATED.finditer(at.source.line(number)):
        if match.start() < column <= match.end() + 1 and (meant := dates_meant(match[0])):
            begin = start - (column - 1) + match.start()
            message = f"a date is written as year, month and day, found {quoted(match[0])}"
            return Finding(Span(begin, begin + len(match[0])), message, f"write {meant}")
    return None


_UNITS: Final = frozenset({"DAYS", "WEEKS", "MONTHS", "YEARS", "HOURS", "MINUTES", "SECONDS"})


def _span(at: Stumble) -> Finding | None:
    """`x = 3 days`."""
    if at.kind not in _UNITS or at.kind in at.accepts or at.before not in _UNITS | {"NUMBER", "NAME", "RPAR"}:
        return None
    amount = "n" if at.before in _UNITS else _text(at, _primary(at.line))
    unit = str(at.token)
    message = f"'{amount} {unit}' is no value by itself: {unit} are added to a date, or taken from one"
    if len(at.line) == len(_primary(at.line)) + 2 and at.line[1].type == "EQUAL":
        name = at.line[0]
        advice = f"write {name} = {amount} for the number, and order_date + {name} {unit} where it is added"
    else:
        advice = f"write order_date + {amount} {unit}"
    return Finding(at.span, message, advice)


# --- lines -----------------------------------------------------------------------------------------


def _comment(at: Stumble) -> Finding | None:
    """`// note`, `-- note`, `/* note`."""
    words = [*at.line, at.token, *at.rest]
    if [str(word) for word in words[:2]] not in (["/", "/"], ["-", "-"], ["/", "*"]):
        return None
    text = _text(at, words[2:]) or "..."
    text = text if len(text) <= _MOST_SHOWN else "..."
    return Finding(across(words[0], words[1]), "a comment starts with #", f"write # {text}")


def _wording(at: Stumble) -> Finding | None:
    """`say hi`, `deny Too late`."""
    words = [*at.line, at.token, *at.rest]
    kind = str(words[0])
    if kind not in ("say", "deny", "escalate") or len(at.line) != 1 or at.kind not in ("NAME", "UNREADABLE"):
        return None
    return Finding(
        at.span, f"the wording after {kind} stands in quotes", f'write {kind} "{_text(at, words[1:])}"'
    )


def _joined(at: Stumble) -> Finding | None:
    """`say "hi" + name`."""
    if at.first != "SAY" or at.before != "STRING" or at.kind != "PLUS":
        return None
    parts = [
        f"{{{word}}}" if word.type == "NAME" else str(word)[1:-1] for word in at.rest if word.type != "PLUS"
    ]
    said = "".join([str(at.line[-1])[1:-1], *parts])
    simple = all(word.type in ("NAME", "STRING", "PLUS") for word in at.rest)
    advice = f'write say "{said}"' if simple else 'write say "... {name} ..."'
    return Finding(at.span, "what is said is one text, with values in braces", advice)


_WRITTEN_OUT: Final = 5  # passes of a loop


def _repeat(at: Stumble) -> Finding | None:
    """`repeat 3 times`."""
    words = [*at.line, at.token, *at.rest]
    first, rest = words[0], words[1:]
    if str(first).lower() not in ("repeat", "loop") or not rest or rest[0].type != "NUMBER":
        return None
    count = str(rest[0])
    advice = f"write while x < {count} at most {count}, with a step x = x + 1 in it"
    if count.isdigit() and 0 < int(count) <= _WRITTEN_OUT:
        advice = f"write for i in {list(range(1, int(count) + 1))} at most {count}"
    return Finding(place(first), "a loop goes through a list, or runs while something holds", advice)


def _same_line(at: Stumble) -> Finding | None:
    """`if a > 3: x = 5`."""
    if at.kind != "COLON" or at.first not in ("IF", "ELIF", "ELSE", "FOR", "WHILE") or not at.rest:
        return None
    if at.open is not None:
        return None
    head, step = at.written(), _text(at, at.rest)
    advice = f"write {head}, and below it, indented by two blanks more, {step}"
    return Finding(
        at.span, f"the steps of this {at.line[0]!s} stand below it, each in a line of its own", advice
    )


def _missing_comma(at: Stumble) -> Finding | None:
    """`max(a b)`."""
    if (
        "COMMA" not in at.accepts
        or at.open is None
        or at.kind not in ("NAME", "NUMBER", "STRING", "PERCENT", "DATE")
    ):
        return None
    if at.open.type not in ("LPAR", "LSQB") or at.before in ("FOR", "NUMBER"):
        return None
    start = next(index for index, word in enumerate(at.line) if word is at.open)
    called = start > 0 and at.line[start - 1].type == "NAME" and at.open.type == "LPAR"
    if not called and at.open.type == "LPAR":
        return None
    head = _text(at, at.line[start - 1 if called else start :])
    closer = ")" if at.open.type == "LPAR" else "]"
    rest = _text(at, [at.token, *_behind(at.rest)])
    return Finding(at.span, f"a comma is missing before {at.found}", f"write {head}, {rest}{closer}")


def _quote(at: Stumble) -> Finding | None:
    """`quote containing value`."""
    if at.before != "QUOTE" or at.kind != "NAME":
        return None
    advice = "write quote alone; where says what the value must satisfy"
    return Finding(at.span, f"nothing stands after quote, found {at.found}", advice)


def _decimals(at: Stumble) -> Finding | None:
    """`x rounded to 2`, `round x to 2`."""
    if str(at.token).lower() not in ("rounded", "rounding") or not at.line:
        return None
    return Finding(at.span, "rounding is said by to alone", f"write {at.written()} to 2")


PHRASE_RULES: Final[tuple[Rule, ...]] = (
    _comment,
    _wording,
    _joined,
    _repeat,
    _between,
    _is,
    _half,
    _listed,
    _date,
    _separated,
    _power,
    _span,
    _same_line,
    _missing_comma,
    _quote,
    _decimals,
)
