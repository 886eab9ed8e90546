"""Where each key of the operator's file stands: the lines of its YAML nodes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from guard.errors import ConfigError

Problem = tuple[str, str]  # path of the key, what is wrong

_INDEX = re.compile(r"\[([0-9]+)\]")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """The nodes of a file that was read; without one, of no file.

    `folded` are the offsets in the text that was read at which variables of several lines stood, each with
    the number of line ends that it had.
    """

    file: str = ""
    root: yaml.Node | None = None
    folded: tuple[tuple[int, int], ...] = ()

    def line(self, key: str) -> int | None:
        """Give the line of a key, or of the nearest one around it that is there; None where none is.

        What an alias or a merge brings has the line that it was written on.
        """
        node, mark, rest = self.root, None, key
        while node is not None and rest:
            step = _step(node, rest)
            if step is None:
                break
            node, mark, rest = step
        return None if mark is None else self.of_mark(mark)

    def of_mark(self, mark: yaml.Mark) -> int:
        """Give the line of the file that a place in the text that was read stands on."""
        before = bisect_right(self.folded, (mark.index, 0))
        return mark.line + 1 + sum(lines for _, lines in self.folded[:before])

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        """Make one error of all problems, in the order of their lines."""
        lines = [self.line(key) for key, _ in problems]
        order = sorted(range(len(problems)), key=lambda index: lines[index] or 0)
        return ConfigError(
            [problems[index] for index in order], file=self.file, lines=[lines[index] for index in order]
        )


def _step(node: yaml.Node, path: str) -> tuple[yaml.Node, yaml.Mark, str] | None:
    """Go one key down; gives the value's node, where the key stands, and what is left of the path."""
    match node:
        case yaml.MappingNode():
            word = path.removeprefix(".")
            fitting = [
                (key, value)
                for key, value in reversed(node.value)  # what is merged in stands first
                if isinstance(key, yaml.ScalarNode) and key.value and _begins(word, key.value)
            ]
            if not fitting:
                return None
            key, value = max(fitting, key=lambda pair: len(pair[0].value))
            return value, key.start_mark, word[len(key.value) :]
        case yaml.SequenceNode():
            index = _INDEX.match(path)
            if index is None or int(index[1]) >= len(node.value):
                return None
            item = node.value[int(index[1])]
            return item, item.start_mark, path[index.end() :]
        case _:
            return None


def _begins(path: str, key: str) -> bool:
    return path.startswith(key) and path[len(key) : len(key) + 1] in {"", ".", "["}
