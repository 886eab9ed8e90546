"""Files that nobody should write, through the commands that read them: said in short, in time, without a crash."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from guard.cli import main
from guard.cli.given import json_object
from guard.errors import RequestError

HEAD = "procedure p(a: int) -> int\n"
NESTED = f"""\
procedure p(xs: list of int) -> int
  return sum(sum(x * y for x in xs) for y in xs)
example p
  xs = [{", ".join(["1"] * 2_000)}]
"""
BAD: dict[str, tuple[str | bytes, str]] = {
    "too large": (HEAD + "  # " + "c" * 1_000_000 + "\n", "at most 1,000,000 characters"),
    "too many words": (HEAD + "  x = a" + " + a" * 120_000 + "\n", "at most 50,000 words and signs"),
    "a table of 100,000 rows": (
        "table t(a: int) -> int, unique\n" + "".join(f" {n}=>1\n" for n in range(100_000)),
        "a file has at most",
    ),
    "a long string": (HEAD + f'  deny "{"c" * 900_000}"\n', "at most 10,000 characters"),
    "a long number": (HEAD + f"  return {'9' * 900_000}\n", "at most 40 digits"),
    "a long name": (HEAD + f"  {'x' * 900_000} = a\n  return a\n", "at most 100 characters"),
    "deep brackets": (HEAD + f"  return {'(' * 90_000}a{')' * 90_000}\n", "at most 50 one within"),
    "deep operations": (HEAD + f"  return {'-' * 20_000}a\n", "at most 50 operations"),
    "deep choices": (HEAD + f"  return {'if a > 1 then 1 else ' * 5_000}2\n", "at most 50 operations"),
    "deep fields": (HEAD + f"  return a{'.b' * 20_000}\n", "at most 50 operations"),
    "deep lists": (HEAD + f"  x = {'[' * 22}a{']' * 22}\n  return a\n", "at most 20 one within"),
    "deep comprehensions": (
        HEAD + f"  x = {'[' * 22}a{''.join(f' for v{n} in [1]]' for n in range(22))}\n  return a\n",
        "at most 20 one within",
    ),
    "deep types": (f"procedure p(a: {'list of ' * 20_000}int) -> int\n  return 1\n", "at most 50 one within"),
    "deep blocks": (
        HEAD + "".join(f"{'  ' * n}if a > 1\n" for n in range(1, 200)) + "  return a\n",
        "at most 50 one within",
    ),
    "a list in itself": (HEAD + "  x = [a]\n  y = []\n  y = [y]\n  return len(x)\n", "is ever put into"),
    "a loop of 10^9": (HEAD + "  for x in [1] at most 1000000000\n    y = x\n  return a\n", "1 to 10,000"),
    "a while of 10^9": (
        HEAD + "  x = a\n  while x < 1 at most 1000000000\n    x = x + 1\n  return a\n",
        "1 to 10,000",
    ),
    "a list that doubles": (
        HEAD + "  x = [a]\n" + "  x = concat(x, x)\n" * 60 + "  return len(x)\nexample p\n  a = 1\n",
        "more than 10,000 items",
    ),
    "lists that share": (
        HEAD
        + "  x0 = [a]\n"
        + "".join(f"  x{n + 1} = [x{n}, x{n}]\n" for n in range(18))
        + "  return len(x18)\nexample p\n  a = 1\n",
        "more than 250,000 times",
    ),
    "lists in one another": (NESTED, "more than 250,000 times"),
    "not UTF-8": (HEAD.encode() + b"  # caf\xe9\n  return a\n", "is not UTF-8"),
    "UTF-16": ((HEAD + "  return a\n").encode("utf-16"), "is not UTF-8"),
    "every byte": (bytes(range(256)) * 100, "is not UTF-8"),
    "a null": (HEAD + "  x = a\0\n  return x\n", "U+0000"),
    "tabs and blanks": (HEAD + "  x = a\n\treturn x\n", "tabs and blanks are mixed"),
    "old line ends": ((HEAD + "  return a\n").replace("\n", "\r"), "line ends LF or CR LF"),
    "no words": ("\n \n\t\n", "holds no procedure"),
    "quotation marks": ('"' * 50_001, "expected a declaration"),
}
GOOD: dict[str, bytes] = {
    "CR LF": (HEAD + "  x = a\n  # why\n  return x\n").replace("\n", "\r\n").encode(),
    "mixed line ends": (HEAD + "  x = a\r\n  # why\n  return x\n").encode(),
    "a byte order mark": b"\xef\xbb\xbf" + (HEAD + "  x = a\n  # why\n  return x\n").encode(),
    "tabs alone": (HEAD + "\tx = a\n\t# why\n\treturn x\n").encode(),
    "no line end at the end": (HEAD + "  x = a\n  # why\n  return x").encode(),
}
LAID_OUT = (HEAD + "  x = a\n  # why\n  return x\n").encode()


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("lint",), id="lint"),
        pytest.param(("show",), id="show", marks=pytest.mark.slow),
        pytest.param(("fmt", "--check"), id="fmt --check", marks=pytest.mark.slow),
    ],
)
def test_a_bad_file_is_refused_in_short_and_in_time(
    command: tuple[str, ...], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, message = BAD[what]
    file = tmp_path / "bad.proc"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    start = time.process_time()
    code = main([*command, str(file)])
    assert time.process_time() - start < 20  # most take a tenth of a second; a hang would take for ever
    told = capsys.readouterr()
    written = told.out + told.err
    assert len(written) < 20_000
    if command[0] == "fmt" and code != 2:
        return  # a layout judges words and blocks only
    assert code == 2
    assert message in written
    assert "Traceback" not in written


@pytest.mark.parametrize("what", GOOD)
def test_files_of_other_editors_are_read_and_laid_out_alike(what: str, tmp_path: Path) -> None:
    file = tmp_path / "good.proc"
    file.write_bytes(GOOD[what])
    assert main(["lint", str(file)]) == 0
    assert main(["fmt", str(file)]) == 0
    assert file.read_bytes() == LAID_OUT
    assert main(["fmt", "--check", str(file)]) == 0


@pytest.mark.parametrize("command", ["lint", "show", "fmt"])
def test_a_file_without_an_end_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "/dev/zero"]) == 2
    told = capsys.readouterr()
    assert "is too large" in told.out + told.err


def test_a_number_with_an_exponent_that_nobody_can_read_is_refused() -> None:
    with pytest.raises(RequestError, match="exponent"):
        json_object('{"n": 1E-99999999999999999999}', "--decide")
