"""Which endpoints do not generate: of those that nobody guards, a bound request reaches these only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote

_READ: Final = frozenset({"GET", "HEAD"})
_POST: Final = frozenset({"POST"})
_SEGMENT: Final = r"[\w.~:@%+-]+"

# Paths below `/v1`, literally: what is spelled in another way may be read in another way. An endpoint that is
# not here generates, as far as anybody knows.
_QUIET: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (rf"/models(/{_SEGMENT})*", _READ),
    (r"/embeddings", _POST),
    (r"/moderations", _POST),
    (r"/rerank", _POST),
    (r"/score", _POST),
    (r"/tokenize", _POST),
    (r"/detokenize", _POST),
    (r"/files", _READ | _POST),
    (rf"/files/{_SEGMENT}", _READ | {"DELETE"}),
    (rf"/files/{_SEGMENT}/content", _READ),
)
_PATTERNS: Final = tuple((re.compile(path, re.ASCII), methods) for path, methods in _QUIET)

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})  # that are passed on

_NAMED_IN_PATH: Final = re.compile(r"/(?:models|engines|deployments)/([^/?#:]+)")


def is_quiet(method: str, path: str) -> bool:
    """Whether an endpoint is known not to generate. `path` follows `/v1`, as it came, with its query."""
    plain = path.partition("?")[0]
    return any(pattern.fullmatch(plain) and method in methods for pattern, methods in _PATTERNS)


def models_named(raw: Mapping[str, Any], path: str) -> Iterator[str]:
    """Give the models that a request names: in its body, in the query and in the path."""
    plain, _, query = path.partition("?")
    yield str(raw.get("model") or "")
    yield from parse_qs(query, max_num_fields=None).get("model", ())
    yield from map(unquote, _NAMED_IN_PATH.findall(plain))
