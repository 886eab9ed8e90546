"""What a policy takes over from the one that it extends, in the values of the file.

Only keys that a policy does not write are taken over, each as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guard.config.words import suggestion

DEFAULT_POLICY: Final = "default"
MAX_CHAIN: Final = 20  # policies that extend each other in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """The policies with all that counts for each, and what is wrong between them."""

    policies: Mapping[str, Any]
    problems: Sequence[tuple[str, str]]


def inherit(policies: Mapping[str, Any]) -> Inherited:
    """Complete each policy by what it takes over. `default` is the built-in one where the file has none."""
    problems: list[tuple[str, str]] = []
    whole: dict[str, Any] = {}
    for name, written in policies.items():
        chain = list(_chain(policies, name))
        key = f"policies.{name}.extends"
        last = _parent(policies, chain[-1])
        if last == name:
            problems.append((key, f"a policy cannot extend itself: {' -> '.join((*chain, name))}"))
        elif len(chain) > MAX_CHAIN:
            problems.append((key, f"more than {MAX_CHAIN} policies extend each other in a row"))
        elif len(chain) == 1 and last is not None and last not in {DEFAULT_POLICY, *policies}:
            known = {DEFAULT_POLICY, *policies} - {name}
            problems.append((key, f"there is no policy {last!r}{suggestion(last, known)}"))
        above = [policies[parent] for parent in reversed(chain) if isinstance(policies[parent], dict)]
        merged = {key: value for each in above for key, value in each.items()}
        whole[name] = merged if isinstance(written, dict) else written
    return Inherited(policies=whole, problems=problems)


def _chain(policies: Mapping[str, Any], name: str) -> Iterator[str]:
    """Each policy from one upwards, once."""
    seen: set[str] = set()
    at: str | None = name
    while at is not None and at in policies and at not in seen and len(seen) <= MAX_CHAIN:
        yield at
        seen.add(at)
        at = _parent(policies, at)


def _parent(policies: Mapping[str, Any], name: str) -> str | None:
    written = policies[name]
    parent = written.get("extends") if isinstance(written, dict) else None
    return parent if isinstance(parent, str) else None
