"""What a file says of single steps, and what is wrong with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.bench.chances import Chance, Decides, chances, numbered, probability, read_chances
from guard.errors import ConfigError


def read(folder: Path, text: str, name: str = "steps.csv") -> dict[int, Chance]:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_chances(file)


def problems(folder: Path, text: str, name: str = "steps.csv") -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as raised:
        read(folder, text, name)
    assert raised.value.file.endswith(name)
    return list(raised.value.problems)


SAID = {
    1: Chance(p=0.9),
    2: Chance(p=0.5, retry=0.25),
    3: Chance(p=0.5, scaffold=1.0),
    4: Chance(p=0.7, kind=Decides.JUDGE),
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in_order.csv", "0.9\n0.5,0.25\n0.5,,1\n0.7,,,judge\n"),
        ("no_name", "# measured in May\n\n0.9  # easy\n 0.5 , 0.25\n0.5,,1.0\r\n.7,,,judge"),
        ("named.csv", "step,kind,p,scaffold,retry\n4,judge,0.7\n1,,0.9\n2,,0.5,,0.25\n3,assign,0.5,1,\n"),
        ("list.yaml", "- 0.9\n- {p: 0.5, retry: 0.25}\n- {p: 0.5, scaffold: 1}\n- {p: 0.7, kind: judge}\n"),
        (
            "map.yml",
            "4: {p: 0.7, kind: judge}\n1: 0.9\n2:\n  p: 0.5\n  retry: 0.25\n3: {p: 5e-1, scaffold: 1.0}\n",
        ),
        (
            "list.json",
            '[0.9, {"p": 0.5, "retry": 0.25}, {"p": 0.5, "scaffold": 1}, {"p": 0.7, "kind": "judge"}]',
        ),
    ],
)
def test_the_same_can_be_said_in_several_ways(tmp_path: Path, name: str, text: str) -> None:
    assert read(tmp_path, text, name) == SAID


def test_a_range_of_steps_has_the_same_chances(tmp_path: Path) -> None:
    wanted = {step: Chance(p=0.5) for step in (7, 8, 9)} | {2: Chance(p=1.0)}
    assert read(tmp_path, "step,p\n7-9,0.5\n2,1\n") == wanted
    assert read(tmp_path, "7 - 9: 0.5\n2: 1\n", "a.yaml") == wanted


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.csv", "0.9\n1.5\n-1\nx\nnan\n", ["line 2", "line 3", "line 4", "line 5"]),
        ("a.csv", "0.9,0.5,0.5,judge,7\n", ["line 1"]),
        ("a.csv", "0.9,,,guess\n", ["line 1"]),
        ("a.csv", "step,p,colour\n1,0.5,red\n", ["line 2"]),
        ("a.csv", "step,p\n1,0.5\n0,0.5\n9-3,0.5\n1-2,0.5\n99999,0.5\n", [f"line {n}" for n in (3, 4, 5, 6)]),
        ("a.csv", "step,p\n1,\n", ["line 2"]),
        ("a.csv", "# nothing\n", ["line 1"]),
        ("a.yaml", "", ["line 1"]),
        ("a.yaml", "just a word", ["line 1"]),
        ("a.yaml", "1: 0.5\n2: [0.5]\n3: {p: {q: 1}}\nx: 0.5\n", ["line 2", "line 3", "line 4"]),
        ("a.yaml", "1: 0.5\n1: 0.6\n", ["line 2"]),
        ("a.yaml", "- 0.5\n- {retry: 0.5}\n", ["line 2"]),
        ("a.yaml", "- 0.5\n- {p: 0.5\n", ["line 3"]),
        ("a.yaml", "[" * 5000, ["line 1"]),
        ("a.yaml", "- " * 60 + "0.5", ["line 1"]),
    ],
)
def test_every_line_that_is_wrong_is_named(tmp_path: Path, name: str, text: str, wanted: list[str]) -> None:
    assert [where for where, _ in problems(tmp_path, text, name)] == wanted


def test_a_file_that_is_not_there_or_no_text_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_chances(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"0.5\n\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text at byte 4"):
        read_chances(tmp_path / "bytes.csv")
    (tmp_path / "large.csv").write_text("0.5\n" * 300_000)
    with pytest.raises(ConfigError, match="is larger than"):
        read_chances(tmp_path / "large.csv")


@given(st.text(max_size=40))
def test_no_text_is_too_odd_to_be_refused(text: str) -> None:
    for reader in (numbered, probability):
        with suppress(ValueError):
            assert reader(text) is not None


def test_numbers_of_steps_are_read() -> None:
    assert numbered("1, 20-22 ,7") == {1, 7, 20, 21, 22}


def test_what_is_said_of_one_step_goes_before_what_is_usual() -> None:
    usual = Chance(p=0.9)
    assert chances(3, usual, {2: Chance(p=0.1)}) == (usual, Chance(p=0.1), usual)
    assert chances(None, None, {1: usual, 2: usual}) == (usual, usual)
    assert chances(3, usual, {}, frozenset({1}))[0] == Chance(p=0.9, kind=Decides.JUDGE)


def test_the_last_step_is_judged_by_no_file(tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    file.write_text("0.9\n0.8,,,judge\n")
    with pytest.raises(ConfigError, match="--p-step-file: step 2 is the last one"):
        chances(None, None, read_chances(file))


@pytest.mark.parametrize(
    ("steps", "usual", "said", "judged", "wanted"),
    [
        (0, 0.5, {}, (), "--steps: expected 1 to 1000, found 0"),
        (1001, 0.5, {}, (), "--steps: expected 1 to 1000, found 1001"),
        (2, 0.5, {3: 0.5}, (), "--p-step-file: says something of step 3, but there are 2"),
        (3, None, {1: 0.5}, (), "--p: is needed for step 2"),
        (3, 0.5, {}, (4,), "--judge: names step 4, but there are 3"),
        (3, 0.5, {}, (3,), "--judge: step 3 is the last one"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    steps: int, usual: float | None, said: dict[int, float], judged: tuple[int, ...], wanted: str
) -> None:
    with pytest.raises(ConfigError, match=wanted):
        chances(
            steps,
            None if usual is None else Chance(p=usual),
            {step: Chance(p=p) for step, p in said.items()},
            frozenset(judged),
        )
