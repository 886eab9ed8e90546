"""A model server that puts a word into any one place of its answer that a server can fill: drawn, not listed.

plant = draw(random, word)      where it is, in words, and how to answer so
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from tests.upstream.servers import chunked, event, whole

Answer = Callable[[str], list[bytes]]  # of the request's nonce

CHAIN = """\
1 s1 = 2 + 3 = 5
2 s2 = 5 * 3 = 15
3 s3 = 15 - 2 = 13
4 s4 = 13 + 5 = 18
5 s5 = 18 - 3 = 15
6 if 15 > 100 = false
7.1 s6 = 15 + 15 = 30
8 s7 = 30 + 13 = 43
9 return 43 - 5 = 38
"""
STATUSES = (
    "400 Bad",
    "401 No",
    "403 No",
    "404 Gone",
    "413 Big",
    "422 Odd",
    "429 Slow",
    "500 Oops",
    "503 Busy",
    "302 See",
)
HEADERS = (
    "X-Word", "Server", "Set-Cookie", "Retry-After", "Retry-After-Ms", "Content-Type", "X-Request-Id", "Location", "Date",
    "X-Stepguard-Outcome", "X-Stepguard-Upstream", "Www-Authenticate", "OpenAI-Model",
)  # fmt: skip
ERRORS = ("message", "type", "code", "param", "detail", "reason", "stack")


def lines(nonce: str) -> list[str]:
    return [f"@begin chain {nonce}\n", *CHAIN.splitlines(keepends=True), f"@end {nonce}\n"]


def chunk(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def stream(chunks: list[Any], headers: tuple[str, ...] = (), status: str = "200 OK") -> list[bytes]:
    head = [f"HTTP/1.1 {status}", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", *headers]
    pieces = [chunked(one if isinstance(one, bytes) else event(one)) for one in chunks]
    return [("\r\n".join(head) + "\r\n\r\n").encode(), *pieces, chunked(event(b"[DONE]")), b"0\r\n\r\n"]


def trace(nonce: str, cut: int | None = None) -> list[Any]:
    """The chunks of a right trace, up to a line."""
    said = [chunk(line) for line in lines(nonce)[:cut]]
    return said if cut is not None else [*said, chunk("", "stop")]


def draw(rng: Random, word: str) -> tuple[str, Answer]:
    """Give where a word is, and the answer that has it there."""
    return rng.choice(PLACES)(rng, word)


def draw_text(rng: Random, word: str) -> tuple[str, Answer]:
    """The same, where the word is something that the model says."""
    return _in_the_text(rng, word)


def _in_an_error_status(rng: Random, word: str) -> tuple[str, Answer]:
    status, told = rng.choice(STATUSES), _error(rng, word)
    return f"{status}: {told}", lambda _: [whole(status, json.dumps(told).encode())]


def _in_a_bare_error_body(rng: Random, word: str) -> tuple[str, Answer]:
    status, body = (
        rng.choice(STATUSES),
        rng.choice(["{}", "<html>{}</html>", '"{}"', '["{}"]', "Traceback: {}"]),
    )
    return f"{status}: {body}", lambda _: [whole(status, body.replace("{}", word).encode())]


def _in_the_reason_phrase(rng: Random, word: str) -> tuple[str, Answer]:
    status = rng.choice(STATUSES)[:3]
    return f"reason of {status}", lambda _: [whole(f"{status} {word}", b"{}")]


def _in_a_header(rng: Random, word: str) -> tuple[str, Answer]:
    name, status = rng.choice(HEADERS), rng.choice(STATUSES)
    if rng.random() < 0.5:
        return f"header {name} of {status}", lambda _: [whole(status, b"{}", f"{name}: {word}")]
    return f"header {name}", lambda nonce: stream(trace(nonce), (f"{name}: {word}",))


def _in_what_is_no_http(rng: Random, word: str) -> tuple[str, Answer]:
    raw = rng.choice(
        [
            f"HTTP/1.1 200 OK\r\n{word}\r\n\r\n",
            f"HTTP/1.1 {word}\r\n\r\n",
            f"{word} 200 OK\r\n\r\n",
            f"HTTP/1.1 200 OK\r\nContent-Length: {word}\r\n\r\n",
            f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{word}\r\nx\r\n",
            f"HTTP/1.1 200 OK\r\nX-A: b\r\n {word}: \x00\r\n\r\n",
        ]
    )
    return f"no HTTP: {raw!r}", lambda _: [raw.encode()]


def _in_an_error_in_the_stream(rng: Random, word: str) -> tuple[str, Answer]:
    cut, told = rng.randrange(8), _error(rng, word)
    line = rng.choice([b"data: %s\n\n", b"event: error\ndata: %s\n\n", b"error: %s\n\n"])
    data = line % json.dumps(told).encode()
    return f"error in line {cut}: {data!r}", lambda nonce: stream([*trace(nonce, cut), data])


def _in_an_error_that_is_all(rng: Random, word: str) -> tuple[str, Answer]:
    told = _error(rng, word)
    return f"200: {told}", lambda _: [whole("200 OK", json.dumps(told).encode())]


def _in_what_is_no_chunk(rng: Random, word: str) -> tuple[str, Answer]:
    cut = rng.randrange(8)
    rubbish = rng.choice(
        [b"data: %s\n\n", b'data: {"choices": [%s\n\n', b"data: [%s]\n\n", b"data: <p>%s</p>\n\n"]
    )
    data = rubbish % word.encode()
    return f"no chunk in line {cut}: {data!r}", lambda nonce: stream([*trace(nonce, cut), data])


def _in_a_page(rng: Random, word: str) -> tuple[str, Answer]:
    page = rng.choice(
        [b"<!DOCTYPE html><p>%s</p>", b"<html><title>%s</title>", b"%s", b"{%s", b'{"a": "%s"}']
    )
    body = page % word.encode()
    return f"page {body!r}", lambda _: [whole("200 OK", body, content_type="text/html")]


def _in_a_field(rng: Random, word: str) -> tuple[str, Answer]:
    """In a field of a chunk, known or unknown, beside a text that is right."""
    path = rng.choice(
        [
            ("id",), ("object",), ("model",), ("system_fingerprint",), ("service_tier",), ("created",), ("unknown",),
            ("usage",), ("usage", "prompt_tokens"), ("usage", "prompt_tokens_details", "x"),
            ("usage", "completion_tokens_details", "reasoning_tokens"), ("usage", "cost", "currency"),
            ("choices", 0, "finish_reason"), ("choices", 0, "index"), ("choices", 0, "unknown"),
            ("choices", 0, "logprobs", "content"), ("choices", 0, "stop_reason"),
            ("choices", 0, "delta", "role"), ("choices", 0, "delta", "name"), ("choices", 0, "delta", "refusal"),
            ("choices", 0, "delta", "reasoning_content"), ("choices", 0, "delta", "reasoning"),
            ("choices", 0, "delta", "tool_calls"), ("choices", 0, "delta", "annotations"), ("choices", 0, "delta", "audio"),
            ("choices", 0, "delta", "function_call"), ("choices", 0, "delta", "x"),
        ]
    )  # fmt: skip
    value = rng.choice(
        [word, [word], {"a": word}, {word: 1}, [{"function": {"name": word, "arguments": word}}]]
    )
    at = rng.randrange(10)

    def answer(nonce: str) -> list[bytes]:
        chunks = trace(nonce)
        place: Any = chunks[min(at, len(chunks) - 1)]
        for name, following in pairwise(path):
            if isinstance(place, dict) and not isinstance(place.get(name), dict | list):
                place[name] = [] if isinstance(following, int) else {}
            place = place[name]
        place[path[-1]] = value
        return stream(chunks)

    return f"{path} of chunk {at} = {value!r}", answer


def _in_the_text(rng: Random, word: str) -> tuple[str, Answer]:
    """In what the model says, before, between and after what is right, or instead of it."""
    at, how = rng.randrange(11), rng.choice(TEXTS)

    def answer(nonce: str) -> list[bytes]:
        said = lines(nonce)
        said[min(at, len(said) - 1)] = how(said[min(at, len(said) - 1)], word)
        return stream([*map(chunk, said), chunk("", rng.choice(["stop", "length", word]))])

    return f"text in line {at}: {how('LINE', word)!r}", answer


TEXTS: list[Callable[[str, str], str]] = [
    lambda line, word: f"{word}\n{line}",
    lambda line, word: f"{line}{word}\n",
    lambda line, word: f"{word} {line}",
    lambda line, word: line.rstrip("\n") + f" {word}\n",
    lambda line, word: line.replace(" = ", f" = {word} = ", 1),
    lambda line, word: line.rpartition(" ")[0] + f" {word}\n",
    lambda line, word: line.rstrip("\n") + f' <- "{word}"\n',
    lambda line, word: f"9 return {word}\n{line}",
    lambda line, word: f'9 return "{word}"\n{line}',
    lambda line, word: f"10 {word} = 1\n{line}",
    lambda line, word: f"{word} s = 1\n{line}",
    lambda line, word: f"7.{word} s = 1 = 1\n{line}",
    lambda line, word: f"2[{word}].1 s = 1\n{line}",
    lambda line, word: f"{word} return {word}\n{line}",
    lambda line, word: f"@begin {word} 123456\n{line}",
    lambda line, word: f"@end {word}\n{line}",
    lambda line, word: f"<think>{word}</think>{line}",
    lambda _, word: word,
]  # fmt: skip


def _error(rng: Random, word: str) -> object:
    """An error in one of the shapes that servers have, with a word in one of its fields."""
    fields = {"message": "Something is wrong.", "code": rng.choice([400, 503, "odd"])} | {
        rng.choice(ERRORS): word
    }
    nested: object = word
    for _ in range(rng.choice([1, 3, 40])):
        nested = {"a": nested}
    return rng.choice(
        [
            {"error": fields},
            {"error": word},
            {"error": [word]},
            {"error": nested},
            {"detail": word},
            {"detail": [{"msg": word, "loc": [word]}]},
            {"object": "error", **fields},
            {"type": "error", "error": fields},
            {word: "error", "error": {word: word}},
        ]
    )


PLACES: list[Callable[[Random, str], tuple[str, Answer]]] = [
    _in_an_error_status,
    _in_a_bare_error_body,
    _in_the_reason_phrase,
    _in_a_header,
    _in_what_is_no_http,
    _in_an_error_in_the_stream,
    _in_an_error_that_is_all,
    _in_what_is_no_chunk,
    _in_a_page,
    _in_a_field,
    _in_the_text,
]
