"""No command takes a number that makes no sense."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from guard.cli.amounts import shares
from guard.cli.main import _parser, main

NUMBERS = {"N", "S", "P", "STEPS", "KIND[=SHARE],..."}  # as `--help` shows what is to be a number
ABSURD = ("-1", "-0.5", "nan", "inf", "-inf", "1e400", "9" * 5000, "0x10", "1_000", "\u0661", "many", "", " ")


def commands(
    parser: argparse.ArgumentParser, *path: str
) -> Iterator[tuple[tuple[str, ...], argparse.Action]]:
    """Every argument of every command, with the words of the command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, *path, name)
        else:
            yield path, action


ALL = list(commands(_parser()))
COUNTED = [
    (path, action.option_strings[0])
    for path, action in ALL
    if action.option_strings and action.metavar in NUMBERS
]


def test_what_is_converted_to_a_number_is_read_with_its_bounds() -> None:
    assert {action.type for _, action in ALL} & {int, float} == set()
    assert len(COUNTED) >= 14


@pytest.mark.parametrize("absurd", ABSURD)
@pytest.mark.parametrize(
    ("path", "option"), COUNTED, ids=lambda part: part if isinstance(part, str) else None
)
def test_an_absurd_number_is_refused(
    path: tuple[str, ...], option: str, absurd: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main([*path, f"{option}={absurd}"])
    assert exited.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {option}: expected" in said
    assert len(said.splitlines()[-1]) < 400


def test_kinds_without_a_share_have_equal_parts_of_what_is_left() -> None:
    names = ("a", "b", "c")
    assert shares("a,b", names) == {"a": 0.5, "b": 0.5}
    assert shares("a=0.5, b,c", names) == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert shares("a=0.33,b=0.33,c=0.33", names) == {"a": 0.33, "b": 0.33, "c": 0.33}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=0,b", "a share above 0 of a"),
        ("a=1,b", "less than 1, since some have none, found 1"),
        ("a=0.5,b=0.4", "add up to 1, found 0.9"),
        ("a=0.6,b=0.6", "add up to 1, found 1.2"),
        ("a,a", "each once, of a, b, c; found 'a'"),
        ("a,d", "each once, of a, b, c; found 'd'"),
        ("a=2", "a number from 0 to 1, found '2'"),
        ("", "each once, of a, b, c; found ''"),
    ],
)
def test_shares_that_cannot_be_meant_are_refused(text: str, why: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(why)):
        shares(text, ("a", "b", "c"))
