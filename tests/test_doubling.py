"""Every reader of foreign text takes time in proportion to its length: twice the text, twice the time.

Texts are a few atoms again and again: those that are known to be hard, and some that are drawn. Four times the
text may take ten times the time, where linear is four and quadratic sixteen; processor time counts, the best of
several tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import orjson
import pytest

from guard.check.checker import Checker
from guard.check.quotes import Sources
from guard.errors import RequestError
from guard.foreign import Sink
from guard.procedure.expected import Decision
from guard.procedure.load import load
from guard.procedure.model import Quoting
from guard.procedure.normal import normal
from guard.procedure.types import IntType
from guard.trace.freeform import read_freely
from guard.upstream.capabilities import Api
from guard.upstream.reading import AnswerReader
from guard.wire import sse
from guard.wire.body import read_exactly, read_object
from guard.wire.chat import Envelope
from guard.wire.lenient import read_json
from guard.wire.members import edited
from guard.wire.thinking import Thinking

PROGRAM = load("procedure p(note: text) -> int\n  extract n: int from note quote\n  return n\n").procedures[
    "p"
]
ENVELOPE = Envelope(id="1", model="m", created=0)
ONCE_S = 0.02  # less than this is too little to tell
MOST = 10.0  # times the time for four times the text
TRIES = 4
DRAWN = 12  # texts for each reader
PIECE = 16 * 1024  # bytes or characters that come at once


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PIECE] for at in range(0, len(data), PIECE))


def body(text: str) -> None:
    data = orjson.dumps({"messages": [{"role": "user", "content": text}], "stepguard": {}})
    read_object(data)
    read_exactly(data)
    edited(data, without="stepguard")


def written(text: str) -> None:
    with suppress(RequestError):
        read_object(text.encode())


def answered(data: bytes, **how: object) -> None:
    reader = AnswerReader(**how)  # type: ignore[arg-type]
    for piece in pieces(data):
        reader.feed(piece)
    reader.close()


def streamed(text: str, **how: object) -> None:
    """Read a stream whose events have 100 characters each."""
    parts = [ENVELOPE.content(text[at : at + 100]) for at in range(0, len(text), 100)]
    answered(b"".join(map(sse.encode, [*parts, ENVELOPE.finish("stop"), sse.DONE])), **how)


def responded(text: str) -> None:
    parts = [
        orjson.dumps({"type": "response.output_text.delta", "delta": text[at : at + 100], "content_index": 0})
        for at in range(0, len(text), 100)
    ]
    answered(b"".join(map(sse.encode, parts)), api=Api.RESPONSES)


def decoded(text: str) -> None:
    decoder = sse.Decoder()
    for piece in pieces(text.encode()):
        decoder.feed(piece)
    decoder.close()


def thought(text: str) -> None:
    thinking = Thinking()
    for at in range(0, len(text), 100):
        thinking.feed(text[at : at + 100])
    thinking.close()


def traced(text: str) -> None:
    """Read lines of a trace of which none ends the run."""
    checker = Checker(PROGRAM, {"note": "a note"}, nonce="abcdef", stop_at_first=False)
    checker.feed("@begin p abcdef\n")
    for at in range(0, len(text), 512):
        checker.feed(text[at : at + 512])
    checker.close()


def quoted(text: str) -> None:
    decision = Decision(
        type=IntType(), sources=(("note", text),), quote=Quoting.SUPPORTING, admissible=lambda _: None
    )
    Sources().doubt(decision, 7, [text[:4_000].strip(), *[text[:9].strip()] * 90])


READERS: dict[str, tuple[Callable[[str], object], int]] = {
    "a request with a text": (body, 400_000),
    "a request as it is written": (written, 400_000),
    "events": (decoded, 200_000),
    "a stream": (streamed, 40_000),
    "a stream of members": (lambda text: streamed(text, members=True), 40_000),
    "a whole answer": (lambda text: answered(ENVELOPE.completion(text)), 100_000),
    "bytes for an answer": (lambda text: answered(text.encode()), 100_000),
    "an answer of responses": (responded, 40_000),
    "thoughts": (thought, 40_000),
    "a trace": (traced, 4_000),
    "free text": (lambda text: read_freely(text, PROGRAM), 4_000),
    "quotes": (quoted, 100_000),
    "JSON": (lambda text: read_json(text.encode()), 100_000),
    "a normal form": (normal, 200_000),
    "text for people": (Sink(["sk-0123456789abcdef"]).redacted, 8_000),
}
ATOMS = (
    *"\n \t,.:;=+-*/()[]{}<>\"'\\|#$%&_`~0159ab",
    *("\u0301", "\u0316", "\u00e4", "\u6f22", "\U0001f600", "\u2212", "\\u0041", "%41"),
    *("<think>", "</think>", "answer: ", "\\boxed{", "1 n = ", ' <- "', "step 1", "```", "data: ", "\n\n"),
    *('{"a":', "[1,", "sk-0123456789abcde", "@begin p abcdef\n", "return ", "one hundred "),
)
HARD = (
    "a\u0301",
    "ab\n",
    "\n",
    "1",
    "b = ",
    "1+1=2 ",
    "<think>\n</think>\n",
    "{",
    "\\",
    '"',
    ' <- "ab"',
    "5 ",
)


def best(act: Callable[[str], object], text: str, tries: int = 2) -> float:
    """Give the least processor time that something takes."""
    found = float("inf")
    for _ in range(tries):
        before = time.process_time()
        act(text)
        found = min(found, time.process_time() - before)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_no_ten_times_as_long(reader: str) -> None:
    act, length = READERS[reader]
    random = Random(reader)
    units = [*HARD, *("".join(random.choices(ATOMS, k=random.randint(1, 4))) for _ in range(DRAWN))]
    for unit in units:
        short, long = (unit * (size // len(unit)) for size in (length, 4 * length))
        for _ in range(TRIES):
            took = best(act, long)
            if took < ONCE_S or took < MOST * best(act, short):
                break
        else:
            pytest.fail(f"{unit!r} again and again")
