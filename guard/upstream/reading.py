"""The answer of a model server, from bytes to pieces of text: a stream, or whatever came instead."""

from __future__ import annotations

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
from guard.run.messages import Ended, Text, Usage
from guard.upstream.capabilities import Api
from guard.wire import sse
from guard.wire.apart import Apart
from guard.wire.chat import REASONING, InBandError, Piece, WireUsage, read_piece
from guard.wire.responses import Events
from guard.wire.steps import Steps
from guard.wire.thinking import Thinking

MAX_BODY_BYTES: Final = 8 * 1024 * 1024  # of an answer in one piece
BUSY: Final = frozenset({408, 409, 425, 429})  # statuses below 500 that may pass
DENIED: Final = frozenset({401, 402, 403, 407})  # that are about whoever's key was sent
UNTOLD: Final = 502  # the status of an error that names none

_CHARACTERS_PER_TOKEN: Final = 4


class AnswerReader:
    """Reads one answer. Sans-I/O: bytes go in, `Text` comes out, and the `Ended` at the close.

    Never raises: `fault` says what went wrong, behind the pieces that were good. `over` says that no
    more need be read; `said` counts the chunks in which the model said something (a thought counts).
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
        self._echo = _Echo(prefix)
        self._steps = Steps() if members else None
        self._spoken = _Spoken()
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
        if not self._sniffed:
            data = self._sniff(data)
        if self._body is not None:
            self._body += data
            if len(self._body) > MAX_BODY_BYTES:
                self._fail(f"the answer is longer than {MAX_BODY_BYTES} bytes")
            return []
        texts = self._read(self._decoder.feed(data))
        if self._decoder.overflowed:
            self._fail(f"a chunk is longer than {sse.MAX_EVENT_BYTES} bytes")
        return texts

    def close(self) -> list[Text]:
        """The connection has ended: give the text that is left. `ended` or `fault` says how it went."""
        texts = self._read(self._decoder.close() if self._body is None else [bytes(self._body)])
        if self.fault is None and not self.finished:
            self._fail(self._why_unfinished())
        self.over = True
        return [*texts, *self._rest()]

    def ended(self) -> Ended:
        """How the model ended, where there is no fault."""
        written = self._tokens + self._unsaid  # what was not told was paid for, too
        counted = Usage(
            prompt=self._prompt_tokens, completion=written, estimated=True, reasoning=self._thought_tokens
        )
        how = self._how()
        strayed = self._strayed or (how == "stop" and not self._spoken.nothing and not self._whole)
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
        if self._ends_itself and self.finish_reason == "stop" and self._full():
            return "length"  # llama.cpp calls it completed
        return "stop" if self._spoken.called and self.finish_reason == "tool_calls" else self.finish_reason

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

    def _read(self, chunks: list[bytes]) -> list[Text]:
        texts: list[Text] = []
        for chunk in chunks:
            if self.over:
                break
            if chunk == sse.DONE:
                self.over = True
                texts += self._rest()
                break
            match self._piece(chunk):
                case Piece() as piece:
                    texts += self._take(piece)
                    if self._ends_itself and self.finish_reason is not None:
                        self.over = True
                        texts += self._rest()
                case InBandError() as error:
                    self._fault_of(error)
                case None:
                    known = "event of a response" if self._ends_itself else "chunk of a chat completion"
                    self._fail(f"something came that is no {known}", chunk)
        return texts

    def _take(self, piece: Piece) -> list[Text]:
        self.finish_reason = piece.finish_reason or self.finish_reason
        if piece.usage is not None:
            self._usage, self._new_usage = piece.usage, True
        text = self._spoken.text(piece)
        self._thought = self._thought or bool(piece.thought)
        self.said += bool(text or piece.thought or piece.finish_reason)
        thoughts = self._think(piece.thought, self._count(len(piece.thought)))
        self._unsaid += self._count(len(text))
        text = self._echo.strip(text)
        return [*thoughts, *(self._say(text) if self._thinking is None else self._part(self._thinking, text))]

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
        thinking, rest = self._thinking, self._echo.rest()
        thought = ""
        if thinking is not None:
            (thought, rest), (held_thought, held) = thinking.feed(rest), thinking.close()
            thought, rest = thought + held_thought, rest + held
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
        """Keep the first fault; nothing behind it is read."""
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


class _Spoken:
    """Puts what is said and what is written into tools into one text, each on lines of its own."""

    def __init__(self) -> None:
        self.called = False
        self.aside = False  # whether something was said
        self._places = Apart()  # calls that it was written into, None: it was said

    @property
    def nothing(self) -> bool:
        """Whether there was no text at all: a refusal has a field of its own."""
        return self._places.nothing

    def text(self, piece: Piece) -> str:
        """Give what a piece adds."""
        said = self._places.join(None, piece.text)
        self.aside = self.aside or bool(piece.text.strip())
        for call, text in piece.inputs:
            self.called = True
            said += self._places.join(call, text)
        return said


class _Echo:
    """Takes away a prefix that a server repeats before it goes on."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen = ""

    def strip(self, text: str) -> str:
        if not self._prefix:
            return text
        self._seen += text
        if len(self._seen) < len(self._prefix) and self._prefix.startswith(self._seen):
            return ""
        said = self._seen.removeprefix(self._prefix)
        self._prefix = self._seen = ""
        return said

    def rest(self) -> str:
        """What looked like the beginning of an echo and was none."""
        rest, self._prefix, self._seen = self._seen, "", ""
        return rest


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
