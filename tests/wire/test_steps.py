"""A trace in a JSON object comes out as its lines, however the object is written and cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.steps import MAX_NAME, Steps

LINES = '1 net = 4 * 61.20 = 244.80\n2 who = "Zoë" <- "said \\"Zoë\\""\n3 return 244.80\n'
OBJECT = json.dumps(
    {"1 net = 4 * 61.20 = ": "244.80", "2 who = ": '"Zoë" <- "said \\"Zoë\\""', "3 return ": "244.80"}
)


def read(*pieces: str) -> str:
    steps = Steps()
    return "".join([*map(steps.feed, pieces), steps.close()])


def cut(*pieces: str) -> bool:
    steps = Steps()
    for piece in pieces:
        steps.feed(piece)
    return steps.cut


def split(text: str, cuts: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(at for at in cuts if at < len(text))})
    return [text[start:end] for start, end in pairwise(bounds)]


def test_members_are_lines() -> None:
    assert read(OBJECT) == LINES
    assert not cut(OBJECT)


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(json.loads(OBJECT), indent=4, ensure_ascii=False),
        json.dumps(json.loads(OBJECT), indent="\t", separators=(" ,", " : ")).replace("\n", "\r\n"),
        f"```json\n{OBJECT}\n```",
        f"\n```\n{OBJECT}\n```\n",
        OBJECT.replace("Z", "\\u005a").replace("/", "\\/"),
        OBJECT.replace(', "3', '}{"3'),  # two objects
        OBJECT.replace(', "3', '}\n\n{"3'),
        OBJECT.replace("}", ",}"),
        OBJECT.replace('"244.80"', "244.80"),  # a number instead of a string
        OBJECT.replace('= "', '="'),  # a name without the blank in which it ends
        OBJECT.replace('"244.80"', '"244.80\\n"'),
        "{}" + OBJECT,
    ],
)
def test_the_same_object_written_otherwise_is_the_same_lines(written: str) -> None:
    assert read(written) == LINES
    assert read(*written) == LINES
    assert not cut(written)


def test_the_characters_of_a_value_leave_as_they_come() -> None:
    steps = Steps()
    given = [
        steps.feed(piece) for piece in ['{"1 a', ' = "', ': "', "2", "4", '"', ', "2', ' b = ": "x', '"}']
    ]
    assert given == ["", "", "1 a = ", "2", "4", "\n", "", "2 b = x", "\n"]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (r'{"1 a = ": "\ud83d\ude00 \u00e9"}', "1 a = 😀 é\n"),
        (r'{"1 \ud83d\ude00 = ": "x"}', "1 😀 = x\n"),
        (r'{"1 a = ": "\ud83d."}', "1 a = \ufffd.\n"),
        (r'{"1 a = ": "\ud83d\n"}', "1 a = \ufffd\n"),
        (r'{"1 a = ": "\ud83d\u0041"}', "1 a = \ufffdA\n"),
        (r'{"1 a = ": "\ude00"}', "1 a = \ufffd\n"),
        ('{"1 a = ": true, "2 b = ": null, "3 c = ": -1.5}', "1 a = true\n2 b = null\n3 c = -1.5\n"),
        (
            '{"1 a = ": [\n  {"b": "}\\"]", "c": [1]}\n], "2 d = ": {}}',
            '1 a = [   {"b": "}\\"]", "c": [1]} ]\n2 d = {}\n',
        ),
        ('{"1 a = ": "1", "1 a = ": "2"}', "1 a = 1\n1 a = 2\n"),
        ('{"1 a = ": "", "": "x"}', "1 a = \nx\n"),
        ("{}", ""),
        ("", ""),
        ("```", ""),
    ],
)
def test_whatever_a_member_is_becomes_a_line(written: str, lines: str) -> None:
    assert read(written) == lines
    assert read(*written) == lines


@pytest.mark.parametrize(
    ("written", "given"),
    [
        (LINES, LINES),  # a plain trace
        (f"```\n{LINES}```\n", f"```\n{LINES}```\n"),
        ("Sure: {}", "Sure: {}"),
        ('Sure!\n\nHere it is:\n{"1 a = ": "1"}', "Sure!\nHere it is:\n1 a = 1\n"),
        ('Sure:\n```json\n{"1 a = ": "1"}\n```\n', "Sure:\n1 a = 1\n"),
        (f"Sure:\n{LINES}", f"Sure:\n{LINES}"),
        (f"Sure:\n```\n{LINES}```\n", f"Sure:\n```\n{LINES}```\n"),
        ('Sure:\n{"1 a = ": "1"}\nThat is all.\n', "Sure:\n1 a = 1\nThat is all.\n"),
        ("[1]", "[1]"),
        ('{"1 a = " "1"}', '{"1 a = " "1"}'),
        ('{"1 a = ": ?}', '{"1 a = ": ?}'),
        ("{1: 2}", "{1: 2}"),
        ('{"1 a\\x": 1}', '{"1 a\\x": 1}'),
        ('{"1 a = ": "5\\q", "2 b = ": "6"}', '1 a = 5\\q", "2 b = ": "6"}'),
        ('{"1 a = ": "5\\u12g4"}', '1 a = 5\\u12g4"}'),
        ('{"1 a = ": "\\ud83d\\u12g4"}', '1 a = \ufffd\\u12g4"}'),
        ('{"1 a = ": "1" "2 b = ": "2"}', '1 a = 1\n"2 b = ": "2"}'),
        ('{"1 a = ": "1", 2: "2"}', '1 a = 1\n2: "2"}'),
        ('{"1 a = ": "1"} and more', "1 a = 1\nand more"),
        ('{"%s": "1"}' % ("x" * MAX_NAME + "x"), '{"%s": "1"}' % ("x" * MAX_NAME + "x")),
    ],
)
def test_what_is_no_such_object_is_handed_on_as_it_stands(written: str, given: str) -> None:
    assert read(written).split() == given.split()
    assert read(*written).split() == given.split()


@pytest.mark.parametrize("end", range(1, len(OBJECT) + 1))
def test_of_an_object_that_is_cut_off_the_whole_lines_come_and_the_beginning_of_one(end: int) -> None:
    text = read(OBJECT[:end])
    assert LINES.startswith(text)
    assert cut(OBJECT[:end]) or text.endswith("\n") or not text


@given(
    st.dictionaries(st.text(min_size=1), st.text(), min_size=1),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
    st.lists(st.integers(0, 400)),
)
def test_every_object_of_strings_is_its_members_in_any_pieces(
    members: dict[str, str], ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    written = json.dumps(members, ensure_ascii=ascii_only, indent=indent)
    lines = ""
    for name, value in members.items():
        lines += name + (" " if name[-1] == "=" or name[-1].isalnum() else "") + value
        lines += "" if lines.endswith("\n") else "\n"
    assert read(*split(written, cuts)) == lines


@given(st.text(st.sampled_from('{}[]":,\\u0d83eabn` \n')), st.lists(st.integers(0, 100)))
def test_a_cut_anywhere_is_invisible_and_nothing_raises(text: str, cuts: list[int]) -> None:
    assert read(*split(text, cuts)) == read(text)
    assert cut(*split(text, cuts)) == cut(text)


@given(st.lists(st.text()))
def test_arbitrary_text_is_no_reason_to_raise(pieces: list[str]) -> None:
    assert read(*pieces) == read("".join(pieces))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
).filter(lambda value: not isinstance(value, str))


@given(st.lists(VALUES), st.booleans(), st.sampled_from([None, 2]), st.lists(st.integers(0, 200)))
def test_a_value_that_is_no_string_stands_on_its_line_as_it_is_written(
    values: list[object], ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    members = {f"{number} x = ": value for number, value in enumerate(values)}
    text = read(*split(json.dumps(members, ensure_ascii=ascii_only, indent=indent), cuts))
    lines = text.split("\n")
    assert lines.pop() == ""
    for (name, value), line in zip(members.items(), lines, strict=True):
        assert line.startswith(name)
        assert json.loads(line.removeprefix(name)) == value


@pytest.mark.parametrize(
    ("written", "odd"),
    [
        ('{"1 a = ": "3", "2 b = ": ""}', False),
        (' {"1 a = ":\n "3"}\n', False),
        ('{"1 a = ": "3"', False),
        ('{"1 a = ": 3}', True),
        ('{"1 a =": "3"}', True),
        ('{"1 a = ": "3", "1 a = ": "4"}', True),
        ('{"1 a = ": "3"} {"2 b = ": "4"}', True),
        ('```{"1 a = ": "3"}```', True),
        ("1 a = 3\n", True),
        ('Sure:\n{"1 a = ": "3"}', True),
    ],
)
def test_anything_but_one_object_of_strings_each_of_a_name_of_its_own_is_odd(written: str, odd: bool) -> None:
    whole, split = Steps(), Steps()
    whole.feed(written)
    for char in written:
        split.feed(char)
    assert (whole.odd, split.odd) == (odd, odd)
