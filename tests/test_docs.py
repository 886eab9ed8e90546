"""The documentation says what the code does: its tables have a row for everything public."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from guard.check.verdict import Kind
from guard.procedure.execute import reference
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


def test_the_procedure_of_the_language_reference_is_one() -> None:
    [text] = re.findall(r"```\n(version .*?)```", LANGUAGE, re.DOTALL)
    library = load(text, "grammars/README.md")
    assert list(library.procedures) == ["invoice"]
    assert not library.warnings


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
    assert kinds | {StepKind.RESULT} == set(StepKind)
    assert {table.hit for program in programs for table in program.module.tables.values()} == set(Hit)


def test_a_source_distribution_holds_what_its_readme_needs() -> None:
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    named = {name for line in lines if line.startswith(("include", "graft")) for name in line.split()[1:]}
    assert all((ROOT / name).exists() for name in named)
    assert {"tests", "deploy", "requirements-dev.lock", "CHANGELOG.md"} <= named
