"""Usual lines, read without the grammar: by regular expressions put together from its own terminals.

A line with one value takes some microseconds so, against a hundred and more. What is read here the
grammar would read with the same event; what is not, it decides. Nothing is ever refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from guard.procedure.dates import DATE, MOMENT, parse_date, parse_moment
from guard.procedure.numbers import parse_number
from guard.procedure.types import NULL, Value
from guard.trace.events import Fields, Items, Line, Quote, Scalar, Written
from guard.trace.grammar import NESTING, lark, read_string
from guard.trace.lines import RawLine

LENGTH: Final = 1_000  # characters of a line of one value
VALUES: Final = 500  # in the list or record of a line; longer ones are for the grammar to refuse
QUOTES: Final = 100  # behind a line

# Words of the grammar that are no names where a value may stand.
_WORDS: Final = "true|false|null|do|if|then|else|and|or|not|in|div|mod|for"
_REPEATED: Final = re.compile(r"(?<=[])])([*+?])")
_ARITHMETIC: Final = "(?:[-+*/]|div|mod)"
_DATED: Final = re.compile("[0-9]{4}-[0-9]")
_LONG: Final = re.compile("[0-9.]{41}")
_TIMES: Final = re.compile(f"{MOMENT}|{DATE}")
_ODD: Final = re.compile("[0-9.]{41}|[0-9]{4}-")  # a long number, or a date that may not exist
_QUOTE: Final = re.compile(r' <- ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class _Patterns:
    """`line` is a line of one value, `dated` one with dates in it.

    `start` is a line up to a list or record, `end` what follows that. Within those, `field` is a record's
    field up to its value, `value` a scalar, `next` what stands between.
    """

    line: re.Pattern[str]
    dated: re.Pattern[str]
    start: re.Pattern[str]
    end: re.Pattern[str]
    field: re.Pattern[str]
    value: re.Pattern[str]
    next: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Everything in canonical spacing, workings with brackets at most one deep.

    Every choice is decided by the next character or word, and what has been matched is never given
    back (`?>`, `*+`), so that no line takes more than linear time.
    """
    path, name, number, date, moment, string, unit, mode = (
        f"(?:{_possessive(lark().get_terminal(terminal).pattern.to_regexp())})"
        for terminal in ("PATH", "NAME", "NUMBER", "DATE", "DATETIME", "STRING", "TIME_UNIT", "MONTH_END")
    )
    name = f"(?!(?:{_WORDS})(?![A-Za-z0-9_])){name}"
    constant = f"{string}|(?:true|false|null)(?![A-Za-z0-9_])|{name}(?:\\.{name})*+"
    working = _working(f"(?>{number}|{constant})", name)
    # Dates are tried for apart: a line without them is read in a fraction of the time.
    dated = _working(f"(?>{moment}|{date}|{number}|{constant})", name, f"(?: {unit}(?: {mode})?+)?+")
    value = f"(?:-?{number}|{string}|true|false|null)"
    dated_value = f"(?:{moment}|{date}|-?{number}|{string}|true|false|null)"
    words = "if|elif|while|try|require|check|return|deny|escalate"
    head = f"(?:{name} =|{words}|for {name} in {name}(?:\\.{name})*+ =)"
    start = f"(?P<path>{path}) (?P<head>{head}) "
    quotes = f"(?P<quotes>(?: <- {string})*+)"
    return _Patterns(
        line=_line_of(start, working, value, quotes),
        dated=_line_of(start, dated, dated_value, quotes),
        start=re.compile(f"{start}(?=[\\[{{])"),
        end=re.compile(quotes),
        field=re.compile(f"({string}): "),
        value=re.compile(f"{dated_value}(?=[,\\]}}])"),
        next=re.compile(r"(, )|[\]}]"),
    )


def _working(bare: str, name: str, shift: str = "") -> str:
    """Give the pattern of a working of some operands; `shift` is what may stand behind what is added."""
    flat = f"(?>-?{bare}(?: {_ARITHMETIC} -?{bare})*+)"
    # A name in front of brackets is a function; without one they hold a single expression.
    group = f"(?>{name}\\({flat}(?:, {flat})*+\\)|\\({flat}\\)|{bare})"
    total = f"(?>-?{group}(?: {_ARITHMETIC} -?{group})*+)"
    if shift:
        product = f"-?{group}(?: (?:[*/]|div|mod) -?{group})*+"
        total = f"(?>{product}(?: [-+] {product}{shift})*+)"
    test = f"(?>(?:not )?+{total}(?: (?:[=!<>]=|[<>]) {total}| is (?:not )?+null(?![A-Za-z0-9_]))?+)"
    return f"(?>{test}(?: (?:and|or) {test})*+)"


def _line_of(start: str, working: str, value: str, quotes: str) -> re.Pattern[str]:
    return re.compile(f"{start}(?:(?P<working>{working}) = ){{0,2}}(?P<value>{value}){quotes}")


def _possessive(terminal: str) -> str:
    """Keep what a terminal's repetitions have matched; all of them end at what they cannot go on with."""
    return _REPEATED.sub(r"\1+", terminal)


def usual(line: RawLine) -> Line | None:
    """The event of a usual line, None where that is for the grammar to say."""
    match = _whole(line.text) if len(line.text) <= LENGTH else None
    if match is not None:
        return _line(line, match, _body(line, match), match)
    start = _patterns().start.match(line.text)
    reader = _Reader(line.text, line.at)
    body = reader.written(start.end(), NESTING) if start else None
    if start is None or body is None:
        return None
    end = _patterns().end.fullmatch(line.text, reader.stop)
    return _line(line, start, body, end) if end else None


def _whole(text: str) -> re.Match[str] | None:
    match = _patterns().line.fullmatch(text)
    if match is None and _DATED.search(text):
        return _patterns().dated.fullmatch(text)
    return match


def _body(line: RawLine, match: re.Match[str]) -> Scalar | None:
    value, working = _scalar(match["value"]), match["working"]
    # Of two in front of the value the pattern has caught the second; the first is the symbolic form.
    first, last = match.end("head") + 1, match.start("working")
    symbol = line.text[first : last - len(" = ")] if first < last else None
    if value is None or any(map(_odd, filter(None, (working, symbol)))):
        return None
    value_at = line.at + match.start("value")
    return Scalar(
        working=working,
        working_at=value_at if working is None else line.at + match.start("working"),
        value=value,
        value_at=value_at,
        value_text=match["value"],
        symbol=symbol,
        symbol_at=0 if symbol is None else line.at + first,
    )


def _odd(working: str) -> bool:
    """Whether a working may hold a number of too many digits or a date that does not exist."""
    if _ODD.search(working) is None:
        return False
    return bool(_LONG.search(working)) or any(_scalar(text) is None for text in _TIMES.findall(working))


def _line(line: RawLine, start: re.Match[str], body: Written | None, end: re.Match[str]) -> Line | None:
    quotes = _quotes(end["quotes"], line.at + end.start("quotes")) if end["quotes"] else ()
    if body is None or quotes is None:
        return None
    return Line(
        path=start["path"],
        head=start["head"],
        body=body,
        body_at=line.at + start.end("head") + 1,
        quotes=quotes,
        text=line.text,
        at=line.at,
        end=line.end,
    )


def _scalar(text: str) -> Value | None:
    match text:
        case "true" | "false":
            return text == "true"
        case "null":
            return NULL
        case _ if text[0] == '"':
            return read_string(text)
        case _ if text[4:5] == "-":
            return parse_moment(text) if "T" in text else parse_date(text)
        case _:
            return parse_number(text)


def _quotes(text: str, at: int) -> tuple[Quote, ...] | None:
    if text.count(" <- ") > QUOTES:
        return None
    quotes = [(read_string(match[1]), at + match.start(1)) for match in _QUOTE.finditer(text)]
    if any(quote is None for quote, _ in quotes):
        return None
    return tuple(Quote(text=quote, at=start) for quote, start in quotes if quote is not None)


class _Reader:
    """Reads lists and records of plain values. `stop` is where the last one read ends."""

    __slots__ = ("_at", "_patterns", "_room", "_text", "stop")

    def __init__(self, text: str, at: int) -> None:
        self._text, self._at, self.stop = text, at, 0
        self._room = VALUES
        self._patterns = _patterns()

    def written(self, place: int, room: int) -> Written | None:
        """What stands at a place, `room` brackets deep at most; None where that is not plain."""
        opening = self._text[place : place + 1]
        if opening in {"[", "{"}:
            if room == 0:
                return None
            return self._items(place, room - 1) if opening == "[" else self._fields(place, room - 1)
        self._room -= 1
        match = self._patterns.value.match(self._text, place) if self._room >= 0 else None
        value = _scalar(match[0]) if match else None
        if match is None or value is None:
            return None
        at, self.stop = self._at + place, match.end()
        return Scalar(working=None, working_at=at, value=value, value_at=at, value_text=match[0])

    def _items(self, start: int, room: int) -> Items | None:
        items: list[Written] = []
        self.stop = start + 1
        closed = self._closes("]")
        while not closed:
            item = self.written(self.stop, room)
            if item is None:
                return None
            items.append(item)
            more = self._more("]")
            if more is None:
                return None
            closed = not more
        return Items(items=tuple(items), at=self._at + start, text=self._text[start : self.stop])

    def _fields(self, start: int, room: int) -> Fields | None:
        fields: list[tuple[str, Written]] = []
        self.stop = start + 1
        closed = self._closes("}")
        while not closed:
            match = self._patterns.field.match(self._text, self.stop)
            name = read_string(match[1]) if match else None
            field = self.written(match.end(), room) if match else None
            more = None if field is None else self._more("}")
            if name is None or field is None or more is None:
                return None
            fields.append((name, field))
            closed = not more
        return Fields(fields=tuple(fields), at=self._at + start, text=self._text[start : self.stop])

    def _closes(self, bracket: str) -> bool:
        closes = self._text.startswith(bracket, self.stop)
        self.stop += closes
        return closes

    def _more(self, bracket: str) -> bool | None:
        """Whether another part follows; None where neither that nor the bracket does."""
        match = self._patterns.next.match(self._text, self.stop)
        if match is None or (match[1] is None and match[0] != bracket):
            return None
        self.stop = match.end()
        return match[1] is not None
