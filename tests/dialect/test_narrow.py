"""What a narrowed grammar writes out, what it leaves open, and where it ends."""

from __future__ import annotations

import pytest

from guard.dialect.gbnf import gbnf
from guard.dialect.lark import MAX_LINES, Level, Narrowed, lark_text, narrow
from guard.errors import InvalidState
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Expected
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace import render
from tests.dialect.readers import assert_refuses_at, assert_takes, behind, narrowed
from tests.dialect.texts import EVERYTHING, INVOICE
from tests.strategies import NONCE

CHAIN = """
procedure chain(a: int, b: int) -> int
  s1 = a + b
  copy = s1
  if s1 > 10
    s2 = s1 - 1
  else
    s2 = s1 * 2
  return s2 - a
"""
LATER = """
procedure later(note: text, xs: list of int) -> int
  extract kind: enum("a", "b") from note quote
  extract n: int from note
  fixed = 3
  for x in xs at most 5
    part = x * n
    if part > 10
      extract m: int from note
    else
      m = 1
  if kind == "a" and n > 2
    require n < 9 else deny "No."
    r = n + 1
  else
    r = -n
  return r
"""
NOTE = 'Please, 12  hinges\n"now". Thanks, Ann'


def program(text: str) -> Program:
    return next(iter(load(text).procedures.values()))


def rules(made: Narrowed) -> dict[str, str]:
    assert made.grammar is not None
    return dict(line.split(" ::= ", 1) for line in gbnf(made.grammar).splitlines())


def chain(level: Level, at: int = 0, tail: str = "") -> Narrowed:
    made = program(CHAIN)
    inputs: dict[str, Value] = {"a": 6, "b": 9}
    steps, _ = reference(made, inputs, {})
    return narrowed(made, inputs, steps, at, level=level, tail=tail)


def later(
    at: int, level: Level = Level.OPERANDS, *, stop: bool = True, kind: str = "a", n: int = 4
) -> tuple[Narrowed, str]:
    """The grammar behind some steps, and the faithful text from there on as far as it goes."""
    made = program(LATER)
    inputs: dict[str, Value] = {"note": NOTE, "xs": (2, 3)}
    steps, _ = reference(made, inputs, {"kind": kind, "n": n, "m": 7})
    grammar = narrowed(made, inputs, steps, at, level=level, stop=stop)
    return grammar, behind(made, steps, at, grammar)


# --- levels ----------------------------------------------------------------------------------------------


def test_at_level_operands_only_computed_values_are_open() -> None:
    assert rules(chain(Level.OPERANDS)) == {
        "root": "begin s1 s2 s3 s3d1 s5 end",
        "begin": r'"@begin chain 3fa92c\n"',
        "s1": r'"1 s1 = 6 + 9 = " int9 "\n"',
        "s2": r'"2 copy = 15\n"',
        "s3": r'"3 if 15 > 10 = " bool "\n"',
        "s3d1": r'"3.1 s2 = 15 - 1 = " int9 "\n"',
        "s5": r'"5 return 14 - 6 = " int9 "\n"',
        "end": r'"@end 3fa92c\n"',
        "int9": '"-"? ("0" | [1-9] [0-9]{0,8})',
        "bool": '"true" | "false"',
    }


def test_at_level_values_all_that_is_known_is_written_out() -> None:
    made = rules(chain(Level.VALUES))
    assert made["s3"] == r'"3 if 15 > 10 = true\n"'
    assert made["s5"] == r'"5 return 14 - 6 = 8\n"'
    assert set(made) == {"root", "begin", "s1", "s2", "s3", "s3d1", "s5", "end"}


def test_at_level_shape_workings_and_values_are_open() -> None:
    made = rules(chain(Level.SHAPE))
    assert made["s1"] == r'"1 s1 = " expression5 " = " int9 "\n"'
    assert made["s2"] == r'"2 copy = " int9 "\n"'
    assert made["s3"] == r'"3 if " expression5 " = " bool "\n"'


def test_at_level_none_there_is_no_grammar_but_scaffolded_lines_are_known() -> None:
    made = chain(Level.NONE, tail="1 s1 = 6 + 9 =")
    assert made.grammar is None
    assert "1" in made.given


def test_given_are_the_lines_whose_operands_the_model_does_not_choose() -> None:
    assert chain(Level.SHAPE).given == frozenset()
    assert chain(Level.OPERANDS).given == {"1", "2", "3", "3.1", "5"}
    assert chain(Level.SHAPE, tail="1 s1 = 6 + 9 =").given == {"1"}
    made, _ = later(2)
    loop = {"4[1].1", "4[1].2", "4[1].3.1", "4[2].1", "4[2].2"}
    assert made.given == {"3", *loop, "5", "5.1", "5.2", "7"}


@pytest.mark.parametrize(
    ("level", "working"),
    [
        (Level.SHAPE, "1 + 1"),
        (Level.SHAPE, "6"),
        (Level.SHAPE, "min(a, (3 - 1) * 2.50) == 5% and not x"),
        (Level.SHAPE, '"a = b" in ["x", y.z]'),
        (Level.SHAPE, "if a then -1 else sum(x for x in xs if x > 0)"),
        (Level.OPERANDS, "6 + 9"),
    ],
)
def test_a_working_may_be(level: Level, working: str) -> None:
    rest = "".join(f"{line}\n" for line in ["2 copy = 15", "3 if 15 > 10 = true", "3.1 s2 = 15 - 1 = 14"])
    assert_takes(
        chain(level, tail="1").grammar, f" s1 = {working} = 15\n{rest}5 return 14 - 6 = 8\n@end {NONCE}\n"
    )


@pytest.mark.parametrize(
    ("level", "line", "at"),
    [
        (Level.SHAPE, "1 s1 = 6 + + 9 = 15\n", 11),
        (Level.SHAPE, "1 s1 = 6 = = 15\n", 11),
        (Level.SHAPE, "1 s1 =  6 + 9 = 15\n", 7),
        (Level.SHAPE, "1 s1 = ((((((6)))))) = 15\n", 12),
        (Level.SHAPE, "1 s1 = 6 + 9\n", 12),
        (Level.SHAPE, "1 s1 = 6 + 9 = 015\n", 16),
        (Level.SHAPE, "1 s1 = 6 + 9 = 1234567890\n", 24),
        (Level.SHAPE, "1 s1 = 6 + 9 = 15.0\n", 17),
        (Level.SHAPE, "2 copy = 15\n", 0),
        (Level.OPERANDS, "1 s1 = 9 + 6 = 15\n", 7),
        (Level.OPERANDS, "1 s1 = 6 + 9 = 15 <- ", 17),
        (Level.OPERANDS, "1 s1 = 6 + 9 = 15\n3 if", 18),
        (Level.OPERANDS, f"1 s1 = 6 + 9 = 15\n@end {NONCE}", 18),
        (Level.VALUES, "1 s1 = 6 + 9 = 16\n", 16),
    ],
)
def test_a_line_may_not_be(level: Level, line: str, at: int) -> None:
    made = program(CHAIN)
    grammar = narrow(made, {"a": 6, "b": 9}, (), level=level, nonce=NONCE, stop_at_decision=True).grammar
    frame = f"@begin chain {NONCE}\n"
    assert_refuses_at(grammar, frame + line, len(frame) + at)


# --- the prefix ------------------------------------------------------------------------------------------


def test_the_frame_is_opened_only_where_nothing_has_been_said() -> None:
    assert "begin" in rules(chain(Level.OPERANDS))
    assert "begin" not in rules(chain(Level.OPERANDS, tail="1"))
    assert "begin" not in rules(chain(Level.OPERANDS, 1))


@pytest.mark.parametrize(
    ("tail", "rest"),
    [
        ("3.1", r'" s2 = 15 - 1 = " int9 "\n"'),
        ("3.1 s2 =", r'" 15 - 1 = " int9 "\n"'),
        ("3.1 s2 = 15", r'" - 1 = " int9 "\n"'),
        ("3.1 s2 = 15 - 1 =", r'" " int9 "\n"'),
        ("3.1 s2 = 15 - 1 = 14", r'"\n"'),
    ],
)
def test_the_grammar_covers_only_what_is_behind_the_prefix(tail: str, rest: str) -> None:
    for level in (Level.SHAPE, Level.OPERANDS):
        made = chain(level, 3, tail)
        shown = rules(made)["s3d1"]
        if tail in ("3.1", "3.1 s2 =") and level is Level.SHAPE:
            assert shown.endswith(r'expression5 " = " int9 "\n"')
        else:
            assert shown == rest
            assert "3.1" in made.given


def test_a_later_cell_is_scaffolded_behind_the_earlier_ones() -> None:
    made = program(INVOICE)
    inputs, decisions = made.example_inputs or {}, made.example_decisions or {}
    steps, _ = reference(made, inputs, decisions)
    tail = render.scaffold(steps[-1][0], 1)
    shown = rules(narrowed(made, inputs, steps, len(steps) - 1, level=Level.SHAPE, tail=tail))
    assert shown["s8"] == r'" " decimal9x2x2 ", \"due\": " expression5 " = " date "}\n"'


@pytest.mark.parametrize("tail", ["3.2", "3.1 s3", "3.1 s2 = 15 - 1 = 14\nmore", "3.1 s2 = 16"])
def test_a_prefix_of_another_line_is_our_own_mistake(tail: str) -> None:
    with pytest.raises(InvalidState):
        chain(Level.OPERANDS, 3, tail)


def test_behind_the_answer_only_the_end_is_left() -> None:
    made = chain(Level.OPERANDS, 5)
    assert rules(made) == {"root": "end", "end": r'"@end 3fa92c\n"'}
    assert (made.last, made.complete) == ("", True)
    assert rules(chain(Level.OPERANDS, 5, "@end")) == {"root": "end", "end": r'" 3fa92c\n"'}


# --- decisions -------------------------------------------------------------------------------------------


def test_a_grammar_ends_in_front_of_what_hangs_on_an_open_decision() -> None:
    made, text = later(0)
    assert (made.last, made.complete) == ("4", False), (
        "how many items there are is known, what they give is not"
    )
    assert text.splitlines()[1:] == [
        '1 kind = "a" <- "Please, 12 hinges \\"now\\". Thanks, Ann"',
        "2 n = 4",
        "3 fixed = 3",
        "4 for x in xs = 2",
    ]
    assert_takes(made.grammar, text)


def test_what_is_decided_is_open_by_its_type_only() -> None:
    made, text = later(0, Level.VALUES)
    start = text[: text.index('1 kind = "') + 10]
    assert_refuses_at(made.grammar, f"{start}c", len(start))
    for value in ("-3", "0", "123456789"):
        assert_takes(made.grammar, text.replace("2 n = 4", f"2 n = {value}"))


def test_a_quote_is_words_of_its_source_in_their_order() -> None:
    made, text = later(0)
    whole = '"Please, 12 hinges \\"now\\". Thanks, Ann"'
    for quote in ('"Please"', '"12 hinges"', '"hinges \\"now"', '". Thanks"', '"Ann"', '"\\""', whole):
        assert_takes(made.grammar, text.replace(whole, quote))
    start = text.index(whole)
    for quote, at in {
        '"13': 2,
        '"Ann ': 4,
        '"Please 12': 7,
        '"12  hinges': 4,
        '"hinges now': 8,
        '""': 1,
    }.items():
        assert_refuses_at(made.grammar, text[:start] + quote, start + at)
    free, _ = later(0, Level.SHAPE)
    assert_takes(free.grammar, text.replace(whole, '"thirteen"'))


def test_decisions_from_the_same_source_share_its_words() -> None:
    made, _ = later(0)
    assert made.grammar is not None
    words = 11  # marks are words of their own; the first has the rule that begins a quote
    assert len([name for name in made.grammar.rules if name.startswith("q")]) == words


def test_a_long_source_is_quoted_freely() -> None:
    made = program("procedure p(t: text) -> int\n  extract n: int from t quote\n  return n\n")
    grammar = narrow(
        made,
        {"t": "word " * 601},
        (),
        level=Level.OPERANDS,
        nonce=NONCE,
        stop_at_decision=True,
        prefix_tail="1",
    ).grammar
    assert_takes(grammar, ' n = 1 <- "anything at all"\n')
    assert_refuses_at(grammar, ' n = 1 <- ""', 11)


def test_a_quote_that_is_not_asked_for_may_be_given_or_left_out() -> None:
    made, text = later(0)
    assert_takes(made.grammar, text.replace("2 n = 4", '2 n = 4 <- "12"'))
    assert_refuses_at(
        made.grammar, text.replace("2 n = 4", '2 n = 4 <- "12" <- "12"'), text.index("3 fixed") + 7
    )


def test_lists_are_bounded_by_the_loop_over_them() -> None:
    made = program(EVERYTHING)
    inputs = made.example_inputs or {}
    item = '{"name": "", "qty": 2, "price": 3.35}'
    grammar = narrowed(made, inputs, (), 0, tail="1").grammar
    three = f" item_lines = [{item}, {item}, {item}"
    assert_refuses_at(grammar, f'{three}] <- "x', len(three) + 6)
    assert_refuses_at(grammar, f"{three}, {item}", len(three))


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize(("kind", "n"), [("a", 4), ("a", 12), ("b", 4), ("a", -1)])
def test_where_the_model_cannot_be_asked_again_the_rest_is_open(
    level: Level, at: int, kind: str, n: int
) -> None:
    made, text = later(at, level, stop=False, kind=kind, n=n)
    assert made.complete
    assert text.endswith(f"@end {NONCE}\n")
    assert_takes(made.grammar, text)


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS])
@pytest.mark.parametrize("n", ["-3.345", "2.50", "7.00"])
@pytest.mark.parametrize("name", ["Ann", "A name that is so long that it stands by name only"])
def test_holes_take_every_form_that_a_value_may_have(level: Level, n: str, name: str) -> None:
    made = program(
        "procedure p(t: text) -> decimal(1)\n  extract n: decimal(3) from t\n  extract s: string from t\n"
        '  rounded = n to 1\n  same = s == "Ann"\n  x = -n - (-n) to 1\n  p = rounded * 5% to 1\n'
        "  q = min(n, 0.5) + (if same then n else p) to 1\n  return rounded + x + p + q\n"
    )
    inputs: dict[str, Value] = {"t": ""}
    steps, _ = reference(made, inputs, made.decide({"n": n, "s": name}))
    grammar = narrowed(made, inputs, steps, 0, level=level, stop=False)
    assert_takes(grammar.grammar, behind(made, steps, 0, grammar))


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS])
def test_numbers_may_be_as_long_as_they_are(level: Level) -> None:
    made = program(
        "procedure p(a: int, d: decimal(12), r: percent) -> bool\n  b = a * a\n  e = d * d\n  s = r * 1\n"
        "  u = r\n  v = -r\n  return b > 0 and e > 0 and s > 0 and u > v\n"
    )
    inputs = made.accept({"a": 123456789012345, "d": "0.123456789012", "r": "0.12345678901234"})
    steps, _ = reference(made, inputs, {})
    for at in range(len(steps)):
        grammar = narrowed(made, inputs, steps, at, level=level)
        assert_takes(grammar.grammar, behind(made, steps, at, grammar))


def test_open_steps_come_in_their_order() -> None:
    made, text = later(0, stop=False)
    loop = text.index("4[1].2 if")
    assert_refuses_at(made.grammar, text[:loop] + "5 if", loop)
    branch = text.index("5.1 require")
    assert_refuses_at(made.grammar, text[:branch] + "7 return", branch)
    end = text.index("@end")
    assert_refuses_at(made.grammar, text[:end] + "7 return", end)


def test_the_arm_that_is_open_goes_with_its_condition() -> None:
    made, text = later(0, stop=False)
    second = text.index("4[1].2 if") + len("4[1].2 if 8 > 10 = false\n")
    assert text[:second].endswith("= false\n")
    assert_refuses_at(made.grammar, text[:second] + "4[1].2.1 m", second + 5)


def test_a_grammar_never_has_more_lines_than_its_cap() -> None:
    made = program(
        "procedure p(xs: list of int) -> int\n  t = 0\n  for x in xs at most 500\n    t = t + x\n  return t\n"
    )
    inputs: dict[str, Value] = {"xs": (1,) * 450}
    steps, _ = reference(made, inputs, {})
    first = narrowed(made, inputs, steps, 0)
    assert (first.last, first.complete) == (f"2[{MAX_LINES - 2}].1", False)
    assert_takes(first.grammar, behind(made, steps, 0, first))
    second = narrowed(made, inputs, steps, MAX_LINES)
    assert second.complete
    assert_takes(second.grammar, behind(made, steps, MAX_LINES, second))


@pytest.mark.parametrize("body", ["t = t + x", "if x > 0\n      t = t + x", "check x > 0\n    t = t + x"])
def test_behind_the_cap_the_rest_is_open_where_the_model_cannot_be_asked_again(body: str) -> None:
    made = program(
        f"procedure p(xs: list of int) -> int\n  t = 0\n  for x in xs at most 500\n    {body}\n  return t\n"
    )
    inputs: dict[str, Value] = {"xs": (1,) * 450}
    steps, _ = reference(made, inputs, {})
    for at in (0, 1, 2, 3):
        grammar = narrowed(made, inputs, steps, at, stop=False)
        assert grammar.grammar is not None
        assert len(grammar.grammar.rules) < MAX_LINES + 60
        assert_takes(grammar.grammar, behind(made, steps, at, grammar))


def test_a_procedure_that_cannot_go_on_leaves_nothing_to_write() -> None:
    made = program("procedure p(a: int) -> int\n  b = a + 1\n  check b > 5\n  return b\n")
    first = narrow(made, {"a": 1}, (), level=Level.OPERANDS, nonce=NONCE, stop_at_decision=True)
    assert (first.last, first.complete) == ("1", False)
    then = narrow(made, {"a": 1}, (2,), level=Level.OPERANDS, nonce=NONCE, stop_at_decision=True)
    assert (then.grammar, then.last, then.complete) == (None, "", False)


# --- literals --------------------------------------------------------------------------------------------


def faithful(text: str) -> tuple[Program, dict[str, Value], list[tuple[Expected, Value]]]:
    made = program(text)
    inputs, decisions = made.example_inputs or {}, made.example_decisions or {}
    return made, inputs, reference(made, inputs, decisions)[0]


@pytest.mark.parametrize("text", [EVERYTHING, INVOICE])
@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("stop", [True, False])
def test_every_construct_is_covered_from_every_step_on(text: str, level: Level, stop: bool) -> None:
    made, inputs, steps = faithful(text)
    for at in range(len(steps)):
        grammar = narrowed(made, inputs, steps, at, level=level, stop=stop, tail=steps[at][0].path)
        assert_takes(grammar.grammar, behind(made, steps, at, grammar, steps[at][0].path))


def test_lark_keeps_to_the_notation_that_all_its_readers_share() -> None:
    made, inputs, steps = faithful(EVERYTHING)
    for level in (Level.SHAPE, Level.OPERANDS):
        for stop in (True, False):
            grammar = narrowed(made, inputs, steps, 0, level=level, stop=stop).grammar
            assert grammar is not None
            text = lark_text(grammar)
            assert text.startswith("start: ")
