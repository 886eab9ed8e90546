"""`stepguard upstream`: what upstreams are thought to be able to do, and what they do when they are tried."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from guard.cli.terminal import Style, Terminal
from guard.config import Config, load_config
from guard.config.service import sink_of, upstream_of
from guard.config.settings import LocalUpstream, ScriptedUpstream, ServedUpstream
from guard.config.words import suggestion
from guard.errors import ConfigError
from guard.upstream.backends import backend_for
from guard.upstream.base import Upstream
from guard.upstream.capabilities import Backend
from guard.upstream.shown import COLUMNS, shown
from guard.upstream.trial import Finding, Trial, overrides

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

AS_SAID, DIFFERS, UNUSABLE = 0, 1, 3
TEST: Final = """\
Tries on the live server, with at most some thirty short requests, what the table of kinds says of it: that
it is reachable, takes the key and knows the model; how it streams, reports tokens, goes on from a prefix,
holds a grammar (and refuses a bad one), takes instructions, several answers and stop texts; how soon it is
free behind a cut. Prints what was found beside what the table says, and what to write into the configuration
where they differ (exit code 1).
"""


def register(commands: Commands) -> None:
    """Add `upstream` and the commands below it to the command line."""
    upstream = commands.add_parser("upstream", help="look after the model servers of a configuration")
    below = upstream.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _list = below.add_parser("list", help="list the upstreams and what they are thought to be able to do")
    _config_argument(_list)
    _list.set_defaults(command=list_upstreams)
    test = below.add_parser("test", help="try live what an upstream can do")
    test.description, test.formatter_class = TEST, argparse.RawDescriptionHelpFormatter
    test.add_argument("name", metavar="NAME", help="an upstream of the configuration")
    test.add_argument("--model", metavar="NAME", help="model to ask for; default: the configured one")
    _config_argument(test)
    test.set_defaults(command=test_upstream)


def _config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="F", type=Path, help="the configuration; without it: the embedded model"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def _configuration(file: Path | None) -> Config:
    return Config() if file is None else load_config(file)


def row_of(config: Config, name: str, model: str = "") -> Backend:
    """Find the row of an upstream, for its model or another one."""
    match config.upstreams[name]:
        case ServedUpstream() as settings:
            return backend_for(settings.kind, model or settings.model, settings.capabilities.changes)
        case LocalUpstream() as settings:
            return backend_for(settings.kind, model, settings.capabilities.changes)
        case settings:
            return backend_for(settings.kind)


# --- list ----------------------------------------------------------------------------------------


def list_upstreams(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry out `upstream list`."""
    config = _configuration(arguments.config)
    listed = [_listed(config, name) for name in config.upstreams]
    if arguments.json:
        out.json(listed)
        return AS_SAID
    for entry in listed:
        row: Mapping[str, str] = entry["capabilities"]
        out.line(out.styled(entry["name"], Style.STRONG) + f"  {entry['kind']}  {entry['where']}")
        for column, value in row.items():
            out.line(f"  {column:18} {value}")
    out.line()
    out.line("A ? stands where no source has been found yet: stepguard upstream test NAME tells what holds.")
    return AS_SAID


def _listed(config: Config, name: str) -> dict[str, Any]:
    settings = config.upstreams[name]
    match settings:
        case ServedUpstream():
            where = f"{settings.base_url} {settings.model}".rstrip()
        case LocalUpstream():
            where = str(settings.model or "the default model")
        case ScriptedUpstream():
            where = str(settings.file)
    row = shown(row_of(config, name))
    return {"name": name, "kind": settings.kind, "where": where, "capabilities": {c: row[c] for c in COLUMNS}}


# --- test ----------------------------------------------------------------------------------------


def test_upstream(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry out `upstream test`. Raises `ConfigError` where there is nothing to try."""
    config = _configuration(arguments.config)
    name = arguments.name
    if name not in config.upstreams:
        raise ConfigError(
            [("upstreams", f"there is no upstream {name!r}{suggestion(name, config.upstreams)}")]
        )
    if isinstance(config.upstreams[name], ScriptedUpstream):
        raise ConfigError([(f"upstreams.{name}", "plays replies from a file: there is no server to try")])
    upstream = upstream_of(config, name)
    model = arguments.model or upstream.target.model
    if not model:
        raise ConfigError([("--model", f"is needed: upstream {name!r} names no model")])
    trial = Trial(upstream, row_of(config, name, model), model, sink=sink_of(config))
    if not arguments.json:
        out.line(f"model {model} on upstream {name}, of kind {config.upstreams[name].kind}")
        out.line(out.styled(f"{'capability':14} {'the table':24} found", Style.STRONG))
        trial.told = lambda finding: _print(finding, out)
    usable = asyncio.run(_try(upstream, trial))
    written = overrides(trial.findings)
    if arguments.json:
        out.json(_json(name, model, trial, written, usable=usable))
    else:
        _conclude(name, trial, written, out, usable=usable)
    if not usable:
        return UNUSABLE
    return DIFFERS if written else AS_SAID


async def _try(upstream: Upstream, trial: Trial) -> bool:
    try:
        await upstream.start()
        return await trial.run()
    finally:
        await upstream.close()


def _print(finding: Finding, out: Terminal) -> None:
    style = Style.DOUBTFUL if finding.override else None
    out.line(f"{finding.capability:14} {finding.row:24} {_styled(finding.found, style, out)}")


def _styled(text: str, style: Style | None, out: Terminal) -> str:
    return text if style is None else out.styled(text, style)


def _conclude(name: str, trial: Trial, written: Mapping[str, object], out: Terminal, *, usable: bool) -> None:
    out.line()
    if not usable:
        out.line("the server cannot be used")
    elif not written:
        out.line(f"as the table says ({trial.requests} requests)")
    else:
        out.line(f"where it is otherwise ({trial.requests} requests), write:")
        out.line()
        for line in _yaml(name, written):
            out.line(line)


def _yaml(name: str, written: Mapping[str, object]) -> Sequence[str]:
    below = {"upstreams": {name: {"capabilities": dict(written)}}}
    return yaml.safe_dump(below, sort_keys=False, default_flow_style=False).splitlines()


def _json(
    name: str, model: str, trial: Trial, written: Mapping[str, object], *, usable: bool
) -> dict[str, Any]:
    return {
        "upstream": name,
        "model": model,
        "usable": usable,
        "requests": trial.requests,
        "findings": [
            {
                "capability": finding.capability,
                "row": finding.row,
                "found": finding.found,
                "override": dict(finding.override),
            }
            for finding in trial.findings
        ],
        "capabilities": dict(written),
    }
