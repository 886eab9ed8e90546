"""What a trace is made of, as the parser reads it; text that is left out of account included.

Offsets (`at`, `end`) are in code points from the start of the text that was fed.
"""

from __future__ import annotations

from dataclasses import dataclass

from guard.procedure.types import Value


@dataclass(slots=True, kw_only=True)  # never changed; not frozen, since a line may have hundreds
class Scalar:
    """`[[symbol =] working =] value` as written. `value` is None where only a working was written."""

    working: str | None
    working_at: int
    value: Value | None
    value_at: int
    value_text: str
    symbol: str | None = None
    symbol_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """`[a, b]` as written."""

    items: tuple[Written, ...]
    at: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """`{"name": a}` as written; a name may occur twice, which is for the checker to judge."""

    fields: tuple[tuple[str, Written], ...]
    at: int
    text: str


Written = Scalar | Items | Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """`"span"` behind `<-`, unescaped."""

    text: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """`@begin procedure nonce`."""

    procedure: str
    nonce: str
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """`@end nonce`."""

    nonce: str
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One step line. `head` is in canonical spacing: `part =`, `if`, `for l in lines =`, `return`."""

    path: str
    head: str
    body: Written
    body_at: int
    quotes: tuple[Quote, ...]
    text: str  # without its end
    at: int
    end: int  # behind its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """An empty line."""

    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A line that is no line of a trace. `why` names what was expected there."""

    text: str
    at: int
    end: int
    wrong_at: int  # the first character that fits nothing
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLong:
    """A limit of the parser was exceeded; it reads no further."""

    limit: str
    at: int


Event = Begin | End | Line | Blank | Unreadable | TooLong
