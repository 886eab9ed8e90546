"""What all requests share: the compiled procedures, the upstreams, the policies and who listens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from time import monotonic

from guard.config.inherit import DEFAULT_POLICY
from guard.config.policies import PolicySettings
from guard.config.settings import (
    AzureUpstream,
    Config,
    HttpUpstream,
    LocalUpstream,
    Route,
    ScriptedUpstream,
    ServedUpstream,
    UpstreamSettings,
)
from guard.errors import ConfigError, ConversationError
from guard.foreign import Sink
from guard.procedure.execute import Program
from guard.procedure.expected import Form
from guard.procedure.model import StepKind
from guard.procedure.passes import Extent
from guard.run.messages import Target
from guard.run.policy import Policy
from guard.telemetry import spans
from guard.telemetry.foreign_log import ForeignLog
from guard.telemetry.metrics import Metrics
from guard.telemetry.observer import FanOut, Observer
from guard.trace import prompt
from guard.trace.parser import Parser
from guard.upstream import http, local, scripted
from guard.upstream.base import Upstream
from guard.upstream.breaker import Breaker
from guard.upstream.budget import RetryBudget
from guard.upstream.model import resolve
from guard.upstream.proven import ProvenUpstream
from guard.upstream.refusals import Refusals
from guard.upstream.spared import SILENT_S, SparedUpstream
from guard.upstream.unforced import UnforcedUpstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructed:
    """A procedure, and the prompt that is the same for all of its requests."""

    program: Program
    instructions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforced:
    """A policy: what the file says of it, what of it a run follows, and the procedures as it has them."""

    settings: PolicySettings
    policy: Policy
    procedures: Mapping[str, Instructed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Made once and never changed but for what is remembered of upstreams; a request keeps its own.

    `sink` is what foreign text passes before anybody gets it.
    """

    config: Config
    upstreams: Mapping[str, Upstream]
    policies: Mapping[str, Enforced]
    observer: Observer
    metrics: Metrics
    refusals: Refusals
    sink: Sink

    def upstream_names(self, route: Route | None) -> tuple[str, ...]:
        """Give the upstreams of a request, the first one first."""
        names = (route.upstream if route else None) or self.config.defaults.upstream
        return names or (next(iter(self.upstreams)),)

    def forced(self, target: Target) -> Target:
        """Give what a run must know of an upstream: it gets no grammar where it has just refused one."""
        refuses = self.refusals.holds(target.name, target.model, monotonic())
        return replace(target, dialect=None) if refuses else target

    async def start(self) -> None:
        """Get every upstream ready. Raises `UpstreamError` or `ConfigError`; nothing is left running then."""
        try:
            for upstream in self.upstreams.values():
                await upstream.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Release the upstreams and let the observers send what they hold."""
        for upstream in self.upstreams.values():
            await upstream.close()
        self.observer.close()


def build(config: Config, environment: Mapping[str, str] = os.environ) -> Service:
    """Make what requests share. Raises `ConfigError` with all that is wrong."""
    programs = config.bindable
    problems = _unbindable(config)
    upstreams: dict[str, Upstream] = {}
    for name, settings in config.upstreams.items():
        try:
            upstreams[name] = _upstream(name, settings)
        except ConfigError as error:
            key = f"upstreams.{name}.{'file' if isinstance(settings, ScriptedUpstream) else 'model'}"
            problems += [(key, f"{where}: {message}") for where, message in error.problems]
    if problems:
        raise config.places.error(problems)
    Parser().feed("1 usual = 1\n?\n")  # compiles what reads traces: the first request shall not wait for it
    metrics = _metrics(config, programs, upstreams)
    observer = _observer(config, metrics, environment)
    refusals = Refusals()
    return Service(
        config=config,
        upstreams={
            name: _spared(upstream, config.upstreams[name], observer, refusals)
            for name, upstream in upstreams.items()
        },
        policies=_policies({DEFAULT_POLICY: PolicySettings(), **config.policies}, programs),
        observer=observer,
        metrics=metrics,
        refusals=refusals,
        sink=sink_of(config),
    )


def sink_of(config: Config) -> Sink:
    """Make what knows all keys of a configuration: the upstreams' and the clients'."""
    secrets = [
        *config.server.api_keys,
        *(one.api_key for one in config.upstreams.values() if isinstance(one, ServedUpstream)),
        *(route.api_key for route in config.routes if route.api_key is not None),
    ]
    return Sink(secret.get_secret_value() for secret in secrets)


def _unbindable(config: Config) -> list[tuple[str, str]]:
    """Report routes to procedures that cannot be run."""
    problems: list[tuple[str, str]] = []
    for index, route in enumerate(config.routes):
        program = config.programs.get(route.procedure or "")
        try:
            if program is not None:
                program.require_runnable()
        except ConversationError as error:
            problems.append((f"routes[{index}].procedure", error.message))
    return problems


def _policies(written: Mapping[str, PolicySettings], programs: Mapping[str, Program]) -> dict[str, Enforced]:
    """Make the policies; those that want the procedures alike share them."""
    made: dict[tuple[Form, Extent], dict[str, Instructed]] = {}
    for settings in written.values():
        form, extent = settings.trace, settings.extent
        if (form, extent) not in made:
            made[form, extent] = {
                name: _instructed(program.in_form(form).within(extent)) for name, program in programs.items()
            }
    return {
        name: Enforced(
            settings=settings,
            policy=settings.policy,
            procedures=made[settings.trace, settings.extent],
        )
        for name, settings in written.items()
    }


def _instructed(program: Program) -> Instructed:
    return Instructed(program=program, instructions=prompt.instructions(program))


def upstream_of(config: Config, name: str) -> Upstream:
    """Make one upstream for itself. Raises `ConfigError` where it cannot be."""
    return _upstream(name, config.upstreams[name])


def _upstream(name: str, settings: UpstreamSettings) -> Upstream:
    match settings:
        case HttpUpstream() | AzureUpstream():
            return http.HttpUpstream(
                name,
                _address(settings),
                kind=settings.kind,
                model=settings.model,
                api_key=settings.api_key.get_secret_value() or None,
                pass_key=settings.pass_key,
                timeouts=http.Timeouts(
                    connect_s=settings.connect_s, first_s=settings.first_s, idle_s=settings.idle_s
                ),
                capabilities=settings.capabilities.changes,
                api_version=settings.api_version if isinstance(settings, AzureUpstream) else None,
                forward_headers=tuple(map(str.lower, settings.forward_headers)),
            )
        case LocalUpstream():
            local.require_runtime()
            return local.LocalUpstream(
                name,
                resolve(settings.model),
                threads=settings.threads,
                context=settings.context,
                slots=settings.slots,
                capabilities=settings.capabilities.changes,
            )
        case ScriptedUpstream():
            return scripted.ScriptedUpstream(name, scripted.load_script(settings.file))


def _address(settings: HttpUpstream | AzureUpstream) -> str:
    deployment = settings.deployment if isinstance(settings, AzureUpstream) else None
    return settings.base_url if deployment is None else f"{settings.base_url}/deployments/{deployment}"


def _spared(
    upstream: Upstream, settings: UpstreamSettings, observer: Observer, refusals: Refusals
) -> Upstream:
    """Put an upstream behind a breaker and a retry budget of its own, and a memory of refused grammars."""
    silent_s = settings.idle_s if isinstance(settings, ServedUpstream) else SILENT_S
    return SparedUpstream(
        UnforcedUpstream(ProvenUpstream(upstream), observer, refusals),
        observer,
        breaker=Breaker(**settings.breaker.model_dump()),
        budget=RetryBudget(**settings.retry_budget.model_dump()),
        silent_s=silent_s,
    )


def _metrics(config: Config, programs: Mapping[str, Program], upstreams: Mapping[str, Upstream]) -> Metrics:
    kinds: dict[str, set[StepKind]] = {
        name: set(program.step_numbers.values()) for name, program in programs.items()
    }
    models = {upstream.target.model for upstream in upstreams.values()}
    models |= {route.upstream_model or "" for route in config.routes}
    return Metrics(kinds, models=models - {""}, version=version("stepguard"), upstreams=upstreams)


def _observer(config: Config, metrics: Metrics, environment: Mapping[str, str]) -> Observer:
    kinds = {name: settings.kind for name, settings in config.upstreams.items()}
    spanning = spans.from_environment(environment, version=version("stepguard"), upstreams=kinds)
    return FanOut([metrics, ForeignLog(), *([] if spanning is None else [spanning])])
