"""Whatever stands in the operator's file, it is read or refused with places, never with a crash."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.config import load_config
from guard.config.policies import PolicySettings
from guard.config.settings import Config, Route
from guard.errors import ConfigError

WORDS = st.sampled_from(
    ["resume", "repair", "reject", "fallback", "default", "a", "b", "local", "observe", "enforce", "values",
     "pass_through", "guard", "extract", "wrong_value", "seed", "${X}", "é", ""]
)  # fmt: skip
SCALARS = st.one_of(WORDS, st.none(), st.booleans(), st.integers(), st.floats(), st.dates())
KEYS = st.one_of(
    WORDS, st.integers(0, 3), st.booleans(), st.sampled_from(["action", "times", "upstream", "kind"])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def section(fields: Any, some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(fields, some)) | JUNK


FILES = st.fixed_dictionaries(
    {"procedures": st.just(["one.proc"])},
    optional={
        "policies": st.dictionaries(WORDS, section(PolicySettings.model_fields, JUNK), max_size=4) | JUNK,
        "routes": st.lists(section(Route.model_fields, JUNK), max_size=2) | JUNK,
        **{name: JUNK for name in Config.model_fields if name not in {"procedures", "policies", "routes"}},
    },
)


@settings(max_examples=150, deadline=None)
@given(FILES)
def test_a_file_of_any_values_is_read_or_refused_with_the_lines_of_its_mistakes(values: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.proc").write_text("procedure one(a: int) -> int\n  return a\n")
        file = Path(folder, "stepguard.yaml")
        file.write_text(yaml.safe_dump(values, sort_keys=False))
        length = len(file.read_text().splitlines())
        error = refusal(file)
    if error is not None:
        assert error.problems
        assert all(1 <= line <= length for line in error.lines if line is not None)
        assert all(message for _, message in error.problems)
        assert list(error.lines) == sorted(error.lines, key=lambda line: line or 0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("server: {port: 9}\x1b", "is not YAML"),
        ("server: {port: 2026-02-30}", "this value cannot be read: day is out of range"),
        ("server: {port: 2026-01-01 25:00:00}", "this value cannot be read"),
        (f"server: {{port: {'9' * 5000}}}", "this value cannot be read"),
        (f"procedures: [{'a' * 5000}.proc]", "cannot be read: File name too long"),
    ],
    ids=["a control character", "no date", "no hour", "a number too long", "a name too long"],
)
def test_what_only_looks_like_a_value_is_named_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "stepguard.yaml"
    file.write_text(f"defaults: {{mode: enforce}}\n{line}\n")
    error = refusal(file)
    assert error is not None
    assert says in str(error)
    assert set(error.lines) <= {2, None}


def refusal(file: Path) -> ConfigError | None:
    try:
        load_config(file, {})
    except ConfigError as error:
        return error
    return None
