"""What becomes of the grammars of a run: servers may refuse them, or take them and not heed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from guard.dialect.begin import begins
from guard.dialect.line import Level, rule_name
from guard.dialect.tree import Grammar, Rule
from guard.dialect.tree import Sequence as Parts
from guard.errors import UpstreamError, UpstreamStatusError
from guard.run.generation import Generation
from guard.run.messages import Target
from guard.run.progress import Progress

REFUSALS: Final = frozenset({400, 422})  # statuses of a request that a server does not understand
_LEVELS: Final = tuple(Level)


class Forcing:
    """The upstreams of one run, and what its generations on them are held to.

    `again` says whether a generation that is refused is asked for once more without its grammar.
    """

    def __init__(self, targets: Sequence[Target], *, again: bool) -> None:
        self.targets, self._again = tuple(targets), again
        self.level: Level | None = None  # the least that a generation was held to

    def opened(self, generation: Generation) -> None:
        """Note what a generation is held to."""
        if self.level is None or _LEVELS.index(generation.level) < _LEVELS.index(self.level):
            self.level = generation.level

    def refused(self, generation: Generation, error: UpstreamError) -> bool:
        """Say whether an error may be for the grammar alone; from here on its upstream gets none."""
        if not (
            self._again
            and generation.promised is not None
            and isinstance(error, UpstreamStatusError)
            and error.upstream_status in REFUSALS
            and not generation.characters
        ):
            return False
        name = self.targets[generation.upstream].name
        self.targets = tuple(
            replace(target, dialect=None) if target.name == name else target for target in self.targets
        )
        return True


def ignored(generation: Generation, progress: Progress) -> bool:
    """Say whether a generation has written what its grammar forbids. Where that is doubtful, it has not.

    Lines that were verified are taken for what the grammar would have had: only what comes behind them
    is looked at, as long as they stand in the grammar one after the other. Blanks in front, which servers
    and templates cut off and add, are passed over.
    """
    if generation.promised is None:
        return False
    grammar, text = _behind(generation, generation.promised(), progress)
    if generation.ended:  # behind its end the line's is read as well, which it need not have written
        text = text.removesuffix("\n")
    text = text.replace("\r\n", "\n")
    return not any(begins(grammar, said) for said in (text, text.lstrip(), f" {text.lstrip()}"))


def _behind(generation: Generation, grammar: Grammar, progress: Progress) -> tuple[Grammar, str]:
    """Give what may be written behind the lines that a generation has brought, and what was."""
    parts = grammar.start.parts if isinstance(grammar.start, Parts) else (grammar.start,)
    lines = [Rule(rule_name(line.step.path)) for line in progress.lines if line.by == generation.number]
    if lines and parts[0] == Rule("begin"):
        lines.insert(0, Rule("begin"))
    if not lines or parts[: len(lines)] != tuple(lines):
        return grammar, generation.text
    return Grammar(Parts(parts[len(lines) :]), grammar.rules), generation.text[generation.settled :]
