"""Procedures that keep lists: brackets matched by a stack, objects that are swapped, words sorted by insertion.

Each has inputs for hypothesis, the same inputs from a seed, and its answer worked out in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from guard.procedure.execute import Program
from guard.procedure.load import load
from tests.faults.faithful import Sample, carried_out

FOLDER: Final = Path(__file__).with_name("procedures")
_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}
_OBJECTS: Final = ("ball", "kite", "drum", "book", "lamp", "café table")
_WORDS: Final = ("pear", "fig", "plum", "apple", "Éclair", "fig tree", "figs", "Plum", "zest", "")

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """A procedure, its inputs as JSON, and what it must return as JSON."""

    inputs: st.SearchStrategy[Inputs]
    seeded: Callable[[Random], Inputs]
    answer: Callable[[Inputs], object]


def _matches(inputs: Inputs) -> object:
    """Pairs that stand side by side are taken out until nothing changes."""
    text, before = "".join(inputs["symbols"]), None
    while text != before:
        before = text
        for pair in ("()", "[]", "{}"):
            text = text.replace(pair, "")
    return not text


def _swapped(inputs: Inputs) -> object:
    """Where an object is, followed from the end back."""
    places = range(1, len(inputs["objects"]) + 1)
    held = [inputs["objects"][_origin(place, inputs["moves"]) - 1] for place in places]
    return {"held": held[inputs["asked"] - 1], "all": held}


def _origin(place: int, moves: list[dict[str, int]]) -> int:
    for move in reversed(moves):
        ends = {move["one"]: move["other"], move["other"]: move["one"]}
        place = ends.get(place, place)
    return place


def _balanced(random: Random, pairs: int) -> list[str]:
    """Brackets that match: each pair stands somewhere in what there is, around nothing."""
    symbols: list[str] = []
    for _ in range(pairs):
        at = random.randint(0, len(symbols))
        symbols[at:at] = random.choice(list(_PAIRS.items()))
    return symbols


def _some_symbols(random: Random) -> Inputs:
    symbols = _balanced(random, random.randint(0, 5))
    if symbols and random.random() < 0.5:
        symbols[random.randrange(len(symbols))] = random.choice("()[]{}")
    return {"symbols": symbols}


def _some_moves(random: Random) -> Inputs:
    objects = random.sample(_OBJECTS, random.randint(2, len(_OBJECTS)))
    places = range(1, len(objects) + 1)
    moves = [
        {"one": random.choice(places), "other": random.choice(places)} for _ in range(random.randint(0, 6))
    ]
    return {"objects": objects, "moves": moves, "asked": random.choice(places)}


def _some_words(random: Random) -> Inputs:
    return {"words": random.choices(_WORDS, k=random.randint(0, 6))}


@st.composite
def _moves(draw: st.DrawFn) -> Inputs:
    objects = draw(st.lists(st.sampled_from(_OBJECTS), min_size=1, max_size=6))
    place = st.integers(1, len(objects))
    moves = draw(st.lists(st.fixed_dictionaries({"one": place, "other": place}), max_size=8))
    return {"objects": objects, "moves": moves, "asked": draw(place)}


KEPT: Final[dict[str, Kept]] = {
    "brackets": Kept(
        st.one_of(
            st.fixed_dictionaries({"symbols": st.lists(st.sampled_from("()[]{}"), max_size=12)}),
            st.randoms(use_true_random=False).map(_some_symbols),
        ),
        _some_symbols,
        _matches,
    ),
    "swaps": Kept(_moves(), _some_moves, _swapped),
    "insertion": Kept(
        st.fixed_dictionaries(
            {"words": st.lists(st.sampled_from(_WORDS) | st.text("aZé", max_size=3), max_size=8)}
        ),
        _some_words,
        lambda inputs: sorted(inputs["words"]),
    ),
}


@cache
def _loaded(name: str) -> tuple[str, Program]:
    text = (FOLDER / f"{name}.proc").read_text("utf-8")
    return text, load(text, f"{name}.proc").procedures[name]


def kept(name: str, inputs: Inputs) -> Sample:
    """Carry a procedure out on inputs given as JSON."""
    text, program = _loaded(name)
    return carried_out(text, program, program.accept(inputs), {})


def seeded(seeds: int = 12) -> Iterator[Sample]:
    """Each procedure on so many inputs that are always the same."""
    for name, procedure in KEPT.items():
        for seed in range(seeds):
            yield kept(name, procedure.seeded(Random(f"{name} {seed}")))
