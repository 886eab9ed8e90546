"""Whatever a grammar lets a model write as a working can be read as one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from guard.dialect.tree import Chars, Choice, Literal, Node, Repeat, Rule, Sequence, Terminal
from guard.dialect.workings import MEMBER, listing, working
from guard.trace.events import RawLine
from guard.trace.parser import Parser
from guard.trace.working import same_working
from tests.dialect.gbnf_reader import Gbnf

AGAIN = 2  # repetitions of one thing; more are the same once more
SIZE = 400  # characters, from which on the shortest way is taken
WORDS = ("if", "not", "do", "true", "false", "null", "in", "then", "else", "is", "ifs", "dot", "n", "days")


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
            return drawn(options[0] if size > SIZE else random.choice(options), rules, random, size)
        case Repeat(item=item, least=least, most=most):
            more = 0 if size > SIZE or random.random() < 0.5 else random.randint(0, AGAIN)
            times = least + min(more, AGAIN if most is None else most - least)
            return "".join(drawn(item, rules, random, size) for _ in range(times))
        case Terminal(node=item):
            return drawn(item, rules, random, size)
        case Rule(name=name):
            return drawn(rules[name], rules, random, size + 40)


def reads(line: str) -> bool:
    [event] = Parser().feed(line + "\n")
    return isinstance(event, RawLine) and event.line is not None


@pytest.mark.parametrize("seed", range(8))
def test_what_may_be_written_as_a_working_can_be_read(seed: int) -> None:
    rules: dict[str, Node] = {}
    random = Random(seed)
    start = working(None, rules)
    for _ in range(60):
        text = drawn(start, rules, random)
        assert reads(f"1 x = {text} = 3"), text
