"""The TextMate grammar: it knows the words and signs of the grammar of procedures, by its own reading."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from guard.procedure.dates import UNITS
from guard.procedure.syntax import grammar

ROOT = Path(__file__).parent.parent
GRAMMAR: dict[str, Any] = json.loads((ROOT / "grammars/procedure.tmLanguage.json").read_text())
PARTS = [GRAMMAR["repository"][part["include"][1:]] for part in GRAMMAR["patterns"]]
PATTERNS = [(re.compile(part.get("match") or part["begin"]), part) for part in PARTS]

# Where each word that may also be a name stands when it is none.
SOFT = {
    "import": 'import "a.proc"',
    "version": 'version "1"',
    "numbers": "numbers round up",
    "record": "record A {",
    "enum": 'enum A: "a"',
    "table": "table t(",
    "procedure": "procedure p(",
    "example": "example p",
    "decide": "  decide x = 1",
    "tool": "tool find(id: string) -> int reads",
    "always": "always confirm before writes",
    "no": "always no a after b",
    "before": "always confirm before writes",
    "after": "always no a after b",
    "with": '  confirm a(b) with c else deny "x"',
    "list": "list of int",
    "of": "list of int",
    "from": "  extract a: int from b",
    "where": "where a > 1",
    "quote": "quote",
    "loosely": "quote loosely",
    "asking": 'asking "x"',
    "to": "a to 2",
    "at": "at most 3",
    "next": "require a > 1 else next",
    "most": "at most 3",
    "by": "sort(x for x in xs by x.price)",
    "desc": "sort(x for x in xs desc)",
    **{unit: f"  due = ordered + 3 {unit}" for unit in UNITS},
    "down": "  due = ordered + 3 months down",
    "up": "  due = ordered + n years up",
    "now": 'now in "Europe/Berlin"',
}
WORDS = {
    str(terminal.pattern.value)
    for terminal in grammar().terminals
    if terminal.pattern.type == "str" and str(terminal.pattern.value).isidentifier()
}
SIGNS = {
    str(terminal.pattern.value)
    for terminal in grammar().terminals
    if terminal.pattern.type == "str" and not str(terminal.pattern.value).isidentifier()
}


def scopes(line: str) -> list[tuple[str, str]]:
    """Read a line as an editor does: at each place the leftmost match, the first pattern of several."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(line):
        matches = [(m, part) for pattern, part in PATTERNS if (m := pattern.search(line, place)) and m[0]]
        if not matches:
            break
        match, part = min(matches, key=lambda pair: pair[0].start())
        end = match.end()
        if "begin" in part:
            closing = re.compile(r'(?:[^"\\]|\\.)*"?').match(line, end)
            end = closing.end() if closing else len(line)
        for group, capture in part.get("captures", {}).items():
            if match[int(group)]:
                found.append((match[int(group)], capture["name"]))
        if "name" in part:
            found.append((line[match.start() : end], part["name"]))
        place = end
    return found


@pytest.mark.parametrize("word", sorted(WORDS))
def test_every_word_of_the_grammar_is_highlighted(word: str) -> None:
    named = dict(scopes(SOFT.get(word, word)))
    assert re.match(r"keyword|constant\.language|storage\.type", named.get(word, "")), named


@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_every_sign_of_the_grammar_is_highlighted(sign: str) -> None:
    assert scopes(f"a {sign} b")[0][0] == sign


@pytest.mark.parametrize(
    ("line", "text", "scope"),
    [
        ('deny "a # b"  # why', '"a # b"', "string.quoted.double.stepguard"),
        ('deny "a # b"  # why', "# why", "comment.line.number-sign.stepguard"),
        ("a = 12.5%", "12.5%", "constant.numeric.stepguard"),
        ("1..9 => 0%", "..", "keyword.operator.stepguard"),
        ("1..9 => 0%", "=>", "keyword.operator.stepguard"),
        ("2026-06-01..2026-06-30 => 0%", "2026-06-30", "constant.numeric.stepguard"),
        ("a = 2026-06-01T09:30:00+02:00", "2026-06-01T09:30:00+02:00", "constant.numeric.stepguard"),
        ("a >= 1", ">=", "keyword.operator.stepguard"),
        ("a = bulk(2)", "bulk", "entity.name.function.stepguard"),
        ("procedure invoice(note: text)", "invoice", "entity.name.function.stepguard"),
        ("  note: text", "text", "storage.type.stepguard"),
    ],
)
def test_literals_and_names_have_their_scope(line: str, text: str, scope: str) -> None:
    assert (text, scope) in scopes(line)


@pytest.mark.parametrize(
    "line",
    ["  iffy = a", "  order.from = a", "  version = 2", "  notable = informed + a", "  days = days + up"],
)
def test_names_that_look_like_words_are_none(line: str) -> None:
    assert not [
        text for text, scope in scopes(line) if scope.startswith(("keyword.control", "keyword.other"))
    ]
