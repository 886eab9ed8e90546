"""What the operator's file may say of a model server that the table of kinds says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from guard.config.sections import EachOnce, Section
from guard.dialect.json_schema import Patterns
from guard.dialect.notation import Dialect
from guard.upstream.backends import TABLE, backend_for
from guard.upstream.capabilities import (
    HELD,
    Api,
    Echo,
    Place,
    Prefix,
    Roles,
    Thinking,
    contradictions,
)

NONE: Final = "none"

GrammarPlace = Literal["grammar", "structured_outputs", "ebnf", "response_format", "custom_tool", "none"]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
FieldNames = Annotated[
    tuple[FieldName, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    EachOnce,
]


class Capabilities(Section):
    """What a server does otherwise than the table says of its kind. What is left out is as it says there."""

    api: Api | None = Field(
        default=None,
        description="which of OpenAI's interfaces it is asked by: chat completions, or responses",
    )
    grammar: GrammarPlace | None = Field(
        default=None, description="where in the request a grammar goes; `none`: it takes none"
    )
    dialect: Dialect | None = Field(
        default=None, description="the notation of the grammar; default: the first that its place holds"
    )
    patterns: Patterns | None = Field(
        default=None,
        description="which patterns a JSON schema may have there: none, `plain` ones that say nothing which"
        " JSON escapes, or any, of the `text`",
    )
    thinking: Thinking | None = Field(
        default=None, description="what a grammar means for a model that thinks first"
    )
    prefix: Prefix | None = Field(
        default=None, description="how it is told to go on from what the assistant has said already"
    )
    echo: Echo | None = Field(default=None, description="whether its answer repeats that")
    roles: Roles | None = Field(
        default=None,
        description="the role of instructions; `any`: the client's, `none`: they go into the user's message",
    )
    stream_options: bool | None = Field(
        default=None, description="whether it knows the field `stream_options`"
    )
    usage: bool | None = Field(default=None, description="whether its streams end with the tokens they took")
    max_tokens_field: FieldName | None = Field(
        default=None, description="the field that bounds the tokens of an answer"
    )
    stop_field: FieldName | None = Field(
        default=None, description="the field for texts at which it ends; `none`: it has none"
    )
    seed_field: FieldName | None = Field(
        default=None, description="the field for a seed; `none`: it has none"
    )
    refuses: FieldNames | None = Field(default=None, description="fields that it is never sent")
    reasoning_fields: FieldNames | None = Field(
        default=None, description="fields of a message or a delta in which it puts thoughts"
    )
    thinks: bool | None = Field(
        default=None, description="whether its prompts end with the tag that opens thoughts"
    )
    n: bool | None = Field(default=None, description="whether it can give several answers at once")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="temperature to ask it for where the client asks for none"
    )

    @property
    def changes(self) -> Mapping[str, Any]:
        """The columns of the table that are other here."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        changes = {name: value for name, value in given.items() if value is not None}
        if self.grammar is not None:
            place = None if self.grammar == NONE else Place(self.grammar)
            changes["grammar"] = place
            changes["dialect"] = self.dialect or (None if place is None else HELD[place][0])
        if self.prefix is Prefix.NONE:
            changes.setdefault("echo", Echo.NEVER)
        for name in ("stop_field", "seed_field"):
            if changes.get(name) == NONE:
                changes[name] = None
        if "refuses" in changes:
            changes["refuses"] = frozenset(changes["refuses"])
        return changes


def impossible_capabilities(kind: str, model: str, capabilities: Capabilities) -> Iterator[tuple[str, str]]:
    """Say what cannot be: the key, and why. Without a model, for any that the client may name."""
    if capabilities.dialect is not None and capabilities.grammar is None:
        yield (
            "dialect",
            f"its place in the request is missing: write {_places(kind, capabilities.dialect)}, too",
        )
        return
    if capabilities.max_tokens_field == NONE:
        yield "max_tokens_field", "without a bound no request is sent: name the field"
    rows = [backend_for(kind, model, capabilities.changes)]
    if not model:
        names = [row.models[0] for row in TABLE if row.kind == kind and row.models]
        rows += [backend_for(kind, name, capabilities.changes) for name in names]
    if capabilities.patterns is not None and all(row.dialect is not Dialect.JSON_SCHEMA for row in rows):
        yield "patterns", "only a JSON schema has them: leave it out, or write `dialect: json_schema`, too"
    found = {fault: None for row in rows for fault in contradictions(row)}
    for column, why in found:
        yield column if getattr(capabilities, column) is not None else "", why


def _places(kind: str, dialect: Dialect) -> str:
    """Give what to write for a notation: the place that servers of this kind have, else any that holds it."""
    held = [place for place, dialects in HELD.items() if dialect in dialects]
    usual = {row.grammar for row in TABLE if row.kind == kind}
    places = [place for place in held if place in usual] or held
    return " or ".join(f"`grammar: {place}`" for place in places)
