"""The answer of a model server, from bytes to pieces of text: a stream, or whatever came instead."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from guard.errors import (
    UpstreamBusy,
    UpstreamDenied,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
)
from guard.foreign import NOTHING, Said
from guard.run.faults import of_end
from guard.run.messages import Ended, Text, Usage
from guard.upstream.capabilities import Api
from guard.upstream.spoken import Echo, Spoken
from guard.wire import finish, sse
from guard.wire.chat import REASONING, SILENT, InBandError, Piece, WireUsage, read_piece
from guard.wire.lenient import Pairs
from guard.wire.responses import Events
from guard.wire.steps import Steps
from guard.wire.thinking import Thinking

MAX_BODY_BYTES: Final = 2 * 1024 * 1024  # of an answer in one piece: its JSON is read in one go
MAX_SILENT_BYTES: Final = 16 * 1024 * 1024  # in a row, in which nothing is said
MAX_SILENT_EVENTS: Final = 100_000
TURN: Final = 16 * 1024  # bytes that are read, and
SLICE: Final = 2048  # characters that are taken, until others may have their turn
BUSY: Final = frozenset({408, 409, 425, 429})  # statuses below 500 that may pass
DENIED: Final = frozenset({401, 402, 403, 407})  # that are about whoever's key was sent
UNTOLD: Final = 502  # the status of an error that names none

_CHARACTERS_PER_TOKEN: Final = 4


class AnswerReader:
    """Reads one answer. Sans-I/O: bytes go in, `Text` comes out, and the `Ended` at the close.

    Never raises: `fault` says what went wrong, after the pieces that were good. `over` says that no
    more need be read; `said` counts the chunks in which the model said something (a thought counts).
    `finish_reason`: of several the one that counts, which is the worst. Events that say nothing are passed
    over, up to a limit; only what is no JSON is a fault.
    `members`: the steps are asked for as members of a JSON object, and read back as lines. What is written
    into a tool that takes a text is read as if it was said. `api`: in which form the answer comes; `most`:
    how many tokens it may have.

    `reasoning`: fields that hold thoughts, beside the usual ones. Thoughts that the model writes in tags in
    front of its trace are taken out, too; not where it goes on from a `prefix`. `thinks`: it has begun with
    them, since the prompt ends with the opening tag.

    What a grammar says of an answer beside its text: that it is such an object, of so many members
    (`required`), that it is all written into a `tool`, that there are no thoughts (`thoughtless`). An answer
    that is otherwise has strayed.
    """

    def __init__(
        self,
        *,
        api: Api = Api.CHAT,
        most: int | None = None,
        prefix: str = "",
        prompt_tokens: int = 0,
        token_per_chunk: bool = False,
        members: bool = False,
        reasoning: tuple[str, ...] = (),
        thinks: bool = False,
        required: int = 0,
        tool: bool = False,
        thoughtless: bool = False,
    ) -> None:
        self.fault: UpstreamError | None = None
        self.over = False
        self.said = 0
        self.finish_reason: str | None = None
        self._decoder = sse.Decoder()
        self._body: bytearray | None = None  # of an answer that is no stream
        self._sniffed = False
        self._held = b""
        self._echo = Echo(prefix)
        self._steps = Steps() if members else None
        self._spoken = Spoken()
        self._musings = Pairs()
        self._silent = (0, 0)  # bytes and events since something was said
        self._prompt_tokens = prompt_tokens
        self._token_per_chunk = token_per_chunk
        self._tokens = 0
        self._unsaid = 0  # tokens of what is not told as text (yet)
        self._thinking = None if prefix else Thinking(begun=thinks)
        # The last event of a response says all that there is to say of its end.
        self._ends_itself = api is Api.RESPONSES
        self._most = most
        self._piece = (
            Events(reasoning).read
            if self._ends_itself
            else partial(read_piece, reasoning=(*reasoning, *REASONING))
        )
        self._thought_tokens = 0
        self._required, self._tool, self._thoughtless = required, tool, thoughtless
        self._thought = False
        self._usage: WireUsage | None = None
        self._new_usage = False  # whether it has not been told

    @property
    def finished(self) -> bool:
        """Whether the model is known to have ended by itself."""
        return self.over or self.finish_reason is not None

    def feed(self, data: bytes) -> list[Text]:
        """Take what arrived; give the text in it."""
        return [text for text in self.turns(data) if text is not None]

    def close(self) -> list[Text]:
        """The connection has ended: give the text that is left. `ended` or `fault` says how it went."""
        return [text for text in self.turns(None) if text is not None]

    def turns(self, data: bytes | None) -> Iterator[Text | None]:
        """Do as `feed` does, or as `close` where there is no data; a little at a time.

        None stands for work without a text: after each item others may have their turn.
        """
        if data is None:
            yield from self._closing()
            return
        for at in range(0, len(data), TURN):
            if self.over:
                return
            if at:
                yield None
            yield from self._part_of(data if len(data) <= TURN else data[at : at + TURN])

    def _part_of(self, data: bytes) -> Iterator[Text | None]:
        said, size = self.said, len(data)
        if not self._sniffed:
            data = self._sniff(data)
        if self._body is None:
            yield from self._read(self._decoder.feed(data))
            if self._decoder.overflowed:
                self._fail(f"a chunk is longer than {sse.MAX_EVENT_BYTES} bytes")
        else:
            self._body += data
            if len(self._body) > MAX_BODY_BYTES:
                self._fail(f"the answer is longer than {MAX_BODY_BYTES} bytes")
        self._listen(size, silent=self.said == said and self._body is None)

    def _listen(self, size: int, *, silent: bool) -> None:
        """Count what is read as long as nothing is said."""
        self._silent = (self._silent[0] + size, self._silent[1]) if silent else (0, 0)
        if self._silent[0] > MAX_SILENT_BYTES or self._silent[1] > MAX_SILENT_EVENTS:
            self._fail("it sends more and more, and says nothing")

    def _closing(self) -> Iterator[Text | None]:
        yield from self._read(self._decoder.close() if self._body is None else [bytes(self._body)])
        if self.fault is None and not self.finished:
            self._fail(self._why_unfinished())
        if not self.over:
            yield from self._end()
        elif self.fault is not None:
            yield from self._rest()

    def _end(self) -> Iterator[Text]:
        """Nothing more need be read: give what is left, and see whether it is the server that failed."""
        self.over = True
        yield from self._rest()
        fault = of_end(self.finish_reason)
        if fault is not None:
            self._fault(fault)

    def ended(self) -> Ended:
        """How the model ended, where there is no fault."""
        written = self._tokens + self._unsaid  # what was not told was paid for, too
        counted = Usage(
            prompt=self._prompt_tokens, completion=written, estimated=True, reasoning=self._thought_tokens
        )
        how = self._how()
        strayed = self._strayed or (finish.is_own(how) and not self._spoken.nothing and not self._whole)
        return Ended(how, _usage(self._usage) or counted, strayed=strayed)

    @property
    def _whole(self) -> bool:
        """Whether an answer that has ended has all that a grammar asks for."""
        members = self._steps.names if self._steps is not None else 0
        return self._spoken.called if self._tool else not self._required or members == self._required

    @property
    def _strayed(self) -> bool:
        """Whether what came so far has not the form that a grammar asks for."""
        return (
            (self._steps is not None and self._steps.odd)
            or (self._tool and self._spoken.aside)
            or (self._thoughtless and self._thought)
        )

    def _how(self) -> str | None:
        """Give the finish reason as it is for a text: a call that is whole is all that was asked for."""
        if self._steps is not None and self._steps.cut:
            return "length"  # within a member, whatever the server says
        own = finish.is_own(self.finish_reason, tool=self._calls)
        if self._ends_itself and own and self._full():
            return "length"  # llama.cpp calls it completed
        return "stop" if own else self.finish_reason

    @property
    def _calls(self) -> bool:
        """Whether a call is what the answer was to be."""
        return self._tool or self._spoken.called

    def _full(self) -> bool:
        written = None if self._usage is None else self._usage.completion_tokens
        return self._most is not None and written is not None and written >= self._most

    def _sniff(self, data: bytes) -> bytes:
        """See by its first character what this is: content types are often wrong."""
        data = (self._held + data).lstrip(b"\xef\xbb\xbf \t\r\n")
        if not data:
            return b""
        self._sniffed = True
        if data.startswith(b"{"):
            self._body = bytearray()
        elif data.startswith(b"<"):
            self._fail("a web page came instead of a stream", data)
        return data

    def _read(self, chunks: list[bytes]) -> Iterator[Text | None]:
        for chunk in chunks:
            if self.over:
                break
            if chunk == sse.DONE or chunk.strip() == sse.DONE:
                yield from self._end()
                break
            if not chunk.strip():
                continue
            match self._piece(chunk):
                case Piece() as piece:
                    yield from self._take(piece)
                    if self._ends_itself and self.finish_reason is not None:
                        yield from self._end()
                case InBandError() as error:
                    self._fault_of(error)
                case None:
                    known = "event of a response" if self._ends_itself else "chunk of a chat completion"
                    self._fail(f"something came that is no {known}", chunk)

    def _take(self, piece: Piece) -> Iterator[Text | None]:
        if not piece.text and piece == SILENT:
            self._silent = (self._silent[0], self._silent[1] + 1)
            return
        text = self._spoken.text(piece)
        self.finish_reason = finish.worse(self.finish_reason, piece.finish_reason, tool=self._calls)
        thought = self._musings.join(piece.thought)
        self._thought = self._thought or bool(piece.thought)
        self.said += bool(text or piece.thought or piece.finish_reason)
        yield from self._think(thought, self._count(len(thought)))
        yield from self._said(text[:SLICE], None if len(text) > SLICE else piece.usage)
        for at in range(SLICE, len(text), SLICE):
            yield None
            whole = at + SLICE >= len(text)
            yield from self._said(text[at : at + SLICE], piece.usage if whole else None)

    def _said(self, text: str, usage: WireUsage | None) -> list[Text]:
        """Take some of what is said; with the last of a chunk comes what the chunk tells of the usage."""
        if usage is not None:
            self._usage, self._new_usage = usage, True
        self._unsaid += self._count(len(text))
        text = self._echo.strip(text)
        return self._say(text) if self._thinking is None else self._part(self._thinking, text)

    def _part(self, thinking: Thinking, text: str) -> list[Text]:
        """Part what is said from what is thought, and the tokens in proportion."""
        thinks = thinking.active
        thought, said = thinking.feed(text)
        if thinking.over:
            self._thinking = None
        if thought or thinks or thinking.active:
            self._thought = True
            ours = len(thought) if said else 1  # what are tags only is thought, too
            tokens = self._unsaid * ours // (ours + len(said))
            self._unsaid -= tokens
            return [*self._think(thought, tokens), *self._say(said)]
        return self._say(said)

    def _think(self, thought: str, tokens: int) -> list[Text]:
        """Tell a thought, which is no text: a model that only thinks does not think for nothing."""
        self._thought_tokens += tokens
        return self._tell("", tokens, thought) if thought or tokens else []

    def _say(self, said: str, *, last: bool = False) -> list[Text]:
        """Tell what is said; of members of an object, the lines that they make."""
        text = said
        if self._steps is not None:
            text = self._steps.feed(said) + (self._steps.close() if last else "")
        if not text and (self._steps is None or not self._unsaid):
            return []
        tokens, self._unsaid = self._unsaid, 0
        return self._tell(text, tokens)

    def _tell(self, text: str, tokens: int, thought: str | None = None) -> list[Text]:
        self._tokens += tokens
        told = _usage(self._usage) if self._new_usage else None
        self._new_usage = False
        return [Text(text, tokens, usage=told, thought=thought, strayed=self._strayed)]

    def _rest(self) -> list[Text]:
        thinking, rest = self._thinking, self._echo.strip(self._spoken.close()) + self._echo.rest()
        thought = self._musings.close()
        if thinking is not None:
            (more, rest), (held_thought, held) = thinking.feed(rest), thinking.close()
            thought, rest = thought + more + held_thought, rest + held
        return [*self._think(thought, 0), *self._say(rest, last=True)]

    def _count(self, characters: int) -> int:
        if not characters:
            return 0
        return 1 if self._token_per_chunk else max(1, characters // _CHARACTERS_PER_TOKEN)

    def _why_unfinished(self) -> str:
        if not self._sniffed:
            return "the answer is empty"
        if self._decoder.cut:
            return "the answer broke off in the middle of a chunk"
        last = "its last event" if self._ends_itself else "a finish reason and without [DONE]"
        return f"the answer ended without {last}"

    def _fault_of(self, error: InBandError) -> None:
        self._fault(status_error(error.status or UNTOLD, "it reported an error", said=error.said))

    def _fail(self, message: str, foreign: bytes = b"") -> None:
        self._fault(UpstreamProtocolError(message, said=Said.of(foreign)))

    def _fault(self, error: UpstreamError) -> None:
        """Keep the first fault; nothing after it is read."""
        self.fault = self.fault or error
        self.over = True


def _usage(told: WireUsage | None) -> Usage | None:
    """What a server says that it has cost; None where it does not, or says that nothing was written."""
    if told is None or not told.completion_tokens:
        return None
    return Usage(
        prompt=told.prompt_tokens or 0,
        completion=told.completion_tokens,
        reasoning=min(told.reasoning_tokens or 0, told.completion_tokens),
    )


def status_error(
    status: int, message: str, *, said: Said = NOTHING, retry_after_s: float | None = None
) -> UpstreamStatusError:
    """The exception for an error status, where the key was the operator's."""
    kind = UpstreamStatusError
    if status >= 500 or status in BUSY:
        kind = UpstreamBusy
    elif status in DENIED:
        kind = UpstreamDenied
    return kind(message, upstream_status=status, said=said, retry_after_s=retry_after_s)
