"""`stepguard fmt`: which files it changes, and the exit code that a script goes by."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.cli import main

TEXT = "procedure p( a:int )->int   # so\n    return a\n"
LAID_OUT = "procedure p(a: int) -> int  # so\n  return a\n"


def test_files_are_laid_out_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, link, other = tmp_path / "p.proc", tmp_path / "link.proc", tmp_path / "other.proc"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    file.chmod(0o640)
    link.symlink_to(file)
    other.write_text(LAID_OUT)
    assert main(["fmt", str(link), str(other)]) == 0
    assert capsys.readouterr().out == f"{link}\n"
    assert file.read_bytes() == LAID_OUT.encode()
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.proc", "other.proc", "p.proc"]


def test_a_check_changes_nothing_and_names_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.proc"
    file.write_text(TEXT)
    assert main(["fmt", "--check", str(file)]) == 1
    assert capsys.readouterr().out == f"{file}\n"
    assert file.read_text() == TEXT
    file.write_text(LAID_OUT)
    assert main(["fmt", "--check", str(file)]) == 0


def test_a_file_that_breaks_the_syntax_is_left_and_the_others_are_laid_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, file = tmp_path / "broken.proc", tmp_path / "p.proc"
    broken.write_text("procedure (\n")
    file.write_text(TEXT)
    missing = tmp_path / "missing.proc"
    assert main(["fmt", str(broken), str(missing), str(file)]) == 2
    err = capsys.readouterr().err
    assert "broken.proc:1" in err
    assert "missing.proc:1:1: error: cannot be read" in err
    assert broken.read_text() == "procedure (\n"
    assert file.read_text() == LAID_OUT
