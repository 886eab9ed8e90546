"""What the model is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.trace.prompt import EXAMPLE_LINES, closing, instructions
from tests.strategies import NONCE, Sample, samples

ORDER = """
procedure order(note: text, limit: int, name: string) -> int
  extract qty: int from note quote
  extract kind: enum("hinge", "panel") from note
  price = qty * 3
  return price + limit

example order
  note = "Dear all, please send twelve (12) hinges to Ann. Thanks!"
  limit = 4
  name = "Ann \\"B\\""
  decide qty = 12
  decide kind = "hinge"
"""


def program(text: str) -> Program:
    return next(iter(load(text).procedures.values()))


def example(text: str) -> list[str]:
    """The lines of the worked example."""
    return instructions(program(text)).partition("the lines are\n")[2].splitlines()


def test_the_instructions_hold_the_numbered_procedure_and_no_nonce() -> None:
    told = instructions(program(ORDER))
    assert program(ORDER).numbered in told
    assert "@begin" not in told
    assert "@end" not in told


def test_the_example_is_executed_and_its_quotes_show_what_was_read() -> None:
    assert example(ORDER) == [
        '1 qty = 12 <- "twelve (12) hinges"',
        '2 kind = "hinge"',
        "3 price = 12 * 3 = 36",
        "4 return 36 + 4 = 40",
    ]


def test_the_example_is_a_trace_that_passes() -> None:
    order = program(ORDER)
    frame = [f"@begin order {NONCE}", *example(ORDER), f"@end {NONCE}"]
    checker = Checker(order, order.example_inputs or {}, nonce=NONCE)
    checker.feed("".join(f"{line}\n" for line in frame))
    checker.close()
    assert checker.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("note", "kind", "value", "quote"),
    [
        ("twelve hinges", "int", "12", "twelve hinges"),  # not found: the text's beginning
        ("a 112 b 12.", "int", "12", "b 12."),
        ("12", "int", "12", "12"),
        ("net 3.50 EUR\\nnow", "decimal(2)", "3.50", "net 3.50 EUR"),
        ("It is an (old) oak panel, I said", "string", '"oak panel"', "(old) oak panel, I"),
        ('say \\"yes\\" now', "string", '"yes"', 'say "yes" now'),
        ("true or not", "bool", "true", "true or not"),
        ("on 3 May 2026, at noon", "date", "2026-05-03", "on 3 May 2026, at"),
        ("for one thousand hinges", "int", "1000", "for one thousand hinges"),
    ],
)
def test_an_example_quote_is_the_value_and_its_neighbours(
    note: str, kind: str, value: str, quote: str
) -> None:
    text = (
        f"procedure p(t: text) -> bool\n  extract v: {kind} from t quote\n  x = v == v\n  return x\n\n"
        f'example p\n  t = "{note}"\n  decide v = {value}\n'
    )
    line = example(text)[0]
    assert line.partition(" <- ")[2] == '"{}"'.format(quote.replace('"', '\\"'))


def test_an_example_has_a_quote_for_each_item_around_all_of_its_leaves() -> None:
    text = (
        "record Line { name: string, qty: int, price: decimal(2) }\n"
        "procedure p(t: text) -> int\n  extract lines: list of Line from t quote\n  return len(lines)\n\n"
        'example p\n  t = "Send 4 boxes, that is twelve hinges at 3.35 each, and 4 oak panels (61.20 apiece)."\n'
        '  decide lines = [{ name: "hinges", qty: 12, price: 3.35 }, { name: "oak panels", qty: 4, price: 61.20 }]\n'
    )
    quotes = example(text)[0].partition("]")[2]
    assert quotes == ' <- "is twelve hinges at 3.35 each" <- "and 4 oak panels (61.20 apiece"'


def test_a_procedure_without_an_example_is_told_without_one() -> None:
    told = instructions(program(ORDER.partition("example")[0]))
    assert "Example" not in told
    assert told.endswith("exactly as they stand there.")


def test_a_long_example_is_cut() -> None:
    text = (
        "procedure p(xs: list of int) -> int\n  t = 0\n  for x in xs at most 100\n    t = t + x\n  return t\n\n"
        f"example p\n  xs = [{', '.join(['1'] * 100)}]\n"
    )
    assert len(example(text)) == EXAMPLE_LINES


@pytest.mark.parametrize(
    ("body", "said", "unsaid"),
    [
        ("return a", [], ["true", "`for`", "`from`", "quotes"]),
        ('require a > 1 else deny "No."\n  return a', ["true"], ["`for`", "`from`"]),
        (
            "b = 0\n  for x in xs at most 3\n    b = b + x\n  return b + a",
            ["`2[1].1`", "`2[2].1`"],
            ["true", "`from`"],
        ),
        ('judge j: int from t asking "How?"\n  return j', ["`from`"], ["true", "quotes"]),
        ("extract j: int from t quote\n  return j", ["`from`", "quotes"], ["true", "`for`"]),
    ],
)
def test_only_rules_for_what_the_procedure_holds_are_told(
    body: str, said: list[str], unsaid: list[str]
) -> None:
    made = program(f"procedure p(a: int, xs: list of int, t: text) -> int\n  {body}\n")
    told = instructions(made).replace(made.numbered, "")
    assert all(word in told for word in said)
    assert not any(word in told for word in unsaid)


def test_the_closing_gives_the_inputs_and_ends_in_the_form_of_the_answer() -> None:
    order = program(ORDER)
    inputs = order.accept({"note": "Send\n3 panels.", "limit": 5, "name": 'A "b"\n'})
    assert closing(order, inputs, NONCE) == (
        'note = """\nSend\n3 panels.\n"""\n'
        "limit = 5\n"
        'name = "A \\"b\\"\\n"\n'
        "\n"
        "Answer in this form:\n"
        "\n"
        f"@begin order {NONCE}\n"
        "1 qty = ...\n"
        "...\n"
        f"@end {NONCE}"
    )
    shown = closing(order, inputs, NONCE, above=["note"])
    assert shown.startswith("note: the text above\nlimit = 5\n")
    assert "panels" not in shown


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("b = a\n  return b", "1 b = ..."),
        ("return a", "1 return ..."),
        ("if a > 1\n    return 1\n  return a", "1 if ..."),
        ('require a > 1 else deny "No."\n  return a', "1 require ..."),
        ("for x in xs at most 2\n    check x > 0\n  return a", "1 for x in xs = ..."),
    ],
)
def test_the_form_begins_with_the_first_line(body: str, first: str) -> None:
    made = program(f"procedure p(a: int, xs: list of int) -> int\n  {body}\n")
    told = closing(made, {"a": 1, "xs": (1,)}, NONCE)
    assert told.splitlines()[-3] == first


def test_without_inputs_the_closing_is_the_form_alone() -> None:
    told = closing(program("procedure p() -> int\n  return 1\n"), {}, NONCE)
    assert told.startswith("Answer in this form:\n\n@begin p 3fa92c\n")


@settings(max_examples=30)
@given(samples())
def test_any_procedure_can_be_told(sample: Sample) -> None:
    assert sample.program.numbered in instructions(sample.program)
    told = closing(sample.program, sample.inputs, NONCE)
    assert told.endswith(f"@end {NONCE}")
    assert told.count(f"@begin {sample.program.name} {NONCE}") == 1
