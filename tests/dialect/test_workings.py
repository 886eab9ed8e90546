"""Whatever a grammar lets a model write as a working can be read as one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from guard.dialect.tree import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
    Terminal,
    sequence,
)
from guard.dialect.workings import listing, working
from guard.trace.events import Line, TooLong, Unreadable
from guard.trace.parser import Parser
from tests.dialect.readers import under_gbnf

AGAIN = 2  # repetitions of one thing; more are the same once more
TWICE = "expected another field's name"
SIZE = 300  # characters, from which on the shortest way is taken


def drawn(node: Node, rules: Mapping[str, Node], random: Random, size: int = 0) -> str:
    """Something that a node allows; short, where there is much already."""
    match node:
        case Literal(text=text):
            return text
        case Chars(negated=True):
            return random.choice("aé 0")
        case Chars(ranges=ranges):
            low, high = random.choice(ranges)
            return chr(random.randint(ord(low), ord(high)))
        case Sequence(parts=parts):
            text = ""
            for part in parts:
                text += drawn(part, rules, random, size + len(text))
            return text
        case Choice(options=options):
            return drawn(options[-1] if size > SIZE else random.choice(options), rules, random, size)
        case Repeat(item=item, least=least, most=most):
            more = 0 if size > SIZE or random.random() < 0.5 else random.randint(0, AGAIN)
            times = least + min(more, AGAIN if most is None else most - least)
            return "".join(drawn(item, rules, random, size) for _ in range(times))
        case Terminal(node=item):
            return drawn(item, rules, random, size)
        case Rule(name=name):
            return drawn(rules[name], rules, random, size + 40)


def unread(line: str) -> str:
    """Why a line cannot be read; "" where it can, or is too long for that."""
    [event] = Parser().feed(line + "\n")
    assert isinstance(event, Line | TooLong | Unreadable)
    return event.why if isinstance(event, Unreadable) else ""


@pytest.mark.parametrize("seed", range(6))
def test_what_may_be_written_as_a_working_can_be_read(seed: int) -> None:
    rules: dict[str, Node] = {}
    random = Random(seed)
    start = working(None, rules)
    for _ in range(80):
        text = drawn(start, rules, random)
        assert not unread(f"1 x = {text} = 3"), text
        assert not unread(f"1 if {text} = true"), text


@pytest.mark.parametrize("seed", range(3))
def test_what_may_be_written_as_a_list_with_workings_can_be_read(seed: int) -> None:
    rules: dict[str, Node] = {}
    random = Random(seed)
    start = listing(rules)
    for _ in range(60):
        text = drawn(start, rules, random)
        # No grammar of this kind can keep a record of any fields from having one of them twice.
        assert unread(f"1 return {text}")[: len(TWICE)] in {"", TWICE}, text


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("1 < 2", True),
        ("1 < 2 < 3", False),
        ("not a and b or 3 == 4", True),
        ("1 == not 2", False),
        ("x + 2 days", True),
        ("x * 2 days", False),
        ("x and 2.2 seconds", False),
        ("a is null", True),
        ("a is null is null", False),
        ("07", False),
        ("10.07 else 0", True),
        ("if + 1", False),
        ("do", False),
        ("done + iffy * knot", True),
        ("null", True),
        ("null(1)", False),
        ("max(1, null)", True),
        ("sum(x.y for x in f(xs) if not x.z)", True),
        ("sum(x for x in a else b)", False),
        ("max([1 = 2])", False),
    ],
)
def test_a_working_keeps_to_the_order_of_operators(text: str, may: bool) -> None:
    rules: dict[str, Node] = {}
    grammar = Grammar(sequence(working(None, rules), Literal(" = 3\n")), rules)
    assert under_gbnf(grammar, f"{text} = 3\n")[1] == may
    assert bool(unread(f"1 x = {text} = 3")) != may
