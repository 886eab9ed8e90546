"""What an author's file may cost: whatever is in it, it is read or refused within about a second."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import process_time
from typing import Final

import pytest

from guard.errors import ProcedureError
from guard.procedure.format import formatted
from guard.procedure.load import load
from guard.procedure.syntax import MAX_LINES, MAX_WORDS
from tests.work import calls

HEAD: Final = "procedure p(a: int, b: string) -> int\n"
END: Final = "  return a\n"
SECONDS: Final = 8  # of processor time: some eight times what the slowest takes


def rows(n: int, cells: Callable[[int], str], columns: str, hit: str) -> str:
    lines = "".join(f"  {cells(row)} => {row}\n" for row in range(n))
    return f"table t({columns}) -> int, {hit}\n{lines}{HEAD}{END}"


def alternatives(row: int) -> str:
    return ", ".join(" | ".join(f'"{row}{mark}{i}"' for i in range(50)) for mark in "xy")


def nested(n: int, around: Callable[[str], str], inner: str) -> str:
    for _ in range(n):
        inner = around(inner)
    return f"{HEAD}  x = {inner}\n{END}"


SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "steps": lambda n: HEAD + "".join(f"  x{i} = a * {i} + 1\n" for i in range(n)) + END,
    "names that nothing gives a value": lambda n: HEAD
    + "".join(f"  x{i} = y{i} + 1\n" for i in range(n))
    + END,
    "names used too early": lambda n: HEAD
    + "".join(f"  x{i} = x{i + 1} + 1\n" for i in range(n))
    + END,
    "units of units": lambda n: "unit u0\n"
    + "".join(f"unit u{i} = 2 u{i - 1} u{i - 1}\n" for i in range(1, n))
    + HEAD
    + END,
    "a unit of many": lambda n: f"unit m\nunit k = 2 {'m ' * n}\n{HEAD}{END}",
    "rows of alternatives": lambda n: rows(n // 9, alternatives, "c: string, d: string", "unique"),
    "rows of numbers": lambda n: rows(5 * n, str, "c: int", "unique"),
    "rows of any": lambda n: rows(n // 7, lambda _: ", ".join(["any"] * 20), ", ".join(f"c{i}: int" for i in range(20)), "first match"),
    "one of many strings": lambda n: f'{HEAD}  x = b in [{", ".join(f"{chr(34)}{i}{chr(34)}" for i in range(10 * n))}]\n{END}',
    "sums of sums": lambda n: nested(n.bit_length() + 1, lambda e: f"({e} + {e})", "a"),
    "choices in choices": lambda n: nested(min(n, 45), lambda e: f"(if a > 1 then {e} else a)", "a"),
    "blank lines": lambda n: "\n" * (n * 450) + HEAD + END,
    "comments": lambda n: "# x\n" * (n * 100) + HEAD + END,
    "lines here and there that cannot be read": lambda n: HEAD
    + "".join(f"  x{i} = a + {i}\n" + "  return { b: a, tly => 2\n" * (i % n == 0) for i in range(4 * n))
    + END,
    "lines that cannot be read": lambda n: HEAD + "  x = = 1\n" * (4 * n) + END,
    "procedures": lambda n: "".join(f"procedure p{i}(a: int) -> int\n{END}" for i in range(n)),
    "branches": lambda n: HEAD
    + "".join(f"  if a > {i}\n    x{i} = a\n  else\n    x{i} = 1\n" for i in range(n // 4))
    + END,
}  # fmt: skip


def seconds_to_load(text: str) -> float:
    before = process_time()
    with suppress(ProcedureError):
        load(text)
    return process_time() - before


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_any_file_is_read_or_refused_in_time(shape: str) -> None:
    text = SHAPES[shape](1_950)
    assert len(text) <= 1_000_000
    assert seconds_to_load(text) < SECONDS


@pytest.mark.parametrize(
    "shape",
    [
        "steps",
        "rows of numbers",
        "rows of any",
        "one of many strings",
        "branches",
    ],
)
def test_twice_as_much_is_about_twice_the_work(shape: str) -> None:
    def loading() -> None:
        with suppress(ProcedureError):
            load(text)

    work = dict[int, int]()
    for n in (8, 200, 400):
        text = SHAPES[shape](n)
        work[n] = calls(loading)  # the first compiles the grammar
    assert work[400] < 2.2 * work[200]


@pytest.mark.parametrize(("text", "limit"), [
    ("\n" * (MAX_LINES + 1), "20,000 lines"),
    (HEAD + "  x = [" + "1, " * MAX_WORDS + "1]\n" + END, "50,000 words and signs"),
])  # fmt: skip
def test_what_is_too_much_is_said(text: str, limit: str) -> None:
    for read in (load, formatted):
        with pytest.raises(ProcedureError) as caught:
            read(text)
        [problem] = caught.value.problems
        assert f"a file has at most {limit}" in problem.message
        assert problem.help == "split it into several files"


def test_a_unit_comes_to_no_more_than_can_be_written() -> None:
    with pytest.raises(ProcedureError) as caught:
        load(SHAPES["units of units"](39))
    assert "at most 20 factors" in caught.value.problems[0].message
    assert load(SHAPES["units of units"](5)).procedures
    big = "".join(f"unit v{i} = {10**30} {'w' if i == 0 else f'v{i - 1}'}\n" for i in range(2))
    with pytest.raises(ProcedureError):
        load(f"unit w\n{big}{HEAD}{END}")
