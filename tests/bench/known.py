"""A model whose chances are known, as an upstream and as a server on the loopback."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

from guard.bench.measured import Way
from guard.bench.probe import Plan
from guard.bench.tasks import DECIDED, Instance, Skill, instances
from guard.dialect.notation import Dialect
from guard.errors import UpstreamStatusError
from guard.run.messages import Ended, Open, Target, Text, Usage
from guard.trace import render
from guard.upstream.abilities import CONTINUATIONS, GRAMMARS, ODD
from guard.upstream.base import ClientCall
from guard.wire.chat import text_of
from tests.upstream.servers import DONE, USAGE, Connection, said, serving, whole

GRAMMAR, BAD_GRAMMAR = GRAMMARS[Dialect.GBNF]
NUMBER = re.compile(r"[0-9]+$")
FAR = 10_000


@dataclass
class Known:
    """Writes each line right with the chance of its skill and way.

    `count` has the lines by skill, way and whether they were right. `continues`: whether it goes on with what
    an assistant is said to have begun. `grammars`: whether it keeps to a grammar, `picky`: and refuses bad ones.
    """

    plan: Plan
    chances: Mapping[Way, float]
    of: Mapping[Skill, float] = field(default_factory=dict)  # of first tries, where one differs
    continues: bool = True
    grammars: bool = False
    picky: bool = True
    usage: bool = True
    prose: float = 0.0  # the chance that a wrong line is none
    count: Counter[tuple[Skill, Way, bool]] = field(default_factory=Counter)
    random: Random = field(default_factory=lambda: Random(7))
    _wrong: dict[str, int] = field(default_factory=dict)  # by nonce, the place of the last wrong line

    _first: dict[str, str] = field(default_factory=dict)  # by nonce, the value of the first line

    def __post_init__(self) -> None:
        drawn = instances(self.plan.tasks, self.plan.runs, Random(self.plan.seed))
        self._instances = {instance.job.nonce: instance for instance in drawn}

    def answer(self, messages: Sequence[Mapping[str, Any]], grammar: str | None) -> Iterator[str]:
        """Write an answer, a line at a time. Raises `ValueError` for a grammar that is none."""
        if grammar == BAD_GRAMMAR and self.grammars and self.picky:
            raise ValueError("the grammar is none")
        if grammar == GRAMMAR and self.grammars:
            return iter([ODD])
        asked = [text_of(dict(message)) for message in messages]
        for question, _, then in CONTINUATIONS:
            if question == asked[0]:
                return iter([f" {then} and so on" if self.continues else "Sure! Here they are."])
        if grammar in {GRAMMAR, BAD_GRAMMAR}:
            return iter(["Hello!"])
        [nonce] = {nonce for text in asked for nonce in self._instances if nonce in text}
        return self._trace(self._instances[nonce], nonce, messages)

    def _trace(self, instance: Instance, nonce: str, messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        roles = [message["role"] for message in messages]
        stands = text_of(dict(messages[roles.index("assistant")])) if "assistant" in roles else ""
        prefilled = roles[-1] == "assistant"
        place = stands.count("\n") if prefilled or stands else 0
        tail = stands.rpartition("\n")[2] if prefilled else ""
        turn = "" if prefilled else text_of(dict(messages[-1]))
        place -= prefilled
        if not stands:
            yield render.begin(instance.job.program.name, nonce) + "\n"
        elif not prefilled:
            place = len(stands.splitlines()) - 1
        way = Way.FIRST
        if self._wrong.get(nonce) == place:
            way = Way.SCAFFOLD if tail.endswith("=") or "Complete this line" in turn else Way.RETRY
        self._wrong.pop(nonce, None)
        for line in self._lines(instance, nonce, place, way, given=tail.endswith("=")):
            yield line.removeprefix(tail)
            tail = ""

    def _lines(self, instance: Instance, nonce: str, place: int, way: Way, *, given: bool) -> Iterator[str]:
        for index in range(place, len(instance.lines)):
            skill = instance.skill(instance.steps[index][0].path)
            chance = self.of.get(skill, self.chances[way]) if way is Way.FIRST else self.chances[way]
            right = self.random.random() < chance
            self.count[skill, way, right] += 1
            line = (
                self._right(instance, index, nonce)
                if right
                else self._mistake(instance, index, nonce, given=given)
            )
            if not right and skill not in DECIDED:
                self._wrong.setdefault(nonce, index)  # what comes behind is not read
            if index == 0:
                self._first[nonce] = line.partition(" <-")[0].split()[-1]
            yield line + "\n"
            way, given = Way.FIRST, False
        yield render.end(nonce) + "\n"

    def _right(self, instance: Instance, index: int, nonce: str) -> str:
        """The line that follows: an answer is what was decided before, right or wrong."""
        if index == len(instance.lines) - 1 and instance.skill("1") in DECIDED:
            return f"{instance.steps[index][0].path} return {self._first[nonce]}"
        return instance.lines[index]

    def _mistake(self, instance: Instance, index: int, nonce: str, *, given: bool) -> str:
        step, value = instance.steps[index]
        if isinstance(value, bool) and step.decision is not None:
            return render.line(step, not value)
        if not given and self.random.random() < self.prose:
            return f"{step.path} and now we go on, {self.random.randrange(FAR)}"
        line, arrow, quote = self._right(instance, index, nonce).partition(" <-")
        if line.endswith(("true", "false")):
            return f"{line.rpartition(' ')[0]} {'false' if line.endswith('true') else 'true'}"
        if step.decision is not None:
            return f"{line.rpartition(' ')[0]} {90 + self.random.randrange(9)}{arrow}{quote}"
        return NUMBER.sub(str(FAR + self.random.randrange(FAR)), line)

    def rate(self, way: Way, skills: Sequence[Skill]) -> tuple[int, int]:
        """What it did: right ones of all."""
        right, wrong = (sum(self.count[skill, way, was] for skill in skills) for was in (True, False))
        return right, right + wrong


class KnownUpstream:
    """The model in this process."""

    def __init__(self, known: Known, *, prefill: bool = True) -> None:
        self.known = known
        self.target = Target(
            name="known", model="m", prefill=prefill, dialect=Dialect.GBNF if known.grammars else None
        )

    async def start(self) -> None:
        """There is nothing to start."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        del client
        messages = list(command.messages)
        if command.prefix:
            messages.append({"role": "assistant", "content": command.prefix})
        try:
            answer = self.known.answer(messages, command.grammar)
        except ValueError as error:
            raise UpstreamStatusError(str(error), upstream_status=400) from None
        tokens = 0
        for line in stopped(answer, command.stop):
            tokens += 8
            yield Text(line, 8)
        yield Ended("stop", Usage(completion=tokens, estimated=not self.known.usage))

    def forward(self, request: object, *, client: ClientCall) -> Any:
        raise NotImplementedError


def stopped(answer: Iterator[str], stop: Sequence[str]) -> Iterator[str]:
    """Write no more than a line where that is asked for; the text at which a server stops is left out."""
    return (line.removesuffix("\n") for line in islice(answer, 1)) if stop else answer


@asynccontextmanager
async def known_server(known: Known) -> AsyncIterator[str]:
    """The model behind HTTP; gives the URL of its API."""

    async def behave(connection: Connection) -> None:
        while True:
            body = await connection.request()
            try:
                answer = known.answer(body["messages"], body.get("grammar"))
            except ValueError as error:
                await connection.send(whole("400 Bad Request", json.dumps({"error": str(error)}).encode()))
                continue
            answer = stopped(answer, body.get("stop", ()))
            usage = [USAGE] if known.usage else []
            await connection.stream(*(said(line) for line in answer), said(None, "stop"), *usage, DONE)

    async with serving(behave) as server:
        yield server.url
