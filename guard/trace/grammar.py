"""The authority on what a line of a trace is: `trace.lark`, and its trees turned into events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Final

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from guard.procedure.dates import parse_date, parse_moment, whats_wrong
from guard.procedure.numbers import DIGITS, parse_number
from guard.procedure.types import NULL, Value
from guard.trace.events import (
    Begin,
    End,
    Event,
    Fields,
    Items,
    Line,
    Quote,
    Scalar,
    TooLong,
    Unreadable,
    Written,
)

NESTING: Final = 60  # of brackets in a line
WORDS: Final = 200  # words and signs of a line that the grammar reads, at several microseconds each
_BRACKETS: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')

_Node = Tree[Token]


class _Odd(Exception):  # noqa: N818 (never leaves this module)
    """The grammar takes it, yet it is no line of a trace."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at, self.why = at, why


class _TooManyDigits(Exception):  # noqa: N818 (never leaves this module)
    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class TooManyWords(Exception):  # noqa: N818 (about the text, and no error of ours)
    """A text has more words and signs than the grammar reads."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


@cache
def lark() -> Lark:
    """The grammar, built once."""
    return Lark(
        files("guard.grammars").joinpath("trace.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        start=["start", "expression"],
        propagate_positions=True,
        maybe_placeholders=False,
    )


def parse(text: str, start: str, most: int = WORDS) -> Tree[Token]:
    """The tree of a text of at most so many words and signs.

    Raises Lark's `UnexpectedInput` where one of them fits nothing, `TooManyWords` where all of them fit.
    """
    parser = lark().parse_interactive(text, start=start)
    last: Token | None = None
    for count, last in enumerate(parser.iter_parse()):
        if count == most:
            raise TooManyWords(_position(last))
    tree: Tree[Token] = parser.feed_eof(last)  # type: ignore[no-untyped-call]
    return tree


def read(text: str, at: int, end: int, most: int = WORDS) -> Event:
    """What a line that is not empty is. `text` is the line without its end, `at` and `end` its offsets.

    `most` words and signs are read of a line that fits the grammar so far.
    """
    deep = nested_too_deep(text)
    if deep is not None:
        return _unreadable(text, at, end, deep, f"nested deeper than {NESTING} brackets")
    try:
        return _event(parse(text, "start", most), text, at, end)
    except UnexpectedInput as error:
        return _unreadable(text, at, end, _place(error, text), _why(error, text))
    except _Odd as odd:
        return _unreadable(text, at, end, odd.at, odd.why)
    except _TooManyDigits as number:
        return TooLong(limit=f"{DIGITS} digits in a number", at=at + number.at)
    except TooManyWords as word:
        return TooLong(limit=f"{most} words and signs in a line spelled like this", at=at + word.at)


def read_string(token: str) -> str | None:
    """A string without its quotation marks and escapes; None where half a surrogate pair is left."""
    text = json.loads(token) if "\\" in token else token[1:-1]
    return text if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text) else None


def nested_too_deep(text: str) -> int | None:
    """Where a text has more brackets within each other than it may, None where it has not."""
    if sum(map(text.count, "([{")) <= NESTING:
        return None
    depth = 0
    for index, char in enumerate(_STRING.sub(lambda string: " " * len(string[0]), text)):
        depth += _BRACKETS.get(char, 0)
        if depth > NESTING:
            return index
    return None


def _unreadable(text: str, at: int, end: int, wrong: int, why: str) -> Unreadable:
    return Unreadable(text=text, at=at, end=end, wrong_at=at + wrong, why=why)


# --- what the parser says of a wrong line ----------------------------------------------------------

_NAMES: Final = {"PATH": "a step number", "NAME": "a name", "NONCE": "six hex digits", "STRING": "a string"}


def _place(error: UnexpectedInput, text: str) -> int:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text)
    place: int | None = error.pos_in_stream
    return len(text) if place is None else min(place, len(text))


def _why(error: UnexpectedInput, text: str) -> str:
    allowed = set(error.expected if isinstance(error, UnexpectedToken) else getattr(error, "allowed", ()))
    if "NUMBER" in allowed:
        wanted = "a value"
    elif "PATH" in allowed:
        wanted = "a step number"
    elif "RETURN" in allowed:
        wanted = "a name or a word such as return"
    else:
        known = [_NAMES[name] for name in sorted(allowed) if name in _NAMES]
        wanted = (
            " or ".join(known[:2]) if known and len(allowed) <= 2 else "an operator or the end of the line"
        )
    place = _place(error, text)
    found = repr(text[place : place + 20]) if place < len(text) else "the end of the line"
    return f"expected {wanted}, found {found}"


# --- trees to events -------------------------------------------------------------------------------


def _event(tree: _Node, text: str, at: int, end: int) -> Event:
    match tree.data, tree.children:
        case "begin", [Token() as name, Token() as nonce]:
            return Begin(procedure=str(name), nonce=str(nonce), at=at, end=end)
        case "end", [Token() as nonce]:
            return End(nonce=str(nonce), at=at, end=end)
        case "do_line", [Token() as path, Token() as target, Tree() as call]:
            return _Reader(text, at).do_line(str(path), str(target), call, end)
        case _, [Token() as path, Tree() as head, Tree() as cell, *quotes]:
            return _Reader(text, at).line(str(path), head, cell, quotes, end)
        case _:  # pragma: no cover (the grammar has no other start)
            raise AssertionError(tree)


class _Reader:
    """Turns the tree of one line into an event."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self._at = text, at

    def line(self, path: str, head: _Node, cell: _Node, quotes: list[_Node | Token], end: int) -> Line:
        body = self.written(cell)
        return Line(
            path=path,
            head=self._head(head),
            body=body,
            body_at=self._at + _start(cell),
            quotes=tuple(self._quote(quote.children[0]) for quote in quotes if isinstance(quote, Tree)),
            text=self._text,
            at=self._at,
            end=end,
        )

    def do_line(self, path: str, target: str, call: _Node, end: int) -> Line:
        """A line that has a working alone: which sub-procedure comes, with its operands."""
        self._plain(call)
        return Line(
            path=path,
            head=f"{target} = do",
            body=self._bare(call),
            body_at=self._at + _start(call),
            quotes=(),
            text=self._text,
            at=self._at,
            end=end,
        )

    def _head(self, head: _Node) -> str:
        match head.data, head.children:
            case "target", [name]:
                return f"{name} ="
            case "loop", [name, Tree() as items]:
                return f"for {name} in {self._slice(items)} ="
            case _:
                return self._text[_start(head) : _stop(head)]

    def _quote(self, token: _Node | Token) -> Quote:
        assert isinstance(token, Token)
        return Quote(text=self._string(token), at=self._at + _position(token))

    def written(self, cell: _Node) -> Written:
        match cell.data, cell.children:
            case "worked", [Tree() as working, Tree() as value]:
                return self._worked(working, value)
            case "explained", [Tree() as symbol, Tree() as working, Tree() as value]:
                self._plain(symbol)
                return replace(
                    self._worked(working, value),
                    symbol=self._slice(symbol),
                    symbol_at=self._at + _start(symbol),
                )
            case _, [Tree(data="list") as items]:
                parts = tuple(self.written(part) for part in items.children if isinstance(part, Tree))
                return Items(items=parts, at=self._at + _start(items), text=self._slice(items))
            case _, [Tree(data="record") as record]:
                fields = tuple(self._field(field) for field in record.children if isinstance(field, Tree))
                return Fields(fields=fields, at=self._at + _start(record), text=self._slice(record))
            case _, [Tree() as only]:
                return self._alone(only)
            case _:  # pragma: no cover (a cell has no other form)
                raise AssertionError(cell)

    def _field(self, field: _Node) -> tuple[str, Written]:
        name, cell = field.children
        assert isinstance(name, Token)
        assert isinstance(cell, Tree)
        if field.data == "bare_field":
            raise _Odd(_position(name), f"expected a field's name in quotation marks, found {str(name)!r}")
        return self._string(name), self.written(cell)

    def _worked(self, working: _Node, value: _Node) -> Scalar:
        self._plain(working)
        return Scalar(
            working=self._slice(working),
            working_at=self._at + _start(working),
            value=self._value(value),
            value_at=self._at + _start(value),
            value_text=self._slice(value),
        )

    def _alone(self, only: _Node) -> Scalar:
        start = self._at + _start(only)
        if _is_value(only):
            return Scalar(
                working=None,
                working_at=start,
                value=self._value(only),
                value_at=start,
                value_text=self._slice(only),
            )
        self._plain(only)
        return self._bare(only)

    def _bare(self, working: _Node) -> Scalar:
        start, stop = self._at + _start(working), self._at + _stop(working)
        return Scalar(
            working=self._slice(working), working_at=start, value=None, value_at=stop, value_text=""
        )

    def _plain(self, working: _Node) -> None:
        """Refuse what no working may have: a working within it, a number of too many digits."""
        for tree in working.iter_subtrees():
            if tree.data in {"worked", "explained"}:
                raise _Odd(_start(tree), "expected one value, found a working inside another")
            if tree.data == "number":
                self._number(tree)
            if tree.data in ("date", "datetime"):
                self._time(tree)

    def _value(self, tree: _Node, sign: str = "") -> Value:
        match tree.data, tree.children:
            case "number", _:
                return self._number(tree, sign)
            case "negate", [Tree(data="number") as number]:
                return self._number(number, "-")
            case "date" | "datetime", _:
                return self._time(tree)
            case "string", [Token() as token]:
                return self._string(token)
            case "true" | "false", _:
                return tree.data == "true"
            case "null", _:
                return NULL
            case "list", cells:
                return tuple(self._value(part) for part in _alone(cells))
            case "record", fields:
                return self._record(fields)
            case _:
                raise _Odd(_start(tree), f"expected a value, found {self._slice(tree)[:20]!r}")

    def _record(self, fields: list[_Node | Token]) -> Value:
        record: dict[str, Value] = {}
        for field in fields:
            assert isinstance(field, Tree)
            token, cell = field.children
            assert isinstance(token, Token)
            name = "" if field.data == "bare_field" else self._string(token)
            if field.data == "bare_field" or name in record:
                raise _Odd(
                    _position(token),
                    f"expected another field's name in quotation marks, found {str(token)!r}",
                )
            [value] = _alone([cell])
            record[name] = self._value(value)
        return record

    def _number(self, tree: _Node, sign: str = "") -> Value:
        [token] = tree.children
        number = parse_number(f"{sign}{token}")
        if number is None:
            raise _TooManyDigits(_start(tree))
        return number

    def _time(self, tree: _Node) -> Value:
        text = str(tree.children[0])
        found = parse_date(text) if tree.data == "date" else parse_moment(text)
        if found is None:
            raise _Odd(_start(tree), whats_wrong(text)[0])
        return found

    def _string(self, token: _Node | Token) -> str:
        assert isinstance(token, Token)
        text = read_string(token)
        if text is None:
            raise _Odd(_position(token), "expected a string of whole characters, found half a surrogate pair")
        return text

    def _slice(self, tree: _Node) -> str:
        return self._text[_start(tree) : _stop(tree)]


def _alone(cells: list[_Node | Token]) -> Iterator[_Node]:
    for cell in cells:
        match cell:
            case Tree(data="alone", children=[Tree() as only]):
                yield only
            case Tree():
                raise _Odd(_start(cell), "expected a value, found a working")
            case Token():  # pragma: no cover (cells are trees)
                raise AssertionError(cell)


def _is_value(tree: _Node) -> bool:
    match tree.data, tree.children:
        case "number" | "date" | "datetime" | "string" | "true" | "false" | "null", _:
            return True
        case "negate", [Tree(data="number")]:
            return True
        case _:
            return False


def _start(tree: _Node) -> int:
    return int(tree.meta.start_pos)


def _stop(tree: _Node) -> int:
    return int(tree.meta.end_pos)


def _position(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos
