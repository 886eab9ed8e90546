"""What a row of the table of model servers says: how one is asked for something, and what it can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from guard.dialect.json_schema import Patterns
from guard.dialect.notation import Dialect
from guard.run.messages import Target


class Api(StrEnum):
    """Which of OpenAI's interfaces a server is asked by."""

    CHAT = "chat"  # chat completions
    RESPONSES = "responses"

    @property
    def path(self) -> str:
        """Where requests go, below where the API begins."""
        return "/responses" if self is Api.RESPONSES else "/chat/completions"


class Place(StrEnum):
    """Where in the request a grammar goes."""

    GRAMMAR = "grammar"  # the field `grammar`
    STRUCTURED_OUTPUTS = "structured_outputs"  # `structured_outputs: {grammar | regex | json: ...}`
    EBNF = "ebnf"  # the field `ebnf`, for a regular expression `regex`
    RESPONSE_FORMAT = "response_format"  # `{type: grammar | json_schema, ...}`; in responses `text.format`
    CUSTOM_TOOL = "custom_tool"  # the input format of a tool that must be called: the trace is its input


# The dialects that a place can hold, the usual one first.
HELD: Final[Mapping[Place, tuple[Dialect, ...]]] = {
    Place.GRAMMAR: (Dialect.GBNF, Dialect.LLGUIDANCE),
    Place.STRUCTURED_OUTPUTS: (
        Dialect.XGRAMMAR,
        Dialect.LARK,
        Dialect.LLGUIDANCE,
        Dialect.JSON_SCHEMA,
        Dialect.REGEX,
    ),
    Place.EBNF: (Dialect.XGRAMMAR, Dialect.LLGUIDANCE, Dialect.REGEX),
    Place.RESPONSE_FORMAT: (Dialect.JSON_SCHEMA, Dialect.GBNF),
    Place.CUSTOM_TOOL: (Dialect.LARK, Dialect.REGEX),
}


_FIELDS: Final[Mapping[Place | None, tuple[str, ...]]] = {
    Place.GRAMMAR: ("grammar",),
    Place.STRUCTURED_OUTPUTS: ("structured_outputs",),
    Place.EBNF: ("ebnf", "regex"),
    Place.RESPONSE_FORMAT: ("response_format",),
    Place.CUSTOM_TOOL: ("tools", "tool_choice"),
}

# Fields of every request, of one that goes on from a prefix, and of what is said.
_FIXED: Final = frozenset({"model", "messages", "stream", "stream_options", "temperature", "top_p", "n"})
_CONTINUING: Final = frozenset({"continue_final_message", "add_generation_prompt"})
_SAID: Final = frozenset({"content", "role", "tool_calls", "function_call"})


class Prefix(StrEnum):
    """How a server is told to go on from what the assistant has said already."""

    TRAILING = "trailing"  # a trailing assistant message is continued as it is
    FLAGGED = "prefix_true"  # it is, where it says `prefix: true`
    CONTINUE = "continue_final_message"  # it is, with that field and `add_generation_prompt: false`
    NONE = "none"


class Echo(StrEnum):
    """Whether an answer repeats the prefix that it goes on from."""

    NEVER = "never"
    WHOLE = "whole"  # an answer in one piece does, a stream does not
    ALWAYS = "always"


class Roles(StrEnum):
    """Who may give instructions."""

    ANY = "any"  # `system` and `developer`, as the client says
    SYSTEM = "system"
    DEVELOPER = "developer"
    NONE = "none"  # nobody: they go to the front of the first user message


class Thinking(StrEnum):
    """What a grammar means for a model that thinks first."""

    FREE = "free"  # it holds for what comes behind the thoughts
    FORBIDDEN = "forbidden"  # it holds from the first token on: there can be no thoughts
    INSIDE = "inside"  # it does, and lets them stand in front, in `<think>` tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One row: a kind of server or, where `models` says so, some models of one.

    `models`: patterns of model names in small letters, without the path in front. `api`: how it is asked; in
    the words of chat completions, of which the others are made. `grammar` and `dialect`: where a grammar goes
    and in which notation; both None: it takes none. `patterns`: what it makes of those in a JSON schema.
    `echo`: of the prefix.
    `stream_options`: whether it knows that field; `usage`: whether a stream ends with the tokens it took.
    The `..._field`s are what it calls them, None where it has none. `refuses`: fields that it answers with
    an error. `reasoning_fields`: where in a message or a delta it puts thoughts, if not where most do.
    `thinks`: its prompts end with the tag that opens thoughts, so that each answer begins among them.
    `temperature` is asked for where the client asks for none: a first attempt should be the model's best.
    `fixed`: fields that every request carries; `with_grammar`, `with_prefix`: those of one with either;
    the latter also with a grammar that forbids thoughts, since they switch these off.
    `token_per_chunk`: every chunk is one token, so that a cut stream can be counted. `closes_after_stream`:
    the server drops the connection behind a stream though it promises not to. `key_header`: where the key
    goes. `unverified`: names of the columns for which there is no source yet.
    """

    kind: str
    models: tuple[str, ...] = ()
    api: Api = Api.CHAT
    grammar: Place | None = None
    dialect: Dialect | None = None
    patterns: Patterns = Patterns.PLAIN
    thinking: Thinking = Thinking.FREE
    prefix: Prefix = Prefix.NONE
    echo: Echo = Echo.NEVER
    roles: Roles = Roles.SYSTEM
    stream_options: bool = True
    usage: bool = True
    max_tokens_field: str = "max_tokens"
    stop_field: str | None = "stop"
    seed_field: str | None = "seed"
    refuses: frozenset[str] = frozenset()
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    thinks: bool = False
    n: bool = True
    temperature: float | None = None
    fixed: Mapping[str, object] = field(default_factory=dict)
    with_grammar: Mapping[str, object] = field(default_factory=dict)
    with_prefix: Mapping[str, object] = field(default_factory=dict)
    token_per_chunk: bool = False
    closes_after_stream: bool = False
    key_header: str = "authorization"
    unverified: frozenset[str] = frozenset()

    @property
    def prefill(self) -> bool:
        """Whether a trace is continued: the input of a tool cannot be begun for the model."""
        return self.prefix is not Prefix.NONE and self.grammar is not Place.CUSTOM_TOOL

    def target(self, name: str, model: str) -> Target:
        """What a run has to know of an upstream of this kind."""
        return Target(
            name=name,
            model=model,
            prefill=self.prefill,
            dialect=self.dialect,
            temperature=None if "temperature" in self.refuses else self.temperature,
            patterns=self.patterns,
            thoughts=self.thinking is Thinking.INSIDE,
            thinks=self.thinks,
        )


def contradictions(backend: Backend) -> Iterator[tuple[str, str]]:
    """Say what cannot be together in a row: the column, and why."""
    place, dialect = backend.grammar, backend.dialect
    if place is None:
        if dialect is not None:
            yield "dialect", "there is no place for a grammar: name it with `grammar`"
    elif dialect not in HELD[place]:
        held = ", ".join(HELD[place])
        yield "dialect", f"{place} holds {held}, found {dialect or 'none'}"
    if backend.api is Api.RESPONSES:
        yield from _not_in_responses(backend)
    elif place is Place.CUSTOM_TOOL and backend.prefix is not Prefix.NONE:
        yield (
            "prefix",
            "the input of a tool cannot be begun for the model: write `prefix: none`, or another `grammar`",
        )
    if backend.prefix is Prefix.NONE and backend.echo is not Echo.NEVER:
        yield "echo", "without `prefix` there is nothing to repeat"
    if backend.thinking is Thinking.INSIDE:
        yield from _without_room(backend)
    if backend.thinks and backend.prefix is not Prefix.NONE:
        yield "thinks", "behind a prefix nothing is thought: write `prefix: none`, too"
    if backend.temperature is not None and "temperature" in backend.refuses:
        yield "temperature", "it is never sent `temperature`: see `refuses`"
    if backend.stream_options and "stream_options" in backend.refuses:
        yield "stream_options", "it is never sent that field: see `refuses`"
    if backend.thinks and place is not None and backend.thinking is Thinking.FORBIDDEN:
        yield "thinks", "under a grammar that forbids thoughts no answer begins among them: see `thinking`"
    needed = {"model", "messages", "stream", backend.max_tokens_field, *_FIELDS.get(place, ())}
    if backend.prefix is Prefix.CONTINUE:
        needed |= _CONTINUING
    if backend.api is Api.RESPONSES:
        needed |= {"input", *(("text",) if place is Place.RESPONSE_FORMAT else ())}
    for name in sorted(backend.refuses & needed):
        yield "refuses", f"no request can do without {name!r}"
    yield from _taken(backend)


def _not_in_responses(backend: Backend) -> Iterator[tuple[str, str]]:
    """Say what the Responses API has no word for."""
    if backend.prefix is not Prefix.NONE:
        yield "prefix", "the Responses API goes on from no prefix: write `none`, or `api: chat`"
    if backend.grammar is Place.RESPONSE_FORMAT and backend.dialect is not Dialect.JSON_SCHEMA:
        yield "dialect", "in the Responses API `response_format` holds json_schema only"
    if backend.stream_options:
        yield "stream_options", "the Responses API tells the usage unasked: write `false`"
    if backend.n:
        yield "n", "the Responses API gives one answer: write `false`"


def _taken(backend: Backend) -> Iterator[tuple[str, str]]:
    """Say which field is to hold one thing, and holds another."""
    others = {*_FIXED, *_CONTINUING, *(name for names in _FIELDS.values() for name in names)}
    taken = dict.fromkeys(others, "something else")
    for column in ("max_tokens_field", "stop_field", "seed_field"):
        name = getattr(backend, column)
        if name in taken:
            yield column, f"{name!r} cannot be `{column}` of a request and hold {taken[name]}, too"
        if name is not None:
            taken[name] = f"`{column}`"
    for name in sorted(_SAID.intersection(backend.reasoning_fields)):
        yield "reasoning_fields", f"{name!r} holds no thoughts, but what is said"


def _without_room(backend: Backend) -> Iterator[tuple[str, str]]:
    """Say why a grammar has no room for thoughts in front."""
    if backend.grammar is None:
        yield "thinking", "without `grammar` there is nothing for thoughts to be inside of: write `free`"
    elif backend.grammar is Place.CUSTOM_TOOL or backend.dialect is Dialect.JSON_SCHEMA:
        yield (
            "thinking",
            f"{backend.dialect} in {backend.grammar} has no room for thoughts: write `free` or `forbidden`",
        )
    if backend.prefix is not Prefix.NONE:
        yield "thinking", "behind a prefix nothing is thought: write `prefix: none`, too"
