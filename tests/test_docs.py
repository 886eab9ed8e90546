"""The documentation says what the code does: its tables have a row for everything public."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from guard.check.verdict import Kind
from guard.dialect.notation import Dialect
from guard.errors import ProcedureError
from guard.procedure.execute import reference
from guard.procedure.library import FUNCTIONS
from guard.procedure.load import load
from guard.procedure.model import Hit, StepKind
from guard.run.messages import Outcome, StepClass
from guard.trace import render
from guard.wire.fields import OTHER, RULES

ROOT = Path(__file__).parent.parent
OPERATOR = (ROOT / "deploy/README.md").read_text()
LANGUAGE = (ROOT / "grammars/README.md").read_text()


def test_the_manual_has_the_row_of_every_request_field() -> None:
    for rule in RULES:
        assert f"| `{rule.field}` | {rule.treatment.value} | {rule.why} |" in OPERATOR
    assert f"| {OTHER.field} | {OTHER.treatment.value} | {OTHER.why} |" in OPERATOR
    assert OPERATOR.count(" | refused | ") == sum(rule.treatment.value == "refused" for rule in RULES)


def test_every_kind_of_violation_has_a_row_in_the_language_reference() -> None:
    for kind in Kind:
        assert f"\n| `{kind.value}` |" in LANGUAGE, kind


def test_every_dialect_is_explained() -> None:
    for dialect in Dialect:
        assert f"\n| `{dialect.value}` |" in LANGUAGE, dialect


def test_every_outcome_and_step_class_is_explained() -> None:
    for word in (*Outcome, *StepClass):
        assert f"`{word.value}`" in OPERATOR, word


def test_the_readme_has_exactly_two_commands_that_set_everything_up() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme.count("python3 -m venv .venv") == 2
    assert readme.count("<!-- test command -->") == readme.count("<!-- end -->") == 1


def test_the_procedure_and_the_output_of_the_readme_are_those_of_the_example() -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = [dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", readme, re.MULTILINE)]
    [procedure] = [block for block in blocks if "procedure invoice" in block]
    assert list(load(procedure, "README.md").procedures) == ["invoice"]
    assert procedure.strip() in (ROOT / "examples/invoice/invoice.proc").read_text()
    [output] = [block for block in blocks if "answer: " in block]
    assert output.strip() in (ROOT / "examples/invoice/README.md").read_text()


def test_every_link_leads_to_a_file() -> None:
    pages = [
        page for pattern in ("*.md", "*/README.md", "examples/*/README.md") for page in ROOT.glob(pattern)
    ]
    assert len(pages) > 4
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page}: {target}"


def test_no_text_has_the_marks_of_a_merge() -> None:
    for page in (*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("examples/*/README.md")):
        assert not re.search(r"^(<{7}|>{7}|={7}$)", page.read_text(), re.MULTILINE), page


def test_the_procedure_of_the_language_reference_is_one() -> None:
    [text] = re.findall(r"```\n(version .*?)```", LANGUAGE, re.DOTALL)
    library = load(text, "grammars/README.md")
    assert list(library.procedures) == ["invoice"]
    assert not library.warnings


def test_the_tools_of_the_language_reference_are_some_and_its_rules_hold() -> None:
    [text] = re.findall(r"```\n(always .*?)```", LANGUAGE, re.DOTALL)
    library = load(text, "grammars/README.md")
    assert not library.warnings
    assert all(program.tool_steps for program in library.procedures.values())
    with pytest.raises(ProcedureError, match="without a confirmation"):
        load(re.sub("  confirm close.*\n", "", text))


SHOWN = re.findall(r"```proc\n(.*?)```\n```trace\n(.*?)```", LANGUAGE, re.DOTALL)


@pytest.mark.parametrize(("text", "trace"), SHOWN)
def test_what_the_language_reference_carries_out_comes_to_these_lines(text: str, trace: str) -> None:
    library = load(text, "grammars/README.md")
    assert not library.warnings
    program = next(one for one in library.procedures.values() if one.example is not None)
    steps, _ = reference(program, program.example_inputs or {}, program.example_decisions or {})
    lines = render.trace(program, steps, "3fa92c").splitlines()[1:-1]
    assert lines == trace.splitlines()


def test_the_language_reference_carries_out_every_construct() -> None:
    programs = [one for text, _ in SHOWN for one in load(text, "grammars/README.md").procedures.values()]
    kinds = {kind for program in programs for kind in program.step_numbers.values()}
    unrun = {StepKind.CALL, StepKind.CONFIRM, StepKind.SAY}  # they have no trace yet
    assert kinds | {StepKind.RESULT} | unrun == set(StepKind)
    assert {table.hit for program in programs for table in program.module.tables.values()} == set(Hit)


ROWS = re.findall(
    r"^\| `(.+?)` \| `(.+?)` \|$",
    LANGUAGE.partition("| call | gives |")[2].partition("\n\n")[0],
    re.MULTILINE,
)
GIVEN = """
  xs = [3, 1, 2, 1]
  ws = ["pear", "fig"]
  s = "Straße 12"
  d = 12.345
"""


@pytest.mark.parametrize(("call", "given"), ROWS)
def test_the_functions_of_the_language_reference_give_what_it_says(call: str, given: str) -> None:
    types = "xs: list of int, ws: list of string, s: string, d: decimal(3)"
    text = f"procedure p({types}) -> int\n  y = {call}\n  check {call} == y\n  return 1\nexample p{GIVEN}"
    program = load(text).procedures["p"]
    steps, _ = reference(program, program.example_inputs or {}, {})
    assert steps[0][0].cells[0].spelling == given


def test_every_function_is_in_the_language_reference() -> None:
    assert len(ROWS) > 50
    calls = {name for call, _ in ROWS for name in re.findall(r"[a-z0-9_]+(?=\()", call)}
    assert calls == set(FUNCTIONS)


def test_a_source_distribution_holds_what_its_readme_needs() -> None:
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    named = {name for line in lines if line.startswith(("include", "graft")) for name in line.split()[1:]}
    assert all((ROOT / name).exists() for name in named)
    assert {"tests", "deploy", "requirements-dev.lock", "CHANGELOG.md"} <= named
