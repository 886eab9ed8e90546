"""Chains of equations (`S3 = S2 + 8 = 19 + 8 = 27`) found in a line of free-form text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise, takewhile
from typing import Final

from guard.trace.amounts import CONJUNCTIONS, QUALIFIERS, is_cents
from guard.trace.results import Part, part
from guard.trace.tokens import OPERANDS, Sort, Token

NAME_WORDS: Final = 6  # of a name that is written in several

_LEADS: Final = frozenset({Sort.MARK, Sort.MONEY, Sort.OPEN})
_IS: Final = frozenset({"is", "equals", "was", "becomes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """`name = part = part`; `name` is None where what the first sign follows is no name.

    `at` is where it starts. `firm`: an equals sign says so, not `is` or a colon.
    """

    name: str | None
    parts: tuple[Part, ...]
    at: int
    end: int
    firm: bool = True


class Names:
    """The names that a text may give values, found however their words are joined and in whatever case."""

    def __init__(self, names: Sequence[str] | Mapping[str, object]) -> None:
        self._exact = frozenset(names)
        self._loose: dict[str, str | None] = {}  # None: of several
        for name in names:
            loose = _loosely(name)
            self._loose[loose] = None if self._loose.get(loose, name) != name else name

    def __contains__(self, name: str) -> bool:
        return name in self._exact

    def known(self, words: Sequence[str]) -> str | None:
        """Give the name that some words spell."""
        joined = "_".join(words)
        return joined if joined in self._exact else self._loose.get(_loosely(joined))


def _loosely(name: str) -> str:
    return name.casefold().replace("-", "_")


@dataclass(frozen=True, slots=True)
class _Named:
    """A name at the end of some tokens, where it begins and where its clause does. `sure`: it is no unit."""

    name: str
    place: int
    clause: int
    sure: bool = True


@dataclass(slots=True)
class _Piece:
    """What stands between two signs, and the sign before it."""

    tokens: list[Token]
    link: Token | None


def chains(tokens: Sequence[Token], known: Names) -> Iterator[Chain]:
    """Find the chains of a line, sentence by sentence, in one pass.

    After one of the `known` names also `is` or a colon stands for the equals sign.
    """
    sentence: list[Token] = []
    for token in tokens:
        if token.sort is Sort.STOP:
            yield from _sentence(sentence, known)
            sentence = []
        else:
            sentence.append(token)
    yield from _sentence(sentence, known)


def _sentence(tokens: list[Token], known: Names) -> Iterator[Chain]:
    pieces = _pieces(tokens, known)
    if len(pieces) < 2:
        return
    units = _units(tokens)
    named = _named(pieces[0].tokens, known, units, first=True)
    start, broken = 0, named is not None and not named.sure
    for index in range(1, len(pieces)):
        last = index == len(pieces) - 1
        then = None if last else _named(pieces[index].tokens, known, units, first=False)
        if last or then is not None:
            unsure = broken or (then is not None and not then.sure)
            if chain := _chain(named, pieces[start : index + 1], then, broken=unsure):
                yield chain
            named, start, broken = then, index, then is not None and not then.sure


def _pieces(tokens: list[Token], known: Names) -> list[_Piece]:
    pieces = [_Piece([], None)]
    for index, token in enumerate(tokens):
        if token.sort is Sort.EQUALS or _stands_for_one(pieces, token, tokens[index + 1 : index + 2], known):
            pieces.append(_Piece([], token))
        else:
            pieces[-1].tokens.append(token)
    return pieces


def _stands_for_one(pieces: list[_Piece], token: Token, following: Sequence[Token], known: Names) -> bool:
    """Whether a colon or a word says after a known name what an equals sign does."""
    word = token.sort is Sort.WORD and token.text.lower() in _IS
    if not following or not (word or token.sort is Sort.COLON):
        return False
    tokens = pieces[-1].tokens
    found = _known_at(tokens, _before_aside(tokens), known)
    return found is not None and (len(pieces) == 1 or _clause(tokens, found[1]) is not None)


def _units(tokens: Sequence[Token]) -> frozenset[str]:
    """Words that stand right after more than one number: they count something."""
    once: set[str] = set()
    often: set[str] = set()
    for before, token in pairwise(tokens):
        if token.sort is Sort.WORD and before.sort in {Sort.NUMBER, Sort.MONEY}:
            (often if token.text in once else once).add(token.text)
    return frozenset(often)


# --- names ---------------------------------------------------------------------------------------


def _named(tokens: list[Token], known: Names, units: frozenset[str], *, first: bool) -> _Named | None:
    """Give the name that a chain begins with at the end of a piece, if one does there."""
    end = _before_aside(tokens)
    found = _known_at(tokens, end, known)
    if found is None:
        return _unknown(tokens, end, first=first)
    name, place = found
    if place == 0:
        return _Named(name, 0, 0) if first else None
    unit = end - place == 1 and tokens[place].text in units
    if unit or tokens[place - 1].sort is Sort.SIGN:
        return None
    clause = _clause(tokens, place)
    sure = clause is not None and tokens[place - 1].text.lower() not in QUALIFIERS
    return _Named(name, place, place if clause is None else clause, sure=sure or _is_no_word(name))


def _before_aside(tokens: Sequence[Token]) -> int:
    """Give where the tokens end without words in brackets: `net (EUR) = 5`."""
    end = len(tokens)
    if not tokens or tokens[-1].sort is not Sort.CLOSE:
        return end
    for place in range(end - 2, max(0, end - 2 - NAME_WORDS), -1):
        if tokens[place].sort is Sort.OPEN:
            return end if tokens[place].glued else place
        if tokens[place].sort not in {Sort.WORD, Sort.MONEY}:
            break
    return end


def _known_at(tokens: Sequence[Token], end: int, known: Names) -> tuple[str, int] | None:
    """Give the longest known name that ends there, and where it begins."""
    words: list[str] = []
    found: tuple[str, int] | None = None
    for place in range(end - 1, max(-1, end - 1 - NAME_WORDS), -1):
        if tokens[place].sort is not Sort.WORD:
            break
        words.insert(0, tokens[place].text)
        if name := known.known(words):
            found = name, place
    return found


def _clause(tokens: Sequence[Token], place: int) -> int | None:
    """Give where the clause of a name begins, None where what stands before it may be counted by it."""
    clause = None
    for before in range(place - 1, -1, -1):
        token = tokens[before]
        word = token.sort is Sort.WORD
        if token.sort in {Sort.COMMA, Sort.COLON, Sort.BAR} or (word and token.text.lower() in CONJUNCTIONS):
            clause = before
        elif not word and token.sort not in _LEADS:
            return clause
    return 0


def _unknown(tokens: Sequence[Token], end: int, *, first: bool) -> _Named | None:
    """A name that is no step's: a lone word, or one after a comma or a conjunction."""
    place = end - 1
    if place < 0 or tokens[place].sort is not Sort.WORD or not tokens[place].text.isascii():
        return None
    if place and tokens[place - 1].sort is Sort.SIGN:
        return None
    clause = _clause(tokens, place)
    return _Named(tokens[place].text, place, clause) if clause or (clause == 0 and first) else None


def _is_no_word(name: str) -> bool:
    return "_" in name or any(map(str.isdigit, name))


# --- a chain -------------------------------------------------------------------------------------


def _chain(
    named: _Named | None, pieces: Sequence[_Piece], then: _Named | None, *, broken: bool
) -> Chain | None:
    """Put a chain together; `then` is the next one's name, which stands in the last piece."""
    head = pieces[0].tokens[named.place :] if named else _without_words(pieces[0].tokens)
    groups = [head, *(piece.tokens for piece in pieces[1:])]
    if then is not None:
        groups[-1] = groups[-1][: then.clause]
    found = [
        part(group, about=piece.link is not None and piece.link.text == "≈")
        for group, piece in zip(groups, pieces, strict=True)
    ]
    parts = [one for one in (found[1:] if named else found) if one is not None]
    if not parts or (named is None and len(parts) < 2):
        return None
    if found[-1] is None:
        parts[-1] = replace(parts[-1], value=None)  # the last sign has nothing after it
    elif (
        broken
        or not all(one.clear for one in parts[:-1])
        or _changed(parts, [token for group in groups for token in group], groups[-1])
    ):
        parts[-1] = replace(parts[-1], value=None, unread=True)
    name_token = _first(head)
    return Chain(
        name=named.name if named else None,
        parts=tuple(parts),
        at=name_token.at if name_token else parts[0].at,
        end=parts[-1].end,
        firm=pieces[1].link is not None and pieces[1].link.sort is Sort.EQUALS,
    )


def _without_words(tokens: Sequence[Token]) -> list[Token]:
    """Leave out the words that lead to a working: `The sum: 16 + 25 = 41`."""
    led = [place for place, token in enumerate(tokens) if token.sort in {Sort.COLON, Sort.COMMA}]
    rest = tokens[led[-1] + 1 :] if led else tokens
    return list(dropwhile(lambda token: token.sort is Sort.WORD, rest)) or list(rest)


def _first(tokens: Sequence[Token]) -> Token | None:
    return next((token for token in tokens if token.sort in OPERANDS), None)


def _changed(parts: Sequence[Part], tokens: Sequence[Token], last: Sequence[Token]) -> bool:
    """Whether the result has another unit than the working: percent of a product with 100, cents of $."""
    if len(parts) < 2:
        return False
    percent = any(token.percent for token in last)
    if percent and any(token.sort is Sort.NUMBER and token.value in {1, 100} for token in tokens):
        return True
    cents = any(token.sort is Sort.WORD and is_cents(token.text) for token in last)
    return cents and any(token.sort is Sort.MONEY for token in tokens)


def parts_of(tokens: Sequence[Token]) -> list[Part]:
    """Give the parts of the first sentence of a piece that stands for itself: a cell, an answer."""
    found: list[Part] = []
    for piece in _pieces(_first_sentence(tokens), Names(())):
        one = part(piece.tokens, about=piece.link is not None and piece.link.text == "≈")
        found += [] if one is None else [one]
    if found and _changed(found, tokens, tokens):
        found[-1] = replace(found[-1], value=None, unread=True)
    return found


def _first_sentence(tokens: Sequence[Token]) -> list[Token]:
    return list(takewhile(lambda token: token.sort is not Sort.STOP, tokens))
