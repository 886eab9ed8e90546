"""Valid texts made strange: what people, models and servers may send by mistake or on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

MOST: Final = 24_000  # bytes that a text grows to
_TOKEN: Final = re.compile(rb"\w+|\s+|[^\w\s]", re.ASCII)
_LONG: Final = ("9" * 5_000).encode()
_NUMBERS: Final = (
    _LONG, b"1e999999999", b"0e99999999999999999999", b"1E-99999999999999999999", b"-0", b"1.0e+5", b"00012", b".5",
    b"NaN", b"Infinity", b"0x1F", b"1_000", b"1,000", "\u0661\u0662".encode(), "\u00bd".encode(), b"9" * 41, b"1." + b"0" * 3_000 + b"1",
)  # fmt: skip
_ODD: Final = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\t", b"\\ud83d", b"\\udc00", b"\\u0000",
    "\u2028".encode(), "\u00a0".encode(), "\u202e".encode(), "\U0001f642".encode(), b'"', b"'", b"<think>", b"</think>",
    b"```", b"data:", b"data: null", b"event: ping", b"[DONE]", b"${X}", b"&a", b"*a", b"<<: ", b"!!python/object:x.y", b"@end", b"<- ",
)  # fmt: skip
_DEEP: Final = (
    b"(",
    b"[",
    b"{",
    b'{"a":',
    b"- ",
    b"not ",
    b"-",
    b"if a then ",
    b"x + ",
    b"  ",
    b"1.",
    b"[1]",
    b"a: {",
    b'"\\',
)
_RUNS: Final = (
    "\u0301".encode(), ("\u0301" * 300 + "\u0316" * 300).encode(), b"\n", b" ", b"\t", b"7", b"a", b"#", b"\n\n  ",
    "\u00e9".encode(), b"1, ", b' <- "ab"', b"\\u0301", b"ab\n", b"</think>", b"data: {}\n\n", b"| ", b"= ", b"else ",
)  # fmt: skip

Mutation = Callable[[bytes, Random, Sequence[bytes]], bytes]


def _place(data: bytes, random: Random) -> int:
    return random.randint(0, len(data))


def _slice(data: bytes, random: Random) -> tuple[int, int]:
    first, second = sorted((_place(data, random), _place(data, random)))
    return first, min(second, first + random.choice([1, 4, 20, 200, 4_000]))


def _put(data: bytes, at: int, more: bytes) -> bytes:
    return data[:at] + more + data[at:]


def flipped(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Another byte in some places."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 3, 10]) if changed else 0):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def deleted(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """A part is gone."""
    first, last = _slice(data, random)
    return data[:first] + data[last:]


def cut(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """It breaks off."""
    return data[: _place(data, random)]


def repeated(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """A part comes many times."""
    first, last = _slice(data, random)
    return data[:last] + data[first:last] * random.choice([1, 2, 50, 2_000]) + data[last:]


def spliced(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """A part of another text."""
    other = random.choice(others)
    first, last = _slice(other, random)
    return _put(data, _place(data, random), other[first:last])


def exchanged(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Words change their places, come twice or not at all."""
    words = _TOKEN.findall(data[:MOST])
    for _ in range(random.randint(1, 4) if len(words) > 1 else 0):
        one, other = random.randrange(len(words)), random.randrange(len(words))
        words[one] = random.choice([words[other], b"", words[one] * 2])
    return b"".join(words)


def numbered(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Another number in the place of one, or anywhere."""
    found = list(re.finditer(rb"[0-9][0-9.]*", data))
    number = random.choice(_NUMBERS)
    if not found or random.random() < 0.2:
        return _put(data, _place(data, random), number)
    there = random.choice(found)
    return data[: there.start()] + number + data[there.end() :]


def odd(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Characters that few texts have."""
    for _ in range(random.randint(1, 3)):
        data = _put(data, _place(data, random), random.choice(_ODD))
    return data


def nested(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Something opens many times."""
    return _put(data, _place(data, random), random.choice(_DEEP) * random.choice([3, 60, 300, 4_000]))


def endless(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Something comes again and again."""
    return _put(data, _place(data, random), random.choice(_RUNS) * random.choice([20, 1_000, MOST]))


def shuffled(data: bytes, random: Random, _others: Sequence[bytes]) -> bytes:
    """Lines in another order, some of them indented otherwise."""
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], random.choice([b"", b"  ", b"\t"]) + lines[one]
    return b"\n".join(lines)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    flipped, deleted, cut, repeated, spliced, exchanged, numbered, odd, nested, endless, shuffled,
)  # fmt: skip


def mutated(corpus: Sequence[bytes], random: Random) -> bytes:
    """A text of a corpus, made strange in one or several ways."""
    data = random.choice(corpus)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        data = random.choice(MUTATIONS)(data, random, corpus)[: MOST + len(data)]
    return data
