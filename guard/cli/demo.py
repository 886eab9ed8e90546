"""The main job on the embedded model: one request unguarded and guarded; then a stronger model, recorded."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final

from guard.check.checker import Checker
from guard.check.verdict import Judgement, StepVerified, Violation
from guard.cli.terminal import Style, Terminal, cut
from guard.config import Config, Service, build, default_config
from guard.config.policies import PolicySettings
from guard.config.settings import Admin, Defaults, LocalUpstream, Route, ScriptedUpstream, Server
from guard.dialect.lark import Level
from guard.errors import ConfigError
from guard.procedure.execute import Program, reference
from guard.procedure.types import Value
from guard.procedure.values import answer_text
from guard.proxy.app import Addresses, serve
from guard.run.messages import Close, Emit, Finish, Open, StepClass, Strategy
from guard.telemetry.observer import FanOut, Observer, RunInfo, RunObserver
from guard.trace import prompt, render
from guard.upstream.local import HOW_TO_INSTALL, require_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from openai import AsyncOpenAI

LONGEST_ANSWER: Final = 300  # tokens that the unguarded model may write: about twice a faithful trace
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


PROCEDURE: Final = "stall"
RECORDED: Final = "stall-recorded"  # the model name that plays the recording
RECORDING: Final = "recorded.yaml"


@dataclass(frozen=True, slots=True)
class Order:
    """One request: what its note asks for, which is also what a reader would decide."""

    apples: int
    pears: int
    wrap: str

    @property
    def note(self) -> str:
        """The client's message."""
        return f"I will take {self.apples} apples. I will take {self.pears} pears. Wrap them in {self.wrap}."

    @property
    def decided(self) -> Mapping[str, object]:
        """The values of the model's decisions where it reads the note right."""
        return {"apples": self.apples, "pears": self.pears, "wrap": self.wrap}


RECORDED_ORDER: Final = Order(3, 4, "paper")


def order(seed: int) -> Order:
    """Draw an order: numbers that a very small model can add, and a way for the branch to go."""
    draw = Random(seed)  # noqa: S311 (nothing secret depends on it)
    return Order(draw.randint(2, 4), draw.randint(2, 4), draw.choice(["paper", "cloth"]))


def require_extra() -> None:
    """Raise `ConfigError` where the extra is not installed."""
    require_runtime()
    if find_spec("openai") is None:
        raise ConfigError([("demo", f"the openai client is not installed; install it with {HOW_TO_INSTALL}")])


async def show(model: Path, out: Terminal, *, keep: bool, seed: int) -> int:
    """Show the product at work with a model file. Returns the exit code; no process is left behind.

    `seed` draws the order. `keep` serves on until the process is told to stop. It can be told at any time;
    where there was more to show, the code is 130 then. Raises `UpstreamError` where the model cannot be run.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    recorder = Recorder()
    service = _service(model, recorder, port=KEPT_PORT if keep else 0)
    out.paragraph(f"model: {model.stem}, in a child process on this machine")
    started = perf_counter()
    async with _serving(service) as (addresses, served, stop):
        if not await _done_before(
            stop, _tell_all(service, f"{addresses.client}/v1", recorder, out, order(seed))
        ):
            return STOPPED
        _explain(out)
        out.line(f"\n{perf_counter() - started:.0f} s after the model was there.")
        _try_it(addresses, out, order(seed), keep=keep)
        if keep:
            await served
    return 0


def _service(model: Path, recorder: Recorder, *, port: int) -> Service:
    recording = resources.files("guard.examples.quickstart") / RECORDING
    with resources.as_file(recording) as script:
        config = Config(
            server=Server(port=port),
            admin=Admin(port=0),
            upstreams={
                "local": LocalUpstream(kind="local", model=model),
                "recorded": ScriptedUpstream(kind="scripted", file=script),
            },
            policies={"bare": PolicySettings(force=Level.NONE)},
            routes=(
                Route(model=RECORDED, procedure=PROCEDURE, upstream=("recorded",), policy="bare"),
                *default_config().routes,
            ),
            defaults=Defaults(unbound="pass"),  # the same request is made unguarded, too
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


async def _tell_all(service: Service, url: str, recorder: Recorder, out: Terminal, drawn: Order) -> None:
    from openai import AsyncOpenAI  # noqa: PLC0415 (an extra, and a second to import)

    program = service.config.programs[PROCEDURE]
    async with AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        await _compare(drawn, program, client, recorder, out)
        await _replay(program, client, recorder, out)


async def _compare(
    drawn: Order, program: Program, client: AsyncOpenAI, recorder: Recorder, out: Terminal
) -> None:
    """Make the same request without a guard and with it."""
    out.heading(f"{program.name}: {drawn.note}")
    right, reference_lines = _reference(program, drawn)
    unguarded = await _ask_unguarded(drawn, program, client)
    answer = await _ask_guarded(PROCEDURE, drawn, client)
    history = recorder.last
    given_lines = {emit.step: emit for emit in history.emitted}
    out.line(out.styled(f"\n{'line':46}{'unguarded':19}guarded", Style.FAINT))
    for path, text in reference_lines:
        emit = given_lines.pop(path, None)
        shown = emit.text.rstrip("\n") if emit else text
        _row(shown, unguarded.marks.get(path, "missing"), emit.step_class if emit else None, out)
    for emit in given_lines.values():  # decided otherwise than a reader would, the guarded run went here
        _row(emit.text.rstrip("\n"), "", emit.step_class, out)
    _summary(unguarded, answer, right, history, out)


async def _replay(program: Program, client: AsyncOpenAI, recorder: Recorder, out: Terminal) -> None:
    """Play what a stronger model once wrote to the guard, which judges it as if it came now."""
    out.heading("What a stronger model looks like: a recording, no model runs here")
    out.paragraph(
        "Qwen2.5-Coder-0.5B-Instruct was asked for the same procedure with nothing forced "
        f'("{RECORDED_ORDER.note}"). Its words are played by a scripted server; the guard checks, cuts and '
        "goes on as it does with any server."
    )
    right, _ = _reference(program, RECORDED_ORDER)
    answer = await _ask_guarded(RECORDED, RECORDED_ORDER, client)
    finish = recorder.last.finish
    assert finish is not None, "a request that was answered had a run"
    out.line(out.styled(f"\n{'line':46}guarded", Style.FAINT))
    for emit in recorder.last.emitted:
        style = _CLASS_STYLES.get(emit.step_class, Style.BAD)
        out.line(f"{cut(emit.text.rstrip(), 45):46}{out.styled(emit.step_class.value, style)}")
    out.line()
    _answer("recorded", answer, right, out, f" ({finish.outcome.value}: {finish.reason})")
    for line in _turns(recorder.last):
        out.paragraph(line, indent="  ")


def _reference(program: Program, asked: Order) -> tuple[str, list[tuple[str, str]]]:
    """Give the right answer, and each step with its line; a quote is the model's own choice."""
    steps, ending = reference(program, _inputs(program, asked), program.decide(asked.decided))
    answer = answer_text(ending.value, program.result)  # type: ignore[arg-type]  # it came to its end
    return answer, [
        (expected.path, render.line(expected, value if expected.decision else None))
        for expected, value in steps
    ]


def _inputs(program: Program, asked: Order) -> Mapping[str, Value]:
    return program.accept(dict.fromkeys(program.sources, asked.note))


async def _ask_unguarded(asked: Order, program: Program, client: AsyncOpenAI) -> Unguarded:
    """Send the same prompt without a guard, and judge afterwards what came."""
    nonce, inputs = secrets.token_hex(3), _inputs(program, asked)
    closing = prompt.closing(program, inputs, nonce, above=program.sources)
    reply = await client.chat.completions.create(
        model="local",
        messages=[
            {"role": "system", "content": prompt.instructions(program)},
            {"role": "user", "content": f"{asked.note}\n\n{closing}"},
        ],
        temperature=0,
        max_tokens=LONGEST_ANSWER,
    )
    text = reply.choices[0].message.content or ""
    checker = Checker(program, inputs, nonce=nonce, stop_at_first=False)
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


async def _ask_guarded(model: str, asked: Order, client: AsyncOpenAI) -> str | None:
    """Send the request to the guarded endpoint as a stream; None where it was rejected."""
    from openai import APIError  # noqa: PLC0415 (an extra)

    answer: list[str] = []
    try:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": asked.note}],
            temperature=0,
            stream=True,
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


def _try_it(addresses: Addresses, out: Terminal, drawn: Order, *, keep: bool) -> None:
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
    out.line(f"""  -d '{{"model": "{PROCEDURE}", "messages": [{{"role": "user", "content":""")
    out.line(f"""    "{drawn.note}"}}]}}'""")
    out.line()
    out.line(f'client = openai.OpenAI(base_url="{client}/v1", api_key="unused")')
    out.line(f'client.chat.completions.create(model="{PROCEDURE}", messages=[...])')
    out.line()
    out.paragraph("Any client works: set its base_url, name a procedure as the model, keep the rest.")
