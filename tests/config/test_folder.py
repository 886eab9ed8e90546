"""Files below a folder that import each other: from a configuration, on the command line, through links."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from guard.cli import main
from guard.config import Config
from guard.config.folder import Folder
from guard.errors import ConfigError, ProcedureError
from guard.procedure.load import load

FEES = "table fee(n: int) -> int, unique\n  any => 2\n"
MAIN = 'import "../fees.proc"\nprocedure p(n: int) -> int\n  return fee(n)\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "procedures"
    (folder / "sub").mkdir(parents=True)
    (folder / "fees.proc").write_text(FEES)
    (folder / "sub/p.proc").write_text(MAIN)
    return folder


def test_a_configured_folder_holds_files_that_import_each_other(root: Path) -> None:
    programs = Config(procedures=(root,)).programs
    assert list(programs) == ["p"]
    (root / "fees.proc").write_text(FEES.replace("2", "3"))
    assert Config(procedures=(root,)).programs["p"].digest != programs["p"].digest


def test_a_configured_file_imports_below_its_own_folder_only(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"sub/p\.proc:1:8.*leads out of the folder"):
        _ = Config(procedures=(root / "sub/p.proc",)).programs


def test_what_is_wrong_in_a_shared_file_is_said_once(root: Path) -> None:
    (root / "fees.proc").write_text(FEES.replace("2", "yes"))
    (root / "q.proc").write_text(MAIN.replace("../", "").replace("p(n", "q(n"))
    with pytest.raises(ConfigError) as caught:
        _ = Config(procedures=(root,)).programs
    assert [said.split(": ")[0] for _, said in caught.value.problems] == [f"{root}/fees.proc:2:10"]


def test_commands_take_the_folder_of_imports(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(root / "sub/p.proc")
    assert main(["lint", file]) == 2
    assert "leads out of the folder" in capsys.readouterr().out
    assert main(["lint", "--root", str(root), file, str(root / "fees.proc")]) == 0
    assert main(["trace", "--root", str(root), file, "--inputs", '{"n": 1}']) == 0
    assert "return fee(1) = 2" in capsys.readouterr().out
    assert main(["show", "--root", str(root), file, "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out)["compiled"]["tables"]
    assert table["name"] == "fee"
    assert main(["lint", "--root", str(root / "sub"), str(root / "fees.proc")]) == 2
    assert "is not below" in capsys.readouterr().err
    assert main(["show", str(root / "fees.proc")]) == 2
    assert "has no procedure" in capsys.readouterr().err


def test_problems_of_imported_files_have_their_own_place(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    Path("fees.proc").write_text(FEES.replace("2", "yes"))
    Path("q.proc").write_text(MAIN.replace("../", ""))
    assert main(["lint", "q.proc", "fees.proc"]) == 2
    out = capsys.readouterr().out
    assert "fees.proc:2:10: error" in out
    assert out.endswith("2 files, 1 error, 0 warnings\n")


def test_links_stay_in_the_folder(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.proc").write_text(FEES)
    (root / "out.proc").symlink_to(tmp_path / "secret.proc")
    (root / "in.proc").symlink_to(root / "fees.proc")
    (root / "away").symlink_to(tmp_path)
    folder = Folder(root)
    assert folder("in.proc") == FEES
    for path in ("out.proc", "away/secret.proc"):
        with pytest.raises(ValueError, match="link that leads out"):
            folder(path)
    link = tmp_path / "linked"
    link.symlink_to(root)
    assert Folder(link)("fees.proc") == FEES


def test_what_is_no_text_is_refused(root: Path) -> None:
    (root / "bad.proc").write_bytes(b"ab\xff")
    os.mkfifo(root / "pipe.proc")
    (root / "loop.proc").symlink_to(root / "loop.proc")
    (root / "bom.proc").write_bytes(b"\xef\xbb\xbf" + FEES.encode())
    folder = Folder(root)
    assert folder("bom.proc") == FEES
    for path, message in {
        "bad.proc": "is not UTF-8 text: invalid start byte at byte 2",
        "pipe.proc": "is no file",
        "sub": "is a folder",
    }.items():
        with pytest.raises((ValueError, OSError), match=message):
            folder(path)
    for path, message in {
        "bad.proc": "'bad.proc' is not UTF-8 text: invalid start byte at byte 2",
        "loop.proc": "'loop.proc' cannot be read: ",
        "none.proc": "'none.proc' cannot be read: no such file or directory",
        "sub/": "names no file",
    }.items():
        with pytest.raises(ProcedureError, match=message):
            load(f'import "{path}"\n', files=folder)


def test_a_file_larger_than_any_procedure_is_not_read_whole(root: Path) -> None:
    with (root / "fees.proc").open("wb") as file:
        file.truncate(20_000_000_000)  # takes no room on the disk
    with pytest.raises(ValueError, match=r"is too large: it has more than 4,100,000 bytes"):
        Folder(root)("fees.proc")
    with pytest.raises(ProcedureError, match="is too large"):
        load('import "fees.proc"\nprocedure p(n: int) -> int\n  return n\n', files=Folder(root))
