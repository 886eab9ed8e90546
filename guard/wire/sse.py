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
        self._rest = b""
        self._started = False
        self.overflowed = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take what arrived; give the data of each event that it completes.

        Never raises. An event beyond `MAX_EVENT_BYTES` sets `overflowed`; nothing is given after that.
        """
        if self._started and not self._rest and _is_one_event(data):
            return [data[6:-2]]
        if self.overflowed:
            return []
        if b"\r" in data or b"\r" in self._rest:
            data, held = _hold_carriage_return(self._rest + data)
        else:
            data, held = self._rest + data, b""
        blocks = data.split(b"\n\n")
        self._rest = blocks.pop() + held
        self.overflowed = len(self._rest) > MAX_EVENT_BYTES
        if blocks and not self._started:
            self._started = True
            blocks[0] = blocks[0].removeprefix(_BOM)
        return [event for block in blocks if (event := _data_of(block)) is not None]

    def close(self) -> list[bytes]:
        """The stream has ended: give the event whose lines are whole though no blank line followed."""
        rest, self._rest = self._rest.replace(b"\r", b"\n"), b""
        whole = rest.endswith(b"\n") or _data_of(rest.strip()) == DONE
        data = _data_of(rest) if whole else None
        self._rest = b"" if whole else rest
        return [] if data is None else [data]

    @property
    def cut(self) -> bool:
        """Whether bytes are left that make no whole line: after `close`, the stream broke off in one."""
        return bool(self._rest.strip())


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
