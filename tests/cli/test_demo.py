"""The demonstration, as a newcomer runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

ROOT = Path(__file__).parent.parent.parent


def descendants(mark: str) -> set[str]:
    """The process ids of all that runs with the mark in its environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.add(entry.name)
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.local
def test_the_demo_shows_both_sides_and_leaves_nothing_behind() -> None:
    mark = f"STEPGUARD_TEST_MARK={uuid4()}"
    done = subprocess.run(
        [sys.executable, "-m", "guard", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **dict([mark.split("=")])},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not descendants(mark)
    for heading in ("stall: ", "What a stronger model looks like: a recording", "Try it yourself"):
        assert f"\n{heading}" in done.stdout
    # Of the recording nothing is left to chance: what the model wrote alone, and where it was cut.
    recorded = done.stdout.partition("What a stronger model")[2]
    assert recorded.partition("recorded: ")[0].count(" verified\n") == 8
    assert "recorded: 19, right (repaired" in recorded
    assert recorded.count("cut at step 8") == 3
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Traceback" not in done.stderr


@pytest.mark.local
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_demo_convinces_whatever_is_drawn(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "guard", "demo", "--seed", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.partition("What a stronger model")[0]
    table, _, summary = shown.partition("\nunguarded: ")
    classes = [line.split()[-1] for line in table.splitlines() if re.match(r"[0-9]+(\.[0-9]+)? .*", line)]
    assert len(classes) >= 10
    assert set(classes) <= {"model_decided", "verified", "scaffolded", "repaired"}
    assert classes.count("repaired") <= len(classes) / 5
    unguarded, _, guarded = summary.partition("\nguarded: ")
    assert ", right" not in unguarded
    assert re.match(r"[0-9]+, right \(", guarded)


@pytest.mark.slow
@pytest.mark.local
@pytest.mark.parametrize("after", ["model: ", "stall: "], ids=["as it starts", "at its first request"])
def test_the_demo_can_be_stopped_at_any_time(after: str) -> None:
    mark = f"STEPGUARD_TEST_MARK={uuid4()}"
    with subprocess.Popen(
        [sys.executable, "-m", "guard", "demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **dict([mark.split("=")])},
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert any(line.startswith(after) for line in demo.stdout)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130
        assert not demo.stderr.read()
    assert not descendants(mark)


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_a_missing_extra_is_told_before_anything_is_fetched(command: str, tmp_path: Path) -> None:
    code = (
        f"import sys\nfrom importlib import util\nfind = util.find_spec\n"
        f"util.find_spec = lambda name: None if name == 'xllamacpp' else find(name)\n"
        f"from guard.cli import main\nsys.exit(main([{command!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 2
    assert "the local model runtime is not installed; install it with pip" in done.stderr
    assert not list(tmp_path.iterdir())
