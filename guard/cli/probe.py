"""`stepguard probe`: measures a model and writes the policy that fits it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from guard.bench.chances import MAX_STEPS
from guard.bench.measured import Measured, Rate, Way
from guard.bench.policy_file import expectation, policy_file, shown
from guard.bench.probe import RUNS, Plan, probe
from guard.bench.recommend import STEPS, Recommendation, recommend
from guard.cli.amounts import MOST_SEED, whole
from guard.cli.terminal import Terminal
from guard.config import Config, load_config
from guard.config.service import upstream_of
from guard.errors import ConfigError
from guard.upstream.base import Upstream

DESCRIPTION: Final = """\
Measures a model live on short procedures with known answers: for each kind of step how often it is right at
the first try and at a retry, whether it keeps the format, whether the server continues a prefix, holds a
grammar and reports tokens, and how fast it is. Writes a policy for it, with what that would come to by
simulation.
"""

OUT: Final = Path("probed.yaml")
NAME: Final = "probed"
MOST_RUNS: Final = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description, parser.formatter_class = DESCRIPTION, argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add(
        "upstream", metavar="UPSTREAM", nargs="?", help="an upstream of the configuration; default: the first"
    )
    add("--config", metavar="F", type=Path, help="the configuration; without it: the embedded model")
    add(
        "--model",
        metavar="NAME",
        help="model to ask for; default: the one that the upstream is configured with",
    )
    add(
        "--runs",
        metavar="N",
        type=whole(1, MOST_RUNS),
        default=RUNS,
        help="requests for each task (default %(default)s)",
    )
    add(
        "--seed",
        metavar="S",
        type=whole(0, MOST_SEED),
        default=1,
        help="of what is drawn (default %(default)s)",
    )
    add(
        "--steps",
        metavar="N",
        type=whole(1, MAX_STEPS),
        default=STEPS,
        help="steps to advise for (default %(default)s)",
    )
    add("--out", metavar="F", type=Path, default=OUT, help="the file to write (default %(default)s)")
    add("--name", metavar="NAME", default=NAME, help="the policy's name in it (default %(default)s)")
    add("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry the command out. Raises `ConfigError`, and `UpstreamError` where the server cannot be used."""
    config = Config() if arguments.config is None else load_config(arguments.config)
    upstream = _upstream(arguments.upstream, config)
    model = arguments.model or upstream.target.model
    if not model:
        raise ConfigError([("--model", f"is needed: upstream {upstream.target.name!r} names no model")])
    if not arguments.out.absolute().parent.is_dir():
        raise ConfigError([("--out", f"there is no folder {str(arguments.out.parent)!r}")])
    plan = Plan(model=model, runs=arguments.runs, seed=arguments.seed)
    if not arguments.json:
        target = upstream.target
        most = plan.most_requests(grammar=target.dialect is not None, prefill=target.prefill)
        out.line(f"model {model} on upstream {upstream.target.name}: at most {most} short requests")
    measured = asyncio.run(_measure(upstream, plan, out, quiet=arguments.json))
    advice = recommend(measured, steps=arguments.steps, seed=arguments.seed)
    arguments.out.write_text(policy_file(arguments.name, measured, advice), encoding="utf-8")
    if arguments.json:
        out.json(_json(arguments, measured, advice))
    else:
        _print(measured, advice, out)
        out.line()
        out.line(f"policy {arguments.name} written to {arguments.out}")
    return 0


def _upstream(name: str | None, config: Config) -> Upstream:
    wanted = next(iter(config.upstreams)) if name is None else name
    if wanted not in config.upstreams:
        raise ConfigError(
            [("upstreams", f"there is no upstream {wanted!r}; there are: {', '.join(config.upstreams)}")]
        )
    return upstream_of(config, wanted)


async def _measure(upstream: Upstream, plan: Plan, out: Terminal, *, quiet: bool) -> Measured:
    def progress(done: int, of: int) -> None:
        if not quiet:
            out.count("measuring", done, of)

    try:
        await upstream.start()
        return await probe(upstream, plan, progress)
    finally:
        await upstream.close()


# --- what is printed -----------------------------------------------------------------------------


def _print(measured: Measured, advice: Recommendation, out: Terminal) -> None:
    able = measured.abilities
    out.line(
        f"{measured.requests} requests, {measured.tokens} tokens; {measured.line_tokens} tokens a step, "
        f"{1 / measured.tokens_per_s:.3f} s a token, {measured.first_s:.2f} s to the first"
    )
    out.line(
        f"prefill {able.prefill}, grammar {able.grammar} (a bad one: {able.bad_grammar}), "
        f"stream_options {able.stream_options}"
    )
    for seen in measured.seen:
        out.heading(f"force: {seen.name}")
        out.line(f"{'':10} {'first try':>12} {'retry':>12} {'scaffolded':>12}")
        for skill in seen.skills:
            rates = " ".join(f"{shown(seen.rate(way, [skill])):>12}" for way in Way)
            out.line(f"{skill.value:10} {rates}")
        kinds = ", ".join(f"{kind.value} {count}" for kind, count in seen.kinds.items()) or "none"
        out.paragraph(f"in the format: {shown(seen.in_format)} lines; mistakes: {kinds}")
    out.heading("recommended")
    for key, value in advice.keys.items():
        out.line(f"{key}: {value}")
        out.paragraph(advice.reasons[key], indent="  ")
    out.line()
    for line in expectation(advice):
        out.line(line)


def _json(arguments: argparse.Namespace, measured: Measured, advice: Recommendation) -> dict[str, Any]:
    able = measured.abilities
    return {
        "upstream": measured.upstream,
        "model": measured.model,
        "requests": measured.requests,
        "tokens": measured.tokens,
        "tokens_a_step": measured.line_tokens,
        "seconds_a_token": 1 / measured.tokens_per_s,
        "seconds_to_first_token": measured.first_s,
        "abilities": {
            "prefill": able.prefill.value,
            "grammar": able.grammar.value,
            "bad_grammar": able.bad_grammar.value,
            "stream_options": able.stream_options.value,
        },
        "levels": {
            seen.name: {
                "steps": {
                    skill.value: {way.value: _rate(seen.rate(way, [skill])) for way in Way}
                    for skill in seen.skills
                },
                "in_format": _rate(seen.in_format),
                "violations": {kind.value: count for kind, count in seen.kinds.items()},
            }
            for seen in measured.seen
        },
        "policy": {arguments.name: dict(advice.keys)},
        "reasons": dict(advice.reasons),
        "expected": {"steps": advice.steps, "decided": advice.decided, **advice.expected.policy.to_json()},
        "file": str(arguments.out),
    }


def _rate(rate: Rate) -> dict[str, int]:
    return {"right": rate.right, "of": rate.of}
