"""What others wrote leaves without keys, however these are spelled, and by one way only."""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.foreign import KEPT, NAME, SHOWN, Foreign, Said, Sink

KEY = "sk-Ab3/xY+7_qW-9.zR5tK1"

KEYS = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+~=", min_size=20, max_size=60
).filter(lambda key: sum(map(str.isalnum, key)) >= 16)
AROUND = st.text(max_size=80)

Spelling = Callable[[str], str]


def _each(how: Callable[[str], str]) -> Spelling:
    return lambda key: "".join(map(how, key))


SPELLINGS: dict[str, Spelling] = {
    "as it is": str,
    "in capitals": str.upper,
    "in small letters": str.lower,
    "as JSON": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "escaped": _each(lambda c: f"\\u{ord(c):04x}"),
    "escaped in capitals": _each(lambda c: f"\\u{ord(c):04X}"),
    "escaped twice": _each(lambda c: f"\\\\u{ord(c):04x}"),
    "escaped in bytes": _each(lambda c: f"\\x{ord(c):02X}"),
    "escaped in octal": _each(lambda c: f"\\{ord(c):03o}"),
    "percent signs": _each(lambda c: f"%{ord(c):02x}"),
    "percent signs where needed": lambda key: quote(key, safe=""),
    "percent signs twice": lambda key: quote(quote(key, safe=""), safe=""),
    "percent signs of escapes": lambda key: quote("".join(f"\\u{ord(c):04x}" for c in key), safe=""),
    "entities": _each(lambda c: f"&#{ord(c)};"),
    "entities in hex": _each(lambda c: f"&#x{ord(c):X};"),
    "base64": lambda key: b64encode(key.encode()).decode(),
    "Basic": lambda key: b64encode(f"user:{key}".encode()).decode(),
    "Basic as the user": lambda key: b64encode(f"{key}:".encode()).decode(),
    "base64 behind Bearer": lambda key: b64encode(f"Bearer {key}".encode()).decode(),
    "base64 in lines": lambda key: "\n".join(
        b64encode(key.encode()).decode()[i : i + 8] for i in range(0, 90, 8)
    ),
    "hex": lambda key: key.encode().hex(),
    "with blanks": " ".join,
    "in lines": lambda key: key[:7] + "\n  " + key[7:15] + "\r\n" + key[15:],
    "with marks of no width": "\u200b".join,
    "in wide letters": _each(lambda c: chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c),
    "in quotes": lambda key: f'"{key[:9]}" + "{key[9:]}"',
}


def letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def gives_away(text: str, key: str, spelled: str) -> bool:
    """Whether half of a key can be read in a text, as it is or as it was spelled."""
    whole, half = letters(text), len(letters(spelled)) // 2
    known = letters(spelled)
    return letters(key) in whole or any(known[i : i + half] in whole for i in range(len(known) - half + 1))


@pytest.mark.parametrize("how", SPELLINGS)
@given(key=KEYS, front=AROUND, behind=AROUND)
def test_a_key_is_found_in_each_spelling(how: str, key: str, front: str, behind: str) -> None:
    spelled = SPELLINGS[how](key)
    assert not gives_away(Sink([key]).redacted(f"{front} {spelled} {behind}"), key, spelled)


@given(key=KEYS, cut=st.integers(1, 60), before=st.booleans())
def test_a_key_that_was_cut_is_found_as_far_as_it_is_there(key: str, cut: int, before: bool) -> None:
    part = key[:cut] if before else key[-cut:]
    clean = Sink([key]).redacted(f"bad key {part}" if before else f"{part} is bad")
    assert len(letters(part)) < 4 or letters(part) not in letters(clean)


@given(st.text(max_size=300))
def test_where_there_is_no_key_a_text_stays_as_it_is(text: str) -> None:
    assert Sink().redacted(text) == text
    if not set(letters(text)) & set("0123456789"):
        assert Sink(["00112233445566778899"]).redacted(text) == text


@given(st.text(), st.binary(max_size=100))
def test_what_is_shown_is_one_short_line_that_can_be_printed(text: str, data: bytes) -> None:
    for foreign in (Foreign(text * 99), Foreign(data), Foreign(text)):
        shown = Sink([KEY]).shown(foreign)
        assert len(shown) <= 10 * SHOWN + 8
        assert shown.isprintable()
        assert bool(shown) == bool(foreign)


def test_a_foreign_text_is_not_shown_by_accident() -> None:
    foreign = Foreign("secret plans")
    said = Said.of("secret plans", code="Secret Plans", type=7, param="plans")
    for made in (
        f"{foreign}",
        str(foreign),
        repr(foreign),
        repr(said),
        json.dumps([str(said)]),
    ):
        assert "secret" not in made
    assert (said.code, said.type, said.param) == ("", "", "plans")


@given(
    st.one_of(
        st.text(max_size=80),
        st.from_regex(NAME, fullmatch=True),
        st.none(),
        st.integers(),
        st.lists(st.none()),
    )
)
def test_only_words_of_a_program_are_names(told: object) -> None:
    kept = Said.of("", code=told).code
    assert kept == (told if isinstance(told, str) and NAME.fullmatch(told) else "")


def test_a_name_with_a_key_in_it_is_none() -> None:
    sink = Sink(["abcd.1234_efgh"])
    assert sink.name("context_length_exceeded") == "context_length_exceeded"
    assert not sink.name("abcd.1234_efgh")
    assert not sink.name("x_abcd1234efgh_y")


def test_of_a_header_what_is_secret_in_it_is_known() -> None:
    basic = b64encode(b"ann:top-secret-word").decode()
    for header in ("Bearer top-secret-word", "top-secret-word", f"Basic {basic}", f"basic {basic}"):
        assert "secret" not in Sink().also(header, None).redacted("it was top-secret-word")
    assert "secret" not in Sink().shown(Foreign("it was top-secret-word").hiding("Bearer top-secret-word"))


def test_short_keys_are_taken_as_they_are() -> None:
    assert Sink(["k7"]).redacted("no k7, but 7 k") == "no ***, but 7 k"


def test_a_long_text_takes_little_work() -> None:
    """A megabyte is cut before anything is looked for in it."""
    foreign = Foreign("%41\\u0041" * 200_000, hidden=[KEY])
    assert len(Sink([KEY]).redacted(foreign)) <= KEPT


def test_many_keys_are_all_found() -> None:
    rng = random.Random(7)
    keys = ["".join(rng.choices("abcdefghij0123456789", k=24)) for _ in range(40)]
    clean = Sink(keys).redacted(" ".join(keys))
    assert not any(key[:12] in clean for key in keys)


@pytest.mark.parametrize("text", ["\\", "\\\\u005c", "%5c", "&#92;", "key-", "&#"])
def test_escapes_that_come_again_and_again_take_no_longer_than_other_text(text: str) -> None:
    """A row of backslashes was gone through from each of them: 32,000 took ten seconds."""
    began = time.process_time()
    Sink(["key-0123456789abcdef"]).redacted(text * (32_000 // len(text)))
    assert time.process_time() - began < 3
