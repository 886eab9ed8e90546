"""How mistakes in the operator's file are worded: paths of keys, values that were found, suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

MAX_SHOWN: Final = 60  # characters of what was found

Keys = tuple[int | str, ...]


def spelled_path(at: Keys) -> str:
    """Spell the path of a key, such as `policies.strict.actions[1]`."""
    spelled = ""
    for key in at:
        spelled += f"[{key}]" if isinstance(key, int) else f".{key}" if spelled else key
    return spelled


def shown(value: object) -> str:
    """Spell a value that was found, cut."""
    spelled = repr(value)
    return spelled if len(spelled) <= MAX_SHOWN else spelled[:MAX_SHOWN] + "..."


def suggestion(word: str, known: Iterable[str]) -> str:
    """End a message about an unknown word: with the one that was meant, else with all that there are."""
    known = sorted(set(known))
    if near := nearest(word, known):
        return near
    return f"; there are: {', '.join(known)}" if known else "; there are none"


def nearest(word: str, known: Iterable[str]) -> str:
    """End a message about an unknown word with the one that was meant, if one is near."""
    close = difflib.get_close_matches(word, sorted(set(known)), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
