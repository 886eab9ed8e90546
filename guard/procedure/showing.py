"""How an expression shows: pieces of text, and in between what stands by the value that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from guard.procedure.expected import UNKNOWN, Hole, Working
from guard.procedure.passes import Env, Evaluate
from guard.procedure.types import NULL, IntType, OptionalType, Type
from guard.procedure.values import speller

SHOWN_STRING: Final = 40  # characters of a string that still stands by value

Show = Callable[[Env, Env], str | Hole | Working]
Part = str | Show

_HOLE: Final = Hole(IntType())
_spelled: Final = speller(IntType())


class OutOfSight(Exception):  # noqa: N818 (caught by the aggregate whose variable it is)
    """A term would have to show the variable of its aggregate by name."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Shows a variable that holds whole numbers."""

    name: str

    def __call__(self, env: Env, shown: Env) -> str | Hole:  # noqa: ARG002
        """Give its value, or a hole for that."""
        value = shown[self.name]
        return _HOLE if value is UNKNOWN else _spelled(value)


def render(parts: Iterable[Part], env: Env, shown: Env) -> Working:
    """Give the text of some parts; neighbouring texts become one."""
    shows = [part if isinstance(part, str) else part(env, shown) for part in parts]
    try:
        return ("".join(shows),)  # type: ignore[arg-type]  # all known: by far the usual case
    except TypeError:
        return merge(shows)


def merge(shows: Iterable[str | Hole | Working]) -> Working:
    """Join what some parts show; neighbouring texts become one."""
    merged: list[str | Hole] = []
    for show in shows:
        for piece in show if isinstance(show, tuple) else (show,):
            if isinstance(piece, str) and merged and isinstance(merged[-1], str):
                merged[-1] += piece
            else:
                merged.append(piece)
    return tuple(merged)


def out_of_sight(env: Env, shown: Env) -> str:  # noqa: ARG001
    """Stand for what cannot be shown by name, the variable of an aggregate being in it."""
    raise OutOfSight


def show_one(part: Part, env: Env, shown: Env) -> str | Hole | Working:
    """Show one part."""
    return part if isinstance(part, str) else part(env, shown)


def joined(working: Working) -> str | Working:
    """Give a working that is one text as that text, which joins faster."""
    return working[0] if len(working) == 1 and isinstance(working[0], str) else working


def string_shown(evaluate: Evaluate, type: Type, by_name: Part) -> Show:  # noqa: A002
    """Show an operand that is a string: by its value where that is short, else by name."""
    spelled = speller(type)

    def show(env: Env, shown: Env) -> str | Hole | Working:
        value = evaluate(shown)
        if value is UNKNOWN:
            return Hole(type)
        return spelled(value) if len(value) <= SHOWN_STRING else show_one(by_name, env, shown)

    return show


def null_shown(evaluate: Evaluate, type: OptionalType, inner: Part) -> Show:  # noqa: A002
    """Show an operand that may be null: the word, or what it is else."""

    def show(env: Env, shown: Env) -> str | Hole | Working:
        value = evaluate(shown)
        if value is UNKNOWN:
            return Hole(type)
        return "null" if value is NULL else show_one(inner, env, shown)

    return show


def separated(groups: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Put a comma between groups of parts."""
    flat: list[Any] = []
    for group in groups:
        flat.extend((", ", *group) if flat else group)
    return tuple(flat)
