"""Tries on a live server, with few short requests, what the table of kinds says that it can do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

import orjson

from guard.dialect.notation import Dialect
from guard.errors import UpstreamError, UpstreamTimeout
from guard.foreign import Foreign, Sink
from guard.run.messages import Message, Open, Strategy
from guard.upstream.abilities import CONTINUATIONS, GRAMMARS, ODD, ROOMS, SHORT, NoClient, goes_on
from guard.upstream.answer import OK, Answer, read_answer
from guard.upstream.base import Passage, PassageAnswer, Upstream
from guard.upstream.bodies import PLAIN, whole
from guard.upstream.capabilities import HELD, Api, Backend, Echo, Place, Prefix, Roles, Thinking
from guard.upstream.request import body as body_of
from guard.wire import finish
from guard.wire.lenient import paired, read_json

REQUEST_S: Final = 120.0  # for one request
MAX_ANSWER_BYTES: Final = 1024 * 1024
LONG: Final = 400  # tokens of an answer that is cut
THOUGHTFUL: Final = 2_000  # tokens of an answer of a model that thinks first
REFUSED_KEY: Final = frozenset({401, 403})
BUSY: Final = frozenset({0, 429, 503})
PAUSES_S: Final = (0.5, 5.0)  # before a server that was busy is asked again
UNKNOWN: Final = "cannot be seen"


_WAYS: Final = (Prefix.CONTINUE, Prefix.FLAGGED, Prefix.TRAILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found of one capability, beside what the table says: `override` is what to write instead."""

    capability: str
    found: str
    row: str = ""
    override: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Trial:
    """The requests to one server. `requests` counts them, `findings` is what they showed, through `sink`."""

    upstream: Upstream
    row: Backend
    model: str
    told: Callable[[Finding], None] = lambda _finding: None
    sink: Sink = field(default_factory=Sink)
    requests: int = 0
    budget: int = SHORT
    findings: list[Finding] = field(default_factory=list)
    _continued: bool = field(default=False, init=False)  # in the row's way
    _prefixed: bool = field(default=False, init=False)  # in some way

    async def run(self) -> bool:
        """Try everything. Gives whether the server could be used at all."""
        if not await self._reachable():
            return False
        plain = await self._plain()
        if not plain.good:
            return False
        await self._prefix()
        await self._thoughts(plain, *await self._grammar())
        await self._n()
        await self._stop()
        await self._cut()
        return True

    # --- asking ----------------------------------------------------------------------------------

    async def _ask(self, row: Backend, command: Open, **more: object) -> Answer:
        """Ask as a row says; again where the server is busy or breaks off, which else would be a refusal."""
        sent = {**body_of(row, command, model=self.model, extra={}), **more}
        if sent.get("stream") is False:
            sent.pop("stream_options", None)
        answer = await self._once(sent)
        for pause_s in PAUSES_S:
            if answer.status not in BUSY:
                break
            await asyncio.sleep(pause_s)
            answer = await self._once(sent)
        return answer

    async def _once(self, sent: Mapping[str, object]) -> Answer:
        try:
            async with self._passed(_asked(self.row.api, sent)) as answer:
                data = await whole(answer, MAX_ANSWER_BYTES)
        except UpstreamError as error:
            return Answer(status=0, problem=error.message, said=error.said.text)
        return read_answer(answer.status, data, self.row.api)

    @asynccontextmanager
    async def _passed(self, passage: Passage) -> AsyncIterator[PassageAnswer]:
        self.requests += 1
        try:
            async with (
                asyncio.timeout(REQUEST_S),
                self.upstream.forward(passage, client=NoClient()) as answer,
            ):
                yield answer
        except TimeoutError:
            raise UpstreamTimeout(f"no answer in {REQUEST_S:g} s") from None

    def _open(
        self, *messages: Message, prefix: str = "", grammar: str | None = None, stop: tuple[str, ...] = ()
    ) -> Open:
        return Open(
            generation=1,
            attempt=1,
            upstream=self.upstream.target.name,
            strategy=Strategy.INITIAL,
            messages=messages,
            prefix=prefix,
            grammar=grammar,
            max_tokens=self.budget,
            temperature=0.0,
            stop=stop,
        )

    def _say(
        self, capability: str, found: str, row: str = "", override: Mapping[str, object] | None = None
    ) -> None:
        clean = self.sink.redacted(found)  # a server's names may be in it, too
        finding = Finding(capability=capability, found=clean, row=row, override=override or {})
        self.findings.append(finding)
        self.told(finding)

    def _why(self, problem: str, said: Foreign) -> str:
        return ": ".join(filter(None, (problem, self.sink.shown(said))))

    # --- what is tried ---------------------------------------------------------------------------

    async def _reachable(self) -> bool:
        """See whether it is there, takes the key and knows the model, as far as its list of models tells."""
        started = perf_counter()
        try:
            async with self._passed(
                Passage(method="GET", path="/models", headers=(PLAIN,), body=b"")
            ) as answer:
                data = await whole(answer, MAX_ANSWER_BYTES)
        except UpstreamError as error:
            self._say("reachable", f"no: {self._why(error.message, error.said.text)}")
            return False
        self._say("reachable", f"yes, in {perf_counter() - started:.2f} s")
        if answer.status in REFUSED_KEY:
            self._say("key", f"refused: it answered {answer.status}")
            return False
        self._say("model", _listed(answer.status, data, self.model))
        return True

    async def _plain(self) -> Answer:
        """Ask something simple; where that is refused, leave out or rename one thing after the other."""
        command = self._open(
            {"role": "system", "content": f"Whatever you are asked, answer with the one word {ODD}."},
            {"role": "user", "content": "Say hello."},
        )
        answer = Answer(status=0)
        problem = ""
        for changes in ({}, *_ways_out(self.row)):
            row = replace(self.row, **changes)
            answer = await self._ask(row, command)
            if answer.good and (not answer.text or answer.cut):
                longer = await self._ask(row, replace(command, max_tokens=THOUGHTFUL))
                if not answer.text or longer.thinks:  # it has spent all of it on thoughts
                    self.budget, answer = THOUGHTFUL, longer
            if answer.status in REFUSED_KEY:
                self._say("key", f"refused: {self._why(answer.problem, answer.said)}")
                return answer
            if answer.good:
                self._plainly(answer, row, changes, problem)
                return answer
            problem = problem or self._why(answer.problem, answer.said)
        self._say("answers", f"no: {problem}")
        return answer

    def _plainly(self, answer: Answer, row: Backend, changes: Mapping[str, Any], problem: str) -> None:
        self._say("key", "accepted")
        if changes:
            self._say("request", f"refused: {problem}", "accepted", _written(changes))
        else:
            self._say("request", "accepted", "accepted")
        table, self.row = self.row, row
        self._say("streams", _yes(answer.streamed), "yes")
        wrong = {} if answer.usage == row.usage else {"usage": answer.usage}
        self._say("usage", _yes(answer.usage), _yes(row.usage), wrong)
        if row.roles is Roles.NONE:
            self._say("instructions", "not tried", table.roles.value)
        else:
            followed = "followed" if ODD in answer.text else "accepted, not followed"
            self._say("instructions", followed, row.roles.value)
        fields = sorted(answer.thoughts)
        if fields:
            known = set(fields) <= set(row.reasoning_fields)
            self._say(
                "thoughts",
                ", ".join(fields),
                ", ".join(row.reasoning_fields) or "none",
                {} if known else {"reasoning_fields": fields},
            )

    async def _prefix(self) -> None:
        """Have something continued, in the way of the row and, where that fails, in the others."""
        ways = [self.row.prefix, *(way for way in _WAYS if way is not self.row.prefix)]
        if self.row.grammar is Place.CUSTOM_TOOL or self.row.api is Api.RESPONSES:
            ways = ways[:1]
        found, refused = Prefix.NONE, False
        for way in ways:
            if way is Prefix.NONE:
                continue
            for question, begun, then in CONTINUATIONS:
                row = replace(self.row, prefix=way)
                answer = await self._ask(row, self._open(_user(question), prefix=begun))
                refused = refused or not answer.good
                if answer.good and goes_on(answer.text.removeprefix(begun), then):
                    found = way
                    await self._echo(row, question, begun, streams=answer.text.startswith(begun))
                    break
                if not answer.good:
                    break
            if found is not Prefix.NONE:
                break
        self._continued, self._prefixed = found is self.row.prefix, found is not Prefix.NONE
        wrong = {} if self._continued else {"prefix": found.value}
        none = "refused" if refused else "not continued"
        self._say("prefix", none if found is Prefix.NONE else found.value, self.row.prefix.value, wrong)

    async def _thoughts(self, plain: Answer, row: Backend, held: Answer | None) -> None:
        """See where thoughts stand, and what a grammar means for them.

        `held` is an answer under one that was obeyed, None where none was.
        """
        if not plain.thinks:
            if row.thinks and finish.is_own(plain.finish_reason):
                self._say("thinks", "no", "yes", {"thinks": False})
            return
        if held is None or held.thinks:
            found: dict[str, object] = {} if held is None else {"thinking": Thinking.FREE}
            known = not plain.begun or self._prefixed  # behind a prefix there are none
            found |= {} if known else {"thinks": True}
        elif plain.begun and not self._prefixed and await self._has_room(row):
            found = {"thinking": Thinking.INSIDE, "thinks": True, "prefix": Prefix.NONE}
        elif plain.begun and self._prefixed and row.prefill and row.dialect is not Dialect.JSON_SCHEMA:
            found = {}
        else:
            # Under the grammar an answer is none of a block that the prompt has opened.
            kept = row.thinking is Thinking.INSIDE and not plain.begun  # a way of asking, not of answering
            found = {"thinking": row.thinking if kept else Thinking.FORBIDDEN, "thinks": False}
        if plain.begun:
            self._say("thinks", "yes", _yes(row.thinks), _other(row, found, "thinks", "prefix"))
        if held is not None:
            thinking = Thinking.FREE if held.thinks else found.get("thinking", Thinking.FORBIDDEN)
            self._say("thinking", str(thinking), row.thinking.value, _other(row, found, "thinking"))

    async def _has_room(self, row: Backend) -> bool:
        """See whether a grammar can have thoughts in front that the prompt has opened."""
        room = ROOMS.get(row.dialect) if row.dialect is not None else None
        if room is None or row.grammar is Place.CUSTOM_TOOL:
            return False
        command = replace(self._open(_user("Say hello."), grammar=room), max_tokens=THOUGHTFUL)
        answer = await self._ask(replace(row, thinking=Thinking.INSIDE), command)
        return answer.good and answer.begun and answer.text.rstrip().endswith(ODD)

    async def _echo(self, row: Backend, question: str, begun: str, *, streams: bool) -> None:
        whole = await self._ask(row, self._open(_user(question), prefix=begun), stream=False)
        found = Echo.NEVER
        if streams:
            found = Echo.ALWAYS
        elif whole.text.startswith(begun):
            found = Echo.WHOLE
        wrong = {} if found is row.echo else {"echo": found.value}
        self._say("echo", found.value, row.echo.value, wrong)

    async def _grammar(self) -> tuple[Backend, Answer | None]:
        """See whether a grammar is obeyed: the row's or, where it has none, that of any place.

        Gives the row that it holds for, and an answer under it, None where none is.
        """
        row = self.row
        if row.grammar is None or row.dialect is None:
            for place in Place:
                tried = replace(row, grammar=place, dialect=HELD[place][0])
                answer = await self._ask(tried, self._open(_user("Say hello."), grammar=_good(tried)))
                if answer.good and ODD in answer.text:
                    self._say("grammar", f"{place.value}: obeyed", "none", {"grammar": place.value})
                    return tried, answer
            self._say("grammar", "none is obeyed", "none")
            return row, None
        said = f"{row.grammar.value}: {row.dialect.value}"
        answer = await self._ask(row, self._open(_user("Say hello."), grammar=_good(row)))
        if not answer.good:
            why = self._why(answer.problem, answer.said)
            self._say("grammar", f"refused: {why}", said, {"grammar": "none"})
            return row, None
        if ODD not in answer.text:
            self._say("grammar", "ignored", said, {"grammar": "none"})
            return row, None
        self._say("grammar", "obeyed", said)
        await self._bad_grammar(row, row.dialect)
        if row.prefill and row.dialect is not Dialect.JSON_SCHEMA and self._continued:
            self._prefixed = await self._both(row)
        return row, answer

    async def _both(self, row: Backend) -> bool:
        """See whether a grammar holds behind a prefix: some servers wait for thoughts, which never come."""
        question, begun, _ = CONTINUATIONS[0]
        answer = await self._ask(row, self._open(_user(question), prefix=begun, grammar=_good(row)))
        obeyed = answer.good and ODD in answer.text
        why = self._why(answer.problem, answer.said)
        found = "obeyed" if obeyed else "ignored" if answer.good else f"refused: {why}"
        self._say("grammar behind", found, "obeyed", {} if obeyed else {"prefix": Prefix.NONE.value})
        return obeyed

    async def _bad_grammar(self, row: Backend, dialect: Dialect) -> None:
        answer = await self._ask(row, self._open(_user("Say hello."), grammar=GRAMMARS[dialect][1]))
        self._say("bad grammar", "ignored" if answer.good else "refused")

    async def _n(self) -> None:
        if self.row.api is Api.RESPONSES:
            self._say("n", "not tried", "no")
            return
        answer = await self._ask(self.row, self._open(_user("Say hello.")), n=2, stream=False)
        able = answer.good and answer.choices == 2
        self._say("n", _yes(able), _yes(self.row.n), {} if able == self.row.n else {"n": able})

    async def _stop(self) -> None:
        """See whether a count stops where it is told to."""
        field_name = self.row.stop_field
        if field_name is None:
            self._say("stop", "not tried", "none")
            return
        question, begun, _ = CONTINUATIONS[0]
        prefixed = self.row.prefill
        answer = await self._ask(
            self.row, self._open(_user(question), prefix=begun if prefixed else "", stop=("eight",))
        )
        said = answer.text.lower()
        if not answer.good:
            why = self._why(answer.problem, answer.said)
            self._say("stop", f"refused: {why}", field_name, {"stop_field": "none"})
        elif "eight" in said:
            self._say("stop", "ignored", field_name, {"stop_field": "none"})
        else:
            self._say("stop", "works" if "seven" in said else UNKNOWN, field_name)

    async def _cut(self) -> None:
        """Cut a long answer, and see how soon the next one begins."""
        before = await self._first(cut=False) or await self._first(cut=False)
        await self._first(cut=True)
        after = await self._first(cut=False) or await self._first(cut=False)
        found = UNKNOWN
        if before is not None and after is not None:
            found = f"the next answer began after {after:.2f} s, without a cut before it after {before:.2f} s"
        self._say("cut", found)

    async def _first(self, *, cut: bool) -> float | None:
        """Wait for the first bytes of a stream, in seconds; cut it there, or read a short one to its end."""
        command = self._open(_user("Write a long story." if cut else "Say hello."))
        command = replace(command, max_tokens=LONG) if cut else command
        started, first = perf_counter(), None
        try:
            sent = body_of(self.row, command, model=self.model, extra={})
            async with self._passed(_asked(self.row.api, sent)) as answer:
                async for _ in answer.body:
                    first = first or perf_counter() - started
                    if cut:
                        break
        except UpstreamError:
            return None
        return first if answer.status == OK else None


# --- words ---------------------------------------------------------------------------------------


def overrides(findings: Sequence[Finding]) -> dict[str, object]:
    """Give the capabilities to write where a server is not as the table says."""
    written: dict[str, object] = {}
    for finding in findings:
        written |= finding.override
    if written.get("grammar") == Place.CUSTOM_TOOL.value:  # whose input cannot be begun
        written = {name: value for name, value in written.items() if name not in {"prefix", "echo"}}
    return written


def _asked(api: Api, sent: Mapping[str, object]) -> Passage:
    headers = (("content-type", "application/json"), PLAIN)
    return Passage(method="POST", path=api.path, headers=headers, body=orjson.dumps(sent))


def _other(row: Backend, found: Mapping[str, object], *names: str) -> dict[str, object]:
    """Give those of some columns that are other than in a row, as they are written in the configuration."""
    return _written(
        {name: found[name] for name in names if found.get(name, getattr(row, name)) != getattr(row, name)}
    )


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _good(row: Backend) -> str:
    assert row.dialect is not None
    return GRAMMARS[row.dialect][0]


def _ways_out(row: Backend) -> Iterator[dict[str, Any]]:
    """Give what may be wrong with a request that is refused, one thing after the other, then all together."""
    other = "max_tokens" if row.max_tokens_field == "max_completion_tokens" else "max_completion_tokens"
    ways: list[dict[str, Any]] = [
        {"stream_options": False},
        {"roles": Roles.NONE},
        *([{"max_tokens_field": other}] if row.api is Api.CHAT else []),
        {"refuses": row.refuses | {"temperature"}, "temperature": None},
    ]
    yield from (way for way in ways if any(getattr(row, name) != value for name, value in way.items()))
    yield {name: value for way in ways for name, value in way.items() if name != "max_tokens_field"}


def _written(changes: Mapping[str, Any]) -> dict[str, object]:
    """Spell changed columns as they are written in the configuration."""
    return {
        name: sorted(value) if isinstance(value, frozenset) else getattr(value, "value", value)
        for name, value in changes.items()
        if value is not None
    }


def _listed(status: int, data: bytes, model: str) -> str:
    found = read_json(data) if status == OK else None
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return "it lists no models"
    models = [each["id"] for each in listed if isinstance(each, dict) and isinstance(each.get("id"), str)]
    if model in models:
        return "listed"
    some = ", ".join(paired(name[:100]) for name in models[:3])
    return f"not among the {len(models)} that it lists, such as {some or 'none'}"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
