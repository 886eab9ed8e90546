r"""A trace that comes as the members of a JSON object, read back as lines while it comes.

`{"1 net = 4 * 61.20 = ": "244.80"}` is the line `1 net = 4 * 61.20 = 244.80`: the member's name is what the
line begins with, its value the rest of it. A value's characters leave as they come, the line's end with the
quote that closes it.

Theory of operation. Each state takes what it can of the text that is there and leaves the rest to the next
one, or to the next piece where an escape is cut in two:

    state    takes                         to
    outside  blanks, a code fence, `{`     fence, first, talk
    talk     a line in front of all        outside
    fence    what a fence says             outside
    first    blanks, `"`, `}`              name, outside
    name     a string                      colon
    colon    blanks, `:`                   value
    value    blanks, the first of a value  string, scalar, nested
    string   a string                      behind
    scalar   a number, a word              behind
    nested   what stands in brackets       behind
    behind   blanks, `,`, `}`              first, outside
    raw      everything

What fits no state is no such object: from the beginning of its member on, everything is handed on as it
stands, for a checker to judge. So a plain trace, from a server that heeds no schema, is itself. A sentence in
front of the first object (`Here it is:`) is a line of its own, handed on as well. Nothing is sorted out: a
name that comes twice is two lines, a second object goes on where the first one ended.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

MAX_NAME: Final = 16_384  # characters, as many as a line may have
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"  # for half of a pair that has no other half

_TALK: Final = re.compile(r"[^ \t\r\n{`@0-9]")  # begins no object, no fence, and no line of a trace
_BLANK: Final = re.compile(r"[ \t\r\n]++")
_INFO: Final = re.compile(r"[A-Za-z0-9_+-]++")
_PLAIN: Final = re.compile(r'[^"\\]++')
_SCALAR: Final = re.compile(r"[A-Za-z0-9+.-]++")
_INNER: Final = re.compile(r'[^"\[\]{}\r\n]++')
_HEX: Final = re.compile(r"[0-9A-Fa-f]{0,4}")
_SIMPLE: Final = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip


class _State(Enum):
    OUTSIDE = auto()
    TALK = auto()
    FENCE = auto()
    FIRST = auto()
    NAME = auto()
    COLON = auto()
    VALUE = auto()
    STRING = auto()
    SCALAR = auto()
    NESTED = auto()
    BEHIND = auto()
    RAW = auto()


_IN_NAME: Final = frozenset({_State.NAME, _State.COLON, _State.VALUE})
_IN_VALUE: Final = frozenset({_State.STRING, _State.SCALAR, _State.NESTED})
_SETTLED: Final = _IN_VALUE | {_State.BEHIND, _State.TALK}  # what is read there is handed on, or need not be


class Steps:
    """Reads one answer. `feed` and `close` give text of the trace and never raise."""

    def __init__(self) -> None:
        self._state = _State.OUTSIDE
        self._held = ""  # an escape that is not all there
        self._source: list[str] = []  # what was read since something was handed on
        self._name: list[str] = []
        self._length = 0  # of the name
        self._depth = 0
        self._quoted = False  # inside a string of a nested value
        self._out: list[str] = []
        self._last = "\n"  # the character that was handed on last
        self._names: set[str] = set()
        self._objects = 0
        self.odd = False  # whether it is anything but one object of strings, each of a name of its own

    @property
    def names(self) -> int:
        """How many members have come, or begun."""
        return len(self._names)

    @property
    def cut(self) -> bool:
        """Whether the text ends within a member, whoever says that it is all."""
        return self._state in _IN_NAME or self._state in _IN_VALUE

    def feed(self, text: str) -> str:
        """Take a piece of the answer, give the text of the trace in it."""
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text) and self._state is not _State.RAW:
            state = self._state
            end = self._read(text, at)
            if state not in _SETTLED and self._state not in _SETTLED:
                self._source.append(text[at:end])
            if end == at and self._state is state:
                self._held = text[at:]
                return self._given()
            at = end
        if self._state is _State.RAW:
            self._say("".join(self._source) + text[at:])
            self._source.clear()
        return self._given()

    def close(self) -> str:
        """The answer has ended: give the beginning of a line that was cut off in its name."""
        if self._state in _IN_NAME:
            self._say("".join(self._name))
            self._name.clear()
        return self._given()

    # --- what comes next: each gives the place up to which it has read ---------------------------

    def _read(self, text: str, at: int) -> int:
        match self._state:
            case _State.OUTSIDE:
                return self._outside(text, at)
            case _State.TALK:
                return self._talk(text, at)
            case _State.FENCE:
                return self._run(_INFO, text, at) or self._to(_State.OUTSIDE, at)
            case _State.FIRST:
                return self._mark(text, at, {'"': _State.NAME, "}": _State.OUTSIDE})
            case _State.NAME:
                return self._in_name(text, at)
            case _State.COLON:
                return self._mark(text, at, {":": _State.VALUE})
            case _State.VALUE:
                return self._value(text, at)
            case _State.STRING:
                return self._string(text, at)
            case _State.SCALAR:
                return self._scalar(text, at)
            case _State.NESTED:
                return self._nested(text, at)
            case _State.BEHIND:
                return self._mark(text, at, {",": _State.FIRST, "}": _State.OUTSIDE})
            case _State.RAW:
                return at

    def _outside(self, text: str, at: int) -> int:
        if self._objects == 0 and _TALK.match(text, at):
            self._say("".join(self._source))
            self._source.clear()
            return self._to(_State.TALK, at)
        end = self._mark(text, at, {"{": _State.FIRST, "`": _State.FENCE})
        self._objects += self._state is _State.FIRST
        self.odd = self.odd or self._objects > 1 or self._state is _State.FENCE
        while self._state is _State.FENCE and text.startswith("`", end):
            end += 1
        return end

    def _talk(self, text: str, at: int) -> int:
        """Hand on a line that is none of an object."""
        end = text.find("\n", at) + 1
        self._say(text[at : end or len(text)])
        return self._to(_State.OUTSIDE, end) if end else len(text)

    def _mark(self, text: str, at: int, marks: dict[str, _State]) -> int:
        """Skip blanks, take the mark that leads on."""
        blanks = self._run(_BLANK, text, at)
        if blanks:
            return blanks
        following = marks.get(text[at])
        if following is None:
            return self._to(_State.RAW, at)
        return self._to(following, at + 1)

    def _in_name(self, text: str, at: int) -> int:
        said, end = _piece(text, at)
        self._length += len(said)
        if end < 0 or self._length > MAX_NAME:
            return self._to(_State.RAW, at)
        if said:
            self._name.append(said)
        elif end > at:
            self._state = _State.COLON
        return end

    def _value(self, text: str, at: int) -> int:
        blanks = self._run(_BLANK, text, at)
        if blanks:
            return blanks
        first = text[at]
        if first == '"':
            self._begin(_State.STRING)
            return at + 1
        if first in "[{":
            self._begin(_State.NESTED)
            return at
        if _SCALAR.match(first):
            self._begin(_State.SCALAR)
            return at
        return self._to(_State.RAW, at)

    def _begin(self, state: _State) -> None:
        """Hand on the name: what stands in front of it is settled."""
        name = "".join(self._name)
        self._say(name)
        bare = bool(name) and (name[-1] == "=" or name[-1].isalnum())
        if bare:
            self._say(" ")  # it was written without the blank in which it ends
        self.odd = self.odd or bare or state is not _State.STRING or name in self._names
        self._names.add(name)
        self._name.clear()
        self._source.clear()
        self._length = 0
        self._state = state

    def _string(self, text: str, at: int) -> int:
        said, end = _piece(text, at)
        if end < 0:
            return self._to(_State.RAW, at)
        self._say(said)
        return end if said or end == at else self._end_line(end)

    def _scalar(self, text: str, at: int) -> int:
        end = self._run(_SCALAR, text, at)
        if not end:
            return self._end_line(at)
        self._say(text[at:end])
        return end

    def _nested(self, text: str, at: int) -> int:
        """Hand on what is nested as it is written, but on one line."""
        if self._quoted:
            return self._nested_string(text, at)
        end = self._run(_INNER, text, at)
        if end:
            self._say(text[at:end])
            return end
        char = text[at]
        self._say(" " if char in "\r\n" else char)
        self._quoted = char == '"'
        self._depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(char, 0)
        return self._end_line(at + 1) if self._depth == 0 else at + 1

    def _nested_string(self, text: str, at: int) -> int:
        end = self._run(_PLAIN, text, at)
        if not end:
            if text[at] == "\\" and at + 1 == len(text):
                return at
            self._quoted = text[at] == "\\"
            end = at + (2 if self._quoted else 1)
        self._say(text[at:end])
        return end

    def _end_line(self, at: int) -> int:
        if self._last != "\n":
            self._say("\n")
        self._depth = 0
        return self._to(_State.BEHIND, at)

    # --- small words -----------------------------------------------------------------------------

    def _run(self, pattern: re.Pattern[str], text: str, at: int) -> int:
        """Where a run of characters ends, 0 where there is none."""
        found = pattern.match(text, at)
        return found.end() if found else 0

    def _to(self, state: _State, at: int) -> int:
        self._state = state
        self.odd = self.odd or state in {_State.RAW, _State.TALK}
        return at

    def _say(self, text: str) -> None:
        if text:
            self._out.append(text)
            self._last = text[-1]

    def _given(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text


def _piece(text: str, at: int) -> tuple[str, int]:
    """Read a piece of a string: what it says, and where it ends.

    ("", behind it) is the closing quote, ("", the same place) an escape that is not all there, and a
    negative place one that is none.
    """
    plain = _PLAIN.match(text, at)
    if plain:
        return plain[0], plain.end()
    if text[at] == '"':
        return "", at + 1
    kind = text[at + 1 : at + 2]
    if kind == "u":
        return _unicode(text, at)
    if not kind:
        return "", at
    return (_SIMPLE[kind], at + 2) if kind in _SIMPLE else ("", -1)


def _unicode(text: str, at: int) -> tuple[str, int]:
    r"""Read `\u` and its four digits, twice for a character that takes a pair."""
    code, end = _unit(text, at)
    if code is None or not 0xD800 <= code < 0xE000:
        return ("", end) if code is None else (chr(code), end)
    if code >= 0xDC00:
        return REPLACEMENT, end
    if not text.startswith("\\u"[: len(text) - end], end):
        return REPLACEMENT, end
    low, behind = _unit(text, end)
    if low is None:
        return (REPLACEMENT, end) if behind < 0 else ("", at)
    if not 0xDC00 <= low < 0xE000:
        return REPLACEMENT, end
    return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), behind


def _unit(text: str, at: int) -> tuple[int | None, int]:
    """Read an escape: its number and where it ends; None with `at`: not all is there, with -1: it is none."""
    digits = _HEX.match(text, at + 2)
    found = digits[0] if digits else ""
    if len(found) == 4:
        return int(found, 16), at + 6
    return None, at if at + 2 + len(found) >= len(text) else -1
