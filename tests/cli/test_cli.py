"""The command line: what it prints, and the exit code that a script goes by."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from guard.cli import main

ROOT = Path(__file__).parent.parent.parent
CHAIN = str(ROOT / "examples/quickstart/chain.proc")
PARCEL = str(ROOT / "examples/parcel/parcel.proc")
INPUTS = '{"a": 14, "b": 8}'
TRACE = """\
@begin chain 3fa92c
1 s1 = 14 + 8 = 22
2 s2 = 22 * 3 = 66
3 s3 = 66 - 14 = 52
4 s4 = 52 + 22 = 74
5 s5 = 74 - 8 = 66
6 if 66 > 100 = false
7.1 s6 = 66 + 66 = 132
8 s7 = 132 + 52 = 184
9 return 184 - 22 = 162
@end 3fa92c
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "trace.txt"


def check(written: Path, trace: str, *more: str) -> int:
    written.write_text(trace)
    return main(["check", CHAIN, "--inputs", INPUTS, "--trace", str(written), *more])


def test_the_reference_trace_is_printed_and_passes_the_check(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", CHAIN, "--inputs", INPUTS]) == 0
    printed = capsys.readouterr().out
    assert printed == TRACE
    assert check(written, printed) == 0
    assert capsys.readouterr().out == "passed: 9 steps expected: 9 verified\n"


def test_a_check_as_json_keeps_its_contract(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = TRACE.replace("= 52\n", "= 53\n").replace("5 s5 = 74 - 8 = 66\n", "")
    assert check(written, wrong, "--json") == 1
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "failed"
    first, *_ = result["violations"]
    assert first == {
        "kind": "wrong_value",
        "step": "3",
        "at": wrong.index("53\n"),
        "expected": "52",
        "found": "53",
    }
    assert "skipped_step" in [violation["kind"] for violation in result["violations"]]
    assert set(result["steps"]) == {
        "expected",
        "verified",
        "scaffolded",
        "model_decided",
        "repaired",
        "computed",
        "missing",
    }
    assert 0 < result["fidelity"] < 1


def test_a_check_for_people_says_where_and_what(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(written, TRACE.replace("= 52\n", "= 53\n")) == 1
    printed = capsys.readouterr().out
    assert "wrong_value at step 3, line 4, column 18" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_a_nonce_is_asked_for_where_one_is_given(written: Path) -> None:
    assert check(written, TRACE) == 0
    assert check(written, TRACE, "--nonce", "3fa92c") == 0
    assert check(written, TRACE, "--nonce", "000000") == 1


def test_a_trace_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(TRACE))
    assert main(["check", CHAIN, "--inputs", INPUTS, "--trace", "-"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", CHAIN, "--inputs", "{}"], "input 'a' is missing"),
        (["trace", CHAIN, "--inputs", '{"a": "x", "b": 1}'], "input 'a'"),
        (["trace", CHAIN, "--inputs", "[1]"], "expected a JSON object"),
        (["trace", CHAIN, "--inputs", '{"a": '], "--inputs"),
        (["trace", CHAIN, "--inputs", "@/nowhere"], "--inputs"),
        (["trace", CHAIN, "--procedure", "other"], "it has chain"),
        (["trace", PARCEL, "--inputs", '{"note": "3 parcels"}'], "no decision for 'parcels'"),
        (["trace", "/nowhere.proc"], "/nowhere.proc"),
        (["check", CHAIN, "--inputs", INPUTS, "--trace", "/nowhere"], "/nowhere"),
        (["config", "check", "/nowhere.yaml"], "/nowhere.yaml"),
        (["serve", "--config", "/nowhere.yaml"], "/nowhere.yaml"),
        (["demo", "--model", "/nowhere.gguf"], "/nowhere.gguf"),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out


def test_lint_lists_all_problems_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.proc", tmp_path / "second.proc"
    first.write_text("procedure p(a: int) -> int\n  b = c + 1\n  return d\n")
    second.write_text("procedure q(a: int) -> int\n  return a\n")
    assert main(["lint", "--json", str(first), str(second)]) == 2
    problems = json.loads(capsys.readouterr().out)
    errors = [problem for problem in problems if problem["severity"] == "error"]
    assert [(error["line"], error["column"]) for error in errors] == [(2, 7), (3, 10)]
    assert set(problems[0]) == {"file", "line", "column", "severity", "message", "help"}
    assert main(["lint", str(second)]) == 0
    assert capsys.readouterr().out == "1 file, 0 errors, 0 warnings\n"


def test_a_file_with_several_procedures_asks_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.proc"
    file.write_text("procedure p(a: int) -> int\n  return a\n\nprocedure q(a: int) -> int\n  return a + 1\n")
    assert main(["trace", str(file), "--inputs", '{"a": 1}']) == 2
    assert "--procedure NAME" in capsys.readouterr().err
    assert main(["trace", str(file), "--inputs", '{"a": 1}', "--procedure", "q"]) == 0
    assert "1 return 1 + 1 = 2" in capsys.readouterr().out


def test_show_prints_the_prompt_in_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", CHAIN, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["numbered"] in shown["instructions"]
    assert "@begin chain 3fa92c" in shown["closing"]
    assert "3fa92c" not in shown["instructions"]
    assert main(["show", CHAIN]) == 0
    printed = capsys.readouterr().out
    assert shown["instructions"] in printed
    assert shown["closing"] in printed


def test_a_failing_procedure_is_told_with_its_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "half.proc"
    file.write_text("procedure half(a: int) -> decimal(2)\n  b = 1 / a to 2\n  return b\n")
    assert main(["trace", str(file), "--inputs", '{"a": 0}', "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["procedure_failed"]["step"] == "1"
    assert "@end" not in result["trace"]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "guard", "trace", CHAIN, "--inputs", INPUTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == TRACE
