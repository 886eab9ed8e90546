"""`stepguard grammar` prints what a run sends, and says what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guard.cli import main
from guard.cli.grammar import APIS, CONTINUED, DIALECTS
from guard.dialect.lark import Level
from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.run.messages import Open, Target, Text
from guard.run.policy import Policy
from guard.run.run import Job, Run
from guard.trace import render
from guard.upstream.backends import backend_for, target_for
from guard.upstream.request import body

ROOT = Path(__file__).parent.parent.parent
CHAIN = ROOT / "examples/quickstart/chain.proc"
INVOICE = ROOT / "examples/invoice/invoice.proc"
NONCE = "3fa92c"
TARGET_OF_GPT_5 = target_for("openai", "u", "gpt-5")


def opened(file: Path, after: int, target: Target, level: Level) -> Open:
    """What a run of the example sends when it goes on behind so many right lines and one wrong."""
    program = load(file.read_text(), str(file)).procedures[file.stem]
    inputs, decisions = program.example_inputs, program.example_decisions
    assert inputs is not None
    steps, _ = reference(program, inputs, decisions or {})
    run = Run(Job(program=program, inputs=inputs, messages=(), nonce=NONCE), Policy(force=level), [target])
    (command,) = run.start()
    assert isinstance(command, Open)
    if after:
        lines = render.trace(program, steps[:after], NONCE).splitlines(keepends=True)[:-1]
        text = "".join(lines).removeprefix(command.prefix)
        run.handle(Text(text))
        *_, command = run.handle(Text("wrong\n"))
        assert isinstance(command, Open)
    return command


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["grammar", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in APIS])
@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS])
@pytest.mark.parametrize("prefill", [True, False])
def test_what_is_printed_is_what_a_run_sends(
    capsys: pytest.CaptureFixture[str], dialect: str, after: int, level: Level, prefill: bool
) -> None:
    target = Target(name="u", model="m", prefill=prefill, dialect=DIALECTS[dialect])
    sent = opened(CHAIN, after, target, level)
    arguments = [str(CHAIN), "--dialect", dialect, "--level", level, "--json"]
    arguments += ["--prefill" if prefill else "--no-prefill"]
    arguments += ["--after", str(after)] if after else []
    if sent.grammar is None:
        assert main(["grammar", *arguments]) == 2
        assert "cannot say" in capsys.readouterr().err
        return
    found = json.loads(printed(capsys, *arguments))
    assert (found["grammar"], found["prefix"], found["refused"]) == (sent.grammar, sent.prefix, None)


def test_the_text_alone_is_printed_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(name="u", model="m", prefill=True, dialect=DIALECTS["gbnf"])
    assert (
        printed(capsys, str(CHAIN), "--dialect", "gbnf") == opened(CHAIN, 0, target, Level.OPERANDS).grammar
    )


def test_the_notation_says_whether_the_server_goes_on_from_a_prefix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, dialect in DIALECTS.items():
        found = json.loads(printed(capsys, str(CHAIN), "--dialect", name, "--after", "2", "--json"))
        assert bool(found["prefix"]) is (dialect in CONTINUED)


@pytest.mark.parametrize("dialect", APIS)
def test_openai_gets_the_fields_of_its_request(capsys: pytest.CaptureFixture[str], dialect: str) -> None:
    command = opened(CHAIN, 0, TARGET_OF_GPT_5, Level.OPERANDS)
    row = backend_for("openai", "gpt-5", {"api": APIS[dialect]})
    sent = body(row, command, model="gpt-5", extra={})
    found = json.loads(printed(capsys, str(CHAIN), "--dialect", dialect))
    assert set(found) == {"tools", "tool_choice", "parallel_tool_calls"}
    assert found == {name: sent[name] for name in found}


def test_decisions_are_wanted_only_up_to_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ["--inputs", '{"note": "12 hinges at 3.35", "order_date": "2026-06-01"}']
    start = ["grammar", str(INVOICE), "--dialect", "gbnf", *inputs]
    assert main(start) == 0
    assert main([*start, "--after", "1"]) == 2
    assert "no decision for" in capsys.readouterr().err


def test_what_the_guard_writes_itself_is_no_part_of_the_grammar(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grammar", str(CHAIN), "--dialect", "gbnf", "--level", "values"]) == 0
    assert "sends nothing" in capsys.readouterr().err
    assert main(["grammar", str(INVOICE), "--dialect", "gbnf", "--level", "values"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--after", "7"], "--after: the trace has no step '7'; it has 1, 2, 3, 4, 5, 6, 7.1, 8, 9"),
        (["--after", "9"], "--after: nothing is left to write behind step 9"),
        (["--inputs", "{}"], "input"),
        (["--inputs", "["], "--inputs: expected a JSON object"),
        (["--procedure", "nobody"], "has no procedure 'nobody'"),
    ],
)
def test_what_does_not_fit_is_said(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["grammar", str(CHAIN), "--dialect", "gbnf", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_procedure_that_fails_leaves_nothing_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.proc"
    file.write_text("procedure p(a: int) -> int\n  b = a + 1\n  c = 7 div (b - 1)\n  return c\n")
    assert main(["grammar", str(file), "--dialect", "gbnf", "--inputs", '{"a": 0}', "--after", "1"]) == 2
    assert "--after: the procedure fails at step 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words"), [("--level", "shape, operands, values"), ("--form", "values, work, full")]
)
def test_a_word_that_is_none_is_told_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str], option: str, words: str
) -> None:
    with pytest.raises(SystemExit):
        main(["grammar", str(CHAIN), "--dialect", "gbnf", option, "none"])
    assert f"{option}: expected one of {words}, found 'none'" in capsys.readouterr().err


def test_a_trace_that_no_checker_takes_leads_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "long.proc"
    many = ", ".join(map(str, range(900)))
    file.write_text(
        "procedure long(note: text) -> int\n  extract xs: list of int from note\n  t = sum(x for x in xs)\n"
        f'  return t\n\nexample long\n  note = "a"\n  decide xs = [{many}]\n'
    )
    assert main(["grammar", str(file), "--dialect", "gbnf", "--after", "1"]) == 2
    assert "no trace stands up to there, step 1 is limit_exceeded" in capsys.readouterr().err


def test_a_looser_grammar_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loop.proc"
    file.write_text(
        "procedure p(xs: list of int) -> int\n  t = 0\n  for x in xs at most 500\n    t = t + x\n  return t\n"
    )
    inputs = json.dumps({"xs": [1] * 450})
    assert main(["grammar", str(file), "--dialect", "lark", "--inputs", inputs, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["level"] == "shape"
    assert "this is the grammar at level shape" in shown.err
