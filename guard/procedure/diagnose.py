"""Why a line breaks the syntax, and what to write instead.

A parser knows which word it stumbled over and which it would have taken; an author thinks in lines. So
each rule here looks for one thing that people write, the first that applies speaks, and the last resort
names what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lark import Token

from guard.procedure.characters import character
from guard.procedure.faults import nearest, quoted
from guard.procedure.layout import CLOSERS, TABS, UNCLOSED, UNEVEN, UNOPENED
from guard.source import Source, Span

# What begins a declaration, and what people begin one with who think of another language.
DECLARATIONS: Final = {
    "version": "version",
    "numbers": "numbers",
    "record": "record",
    "enum": "enum",
    "table": "table",
    "procedure": "procedure",
    "example": "example",
    "def": "procedure",
    "fn": "procedure",
    "func": "procedure",
    "function": "procedure",
    "proc": "procedure",
    "class": "record",
    "struct": "record",
    "type": "record",
}
RESERVED: Final = frozenset(
    "EXTRACT JUDGE IF ELIF ELSE FOR IN REQUIRE CHECK RETURN DENY THEN OR AND NOT DIV MOD TRUE FALSE".split()
)
_LAYOUT: Final = frozenset({"_NL", "_INDENT", "_DEDENT", "$END"})
_OPENERS: Final = {closer: opener for opener, closer in CLOSERS.items()}
_SPELT: Final = {
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
    "DOT": ".",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and how to mend it."""

    span: Span
    message: str
    help: str = ""


@dataclass(frozen=True)
class Fault:
    """A word that fits nowhere: the text's words, which one of them, and what would have fitted."""

    source: Source
    tokens: Sequence[Token]
    index: int
    accepts: frozenset[str]

    @cached_property
    def token(self) -> Token:
        """The word itself; behind the last one there is an empty one."""
        if self.index < len(self.tokens):
            return self.tokens[self.index]
        end = len(self.source.text)
        return Token("$END", "", end, end_pos=end)

    @cached_property
    def line(self) -> Sequence[Token]:
        """The words of its line before it."""
        start = self.index
        while start > 0 and self.tokens[start - 1].type not in _LAYOUT:
            start -= 1
        return self.tokens[start : self.index]

    @cached_property
    def rest(self) -> Sequence[Token]:
        """The words of its line behind it."""
        end = self.index + 1
        while end < len(self.tokens) and self.tokens[end].type not in _LAYOUT:
            end += 1
        return self.tokens[self.index + 1 : end]

    @property
    def first(self) -> str:
        """The type of the line's first word."""
        return self.line[0].type if self.line else self.token.type

    @property
    def before(self) -> str:
        """The type of the word before it in the line."""
        return self.line[-1].type if self.line else ""

    @property
    def after(self) -> str:
        """The type of the word behind it in the line."""
        return self.rest[0].type if self.rest else "_NL"

    @property
    def ends(self) -> bool:
        """Whether it is the end of the line that comes too early."""
        return self.token.type in _LAYOUT

    @property
    def wants_value(self) -> bool:
        """Whether an expression should begin here."""
        return {"NUMBER", "LSQB", "NAME"} <= self.accepts

    @property
    def span(self) -> Span:
        """The word's place; for the end of a line, the place right behind its last word."""
        if self.ends and self.line:
            end = self.line[-1].end_pos or 0
            return Span(end, end + 1)
        return _place(self.token)

    @cached_property
    def open(self) -> Token | None:
        """The innermost bracket that is open here."""
        stack: list[Token] = []
        for token in self.line:
            if token.type in CLOSERS:
                stack.append(token)
            elif token.type in _OPENERS and stack:
                stack.pop()
        return stack[-1] if stack else None

    def text(self, start: int, end: int) -> str:
        """The source between two offsets on one line, cut."""
        return " ".join(self.source.text[start:end].split())


Rule = Callable[[Fault], Finding | None]


def context(accepts: frozenset[str]) -> str:
    """Which kind of line may begin where these words are taken."""
    if "$END" in accepts:
        return "file"
    if "EXTRACT" in accepts:
        return "statement"
    if "COMPARE" in accepts and "PERCENT" in accepts:
        return "row"
    if "WHERE" in accepts and "NAME" not in accepts:
        return "clause"
    return "entry" if "DECIDE" in accepts else ""


def explain(fault: Fault) -> Finding:
    """Say what is wrong with a line at the word where reading it failed."""
    for rule in _RULES:
        found = rule(fault)
        if found is not None:
            return found
    return Finding(fault.span, f"expected {_expected(fault)}, found {_found(fault)}", _spelling(fault))


def _place(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


def _words(fault: Fault) -> str:
    return str(fault.line[0]) if fault.line else str(fault.token)


# --- layout and characters -----------------------------------------------------------------------


def _layout(fault: Fault) -> Finding | None:
    match fault.token.type:
        case kind if kind == UNEVEN:
            levels = _levels(fault.tokens[: fault.index])
            outer, inner = levels[-2], levels[-1]
            return Finding(
                _line_start(fault),
                "this line is indented like no block around it",
                f"indent it by {inner} blanks to stay in the block above, or by {outer} to leave it",
            )
        case kind if kind == TABS:
            return Finding(
                fault.span, "tabs and blanks are mixed in the indentation", "indent with blanks only"
            )
        case "_INDENT":
            return Finding(
                _line_start(fault),
                "this line is indented deeper than the one above, which opens no block",
                f"indent it by {_levels(fault.tokens[: fault.index])[-1]} blanks, like the line above",
            )
    return None


def _line_start(fault: Fault) -> Span:
    """The first word behind an indentation."""
    following = fault.tokens[fault.index + 1 :]
    word = next((token for token in following if token.type not in _LAYOUT), fault.token)
    return _place(word)


def _levels(tokens: Sequence[Token]) -> list[int]:
    levels = [0]
    for token in tokens:
        if token.type == "_INDENT":
            levels.append(len(token.value.expandtabs(8)))
        elif token.type == "_DEDENT":
            levels.pop()
    return levels


def _no_block(fault: Fault) -> Finding | None:
    if fault.accepts != {"_INDENT"}:
        return None
    header = _header(fault)
    kind = str(header)
    below = {"table": "rows", "example": "lines"}.get(kind, "steps")
    return Finding(
        _place(header),
        f"this {kind} has no {below} below it",
        f"indent the {below} of the {kind} by two blanks more than the {kind}",
    )


def _header(fault: Fault) -> Token:
    """The first word of the line above a missing block, past its label."""
    start = fault.index - 1  # the line's end
    while start > 0 and fault.tokens[start - 1].type not in _LAYOUT:
        start -= 1
    labelled = fault.tokens[start + 1].type == "COLON" and fault.tokens[start + 2].type != "_NL"
    return fault.tokens[start + 2 if labelled else start]


def _brackets(fault: Fault) -> Finding | None:
    token, opener = fault.token, fault.open
    if token.type == UNOPENED:
        return Finding(
            fault.span, f"this {quoted(token.value)} closes nothing", "leave it out, or open its bracket"
        )
    if token.type == UNCLOSED:
        opener = token
    elif opener is None:
        return None
    elif token.type in _OPENERS:
        if token.type == CLOSERS[opener.type] or CLOSERS[opener.type] not in fault.accepts:
            return None
    elif token.line is None or opener.line is None or token.line <= opener.line or fault.wants_value:
        return None
    closer = {"(": ")", "[": "]", "{": "}"}[opener.value]
    return Finding(
        _place(opener), f"this {opener.value!r} is not closed", f"write {closer!r} where what it holds ends"
    )


def _unreadable(fault: Fault) -> Finding | None:
    if fault.token.type != "UNREADABLE":
        return None
    start = fault.token.start_pos or 0
    number, column = fault.source.position(start)
    width, message, help_text = character(fault.source.line(number), column - 1)
    return Finding(Span(start, start + width), message, help_text)


# --- numbers and operators -----------------------------------------------------------------------


def _numerals(fault: Fault) -> Finding | None:
    token = fault.token
    if not fault.line or fault.line[-1].end_pos != token.start_pos:
        if fault.wants_value and token.type in ("DOT", "__ANON_2") and fault.after == "NUMBER":
            return Finding(fault.span, "a number starts with a digit", f"write 0.{fault.rest[0]}")
        return None
    last = fault.line[-1]
    both = Span(last.start_pos or 0, token.end_pos or 0)
    if last.type == "DOT" and len(fault.line) > 1 and fault.line[-2].type == "NUMBER":
        number = fault.line[-2]
        return Finding(_place(last), "a number does not end in a point", f"write {number} or {number}.0")
    if last.type not in ("NUMBER", "PERCENT"):
        return None
    word = token.value.lower()
    if token.type == "NAME" and word.startswith("_"):
        digits = f"{last}{token.value.replace('_', '')}"
        return Finding(both, "a number has no separators", f"write {digits}")
    if token.type == "NAME" and word.startswith("e"):
        return Finding(both, "a number has no exponent", "write it out, such as 1000 or 0.001")
    if token.type == "NAME":
        return Finding(both, f"a name does not start with a digit, found {quoted(last + token)}", "")
    if token.type == "DOT":
        return Finding(fault.span, "a number does not end in a point", f"write {last} or {last}.0")
    if token.type == "COMMA" and fault.after == "NUMBER":
        return Finding(
            both, "a number has no separators", f"write {last}{fault.rest[0]}, or a point before decimals"
        )
    return None


_DOUBLED: Final = {
    ("STAR", "STAR"): ("there is no operation **", "write x * x for a power"),
    ("SLASH", "SLASH"): ("there is no operation //", "write div for the whole part of a quotient"),
    ("VBAR", "VBAR"): ("there is no operation ||", "write or"),
    ("COMPARE", "COMPARE"): ("there is no comparison <>", "write !="),
    ("EQUAL", "COMPARE"): ("there is no such comparison", "write <= or >="),
    ("COMPARE", "EQUAL"): ("there is no such comparison", "write =="),
}


def _operators(fault: Fault) -> Finding | None:
    if not fault.line:
        return None
    last, token = fault.line[-1], fault.token
    if last.end_pos == token.start_pos and (last.type, token.type) in _DOUBLED:
        message, help_text = _DOUBLED[last.type, token.type]
        return Finding(Span(last.start_pos or 0, token.end_pos or 0), message, help_text)
    adjacent = fault.rest and fault.rest[0].start_pos == token.end_pos
    if adjacent and (token.type, fault.after) in _DOUBLED:
        message, help_text = _DOUBLED[token.type, fault.after]
        return Finding(Span(token.start_pos or 0, fault.rest[0].end_pos or 0), message, help_text)
    if token.type == "__ANON_1" and {"PLUS", "COMPARE"} <= fault.accepts:
        return Finding(fault.span, "there is no comparison =>", "write >=")
    if token.type == "LSQB" and "PLUS" in fault.accepts:
        return Finding(
            fault.span, "a list has no index", "go through it by for, or sum, min, max, any, all or count it"
        )
    if token.type == "LPAR" and len(fault.line) > 1 and fault.line[-2].type == "DOT":
        name = fault.line[-1]
        return Finding(
            _place(name), f"a value has no functions of its own, found .{name}()", f"write {name}(...)"
        )
    return None


def _chain(fault: Fault) -> Finding | None:
    if fault.token.type != "COMPARE" or fault.wants_value:
        return None
    earlier = [token for token in fault.line if token.type == "COMPARE"]
    if not earlier or len(fault.line) < 3:
        return None
    middle = fault.line[-1]
    return Finding(
        fault.span,
        "comparisons cannot be chained",
        f"write both, joined by and: ... {earlier[-1]} {middle} and {middle} {fault.token} ...",
    )


def _equals(fault: Fault) -> Finding | None:
    token = fault.token
    if token.type == "COMPARE" and token == "==" and len(fault.line) == 1:
        name = fault.line[0]
        return Finding(fault.span, "a step gives a value by one equals sign", f"write {name} = ...")
    if token.type != "EQUAL":
        return None
    if fault.before == "COLON":
        return Finding(fault.span, "a step gives a value by one equals sign", f"write {_words(fault)} = ...")
    if len(fault.line) == 2 and fault.before in ("PLUS", "MINUS", "STAR", "SLASH"):
        name, op = fault.line
        span = Span(op.start_pos or 0, token.end_pos or 0)
        return Finding(span, f"there is no operation {op}=", f"write {name} = {name} {op} ...")
    if fault.before in RESERVED:
        return None
    if fault.open is not None and fault.open.type == "LBRACE":
        return Finding(fault.span, "a field's value stands behind a colon", f"write {fault.line[-1]}: ...")
    if fault.open is not None and fault.first == "NAME":
        return Finding(
            fault.span, "arguments have no names", "write the values in the order of the parameters"
        )
    if "PLUS" in fault.accepts or "COMPARE" in fault.accepts:
        return Finding(
            fault.span, "one equals sign gives a value, it does not compare", "write == to compare"
        )
    return None


# --- statements ----------------------------------------------------------------------------------

# Words at the start of a line that other languages have, and what this one has instead.
_FOREIGN: Final = {
    "let": "write the value alone, such as net = 0",
    "set": "write the value alone, such as net = 0",
    "var": "write the value alone, such as net = 0",
    "const": "write the value alone, such as net = 0",
    "assert": "write check and the condition",
    "ensure": "write check and the condition",
    "while": "write a for over a list",
    "foreach": "write for x in xs at most 40",
    "loop": "write for x in xs at most 40",
    "repeat": "write for x in xs at most 40",
    "switch": "write if, elif and else, or a table",
    "case": "write if, elif and else, or a table",
    "match": "write if, elif and else, or a table",
    "when": "write if",
    "unless": "write if not",
    "elseif": "write elif",
    "elsif": "write elif",
    "reject": 'write deny "..."',
    "refuse": 'write deny "..."',
    "raise": 'write deny "..."',
    "fail": 'write deny "..."',
    "escalate": 'write deny "..."',
    "print": "a procedure shows its steps anyway: leave the line out",
    "say": "a procedure shows its steps anyway: leave the line out",
    "output": "write return",
    "answer": "write return",
    "ask": 'write judge x: bool from note asking "...?"',
    "classify": 'write judge x: enum("a", "b") from note asking "...?"',
    "read": "write extract x: int from note",
    "call": "tools cannot be called",
    "do": "procedures cannot be called; write its steps here",
    "confirm": 'write judge x: bool from note asking "...?"',
}


def _foreign(fault: Fault) -> Finding | None:
    """A line that starts with a word of another language, or with a slip of the pen."""
    start = fault.line[0] if fault.line else fault.token
    if start.type != "NAME" or len(fault.line) > 1 or fault.token.type == "COLON":
        return None
    if not fault.line and "EXTRACT" not in fault.accepts and "$END" not in fault.accepts:
        return None
    if "EQUAL" not in fault.accepts and fault.line:
        return None
    if start == "else" or start.value.lower() in _FOREIGN:
        return Finding(_place(start), f"there is no step {start.value!r}", _FOREIGN[start.value.lower()])
    statements = [word.lower() for word in RESERVED] + ["decide"]
    near = nearest(start, statements)
    if near and fault.line and fault.token.type != "EQUAL":
        return Finding(_place(start), f"there is no step {start.value!r}", f"did you mean {near!r}?")
    return None


def _colon(fault: Fault) -> Finding | None:
    """Python's colon at the end of a header."""
    if fault.token.type != "COLON" or fault.rest:
        return None
    return Finding(
        fault.span,
        "a line does not end in a colon",
        "leave it out; what is below is marked by its indentation",
    )


def _reserved_name(fault: Fault) -> Finding | None:
    token = fault.token
    if token.type == "EQUAL" and fault.before in RESERVED and len(fault.line) <= 3:
        token = fault.line[-1]
    elif token.type not in RESERVED or "NAME" not in fault.accepts or fault.wants_value:
        return None
    return Finding(
        _place(token),
        f"{token.value!r} is a reserved word and cannot be a name",
        f"take another name, such as {token}_1",
    )


def _conditions(fault: Fault) -> Finding | None:
    if fault.token.type == "IF" and fault.before == "ELSE" and len(fault.line) == 1:
        both = Span(fault.line[0].start_pos or 0, fault.token.end_pos or 0)
        return Finding(both, "there is no step 'else if'", "write elif")
    if fault.token.type == "THEN" and fault.first in ("IF", "ELIF"):
        return Finding(
            fault.span,
            "the steps of an if stand below it, indented",
            "leave then out and go on in the next line",
        )
    if fault.first == "REQUIRE" and "ELSE" in fault.accepts and fault.token.type != "UNREADABLE":
        return Finding(
            fault.span, "a require says what happens otherwise", 'add else deny "..." or else return ...'
        )
    if fault.accepts == {"DENY", "RETURN"}:
        return Finding(
            fault.span, "behind this else stands an end", 'write else deny "..." or else return ...'
        )
    if fault.before == "DENY":
        return Finding(fault.span, "a deny gives its reason as a text in quotes", 'write deny "..."')
    if fault.before == "RETURN" and fault.ends:
        return Finding(
            fault.span, "a return gives a value", "write return and the result, such as return net + tax"
        )
    if fault.first == "RETURN" and fault.token.type == "TO":
        return Finding(
            fault.span,
            "a return does not round",
            "round in a step before: total = ... to 2, then return total",
        )
    return None


def _loops(fault: Fault) -> Finding | None:
    if fault.first != "FOR":
        return None
    head = " ".join(map(str, fault.line))
    if "AT" in fault.accepts and "PLUS" in fault.accepts and fault.token.type != "UNREADABLE":
        return Finding(
            fault.span,
            "a loop says how often it runs at most",
            f"write {head if len(head) < 40 else 'for x in xs'} at most 40",
        )
    if fault.accepts == {"MOST"}:
        return Finding(fault.span, "a loop's bound is written at most", "write at most 40")
    if fault.accepts == {"NUMBER"}:
        return Finding(
            fault.span, f"a loop's bound is a whole number, found {_found(fault)}", "write at most 40"
        )
    return None


def _decisions(fault: Fault) -> Finding | None:
    if fault.first not in ("EXTRACT", "JUDGE"):
        return None
    kind, name = str(fault.line[0]), str(fault.line[1]) if len(fault.line) > 1 else "x"
    form = f"{kind} {name}: int from note"
    if len(fault.line) == 2:
        return Finding(fault.span, f"{_an(kind)} says what type the value has", f"write {form}")
    if "FROM" in fault.accepts:
        return Finding(fault.span, f"{_an(kind)} says which input it reads", f"write {form}")
    if fault.before == "ASKING":
        return Finding(fault.span, "the question is a text in quotes", 'write asking "...?"')
    if fault.token == "quoted":
        return Finding(fault.span, "the clause is called quote", "write quote")
    return None


# --- declarations --------------------------------------------------------------------------------


def _outside(fault: Fault) -> Finding | None:
    """A line that begins no declaration where only declarations stand."""
    if fault.line or "$END" not in fault.accepts:
        return None
    token = fault.token
    near = DECLARATIONS.get(token.value) or nearest(token, DECLARATIONS)
    if near is not None and token.type == "NAME":
        return Finding(
            fault.span, f"there is no declaration {token.value!r}", f"did you mean {DECLARATIONS[near]!r}?"
        )
    return Finding(
        fault.span,
        f"a declaration should begin here, found {_found(fault)}",
        "a file holds version, numbers, record, enum, table, procedure and example; steps stand indented below a procedure",
    )


def _signatures(fault: Fault) -> Finding | None:
    accepts = fault.accepts
    if fault.first in ("PROCEDURE", "TABLE") and "__ANON_0" in accepts:
        return Finding(
            fault.span, f"a {fault.line[0]} says what it gives", "write -> and a type, such as -> int"
        )
    if fault.first == "PROCEDURE" and fault.accepts == {"LPAR"}:
        return Finding(
            fault.span, "a procedure says what it takes", f"write procedure {fault.line[-1]}(a: int) -> int"
        )
    if fault.first == "TABLE" and fault.ends and "COMMA" in accepts and fault.open is None:
        return Finding(
            fault.span, "a table says how a row is chosen", "add , first match at the end of the line"
        )
    if fault.first in ("PROCEDURE", "TABLE") and fault.before == "NAME" and accepts == {"COLON"}:
        return Finding(fault.span, "every input has a type", f"write {fault.line[-1]}: int")
    if fault.first == "TABLE" and fault.token.type == "RPAR" and fault.before == "LPAR":
        return Finding(
            fault.span, "a table has at least one input", "write table name(x: int) -> percent, first match"
        )
    if fault.token.type == "__ANON_0" and "__ANON_1" in accepts:
        return Finding(fault.span, "a row's result stands behind =>", "write => instead of ->")
    return None


def _declarations(fault: Fault) -> Finding | None:
    accepts, token = fault.accepts, fault.token
    match fault.first:
        case "RECORD" if "LBRACE" in accepts and "NAME" not in accepts:
            return Finding(
                fault.span,
                "a record's fields stand in braces",
                "write record Line { name: string, qty: int }",
            )
        case "ENUM" if accepts == {"COLON"}:
            return Finding(
                fault.span, "an enum's values stand behind a colon", f'write enum {fault.line[-1]}: "a" | "b"'
            )
        case "ENUM" if token.type == "COMMA":
            return Finding(fault.span, "an enum's values are separated by |", 'write "a" | "b"')
        case "ENUM" if accepts == {"STRING"}:
            return Finding(fault.span, "an enum's values are texts in quotes", 'write "a" | "b"')
        case "VERSION" if accepts == {"STRING"}:
            return Finding(fault.span, "a version is a text in quotes", 'write version "1.2"')
        case "NUMBERS" if "COMMA" in accepts:
            return Finding(
                fault.span, "number rules are separated by commas", "write numbers round half_up, carry shown"
            )
    return None


def _unfinished(fault: Fault) -> Finding | None:
    """A line that ends where something must follow."""
    if not fault.ends or not fault.wants_value:
        return None
    last = str(fault.line[-1]) if fault.line else ""
    return Finding(
        fault.span,
        f"a value should follow {quoted(last)}, but the line ends",
        "finish it here, or put it in brackets to go on in the next line",
    )


_RULES: Final[tuple[Rule, ...]] = (
    _layout,
    _no_block,
    _unreadable,
    _brackets,
    _numerals,
    _operators,
    _reserved_name,
    _equals,
    _chain,
    _outside,
    _foreign,
    _conditions,
    _colon,
    _loops,
    _decisions,
    _signatures,
    _declarations,
    _unfinished,
)


# --- the last resort -----------------------------------------------------------------------------


def _an(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _found(fault: Fault) -> str:
    return "the end of the line" if fault.ends else quoted(fault.token.value)


def _spelling(fault: Fault) -> str:
    """`did you mean` for a word that is nearly one of those that fit."""
    if fault.token.type != "NAME":
        return ""
    near = nearest(fault.token, [word.lower() for word in fault.accepts if word.isalpha() and word != "NAME"])
    return f"did you mean {near!r}?" if near else ""


def _expected(fault: Fault) -> str:
    phrases = list(_phrases(fault.accepts))
    return " or ".join([", ".join(phrases[:-1]), phrases[-1]]) if len(phrases) > 1 else "".join(phrases)


def _phrases(accepts: frozenset[str]) -> Iterator[str]:
    if {"NUMBER", "LSQB", "NAME"} <= accepts:
        yield "a value"
    elif "NAME" in accepts:
        yield "a name"
    elif "NUMBER" in accepts:
        yield "a number"
    if "STRING" in accepts and "NAME" not in accepts:
        yield "a text in quotes"
    if {"PLUS", "STAR"} <= accepts:
        yield "an operation"
    if "NAME" not in accepts:
        yield from (repr(word.lower()) for word in sorted(accepts & _KEYWORDS))
    values = {"LPAR", "LSQB", "LBRACE"} if "NUMBER" in accepts else set()
    yield from (repr(sign) for type_, sign in _SPELT.items() if type_ in accepts - values)
    if "_NL" in accepts or not accepts:
        yield "the end of the line"


_KEYWORDS: Final = frozenset(
    "EXTRACT JUDGE IF ELIF ELSE FOR REQUIRE CHECK RETURN DENY THEN FROM WHERE QUOTE ASKING TO AT MOST OF".split()
)
