"""What authors are told of decimals, applied to the letter: the fault is gone, and no value with it."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.errors import Problem, ProcedureError
from guard.procedure.execute import reference
from guard.procedure.expected import EndKind
from guard.procedure.load import Library, load
from guard.procedure.numbers import parse_number

_STEP = re.compile(r"write (\w+ = .+? to \d+)")
_RETURN = re.compile(r"write (return .+? to \d+)")
_CALL = re.compile(r"write (round\((.+?)(?:, \d+)?\))(?:, and .*)?$")
_WIDER = re.compile(r", and (decimal\(\d+\)) for (\S+) (?:after ->|as the type of (\w+))")


def loaded(text: str) -> Library | ProcedureError:
    try:
        return load(text)
    except ProcedureError as error:
        return error


def applied(text: str, problem: Problem) -> str:
    """Do in a text what the help of a problem says, word for word."""
    lines, advice = text.split("\n"), re.split(": to |; its ", problem.help)[0]
    at, line = problem.line - 1, lines[problem.line - 1]
    if found := _STEP.match(advice):
        lines[at] = line[: line.index(found[1].partition(" ")[0])] + found[1]
    elif found := _RETURN.match(advice):
        lines[at] = line[: line.index("return")] + found[1]
    elif found := _CALL.match(advice):
        assert line[problem.column - 1 :].startswith(found[2]), problem
        lines[at] = line[: problem.column - 1] + found[1] + line[problem.column - 1 + len(found[2]) :]
    else:
        raise AssertionError(problem)
    if wider := _WIDER.search(advice):
        before, arrow, result = lines[0].partition(" -> ")
        field = f"{wider[3]}: " if wider[3] else ""
        lines[0] = before + arrow + result.replace(field + wider[2], field + wider[1])
    return "\n".join(lines)


def mended(text: str) -> str:
    """Apply the first piece of advice until there is none left."""
    for _ in range(20):
        found = loaded(text)
        problems = list(found.problems) if isinstance(found, ProcedureError) else list(found.warnings)
        if not problems:
            return text
        changed = applied(text, problems[0])
        assert changed != text, problems[0]
        text = changed
    raise AssertionError(text)


NUMBERS = {
    "a": ("decimal(2)", "253000.00"),
    "r": ("percent", "6.5%"),
    "n": ("int", "7"),
    "s": ("decimal(4)", "0.0031"),
}


@st.composite
def procedures(draw: st.DrawFn) -> str:
    """A procedure of quotients and products, with an example, whose result has too few decimals for them."""
    names = list(NUMBERS)
    lines: list[str] = []
    for index in range(draw(st.integers(0, 3))):
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from([*names, "12", "100", "0.8", "365"]))
        expression = f"{one} {draw(st.sampled_from('*/'))} {other}"
        if draw(st.booleans()):
            expression += f" {draw(st.sampled_from('+*'))} {draw(st.sampled_from('ans'))}"
        lines.append(f"x{index} = {expression}")
        names.append(f"x{index}")
    last = draw(st.sampled_from([*names, f"{names[-1]} / {draw(st.sampled_from(('3', 'n', '8')))}"]))
    kind = draw(st.sampled_from(("int", "decimal(1)", "decimal(2)", "decimal(3)", "decimal")))
    shape = draw(st.sampled_from(("plain", "plain", "record", "list", "choice")))
    result, value = {
        "plain": (kind, last),
        "record": (f"{{ got: {kind}, all: int }}", f"{{ got: {last}, all: 1 }}"),
        "list": (f"list of {kind}", f"[{last} * 1.25, 2]"),
        "choice": (kind, f"if n > 3 then {last} else 1"),
    }[shape]
    inputs = ", ".join(f"{name}: {type_}" for name, (type_, _) in NUMBERS.items())
    example = [f"{name} = {given}" for name, (_, given) in NUMBERS.items()]
    body = "".join(f"  {line}\n" for line in [*lines, f"return {value}"])
    used = "  check a > 0 and r > 0 and n > 0 and s > 0\n"
    unused = "".join(f"  check {name} != 12345\n" for name in names[len(NUMBERS) :])
    head = body.rpartition("  return")
    return (
        f"procedure p({inputs}) -> {result}\n{used}{head[0]}{unused}{head[1]}{head[2]}\n"
        f"example p\n" + "".join(f"  {line}\n" for line in example)
    )


def answers(text: str) -> list[Fraction]:
    """The numbers that the example comes to, in the order of its lines."""
    found = loaded(text)
    assert isinstance(found, Library), found
    program = found.procedures["p"]
    steps, ending = reference(program, program.example_inputs or {}, {})
    assert ending.kind is EndKind.RETURN
    values = [value for expected, value in steps if expected.target or expected.kind == "return"]
    flat: list[Fraction] = []
    while values:
        match values.pop(0):
            case int() | Fraction() as number:
                flat.append(Fraction(number))
            case tuple() as items:
                values[:0] = items
            case dict() as fields:
                values[:0] = fields.values()
            case _:
                pass
    return flat


@settings(max_examples=25)  # each is loaded several times
@given(procedures())
def test_advice_on_decimals_applied_to_the_letter_mends_the_text_and_keeps_the_values(text: str) -> None:
    kept = answers(mended(text))
    exact = answers(mended(re.sub(r"^", "numbers round half_up, carry exact\n", _open(text), count=1)))
    assert len(kept) == len(exact)
    for one, other in zip(kept, exact, strict=True):
        assert abs(one - other) <= abs(other) / 50 + Fraction(1, 10**9), (one, other, mended(text))


def _open(text: str) -> str:
    """The same with a result of as many decimals as it has."""
    return re.sub(r"(-> .*?)(int|decimal)(\(\d\))?(,|\n)", r"\1decimal(20)\4", text, count=1)


@pytest.mark.parametrize(
    ("places", "value", "warned"),
    [
        ("2", "0.0054", True),
        ("4", "0.0054", False),
        ("2 half_up", "0.0054", False),
        ("0", "0.4", True),
        ("0", "123.4", False),
        ("-2", "1240", False),
        ("2", "0.0000", False),
    ],
)
def test_a_rounding_that_loses_more_than_a_hundredth_of_the_example_is_warned_of(
    places: str, value: str, warned: bool
) -> None:
    text = f"procedure p(a: decimal(4)) -> decimal(4)\n  x = a to {places}\n  return x\n\nexample p\n  a = {value}\n"
    found = loaded(text)
    assert isinstance(found, Library)
    assert ["rounding loses" in warning.message for warning in found.warnings] == [True] * warned
    if warned:
        assert loaded(mended(text)).warnings == ()


def test_what_the_advice_of_a_mortgage_comes_to_is_the_right_rate() -> None:
    text = (
        "procedure p(loan: decimal(2), stress: percent) -> decimal(2)\n  r = stress / 12\n"
        "  q = pow(1 + r, 360, 12)\n  return loan * r * q / (q - 1) to 2\n\n"
        "example p\n  loan = 240000.00\n  stress = 6.5%\n"
    )
    assert answers(mended(text))[-1] == parse_number("1516.96")
