"""Whether a quote stands in its source: NFC, runs of white space as one space, case kept."""

from __future__ import annotations

from unicodedata import normalize

from guard.procedure.expected import Decision


class Sources:
    """The texts of one run, normalised when they are first asked about."""

    __slots__ = ("_normal",)

    def __init__(self) -> None:
        self._normal: dict[str, str] = {}

    def has(self, decision: Decision, quote: str) -> bool:
        """Whether one of a decision's sources contains the quote. Nothing is no quote."""
        wanted = _normal(quote)
        return bool(wanted) and any(wanted in self._text(name, text) for name, text in decision.sources)

    def _text(self, name: str, text: str) -> str:
        if name not in self._normal:
            self._normal[name] = _normal(text)
        return self._normal[name]


def _normal(text: str) -> str:
    return " ".join(normalize("NFC", text).split())
