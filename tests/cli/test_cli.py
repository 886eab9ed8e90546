"""The command line: what it prints, and the exit code that a script goes by."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
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


@pytest.mark.parametrize(
    ("front", "kind"),
    [
        ("", None),
        ("<think>The sum is 5.</think>\n", None),
        ("<think>\n@begin chain abcdef\n1 s1 = 2 + 3 = 6\n@end abcdef\n</think>", None),
        ("<think>a <think> b</think> c</think>[THINK]d[/THINK] ", None),
        ("<think>The sum is 5.\n", "missing_answer"),
        ("Sure. <think>The sum is 5.</think>", "malformed"),
    ],
)
@pytest.mark.parametrize("wrong", [True, False])
def test_what_was_thought_in_front_of_a_trace_is_parted_as_while_it_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], front: str, kind: str | None, wrong: bool
) -> None:
    written = tmp_path / "answer.txt"
    answer = front + (TRACE.replace(" * 3 = 66", " * 3 = 67") if wrong else TRACE)
    assert check(written, answer, "--json") == (1 if kind or wrong else 0)
    violations = json.loads(capsys.readouterr().out)["violations"]
    if kind is not None:
        assert violations[0]["kind"] == kind
    elif wrong:
        assert answer[violations[0]["at"] :].startswith("67\n"), "offsets are those of the whole answer"


def test_the_reference_trace_is_printed_and_passes_the_check(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", CHAIN, "--inputs", INPUTS]) == 0
    printed = capsys.readouterr().out
    assert printed == TRACE
    assert check(written, printed) == 0
    assert capsys.readouterr().out == "passed: 9 steps expected: 9 verified\n"


def test_a_reference_trace_is_of_the_example_where_nothing_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trace", CHAIN]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "1 s1 = 6 + 9 = 15"


@pytest.mark.parametrize(
    ("form", "line"),
    [("values", "1 s1 = 22"), ("work", "1 s1 = 14 + 8 = 22"), ("full", "1 s1 = a + b = 14 + 8 = 22")],
)
def test_the_form_of_a_trace_can_be_chosen(
    written: Path, capsys: pytest.CaptureFixture[str], form: str, line: str
) -> None:
    assert main(["trace", CHAIN, "--inputs", INPUTS, "--form", form]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1] == line
    assert check(written, f"So:\n{printed}", "--form", form) == 1
    assert check(written, f"So:\n{printed}", "--form", form, "--tolerant") == 0


def test_a_trace_reads_the_clock_and_a_check_does_not(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "day.proc"
    file.write_text('now in "UTC"\nprocedure day(today: date) -> int\n  return today - 2000-01-01\n')
    assert main(["trace", str(file), "--inputs", "{}"]) == 0
    printed = capsys.readouterr().out
    today = printed.splitlines()[1].split()[2]
    written.write_text(printed)
    assert main(["check", str(file), "--inputs", "{}", "--trace", str(written)]) == 2
    assert "input 'today' is missing" in capsys.readouterr().err
    inputs = json.dumps({"today": today})
    assert main(["check", str(file), "--inputs", inputs, "--trace", str(written)]) == 0


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
        "supported",
        "unsupported",
        "isolated",
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
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRACE.encode()), encoding="ascii"))
    assert main(["check", CHAIN, "--inputs", INPUTS, "--trace", "-"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", CHAIN, "--inputs", "{}"], "input 'a' is missing"),
        (["trace", CHAIN, "--inputs", '{"a": "x", "b": 1}'], "input 'a'"),
        (["trace", CHAIN, "--inputs", '{"a": 1, "a": 2, "b": 1}'], "'a' is given twice"),
        (["trace", CHAIN, "--inputs", "[1]"], "expected a JSON object"),
        (["trace", CHAIN, "--inputs", '{"a": '], "--inputs"),
        (["trace", CHAIN, "--inputs", "@/nowhere"], "--inputs"),
        (["trace", CHAIN, "--inputs", '{"a": ' + 9000 * "["], "nested too deeply"),
        (["trace", CHAIN, "--inputs", f'{{"a": {5000 * "9"}, "b": 1}}'], "at most 40 digits"),
        (["trace", CHAIN, "--inputs", '{"a": NaN, "b": 1}'], "expected a whole number, found nan"),
        (["trace", CHAIN, "--procedure", "other"], "it has chain"),
        (["trace", PARCEL, "--inputs", '{"note": "3 parcels"}'], "no decision for 'parcels'"),
        (["trace", "/nowhere.proc"], "/nowhere.proc:1:1: error: cannot be read: no such file or directory"),
        (["show", "/"], "cannot be read: is a directory"),
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


@pytest.mark.parametrize("nonce", ["", "3FA92C", "3fa92", "3fa92c\n", "zzzzzz"])
@pytest.mark.parametrize("command", ["trace", "check"])
def test_a_nonce_is_six_hex_digits(command: str, nonce: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--trace", "-"] if command == "check" else []
    with pytest.raises(SystemExit) as refused:
        main([command, CHAIN, "--inputs", INPUTS, "--nonce", nonce, *more])
    assert refused.value.code == 2
    assert f"expected six hex digits such as 3fa92c, found {nonce!r}" in capsys.readouterr().err


def test_the_version_and_the_exit_codes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for option, said in (("--version", "stepguard 0."), ("--help", "exit codes:\n  0  done")):
        with pytest.raises(SystemExit) as told:
            main([option])
        assert told.value.code == 0
        assert said in capsys.readouterr().out


def test_lint_goes_on_where_a_file_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary, wrong = tmp_path / "binary.proc", tmp_path / "wrong.proc"
    binary.write_bytes(b"procedure \xe9")
    wrong.write_text("procedure p(a: int) -> int\n  return d\n")
    assert main(["lint", "--json", "/nowhere", str(tmp_path), str(binary), str(wrong)]) == 2
    problems = json.loads(capsys.readouterr().out)
    files = list(dict.fromkeys(problem["file"] for problem in problems))
    assert files == ["/nowhere", str(tmp_path), str(binary), str(wrong)]
    assert problems[2]["message"] == "is not UTF-8 text: unexpected end of data at byte 10"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.rstrip("\n").encode(),
    ],
    ids=["byte order mark", "CR LF", "no line end"],
)
def test_files_of_other_editors_are_the_same(change: Callable[[str], bytes], tmp_path: Path) -> None:
    procedure, inputs, trace = tmp_path / "p.proc", tmp_path / "inputs.json", tmp_path / "trace.txt"
    procedure.write_bytes(change(Path(CHAIN).read_text()))
    inputs.write_bytes(change(INPUTS))
    trace.write_bytes(change(TRACE))
    assert main(["check", str(procedure), "--inputs", f"@{inputs}", "--trace", str(trace)]) == 0


def test_an_offset_counts_the_characters_of_the_file(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TRACE.replace("= 52\n", "= 53\n").replace("\n", "\r\n")
    written.write_bytes(text.encode())
    assert main(["check", CHAIN, "--inputs", INPUTS, "--trace", str(written), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["violations"][0]["at"] == text.index("53")


def stepguard(*arguments: str, locale: str = "C.UTF-8", output: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as a process, under a locale, its output redirected to a file."""
    return subprocess.run(
        ["bash", "-c", f'exec "$0" -m guard "$@" {output}', sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        input="",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_locale_without_the_characters_loses_none_of_the_meaning() -> None:
    asked = ["check", CHAIN, "--inputs", INPUTS, "--trace", "-"]
    assert "expected  @begin chain …" in stepguard(*asked).stdout
    plain = stepguard(*asked, locale="POSIX")
    assert "expected  @begin chain \\u2026" in plain.stdout
    assert plain.returncode == 1
    data = stepguard(*asked, "--json", locale="POSIX")
    assert json.loads(data.stdout)["violations"][0]["expected"] == "@begin chain …"


@pytest.mark.slow
def test_output_that_cannot_be_written_is_no_violation() -> None:
    full = stepguard("trace", CHAIN, "--inputs", INPUTS, output=">/dev/full")
    assert full.returncode == 3
    assert full.stderr == "stepguard: [Errno 28] No space left on device\n"
    left = stepguard("show", CHAIN, output="| true")
    assert left.stderr == ""


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
    assert capsys.readouterr().out == "q: at most 1 step\n1 file, 0 errors, 0 warnings\n"


def test_of_several_procedures_the_one_that_carries_out_the_others_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "both.proc"
    file.write_text(
        "procedure half(a: int) -> int\n  return a div 2\n"
        "procedure p(a: int) -> int\n  b = do half(a)\n  return b\n"
    )
    assert main(["trace", str(file), "--inputs", '{"a": 6}']) == 0
    assert "1.1 return 6 div 2 = 3" in capsys.readouterr().out
    assert main(["trace", str(file), "--procedure", "half", "--inputs", '{"a": 6}']) == 0
    assert "1 return 6 div 2 = 3" in capsys.readouterr().out


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
    assert [step["node"] for step in shown["compiled"]["procedure"]["body"][4:6]] == ["Assign", "If"]
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


@pytest.mark.parametrize(
    "text", ["s1 = 5 apples. s2 = 15", "Answer: 162", "s1 = 2 + 3 = 6 apples\nAnswer: 162"]
)
def test_free_text_that_departs_is_a_violation(
    written: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert check(written, text, "--free", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["unread"], report["reading"]) == ("failed", [], "free")


def test_free_text_that_cannot_be_read_is_undecided(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = TRACE.splitlines()[1:-1]
    free = "\n".join(lines)
    assert check(written, free, "--free") == 0
    assert check(written, free.replace("= 162", "= 162 or 163"), "--free") == 4
    assert check(written, free.replace("3 s3 = 66 - 14 = 52", "3 s3 = 52 million"), "--free") == 4
    assert "unread step 3" in capsys.readouterr().out
    assert check(written, TRACE, "--free", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reading"] == "trace"


@pytest.mark.parametrize("after", ["", "@end 3fa92c\nThat is all.\n", "That is all.\n"])
def test_what_follows_the_answer_is_left_unread_as_the_endpoint_leaves_it(
    written: Path, capsys: pytest.CaptureFixture[str], after: str
) -> None:
    assert check(written, TRACE.replace("@end 3fa92c\n", after), "--json") == 0
    unread = json.loads(capsys.readouterr().out)["unread"]
    assert unread == ({"at": unread["at"], "characters": 12} if after else None)
    assert check(written, TRACE.replace("@end 3fa92c\n", after)) == 0
    assert ("12 characters after the answer not read" in capsys.readouterr().out) == bool(after)
