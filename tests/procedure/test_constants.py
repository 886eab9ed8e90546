"""Named constants, in their file and in those that import it, and examples that give nothing."""

from __future__ import annotations

from fractions import Fraction

from guard.errors import ProcedureError
from guard.procedure.execute import reference
from guard.procedure.load import load

RATES = "const vat = 19%\nconst floor_price = 4.50 EUR\nunit EUR\n"


def problems(text: str, **files: str) -> list[str]:
    try:
        load(text, files={f"{name}.proc": other for name, other in files.items()})
    except ProcedureError as error:
        return [f"{problem.line}:{problem.column} {problem.message}" for problem in error.problems]
    return []


def test_a_constant_stands_for_its_value_in_the_file_and_in_those_that_import_it() -> None:
    steps = "procedure p() -> decimal(2) EUR\n  return floor_price * (1 + vat) to 2\n\nexample p\n"
    for text, files in [(RATES + steps, {}), ('import "rates.proc"\n' + steps, {"rates.proc": RATES})]:
        program = load(text, files=files).procedures["p"]
        assert "return 4.50 * (1 + 19%) to 2" in program.numbered
        [(step, value)], _ = reference(program, program.example_inputs or {}, {})
        assert (step.cells[0].working, value) == (("4.50 * (1 + 19%)",), Fraction("5.36"))


def test_the_name_of_a_constant_is_that_of_nothing_else() -> None:
    head = "const vat = 19%\n"
    taken = "'vat' is a constant and cannot name"
    assert problems(head + "procedure p(vat: int) -> int\n  return 1\n") == [f"2:13 {taken} an input"]
    assert (
        problems(head + "procedure p(a: int) -> int\n  vat = a\n  return vat\n")[0] == f"3:3 {taken} a value"
    )
    assert problems(head + head + "procedure p() -> int\n  return 1\n")[0].startswith(
        "2:7 there is a const 'vat'"
    )
    assert problems("const none = null\nprocedure p() -> int\n  return 1\n")[0].startswith(
        "1:14 a constant has"
    )


def test_an_example_of_a_procedure_that_needs_inputs_is_told_to_give_them() -> None:
    assert problems("procedure p(a: int) -> int\n  return a\n\nexample p\n") == ["4:9 the example lacks 'a'"]
