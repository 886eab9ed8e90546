"""`stepguard policy simulate`: what a policy would come to, without a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from guard.bench import simulate
from guard.bench.chances import MAX_STEPS, Chance, Chances, chances, numbered, read_chances
from guard.bench.player import Habits, Pace
from guard.bench.simulate import Scenario, Simulation
from guard.bench.spread import Spread
from guard.bench.straight import WRONG
from guard.check.verdict import Kind
from guard.cli.amounts import MOST_SEED, chance, number, shares, whole
from guard.cli.terminal import Terminal, cut
from guard.config import Config, load_config
from guard.config.inherit import DEFAULT_POLICY
from guard.config.policies import MAX_SECONDS, PolicySettings
from guard.errors import ConfigError

DESCRIPTION: Final = """\
Plays a policy against a scripted model: the real run and its checker, a straight procedure of so many steps,
and a model that writes each line right with a given chance. Prints the share of requests that end with the
right answer, the steps that the model wrote (wrong ones included), the attempts, the output tokens and the
seconds, with their spread, beside other ways of using the same model.
"""

P_STEP_FILE: Final = """\
A p-step-file says what is known of single steps; --p, --retry and the like count for the others. It is CSV
with a line `p,retry,scaffold,kind,isolate,stuck` for each step in order, of which only p is needed, or with a
first line that names its columns, `step` among them (`17`, `20-25`); or YAML or JSON (by its name): a list in
order, or step numbers with a chance or {p, retry, scaffold, kind, isolate, stuck}. `kind` is `assign` or,
where only the model can decide the step, `judge`.
"""

MOST: Final = 1_000_000  # of anything that is counted
SLOWEST: Final = 0.001  # tokens a second

_LABEL: Final = 12
_COLUMNS: Final = f"{{:{_LABEL}}} {{:8}} {{:14}} {{:10}} {{:16}} {{}}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description, parser.epilog = DESCRIPTION, P_STEP_FILE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("name", metavar="NAME", help="the policy; `default` is the one that needs no configuration")
    add("--config", metavar="F", type=Path, help="the configuration that has it")
    add("--steps", metavar="N", type=whole(1, MAX_STEPS), help="steps of the procedure, the answer included")
    add("--p", metavar="P", type=chance, help="chance that a line is right at the first try")
    add("--retry", metavar="P", type=chance, help="the same at a retry; default: as at the first try")
    add("--scaffold", metavar="P", type=chance, help="the same with its operands given; default: as a retry")
    add("--isolate", metavar="P", type=chance, help="the same asked for by itself; default: as a retry")
    add(
        "--stuck",
        metavar="P",
        type=chance,
        default=0.0,
        help="chance that a line which was wrong stays so where it was tried, in the trace or by itself",
    )
    add("--p-step-file", metavar="F", type=Path, help="chances of single steps, see below")
    add("--judge", metavar="STEPS", type=_numbers, help="steps that only the model can decide: 1,20-25")
    add(
        "--wrong",
        metavar="KIND[=SHARE],...",
        type=_mix,
        default=((Kind.WRONG_VALUE, 1.0),),
        help=f"what a wrong line is, of {', '.join(WRONG)}, with shares that add up to 1; those without one "
        "have equal parts of what is left; default: always wrong_value",
    )
    add(
        "--fallback-p",
        metavar="P",
        type=chance,
        action="append",
        default=[],
        help="a further upstream with this chance; may be given again",
    )
    add(
        "--runs",
        metavar="N",
        type=whole(1, MOST),
        default=simulate.RUNS,
        help="requests (default %(default)s)",
    )
    add(
        "--seed",
        metavar="S",
        type=whole(0, MOST_SEED),
        default=simulate.SEED,
        help="of what is drawn (default %(default)s)",
    )
    usual = Pace()
    add(
        "--step-tokens",
        metavar="N",
        type=whole(1, MOST),
        default=usual.line_tokens,
        help="tokens of a line (default %(default)s)",
    )
    add(
        "--tokens-per-s",
        metavar="N",
        type=number(SLOWEST, MOST),
        default=usual.tokens_per_s,
        help="tokens that the model writes in a second (default %(default)s)",
    )
    add(
        "--first-token",
        metavar="S",
        type=number(0, MAX_SECONDS),
        default=usual.first_s,
        help="seconds from a request to its first token (default %(default)s)",
    )
    add("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry the command out. Raises `ConfigError`."""
    settings = _settings(arguments.name, arguments.config)
    scenario = _scenario(arguments)
    result = simulate.simulate(settings.policy, scenario)
    if arguments.json:
        out.json(_json(arguments.name, scenario, result))
    else:
        _print(arguments.name, settings, scenario, result, out)
    return 0


def _settings(name: str, file: Path | None) -> PolicySettings:
    config = Config() if file is None else load_config(file)
    policies = {DEFAULT_POLICY: PolicySettings(), **config.policies}
    if name not in policies:
        where = "without --config" if file is None else f"in {file}"
        raise ConfigError([("policy", f"there is no {name!r} {where}; there are: {', '.join(policies)}")])
    return policies[name]


def _scenario(arguments: argparse.Namespace) -> Scenario:
    usual = None
    if arguments.p is not None:
        given = {name: getattr(arguments, name) for name in ("p", "retry", "scaffold", "isolate", "stuck")}
        usual = Chance(**given)
    said = {} if arguments.p_step_file is None else read_chances(arguments.p_step_file)
    if usual is None and not said:
        raise ConfigError([("--p", "is needed, or a --p-step-file: how likely is a line right?")])
    if arguments.steps is None and not said:
        raise ConfigError([("--steps", "is needed: how many steps has the procedure?")])
    first = chances(arguments.steps, usual, said, arguments.judge or frozenset())
    models = [first, *(_further(first, p) for p in arguments.fallback_p)]
    return Scenario(
        models=tuple(Habits(chances=one, wrong=arguments.wrong) for one in models),
        pace=Pace(
            first_s=arguments.first_token,
            tokens_per_s=arguments.tokens_per_s,
            line_tokens=arguments.step_tokens,
        ),
        runs=arguments.runs,
        seed=arguments.seed,
    )


def _further(first: Chances, p: float) -> Chances:
    return tuple(Chance(p=p, kind=chance.kind) for chance in first)


# --- what is printed -----------------------------------------------------------------------------


def _json(name: str, scenario: Scenario, result: Simulation) -> dict[str, object]:
    return {
        "policy": name,
        "steps": len(scenario.chances),
        "runs": scenario.runs,
        "seed": scenario.seed,
        **result.policy.to_json(),
        "standard_errors": {name: spread.error for name, spread in result.policy.measures.items()},
        "repaired_steps": result.repaired_steps.to_json(),
        "outcomes": {outcome.value: share for outcome, share in result.outcomes.items()},
        "baselines": {name: sample.to_json() for name, sample in result.baselines.items()},
        "voting_ahead": result.ahead,
    }


def _print(
    name: str, settings: PolicySettings, scenario: Scenario, result: Simulation, out: Terminal
) -> None:
    pace = scenario.pace
    out.line(
        f"{scenario.runs} requests of {len(scenario.chances)} steps, seed {scenario.seed}; "
        f"{pace.line_tokens} tokens a step,"
    )
    out.line(f"{pace.tokens_per_s:g} tokens a second, {pace.first_s:g} s to the first one")
    if settings.mode not in {None, "enforce"}:
        out.line(f"the policy's mode is {settings.mode}: this is what it would come to if it were enforced")
    out.line()
    out.line(_COLUMNS.format("", "success", "steps", "attempts", "tokens", "seconds").rstrip())
    for label, sample in [(cut(name, _LABEL), result.policy), *result.baselines.items()]:
        out.line(_COLUMNS.format(label, *(_shown(*measure) for measure in sample.measures.items())).rstrip())
    out.line()
    out.line("steps to seconds: mean/median/95th percentile; standard errors of the policy's means:")
    out.line(", ".join(f"{measure} {spread.error:.2g}" for measure, spread in result.policy.measures.items()))
    out.line(f"voting: each step asked for until one value is ahead by {result.ahead}, and no check")
    out.line(f"written by the guard: {result.repaired_steps.mean:.3g} steps a request")
    out.line("outcomes: " + ", ".join(f"{outcome} {share:.1%}" for outcome, share in result.outcomes.items()))


def _shown(measure: str, spread: Spread) -> str:
    if measure == "success":
        return f"{spread.mean:.2%}"
    mean = f"{spread.mean:.0f}" if measure == "tokens" else f"{spread.mean:.1f}"
    return f"{mean}/{spread.p50:.0f}/{spread.p95:.0f}"


# --- arguments -----------------------------------------------------------------------------------


def _numbers(text: str) -> frozenset[int]:
    try:
        return numbered(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _mix(text: str) -> tuple[tuple[Kind, float], ...]:
    return tuple((Kind(name), share) for name, share in shares(text, tuple(WRONG)).items())
