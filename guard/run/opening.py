"""What a generation is opened with: the prefix or the dialogue turn, and the grammar of what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from guard.check.verdict import Kind
from guard.dialect.lark import Level, narrow
from guard.dialect.notation import Dialect, written
from guard.dialect.promise import promised
from guard.dialect.thoughts import behind_thoughts
from guard.dialect.tree import Grammar
from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.types import Value
from guard.run import feedback, lines
from guard.run.messages import Message, Target
from guard.run.policy import ForceBy
from guard.run.progress import Progress
from guard.trace import render
from guard.wire.chat import text_of

CHARACTERS_PER_TOKEN: Final = 4  # in English, about
_LOOSER: Final = {Level.VALUES: Level.OPERANDS, Level.OPERANDS: Level.SHAPE, Level.SHAPE: Level.NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a client asks for.

    `messages` is the conversation with our instructions in it. `nonce` is the request's, six hex digits.
    `max_tokens` is the client's budget for all generations together, `budget_field` what the client calls it.
    `whole`: the client reads all at the end. What would have been delivered by then stands all the same, so
    that a run comes to the same whether or not its client reads a stream.
    """

    program: Program
    inputs: Mapping[str, Value]
    messages: tuple[Message, ...]
    nonce: str
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    budget_field: str = "max_completion_tokens"
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a generation is opened, as far as its text depends on it.

    `cell` is the cell of the due line that is scaffolded, None for none. `violation` is what went wrong,
    if the model is to be told. `again` is how often the like was asked before, as far as that may change
    the words. `alone`: the step is asked for by itself, without the trace.
    """

    cell: int | None = None
    violation: tuple[Kind, str] | None = None
    again: int = 0
    alone: bool = False


NO_REASON: Final = Reason()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The text of a generation that is to be opened.

    `prefix` travels with the request; `tail` is what it says of the line that is due, `begun` the beginning
    of that line that the model is given, there or in words. `given` are the
    paths of the lines whose operands the model was given. `stop` is the path of the last step that the
    generation is for, "" where it goes on to the answer. `turn`: it answers a turn of a dialogue.
    `one_line`: it is for the due line and no other, begun up to the value of `cell`; None: the prefix has no
    operands. `bounded`: nothing else is written in front of that, so that it takes few tokens. `promised`
    gives what a server that heeds the grammar can write.
    """

    messages: tuple[Message, ...]
    prefix: str
    tail: str
    begun: str
    grammar: str | None
    given: frozenset[str]
    stop: str
    turn: bool
    one_line: bool = False
    bounded: bool = False
    cell: int | None = None
    loosened: Level | None = None  # of the grammar, where its notation could not say what was asked for
    promised: Callable[[], Grammar] | None = None

    @property
    def tokens(self) -> int:
        """About how many tokens the model is given to read."""
        characters = sum(len(text_of(message)) for message in self.messages) + len(self.prefix)
        return characters // CHARACTERS_PER_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forced:
    """A grammar in the words of its notation, at the level that it came to, and what it promises."""

    level: Level
    text: str | None = None
    given: frozenset[str] = frozenset()
    stop: str = ""
    promised: Callable[[], Grammar] | None = None


def opening(
    job: Job,
    progress: Progress,
    target: Target,
    level: Level,
    reason: Reason,
    *,
    by: ForceBy = ForceBy.GRAMMAR,
) -> Opening:
    """Make the text of a generation that goes on from what is verified.

    Lines that are asked for as members of a JSON object go on from no prefix: the object has one beginning.
    The opening line is no member of it, and the guard's to write.
    """
    due = progress.expected
    assert due is not None, "there is nothing left to write"
    if lines.must(target, level, by):
        return _one_line(job, progress, due, level, reason)
    scaffold = None if reason.cell is None else render.scaffold(due, reason.cell)
    in_object = target.dialect is Dialect.JSON_SCHEMA
    schema = _grammar(job, progress, target, level, "") if in_object else None
    members = None if schema is None else schema.text
    prefill = target.prefill and members is None
    tail = (scaffold or render.stub(due)) if prefill else ""
    if prefill or members is not None:
        progress.open_frame()
    forced = schema or _grammar(job, progress, target, level, tail)
    grammar, given, stop = forced.text, forced.given, forced.stop
    loosened = forced.level if forced.level is not level and target.dialect is not None else None
    if grammar is None and lines.can(target, level, by):
        return replace(_one_line(job, progress, due, level, reason), loosened=loosened)
    if level is Level.VALUES:
        stop = due.path  # whatever can be computed behind it, the guard writes itself
    if prefill:
        messages = _instructed(job, reason)
    else:
        messages = _dialogue(job, progress, due, reason, scaffold, framed=members is not None)
    return Opening(
        messages=messages if members is None else _with_user_text(messages, feedback.as_members(members)),
        prefix=progress.verified + tail if prefill else "",
        tail=tail,
        begun=scaffold or tail,
        grammar=grammar,
        given=given if scaffold is None else given | {due.path},
        stop=stop,
        turn=not prefill and (members is None or messages is not job.messages),
        loosened=loosened,
        promised=forced.promised,
    )


def _one_line(job: Job, progress: Progress, due: Expected, level: Level, reason: Reason) -> Opening:
    progress.open_frame()
    begun = lines.begin(due, level)
    if reason.cell is not None:
        begun = lines.Beginning(render.scaffold(due, reason.cell), reason.cell)
    return Opening(
        messages=_instructed(job, reason),
        prefix=progress.verified + begun.text,
        tail=begun.text,
        begun=begun.text,
        grammar=None,
        given=frozenset() if begun.cell is None else frozenset({due.path}),
        stop=due.path,
        turn=False,
        one_line=True,
        bounded=True,
        cell=begun.cell,
    )


def _grammar(job: Job, progress: Progress, target: Target, level: Level, tail: str) -> _Forced:
    """Narrow the grammar: at the next looser level where the notation cannot say it, at `none` in the end."""
    if target.dialect is None or level is Level.NONE:
        return _Forced(level=level)
    narrowed = narrow(
        job.program,
        job.inputs,
        progress.checker.sent,
        level=level,
        nonce=job.nonce,
        stop_at_decision=target.prefill or target.dialect is Dialect.JSON_SCHEMA,
        prefix_tail=tail,
    )
    stop = "" if narrowed.complete else narrowed.last
    if narrowed.grammar is None:
        return _Forced(level=level, given=narrowed.given, stop=stop)
    room = target.thoughts and not target.prefill and target.dialect is not Dialect.JSON_SCHEMA
    grammar = behind_thoughts(narrowed.grammar, begun=target.thinks) if room else narrowed.grammar
    text = written(grammar, target.dialect, target.patterns)
    if text is None:
        return _grammar(job, progress, target, _LOOSER[level], tail)
    return _Forced(
        level=Level.SHAPE if narrowed.capped else level,
        text=text,
        given=narrowed.given,
        stop=stop,
        promised=partial(promised, narrowed.grammar, target.dialect, text),
    )


def _instructed(job: Job, reason: Reason) -> tuple[Message, ...]:
    """Say with the instructions what to mind, where the trace itself is prefilled."""
    if reason.violation is None:
        return job.messages
    return _with_user_text(job.messages, feedback.told(*reason.violation))


def _dialogue(
    job: Job, progress: Progress, due: Expected, reason: Reason, scaffold: str | None, *, framed: bool
) -> tuple[Message, ...]:
    """Ask in a turn of its own for what is left, where nothing can be prefilled.

    `framed`: the frame is there, and not the model's to write.
    """
    # Chat templates trim it, or a model takes up the blanks. An opening line alone is nothing to go on from.
    stands = progress.verified.rstrip() if progress.lines else ""
    if not stands and reason.violation is None and scaffold is None and not reason.again:
        return job.messages
    begin = "" if stands or framed else progress.begin.rstrip("\n")
    turn = feedback.turn(
        step=due.path,
        begin=begin,
        violation=reason.violation,
        again=reason.again > 1,
        line=scaffold,
        afresh=not stands and not begin,
    )
    if stands:
        said: Message = {"role": "assistant", "content": stands}
        return (*job.messages, said, {"role": "user", "content": turn})
    return _with_user_text(job.messages, turn)


def _with_user_text(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """Say something more in the user's name; many chat templates want the roles to alternate."""
    match messages:
        case (*before, {"role": "user", "content": str(content)} as last):
            return (*before, {**last, "content": f"{content}\n\n{text}"})
        case (*before, {"role": "user", "content": list(parts)} as last):
            return (*before, {**last, "content": [*parts, {"type": "text", "text": text}]})
        case _:
            return (*messages, {"role": "user", "content": text})
