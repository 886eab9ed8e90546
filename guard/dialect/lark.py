"""The trace's grammar narrowed to one procedure, its inputs and what has been decided so far.

`narrow` carries the procedure out up to the first line that hangs on a value nobody has decided yet and
writes down what may stand in each line; `lark_text` writes that in Lark's notation. Literals are, byte
for byte, what `trace.render` writes.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Sequence as Listing
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, assert_never

from guard.dialect.arrange import Place, Placed, arranged, opened
from guard.dialect.line import Level, line, rule_name
from guard.dialect.outline import outline
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
    has_rule,
    nullable,
    sequence,
)
from guard.dialect.workings import shared
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected, Pick, Unknown
from guard.procedure.groups import around
from guard.procedure.model import StepKind
from guard.procedure.types import Value

__all__ = ["Level", "Narrowed", "lark_text", "narrow"]

MAX_LINES: Final = 400  # written out; the rest is for another generation, or open where there is none

_CONDITIONS: Final = frozenset(
    {StepKind.BRANCH, StepKind.WHILE, StepKind.CHOICE, StepKind.REQUIRE, StepKind.CHECK}
)


Observed = Listing[Value | Unknown | Pick | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What a generation may write behind its prefix.

    `grammar` is None at level `none` and where there is nothing to write. `given` are the paths of the
    lines whose operands stand in the grammar or in the prefix. `last` is the path of the last step
    that the grammar covers, "" where it covers none; `complete` says that it goes on to `@end`. A
    generation that is not complete ends by itself behind `last`, to be opened again. `capped` says that one
    that is goes on behind `MAX_LINES` lines open in shape, though more is known.
    """

    grammar: Grammar | None
    given: frozenset[str]
    last: str
    complete: bool
    capped: bool = False


def narrow(
    program: Program,
    inputs: Mapping[str, Value],
    observed: Observed,
    *,
    level: Level,
    nonce: str,
    stop_at_decision: bool,
    prefix_tail: str = "",
) -> Narrowed:
    """Narrow the grammar to what is left of a trace.

    `observed` has one entry for each verified step, in order: its value (only those of decided steps
    matter), with the picks in between. `prefix_tail` is what the assistant has said already of the line
    that is due: "" (also: nothing at all), its path, or more of it. With `stop_at_decision` the grammar
    ends in front of the first line that hangs on a value which is still to be decided, or behind
    `MAX_LINES`; else it goes on to `@end`, open from there on.

    Raises InvalidState where `prefix_tail` is no beginning of the line that is due.
    """
    begun: set[Place] = set()  # members of groups of which some step is there
    steps, ending = _ahead(program, inputs, observed, begun, stop=stop_at_decision)
    complete = ending is not None and ending.kind is not EndKind.FAILED
    undetermined = ending is not None and ending.kind is EndKind.UNDETERMINED
    placed: Listing[Placed] = [
        Placed(Rule(rule_name(step.path)), around(step.path, program.members)) for step in steps
    ]
    done = frozenset(begun)
    begun |= set(placed[0].around) if placed and prefix_tail else set()
    # What follows a line of a group is as open as the order in which its members come.
    placed, free = opened(placed, begun) if undetermined else (placed, None)
    # Where a condition comes last, its value and what follows from it go together.
    fork = steps[-1] if undetermined and free is None and steps[-1].kind in _CONDITIONS else None
    lines: dict[str, Node] = {}
    rules: dict[str, Node] = {}
    given: set[str] = set()
    start: list[Node] = []
    if not any(not isinstance(value, Pick) for value in observed) and not prefix_tail:
        lines["begin"] = Literal(f"@begin {program.name} {nonce}\n")
        start.append(Rule("begin"))
    for step in steps[: len(steps) - (free.untold if free is not None else 0)]:
        written = line(step, level, prefix_tail, valued=step is not fork, rules=rules)
        prefix_tail = ""
        lines[rule_name(step.path)] = written.node
        given |= {step.path} if written.given else set()
    start.append(arranged(placed, begun, last=not complete))
    if undetermined:
        done |= {place for line_ in placed for place in line_.around}
        lines["rest"] = outline(program, steps[-1].path, rules, done, free)
        rules["end"] = Literal(f"@end {nonce}\n")
        start.append(Rule("rest"))
    elif complete:
        lines["end"] = Literal(f"@end {nonce}\n".removeprefix(prefix_tail))
        start.append(Rule("end"))
    forced = level is not Level.NONE and (complete or bool(steps))
    return Narrowed(
        grammar=Grammar(sequence(*start), {**lines, **rules}) if forced else None,
        given=frozenset(given),
        last=steps[-1].path if steps else "",
        complete=complete,
        capped=undetermined and len(steps) == MAX_LINES,
    )


def _ahead(
    program: Program,
    inputs: Mapping[str, Value],
    observed: Observed,
    begun: set[Place],
    *,
    stop: bool,
) -> tuple[list[Expected], Ending | None]:
    """Give the steps that a grammar can cover, and the ending if they reach it; note what has `begun`."""
    due = _due(program, inputs, observed, begun)
    steps: list[Expected] = []
    while True:
        try:
            step = next(due)
        except StopIteration as end:
            ending: Ending = end.value
            # Of the steps so far only a choice, which is the model's to decide, may leave open what comes.
            return steps, None if stop and ending.kind is EndKind.UNDETERMINED else ending
        if len(steps) == MAX_LINES:
            return steps, None if stop else Ending(EndKind.UNDETERMINED, path=step.path)
        if stop and step.decision is None and not step.known:
            return steps, None
        steps.append(step)


def _due(
    program: Program, inputs: Mapping[str, Value], observed: Observed, begun: set[Place]
) -> Generator[Expected, None, Ending]:
    """Give the steps behind the observed ones, as far as they are determined."""
    execution = program.execute(inputs)
    try:
        step = next(execution)
        for value in observed:
            if isinstance(value, Pick):
                step = execution.send(value)
                continue
            begun.update(around(step.path, program.members))
            step = execution.send(value if step.decision is not None else None)
        while True:
            yield step
            step = execution.send(UNKNOWN if step.decision is not None else None)
    except StopIteration as end:
        ending: Ending = end.value
        return ending


# --- Lark's notation -----------------------------------------------------------------------------

_STRING_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
# What has to be escaped, so that the engines of Rust, RE2, ECMAScript and Python all read the same: in the
# text of an expression, and in its classes, where two of `&`, `~` or `-` are operators to some. To XGrammar a
# `^` that comes first is one, however it is written, and all hexadecimal digits behind `\x` belong to it.
_REGEX_SPECIAL = {char: f"\\{char}" for char in "\\^$.|?*+()[]{}/"}
_CLASS_SPECIAL = {
    **{char: f"\\{char}" for char in "\\[]/|-"},
    **{char: f"\\x{ord(char):02x}" for char in "^&~"},
}
# An old reader takes a text for EBNF by this sign; it never stands in ours.
_DEFINES = "::="
_HEXADECIMAL = re.compile(r"(\\x[0-9a-f]{2})([0-9A-Fa-f])")


def lark_text(grammar: Grammar) -> str:
    """Write a grammar in the subset that all readers of Lark's notation share; its start rule is `start`.

    Whatever holds no rule is one regular expression, which ends where a line ends wherever it holds a
    free text: readers that take the longest match cannot run past it.
    """
    rules = {"start": grammar.start, **grammar.rules}
    return "".join(
        f"{name}: {_shared(name) if node is shared(name) else _alternatives(node)}\n"
        for name, node in rules.items()
    )


@cache
def _shared(name: str) -> str:
    """Write a rule that is the same in every grammar."""
    node = shared(name)
    assert node is not None
    return _alternatives(node)


def _alternatives(node: Node) -> str:
    match node:
        case Choice(options=options) if has_rule(node):
            return "\n  | ".join(_items(option) for option in options)
        case _:
            return _items(node)


def _items(node: Node) -> str:
    match node:
        case Sequence(parts=parts) if has_rule(node):
            return " ".join(_item(part) for part in _grouped(parts))
        case _:
            return _item(node)


def _grouped(parts: tuple[Node, ...]) -> Iterator[Node]:
    """Make one of neighbours that hold no rule, but none that could be empty: no lexer likes those."""
    plain: list[Node] = []
    for part in (*parts, None):
        if part is not None and not has_rule(part):
            plain.append(part)
            continue
        if all(map(nullable, plain)):
            yield from plain
        else:
            yield sequence(*plain)
        plain = []
        if part is not None:
            yield part


def _item(node: Node) -> str:
    if not has_rule(node) and not nullable(node):
        return _terminal(node)
    match node:
        case Rule(name=name):
            return name
        case Repeat(item=item, least=least, most=most):
            return f"({_alternatives(item)}){_times(least, most, '~')}"
        case Sequence() | Choice():
            return f"({_alternatives(node)})"
        case Terminal(node=item):
            return _item(item)
        case Literal() | Chars():
            return _terminal(node)
        case _:
            assert_never(node)


def _terminal(node: Node) -> str:
    match node:
        case Literal(text=text):
            written = text.translate(_IN_STRING)
            return f'"{written.replace(_DEFINES, "::" + chr(92) + "u003d")}"'
        case _:
            return f"/{regex_text(node)}/"


def regex_text(node: Node) -> str:
    """Write a node without rules as a regular expression, in what all engines share."""
    match node:
        case Literal(text=text):
            written = text.translate(_IN_REGEX).replace(_DEFINES, "::\\x3d")
            return _HEXADECIMAL.sub(r"\1[\2]", written)
        case Chars(ranges=ranges, negated=negated):
            if ranges == (("^", "^"),) and not negated:
                return "\\^"
            # Those with a hexadecimal number stand last, where no digit follows, and `^` behind them.
            inner = "".join(sorted((_class_range(low, high) for low, high in ranges), key=_late))
            return f"[{'^' if negated else ''}{inner}]"
        case Sequence(parts=parts):
            return "".join(
                f"({regex_text(part)})" if isinstance(part, Choice) else regex_text(part) for part in parts
            )
        case Choice(options=options):
            return "|".join(map(regex_text, options))
        case Repeat(item=Chars() as item, least=least, most=most):
            return regex_text(item) + _times(least, most, "")
        case Repeat(item=item, least=least, most=most):
            return f"({regex_text(item)}){_times(least, most, '')}"
        case Terminal():
            return _in_brackets(node)
        case Rule():
            raise AssertionError(node)
        case _:
            assert_never(node)


@lru_cache(maxsize=1024)
def _in_brackets(terminal: Terminal) -> str:
    return f"({regex_text(terminal.node)})"


def _class_range(low: str, high: str) -> str:
    start = _escape(low, _CLASS_SPECIAL)
    return start if low == high else f"{start}-{_escape(high, _CLASS_SPECIAL)}"


def _late(written: str) -> tuple[bool, bool]:
    return "\\x" in written, written.startswith("\\x5e")


def _escape(char: str, special: Mapping[str, str]) -> str:
    """Write a character in a regular expression. Beyond ASCII no escape is common to all."""
    if char in "\n\r\t":
        return _STRING_ESCAPES[char]
    if char in special:
        return special[char]
    return f"\\x{ord(char):02x}" if char < " " or char == "\x7f" else char


def _in_string(char: str) -> str:
    if char in _STRING_ESCAPES:
        return _STRING_ESCAPES[char]
    return f"\\u{ord(char):04x}" if char < " " or char == "\x7f" else char


_CONTROLS = (*map(chr, range(0x20)), "\x7f")
_IN_REGEX = str.maketrans({char: _escape(char, _REGEX_SPECIAL) for char in (*_CONTROLS, *_REGEX_SPECIAL)})
_IN_STRING = str.maketrans({char: _in_string(char) for char in (*_CONTROLS, *_STRING_ESCAPES)})


def _times(least: int, most: int | None, lark: str) -> str:
    match least, most:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _ if lark:
            return f"~{least}..{most}" if least != most else f"~{least}"
        case _:
            return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
