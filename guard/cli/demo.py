"""The main job on the embedded model: the same requests unguarded and guarded, side by side."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from guard.check.checker import Checker
from guard.check.verdict import Judgement, StepVerified, Violation
from guard.cli.terminal import Style, Terminal, cut
from guard.config import Config, Service, build, default_config
from guard.config.settings import Admin, Defaults, LocalUpstream, Server
from guard.errors import ConfigError
from guard.procedure.execute import Program, reference
from guard.procedure.values import answer_text
from guard.proxy.app import Addresses, serve
from guard.run.messages import Close, Emit, Finish, Open, StepClass, Strategy
from guard.telemetry.observer import FanOut, Observer, RunInfo, RunObserver
from guard.trace import prompt, render
from guard.upstream.local import HOW_TO_INSTALL, require_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from openai import AsyncOpenAI

LONGEST_ANSWER: Final = 400  # tokens that the unguarded model may write: about twice a faithful trace
KEPT_PORT: Final = 8000
STOPPED: Final = 130  # the exit code of what Ctrl-C has ended

# Generations that no violation opened.
_QUIET: Final = frozenset({Strategy.INITIAL, Strategy.DECISION, Strategy.LINE})

_CLASS_STYLES: Final = {
    StepClass.VERIFIED: Style.GOOD,
    StepClass.MODEL_DECIDED: Style.GOOD,
    StepClass.SCAFFOLDED: Style.DOUBTFUL,
    StepClass.REPAIRED: Style.DOUBTFUL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request. `right` is what a reader would decide: the raw values of the model's decisions."""

    procedure: str
    message: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    right: Mapping[str, object] = field(default_factory=dict)


CASES: Final = (
    Case(
        procedure="chain",
        message="Please carry out the procedure.",
        inputs={"a": 14, "b": 8},
    ),
    Case(
        procedure="parcel",
        message="Hello! New order. Parcels: 2, weight: 7 kg each, service: express.",
        right={"parcels": 2, "weight": 7, "service": "express"},
    ),
)


def require_extra() -> None:
    """Raise `ConfigError` where the extra is not installed."""
    require_runtime()
    if find_spec("openai") is None:
        raise ConfigError([("demo", f"the openai client is not installed; install it with {HOW_TO_INSTALL}")])


async def show(model: Path, out: Terminal, *, keep: bool) -> int:
    """Show the product at work with a model file. Returns the exit code; no process is left behind.

    `keep` serves on until the process is told to stop. It can be told at any time; where there was more
    to show, the code is 130 then. Raises `UpstreamError` where the model cannot be run.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    recorder = Recorder()
    service = _service(model, recorder, port=KEPT_PORT if keep else 0)
    out.paragraph(f"model: {model.stem}, in a child process on this machine")
    started = perf_counter()
    async with _serving(service) as (addresses, served, stop):
        if not await _done_before(stop, _compare_all(service, f"{addresses.client}/v1", recorder, out)):
            return STOPPED
        _explain(out)
        out.line(f"\n{perf_counter() - started:.0f} s after the model was there.")
        _try_it(addresses, out, keep=keep)
        if keep:
            await served
    return 0


def _service(model: Path, recorder: Recorder, *, port: int) -> Service:
    shipped = default_config()
    config = Config(
        server=Server(port=port),
        admin=Admin(port=0),
        upstreams={"local": LocalUpstream(kind="local", model=model)},
        routes=shipped.routes,
        defaults=Defaults(unbound="pass"),  # the same requests are made unguarded, too
    )
    service = build(config)
    return replace(service, observer=FanOut([service.observer, recorder]))


@asynccontextmanager
async def _serving(service: Service) -> AsyncIterator[tuple[Addresses, asyncio.Task[None], asyncio.Event]]:
    """Serve in this process; at the end the endpoint and the model's process are gone.

    Gives the addresses, the task that serves, and the event that tells it to stop, as Ctrl-C does.
    """
    ready: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()

    def serving(found: Addresses) -> None:
        if not ready.done():  # Ctrl-C may have come before
            ready.set_result(found)

    served = asyncio.create_task(serve(service, ready=serving, stop=stop))
    try:
        served.add_done_callback(lambda _: ready.cancel())  # whatever kept it from serving is raised below
        try:
            addresses = await ready
        except asyncio.CancelledError:
            if served.done():
                await served
            raise
        yield addresses, served, stop
    finally:
        stop.set()
        with suppress(asyncio.CancelledError):
            await served


async def _done_before(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Do some work, but let go of it when there is to be a stop; tell whether it was done."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            await working
        return not stop.is_set()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait([working, stopping])


# --- what happened behind the endpoint -----------------------------------------------------------


@dataclass(slots=True)
class History:
    """One run as it went."""

    emitted: list[Emit] = field(default_factory=list)
    turns: list[Open | Violation | Close] = field(default_factory=list)
    finish: Finish | None = None


class Recorder(Observer):
    """Keeps the last run."""

    def __init__(self) -> None:
        self.last = History()

    def run_started(self, info: RunInfo) -> RunObserver:
        """See `Observer`."""
        del info
        self.last = History()
        return _Recording(self.last)


class _Recording(RunObserver):
    def __init__(self, history: History) -> None:
        self._history = history

    def opened(self, command: Open) -> None:
        self._history.turns.append(command)

    def closed(self, command: Close) -> None:
        self._history.turns.append(command)

    def observed(self, judgement: Judgement, generation: int = 0) -> None:
        del generation
        if isinstance(judgement, Violation):
            self._history.turns.append(judgement)

    def emitted(self, command: Emit, elapsed_s: float) -> None:
        del elapsed_s
        self._history.emitted.append(command)

    def finished(self, command: Finish, duration_s: float) -> None:
        del duration_s
        self._history.finish = command


# --- one request, twice --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unguarded:
    """What the model wrote on its own: by step `right` or the kind of violation, and the tokens it cost."""

    marks: Mapping[str, str]
    answer: str | None
    text: str
    tokens: int


async def _compare_all(service: Service, url: str, recorder: Recorder, out: Terminal) -> None:
    from openai import AsyncOpenAI  # noqa: PLC0415 (an extra, and a second to import)

    async with AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        for case in CASES:
            await _compare(case, service.config.programs[case.procedure], client, recorder, out)


async def _compare(
    case: Case, program: Program, client: AsyncOpenAI, recorder: Recorder, out: Terminal
) -> None:
    given = ", ".join(f"{name} = {value}" for name, value in case.inputs.items())
    out.heading(f"{program.name}: {given or case.message}")
    raw = dict(case.inputs) or dict.fromkeys(program.sources, case.message)
    inputs = program.accept(raw)
    steps, ending = reference(program, inputs, program.decide(case.right))
    right = answer_text(ending.value, program.result)  # type: ignore[arg-type]  # it came to its end
    unguarded = await _ask_unguarded(case, program, inputs, client)
    answer = await _ask_guarded(case, client)
    history = recorder.last
    given_lines = {emit.step: emit for emit in history.emitted}
    out.line(out.styled(f"\n{'line':46}{'unguarded':19}guarded", Style.FAINT))
    for expected, value in steps:
        emit = given_lines.pop(expected.path, None)
        text = emit.text.rstrip("\n") if emit else render.line(expected, value if expected.decision else None)
        _row(text, unguarded.marks.get(expected.path, "missing"), emit.step_class if emit else None, out)
    for emit in given_lines.values():  # decided otherwise than a reader would, the guarded run went here
        _row(emit.text.rstrip("\n"), "", emit.step_class, out)
    _summary(unguarded, answer, right, history, out)


async def _ask_unguarded(
    case: Case, program: Program, inputs: Mapping[str, object], client: AsyncOpenAI
) -> Unguarded:
    """Send the same prompt without a guard, and judge afterwards what came."""
    nonce = secrets.token_hex(3)
    closing = prompt.closing(program, inputs, nonce, above=program.sources)  # type: ignore[arg-type]
    reply = await client.chat.completions.create(
        model="local",
        messages=[
            {"role": "system", "content": prompt.instructions(program)},
            {"role": "user", "content": f"{case.message}\n\n{closing}"},
        ],
        temperature=0,
        max_tokens=LONGEST_ANSWER,
    )
    text = reply.choices[0].message.content or ""
    checker = Checker(program, inputs, nonce=nonce, stop_at_first=False)  # type: ignore[arg-type]
    judgements = [*checker.feed(text), *checker.close(reply.choices[0].finish_reason)]
    marks: dict[str, str] = {}
    for judgement in judgements:
        match judgement:
            case StepVerified(path=path):
                marks.setdefault(path, "right")
            case Violation(kind=kind, step=path):
                marks[path] = kind.value
            case _:
                pass
    ending = checker.ending
    answer = None if ending is None or ending.value is None else str(ending.value)
    return Unguarded(marks, answer, text, reply.usage.completion_tokens if reply.usage else 0)


async def _ask_guarded(case: Case, client: AsyncOpenAI) -> str | None:
    """Send the request to the guarded endpoint as a stream; None where it was rejected."""
    from openai import APIError  # noqa: PLC0415 (an extra)

    answer: list[str] = []
    try:
        stream = await client.chat.completions.create(
            model=case.procedure,
            messages=[{"role": "user", "content": case.message}],
            temperature=0,
            stream=True,
            extra_body={"stepguard": {"inputs": dict(case.inputs)}},
        )
        async for chunk in stream:
            answer += [choice.delta.content or "" for choice in chunk.choices]
    except APIError:  # a status before the first step, an event in the stream after it
        return None
    return "".join(answer)


# --- telling of it -------------------------------------------------------------------------------


def _row(text: str, unguarded: str, guarded: StepClass | None, out: Terminal) -> None:
    left = f"{unguarded:19}"
    style = Style.GOOD if unguarded == "right" else Style.BAD
    right = "missing" if guarded is None else guarded.value
    out.line(
        f"{cut(text, 45):46}{out.styled(left, style)}"
        f"{out.styled(right, _CLASS_STYLES.get(guarded, Style.BAD) if guarded else Style.BAD)}"
    )


def _summary(unguarded: Unguarded, answer: str | None, right: str, history: History, out: Terminal) -> None:
    finish = history.finish
    assert finish is not None, "a request that was answered had a run"
    out.line()
    began = cut(unguarded.text.strip(), 70)
    _answer("unguarded", unguarded.answer, right, out, "" if unguarded.answer else f'; it began "{began}"')
    _answer("guarded", answer, right, out, f" ({finish.outcome.value}: {finish.reason})")
    for line in _turns(history):
        out.paragraph(line, indent="  ")
    written = sum(usage.completion for usage in finish.usage)
    discarded = sum(turn.discarded for turn in history.turns if isinstance(turn, Close))
    out.paragraph(
        f"tokens written: unguarded {unguarded.tokens}; guarded {written} in "
        f"{finish.generations} generations, {discarded} of them discarded"
    )


def _answer(who: str, answer: str | None, right: str, out: Terminal, remark: str = "") -> None:
    if answer is None:
        verdict = out.styled("no answer", Style.DOUBTFUL)
    elif answer == right:
        verdict = f"{answer}, {out.styled('right', Style.GOOD)}"
    else:
        verdict = f"{answer}, {out.styled('wrong', Style.BAD)}; right is {right}"
    out.paragraph(f"{who}: {verdict}{remark}")


def _turns(history: History) -> list[str]:
    """Tell what was cut and how it went on, a line a violation."""
    lines: list[str] = []
    for turn in history.turns:
        match turn:
            case Violation(kind=kind, step=step):
                lines.append(f"cut at step {step or '-'}: {kind.value}")
            case Open(strategy=strategy) if strategy not in _QUIET and lines and " -> " not in lines[-1]:
                lines[-1] += f" -> {strategy.value}"
            case _:
                pass
    assert history.finish is not None
    if lines and " -> " not in lines[-1]:  # no further generation was needed, or none was left to try
        lines[-1] += f" -> {'reject' if history.finish.error else 'repair'}"
    return lines


def _explain(out: Terminal) -> None:
    out.line()
    out.paragraph(
        "verified: the model wrote the whole line. scaffolded: the guard gave the operands, the model wrote "
        "the value. model_decided: only a model can do it; checked against its type, range and quote. "
        "repaired: the guard wrote the line, because the model could not. missing: not reached."
    )


def _try_it(addresses: Addresses, out: Terminal, *, keep: bool) -> None:
    client = f"http://127.0.0.1:{KEPT_PORT}"
    out.heading("Try it yourself")
    if keep:
        client = addresses.client
        out.line(f"The endpoint stays at {client}/v1 until you press Ctrl-C.")
        out.line(f"Metrics: {addresses.admin}/metrics")
    else:
        out.line("stepguard demo --keep    # or: stepguard serve")
    out.line()
    out.line(f"curl {client}/v1/chat/completions \\")
    out.line("  -H 'content-type: application/json' \\")
    out.line("""  -d '{"model": "chain", "messages": [{"role": "user", "content": "Go."}],""")
    out.line("""       "stepguard": {"inputs": {"a": 14, "b": 8}}}'""")
    out.line()
    out.line(f'client = openai.OpenAI(base_url="{client}/v1", api_key="unused")')
    out.line('client.chat.completions.create(model="chain", messages=[...],')
    out.line('    extra_body={"stepguard": {"inputs": {"a": 14, "b": 8}}})')
    out.line()
    out.paragraph("Any client works: set its base_url, name a procedure as the model, keep the rest.")
