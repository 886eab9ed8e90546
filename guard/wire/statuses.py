"""The HTTP status that an error stands for where it comes as data: as a number, a code or a kind of error."""

from __future__ import annotations

from typing import Final

# By the names that servers have for them, without case, blanks, `_` and a last `error`. What is wrong with
# the request is wrong the next time, too.
_NAMED: Final = {
    "invalidrequest": 400,
    "badrequest": 400,
    "invalidargument": 400,
    "contextlengthexceeded": 400,
    "exceedcontextsize": 400,
    "dataresidencymismatch": 400,
    "unprocessableentity": 422,
    "authentication": 401,
    "unauthorized": 401,
    "unauthenticated": 401,
    "permission": 403,
    "permissiondenied": 403,
    "forbidden": 403,
    "notfound": 404,
    "ratelimit": 429,
    "ratelimitexceeded": 429,
    "toomanyrequests": 429,
    "insufficientquota": 429,
    "resourceexhausted": 429,
    "server": 500,
    "internalserver": 500,
    "overloaded": 503,
    "unavailable": 503,
    "serviceunavailable": 503,
    "vectorstoretimeout": 504,
}


def status_of(*told: object) -> int | None:
    """Give the first status that one of these stands for; None where none does."""
    for value in told:
        found = _named(value) if isinstance(value, str) else value
        if isinstance(found, int) and 400 <= found <= 599:
            return found
    return None


def _named(value: str) -> int | None:
    if value.isascii() and value.isdecimal() and len(value) == 3:
        return int(value)
    letters = "".join(letter for letter in value[:80].lower() if letter.isalnum())
    return _NAMED.get(letters.removesuffix("error"))
