"""The procedure files below a folder, as those that import them name them."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 4_100_000  # more than the characters that a procedure file may have, in any spelling


class Folder:
    """Gives the texts of the files below a folder; no path, and no link on it, leads out of it.

    Calling it raises `ValueError` or `OSError`, which say why there is no such text.
    """

    def __init__(self, root: Traversable | Path) -> None:
        self._root = root

    def __call__(self, path: str) -> str:
        file = self._root.joinpath(*path.split("/"))
        if isinstance(file, Path) and isinstance(self._root, Path):
            self._stay(file, self._root)
        if file.is_dir():
            raise ValueError("is a folder")
        with file.open("rb") as opened:  # not all of it: a file may be larger than the memory
            return decoded(opened.read(MAX_BYTES + 1))

    def _stay(self, file: Path, root: Path) -> None:
        try:
            inside = file.resolve().is_relative_to(root.resolve())
        except RuntimeError:  # links in a circle
            raise ValueError("cannot be read: its links lead in a circle") from None
        if not inside:
            raise ValueError("is a link that leads out of the folder that imports stay in")
        if file.exists() and not file.is_file() and not file.is_dir():
            raise ValueError("is no file")


def decoded(data: bytes, most: int = MAX_BYTES) -> str:
    """Give the text that a file's bytes are, without a byte order mark. Raises `ValueError`."""
    if len(data) > most:
        raise ValueError(f"is too large: it has more than {most:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
