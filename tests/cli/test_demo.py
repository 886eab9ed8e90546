"""The demonstration, as a newcomer runs it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def models_running() -> set[str]:
    """The process ids of all embedded models on this machine."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if "guard.upstream.llama" in command:
                found.add(entry.name)
    return found


@pytest.mark.local
def test_the_demo_shows_both_sides_and_leaves_nothing_behind() -> None:
    before = models_running()
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "guard", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 300
    assert models_running() <= before
    for heading in ("chain: ", "parcel: ", "Try it yourself"):
        assert f"\n{heading}" in done.stdout
    # Each step of the arithmetic, right in the end, with the class that says how.
    assert "9 return 184 - 22 = 162" in done.stdout
    assert done.stdout.count("unguarded: ") == 2
    assert done.stdout.count("\nguarded: ") == 2
    assert "\x1b" not in done.stdout
    assert "Traceback" not in done.stderr
