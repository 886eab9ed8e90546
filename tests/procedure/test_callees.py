"""Procedures that carry out others: how deep and how much, whose decisions, and whose identity."""

from __future__ import annotations

import pytest

from guard.errors import ProcedureError
from guard.procedure.execute import reference
from guard.procedure.expected import EndKind
from guard.procedure.load import load
from guard.procedure.model import StepKind

OUTER = """\
procedure outer(note: text, a: int) -> int
  judge sure: bool from note asking "Is it sure?"
  b = do inner(note, a + 1)
  return b

procedure inner(place: text, n: int) -> int
  judge far: bool from place asking "Is it far?"
  if far
    escalate "Too far."
  return n * 2
"""


def chain(length: int, calls: int = 1) -> str:
    """Procedures each of which carries out the next one."""
    procedures = [
        f"procedure p{index}(a: int) -> int\n"
        + f"  a{index} = do p{index + 1}(a)\n" * calls
        + f"  return a{index}\n"
        for index in range(length)
    ]
    return "\n".join([*procedures, f"procedure p{length}(a: int) -> int\n  return a\n"])


def test_decisions_of_a_sub_procedure_are_given_by_name_or_by_number() -> None:
    program = load(OUTER).procedures["outer"]
    inputs = program.accept({"note": "near", "a": 3})
    assert program.decisions == ("sure", "far")
    for key in ("far", "2.1"):
        steps, ending = reference(program, inputs, program.decide({"sure": True, key: False}))
        assert ending.value == 8
        assert [(step.path, step.kind) for step, _ in steps] == [
            ("1", StepKind.JUDGE),
            ("2", StepKind.DO),
            ("2.1", StepKind.JUDGE),
            ("2.2", StepKind.BRANCH),
            ("2.3", StepKind.RESULT),
            ("3", StepKind.RETURN),
        ]
        assert all(step.number in program.step_numbers for step, _ in steps)
    steps, ending = reference(program, inputs, program.decide({"sure": True, "far": True}))
    assert (ending.kind, ending.value, ending.path) == (EndKind.ESCALATE, "Too far.", "2.2.1")


def test_an_example_decides_for_the_sub_procedure_too() -> None:
    example = 'example outer\n  note = "x"\n  a = 1\n  decide sure = true\n'
    assert load(f"{OUTER}\n{example}  decide far = false\n").procedures["outer"].example_decisions
    with pytest.raises(ProcedureError, match=r"no decision for 'far' at step 2\.1"):
        load(f"{OUTER}\n{example}")


def test_the_identity_changes_with_the_sub_procedure_and_not_with_its_neighbours() -> None:
    digest = load(OUTER).procedures["outer"].digest
    assert load(OUTER.replace("n * 2", "n * 3")).procedures["outer"].digest != digest
    other = "\nprocedure other(a: int) -> int\n  return a\n"
    assert load(OUTER + other).procedures["outer"].digest == digest


def test_procedures_nest_up_to_a_limit() -> None:
    program = load(chain(19)).procedures["p0"]
    steps, ending = reference(program, {"a": 4}, {})
    assert ending.value == 4
    assert steps[18][0].path == ".".join(["1"] * 19)
    with pytest.raises(ProcedureError, match="procedures nest at most 20 deep"):
        load(chain(20))


def test_a_procedure_comes_to_a_limited_number_of_steps_with_all_that_it_carries_out() -> None:
    with pytest.raises(ProcedureError, match="has at most 2,000 steps"):
        load(chain(15, calls=2))


def test_exactly_carried_values_go_in_exactly_and_come_back_as_shown() -> None:
    text = """\
numbers carry exact

procedure outer(a: int) -> decimal(2)
  third = a / 3 to 2
  b = do twice(third)
  return b

procedure twice(x: decimal(2)) -> decimal(2)
  y = x * 3 to 2
  return y
"""
    program = load(text).procedures["outer"]
    steps, ending = reference(program, {"a": 1}, {})
    assert [step.cells[0].spelling for step, _ in steps] == ["0.33", "twice(0.33)", "1.00", "1.00", "1.00"]
    assert ending.value == 1
