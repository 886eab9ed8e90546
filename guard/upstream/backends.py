"""What each kind of model server can do and how it wants to be asked: one row a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from guard.dialect.notation import Dialect
from guard.errors import InvalidState
from guard.run.messages import Open, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of server.

    `prefill`: whether a trailing assistant message is continued. `grammar_field`: where a grammar in
    `dialect` goes. `token_per_chunk`: every chunk is one token, so that a cut stream can be counted.
    `closes_after_stream`: the server drops the connection behind a stream though it promises not to.
    `temperature` is asked for where the client asks for none: a first attempt should be the model's best.
    `fixed`: fields that every request carries.
    """

    kind: str
    prefill: bool = False
    dialect: Dialect | None = None
    grammar_field: str | None = None
    max_tokens_field: str = "max_tokens"
    token_per_chunk: bool = False
    closes_after_stream: bool = False
    temperature: float | None = None
    fixed: Mapping[str, object] = field(default_factory=dict)

    def target(self, name: str, model: str) -> Target:
        """What a run has to know of an upstream of this kind."""
        return Target(
            name=name,
            model=model,
            prefill=self.prefill,
            dialect=self.dialect,
            temperature=self.temperature,
        )

    def body(self, command: Open, *, model: str, extra: Mapping[str, object]) -> dict[str, object]:
        """The request that opens a generation. `extra` are the client's fields; ours win."""
        ours: dict[str, object | None] = {
            "model": model,
            "messages": self._messages(command),
            "stream": True,
            "stream_options": {"include_usage": True},
            self.max_tokens_field: command.max_tokens,
            "temperature": command.temperature,
            "top_p": command.top_p,
            "seed": command.seed,
            "stop": list(command.stop) or None,
        }
        if command.grammar is not None:
            ours[self._grammar_field()] = command.grammar
        said = {name: value for name, value in ours.items() if value is not None}
        return {**extra, **self.fixed, **said}

    def _messages(self, command: Open) -> list[dict[str, object]]:
        if not command.prefix:
            return list(command.messages)
        if not self.prefill:
            raise InvalidState(f"a {self.kind} upstream cannot continue a prefix")
        return [*command.messages, {"role": "assistant", "content": command.prefix}]

    def _grammar_field(self) -> str:
        if self.grammar_field is None:
            raise InvalidState(f"a {self.kind} upstream takes no grammar")
        return self.grammar_field


def _llama_cpp(kind: str) -> Backend:
    return Backend(
        kind=kind,
        prefill=True,
        dialect=Dialect.GBNF,
        grammar_field="grammar",
        token_per_chunk=True,
        closes_after_stream=True,
        temperature=0.0,
        fixed={"cache_prompt": True},
    )


BACKENDS: Final[Mapping[str, Backend]] = {
    "generic": Backend(kind="generic"),
    "llama.cpp": _llama_cpp("llama.cpp"),
    "local": _llama_cpp("local"),
}
