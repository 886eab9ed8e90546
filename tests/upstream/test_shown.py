"""The table in the manual is the table of the code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guard.upstream.backends import BACKENDS, TABLE, backend_for
from guard.upstream.capabilities import Backend
from guard.upstream.shown import COLUMNS, shown

MANUAL = (Path(__file__).parent.parent.parent / "deploy/README.md").read_text(encoding="utf-8").splitlines()
# Which columns stand together, since no page is wide enough for all.
PARTS = (
    (
        "grammar",
        "patterns",
        "thinking",
        "prefix",
        "echo",
        "roles",
        "reasoning_fields",
        "thinks",
    ),
    (
        "api",
        "stream_options",
        "usage",
        "max_tokens_field",
        "stop_field",
        "seed_field",
        "refuses",
        "n",
        "temperature",
    ),
)


def line(row: Backend, part: tuple[str, ...]) -> str:
    cells = shown(row)
    models = ", ".join(f"`{pattern}`" for pattern in row.models)
    return f"| {' | '.join([f'`{row.kind}`', models, *(cells[name] for name in part)])} |"


def header(part: tuple[str, ...]) -> str:
    return f"| {' | '.join(['kind', 'models', *(COLUMNS[name] for name in part)])} |"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_the_manual_has_the_table(part: tuple[str, ...]) -> None:
    start = MANUAL.index(header(part))
    written = MANUAL[start + 2 : start + 2 + len(TABLE)]
    assert written == [line(row, part) for row in TABLE]
    assert MANUAL[start + 2 + len(TABLE)] == ""


def test_the_parts_are_all_of_it() -> None:
    assert sorted(name for part in PARTS for name in part) == sorted(COLUMNS)


def test_what_was_not_verified_is_marked() -> None:
    row = BACKENDS["fireworks"]
    assert shown(row)["thinking"] == "forbidden ?"
    assert shown(replace(row, unverified=frozenset()))["thinking"] == "forbidden"
    assert shown(backend_for("openai", "gpt-5"))["grammar"] == "custom_tool: lark"
    assert shown(BACKENDS["generic"])["grammar"] == "-"
