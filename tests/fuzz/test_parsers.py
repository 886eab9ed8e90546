"""Whatever a parser reads, it says what it may, in time, and keeps nothing of it."""

from __future__ import annotations

from random import Random
from time import process_time
from typing import Final

import pytest

from tests.fuzz.mutations import MOST, MUTATIONS, mutated
from tests.fuzz.parsers import DOCUMENTED, PARSERS, Parser
from tests.fuzz.strange import GROWTH, strange

FEW: Final = 10
MANY: Final = 315
WIDE: Final = 2.0  # seconds for a text: what takes one by hand takes no two here, however busy the machine
EACH: Final = pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)


@EACH
def test_what_is_right_is_read(parser: Parser) -> None:
    """At least one text of the corpus: else all mutations of it would end at the same place."""
    assert any(is_read(parser, text) for text in reversed(parser.corpus()))


def is_read(parser: Parser, text: bytes) -> bool:
    try:
        parser.read(text, Random(1))
    except DOCUMENTED:
        return False
    return True


@EACH
def test_a_few_strange_texts(parser: Parser) -> None:
    assert strange(parser, range(FEW), second=WIDE) == []


@pytest.mark.slow
@EACH
def test_many_strange_texts(parser: Parser) -> None:
    assert strange(parser, range(FEW, FEW + MANY), second=WIDE) == []


def test_each_mutation_makes_another_text_within_its_bound() -> None:
    corpus = [b"procedure one(a: int) -> int\n  b = a * 2.50\n  return b\n", b"@begin one 3fa92c\n1 b = 2\n"]
    for mutation in MUTATIONS:
        texts = {mutation(corpus[0], Random(seed), corpus) for seed in range(50)}
        assert len(texts) > 5, mutation.__name__
    assert all(len(mutated(corpus, Random(seed))) <= 4 * MOST for seed in range(500))


def test_what_a_parser_may_not_do_is_found() -> None:
    kept: list[bytes] = []

    def raises(data: bytes, _random: Random) -> object:
        raise KeyError(len(data))

    def keeps(data: bytes, _random: Random) -> object:
        kept.append(b"x" * (GROWTH // 4))
        return data

    def dawdles(data: bytes, _random: Random) -> object:
        until = process_time() + 0.06
        while process_time() < until:
            pass
        return data

    def found(read: object, runs: int) -> list[str]:
        parser = Parser(name="wrong", corpus=lambda: [b"a text"], read=read)  # type: ignore[arg-type]
        return [oddity.what for oddity in strange(parser, range(runs), second=0.05)]

    assert "KeyError" in found(raises, 1)[0]
    assert found(dawdles, 1)[0].startswith("takes ")
    assert "are kept" in found(keeps, 10)[-1]
