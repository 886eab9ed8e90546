"""Habits of other languages in an expression or a step, and how this language says it."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from guard.procedure.faults import nearest, quoted
from guard.procedure.stumble import RESERVED, STEPS, Finding, Stumble, across, place
from guard.source import Span

if TYPE_CHECKING:
    from lark import Token

    from guard.procedure.stumble import Rule


# --- numbers --------------------------------------------------------------------------------------


def _point(at: Stumble) -> Finding | None:
    """`.5` and `5.`."""
    if at.wants_value and at.kind in ("DOT", "__ANON_2") and at.after == "NUMBER":
        return Finding(at.span, "a number starts with a digit", f"write 0.{at.rest[0]}")
    if not at.line:
        return None
    last = at.line[-1]
    if at.kind == "DOT" and at.adjoins and last.type == "NUMBER":
        return Finding(at.span, "a number has one point, with digits before and behind it", f"write {last}")
    if last.type == "DOT" and len(at.line) > 1 and at.line[-2].type == "NUMBER":
        number = at.line[-2]
        return Finding(place(last), "a number does not end in a point", f"write {number} or {number}.0")
    return None


def _numeral(at: Stumble) -> Finding | None:
    """`1e5`, `1_000`, `1,000`, `3rd`."""
    if not at.adjoins or at.before not in ("NUMBER", "PERCENT"):
        return None
    last, token = at.line[-1], at.token
    both, word = across(last, token), str(token).lower()
    match token.type:
        case "NAME" if word.startswith("_") and word.replace("_", "").isdigit():
            return Finding(both, "a number has no separators", f"write {last}{word.replace('_', '')}")
        case "NAME" if word[0] == "e" and (len(word) == 1 or word[1:].isdigit()):
            return Finding(both, "a number has no exponent", "write it out, such as 1000 or 0.001")
        case "NAME":
            return Finding(both, f"a name does not start with a digit, found {quoted(last + token)}", "")
        case "COMMA" if at.after == "NUMBER":
            advice = f"write {last}{at.rest[0]}, or {last}.{at.rest[0]} where these are decimals"
            return Finding(across(last, at.rest[0]), "a number has no comma in it", advice)
        case _:
            return None


# --- dates ----------------------------------------------------------------------------------------

_TIME: Final = re.compile(r"[Tt ]?[0-9]{2}(:[0-9]{2}(:[0-9]{2})?)?")


def _date(at: Stumble) -> Finding | None:
    """`2026-06-01T09:30` without a zone."""
    if at.before == "DATE" and at.adjoins:
        start = at.line[-1].start_pos or 0
        time = _TIME.match(at.source.text, at.token.start_pos or 0)
        if time is not None and at.kind == "NAME":
            spelt = at.source.text[start : time.end()]
            advice = "write the offset of its zone behind it: 2026-06-01T09:30:00+02:00"
            return Finding(Span(start, time.end()), f"a time has a zone, {quoted(spelt)} has none", advice)
        both = across(at.line[-1], at.token)
        return Finding(both, "a date is four digits, two and two", "write 2026-06-01")
    return None


# --- operators ------------------------------------------------------------------------------------

_DOUBLED: Final = {
    ("SLASH", "SLASH"): ("there is no operation //", "write div for the whole part of a quotient"),
    ("VBAR", "VBAR"): ("there is no operation ||", "write or"),
    ("COMPARE", "COMPARE"): ("there is no comparison <>", "write !="),
    ("EQUAL", "COMPARE"): ("there is no such comparison", "write <= or >="),
    ("COMPARE", "EQUAL"): ("there is no such comparison", "write =="),
}


def _doubled(at: Stumble) -> Finding | None:
    """Operators of two signs that Python, C or SQL have."""
    pairs: list[tuple[Token, Token]] = []
    if at.adjoins:
        pairs.append((at.line[-1], at.token))
    if at.rest and at.rest[0].start_pos == at.token.end_pos:
        pairs.append((at.token, at.rest[0]))
    for one, other in pairs:
        if (one.type, other.type) in _DOUBLED:
            message, advice = _DOUBLED[one.type, other.type]
            return Finding(across(one, other), message, advice)
    return None


def _operator(at: Stumble) -> Finding | None:
    """`=>` for `>=`, an index, a method."""
    if at.kind == "__ANON_1" and {"PLUS", "COMPARE"} & at.accepts and at.first not in ("NUMBER", "STRING"):
        return Finding(at.span, "there is no comparison =>", "write >=")
    if at.kind == "LSQB" and "PLUS" in at.accepts:
        items = at.line[-1] if at.before == "NAME" else "xs"
        advice = f"write at({items}, 1) for the first item, last({items}) for the last"
        return Finding(at.span, "a list has no index in brackets", advice)
    if at.kind == "LPAR" and len(at.line) > 2 and at.line[-2].type == "DOT":
        name = at.line[-1]
        advice = f"write {name}({at.line[-3]})"
        return Finding(place(name), f"a value has no functions of its own, found .{name}()", advice)
    return None


def _shifted(at: Stumble) -> Finding | None:
    """Explain `due + 1 month down`."""
    amount = at.line[-2].type if len(at.line) > 1 else ""
    if at.kind not in ("DOWN", "UP") or at.before != "NAME" or amount not in ("NUMBER", "RPAR"):
        return None
    word = at.line[-1]
    near = nearest(word, ("months", "years"))
    advice = f"did you mean {near!r}?" if near else f"write months {at.token} or years {at.token}"
    return Finding(place(word), f"there is no unit {str(word)!r}", advice)


def _null(at: Stumble) -> Finding | None:
    """Explain `a ?? b` and `a ? b : c`."""
    if at.kind == "QMARK" and "PLUS" in at.accepts:
        if at.after == "QMARK":
            return Finding(across(at.token, at.rest[0]), "there is no operation ??", "write x else y")
        return Finding(at.span, "there is no operation ?", "write if condition then a else b")
    return None


def _chain(at: Stumble) -> Finding | None:
    """`1 <= x <= 5`."""
    earlier = [token for token in at.line if token.type == "COMPARE"]
    if at.kind != "COMPARE" or at.wants_value or not earlier:
        return None
    middle = at.line[-1]
    advice = f"write both, joined by and: ... {earlier[-1]} {middle} and {middle} {at.token} ..."
    return Finding(at.span, "comparisons cannot be chained", advice)


def _interval(at: Stumble) -> Finding | None:
    """`x in 1..9`."""
    if str(at.token) != ".." or "PLUS" not in at.accepts:
        return None
    left = takewhile(lambda token: token.type in ("NAME", "DOT"), reversed(at.line[:-2]))
    name = "".join(reversed([str(token) for token in left]))
    if name and at.rest and [token.type for token in at.line[-2:]] == ["IN", "NUMBER"]:
        advice = f"write {name} >= {at.line[-1]} and {name} <= {at.rest[0]}"
    else:
        advice = "compare with both ends, joined by and, or write a table"
    return Finding(at.span, "an interval stands in a table only", advice)


def _equals(at: Stumble) -> Finding | None:
    """One equals sign for two, two for one, and those of other languages."""
    if at.kind == "COMPARE" and str(at.token) == "==" and len(at.line) == 1:
        return Finding(at.span, "a step gives its value with one equals sign", f"write {at.line[0]} = ...")
    if at.kind in ("PLUS", "MINUS", "STAR", "SLASH") and len(at.line) == 1 and at.after == "EQUAL":
        name, both = at.line[0], across(at.token, at.rest[0])
        return Finding(both, f"there is no step {at.token}=", f"write {name} = {name} {at.token} ...")
    if at.kind != "EQUAL" or at.before in RESERVED:
        return None
    if at.before == "COLON":
        return Finding(
            across(at.line[-1], at.token), "a step gives its value with =", f"write {at.line[0]} = ..."
        )
    if at.open is not None and at.open.type == "LBRACE":
        return Finding(at.span, "a field's value stands behind a colon", f"write {at.line[-1]}: ...")
    if at.open is not None and at.line[-2:-1] in ([at.open], _comma(at)) and _calls(at, at.open):
        return Finding(at.span, "arguments have no names", "write the values in the order of the parameters")
    if {"PLUS", "COMPARE"} & at.accepts:
        return Finding(at.span, "one equals sign gives a value, it does not compare", "write == to compare")
    return None


def _calls(at: Stumble, bracket: Token) -> bool:
    before = [token for token in at.line if (token.end_pos or 0) <= (bracket.start_pos or 0)]
    return bracket.type == "LPAR" and bool(before) and before[-1].type == "NAME"


def _comma(at: Stumble) -> list[Token]:
    return [token for token in at.line[-2:-1] if token.type == "COMMA"]


# --- steps ----------------------------------------------------------------------------------------

# Words at the start of a line that other languages have, and what this one has instead.
_ALONE: Final = "write the name alone: net = 0"
_LOOP: Final = "write for x in xs at most 40"
_ARMS: Final = "write if, elif and else, or a table"
_DENY: Final = 'write deny "..."'
_JUDGE: Final = 'write judge x: bool from note asking "...?"'
_GROUP: Final = "write any order, and the steps below it, indented"
_WAYS: Final = 'write one of, and below it, indented, try "..." with its steps'
_QUIET: Final = "leave the line out: a procedure shows its steps anyway"
_BLOCK: Final = "leave the line out: a block ends where the indentation does"
_FOREIGN: Final = {
    **dict.fromkeys(("let", "set", "var", "def", "int", "decimal", "string"), _ALONE),
    "const": "write the name alone: net = 0; a const stands above, at the edge of the file",
    **dict.fromkeys(("foreach", "loop", "repeat"), _LOOP),
    **dict.fromkeys(("switch", "case", "match"), _ARMS),
    **dict.fromkeys(("reject", "refuse", "raise", "fail", "throw", "abort"), _DENY),
    **dict.fromkeys(("print", "log", "pass"), _QUIET),
    **dict.fromkeys(("ask", "decide", "classify"), _JUDGE),
    **dict.fromkeys(("assert", "ensure"), "write check and the condition"),
    **dict.fromkeys(("output", "answer", "give"), "write return and the value"),
    **dict.fromkeys(("read", "find", "parse"), "write extract x: int from note"),
    **dict.fromkeys(("elseif", "elsif"), "write elif"),
    **dict.fromkeys(("either", "alt", "alternative", "one_of", "oneof"), _WAYS),
    **dict.fromkeys(("parallel", "unordered", "anyorder", "any_order"), _GROUP),
    **dict.fromkeys(("tell", "inform", "announce", "respond"), 'write say "..."'),
    **dict.fromkeys(
        ("invoke", "use", "run", "execute"), "write call and the tool: x = call find_user(email)"
    ),
    **dict.fromkeys(("end", "endif", "endfor", "endwhile"), _BLOCK),
    "otherwise": "write else",
    "when": "write if",
    "unless": "write if not",
}


def _foreign(at: Stumble) -> Finding | None:
    """Explain a line that starts with a foreign word, or with a slip of the pen."""
    start = at.line[0] if at.line else at.token
    second = len(at.line) == 1 and {"EQUAL", "COLON"} <= at.accepts
    if start.type not in ("NAME", "DECIDE", "CONST") or not (second or at.starts_step) or at.kind == "COLON":
        return None
    word = str(start)
    if word.lower() in _FOREIGN:
        return Finding(place(start), f"there is no step {word!r}", _FOREIGN[word.lower()])
    near = nearest(word, [step.lower() for step in STEPS])
    if near and second:
        return Finding(place(start), f"there is no step {word!r}", f"did you mean {near!r}?")
    if second:
        advice = f"write {word} = ..." if at.ends else f"write x = {word} {at.token} ..."
        return Finding(at.span, f"a step gives a name a value, expected '=' behind {quoted(word)}", advice)
    return None


_INFIX: Final = frozenset({"AND", "OR", "IN", "DIV", "MOD", "THEN", "ELSE"})


def _reserved(at: Stumble) -> Finding | None:
    """Explain a reserved word in the place of a name."""
    token = at.token
    if token.type == "EQUAL" and at.before in RESERVED and len(at.line) <= 3:
        token = at.line[-1]
    elif token.type not in RESERVED or "NAME" not in at.accepts or (at.wants_value and token.type in _INFIX):
        return None
    if token.type == "DO" and (at.wants_value or at.starts_step):
        advice = "write fee = do shipping(weight), and use fee below"
        return Finding(place(token), "a sub-procedure is carried out in a step of its own", advice)
    if token.type == "ELSE" and "__ANON_1" in [other.type for other in at.rest]:
        return Finding(place(token), "a table has no else", "write any => ... as its last row")
    advice = f"take another name, such as {token}_1"
    return Finding(place(token), f"{token.value!r} is a reserved word and cannot be a name", advice)


def _branch(at: Stumble) -> Finding | None:
    """`else if`, `if x then`."""
    if at.kind == "IF" and at.before == "ELSE" and len(at.line) == 1:
        return Finding(across(at.line[0], at.token), "there is no step 'else if'", "write elif")
    if at.kind == "IF" and at.line and not at.wants_value:
        return Finding(at.span, "a choice starts with its condition", "write if condition then a else b")
    if at.kind == "THEN" and at.first in ("IF", "ELIF"):
        advice = "leave then out and go on in the next line"
        return Finding(at.span, "the steps of an if stand below it, indented", advice)
    return None


def _end(at: Stumble) -> Finding | None:
    """Explain ends that are not as ends are written, and a require without one."""
    if at.first == "REQUIRE" and "ELSE" in at.accepts and "NAME" not in at.accepts and at.open is None:
        return Finding(
            at.span, "a require says what happens otherwise", 'add else deny "..." or else return ...'
        )
    if at.accepts == {"DENY", "ESCALATE", "RETURN", "NEXT"}:
        return Finding(at.span, "behind this else stands an end", 'write else deny "..." or else return ...')
    if at.before == "DENY":
        return Finding(at.span, "a deny gives its reason as a text in quotes", 'write deny "..."')
    if at.before == "ESCALATE":
        return Finding(at.span, "an escalate gives its reason as a text in quotes", 'write escalate "..."')
    if at.before == "RETURN" and at.ends:
        return Finding(at.span, "a return gives a value", "write return and the result: return net + tax")
    return None


def _rounding(at: Stumble) -> Finding | None:
    """`to` without a number of decimals."""
    if at.before == "TO" and at.accepts == {"NUMBER", "MINUS"}:
        return Finding(
            at.span,
            f"behind to stands a number of decimals, found {at.found}",
            "write to 2, to 0 for a whole number, or to -2 for hundreds",
        )
    return None


def _loop(at: Stumble) -> Finding | None:
    """Explain a loop without its bound."""
    if at.first not in ("FOR", "WHILE"):
        return None
    head = at.written()
    if "AT" in at.accepts and "NAME" not in at.accepts:
        short = "for x in xs" if at.first == "FOR" else "while c"
        advice = f"write {head if len(head) < 40 else short} at most 40"
        return Finding(at.span, "a loop says how often it runs at most", advice)
    if at.accepts == {"MOST"}:
        return Finding(at.span, "a loop's bound stands behind at most", "write at most 40")
    if at.before == "MOST":
        return Finding(at.span, f"a loop's bound is a whole number, found {at.found}", "write at most 40")
    if at.accepts == {"IN"} and at.kind == "COMMA":
        advice = "write for x in xs at most 40, and x.name for a field of the item"
        return Finding(at.span, "a loop has one name for its item", advice)
    if at.accepts == {"IN"}:
        return Finding(at.span, f"a loop's list stands behind in, found {at.found}", _LOOP)
    return None


def _group(at: Stumble) -> Finding | None:
    """Explain the head of a group that is half written, or goes on with its first step."""
    if (
        at.before == "ANY"
        and len(at.line) == 1
        and "ORDER" in at.accepts
        and at.kind not in ("EQUAL", "COLON")
    ):
        return Finding(at.span, f"expected 'order' behind 'any', found {at.found}", _GROUP)
    if at.before == "ORDER" and at.accepts == {"_NL"} and at.kind != "COLON":
        return Finding(at.span, "the steps of a group stand below it, indented", _GROUP)
    if at.kind == "TRY" and at.starts_step:
        return Finding(
            at.span, "this try belongs to no one of", "write one of above, and indent each try below it"
        )
    if at.accepts == {"TRY"} or (not at.line and "TRY" in at.accepts):
        return Finding(at.span, f"below one of stand its alternatives, found {at.found}", 'write try "..."')
    if at.before == "TRY":
        return Finding(at.span, "an alternative has a name in quotes", 'write try "by e-mail"')
    if at.before == "ONE" and len(at.line) == 1 and "OF" in at.accepts and at.kind not in ("EQUAL", "COLON"):
        return Finding(at.span, f"expected 'of' behind 'one', found {at.found}", _WAYS)
    return None


def _tool(at: Stumble) -> Finding | None:
    """Steps that use tools or speak."""
    if at.kind == "EQUAL":
        return None
    name = at.line[1] if len(at.line) > 1 else "cancel_order"
    if at.kind == "CALL" and at.wants_value and at.before != "EQUAL":
        advice = "write order = call get_order(order_id), and use order below"
        return Finding(at.span, "a tool is called in a step of its own", advice)
    if at.before == "CALL" and at.accepts >= {"NAME"}:
        return Finding(
            at.span, f"behind call stands a tool, found {at.found}", "write call get_order(order_id)"
        )
    if at.accepts == {"LPAR"} and any(token.type == "CALL" for token in at.line[-2:]):
        advice = f"write call {at.line[-1]}() with its arguments in the brackets"
        return Finding(at.span, "a call has its arguments in brackets", advice)
    if at.first == "CONFIRM" and len(at.line) == 1:
        advice = 'write confirm cancel_order(order_id) else deny "..."'
        return Finding(at.span, "a confirm names the call that the user agrees to", advice)
    if at.first == "CONFIRM" and at.accepts == {"LPAR"}:
        return Finding(at.span, "a confirm has the arguments of the call", f"write confirm {name}(...)")
    if at.first == "CONFIRM" and "ELSE" in at.accepts and "NAME" not in at.accepts and at.open is None:
        advice = 'add else deny "...", or else escalate or return'
        return Finding(at.span, "a confirm says what happens where the user does not agree", advice)
    if at.before == "SAY":
        return Finding(at.span, "a say has its wording as a text in quotes", 'write say "..."')
    return None


def _decision(at: Stumble) -> Finding | None:
    """Parts of an extract or judge that are missing."""
    if at.first not in ("EXTRACT", "JUDGE") or len(at.line) < 2:
        return None
    kind, name = str(at.line[0]), str(at.line[1])
    form, a_kind = f"write {kind} {name}: int from note", "an extract" if kind == "extract" else "a judge"
    if len(at.line) == 2:
        return Finding(at.span, f"{a_kind} says what type the value has", form)
    if "FROM" in at.accepts and "NAME" not in at.accepts:
        return Finding(at.span, f"{a_kind} says which input it reads", form)
    if at.before == "ASKING":
        return Finding(at.span, "the question is a text in quotes", 'write asking "...?"')
    if [token.type for token in at.line[-2:]] in [
        ["COMMA", clause] for clause in ("WHERE", "QUOTE", "ASKING")
    ]:
        clause = at.line[-1]
        return Finding(
            place(at.line[-2]), f"no comma stands before {clause}", f"leave it out: ... {clause} ..."
        )
    if str(at.token) == "quoted":
        return Finding(at.span, "the clause is called quote", "write quote")
    return None


EXPRESSION_RULES: Final[tuple[Rule, ...]] = (_date, _point, _numeral, _doubled, _operator, _shifted, _null)
STEP_RULES: Final[tuple[Rule, ...]] = (
    _group,
    _tool,
    _reserved,
    _equals,
    _chain,
    _interval,
    _foreign,
    _branch,
    _end,
    _rounding,
    _loop,
    _decision,
)
