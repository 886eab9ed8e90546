"""Quotes that can only be verbatim: the words of a source, from any word on to any later one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from guard.dialect.holes import NO_ITEMS, NULL, QUOTE, quoted
from guard.dialect.tree import Literal, Node, Repeat, Rule, choice, sequence
from guard.dialect.tree import Sequence as Parts
from guard.procedure.lattice import may_be_null, required
from guard.procedure.normal import normal
from guard.procedure.types import ListType, Type

MAX_WORDS: Final = 600  # of all sources; longer ones are quoted freely and the checker looks them up
MAX_CHARACTERS: Final = 40 * MAX_WORDS  # of all sources, so that no long one is taken apart in vain

_WORD = re.compile(r"(\s*)(\w+|[^\w\s])")
_QUOTE = re.compile(r"q[0-9a-f]{8}")


def is_quote(name: str) -> bool:
    """Whether a rule of that name is a quote of some sources; those of its words have longer names."""
    return _QUOTE.fullmatch(name) is not None


def quotes(texts: Sequence[str] | None, rules: dict[str, Node], *, most: int) -> Node:
    """Give what may stand behind a decided value: one quote, or up to so many, each behind `<-`.

    Of `texts` a quote is a run of words of one of them, in rules that are added to `rules`: one a word, so
    that the grammar stays as long as the texts. All who quote the same share them. None: a quote is any text.
    """
    quote = QUOTE if texts is None else _verbatim(texts, rules)
    one = sequence(Literal(" <- "), quote)
    return Repeat(one, 1, most) if most > 1 else one


def unquoted(kind: Type) -> Iterator[Node]:
    """Give what stands without a quote where one is asked for: where there is nothing, nothing is quoted."""
    if may_be_null(kind):
        yield NULL
    if isinstance(required(kind), ListType):
        yield NO_ITEMS


def are_short(texts: Sequence[str]) -> bool:
    """Whether texts are short enough to be taken apart for a grammar, and there is something in them."""
    if sum(map(len, texts)) > MAX_CHARACTERS:
        return False
    return 0 < sum(len(_WORD.findall(text)) for text in texts) <= MAX_WORDS


def _verbatim(texts: Sequence[str], rules: dict[str, Node]) -> Node:
    if not are_short(texts):
        return QUOTE
    words = [_words(text) for text in texts]
    name = f"q{sha256(repr(words).encode()).hexdigest()[:8]}"
    if name not in rules:
        starts = [start for index, run in enumerate(words) for start in _run(run, f"{name}x{index}", rules)]
        rules[name] = sequence(Literal('"'), choice(*starts), Literal('"'))
    return Rule(name)


def _words(text: str) -> list[tuple[str, str]]:
    """Split a text into words and marks as a quote spells them, each with the blank in front of it."""
    found = _WORD.findall(normal(text))
    return [(" " if blank else "", quoted(word)[1:-1]) for blank, word in found]


def _run(words: Sequence[tuple[str, str]], prefix: str, rules: dict[str, Node]) -> list[Node]:
    """Where a quote of these words may begin; the rules say how it goes on from each word."""
    starts: list[Node] = []
    following: Node | None = None
    for index in range(len(words) - 1, -1, -1):
        blank, word = words[index]
        starts.append(_then(word, following))
        if index:
            name = f"{prefix}x{index}"
            rules[name] = _then(blank + word, following)
            following = Repeat(Rule(name), 0, 1)
    return starts[::-1]


def _then(word: str, following: Node | None) -> Node:
    return Literal(word) if following is None else Parts((Literal(word), following))
