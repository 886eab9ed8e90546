"""The exception tree: everybody's mistakes but the model's.

A model's mistake is a `guard.check.verdict.Violation`, which is data. Exceptions belong to

    GuardError
    ├─ ProcedureError       the author of a procedure (many problems, each with place and caret)
    ├─ ConfigError          the operator
    ├─ RequestError         the client
    │  └─ ConversationError
    ├─ UpstreamError        the network and the model server
    │  ├─ UpstreamConnectError
    │  ├─ UpstreamTimeout
    │  │  └─ UpstreamConnectTimeout
    │  ├─ UpstreamStatusError
    │  │  ├─ UpstreamBusy
    │  │  ├─ UpstreamDenied
    │  │  └─ UnreadableGrammar
    │  ├─ UpstreamProtocolError
    │  └─ UpstreamSpared
    └─ InvalidState         ourselves

Each class says which HTTP `status` it is answered with and whether the same request may succeed
when it is sent again (`retryable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from guard.foreign import NOTHING, Said

TOLD_ON: Final = frozenset({500, 502, 503, 504, 529})  # statuses of an upstream's own trouble


class GuardError(Exception):
    """The root; never raised itself."""

    status: ClassVar[int]
    retryable: ClassVar[bool]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a text somebody wrote.

    `line` and `column` count from 1, columns in characters. `snippet` is the line with a caret
    below it, empty where there is no text to show. `help` says what to write instead.
    """

    file: str
    line: int
    column: int
    message: str
    help: str = ""
    snippet: str = ""
    severity: str = "error"

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"]
        if self.snippet:
            parts.append(self.snippet)
        if self.help:
            parts.append(f"  help: {self.help}")
        return "\n".join(parts)


class ProcedureError(GuardError):
    """A procedure cannot be compiled. `problems` has all errors, in the order of the text.

    `warnings` are beside them; half of those come from the errors.
    """

    status = 500
    retryable = False

    def __init__(self, problems: Sequence[Problem], warnings: Sequence[Problem] = ()) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)


class ConfigError(GuardError):
    """The configuration cannot be used. `problems` are (path of the key, what is wrong) pairs.

    `lines` are those of the file that the problems are about, None where one has none.
    """

    status = 500
    retryable = False

    def __init__(
        self, problems: Sequence[tuple[str, str]], *, file: str = "", lines: Sequence[int | None] = ()
    ) -> None:
        self.problems = tuple(problems)
        self.file = file
        self.lines = tuple(lines) or (None,) * len(self.problems)
        places = (
            ": ".join(filter(None, (file if line is None else f"{file}:{line}", *problem)))
            for line, problem in zip(self.lines, self.problems, strict=True)
        )
        super().__init__("\n".join(places))


class RequestError(GuardError):
    """The client asked for something that cannot be done. Answered as OpenAI's error object."""

    status = 400
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str = "invalid_request",
        status: int = 400,
        type: str = "invalid_request_error",  # noqa: A002 (the name of the wire field)
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.code, self.type = message, param, code, type
        self.http_status = status


class ConversationError(RequestError):
    """A procedure with tool steps was to be run: they are read, checked and shown, but not run yet."""

    def __init__(self, procedure: str, steps: Sequence[str]) -> None:
        listed = ", ".join(steps[:5]) + (", ..." if len(steps) > 5 else "")
        message = (
            f"procedure {procedure!r} has steps that call tools, confirm or say (step {listed}): it can be "
            "linted and shown, but running such procedures over a conversation is not possible yet"
        )
        super().__init__(message, code="conversation_procedure")


class UpstreamError(GuardError):
    """The model server could not be used.

    `message` is ours and holds no word of the server's, nor what else came from outside: that is `said`.
    `retry_after_s` is what the server asked for, if it did.
    """

    status = 502
    retryable = True
    code: ClassVar[str] = "upstream_error"

    def __init__(self, message: str, *, said: Said = NOTHING, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message, self.said = message, said
        self.retry_after_s = retry_after_s

    @property
    def http_status(self) -> int:
        """The status that a client is answered with."""
        return self.status


class UpstreamConnectError(UpstreamError):
    """No connection: refused, unreachable, name not found, TLS."""

    status = 502
    retryable = True
    code = "upstream_connect_error"


class UpstreamTimeout(UpstreamError):  # noqa: N818 (a word that says enough)
    """Nothing came for too long."""

    status = 504
    retryable = True
    code = "upstream_timeout"


class UpstreamConnectTimeout(UpstreamTimeout):
    """There was no connection in time: nothing was asked."""


class UpstreamStatusError(UpstreamError):
    """The server answered with an error status, which clients get where they can do something about it."""

    status = 502
    retryable = False
    code = "upstream_status"

    def __init__(
        self,
        message: str,
        *,
        upstream_status: int,
        said: Said = NOTHING,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, said=said, retry_after_s=retry_after_s)
        self.upstream_status = upstream_status

    @property
    def http_status(self) -> int:
        """The server's status where it is one of the client's, or says how long the trouble may last."""
        known = 400 <= self.upstream_status < 500 or self.upstream_status in TOLD_ON
        return self.upstream_status if known else self.status


class UpstreamDenied(UpstreamStatusError):  # noqa: N818 (a word that says enough)
    """The server does not serve the operator: it refuses the configured key, or wants to be paid."""

    code = "upstream_denied"

    @property
    def http_status(self) -> int:
        """Not the server's status, which would tell the client that its own key is wrong."""
        return self.status


class UpstreamBusy(UpstreamStatusError):  # noqa: N818 (same)
    """The server answered with a status that may pass: 408, 409, 425, 429 and 5xx."""

    retryable = True
    code = "upstream_busy"


class UnreadableGrammar(UpstreamStatusError):  # noqa: N818 (no error of the server's: it was not asked)
    """The server was not asked: it would refuse a grammar that cannot be read."""


class UpstreamProtocolError(UpstreamError):
    """The server answered something that is not the protocol: HTML, broken JSON, cut lines."""

    status = 502
    retryable = True
    code = "upstream_protocol_error"


class UpstreamSpared(UpstreamError):  # noqa: N818 (no error of the server's: it was not asked)
    """The server was not asked, since it fails or had enough retries. `reason` is a label of metrics."""

    status = 503
    retryable = False
    code = "upstream_spared"

    def __init__(self, message: str, *, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.reason = reason


class InvalidState(GuardError, AssertionError):  # noqa: N818 (a state, like asyncio's)
    """A core object was used against its contract: a bug of ours."""

    status = 500
    retryable = False
