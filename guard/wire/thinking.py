"""Thoughts that a model writes into its answer, in tags of their own: parted from what it says.

Theory of operation. An answer is in one of four states:

    state      leaves by                                             to
    lead       an opening tag                                        thinking
               a line that begins as one of a trace or an object     trace
    thinking   a closing tag                                         lead, or within
    within     a line that begins as one of a trace or an object     trace
               anything else                                         thinking
    trace      nothing: a tag is text like any other

An opening tag among thoughts opens nothing, unless the thoughts go on behind the next closing tag: that is
what `within` looks for. A tag behind a double quote on its line is no tag. A block stands between lines,
also where it was written into one, and takes the white space around it along. How an answer is cut into
pieces changes nothing; no more of it is held than a tag is long, or white space.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

TAGS: Final[tuple[tuple[str, str], ...]] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)

BLANKS: Final = 1000  # in a line of them that stands for thoughts
PIECE: Final = 512  # characters that are read in one go, however long the piece is
SPACE: Final = 64  # characters of white space, at most, that go with the block behind them

_FIRST: Final = "<[◁"  # characters that tags begin with
_BLANK: Final = " \t\r\n"
_STARTS: Final = "@{0123456789"  # of a line of a trace, or of an object that holds one


_Said = tuple[int | None, str]  # where in the answer it stands, None: nowhere; what is said


class _State(Enum):
    LEAD = auto()
    THINKING = auto()
    WITHIN = auto()
    TRACE = auto()


class Thinking:
    """Reads one answer. `begun`: the prompt has opened a block, which the answer goes on with."""

    def __init__(self, *, begun: bool = False) -> None:
        self._state = _State.THINKING if begun else _State.LEAD
        self._pairs = {opening.lower(): closing.lower() for opening, closing in TAGS}
        self._either = tuple(self._pairs) + tuple(self._pairs.values())
        self._tag = _any_of(self._either)
        self._opening = _any_of(tuple(self._pairs))
        self._closing: str | None = None  # what ends the block; None: any closing tag
        self._fresh = True  # nothing stands in the block yet
        self._inner = 0  # opening tags in the block
        self._blank, self._quoted = True, False  # of the line that is not yet ended
        self._after = False  # a block was the last thing
        self._wide = False  # more white space has been said than may belong to a block
        self._held, self._at = "", 0  # what was not yet taken, and where in the answer that begins

    @property
    def over(self) -> bool:
        """Whether all that comes is the trace."""
        return self._state is _State.TRACE

    @property
    def active(self) -> bool:
        """Whether the model is thinking, as far as it can be told."""
        return self._state in {_State.THINKING, _State.WITHIN}

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of the answer; give the thoughts in it, and what it says."""
        if self._state is _State.TRACE:
            return "", text
        thoughts: list[str] = []
        said: list[_Said] = []
        for at in range(0, len(text), PIECE):
            self._held += text[at : at + PIECE]  # which is cut again for each line in it
            while self._held and self._read(thoughts, said):
                pass
        return "".join(thoughts), "".join(one for _, one in said)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Take a whole answer; give the places of what it says: where each part begins and ends."""
        said: list[_Said] = []
        at = 0
        while at < len(text) and not self.over:
            self._held += text[at : at + PIECE]
            at = min(at + PIECE, len(text))
            while self._held and self._read([], said):
                pass
        if not self.active:
            self._tell(self._take(len(self._held)), said)
        said.append((at, text[at:]))
        return [(start, start + len(one)) for start, one in said if start is not None]

    def close(self) -> tuple[str, str]:
        """Give what was held, at the end of the answer."""
        held = self._take(len(self._held))
        return (held, "") if self.active else ("", held)

    # --- what each state does with what is held; whether there is more to be done ------------------

    def _read(self, thoughts: list[str], said: list[_Said]) -> bool:
        match self._state:
            case _State.LEAD:
                return self._lead(said)
            case _State.THINKING:
                return self._think(thoughts)
            case _State.WITHIN:
                return self._look(thoughts)
            case _State.TRACE:
                self._tell(self._take(len(self._held)), said)
                return False

    def _lead(self, said: list[_Said]) -> bool:
        blanks = self._blanks(said)
        if len(self._held) == blanks:
            return False
        if self._blank and self._held[blanks] in _STARTS:
            self._state = _State.TRACE
            return True
        end = self._held.find("\n", blanks) + 1 or len(self._held)
        tag = self._opening.search(self._held, blanks, end)
        if tag is not None and not self._is_quoted(self._held[: tag.start()]):
            front = self._take(tag.start())
            self._say(front if front.strip(_BLANK) or not self._blank else "", said)
            self._open(self._take(len(tag[0])), said)
            return True
        kept = 0 if self._held[end - 1] == "\n" else _partial(self._held, tuple(self._pairs))
        if end - kept == blanks:
            return False
        self._say(self._take(end - kept), said)
        return len(self._held) > kept

    def _blanks(self, said: list[_Said]) -> int:
        """Count the white space at the beginning of a line that may belong to a block; the rest is said."""
        if not self._blank:
            return 0
        blanks = len(self._held) - len(self._held.lstrip(_BLANK))
        if not self._after and not self._wide and blanks <= SPACE:
            return blanks
        space = self._take(blanks)
        if not self._after:
            self._wide = self._wide or blanks > 0
            self._tell(space, said)
        return 0

    def _think(self, thoughts: list[str]) -> bool:
        tag = self._tag.search(self._held)
        if tag is None:
            rest = len(self._held) - _partial(self._held, self._either)
            self._thought(self._take(rest), thoughts)
            return False
        self._thought(self._take(tag.start()), thoughts)
        name = tag[0].lower()
        if name == self._closing or (self._closing is None and name not in self._pairs):
            self._take(len(name))
            self._state = _State.WITHIN if self._inner else _State.LEAD
            self._after = True
        elif self._pairs.get(name) == self._closing or (self._closing is None and self._fresh):
            self._take(len(name))
            self._inner += not self._fresh
            self._closing = self._pairs[name]
        else:
            self._thought(self._take(len(name)), thoughts)
        return True

    def _look(self, thoughts: list[str]) -> bool:
        self._take(len(self._held) - len(self._held.lstrip(_BLANK)))
        if not self._held:
            return False
        if self._held[0] in _STARTS:
            self._state = _State.TRACE
        else:
            self._inner -= 1
            self._state = _State.THINKING
            self._thought("\n", thoughts)
        return True

    # --- small change ------------------------------------------------------------------------------

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        self._at += length
        return taken

    def _say(self, text: str, said: list[_Said]) -> None:
        if text:
            ends = text.endswith("\n")
            self._quoted = not ends and self._is_quoted(text)
            self._blank = ends
            self._after = self._wide = False
            self._tell(text, said)

    def _tell(self, text: str, said: list[_Said]) -> None:
        """Say what has just been taken."""
        said.append((self._at - len(text), text))

    def _is_quoted(self, text: str) -> bool:
        return self._quoted or '"' in text

    def _open(self, tag: str, said: list[_Said]) -> None:
        if not self._blank:
            said.append((None, "\n"))
        self._state, self._closing = _State.THINKING, self._pairs[tag.lower()]
        self._fresh, self._inner = True, 0
        self._blank, self._quoted, self._wide = True, False, False

    def _thought(self, text: str, thoughts: list[str]) -> None:
        self._fresh = self._fresh and not text.strip(_BLANK)
        thoughts.append(text)


def without_thoughts(text: str, *, begun: bool = False) -> str:
    """Blank the thoughts in a whole answer, as they are parted from it while it comes.

    What it says stands where it stood. `begun`: the prompt has opened a block, which the answer goes on with.
    """
    parts: list[str] = []
    done = 0
    for start, end in Thinking(begun=begun).spans(text):
        parts += (_blanks(start - done), text[start:end])
        done = end
    return "".join((*parts, _blanks(len(text) - done)))


def _blanks(length: int) -> str:
    """So many blanks, in lines that are not too long for anybody, the last one ended."""
    lines, rest = divmod(length, BLANKS)
    return (" " * (rest - 1) + "\n" if rest else "") + (" " * (BLANKS - 1) + "\n") * lines


def _any_of(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)), re.IGNORECASE | re.ASCII)


def _partial(text: str, tags: tuple[str, ...]) -> int:
    """How many of the last characters may be the beginning of a tag."""
    longest = min(len(text), max(map(len, tags)) - 1)
    tail = text[len(text) - longest :].lower()
    begins = (n for n in range(len(tail), 0, -1) if tail[-n] in _FIRST)
    return next((n for n in begins if any(tag.startswith(tail[-n:]) for tag in tags)), 0)
