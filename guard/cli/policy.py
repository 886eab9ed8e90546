"""The commands about policies: what they do in words, before anything is spent on a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guard.cli import explain as explaining
from guard.cli import simulate
from guard.cli.terminal import Terminal
from guard.config import Config, default_config, load_config
from guard.config.inherit import DEFAULT_POLICY
from guard.config.policies import PolicySettings
from guard.config.words import suggestion
from guard.errors import ConfigError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)


def register(commands: Commands) -> None:
    """Add `policy` and the commands below it to the command line."""
    policy = commands.add_parser("policy", help="explain the policies of a configuration")
    below = policy.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _list = below.add_parser("list", help="list the policies and the routes that use them")
    _config_argument(_list)
    _list.add_argument("--json", action="store_true", help="as JSON: name, mode, deliver, attempts, routes")
    _list.set_defaults(command=list_policies)
    explain = below.add_parser("explain", help="print what a policy does, and what of it routes cannot use")
    explain.add_argument("name", metavar="NAME", help="the policy; `default` is there without a file, too")
    _config_argument(explain)
    explain.add_argument("--json", action="store_true", help="as JSON: policy, settings, table, routes")
    explain.set_defaults(command=explain_policy)
    simulation = below.add_parser("simulate", help="play a policy against a scripted model")
    simulate.add_arguments(simulation)
    simulation.set_defaults(command=simulate.run)


def configuration(file: Path | None) -> Config:
    """Give the configuration of a file, or the one that counts without a file. Raises `ConfigError`."""
    return default_config() if file is None else load_config(file)


def policies(config: Config) -> dict[str, PolicySettings]:
    """Give the policies of a configuration by name, the built-in one among them."""
    return {DEFAULT_POLICY: PolicySettings(), **config.policies}


def _config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="F", type=Path, help="the configuration; without it: what counts without a file"
    )


def list_policies(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry out `policy list`."""
    config = configuration(arguments.config)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "mode": settings.mode or config.defaults.mode,
            "deliver": settings.deliver,
            "attempts": settings.attempts,
            "routes": [
                route.model
                for route in config.routes
                if name in {route.policy or config.defaults.policy, *(route.policies or ())}
            ],
        }
        for name, settings in policies(config).items()
    ]
    if arguments.json:
        out.json(rows)
        return 0
    for row in rows:
        routes = ", ".join(row["routes"]) or "none"
        out.line(
            f"{row['name']}: {row['mode']}, {row['deliver']}, {row['attempts']} attempts; routes: {routes}"
        )
    return 0


def explain_policy(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry out `policy explain`. Raises `ConfigError`."""
    config = configuration(arguments.config)
    known = policies(config)
    if arguments.name not in known:
        where = "without --config" if arguments.config is None else f"in {arguments.config}"
        message = f"there is no {arguments.name!r} {where}{suggestion(arguments.name, known)}"
        raise ConfigError([("policy", message)])
    explanation = explaining.explain(config, arguments.name, known[arguments.name])
    if arguments.json:
        out.json(explanation.to_json())
    else:
        explaining.show(explanation, out)
    return 0
