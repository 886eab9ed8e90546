"""From a file to a `Config`, or to every mistake in it at once, each with the path of its key.

`${VAR}` and `${VAR:-default}` stand for variables of the environment anywhere in a value; `$${` is a
plain `${`. They are put in after the text was read as YAML, so that a value cannot change its structure.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from guard.config.policies import PolicySettings
from guard.config.settings import (
    Admin,
    Config,
    Defaults,
    HttpUpstream,
    LocalUpstream,
    Route,
    ScriptedUpstream,
    Server,
)
from guard.errors import ConfigError

MAX_FILE_BYTES = 1_000_000
MAX_VALUES = 10_000  # in one file, aliases counted as often as they are used
MAX_SHOWN = 60  # characters of what was found

Problems = list[tuple[str, str]]  # (path of the key, what is wrong)
Keys = tuple[int | str, ...]


def load_config(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read a configuration and compile the procedures that it names.

    Raises `ConfigError` with all that is wrong in the file, in the procedures and between them.
    """
    problems: Problems = []
    try:
        raw = _Expansion(environment, problems).expand(*_parse(path))
    except RecursionError as error:
        raise ConfigError([("", "is nested too deeply")], file=str(path)) from error
    except ConfigError as error:
        raise ConfigError(error.problems, file=str(path)) from error.__cause__
    config = _validate(raw, path.parent, problems)
    problems += _references(raw, _procedure_names(config, raw, path.parent, problems))
    if problems or config is None:
        raise ConfigError(problems, file=str(path))
    return config


# --- text to values ------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([^{}]*)\}")
# What a variable is replaced by until the text is read: characters that YAML takes for plain letters.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKED = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class _Loader(yaml.SafeLoader):
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


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def _parse(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Give the values of a file and the variables that they hold, by their numbers in the marks."""
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

    def mark(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        variables.append(found[2])
        return f"{_OPEN}{len(variables) - 1}{_CLOSE}"

    try:
        values = yaml.load(_VARIABLE.sub(mark, text), _Loader) or {}  # noqa: S506 (a safe one)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        key = f"line {place.line + 1}" if place else ""
        message = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError([(key, f"is not YAML: {message}")]) from error
    if not isinstance(values, dict):
        raise ConfigError([("", f"expected keys such as `upstreams:`, found {_shown(values)}")])
    return values, variables


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
            raise ConfigError([(_path(at), f"more than {MAX_VALUES} values")])
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
            self._problems.append((_path(at), message))
            return ""
        name, default = parts.groups()
        value = self._environment.get(name, "")
        if value or (default is None and name in self._environment):
            return value
        if default is None:
            message = f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
            self._problems.append((_path(at), message))
        return default or ""


# --- values to settings --------------------------------------------------------------------------

_SECTIONS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "server": (Server,),
    "admin": (Admin,),
    "upstreams": (HttpUpstream, LocalUpstream, ScriptedUpstream),
    "policies": (PolicySettings,),
    "routes": (Route,),
    "defaults": (Defaults,),
}


def _validate(raw: dict[str, Any], folder: Path, problems: Problems) -> Config | None:
    """Give the settings; None, with the problems added, where there are some."""
    known = {key for key, _ in problems}  # what an unset variable leaves behind needs no second word
    try:
        return Config.model_validate(raw, context={"folder": folder})
    except ValidationError as error:
        found = (_problem(details) for details in error.errors(include_url=False))
        problems += [(key, message) for key, message in found if key not in known]
        return None


def _problem(details: Mapping[str, Any]) -> tuple[str, str]:
    at: Keys = details["loc"]
    if at[:1] == ("upstreams",) and len(at) > 2:
        at = at[:2] + at[3:]  # without the kind, which stands in no key
    context, found = details.get("ctx", {}), details["input"]
    match details["type"]:
        case "extra_forbidden":
            return _path(at), f"unknown key{_suggestion(str(at[-1]), _keys(at))}"
        case "missing":
            return _path(at), "is required"
        case "union_tag_not_found":
            return _path((*at, "kind")), f"is required: {context.get('expected_tags', 'one of the kinds')}"
        case "union_tag_invalid":
            return _path((*at, "kind")), f"expected {context['expected_tags']}, found {context['tag']!r}"
        case "value_error":
            return _path(at), str(context["error"])
        case _:
            message = str(details["msg"])
            secret = any(str(key).startswith("api_key") for key in at)
            tail = "" if secret else f", found {_shown(found)}"
            return _path(at), message[0].lower() + message[1:] + tail


def _keys(at: Keys) -> Iterator[str]:
    """Give the keys that could have stood where this one does."""
    for section in (Config,) if len(at) == 1 else _SECTIONS.get(str(at[0]), ()):
        yield from section.model_fields


def _suggestion(word: str, known: Iterable[str]) -> str:
    known = sorted(set(known))
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(known)}" if known else "; there are none"


def _path(at: Keys) -> str:
    path = ""
    for key in at:
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
    return path


def _shown(value: object) -> str:
    spelled = repr(value)
    return spelled if len(spelled) <= MAX_SHOWN else spelled[:MAX_SHOWN] + "..."


# --- what one place says of another --------------------------------------------------------------


def _procedure_names(
    config: Config | None, raw: dict[str, Any], folder: Path, problems: Problems
) -> Iterable[str] | None:
    """Give the names of the procedures, although other parts may be wrong; None: unknown."""
    try:
        if config is None:
            only = {"procedures": raw["procedures"]} if "procedures" in raw else {}
            config = Config.model_validate(only, context={"folder": folder})
        names: Iterable[str] = config.programs
    except ValidationError:  # said already
        return None
    except ConfigError as error:
        problems += error.problems
        return None
    return names


def _references(raw: Mapping[str, Any], procedures: Iterable[str] | None) -> Problems:
    """Find names that stand for nothing, in the raw values, whatever else is wrong in them."""
    problems: Problems = []
    upstreams = _mapping(raw.get("upstreams")) or ("local",)
    policies = {"default", *_mapping(raw.get("policies"))}
    keys = _mapping(raw.get("server")).get("api_keys")

    def refer(what: str, name: object, known: Iterable[str] | None, key: str) -> None:
        if isinstance(name, str) and known is not None and name not in known:
            problems.append((key, f"there is no {what} {name!r}{_suggestion(name, known)}"))

    routes = raw.get("routes")
    places = [
        (f"routes[{index}]", route) for index, route in enumerate(routes if isinstance(routes, list) else ())
    ]
    for key, place in [*places, ("defaults", raw.get("defaults"))]:
        section = _mapping(place)
        refer("policy", section.get("policy"), policies, f"{key}.policy")
        refer("procedure", section.get("procedure"), procedures, f"{key}.procedure")
        names = section.get("upstream")
        for name in names if isinstance(names, list) else [names]:
            refer("upstream", name, upstreams, f"{key}.upstream")
        secret = section.get("api_key")
        if isinstance(secret, str) and secret not in (keys if isinstance(keys, list) else ()):
            problems.append((f"{key}.api_key", "is not one of server.api_keys"))
    return problems


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
