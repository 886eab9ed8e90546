"""What was seen of a model: how often it was right at what, what its server can do, how fast it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from guard.bench.tasks import DECIDED, Skill
from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.run.policy import ForceBy
from guard.upstream.abilities import Ability


class Way(StrEnum):
    """How a line came to be written."""

    FIRST = "first"  # the first time
    RETRY = "retry"  # again from the same verified prefix, varied, after a wrong one
    SCAFFOLD = "scaffold"  # the same with its operands given


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A line that the model wrote. `kind` is what was wrong with it, None where nothing was found to be."""

    skill: Skill
    way: Way
    right: bool
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of so many."""

    right: int = 0
    of: int = 0

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.right + other.right, self.of + other.of)

    @property
    def share(self) -> float | None:
        """The share that was seen; None where nothing was."""
        return self.right / self.of if self.of else None

    @property
    def estimate(self) -> float:
        """The share to go by: half a right one and half a wrong one are added, since few were seen."""
        return (self.right + 0.5) / (self.of + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a server can do. `bad_grammar` is what it makes of a grammar that is none."""

    prefill: Ability
    grammar: Ability
    bad_grammar: Ability
    stream_options: Ability


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen with so much of each line given to the model, and how: by a grammar, or line by line."""

    level: Level
    tries: tuple[Try, ...]
    by: ForceBy = ForceBy.GRAMMAR

    @property
    def name(self) -> str:
        """The level, and how, where that is not by a grammar."""
        return f"{self.level.value} by lines" if self.by is ForceBy.LINES else self.level.value

    def rate(self, way: Way, skills: Iterable[Skill] = Skill) -> Rate:
        """Count the lines that were right, of those that were written in a way."""
        wanted = frozenset(skills)
        found = [one.right for one in self.tries if one.way is way and one.skill in wanted]
        return Rate(sum(found), len(found))

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The kinds of lines that were seen, those that can be computed first."""
        seen = {one.skill for one in self.tries}
        return tuple(sorted(seen, key=lambda skill: (skill in DECIDED, list(Skill).index(skill))))

    @property
    def computed(self) -> tuple[Skill, ...]:
        """Those of them that can be computed."""
        return tuple(skill for skill in self.skills if skill not in DECIDED)

    @property
    def in_format(self) -> Rate:
        """The lines that were lines of a trace, right or wrong."""
        broken = {Kind.MALFORMED, Kind.LIMIT_EXCEEDED, Kind.RUNAWAY}
        return Rate(sum(one.kind not in broken for one in self.tries), len(self.tries))

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """How often which kind of mistake was found."""
        return Counter(one.kind for one in self.tries if one.kind is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that was seen of one model on one upstream.

    `seen` has the levels in the order in which they were tried. `first_s` is the mean time to a first token,
    `tokens_per_s` how many come then, `line_tokens` the mean length of a line. `requests` and `tokens`
    (of output) are what the measuring took.
    """

    upstream: str
    model: str
    abilities: Abilities
    seen: tuple[Seen, ...]
    first_s: float
    tokens_per_s: float
    line_tokens: int
    requests: int = 0
    tokens: int = 0
    prefill: bool = True  # whether the upstream's kind continues a prefix
