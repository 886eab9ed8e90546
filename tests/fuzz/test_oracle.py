"""The oracle knows nothing of what it judges, and what it is told of reads as it says."""

from __future__ import annotations

import ast
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest

from guard.errors import ConversationError
from guard.procedure.load import load
from guard.procedure.types import NULL, Value
from tests.fuzz import drawn
from tests.fuzz.oracle import means, quotes, shows, stands

TESTS: Final = Path(__file__).parent.parent
JUDGED: Final = ("guard.check", "guard.run", "guard.engine", "guard.proxy", "guard.upstream", "guard.trace")


def imported(file: Path) -> set[str]:
    """The modules that a file imports, and those that these import of the tests'."""
    tree = ast.parse(file.read_text("utf-8"))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    found |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    for name in [name for name in found if name.startswith("tests.")]:
        found |= imported(TESTS.parent / f"{name.replace('.', '/')}.py")
    return found


def test_the_oracle_imports_nothing_of_what_it_judges() -> None:
    modules = imported(Path(__file__).parent / "oracle.py")
    assert "tests.procedure.plain" in modules
    assert not [name for name in modules if name.startswith(JUDGED)]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("1 a = 3 + 4 = 7\n", 7),
        ("1 a = 12.50\n", Fraction("12.5")),
        ("1 a = 5%\n", Fraction(1, 20)),
        ("2 if 3 > 2 = true  \n", True),
        ("1 d = 2026-03-01\n", date(2026, 3, 1)),
        ('1 n = 7 <- "the 7 of 9"\n', 7),
        ('1 s = "a b"\n', "a b"),
    ],
)
def test_what_a_line_shows(line: str, value: Value) -> None:
    assert shows(line, value)
    assert not shows(line, "another" if isinstance(value, str) else 8)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("7", 7),
        ("12.50", Fraction("12.5")),
        ("true", True),
        ("null", NULL),
        ('{"a": 7, "due": "2026-03-01"}', {"a": 7, "due": date(2026, 3, 1)}),
        ("[1.5, 2]", (Fraction("1.5"), 2)),
    ],
)
def test_what_an_answer_means(answer: str, value: Value) -> None:
    assert means(answer, value)
    assert not means(answer.replace("7", "8").replace("2", "3").replace("true", "false") + " ", value)


def test_quotes_stand_in_their_source_whatever_its_blanks() -> None:
    assert quotes('1 n = 7 <- "the 7" <- "of  9"\n') == ["the 7", "of  9"]
    assert stands("the 7 of", "all the  7\nof 9")
    assert not stands("The 7", "all the 7")
    assert not stands("", "all the 7")


def test_what_is_left_out_of_the_sets_cannot_be_run() -> None:
    """Procedures with tools are still refused; where that changes they are to be drawn."""
    text = 'procedure main(chat: text) -> int\n  say "Hello."\n  return 1\n'
    with pytest.raises(ConversationError):
        load(text, "made.proc").procedures["main"].require_runnable()
    refused = {name for (what, name) in drawn.NOT_RUN if what == "step"}
    assert refused == {"call", "confirm", "say"}
    assert all(drawn.NOT_RUN.values())
