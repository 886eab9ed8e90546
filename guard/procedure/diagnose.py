"""Why a line breaks the syntax, and what to write instead.

A parser knows which word it stumbled over and which it would have taken; an author thinks in lines. So
each rule looks for one thing that people write, the first that applies speaks, and the last resort names
what was expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guard.procedure.characters import character
from guard.procedure.faults import nearest, quoted
from guard.procedure.habits import EXPRESSION_RULES, STEP_RULES
from guard.procedure.layout import CLOSERS, OPENERS, TABS, UNCLOSED, UNEVEN, UNOPENED
from guard.procedure.phrases import PHRASE_RULES
from guard.procedure.stumble import DECLARATIONS, Finding, Stumble, place
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark import Token

    from guard.procedure.stumble import Rule

_LAYOUT: Final = frozenset({"_NL", "_INDENT", "_DEDENT"})


def explain(at: Stumble) -> Finding:
    """Say what is wrong with a line at the word where reading it failed."""
    for rule in _RULES:
        found = rule(at)
        if found is not None:
            return found
    return Finding(at.span, f"expected {_expected(at)}, found {at.found}", _spelling(at))


# --- layout and characters ------------------------------------------------------------------------


def _layout(at: Stumble) -> Finding | None:
    levels = _levels(at.tokens[: at.index])
    match at.kind:
        case kind if kind == UNEVEN:
            stay = f"indent it by {levels[-1]} blanks to stay in the block above"
            return Finding(
                _line_start(at),
                "this line is indented like no block around it",
                f"{stay}, by {levels[-2]} to leave it" if len(levels) > 1 else stay,
            )
        case kind if kind == TABS:
            return Finding(at.span, "tabs and blanks are mixed in the indentation", "indent with blanks only")
        case "_INDENT":
            return Finding(
                _line_start(at),
                "this line is indented deeper than the one above, which opens no block",
                f"indent it by {levels[-1]} blanks, like the line above",
            )
        case _:
            return None


def _line_start(at: Stumble) -> Span:
    """Find the first word behind an indentation."""
    following = at.tokens[at.index + 1 :]
    return place(next((token for token in following if token.type not in _LAYOUT), at.token))


def _levels(tokens: Sequence[Token]) -> list[int]:
    levels = [0]
    for token in tokens:
        if token.type == "_INDENT":
            levels.append(len(token.value.expandtabs(8)))
        elif token.type == "_DEDENT":
            levels.pop()
    return levels


def _no_block(at: Stumble) -> Finding | None:
    if at.accepts != {"_INDENT"}:
        return None
    header = _header(at)
    kind = {"any": "any order", "one": "one of"}.get(str(header), str(header))
    below = {"table": "rows", "example": "lines", "one of": "alternatives"}.get(kind, "steps")
    return Finding(
        place(header),
        f"this {kind} has no {below} below it",
        f"indent the {below} of the {kind} by two blanks more than the {kind}",
    )


def _header(at: Stumble) -> Token:
    """Find the first word of the line above a missing block, past its label."""
    start = at.index - 1  # the line's end
    while start > 0 and at.tokens[start - 1].type not in _LAYOUT:
        start -= 1
    labelled = at.tokens[start + 1].type == "COLON" and at.tokens[start + 2].type != "_NL"
    return at.tokens[start + 2 if labelled else start]


def _bracket(at: Stumble) -> Finding | None:
    token, opener = at.token, at.open
    if token.type == UNOPENED:
        advice = "leave it out, or open its bracket before"
        return Finding(at.span, f"this {quoted(token.value)} closes nothing", advice)
    if token.type == UNCLOSED:
        opener = token
    elif opener is None or not _runs_on(at, opener):
        return None
    closer = {"(": ")", "[": "]", "{": "}"}[str(opener)]
    return Finding(
        place(opener), f"this {str(opener)!r} is not closed", f"write {closer!r} where what it holds ends"
    )


def _runs_on(at: Stumble, opener: Token) -> bool:
    """Whether the text goes on behind what a bracket holds: with another bracket, or in another line."""
    if CLOSERS[opener.type] not in at.accepts:
        return False
    if at.kind in OPENERS or at.kind == "TO":
        return True
    return at.token.line is not None and opener.line is not None and at.token.line > opener.line


def _unreadable(at: Stumble) -> Finding | None:
    if at.kind != "UNREADABLE":
        return None
    start = at.token.start_pos or 0
    number, column = at.source.position(start)
    part, message, advice = character(at.source.line(number), column - 1)
    shift = start - (column - 1)
    return Finding(Span(part.start + shift, part.end + shift), message, advice)


# --- declarations ---------------------------------------------------------------------------------


def _outside(at: Stumble) -> Finding | None:
    """Explain a line that begins no declaration, where only declarations stand."""
    if at.line or "$END" not in at.accepts:
        return None
    near = DECLARATIONS.get(str(at.token)) or nearest(at.token, DECLARATIONS)
    if near is not None and at.kind == "NAME":
        return Finding(
            at.span, f"there is no declaration {at.token.value!r}", f"did you mean {DECLARATIONS[near]!r}?"
        )
    return Finding(
        at.span,
        f"expected a declaration, found {at.found}",
        "steps stand below a procedure, indented; others are import, version, numbers, now, record, enum, "
        "const, table, tool, always, example",
    )


def _signature(at: Stumble) -> Finding | None:
    """Explain the first line of a procedure, table or tool."""
    if at.first not in ("PROCEDURE", "TABLE", "TOOL") or len(at.line) < 2:
        return None
    kind, name = str(at.line[0]), str(at.line[1])
    if "__ANON_0" in at.accepts:
        return Finding(at.span, f"a {kind} says what it gives", "write -> and a type, such as -> int")
    if at.accepts == {"LPAR"}:
        return Finding(at.span, f"a {kind} says what it takes", f"write {kind} {name}(a: int) -> int")
    if kind == "tool" and at.ends and at.before == "NAME" and at.line[-2].type != "__ANON_0":
        message = f"a tool reads or writes, found {quoted(at.line[-1])}"
        return Finding(place(at.line[-1]), message, "write reads or writes")
    if kind == "tool" and at.ends and at.before != "__ANON_0" and "_NL" not in at.accepts:
        advice = "add reads, or writes where it changes anything"
        return Finding(at.span, "a tool says what it does", advice)
    if kind == "table" and at.kind == "RPAR" and at.before == "LPAR":
        return Finding(at.span, "a table has at least one input", f"write table {name}(x: int)")
    if kind == "table" and at.ends and at.before == "COMMA" and at.open is None:
        return Finding(at.span, "a table says how a row is chosen", "write first match or unique")
    if kind == "table" and at.ends and "COMMA" in at.accepts and at.open is None:
        return Finding(
            at.span, "a table says how a row is chosen", "add , first match at the end of the line"
        )
    return None


def _row(at: Stumble) -> Finding | None:
    if "__ANON_1" not in at.accepts:
        return None
    if at.kind in ("__ANON_0", "COLON", "EQUAL"):
        return Finding(at.span, "a row's result stands behind =>", f"write => instead of {at.token}")
    if at.ends:
        return Finding(at.span, "a row has a result", "write => and the result, such as 1..9 => 5%")
    if at.kind in ("MINUS", "TO"):
        return Finding(
            at.span, "a range is written with two points", "write .. between its ends, such as 1..9"
        )
    return None


def _type(at: Stumble) -> Finding | None:
    """Explain what is wrong with a type, or lacks one."""
    last = at.line[-1] if at.line else at.token
    if at.accepts == {"OF"}:
        return Finding(at.span, "a list says of what it is", "write list of int")
    if at.kind == "NUMBER" and str(last) == "decimal":
        return Finding(at.span, "a decimal's places stand in brackets", f"write decimal({at.token})")
    if at.accepts == {"STRING"} and at.open is not None and "ENUM" in [token.type for token in at.line]:
        return Finding(at.span, "an enum's values are texts in quotes", f'write "{at.token}"')
    if at.accepts == {"COLON"} and at.open is not None and at.open.type == "LPAR":
        return Finding(at.span, "every input has a type", f"write {last}: int")
    if at.accepts == {"COLON"} and at.open is not None and at.kind != "EQUAL":
        return Finding(at.span, "every field has a type and every value a name", f"write {last}: ...")
    if {"NAME", "LIST", "LBRACE"} <= at.accepts and not at.wants_value and "NUMBER" not in at.accepts:
        return Finding(
            at.span, f"expected a type, found {at.found}", "write a type, such as int or decimal(2)"
        )
    return None


def _comma(at: Stumble) -> Finding | None:
    """Explain parts that stand side by side in brackets."""
    if at.kind == "COLON" and at.before == "NAME" and {"COMMA", "QMARK"} <= at.accepts:  # a: int b: int
        word = at.line[-1]
        return Finding(place(word), f"expected a comma before {quoted(word)}", f"write , {word}")
    if at.open is None or "COMMA" not in at.accepts or at.kind not in _PART_STARTS:
        return None
    return Finding(at.span, f"expected a comma before {at.found}", f"write , {at.token}")


_PART_STARTS: Final = frozenset(
    {"NAME", "NUMBER", "PERCENT", "DATE", "DATETIME", "STRING", "TRUE", "FALSE", "LBRACE", "LSQB"}
)


def _declaration(at: Stumble) -> Finding | None:
    """Explain what declares something in one line."""
    name = at.line[1] if len(at.line) > 1 else "name"
    match at.first:
        case "RECORD" | "ENUM" if len(at.line) == 1:
            kind = at.line[0]
            return Finding(at.span, f"{kind} is followed by the name of the type", f"write {kind} Name")
        case "RECORD" if "LBRACE" in at.accepts and "NAME" not in at.accepts:
            advice = f"write record {name} {{ name: string, qty: int }}"
            return Finding(at.span, "a record's fields stand in braces", advice)
        case "ENUM" if at.accepts == {"COLON"}:
            return Finding(at.span, "an enum's values stand behind a colon", f'write enum {name}: "a" | "b"')
        case "ENUM" if at.kind == "COMMA":
            return Finding(at.span, "an enum's values are separated by |", 'write "a" | "b"')
        case "ENUM" if at.accepts == {"STRING"}:
            return Finding(at.span, "an enum's values are texts in quotes", 'write "a" | "b"')
        case "ALWAYS":
            advice = (
                "write always confirm before writes, always find_user before writes, or always no a after b"
            )
            return Finding(at.span, f"this is no rule for calls of tools, found {at.found}", advice)
        case "IMPORT" if at.accepts == {"STRING"}:
            advice = 'write import "tables/fees.proc"'
            return Finding(at.span, "an import names a file as a text in quotes", advice)
        case "VERSION" if at.accepts == {"STRING"}:
            return Finding(at.span, "a version is a text in quotes", 'write version "1.2"')
        case "NOW":
            return Finding(at.span, "now is followed by a time zone", 'write now in "Europe/Berlin"')
        case "NUMBERS" if "COMMA" in at.accepts:
            advice = "write numbers round half_up, carry shown"
            return Finding(at.span, "number rules are separated by commas", advice)
        case "EXAMPLE" if "NAME" in at.accepts:
            advice = "write example and the name of a procedure"
            return Finding(at.span, "an example says of which procedure it is", advice)
        case _:
            return None


def _entry(at: Stumble) -> Finding | None:
    """Explain a line of an example that gives nothing a value."""
    if at.accepts == {"EQUAL"} or (at.accepts == {"EQUAL", "NAME"} and at.first == "DECIDE"):
        name = "x" if at.before == "DECIDE" else at.line[-1]
        return Finding(at.span, f"expected '=', found {at.found}", f"write {name} = and a constant")
    return None


def _colon(at: Stumble) -> Finding | None:
    """Python's colon at the end of a line that opens a block."""
    if at.kind != "COLON" or at.rest:
        return None
    return Finding(
        at.span, "a line does not end in a colon", "leave it out: indentation says what is below a line"
    )


def _unfinished(at: Stumble) -> Finding | None:
    """Explain a line that ends where a value must follow."""
    if not at.ends or not at.wants_value or not at.line:
        return None
    return Finding(
        at.span,
        f"a value should follow {quoted(at.line[-1])}, but the line ends",
        "finish it here, or put it in brackets to go on in the next line",
    )


_RULES: Final[tuple[Rule, ...]] = (
    _layout,
    _no_block,
    *PHRASE_RULES,
    _unreadable,
    _bracket,
    *EXPRESSION_RULES,
    _outside,
    _colon,
    _row,
    _type,
    *STEP_RULES,
    _signature,
    _declaration,
    _entry,
    _comma,
    _unfinished,
)


# --- the last resort ------------------------------------------------------------------------------

_SIGNS: Final = {
    "__ANON_0": "->",
    "__ANON_1": "=>",
    "__ANON_2": "..",
    "COMMA": ",",
    "COLON": ":",
    "EQUAL": "=",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "VBAR": "|",
}
_SPEAKING: Final = frozenset(
    {"THEN", "ELSE", "IN", "FROM", "WHERE", "QUOTE", "ASKING", "TO", "AT", "MOST", "OF"}
)
_MAY_END: Final = frozenset({"_NL", "RPAR", "COMMA"})  # an else there is an operation like others


def _spelling(at: Stumble) -> str:
    """`did you mean` for a word that is nearly one of those that fit."""
    if at.kind != "NAME":
        return _instead(at)
    words = [
        word.lower() for word in at.accepts if word.isalpha() and word not in ("NAME", "NUMBER", "STRING")
    ]
    near = nearest(at.token, words)
    return f"did you mean {near!r}?" if near else _instead(at)


def _instead(at: Stumble) -> str:
    first = next(_phrases(at.accepts), "")
    return f"write {first}" if first and first != "an operation" else "leave it out"


def _expected(at: Stumble) -> str:
    phrases = list(_phrases(at.accepts))
    listed = ", ".join(phrases[:-1])
    return f"{listed} or {phrases[-1]}" if listed else "".join(phrases)


def _phrases(accepts: frozenset[str]) -> Iterator[str]:
    names, numbers = "NAME" in accepts, "NUMBER" in accepts
    if names:
        yield "a value" if numbers and "LSQB" in accepts else "a name"
    elif numbers:
        yield "a number"
    if "STRING" in accepts and not names:
        yield "a text in quotes"
    if {"PLUS", "STAR"} <= accepts:
        yield "an operation"
    if not names:
        spoken = accepts & _SPEAKING - ({"ELSE"} if accepts & _MAY_END else set())
        yield from (repr(word.lower()) for word in sorted(spoken))
    brackets = {"LPAR", "LSQB", "LBRACE"} if numbers or "PLUS" in accepts else set()
    yield from (repr(sign) for type_, sign in _SIGNS.items() if type_ in accepts - brackets)
    if "_NL" in accepts or not accepts:
        yield "the end of the line"
