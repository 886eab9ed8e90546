"""Which headers go on to the other side: never those of a connection, credentials where they are meant to."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

Headers = tuple[tuple[str, str], ...]

# Headers that belong to one connection (RFC 9110, section 7.6.1), or that we set ourselves.
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        "host",
        "expect",
    }
)
_OURS: Final = "x-stepguard"

# What a client may tell an upstream that has a key of its own. All else might be a credential of some
# spelling (`cookie`, `x-api-key`, `x-vault-token`, ...), and nobody can list those; so this is the list.
# `*` stands for any characters.
FORWARDED: Final = (
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "cache-control",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "digest",
    "dnt",
    "http-referer",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "origin",
    "pragma",
    "prefer",
    "priority",
    "range",
    "referer",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-client-request-id",
    "x-correlation-id",
    "x-request-id",
    "x-stainless-*",
    "x-title",
)


def end_to_end(headers: Iterable[tuple[str, str]], *drop: str) -> Headers:
    """Give the headers without those of the connection, those named, and any that could be taken for ours.

    `drop` are names in lower case.
    """
    pairs = [(name, value) for name, value in headers]
    named = {
        token.strip().lower()
        for name, value in pairs
        if name.lower() == "connection"
        for token in value.split(",")
    }
    gone = _HOP_BY_HOP | named | set(drop)
    return tuple(
        (name, value)
        for name, value in pairs
        if name.lower() not in gone and not name.lower().startswith(_OURS)
    )


def without_credentials(headers: Iterable[tuple[str, str]], allowed: Iterable[str] = ()) -> Headers:
    """Give those headers of a client that an upstream may see which has a key of its own.

    These are the ones of `FORWARDED` and of `allowed`, both names in lower case in which `*` stands for any
    characters.
    """
    patterns = (*FORWARDED, *allowed)
    return tuple(
        (name, value)
        for name, value in headers
        if any(fnmatchcase(name.lower(), pattern) for pattern in patterns)
    )
