"""The rules of `always`: what is not reported holds on every way; without loops the reverse is true as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guard.errors import ProcedureError
from guard.procedure.load import load

HEAD = """
always confirm before writes
always find or look before writes
always no change after cancel
tool find(n: int) -> int reads
tool look(n: int) -> int reads
tool cancel(n: int) -> int writes
tool change(n: int) -> int writes
procedure p(a: int, b: int, c: bool, xs: list of int) -> int
  x = a
"""


def said(body: str, head: str = HEAD, files: dict[str, str] | None = None) -> list[str]:
    try:
        load(head + body, "p.proc", files=files)
    except ProcedureError as error:
        return [f"{problem.line}: {problem.message} | {problem.help}" for problem in error.problems]
    return []


GOOD = """
  y = call find(a)
  confirm cancel(a) with y else deny "No."
  call cancel(a)
  return x
"""


def test_a_procedure_that_keeps_the_rules_is_clean() -> None:
    assert said(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '  confirm cancel(a) with y else deny "No."\n',
            "",
            (
                "13: 'cancel' is called without a confirmation; line 2 says always confirm before writes"
                ' | write above it: confirm cancel(a) else deny "..."'
            ),
        ),
        (
            "confirm cancel(a)",
            "confirm cancel(b)",
            (
                "14: 'cancel' is confirmed in line 13 with other arguments; line 2 says always confirm before writes"
                " | write call cancel(b)"
            ),
        ),
        (
            "  call cancel(a)\n",
            "  call cancel(a)\n  call cancel(a)\n",
            (
                "15: 'cancel' is called where the confirmation of line 13 may not hold; line 2 says always confirm "
                "before writes | confirm it right above the call, once for each call, below what gives its values"
            ),
        ),
        (
            "  y = call find(a)\n",
            "  y = a\n",
            (
                "14: 'cancel' is not always called behind find or look; line 3 says always find or look before "
                "writes | call find or look in a step above that is always carried out"
            ),
        ),
        (
            "  return x",
            '  confirm change(a) else deny "No."\n  call change(a)\n  return x',
            (
                "16: 'change' may be called after cancel; line 4 says always no change after cancel"
                " | end the procedure between them, or put them into two arms of an if"
            ),
        ),
    ],
)
def test_a_mutant_that_breaks_a_rule_is_told_which_and_what_to_write(
    old: str, new: str, message: str
) -> None:
    assert old in GOOD
    assert said(GOOD.replace(old, new)) == [message]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        # found on one way only
        ("  if c\n    y = call find(a)\n  else\n    y = call look(a)\n", []),
        ("  y = 0\n  if c\n    y = call find(a)\n", [16]),
        # a way that ends needs nothing
        ("  y = call find(a)\n  if c\n    return 1\n", []),
        ('  if c\n    y = call find(a)\n  else\n    deny "No."\n', []),
    ],
)
def test_ways_meet(body: str, lines: list[int]) -> None:
    rest = '  confirm cancel(a) with y else deny "No."\n  call cancel(a)\n  return x\n'
    assert [int(one.split(":")[0]) for one in said(f"{body}{rest}")] == [
        line - 3 + body.count("\n") - 1 if line else 0 for line in lines
    ]


@pytest.mark.parametrize(
    ("inner", "wrong"),
    [
        ('confirm cancel(n) else deny "No."\n    call cancel(n)', False),
        ("call cancel(n)", True),
        ("call cancel(b)", True),  # confirmed once above, called in every pass
    ],
)
@pytest.mark.parametrize("loop", ["for n in xs at most 5", "while x < 3 at most 5"])
def test_a_write_in_a_loop_is_confirmed_inside(inner: str, wrong: bool, loop: str) -> None:
    inner = inner if loop.startswith("for") else inner.replace("n)", "x)")
    body = f"""  y = call find(a)
  confirm cancel(b) with y else deny "No."
  {loop}
    {inner}
    x = x + 1
  return x
"""
    assert bool(said(body)) is wrong


def test_calls_of_another_pass_come_before() -> None:
    body = """  y = call find(a)
  for n in xs at most 5
    if n > y
      confirm change(n) else deny "No."
      call change(n)
    else
      confirm cancel(n) else deny "No."
      call cancel(n)
  return x
"""
    [told] = said(body)
    assert "'change' may be called after cancel" in told


OTHER = """
tool find(n: int) -> int reads
tool cancel(n: int) -> int writes
tool change(n: int) -> int writes
procedure known(n: int) -> bool
  y = call find(n)
  return y > 0
procedure stop(n: int) -> int
  confirm cancel(n) else deny "No."
  y = call cancel(n)
  return y
procedure alter(n: int) -> int
  y = call change(n)
  return y
"""
IMPORTING = """
import "other.proc"
always confirm before writes
always find before writes
always no change after cancel
procedure p(a: int) -> int
"""


def test_rules_reach_into_procedures_that_are_carried_out() -> None:
    files = {"other.proc": OTHER}
    good = '  k = do known(a)\n  require k else deny "Who?"\n  s = do stop(a)\n  return s\n'
    assert said(good, IMPORTING, files) == []
    assert said("  s = do stop(a)\n  return s\n", IMPORTING, files) == [
        (
            "7: 'cancel' is not always called behind find by procedure 'stop'; line 4 says always find before "
            "writes | call find in a step above that is always carried out"
        )
    ]
    late = good.replace("  return s", "  z = do alter(a)\n  return z + s")
    told = said(late, IMPORTING, files)
    assert [one.split(";")[0] for one in told] == [
        "10: 'change' is called without a confirmation by procedure 'alter'",
        "10: 'change' may be called after cancel by procedure 'alter'",
    ]


def test_a_confirmation_outside_does_not_reach_into_another_procedure() -> None:
    body = '  k = do known(a)\n  confirm change(a) with k else deny "No."\n  z = do alter(a)\n  return z\n'
    [told] = said(body, IMPORTING, {"other.proc": OTHER})
    assert "is called without a confirmation by procedure 'alter'" in told


def test_a_confirmation_holds_past_another_procedure_but_not_a_new_value() -> None:
    good = '  k = do known(a)\n  b = a + 1\n  confirm cancel(b) else deny "No."\n  m = do known(b)\n'
    rest = "  call cancel(b)\n  check k and m\n  return b\n"
    assert said(good + rest, IMPORTING, {"other.proc": OTHER}) == []
    assert said(f"{good}  b = b + 1\n{rest}", IMPORTING, {"other.proc": OTHER}) != []


def test_imported_rules_hold_and_are_named_by_their_file() -> None:
    files = {"rules.proc": "always confirm before writes\n"}
    head = 'import "rules.proc"\ntool cancel(n: int) -> int writes\nprocedure p(a: int) -> int\n'
    [told] = said("  x = call cancel(a)\n  return x\n", head, files)
    assert "rules.proc, line 1 says always confirm before writes" in told


# --- against all ways, one by one ------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    head: str
    body: tuple[object, ...]
    other: tuple[object, ...] = ()


CALLS = st.tuples(st.just("call"), st.sampled_from(["find", "cancel", "change"]), st.sampled_from("xy"))
CONFIRMS = st.tuples(st.just("confirm"), st.sampled_from(["cancel", "change"]), st.sampled_from("xy"))
PLAIN = st.one_of(CALLS, CONFIRMS, st.sampled_from([("set", "x"), ("set", "y"), ("deny",)]))
BODIES = st.recursive(
    st.lists(PLAIN, min_size=1, max_size=4).map(tuple),
    lambda inner: st.lists(
        st.one_of(
            PLAIN,
            st.builds(Block, st.just("if"), inner, inner),
            st.builds(Block, st.sampled_from(["if", "for", "while"]), inner),
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
    max_leaves=9,
)


def lines(body: tuple[object, ...], indent: str) -> Iterator[str]:
    for step in body:
        match step:
            case ("call", tool, name):
                yield f"{indent}call {tool}({name})"
            case ("confirm", tool, name):
                yield f'{indent}confirm {tool}({name}) else deny "No."'
            case ("set", name):
                yield f"{indent}{name} = {name} + 1"
            case ("deny",):
                yield f"{indent}if c"
                yield f'{indent}  deny "No."'
            case Block("if", inner, other):
                yield f"{indent}if c"
                yield from lines(inner, f"{indent}  ")
                if other:
                    yield f"{indent}else"
                    yield from lines(other, f"{indent}  ")
            case Block(kind, inner):
                head = f"for n{len(indent)} in xs" if kind == "for" else "while x < 3"
                yield f"{indent}{head} at most 3"
                yield f"{indent}  x = x"
                yield from lines(inner, f"{indent}  ")
            case _:
                raise AssertionError(step)


def ways(body: tuple[object, ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Every way through steps as the plain steps on it; loops have up to two passes; `deny` may end one."""
    if not body:
        yield ()
        return
    step, rest = body[0], body[1:]
    if isinstance(step, Block):
        loop = step.head != "if"
        inner = [(("set", "x"), *way) if loop else way for way in ways(step.body)]
        chosen = [(), *inner, *((*a, *b) for a in inner for b in inner)] if loop else inner
        if not loop:
            chosen = [*inner, *ways(step.other)]
    else:
        assert isinstance(step, tuple)
        chosen = [(step,)]
    for one in chosen:
        for other in ways(rest):
            yield (*one, *other)


def broken(way: tuple[tuple[str, ...], ...]) -> bool:
    agreed: set[tuple[str, str]] = set()
    called: set[str] = set()
    for step in way:
        match step:
            case ("set", name):
                agreed = {one for one in agreed if one[1] != name}
            case ("confirm", tool, name):
                agreed.add((tool, name))
            case ("call", tool, name):
                if tool != "find" and ((tool, name) not in agreed or "find" not in called):
                    return True
                if tool == "change" and "cancel" in called:
                    return True
                agreed.discard((tool, name))
                called.add(tool)
            case _:
                pass
    return False


def loops(body: tuple[object, ...]) -> bool:
    blocks = [step for step in body if isinstance(step, Block)]
    return any(block.head != "if" or loops(block.body) or loops(block.other) for block in blocks)


@settings(max_examples=60, deadline=None)
@example((("call", "find", "x"), ("confirm", "cancel", "x"), Block("while", (("call", "cancel", "x"),))))
@example((("call", "find", "x"), ("confirm", "cancel", "y"), Block("for", (("call", "cancel", "y"),))))
@given(BODIES)
def test_what_is_not_reported_holds_on_every_way(body: tuple[object, ...]) -> None:
    text = "\n".join([*lines(body, "  "), "  return x + y", ""])
    reported = [one for one in said("  y = a\n" + text) if "always" in one]
    some = any(broken(way) for way in ways(body))
    assert reported or not some
    if not loops(body):
        assert some or not reported


AGREED = '  confirm cancel(a) else deny "No."\n'
ORDERED = [
    # In any order: what one member does is not known in another, and known behind the group.
    (
        "  any order\n    y = call find(a)\n    z = call look(b)\n"
        + AGREED
        + "  call cancel(a)\n  return y + z\n",
        0,
    ),
    ("  y = call find(a)\n" + AGREED + "  any order\n    call cancel(a)\n    z = b\n  return y + z\n", 0),
    (AGREED + "  any order\n    y = call find(a)\n    call cancel(a)\n  return y\n", 1),
    (
        "  y = call find(a)\n  z = 0\n" + AGREED + "  any order\n    call cancel(a)\n    if c\n"
        "      call cancel(a)\n  return y + z\n",
        2,
    ),
    (
        "  y = call find(a)\n" + AGREED + '  confirm change(b) else deny "No."\n'
        "  any order\n    call cancel(a)\n    call change(b)\n  return y\n",
        1,
    ),
    # One of several ways: any may come behind parts of the others, and one of them, or the else, in the end.
    (
        '  one of\n    try "f"\n      y = call find(a)\n      require y > 1 else next\n    try "l"\n'
        "      y = call look(a)\n" + AGREED + "  call cancel(a)\n  return y\n",
        0,
    ),
    (
        '  one of\n    try "f"\n      y = call find(a)\n      require y > 1 else next\n    try "l"\n'
        "      y = 1\n" + AGREED + "  call cancel(a)\n  return y\n",
        1,
    ),
    (
        "  y = call find(a)\n" + AGREED + '  one of\n    try "f"\n      call cancel(a)\n'
        '      require y > 1 else next\n    try "l"\n      call cancel(a)\n  return y\n',
        2,
    ),
    (
        "  y = call find(a)\n"
        + AGREED
        + '  confirm change(b) else deny "No."\n  one of at most 2\n    try "f"\n'
        '      call cancel(a)\n      require y > 1 else next\n    try "l"\n      require y > 2 else next\n'
        "  else\n    call change(b)\n  return y\n",
        2,
    ),
]


@pytest.mark.parametrize(("body", "reported"), ORDERED)
def test_groups_and_alternatives_are_followed_in_every_order(body: str, reported: int) -> None:
    messages = said(body)
    assert len(messages) == reported, messages
    assert all("says always" in message for message in messages)
