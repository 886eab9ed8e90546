"""The JSON body of a request: read only where reading it is quick, whatever it is made of.

What takes time is not bytes but objects: brackets, strings and numbers. They are counted before anything is
read, by searches that run through megabytes in a millisecond; where those cannot tell marks from the words of
a text, the strings are taken out first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Self

import orjson

from guard.errors import RequestError
from guard.wire.lenient import half_in, read_json

MOST_BRACKETS: Final = 20_000  # lists and objects of a body
MOST_STRINGS: Final = 30_000  # names among them
MOST_READ: Final = 300_000  # values of any kind
MOST_VALUES: Final = 15_000  # of one whose numbers are kept as they are written

GZIP: Final = b"\x1f\x8b"  # how what is compressed begins

MOST_DIGITS: Final = 400  # of a number that is looked at
PLAIN_DIGITS: Final = 18  # which every reader of JSON takes


def read_body(body: bytes) -> Any:
    """Give what a body says. Raises `RequestError` where it is no JSON, or takes too long to read."""
    if _strings(body) > MOST_STRINGS:
        raise _too_many(f"{MOST_STRINGS:,} strings and names")
    if _outside_strings(body, b"[{", MOST_BRACKETS) > MOST_BRACKETS:
        raise _too_many(f"{MOST_BRACKETS:,} lists and objects")
    if values_in(body, MOST_READ) > MOST_READ:
        raise _too_many(f"{MOST_READ:,} values")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _unreadable(body, error) from None


def _unreadable(body: bytes, error: orjson.JSONDecodeError) -> RequestError:
    """Say what keeps a body from being read."""
    if body[:2] == GZIP:
        message = "the body is compressed (gzip), which is not supported: expected plain JSON"
        return RequestError(message, code="unsupported_encoding", status=415)
    try:
        body.decode()
    except UnicodeDecodeError as wrong:
        byte = body[wrong.start]
        message = f"the body is no UTF-8: byte 0x{byte:02x} at position {wrong.start}"
        return RequestError(message, code="invalid_json")
    path = half_in(read_json(body))
    if path is None:
        return RequestError(f"the body is no JSON: {error}", code="invalid_json")
    message = f"{path or 'the body'} has half of a surrogate pair, which is no character"
    return RequestError(message, param=path or None, code="invalid_json")


def read_object(body: bytes) -> dict[str, Any]:
    """Give the members of a body. Raises `RequestError` as well where it is no object."""
    raw = read_body(body)
    if not isinstance(raw, dict):
        raise RequestError("the body must be a JSON object", code="invalid_json")
    return raw


class Written(float):
    """A number that is sent on as it was written; `repr` and `str` are its spelling."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read a number as JSON spells it."""
        made = super().__new__(cls, text if len(text) <= MOST_DIGITS else "nan")
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def read_exactly(body: bytes) -> Any:
    """Give what a body says that `read_body` has read: whole numbers as `int`, all other ones as `Written`.

    Raises `RequestError` where it has too many values, or is nested too deeply.
    """
    if values_in(body, MOST_VALUES) > MOST_VALUES:
        raise _too_many(f"{MOST_VALUES:,} values, which is all that a bound one may have")
    try:
        return json.loads(body, parse_float=Written, parse_int=_whole)
    except RecursionError:
        raise _too_deep() from None


def encode(body: Mapping[str, object]) -> bytes:
    """Make a body. Raises `RequestError` where it is nested more deeply than JSON is written."""
    try:
        return orjson.dumps(body, default=_spelled)
    except orjson.JSONEncodeError:
        raise _too_deep() from None


def _whole(text: str) -> int | Written:
    return int(text) if len(text) <= PLAIN_DIGITS else Written(text)


def _spelled(value: object) -> orjson.Fragment:
    if isinstance(value, Written):
        return orjson.Fragment(value.text)
    raise TypeError


def _too_deep() -> RequestError:
    return RequestError("the body is nested too deeply", code="invalid_json")


def values_in(data: bytes, most: int) -> int:
    """Give how many values a piece of JSON has at most; right where there are more than `most`."""
    return 1 + _outside_strings(data, b",[{", most)


def _strings(body: bytes) -> int:
    """Count strings by the marks around them; half of them at least, whatever is escaped."""
    return (body.count(b'"') - body.count(b'\\"')) // 2


def _outside_strings(data: bytes, marks: bytes, most: int) -> int:
    """Count marks; in texts, too, where they come to no more than `most` with those."""
    count = _count(data, marks)
    return count if count <= most else _count(_without_strings(data), marks)


def _without_strings(data: bytes) -> bytes:
    """Take the strings out of a piece of JSON, unless there are too many of them: all between their marks."""
    marked = data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', 4 * MOST_STRINGS)
    return b"".join(marked[::2])


def _count(data: bytes, marks: bytes) -> int:
    return sum(data.count(mark) for mark in marks)


def _too_many(what: str) -> RequestError:
    return RequestError(f"the body has more than {what}", code="request_too_large", status=413)
