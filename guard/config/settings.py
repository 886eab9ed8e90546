"""What the operator's file may say: its keys, their types, their defaults and their meaning."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from guard.config.capabilities import Capabilities
from guard.config.places import Places
from guard.config.policies import Mode, PolicySettings
from guard.config.procedures import load_procedures
from guard.config.sections import EachOnce, Names, Section
from guard.procedure.execute import Program
from guard.upstream.capabilities import Api


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _below_the_file(path: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", ".")) / path.expanduser()


RelativePath = Annotated[Path, AfterValidator(_below_the_file)]


class Server(Section):
    """The listener for clients."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_keys: Annotated[tuple[SecretStr, ...], EachOnce] = Field(
        default=(),
        validate_default=True,
        description="keys that clients must send as a bearer token; required unless `host` is loopback",
    )
    max_body_bytes: int = Field(
        default=4_000_000, ge=1_000, description="longest request body; a longer one is answered with 413"
    )
    max_requests: int = Field(
        default=256,
        ge=1,
        description="requests served at the same time; more are answered with 503 and Retry-After",
    )
    drain_s: float = Field(
        default=30,
        ge=0,
        description="seconds that running requests get to finish when the server is told to stop",
    )
    log_foreign: bool = Field(
        default=False,
        description="log what servers and models wrote where something went wrong: without keys, cut, and "
        "at the level FOREIGN",
    )

    @field_validator("api_keys")
    @classmethod
    def _closed(cls, keys: tuple[SecretStr, ...], info: ValidationInfo) -> tuple[SecretStr, ...]:
        if any(not key.get_secret_value() for key in keys):
            raise ValueError("a key is empty; is the variable that should hold it set?")
        if not keys and not is_loopback(str(info.data.get("host", ""))):
            raise ValueError("at least one key is required, since `host` is not a loopback address")
        return keys


class Admin(Section):
    """The listener for /metrics, /healthz and /readyz. It asks for no key: keep it off public networks."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=9464, ge=0, le=65535, description="port to listen on; 0 takes a free one")


_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def _http_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # a port out of range, an address in brackets that is none
        known = False
    if not known or _BLANK.search(url):
        raise ValueError(f"expected a URL such as http://127.0.0.1:9000/v1, found {url!r}")
    for api in Api:
        if parts.path.rstrip("/").endswith(api.path):
            raise ValueError(f"the URL ends where its API begins: leave out {api.path}")
    if parts.query or parts.fragment or parts.username:
        raise ValueError("the URL must have no query, fragment or user; a key goes into api_key")
    return url.rstrip("/")


class RetryBudget(Section):
    """How many retries after faults of the network an upstream is sent."""

    percent: float = Field(
        default=20,
        ge=0,
        le=100,
        description="retries after faults, at most, in percent of its other requests",
    )
    window_s: float = Field(default=10, gt=0, le=600, description="seconds over which both are counted")
    minimum: int = Field(default=3, ge=0, le=1000, description="retries that are allowed in any case")


class Breaker(Section):
    """When an upstream is left alone because it fails."""

    failures: int = Field(
        default=5,
        ge=0,
        le=1000,
        description="faults in a row after which it is left alone; 0, or `breaker: off`: never",
    )
    open_s: float = Field(
        default=30, gt=0, description="seconds until one request tries it again; doubled where that fails"
    )
    longest_s: float = Field(
        default=300, gt=0, validate_default=True, description="seconds that `open_s` is doubled to, at most"
    )

    @field_validator("longest_s")
    @classmethod
    def _not_shorter(cls, longest_s: float, info: ValidationInfo) -> float:
        open_s = info.data.get("open_s")
        if open_s is not None and longest_s < open_s:
            raise ValueError(f"must not be less than open_s, which is {open_s:g}")
        return longest_s


NEVER: Final = {"failures": 0}


class SparedUpstream(Section):
    """What every kind of upstream has."""

    retry_budget: RetryBudget = RetryBudget()
    breaker: Annotated[Breaker, BeforeValidator(lambda value: NEVER if value == "off" else value)] = Breaker()


class AbleUpstream(SparedUpstream):
    """What every model server has, whoever runs it."""

    capabilities: Capabilities = Capabilities()


class ServedUpstream(AbleUpstream):
    """A model server that is reached over HTTP, whatever its kind."""

    base_url: Annotated[str, AfterValidator(_http_url)] = Field(
        description="where its API begins, with `/v1` if it has one"
    )
    api_key: SecretStr = Field(SecretStr(""), description="key sent to it as a bearer token; empty: none")
    pass_key: bool = Field(
        default=False, description="pass the client's own key on; not together with `api_key`"
    )
    forward_headers: Names = Field(
        default=(),
        description="headers of clients that are passed on besides the usual ones; `*` stands for any "
        "characters; with `pass_key` all are",
    )
    model: str = Field(default="", description="model to ask it for; empty: the one that the client names")
    connect_s: float = Field(default=5, gt=0, description="seconds to wait for a connection")
    first_s: float = Field(default=120, gt=0, description="seconds to wait until the model says something")
    idle_s: float = Field(default=30, gt=0, description="seconds to wait between two things that it says")

    @field_validator("pass_key")
    @classmethod
    def _one_key(cls, pass_key: bool, info: ValidationInfo) -> bool:
        own = info.data.get("api_key")
        if pass_key and own and own.get_secret_value():
            raise ValueError("pass_key and api_key exclude each other")
        return pass_key


class HttpUpstream(ServedUpstream):
    """A server of one of the kinds of the table."""

    kind: Literal[
        "openai",
        "llama.cpp",
        "vllm",
        "sglang",
        "fireworks",
        "mistral",
        "deepseek",
        "openrouter",
        "ollama",
        "generic",
    ] = Field(description="the server; `generic`: any other that is OpenAI-compatible")


class AzureUpstream(ServedUpstream):
    """Models of OpenAI that Azure serves."""

    kind: Literal["azure"] = Field(description="OpenAI's models at Azure")
    api_version: str | None = Field(
        default=None,
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?$|^(latest|preview|v1)$",
        description="the version of its API; required for a `deployment`, not needed below `/openai/v1`",
    )
    deployment: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="the deployment, where the address names it; `base_url` ends in `/openai` then",
    )


class LocalUpstream(AbleUpstream):
    """llama.cpp in a child process of the server; needs the extra `local`."""

    kind: Literal["local"] = Field(description="the embedded model runtime")
    model: RelativePath | None = Field(
        default=None,
        description="a GGUF file; without one, the default model that `stepguard model pull` gets",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="threads that generate; default: one less than there are cores",
    )
    context: int = Field(default=8192, ge=512, description="tokens of context that each slot has")
    slots: int = Field(default=2, ge=1, le=64, description="generations at the same time")


class ScriptedUpstream(SparedUpstream):
    """Plays replies from a file, for tests and demonstrations."""

    kind: Literal["scripted"] = Field(description="replies from a file")
    file: RelativePath = Field(description="the YAML file with the replies")


UpstreamSettings: TypeAlias = Annotated[
    HttpUpstream | AzureUpstream | LocalUpstream | ScriptedUpstream,
    Field(discriminator="kind"),
]


def _only_local() -> dict[str, UpstreamSettings]:
    return {"local": LocalUpstream(kind="local")}


class Route(Section):
    """What is done with requests for some models. The first route that fits counts."""

    model: str = Field(
        default="*", description="the model that the client names; `*` and `?` stand for any characters"
    )
    api_key: SecretStr | None = Field(default=None, description="only for the client with this key")
    procedure: str | None = Field(
        default=None, description="the procedure that is bound; none: the request passes through"
    )
    upstream: Names | None = Field(
        default=None, description="an upstream, or a list: the next one is the fallback"
    )
    upstream_model: str | None = Field(
        default=None, description="model to ask the first upstream for; needs `procedure`"
    )
    policy: str | None = Field(default=None, description="the policy")
    policies: Names | None = Field(
        default=None,
        description="further policies that the client may ask for; without `policy` and `policies`: any",
    )
    mode: Mode | None = Field(
        default=None, description="`enforce`, `observe` or `off`; default: the policy's"
    )
    modes: Annotated[tuple[Mode, ...], EachOnce] = Field(
        default=(), description="further modes that the client may ask for"
    )
    override: bool = Field(
        default=False, description="whether the client may bind another procedure, policy or mode"
    )
    unbound: Literal["pass", "refuse"] | None = Field(
        default=None,
        description="`pass` or `refuse`: what happens to requests to generate that are bound to no "
        "procedure; default: what `defaults` say, else `pass`; only without `procedure`",
    )

    @field_validator("upstream_model")
    @classmethod
    def _only_where_bound(cls, model: str | None, info: ValidationInfo) -> str | None:
        if model and not info.data.get("procedure"):
            raise ValueError("needs a procedure: requests without one pass through unchanged")
        return model

    @field_validator("unbound")
    @classmethod
    def _only_where_unbound(cls, unbound: str | None, info: ValidationInfo) -> str | None:
        if unbound and info.data.get("procedure"):
            raise ValueError("says nothing here: requests that fit this route are bound to its procedure")
        return unbound


class Defaults(Section):
    """What counts where a route says nothing."""

    upstream: Names | None = Field(
        default=None,
        description="an upstream, or a list: the next one is the fallback; default: the first of all",
    )
    policy: str = Field(default="default", description="the policy")
    mode: Mode = Field(default="enforce", description="`enforce`, `observe` or `off`")
    unbound: Literal["pass", "refuse"] | None = Field(
        default=None,
        description="`pass` or `refuse`: what happens to requests to generate that are bound to no procedure "
        "where their route does not say; default: `refuse` once there are routes",
    )


class Config(Section):
    """All that the file may say; what is left out is as without a file."""

    server: Server = Server()
    admin: Admin = Admin()
    procedures: tuple[RelativePath, ...] | None = Field(
        default=None,
        description="procedure files and folders of them; default: those that ship with stepguard",
    )
    upstreams: dict[str, UpstreamSettings] = Field(
        default_factory=_only_local,
        min_length=1,
        description="model servers by name; default: the local model",
    )
    policies: dict[str, PolicySettings] = Field(default_factory=dict, description="policies by name")
    routes: tuple[Route, ...] = Field(
        default=(), description="what is done with requests, by the model they name"
    )
    defaults: Defaults = Defaults()
    _places: Places = PrivateAttr(default_factory=Places)

    @property
    def places(self) -> Places:
        """Where its keys stand, for mistakes that only show when what they name is made."""
        return self._places

    def read_from(self, places: Places) -> None:
        """Say where it was read from."""
        self._places = places

    @cached_property
    def programs(self) -> Mapping[str, Program]:
        """The compiled procedures by name. Raises `ConfigError` with all their problems."""
        return load_procedures(self.procedures)

    def passes_unbound(self, route: Route | None) -> bool:
        """Whether a request to generate that nothing binds passes; `route` fits it, None where none does.

        What the route says counts, then what the defaults say. Where neither does, a route without a
        procedure is there to let requests pass; what no route fits passes while there are none.
        """
        said = (route.unbound if route else None) or self.defaults.unbound
        if said is None:
            return not self.routes or (route is not None and route.procedure is None)
        return said == "pass"

    @property
    def bindable(self) -> Mapping[str, Program]:
        """Those of the procedures that can be run: the ones without tool steps."""
        return {name: program for name, program in self.programs.items() if not program.tool_steps}


def default_config() -> Config:
    """Give what counts without a file: the local model, a model name for each shipped procedure."""
    programs = Config().bindable
    return Config(routes=tuple(Route(model=name, procedure=name, override=True) for name in programs))
