"""The examples, each run exactly as its README says, and each procedure linted."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.worked import folders

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
START_S = 60
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Recipe:
    """The commands of a README in order, and the output it shows for the last of them."""

    commands: list[str]
    output: list[str]


def recipe(folder: str) -> Recipe:
    blocks = BLOCK.findall((EXAMPLES / folder / "README.md").read_text())
    commands = [text.strip() for kind, text in blocks if kind == "sh"]
    [output] = [text for kind, text in blocks if kind == "text"]
    return Recipe(commands, output.splitlines())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture
def environment() -> dict[str, str]:
    """The shell of somebody who has stepguard installed and these ports free."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "STEPGUARD_PORT": str(free_port()),
        "STEPGUARD_ADMIN_PORT": str(free_port()),
    }


@contextmanager
def served(command: str, environment: dict[str, str]) -> Iterator[None]:
    """Run a server until it says that it serves; afterwards it ends by itself when it is told to."""
    server = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        started = time.monotonic()
        for line in server.stdout:
            if line.startswith("serving "):
                break
        assert server.poll() is None, "the server ended"
        assert time.monotonic() - started < START_S
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        server.stdout.close()


def output(command: str, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_invoice_shows_what_its_readme_shows(environment: dict[str, str]) -> None:
    told = recipe("invoice")
    serve, ask = told.commands
    with served(serve, environment):
        assert output(ask, environment) == told.output


@pytest.mark.parametrize(
    "folder", ["parcel", *(pytest.param(folder, marks=pytest.mark.slow) for folder in folders())]
)
def test_a_procedure_traces_as_its_readme_says(folder: str, environment: dict[str, str]) -> None:
    told = recipe(folder)
    [trace] = told.commands
    assert output(trace, environment) == told.output


def test_the_shop_is_judged_as_its_readme_says(environment: dict[str, str]) -> None:
    told = recipe("retail")
    [lint] = told.commands
    assert output(lint, environment) == told.output


@pytest.mark.slow
@pytest.mark.local
def test_the_quickstart_gets_the_embedded_model_through(environment: dict[str, str]) -> None:
    told = recipe("quickstart")
    serve, ask = told.commands
    with served(serve, environment):
        shown = output(ask, environment)
    # What is verified is the same for every model; how it came about is the model's.
    assert shown[:-2] == told.output[:-2]
    assert [line.partition(":")[0] for line in shown[-2:]] == ["outcome", "steps"]


@pytest.mark.parametrize("folder", folders())
def test_an_example_after_a_public_rule_names_it(folder: str) -> None:
    readme = (EXAMPLES / folder / "README.md").read_text()
    assert "\n**Source.** " in readme
    comment = re.match(r"(?:# .*\n)+", (EXAMPLES / folder / f"{folder}.proc").read_text())
    assert comment is not None
    assert "# Rule" in comment[0]


def test_every_example_is_installed() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {f"guard.examples.{path.parent.name}" for path in EXAMPLES.glob("*/*.proc")}
    assert there <= {*packages}


def test_every_shipped_procedure_is_clean(environment: dict[str, str]) -> None:
    lint = output("stepguard lint examples/*/*.proc", environment)
    *largest, summary = lint
    assert summary == f"{len(list(EXAMPLES.glob('*/*.proc')))} files, 0 errors, 0 warnings"
    assert all(re.fullmatch(r"[a-z0-9_]+: at most [0-9,]+ steps?", line) for line in largest)
    assert output("stepguard fmt --check examples/*/*.proc", environment) == []


def test_every_example_folder_is_in_the_guide_and_has_a_readme() -> None:
    guide = (EXAMPLES / "README.md").read_text()
    folders = [path.parent.name for path in EXAMPLES.glob("*/*.proc")]
    assert folders
    for folder in folders:
        assert f"({folder}/README.md)" in guide
        assert (EXAMPLES / folder / "README.md").is_file()
