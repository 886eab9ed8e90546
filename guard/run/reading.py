"""What a generation writes, line by line: what it repeats is passed over, the rest goes to the checker."""

from __future__ import annotations

import re
from typing import Final

from guard.check.verdict import Ignored, Judgement
from guard.run.generation import Generation
from guard.run.overlap import NO_LINE
from guard.run.progress import Progress

BLANK: Final = 16  # characters of white space around the closing line
_PIECES: Final = re.compile(r"[^\n]*\n|[^\n]+")


def pieces(text: str) -> list[str]:
    """Take a text apart into pieces of at most one line."""
    return _PIECES.findall(text)


def read(generation: Generation, progress: Progress, piece: str) -> list[Judgement]:
    """Take a piece of what a generation writes, at most one line of it."""
    line = generation.line + piece
    generation.take(piece)
    if generation.alone is not None:
        return _answered(generation, progress, generation.alone.read(piece))
    if generation.overlap is None or not generation.overlap.open:
        return progress.read(piece, generation.given)
    if generation.overlap.waits(line):
        return []
    text = generation.overlap.read(line)
    if isinstance(text, Ignored):
        generation.settled = generation.settled if text.why == NO_LINE else generation.length
        return [text]
    progress.lend(len(text) - len(line))
    return progress.read(text, generation.given)


def _answered(generation: Generation, progress: Progress, text: str) -> list[Judgement]:
    """Read what an answer makes of the step's line."""
    if not text or generation.alone is None:
        return []
    progress.lend(generation.alone.ours)
    return progress.read(text, generation.given)


def break_off(generation: Generation, progress: Progress) -> None:
    """Take what there is of the line that a generation ended in."""
    if not generation.line.strip():
        progress.rewind()  # the number that it was given is no line of its own
    elif generation.alone is not None:
        _answered(generation, progress, generation.alone.flush())
    elif generation.overlap is not None and generation.overlap.open:
        progress.read(generation.overlap.cut(generation.line), generation.given)


def at_stop(generation: Generation, progress: Progress) -> bool:
    """Whether the last line is the last one that the generation was opened for."""
    lines = progress.lines
    if generation.one_line:
        return len(lines) > generation.since  # of steps in any order it may be another one
    return bool(lines) and lines[-1].step.path == generation.stop


def read_behind(generation: Generation, progress: Progress, piece: str) -> Ignored | None:
    """Take text behind all that a generation was opened for; give what is not the closing line there."""
    tail = generation.tail + piece
    closing = progress.end if progress.answered else ""
    if closing.startswith(tail.strip()) and len(tail) <= len(closing) + BLANK:
        generation.tail, generation.closing = tail, len(tail)
        return None
    return Ignored(text=tail, at=len(progress.verified), why="behind all that was asked for")
