"""YAML of others, whose nesting is looked at while it is read: what is nested too deeply costs no more."""

from __future__ import annotations

from typing import Final

import yaml

MAX_DEPTH: Final = 50  # lists and mappings one within the other


class FlatLoader(yaml.SafeLoader):
    """Reads YAML. Raises `RecursionError`, as for an alias within itself, where it is nested too deeply."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Make the node that begins here, with all in it."""
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:  # the innermost value stands in the innermost list
            raise RecursionError
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node
