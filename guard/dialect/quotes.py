"""Quotes that can only be verbatim: the words of a source, from any word on to any later one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from unicodedata import normalize

from guard.dialect.holes import QUOTE, QUOTES, quoted
from guard.dialect.tree import Literal, Node, Repeat, Rule, choice, sequence
from guard.dialect.tree import Sequence as Parts

MAX_WORDS: Final = 600  # of all sources; longer ones are quoted freely and the checker looks them up

_WORD = re.compile(r"(\s*)(\w+|[^\w\s])")
_QUOTE = re.compile(r"q[0-9a-f]{8}")


def is_quote(name: str) -> bool:
    """Whether a rule of that name is a quote of some sources; those of its words have longer names."""
    return _QUOTE.fullmatch(name) is not None


def quotes(
    sources: Sequence[tuple[str, str]], rules: dict[str, Node], *, verbatim: bool, several: bool
) -> Node:
    """Give what may stand behind a decided value: one quote, or `several`, each behind `<-`.

    With `verbatim` a quote is a run of words of one of the sources, in rules that are added to `rules`:
    one a word, so that the grammar stays as long as the sources. All who quote the same share them.
    """
    quote = _verbatim([text for _, text in sources], rules) if verbatim else QUOTE
    one = sequence(Literal(" <- "), quote)
    return Repeat(one, 1, QUOTES) if several else one


def _verbatim(texts: Sequence[str], rules: dict[str, Node]) -> Node:
    words = [_words(text) for text in texts]
    if not 0 < sum(map(len, words)) <= MAX_WORDS:
        return QUOTE
    name = f"q{sha256(repr(words).encode()).hexdigest()[:8]}"
    if name not in rules:
        starts = [start for index, run in enumerate(words) for start in _run(run, f"{name}x{index}", rules)]
        rules[name] = sequence(Literal('"'), choice(*starts), Literal('"'))
    return Rule(name)


def _words(text: str) -> list[tuple[str, str]]:
    """Split a text into words and marks as a quote spells them, each with the blank in front of it."""
    found = _WORD.findall(normalize("NFC", text))
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
