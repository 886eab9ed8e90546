"""Text that others wrote, and the one way in which it leaves: without keys, on one line, cut.

    Foreign   holds it: what is made of one by accident (a message, a log line) does not show it
    Said      what a server says of a fault: names that programs act by, and such a text
    Sink      knows the keys, and makes what a person may read

A key is found however it is spelled: with escapes of JSON, percent signs, entities, in base64 or hex, in
capitals, with anything but letters and digits between its characters, and where only a part of it is there.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

KEPT: Final = 4_096  # characters of a text that are kept
SHOWN: Final = 500  # of them that are shown
REDACTED: Final = "***"

NAME: Final = re.compile(r"[a-z0-9_.]{1,64}")  # what may be told on as it is: a word of a program

_SHORTEST: Final = 4  # letters and digits of a key that is looked for in every spelling
_PART: Final = (8, 16)  # of a longer key that give it away: half of it, within these
_NESTED: Final = 3  # escapes within escapes
# Of a row of backslashes only the first begins an escape, or it would be gone through from each of them.
_ESCAPE: Final = re.compile(
    r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-7]{3}))"
    r"|%u([0-9a-fA-F]{4})|[%=]([0-9a-fA-F]{2})|&#[xX]([0-9a-fA-F]{1,6});?|&#([0-9]{1,7});?"
)
_BASES: Final = {5: 8, 9: 10}  # of the groups above; 16 for all others


class Foreign:
    """A text that a server or a model wrote, cut to `KEPT` characters."""

    __slots__ = ("_hidden", "_text")

    def __init__(self, text: str | bytes = "", *, hidden: Iterable[str] = ()) -> None:
        """Take a text. `hidden`: keys that may be in it, beside those that the sink knows."""
        if isinstance(text, bytes):
            text = text[: 4 * KEPT].decode("utf-8", "replace")
        self._text, self._hidden = text[:KEPT], tuple(hidden)

    def hiding(self, *keys: str | None) -> Foreign:
        """Give the same text, in which further keys may be."""
        return Foreign(self._text, hidden=(*self._hidden, *(key for key in keys if key)))

    def __bool__(self) -> bool:
        return bool(self._text.strip())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Foreign) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __contains__(self, text: str) -> bool:
        return text in self._text

    def __repr__(self) -> str:
        return f"<foreign text of {len(self._text)} characters>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a server says of a fault.

    `code`, `type` and `param` are kept only where they are words of a program, which clients act by; else
    they are empty. `text` is all the rest, for people.
    """

    text: Foreign = Foreign()
    code: str = ""
    type: str = ""
    param: str = ""

    @staticmethod
    def of(text: str | bytes, *, code: object = None, type: object = None, param: object = None) -> Said:  # noqa: A002 (the name on the wire)
        """Take what a server says, whatever that is."""
        return Said(text=Foreign(text), code=_name(code), type=_name(type), param=_name(param))


NOTHING: Final = Said()


def _name(told: object) -> str:
    return told if isinstance(told, str) and NAME.fullmatch(told) else ""


class Sink:
    """What every foreign text passes before a person, a client or a log gets it.

    `keys` are what must not leave, as they are written in the configuration or in a header.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = frozenset(key for key in keys if key)
        self._literal = [key for key in self._keys if len(_letters(key)) < _SHORTEST]
        self._needles = [
            _Needle(text)
            for text in {spelled for key in self._keys for spelled in _spellings(key)}
            if len(text) >= _SHORTEST
        ]

    def also(self, *keys: str | None) -> Sink:
        """Give one that knows further keys; of an authorization header all that is secret in it."""
        more = {part for key in keys if key for part in _secrets(key)} - self._keys
        return Sink(self._keys | more) if more else self

    def shown(self, text: Foreign | str) -> str:
        """Give a text as a person may read it, in quotes; "" where there is none."""
        if not text:
            return ""
        clean = self.redacted(text)
        return repr(clean[:SHOWN]) + ("..." if len(clean) > SHOWN else "")

    def name(self, name: str) -> str:
        """Give a name of a server's back, "" where it is no name or a key is in it."""
        return name if NAME.fullmatch(name) and self.redacted(name) == name else ""

    def redacted(self, text: Foreign | str) -> str:
        """Give a text without keys; of any length where it is no foreign one."""
        if isinstance(text, Foreign):
            known = self.also(*text._hidden)  # noqa: SLF001 (one thing with the text)
            return known.redacted(text._text)  # noqa: SLF001 (this is the way out)
        for key in self._literal:
            text = text.replace(key, REDACTED)
        if not self._needles:
            return text
        readings = list(_readings(text))
        hits = (hit for needle in self._needles for letters in readings for hit in needle.found(letters))
        for start, end in _merged(hits):
            text = text[:start] + REDACTED + text[end:]
        return text

    def __repr__(self) -> str:
        return f"<Sink of {len(self._keys)} keys>"


# --- what a key looks like -----------------------------------------------------------------------


def _secrets(told: str) -> Iterator[str]:
    """Give what is secret in a key or an authorization header: without its scheme, and decoded."""
    scheme, _, credentials = told.strip().partition(" ")
    secret = credentials.strip() or scheme
    yield secret
    if scheme.lower() == "basic":
        try:
            yield from filter(None, b64decode(secret, validate=True).decode().partition(":")[::2])
        except ValueError:
            return


def _letters(text: str) -> str:
    return "".join(letter for letter, _, _ in _Letters.of(text).units)


def _spellings(key: str) -> Iterator[str]:
    """Give the letters of a key: as they are, in hex, and in base64 behind each number of bytes."""
    raw = key.encode("utf-8", "surrogatepass")
    yield _letters(key)
    yield raw.hex()
    for shift, start in enumerate((0, 2, 3)):
        encoded = b64encode(bytes(shift) + raw).decode()
        yield _letters(encoded[start : (shift + len(raw)) * 8 // 6])


@dataclass(frozen=True, slots=True)
class _Letters:
    """The letters and digits of a text, without case, each with where it stands in it."""

    units: tuple[tuple[str, int, int], ...]
    text: str

    @staticmethod
    def of(text: str) -> _Letters:
        return _Letters.among([(character, at, at + 1) for at, character in enumerate(text)])

    @staticmethod
    def among(units: Iterable[tuple[str, int, int]]) -> _Letters:
        letters = tuple(
            (letter, start, end)
            for character, start, end in units
            for letter in _plain(character)
            if letter.isalnum()
        )
        return _Letters(letters, "".join(letter for letter, _, _ in letters))


def _plain(character: str) -> str:
    if character.isascii():
        return character.lower()
    return unicodedata.normalize("NFKC", character).casefold()


def _readings(text: str) -> Iterator[_Letters]:
    """Read a text as it is, and with its escapes undone once, twice, ..."""
    units = [(character, at, at + 1) for at, character in enumerate(text)]
    yield _Letters.among(units)
    for _ in range(_NESTED):
        undone = _undone(units)
        if len(undone) == len(units):
            return
        units = undone
        yield _Letters.among(units)


def _undone(units: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    undone: list[tuple[str, int, int]] = []
    at = 0
    for escape in _ESCAPE.finditer("".join(character for character, _, _ in units)):
        number = next(i for i, group in enumerate(escape.groups(), 1) if group)
        code = int(escape[number], _BASES.get(number, 16))
        undone += units[at : escape.start()]
        if code < 0x110000:
            undone.append((chr(code), units[escape.start()][1], units[escape.end() - 1][2]))
        at = escape.end()
    return undone + units[at:]


class _Needle:
    """The letters of one spelling of a key, and how to find a part of them."""

    def __init__(self, letters: str) -> None:
        least, most = _PART
        self._letters = letters
        self._part = min(len(letters), max(least, min(most, len(letters) // 2)))
        self._parts = {letters[i : i + self._part] for i in range(len(letters) - self._part + 1)}

    def found(self, read: _Letters) -> Iterator[tuple[int, int]]:
        """Give where parts of it stand; at either end of a text, which may be cut there, shorter ones."""
        part, text = self._part, read.text
        for i in range(len(text) - part + 1):
            if text[i : i + part] in self._parts:
                yield read.units[i][1], read.units[i + part - 1][2]
        for length in range(min(part - 1, len(text)), _SHORTEST - 1, -1):
            if text.endswith(self._letters[:length]):
                yield read.units[-length][1], read.units[-1][2]
            if text.startswith(self._letters[-length:]):
                yield read.units[0][1], read.units[length - 1][2]


def _merged(hits: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give what hits cover, each piece once, the last one first."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(hits):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged[::-1]
