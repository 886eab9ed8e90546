"""A row of the table of model servers in words, for the manual and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from guard.dialect.notation import Dialect
from guard.upstream.capabilities import Backend

# The columns, each with what it is called.
COLUMNS: Mapping[str, str] = {
    "api": "API",
    "grammar": "grammar: notation",
    "patterns": "patterns",
    "thinking": "thinking first",
    "prefix": "prefix",
    "echo": "repeats it",
    "roles": "instructions",
    "stream_options": "`stream_options`",
    "usage": "usage in streams",
    "max_tokens_field": "bound",
    "stop_field": "stop texts",
    "seed_field": "seed",
    "refuses": "never sent",
    "reasoning_fields": "thoughts in",
    "thinks": "begins among them",
    "n": "`n`",
    "temperature": "temperature",
}


def shown(row: Backend) -> dict[str, str]:
    """Give the columns of a row; a `?` behind one for which there is no source yet."""
    cells = {name: spelled(getattr(row, name)) for name in COLUMNS}
    if row.grammar is not None and row.dialect is not None:
        cells["grammar"] = f"{row.grammar.value}: {row.dialect.value}"
    else:
        cells["thinking"] = "-"
    if row.dialect is not Dialect.JSON_SCHEMA:
        cells["patterns"] = "-"
    if not row.prefill:
        cells["echo"] = "-"
    return {
        name: f"{cell} ?" if name in row.unverified and cell != "-" else cell for name, cell in cells.items()
    }


def spelled(value: object) -> str:
    """Spell a value of a column as one would write it in the configuration, `-` for nothing."""
    match value:
        case bool():
            return "yes" if value else "no"
        case StrEnum():
            return value.value
        case frozenset():
            return ", ".join(sorted(value)) or "-"
        case tuple():
            return ", ".join(value) or "-"
        case None:
            return "-"
        case _:
            return str(value)
