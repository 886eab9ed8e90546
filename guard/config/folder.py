"""The procedure files below a folder, as those that import them name them."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path


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
        return decoded(file.read_bytes())

    def _stay(self, file: Path, root: Path) -> None:
        try:
            inside = file.resolve().is_relative_to(root.resolve())
        except RuntimeError:  # links in a circle
            raise ValueError("cannot be read: its links lead in a circle") from None
        if not inside:
            raise ValueError("is a link that leads out of the folder that imports stay in")
        if file.exists() and not file.is_file() and not file.is_dir():
            raise ValueError("is no file")


def decoded(data: bytes) -> str:
    """Give the text that a file's bytes are, without a byte order mark. Raises `ValueError`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
