"""Server-sent events as chat APIs use them: bytes in, the data of whole events out."""

from __future__ import annotations

from typing import Final

DONE: Final = b"[DONE]"  # the data of the event that ends a chat stream
MAX_EVENT_BYTES: Final = 1024 * 1024

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = (b"data", b"error")  # older servers of llama.cpp write an error into a field of this name


class Decoder:
    """Cuts a byte stream into events, however it was split on the way.

    Takes LF, CR LF and CR as line ends, several `data` lines to an event, comments and fields that it
    does not know. Works on bytes, so that a character cut in two is whole again before anyone decodes it.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of an event that is not whole yet, with LF as line end
        self._size = 0  # bytes of them
        self._held = b""  # a CR that an LF may follow
        self._started = False
        self.overflowed = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take what arrived; give the data of each event that it completes.

        Never raises. An event beyond `MAX_EVENT_BYTES` sets `overflowed`; nothing is given after that.
        """
        if self._started and not self._parts and not self._held and _is_one_event(data):
            return [data[6:-2]]
        if self.overflowed:
            return []
        if self._held or b"\r" in data:
            data, self._held = _hold_carriage_return(self._held + data)
        blocks = self._whole(data)
        self.overflowed = self._size + len(self._held) > MAX_EVENT_BYTES
        if blocks and not self._started:
            self._started = True
            blocks[0] = blocks[0].removeprefix(_BOM)
        return [event for block in blocks if (event := _data_of(block)) is not None]

    def _whole(self, data: bytes) -> list[bytes]:
        """Give the blocks that end in this, and keep what is left.

        What was kept holds no blank line; it is put together only where one ends in what came, so that an
        event in many small reads costs its length once.
        """
        edge = self._parts[-1][-1:] if self._parts else b""
        if b"\n\n" not in edge + data:
            self._keep(data)
            return []
        *blocks, rest = b"".join([*self._parts, data]).split(b"\n\n")
        self._parts, self._size = [], 0
        self._keep(rest)
        return blocks

    def _keep(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._size += len(data)

    def close(self) -> list[bytes]:
        """The stream has ended: give the event whose lines are whole though no blank line followed."""
        rest = b"".join(self._parts) + self._held.replace(b"\r", b"\n")
        self._parts, self._size, self._held = [], 0, b""
        whole = rest.endswith(b"\n") or _data_of(rest.strip()) == DONE
        data = _data_of(rest) if whole else None
        if not whole:
            self._keep(rest)
        return [] if data is None else [data]

    @property
    def cut(self) -> bool:
        """Whether bytes are left that make no whole line: after `close`, the stream broke off in one."""
        return bool(b"".join(self._parts).strip())


def _is_one_event(data: bytes) -> bool:
    """Whether this is one event of one line, as most reads are."""
    return (
        data.startswith(b"data: ") and data.endswith(b"\n\n") and data.count(b"\n") == 2 and b"\r" not in data
    )


def _hold_carriage_return(data: bytes) -> tuple[bytes, bytes]:
    """All line ends as LF. A CR at the very end is held back: an LF may follow."""
    held = b"\r" if data.endswith(b"\r") else b""
    whole = data[: len(data) - len(held)]
    return whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), held


def _data_of(block: bytes) -> bytes | None:
    """The data of one event, None where it has none (comments, `retry`, an event name alone)."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [value for line in block.split(b"\n") if (value := _data_line(line)) is not None]
    return b"\n".join(lines) if lines else None


def _data_line(line: bytes) -> bytes | None:
    name, _, value = line.partition(b":")
    return value.removeprefix(b" ") if name in _DATA else None


def encode(data: bytes) -> bytes:
    """One event that carries `data`, which may have several lines."""
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


def comment(text: str) -> bytes:
    """A line that clients skip, to keep a connection alive. `text` is one line of ASCII."""
    return b": " + text.encode("ascii") + b"\n\n"
