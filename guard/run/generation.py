"""The generation that is open: why it was opened, what it has written and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from guard.check.verdict import Violation
from guard.dialect.line import Level
from guard.procedure.expected import Expected
from guard.run.heeding import Heeding
from guard.run.isolating import Answering
from guard.run.messages import Ended, Ours, Strategy, Text, Usage
from guard.run.overlap import Overlap
from guard.run.policy import Attempt
from guard.wire import finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a violation cut a generation that was still writing.

    `lines` were verified in front of it. `left` steps were to come behind it from this generation; None:
    all to the end.
    """

    lines: int
    left: int | None


@dataclass(slots=True, kw_only=True)
class Generation:
    """One upstream generation.

    `step` is the path of the step that it was opened at, `prefix` what had been said by then, the
    scaffold or number of the due line included. `given` are the paths whose operands the model was given,
    `scaffold` says that the due line was begun for it. It was opened for all that comes up to the step
    `stop` ("": up to the answer); `cut`: and for not a word more. `asked` is about how many tokens it was
    given to read. `overlap` reads its first lines, where it goes on from something; `settled` is how much of
    its text is verified or repeats what is. `done`: all that it was opened for is there, and `tail` is what
    came behind that, of which `closing` characters are the closing line. `ended` is the finish reason with
    which it ended, as a client would be told, "" as long as it writes.

    `one_line`: it is for the due line only, which was begun up to the value of `cell`, when there were
    `since` lines; `room`: the tokens that it may have for that, None: all that are left.

    `alone` reads its answer where its step is asked for by itself; `prefix` is the question then.

    `characters`, `rows` (line ends) and `tokens` are what it has written, read or not; `ahead` are tokens
    that were written and not yet told. `thoughts` are those of `tokens` that it thought, `musing` the ones
    that nobody was told of yet, `thought` the characters. `told` is the last usage that came before the
    end. `cut_short` says where a violation cut it. `level` is how much of each line the grammar gives that
    was sent with it, which `heeding` holds against what it writes; None: there was none.
    """

    number: int
    upstream: int
    strategy: Strategy
    counted: bool
    step: str
    prefix: str
    given: frozenset[str]
    scaffold: bool
    stop: str
    cut: bool
    overlap: Overlap | None
    asked: int = 0
    one_line: bool = False
    cell: int | None = None
    since: int = 0
    alone: Answering | None = None
    room: int | None = None
    pieces: list[str] = field(default_factory=list)  # of all that it has written
    length: int = 0  # of these: joining them for each line would take ever longer
    line: str = ""  # what has been written of the line that is not yet ended
    done: bool = False
    vote: bool = False  # whether it came to a line that was put to the vote
    tail: str = ""
    closing: int = 0
    settled: int = 0
    ended: str = ""
    characters: int = 0
    rows: int = 0
    tokens: int = 0
    ahead: int = 0
    thoughts: int = 0
    musing: int = 0
    thought: int = 0
    told: Usage | None = None
    usage: Usage | None = None
    cut_short: Cut | None = None
    ours: frozenset[Ours] = frozenset()
    level: Level = Level.NONE
    heeding: Heeding | None = None

    @property
    def ignored(self) -> bool:
        """Whether it wrote what its grammar forbids."""
        return self.heeding is not None and self.heeding.strayed

    @property
    def overran(self) -> bool:
        """Whether its line has used up the room, which is more than any spelling of it needs.

        No token has fewer than one byte: where there are fewer of them, it was not we who cut it.
        """
        return self.room is not None and len(self.line.encode()) >= self.room

    def heed(self, piece: str) -> None:
        """Hold a piece of what was written against the grammar."""
        if self.heeding is not None:
            self.heeding.read(piece)

    def end(self, event: Ended) -> None:
        """Take how it ended."""
        self.usage = event.usage
        self.ended = finish.told(event.finish_reason)
        if self.heeding is not None:
            self.heeding.end(event.finish_reason)
            self.heeding.strayed = self.heeding.strayed or event.strayed

    def hear(self, text: Text) -> None:
        """Count what was written. What the server says of it corrects what was counted."""
        if text.strayed and self.heeding is not None:
            self.heeding.strayed = True
        self.characters += len(text.text)
        self.rows += text.text.count("\n")
        self.tokens += text.tokens
        if text.thought is not None:
            self.thoughts += text.tokens
            self.musing += text.tokens
            self.thought += len(text.thought)
        self.ahead = text.ahead
        if text.usage is not None:
            self.told, self.tokens = text.usage, text.usage.completion - text.ahead

    def take(self, piece: str) -> None:
        """Remember a piece of what was written, at most one line of it."""
        self.pieces.append(piece)
        self.length += len(piece)
        self.line = "" if piece.endswith("\n") else self.line + piece

    @property
    def text(self) -> str:
        """All that it has written."""
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    @property
    def cost(self) -> Usage:
        """What it has cost: as reported, else as counted; most servers tell nothing of what was cut.

        A generation that wrote nothing may not have been read either, and counts for nothing.
        """
        if self.usage is not None:
            return self._with_thoughts(self.usage)
        written = self.tokens + self.ahead
        if self.told is not None:
            estimated = written != self.told.completion
            return self._with_thoughts(replace(self.told, completion=written, estimated=estimated))
        return self._with_thoughts(
            Usage(prompt=self.asked if written else 0, completion=written, estimated=True)
        )

    def _with_thoughts(self, usage: Usage) -> Usage:
        """Say how much of it was thoughts, where the server does not."""
        if usage.reasoning or not self.thoughts:
            return usage
        return replace(usage, reasoning=min(self.thoughts, usage.completion), counted=not usage.estimated)

    def failed(self, violation: Violation, due: Expected, *, delivered: bool, cell: int | None) -> Attempt:
        """Give what the policy remembers of it, where a violation ended it at the step that is due.

        `cell` is the one of the due line that could be scaffolded.
        """
        given = due.path in self.given and not (self.one_line and cell != self.cell)
        return replace(
            self.attempt(),
            kind=violation.kind,
            failed_at=due.path,
            step_kind=due.kind,
            found=violation.found,
            delivered=delivered,
            scaffoldable=cell is not None and (self.scaffold or not given),
            repairable=due.known,
        )

    def attempt(self) -> Attempt:
        """Give what the policy remembers of it, where no violation ended it."""
        return Attempt(
            upstream=self.upstream,
            strategy=self.strategy,
            step=self.step,
            counted=self.counted,
            prefix=self.prefix,
            text=self.text,
            vote=self.vote,
        )
