r"""What of a grammar decides whether it can be read: all of it but what stands inside its literals.

Grammars of one procedure differ between requests only there: in operands, values and the nonce. What a
literal says is no matter to a reader that knows where it begins and ends and has read each escape in it, so
of two texts with one skeleton either both can be read or neither. That holds because

* literals are cut out where readers cut them. In what is left stands no sign with which a literal, a comment
  or a directive begins, so the first quote or slash of the text begins one for every reader, and the next one
  of its kind without a backslash ends it;
* each is well-formed: visible characters, and the escapes that we write in its notation. Where one is not,
  its quote or slash is left, and then there is no skeleton;
* what means more than the characters that it is made of is kept: classes, bounds and operators of expressions
  with the one character that they belong to, patterns, and that a literal is empty. Ranges of literals, flags
  of expressions and what else we never write leave no skeleton;
* the members that a schema requires are those that it has.

Nor does the length of literals matter: llguidance reads any that fit into a grammar.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, assert_never

from guard.dialect.notation import Dialect

_UNSEEN: Final = r"\x00-\x1f\x7f\ud800-\udfff"

_STRING: Final = rf'"(?:[^"\\{_UNSEEN}]++|\\(?:["\\nrt]|u00[0-9a-f]{{2}}))++"'
_GBNF_STRING: Final = rf'"(?:[^"\\{_UNSEEN}]++|\\(?:["\\nrt]|x[0-9A-F]{{2}}))++"'
_JSON_STRING: Final = rf'"(?:[^"\\{_UNSEEN}]++|\\(?:["\\bfnrt]|u00(?:0[0-7be-f]|1[0-9a-f])))*+"'
_CLASS: Final = rf"\[\^?+(?:[^][\\/{_UNSEEN}]|\\[^{_UNSEEN}])++\]"
_GBNF_CLASS: Final = rf'\[\^?+(?:[^][\\"{_UNSEEN}]|\\[^{_UNSEEN}])++\]'
_BOUNDS: Final = r"\{[0-9]++(?:,[0-9]*+)?\}"
_PLAIN: Final = rf"[^][\\(){{}}|*+?.^$/{_UNSEEN}]"
_ESCAPED: Final = r"\\(?:[][\\(){}|*+?.^$/nrt]|x[0-9a-f]{2})"
_ALONE: Final = r"(?![*+?{])"

# A literal of each notation and, in groups, what is kept in its place: of an expression in Lark, whether it
# begins with other than characters, and all that comes behind these.
_IN_LARK: Final = re.compile(
    rf"{_STRING}|/(?:(?:{_PLAIN}++|{_ESCAPED})++{_ALONE}|()(?!/))((?:[^/\\{_UNSEEN}]++|\\[^{_UNSEEN}])*+)/(?!\w)"
)
_IN_GBNF: Final = re.compile(rf"{_GBNF_STRING}|({_GBNF_CLASS})")
_IN_REGEX: Final = re.compile(rf"(?:{_PLAIN}|{_ESCAPED})+{_ALONE}|{_PLAIN}|{_ESCAPED}|({_CLASS}|{_BOUNDS})")
_MEMBER: Final = re.compile(
    rf'({_JSON_STRING}): {{"type": "string"'
    rf'(?:(, "enum": \[){_JSON_STRING}(?:, {_JSON_STRING})*+\]|(, "pattern": {_JSON_STRING}))?}}'
)

# What may stand between them, `_CUT` where each was.
_CUT: Final = "\0"
_LARK_LEFT: Final = re.compile(r'(?:[a-z0-9_:|()?*+ \n\0]|""|~[0-9]++(?:\.\.[0-9]++)?)*+')
_GBNF_LEFT: Final = re.compile(r'(?:[a-z0-9:=|()?*+{},\n \0]|"")*+')
_REGEX_LEFT: Final = re.compile(r"(?:[)|*+?/\n\0]|\((?!\?))*+")

SHORT: Final = 1_000  # characters of an expression that may come again
_HEADER: Final = "%llguidance {}\n"
_OPENED: Final = '{"type": "object", "properties": {'
_CLOSED: Final = '}}, "required": [{}], "additionalProperties": false}}'


def skeleton(dialect: Dialect, text: str) -> str | None:
    """Give a grammar without what stands in its literals; None where that cannot be told for certain."""
    if _CUT in text:
        return None
    match dialect:
        case Dialect.LARK:
            return _lark(text)
        case Dialect.LLGUIDANCE:
            return _lark(text.removeprefix(_HEADER)) if text.startswith(_HEADER) else None
        case Dialect.GBNF | Dialect.XGRAMMAR:
            return _cut(_IN_GBNF, _GBNF_LEFT, text)
        case Dialect.REGEX:
            return _cut(_IN_REGEX, _REGEX_LEFT, text)
        case Dialect.JSON_SCHEMA:
            return _schema(text)
        case _:
            assert_never(dialect)


def _cut(literal: re.Pattern[str], left: re.Pattern[str], text: str) -> str | None:
    pieces = literal.split(text)
    outside = _CUT.join(pieces[::2])
    if not left.fullmatch(outside):
        return None
    return "\n".join((outside, *(piece or "" for piece in pieces[1::2])))


def _lark(text: str) -> str | None:
    pieces = _IN_LARK.split(text)
    outside = _CUT.join(pieces[::3])
    if not _LARK_LEFT.fullmatch(outside):
        return None
    kept = [outside]
    for bare, rest in zip(pieces[1::3], pieces[2::3], strict=True):
        if rest is None:  # a string
            kept.append("")
            continue
        expression = _often(rest) if len(rest) <= SHORT else _expression(rest)
        if expression is None:
            return None
        kept.append(f"/{expression}" if bare is None else f"//{expression}")
    return "\1".join(kept)


def _expression(text: str) -> str | None:
    return _cut(_IN_REGEX, _REGEX_LEFT, text)


_often: Final = lru_cache(maxsize=1024)(_expression)


def _schema(text: str) -> str | None:
    pieces = _MEMBER.split(text)
    names, between = pieces[1::4], pieces[4:-1:4]
    listed = ", ".join(names)
    as_written = pieces[0] == _OPENED and pieces[-1] == _CLOSED.format(listed)
    if not as_written or not {*between} <= {", "}:
        return None
    return "\n".join(enum or pattern or "" for enum, pattern in zip(pieces[2::4], pieces[3::4], strict=True))
