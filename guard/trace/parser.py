"""The incremental parser: text in, events out, however the text is cut.

Usual lines are read by one regular expression that is put together from the grammar's own terminals
(about a microsecond a line). It only ever declines: what it does not match, `trace.lark` decides.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from guard.errors import InvalidState
from guard.procedure.model import Value
from guard.procedure.values import parse_number
from guard.trace.events import Blank, Event, Line, Quote, Scalar, TooLong
from guard.trace.grammar import lark, read, read_string, same_working
from guard.trace.lines import LIMITS, Limits, Lines, RawLine

__all__ = ["Limits", "Parser", "read_line", "same_working"]


class Parser:
    """Reads a trace. `feed` and `close` never raise on any text."""

    __slots__ = ("_closed", "_dead", "_lines")

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._lines = Lines(limits)
        self._closed = False
        self._dead = False  # a limit was exceeded

    def feed(self, text: str) -> list[Event]:
        """Take a piece of text, give the events of the lines it ends."""
        if self._closed:
            raise InvalidState("a parser was fed after it was closed")
        events: list[Event] = []
        for line in () if self._dead else self._lines.feed(text):
            events.append(_event(line))
            if isinstance(events[-1], TooLong):
                self._dead = True
                break
        return events

    def close(self) -> list[Event]:
        """Take the end of the text, give the event of a last line that has no end."""
        self._closed = True
        line = None if self._dead else self._lines.close()
        return [] if line is None else [_event(line)]


def _event(line: RawLine | TooLong) -> Event:
    return line if isinstance(line, TooLong) else read_line(line)


def read_line(line: RawLine) -> Event:
    """What a line is."""
    event = usual(line)
    if event is not None:
        return event
    if not line.text.strip(" \t\r"):
        return Blank(at=line.at, end=line.end)
    return read(line.text, line.at, line.end)


# Words of the grammar that are no names where a value may stand.
_WORDS: Final = "true|false|if|then|else|and|or|not|in|div|mod|for"


@cache
def _pattern() -> re.Pattern[str]:
    """Usual lines in canonical spacing: one value, behind a working with brackets at most one deep.

    Every choice is decided by the next character or word, and what has been matched is never given
    back (`?>`, `*+`), so that no line takes more than linear time.
    """
    path, name, number, string = (
        f"(?:{lark().get_terminal(terminal).pattern.to_regexp()})"
        for terminal in ("PATH", "NAME", "NUMBER", "STRING")
    )
    name = f"(?!(?:{_WORDS})(?![A-Za-z0-9_])){name}"
    bare = f"(?>{number}|{string}|true(?![A-Za-z0-9_])|false(?![A-Za-z0-9_])|{name}(?:\\.{name})*+)"
    arithmetic = "(?:[-+*/]|div|mod)"
    flat = f"(?>-?{bare}(?: {arithmetic} -?{bare})*+)"
    # A name in front of brackets is a function; without one they hold a single expression.
    group = f"(?>{name}\\({flat}(?:, {flat})*+\\)|\\({flat}\\)|{bare})"
    total = f"(?>-?{group}(?: {arithmetic} -?{group})*+)"
    test = f"(?>(?:not )?+{total}(?: (?:[=!<>]=|[<>]) {total})?+)"
    working = f"(?>{test}(?: (?:and|or) {test})*+)"
    value = f"(?:-?{number}|{string}|true|false)"
    head = f"(?:{name} =|if|elif|require|check|return|deny|for {name} in {name}(?:\\.{name})*+ =)"
    return re.compile(
        f"(?P<path>{path}) (?P<head>{head}) (?:(?P<working>{working}) = )?(?P<value>{value})"
        f"(?P<quotes>(?: <- {string})*)"
    )


def usual(line: RawLine) -> Line | None:
    """The event of a usual line, None where that is for the grammar to say."""
    match = _pattern().fullmatch(line.text)
    value = _scalar(match["value"]) if match else None
    if match is None or value is None:
        return None
    if match["working"] is not None and _LONG.search(match["working"]):
        return None
    starts = [line.at + max(match.start(group), 0) for group in ("working", "value")]
    quotes = _quotes(match["quotes"], line.at + match.start("quotes")) if match["quotes"] else ()
    if quotes is None:
        return None
    working = match["working"]
    scalar = Scalar(
        working=working,
        working_at=starts[working is None],
        value=value,
        value_at=starts[1],
        value_text=match["value"],
    )
    return Line(
        path=match["path"],
        head=match["head"],
        body=scalar,
        body_at=scalar.working_at,
        quotes=quotes,
        text=line.text,
        at=line.at,
        end=line.end,
    )


def _scalar(text: str) -> Value | None:
    match text:
        case "true" | "false":
            return text == "true"
        case _ if text[0] == '"':
            return read_string(text)
        case _:
            return parse_number(text)


_LONG: Final = re.compile("[0-9.]{41}")
_QUOTE: Final = re.compile(r' <- ("(?:[^"\\]|\\.)*")')


def _quotes(text: str, at: int) -> tuple[Quote, ...] | None:
    quotes = [(read_string(match[1]), at + match.start(1)) for match in _QUOTE.finditer(text)]
    if any(quote is None for quote, _ in quotes):
        return None
    return tuple(Quote(text=quote, at=start) for quote, start in quotes if quote is not None)
