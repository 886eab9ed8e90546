"""A run as people read it: what was asked, said, found and delivered, for whoever looks into a failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.fuzz.play import Generation, Played

_LONG: Final = 600


def told(played: Played) -> str:
    """Tell a run."""
    return "\n".join(_told(played))


def _told(played: Played) -> Iterator[str]:
    scenario, finish = played.scenario, played.finish
    yield f"seed {scenario.seed}"
    yield scenario.text.partition("procedure ")[2].join(["procedure ", ""])
    yield f"inputs {scenario.inputs}"
    yield f"policy {scenario.policy}"
    yield f"max_tokens {scenario.job.max_tokens}, whole {scenario.job.whole}, form {scenario.program.form}"
    yield from (f"upstream {target}" for target in scenario.targets)
    yield f"plan {scenario.plan}"
    for generation in played.generations:
        yield from _generation(generation)
    yield f"delivered {''.join(emit.text for emit in played.emits)!r}"
    yield f"classes {[emit.step_class.value for emit in played.emits]}"
    yield f"{finish}"


def _generation(generation: Generation) -> Iterator[str]:
    command, answer = generation.command, generation.answer
    yield (
        f"--- {command.generation}: {command.strategy} on {command.upstream} from {command.resume_from}, prefix"
        f" ...{command.prefix[-80:]!r}, {'a' if command.grammar else 'no'} grammar, {command.max_tokens} tokens"
    )
    yield f"    {answer.mishap}, {answer.manner}, {answer.finish_reason}"
    if generation.said.mistake is not None:
        mistake = generation.said.mistake
        yield f"    mistake {mistake.name}: {mistake.kind} at {mistake.step!r}"
    yield f"    said {_cut(generation.text)}"
    yield from (f"    found {violation}" for violation in generation.found)
    yield f"    {generation.heard[-1] if generation.heard else 'nothing heard'}"
    yield f"    {generation.close}"


def _cut(text: str) -> str:
    return repr(text) if len(text) <= _LONG else f"{text[: _LONG // 2]!r} ... {text[-_LONG // 2 :]!r}"
