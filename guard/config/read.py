"""From a file to a `Config`, or to every mistake in it at once, each with its line and the path of its key.

`${VAR}` and `${VAR:-default}` stand for variables of the environment anywhere in a value; `$${` is a
plain `${`. They are put in after the text was read as YAML, so that a value cannot change its structure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from guard.config.capabilities import Capabilities
from guard.config.inherit import inherit
from guard.config.places import Places
from guard.config.policies import Entry, PolicySettings, RuleSettings, VotesSettings
from guard.config.refuse import impossible
from guard.config.settings import (
    Admin,
    AzureUpstream,
    Breaker,
    Config,
    Defaults,
    HttpUpstream,
    LocalUpstream,
    RetryBudget,
    Route,
    ScriptedUpstream,
    Server,
)
from guard.config.words import Keys, nearest, shown, spelled_path, suggestion
from guard.errors import ConfigError
from guard.nesting import FlatLoader
from guard.procedure.execute import Program

MAX_FILE_BYTES = 1_000_000
MAX_VALUES = 10_000  # in one file, aliases counted as often as they are used

Problems = list[tuple[str, str]]  # (path of the key, what is wrong)


def load_config(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read a configuration and compile the procedures that it names.

    Raises `ConfigError` with all that is wrong in the file, in the procedures and between them.
    """
    problems: Problems = []
    places = Places(file=str(path))
    try:
        values, variables, places = _parse(path)
        raw = _Expansion(environment, problems).expand(values, variables)
    except RecursionError as error:
        raise ConfigError([("", "is nested too deeply")], file=str(path)) from error
    except ConfigError as error:
        if error.file:
            raise
        raise places.error(error.problems) from error.__cause__
    policies = _mapping(raw.get("policies"))
    if policies:
        inherited = inherit(policies)
        problems += inherited.problems
        raw = {**raw, "policies": inherited.policies}
    config = _validate(raw, policies, path.parent, problems)
    programs = _programs(config, raw, path.parent, problems)
    problems += _references(raw, programs)
    problems += impossible(raw, policies, programs)
    if problems or config is None:
        raise places.error(problems)
    config.read_from(places)
    return config


# --- text to values ------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([^{}]*)\}")
# What a variable is replaced by until the text is read: characters that YAML takes for plain letters.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKED = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class _Loader(FlatLoader):
    """YAML whose `off` and `no` are strings and whose keys occur once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own protocol)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} occurs twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; one that looks like a number or a date may be none (`2026-02-30`)."""
        try:
            return super().construct_object(node, deep=deep)
        except ValueError as error:
            problem = f"this value cannot be read: {str(error).partition(';')[0]}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def _parse(path: Path) -> tuple[dict[str, Any], list[str], Places]:
    """Give the values of a file, their variables by the numbers in the marks, and where they stand."""
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8")
    except OSError as error:
        raise ConfigError([("", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([("", f"is not UTF-8 text at byte {error.start}")]) from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError([("", f"is larger than {MAX_FILE_BYTES} bytes")])
    variables: list[str] = []

    folded: list[tuple[int, int]] = []
    shorter = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal shorter
        if found[1]:
            put = found[1]
        else:
            variables.append(found[2])
            put = f"{_OPEN}{len(variables) - 1}{_CLOSE}"
            if "\n" in found[0]:
                folded.append((found.start() - shorter, found[0].count("\n")))
        shorter += len(found[0]) - len(put)
        return put

    marked = _VARIABLE.sub(mark, text)
    places = Places(file=str(path), folded=tuple(folded))
    try:
        loader = _Loader(marked)  # which refuses control characters
        root = loader.get_single_node()
        values = (None if root is None else loader.construct_document(root)) or {}
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or str(error).splitlines()[0]
        lines = [places.of_mark(place) if place else None]
        raise ConfigError([("", f"is not YAML: {message}")], file=str(path), lines=lines) from error
    if not isinstance(values, dict):
        raise ConfigError([("", f"expected keys such as `upstreams:`, found {shown(values)}")])
    return values, variables, replace(places, root=root)


class _Expansion:
    """Puts the variables of the environment into values."""

    def __init__(self, environment: Mapping[str, str], problems: Problems) -> None:
        self._environment, self._problems = environment, problems
        self._variables: list[str] = []
        self._left = MAX_VALUES

    def expand(self, values: dict[str, Any], variables: list[str]) -> dict[str, Any]:
        """Put in what variables stand for; names of unset ones become problems."""
        self._variables = variables
        expanded: dict[str, Any] = self._value(values, ())
        return expanded

    def _value(self, value: Any, at: Keys) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ConfigError([(spelled_path(at), f"more than {MAX_VALUES} values")])
        match value:
            case str():
                return _MARKED.sub(lambda found: self._variable(found, at), value)
            case list():
                return [self._value(item, (*at, index)) for index, item in enumerate(value)]
            case dict():
                return {
                    str(self._value(str(key), at)): self._value(item, (*at, str(key)))
                    for key, item in value.items()
                }
            case _:
                return value

    def _variable(self, found: re.Match[str], at: Keys) -> str:
        spelled = self._variables[int(found[1])]
        parts = _NAME.fullmatch(spelled)
        if parts is None:
            message = f"expected ${{NAME}} or ${{NAME:-default}}, found {'${' + spelled + '}'!r}"
            self._problems.append((spelled_path(at), message))
            return ""
        name, default = parts.groups()
        value = self._environment.get(name, "")
        if value or (default is None and name in self._environment):
            return value
        if default is None:
            message = f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
            self._problems.append((spelled_path(at), message))
        return default or ""


# --- values to settings --------------------------------------------------------------------------

_SECTIONS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "server": (Server,),
    "admin": (Admin,),
    "upstreams": (HttpUpstream, AzureUpstream, LocalUpstream, ScriptedUpstream),
    "policies": (PolicySettings,),
    "routes": (Route,),
    "defaults": (Defaults,),
}


_INNER: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "upstreams": {"breaker": Breaker, "capabilities": Capabilities, "retry_budget": RetryBudget},
    "policies": {"actions": Entry, "rules": RuleSettings, "votes": VotesSettings},
}


def _validate(
    raw: dict[str, Any], written: Mapping[str, Any], folder: Path, problems: Problems
) -> Config | None:
    """Give the settings; None, with the problems added, where there are some.

    `written` are the policies without what they take over: that is wrong where it is written.
    """
    known = tuple(f"{key}." for key, _ in problems)  # what an unset variable leaves needs no second word
    try:
        return Config.model_validate(raw, context={"folder": folder})
    except ValidationError as error:
        for details in error.errors(include_url=False):
            at = details["loc"]
            if at[:1] == ("policies",) and len(at) > 2 and not _wrote(written, at):
                continue
            if details["type"] == "too_short" and details["input"]:
                continue  # it has items, which are wrong
            key, message = _problem(details, raw)
            if not any(other.startswith((f"{key}.", f"{key}[")) for other in known):
                problems.append((key, message))
        return None


def _wrote(policies: Mapping[str, Any], at: Keys) -> bool:
    return at[2] in _mapping(policies.get(str(at[1])))


# What pydantic calls by the names of Python's types.
_WORDS = {
    "mapping of keys to values": "valid dictionary",
    "valid list": "valid tuple",
    "List should have at least 1 item": "Tuple should have at least 1 item after validation",
}
_CLASS = re.compile(r" or instance of \w+")  # of ours, which stands in no file


def _problem(details: Mapping[str, Any], raw: object) -> tuple[str, str]:
    at: Keys = details["loc"]
    kind = ""
    if at[:1] == ("upstreams",) and len(at) > 2:
        kind, at = str(at[2]), at[:2] + at[3:]  # the kind stands in no key
    key = spelled_path(_as_written(at, raw))
    context, found = details.get("ctx", {}), details["input"]
    match details["type"]:
        case "extra_forbidden":
            return key, f"unknown key{suggestion(str(at[-1]), _keys(at, kind))}"
        case "missing":
            return spelled_path(at), "is required"
        case "union_tag_not_found":
            return spelled_path(
                (*at, "kind")
            ), f"is required: {context.get('expected_tags', 'one of the kinds')}"
        case "union_tag_invalid":
            tag, tags = str(context["tag"]), context["expected_tags"]
            return spelled_path((*at, "kind")), f"expected {tags}, found {tag!r}{_meant(tag, tags)}"
        case "value_error":
            return key, str(context["error"])
        case _:
            message = _CLASS.sub("", str(details["msg"]))
            for ours, theirs in _WORDS.items():
                message = message.replace(theirs, ours)
            secret = any(str(part).startswith("api_key") for part in at)
            tail = "" if secret else f", found {shown(found)}"
            meant = _meant(found, context.get("expected", "")) if isinstance(found, str) else ""
            return key, message[0].lower() + message[1:] + tail + meant


def _meant(word: str, expected: object) -> str:
    return nearest(word, re.findall("'([^']*)'", str(expected)))


def _as_written(at: Keys, raw: object) -> Keys:
    """Give the path of a key as it was written: `actions[1]` is an action, `actions[1].resume` its times."""
    written: list[int | str] = []
    for key in at:
        match raw:
            case dict() if key not in raw and written and isinstance(written[-1], int) and len(raw) == 1:
                return (*written, *raw)
            case dict():
                raw = raw.get(key, raw.get(str(key)))
            case list():
                raw = raw[key] if isinstance(key, int) and key < len(raw) else None
            case _:
                return tuple(written)
        written.append(key)
    return tuple(written)


def _keys(at: Keys, kind: str) -> Iterator[str]:
    """Give the keys that could have stood where this one does, in an upstream those of its kind."""
    for section in (Config,) if len(at) == 1 else _sections(at):
        said = section.model_fields.get("kind")
        if said is None or kind in get_args(said.annotation):
            yield from section.model_fields


def _sections(at: Keys) -> tuple[type[BaseModel], ...]:
    within = [part for part in at[:-1] if isinstance(part, str)]
    inner = _INNER.get(within[0], {})
    if len(within) > 2 and within[-1] in inner:
        return (inner[within[-1]],)
    return _SECTIONS.get(within[0], ())


# --- what one place says of another --------------------------------------------------------------


def _programs(
    config: Config | None, raw: dict[str, Any], folder: Path, problems: Problems
) -> Mapping[str, Program] | None:
    """Give the procedures, although other parts may be wrong; None: unknown."""
    try:
        if config is None:
            only = {"procedures": raw["procedures"]} if "procedures" in raw else {}
            config = Config.model_validate(only, context={"folder": folder})
        programs = config.programs
    except ValidationError:  # said already
        return None
    except ConfigError as error:
        problems += error.problems
        return None
    return programs


_ONE = {"upstream": "upstream", "policies": "policy"}


def _references(raw: Mapping[str, Any], procedures: Iterable[str] | None) -> Problems:
    """Find names that stand for nothing, in the raw values, whatever else is wrong in them."""
    problems: Problems = []
    upstreams = _mapping(raw.get("upstreams")) or ("local",)
    policies = {"default", *_mapping(raw.get("policies"))}
    keys = _mapping(raw.get("server")).get("api_keys")

    def refer(what: str, name: object, known: Iterable[str] | None, key: str) -> None:
        if isinstance(name, str) and known is not None and name not in known:
            problems.append((key, f"there is no {what} {name!r}{suggestion(name, known)}"))

    routes = raw.get("routes")
    places = [
        (f"routes[{index}]", route) for index, route in enumerate(routes if isinstance(routes, list) else ())
    ]
    for key, place in [*places, ("defaults", raw.get("defaults"))]:
        section = _mapping(place)
        refer("policy", section.get("policy"), policies, f"{key}.policy")
        refer("procedure", section.get("procedure"), procedures, f"{key}.procedure")
        for field, known in (("upstream", upstreams), ("policies", policies)):
            names = section.get(field)
            refer(_ONE[field], names, known, f"{key}.{field}")
            for number, name in enumerate(names if isinstance(names, list) else ()):
                refer(_ONE[field], name, known, f"{key}.{field}[{number}]")
        secret = section.get("api_key")
        if isinstance(secret, str) and secret not in (keys if isinstance(keys, list) else ()):
            problems.append((f"{key}.api_key", "is not one of server.api_keys"))
    return problems


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
