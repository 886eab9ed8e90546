"""What a server can do is found out, and where it is not as the table says, what to write."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from guard.dialect.notation import Dialect
from guard.foreign import Foreign
from guard.upstream.answer import read_answer
from guard.upstream.backends import BACKENDS, backend_for
from guard.upstream.capabilities import HELD, Api, Place, Prefix, Roles, contradictions
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.upstream.trial import Trial, overrides
from tests.upstream.able import Able, able_server
from tests.upstream.responding import Answer
from tests.upstream.servers import connected, run


def tried(able: Able, kind: str = "generic", model: str = "m", **settings: Any) -> tuple[Trial, bool]:
    async def body() -> tuple[Trial, bool]:
        async with (
            able_server(able) as server,
            connected(server, kind=kind, model=model, **settings) as upstream,
        ):
            trial = Trial(upstream, upstream.backend_for(model), model)
            return trial, await trial.run()

    return run(body())


def found(trial: Trial) -> dict[str, str]:
    return {finding.capability: finding.found for finding in trial.findings}


AS_THE_TABLE = {
    "vllm": Able(prefix=Prefix.CONTINUE, place=Place.STRUCTURED_OUTPUTS),
    "llama.cpp": Able(prefix=Prefix.TRAILING, echo_whole=True, place=Place.GRAMMAR),
    "mistral": Able(
        prefix=Prefix.FLAGGED,
        echo_stream=True,
        echo_whole=True,
        place=Place.RESPONSE_FORMAT,
        refuses=frozenset({"stream_options", "seed", "user"}),
    ),
    "sglang": Able(prefix=Prefix.CONTINUE, place=Place.EBNF, picky=False),
    "fireworks": Able(place=Place.RESPONSE_FORMAT),
    "openai": Able(place=Place.RESPONSE_FORMAT),
    "generic": Able(many=False),
    "deepseek": Able(prefix=Prefix.FLAGGED, many=False),
}


@pytest.mark.parametrize("kind", AS_THE_TABLE)
def test_a_server_that_is_as_the_table_says_needs_no_word(kind: str) -> None:
    trial, usable = tried(AS_THE_TABLE[kind], kind)
    assert usable
    assert overrides(trial.findings) == {}
    assert trial.requests <= 30
    assert found(trial)["stop"] == "works"
    assert found(trial)["model"] == "listed"


def test_the_trace_is_found_in_the_input_of_a_tool() -> None:
    able = Able(
        place=Place.CUSTOM_TOOL, models=("gpt-5",), refuses=frozenset({"temperature", "stop", "max_tokens"})
    )
    trial, _ = tried(able, "openai", "gpt-5")
    assert overrides(trial.findings) == {}
    assert found(trial)["grammar"] == "obeyed"
    assert found(trial)["stop"] == "not tried"


@pytest.mark.parametrize(
    ("able", "kind", "model", "wanted"),
    [
        (Able(place=Place.CUSTOM_TOOL), "openai", "gpt-5", {}),
        (Able(place=Place.CUSTOM_TOOL, thinks="summary"), "openai", "gpt-5", {}),
        (Able(place=Place.CUSTOM_TOOL, streams=False), "openai", "gpt-5", {}),
        (Able(), "openai", "gpt-5", {"grammar": "none"}),
        (Able(place=Place.CUSTOM_TOOL, picky=False), "openai", "gpt-5", {}),
        (Able(place=Place.RESPONSE_FORMAT), "openai", "gpt-4o", {}),
        (Able(place=Place.CUSTOM_TOOL), "generic", "m", {"grammar": "custom_tool"}),
        (Able(), "generic", "m", {}),
        (Able(system=False), "generic", "m", {"roles": "none"}),
        (
            Able(refuses=frozenset({"temperature"})),
            "openai",
            "gpt-4o",
            {"refuses": ["temperature"], "grammar": "none"},
        ),
    ],
)
def test_a_server_of_the_responses_api_is_tried_as_well(
    able: Able, kind: str, model: str, wanted: dict[str, object]
) -> None:
    able.api = Api.RESPONSES
    trial, usable = tried(able, kind, model, capabilities={"api": Api.RESPONSES})
    assert usable
    assert overrides(trial.findings) == wanted
    shown = found(trial)
    assert (shown["prefix"], shown["n"], shown["stop"]) == ("not continued", "not tried", "not tried")
    assert shown["streams"] == ("yes" if able.streams else "no")
    assert trial.requests <= 30


def test_an_api_that_a_server_has_not_is_told() -> None:
    trial, usable = tried(Able(), "openai", "gpt-4o", capabilities={"api": Api.RESPONSES})
    assert not usable
    assert found(trial)["answers"] == "no: it answered 404: 'no such path'"


@pytest.mark.parametrize(
    ("able", "kind", "wanted"),
    [
        (Able(place=Place.STRUCTURED_OUTPUTS), "vllm", {"prefix": "none"}),
        (
            Able(prefix=Prefix.TRAILING, place=Place.STRUCTURED_OUTPUTS),
            "vllm",
            {"prefix": "trailing"},
        ),
        (Able(prefix=Prefix.CONTINUE), "vllm", {"grammar": "none"}),
        (
            Able(prefix=Prefix.CONTINUE, place=Place.STRUCTURED_OUTPUTS, both=False),
            "vllm",
            {"prefix": "none"},
        ),
        (
            Able(prefix=Prefix.CONTINUE, refuses=frozenset({"structured_outputs"})),
            "vllm",
            {"grammar": "none"},
        ),
        (
            Able(prefix=Prefix.TRAILING, place=Place.GRAMMAR, echo_stream=True, echo_whole=True),
            "llama.cpp",
            {"echo": "always"},
        ),
        (Able(prefix=Prefix.TRAILING, place=Place.GRAMMAR), "llama.cpp", {"echo": "never"}),
        (Able(many=True), "generic", {"n": True}),
        (Able(many=False, usage=False), "generic", {"usage": False}),
        (Able(many=False, system=False), "generic", {"roles": "none"}),
        (Able(many=False, refuses=frozenset({"stream_options"})), "generic", {"stream_options": False}),
        (
            Able(many=False, refuses=frozenset({"max_tokens"})),
            "generic",
            {"max_tokens_field": "max_completion_tokens"},
        ),
        (Able(many=False, refuses=frozenset({"temperature"})), "generic", {"refuses": ["temperature"]}),
        (
            Able(many=False, system=False, refuses=frozenset({"stream_options"})),
            "generic",
            {"stream_options": False, "roles": "none", "refuses": ["temperature"]},
        ),
        (Able(many=False, refuses=frozenset({"stop"})), "generic", {"stop_field": "none"}),
        (Able(many=False, stops=False), "generic", {"stop_field": "none"}),
        (Able(many=False, thinks="musings"), "generic", {"reasoning_fields": ["musings"]}),
        (Able(many=False, thinks="reasoning"), "generic", {}),
        (Able(many=False, thinks="unopened"), "generic", {"thinks": True}),
        (Able(many=False, thinks="unopened", prefix=Prefix.FLAGGED), "deepseek", {}),
        (
            Able(prefix=Prefix.TRAILING, echo_whole=True, place=Place.GRAMMAR, thinks="reasoning_content"),
            "llama.cpp",
            {"thinking": "free"},
        ),
        (
            Able(
                prefix=Prefix.CONTINUE, place=Place.STRUCTURED_OUTPUTS, thinks="reasoning", thinks_first=False
            ),
            "vllm",
            {"thinking": "forbidden"},
        ),
        *((Able(many=False, place=place), "generic", {"grammar": place.value}) for place in Place),
    ],
)
def test_where_it_is_otherwise_that_is_said(able: Able, kind: str, wanted: dict[str, object]) -> None:
    trial, usable = tried(able, kind)
    assert usable
    assert overrides(trial.findings) == wanted


FIELD, TAGS, UNOPENED = "reasoning_content", "tags", "unopened"
GBNF, EBNF, OBJECT = Place.GRAMMAR, Place.STRUCTURED_OUTPUTS, Place.RESPONSE_FORMAT
INSIDE = {"thinking": "inside", "thinks": True}


@pytest.mark.parametrize(
    ("thinks", "kind", "place", "capabilities", "wanted"),
    [
        # The grammar holds for what comes behind the thoughts, wherever these stand.
        ((FIELD, True), "fireworks", OBJECT, {}, {"thinking": "free"}),
        ((TAGS, True), "fireworks", OBJECT, {}, {"thinking": "free"}),
        ((UNOPENED, True), "fireworks", OBJECT, {}, {"thinking": "free", "thinks": True}),
        ((FIELD, True), "vllm", EBNF, {"prefix": "none"}, {}),
        ((TAGS, True), "vllm", EBNF, {"prefix": "none"}, {}),
        ((UNOPENED, True), "vllm", EBNF, {"prefix": "none"}, {"thinks": True}),
        ((UNOPENED, True), "vllm", EBNF, {"prefix": "none", "thinks": True}, {}),
        ((UNOPENED, True), "openai", OBJECT, {}, {"thinks": True}),
        # It holds from the first token on.
        ((FIELD, False), "fireworks", OBJECT, {}, {}),
        ((TAGS, False), "fireworks", OBJECT, {}, {}),
        ((FIELD, False), "vllm", EBNF, {"prefix": "none"}, {"thinking": "forbidden"}),
        ((TAGS, False), "vllm", EBNF, {"prefix": "none"}, {"thinking": "forbidden"}),
        ((TAGS, False), "vllm", EBNF, {"prefix": "none", "thinking": "inside"}, {}),
        # The block that the prompt has opened would never be closed under it, so the grammar has to do that.
        ((UNOPENED, False), "vllm", EBNF, {"prefix": "none"}, INSIDE),
        ((UNOPENED, False), "vllm", EBNF, {"prefix": "none", "thinks": True}, {"thinking": "inside"}),
        ((UNOPENED, False), "vllm", EBNF, {"prefix": "none", "thinks": True, "thinking": "inside"}, {}),
        ((UNOPENED, False), "fireworks", OBJECT, {}, INSIDE),
        ((UNOPENED, False), "vllm", EBNF, {}, {**INSIDE, "prefix": "none"}),
        ((UNOPENED, False), "generic", GBNF, {}, {**INSIDE, "grammar": "grammar"}),
        # An object has no room for that.
        ((UNOPENED, False), "openai", OBJECT, {}, {"thinking": "forbidden"}),
        ((UNOPENED, False), "openai", OBJECT, {"thinks": True}, {"thinking": "forbidden", "thinks": False}),
        # It was said of the wrong server.
        (("", True), "vllm", EBNF, {"prefix": "none", "thinks": True}, {"thinks": False}),
        (
            (UNOPENED, True),
            "vllm",
            EBNF,
            {"prefix": "none", "thinks": True, "thinking": "inside"},
            {"thinking": "free"},
        ),
        # Without a grammar there is only where they stand.
        ((TAGS, True), "generic", None, {}, {}),
        ((UNOPENED, True), "generic", None, {}, {"thinks": True}),
    ],
)
def test_where_thoughts_stand_and_what_a_grammar_makes_of_them_is_said_right(
    thinks: tuple[str, bool],
    kind: str,
    place: Place | None,
    capabilities: dict[str, Any],
    wanted: dict[str, object],
) -> None:
    from guard.config.capabilities import Capabilities  # noqa: PLC0415 (a layer above)

    able = Able(
        place=place, thinks=thinks[0], thinks_first=thinks[1], many=kind not in {"generic", "deepseek"}
    )
    changes = dict(Capabilities.model_validate(capabilities).changes)
    trial, usable = tried(able, kind, capabilities=changes)
    assert usable
    assert overrides(trial.findings) == wanted
    written = {**capabilities, **wanted}
    row = backend_for(kind, "m", Capabilities.model_validate(written).changes)
    assert not list(contradictions(row))
    # And with that written, nothing is left to say.
    again, _ = tried(able, kind, capabilities=dict(Capabilities.model_validate(written).changes))
    assert overrides(again.findings) == {}


@pytest.mark.parametrize("thinks", [TAGS, UNOPENED])
@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_behind_a_prefix_nothing_is_thought(thinks: str, kind: str) -> None:
    able = Able(
        prefix=BACKENDS[kind].prefix,
        echo_whole=kind == "llama.cpp",
        place=BACKENDS[kind].grammar,
        thinks=thinks,
        thinks_first=False,
    )
    assert overrides(tried(able, kind)[0].findings).get("thinks") is None


@pytest.mark.parametrize(("picky", "word"), [(True, "refused"), (False, "ignored")])
def test_what_it_does_about_a_bad_grammar_is_told_and_no_reason_to_change_anything(
    picky: bool, word: str
) -> None:
    trial, _ = tried(Able(prefix=Prefix.CONTINUE, place=Place.STRUCTURED_OUTPUTS, picky=picky), "vllm")
    assert found(trial)["bad grammar"] == word
    assert overrides(trial.findings) == {}


def test_a_server_that_answers_in_one_piece_is_told_apart() -> None:
    assert found(tried(Able(streams=False))[0])["streams"] == "no"
    assert found(tried(Able())[0])["streams"] == "yes"


@pytest.mark.parametrize(("capabilities", "table"), [({}, "any"), ({"roles": Roles.NONE}, "none")])
def test_beside_instructions_that_were_not_tried_stands_what_the_table_says(
    capabilities: dict[str, Any], table: str
) -> None:
    trial, _ = tried(Able(system=False), "generic", capabilities=capabilities)
    [instructions] = [one for one in trial.findings if one.capability == "instructions"]
    assert (instructions.found, instructions.row) == ("not tried", table)


def test_instructions_that_are_not_followed_are_no_reason_to_change_anything() -> None:
    assert found(tried(Able())[0])["instructions"] == "followed"


@pytest.mark.parametrize(
    ("models", "wanted"),
    [
        (("m", "other"), "listed"),
        (("other",), "not among the 1 that it lists, such as other"),
        (None, "it lists no models"),
    ],
)
def test_the_model_is_looked_for(models: tuple[str, ...] | None, wanted: str) -> None:
    assert found(tried(Able(models=models))[0])["model"] == wanted


def test_a_wrong_key_ends_it() -> None:
    able = Able(key="right")
    trial, usable = tried(able, api_key="wrong")
    assert not usable
    assert found(trial)["key"].startswith("refused")
    assert not able.asked
    assert tried(able, api_key="right")[1]


def test_a_server_that_is_not_there_ends_it() -> None:
    async def body() -> tuple[Trial, bool]:
        async with able_server(Able()) as server:
            gone = server
        async with connected(gone) as upstream:
            trial = Trial(upstream, backend_for("generic"), "m")
            return trial, await trial.run()

    trial, usable = run(body())
    assert not usable
    assert "connection refused" in found(trial)["reachable"]
    assert trial.requests == 1


def test_one_that_refuses_everything_is_not_usable() -> None:
    trial, usable = tried(Able(refuses=frozenset({"messages"})))
    assert not usable
    assert found(trial)["answers"] == "no: it answered 400: 'unknown field messages'"


def test_a_busy_server_is_asked_again() -> None:
    trial, usable = tried(Able(many=False, busy=1))
    assert usable
    assert overrides(trial.findings) == {}


def test_a_model_that_spends_all_on_thoughts_is_given_more() -> None:
    able = Able(prefix=Prefix.CONTINUE, place=Place.STRUCTURED_OUTPUTS, slow=500)
    trial, _ = tried(able, "vllm")
    assert overrides(trial.findings) == {}
    assert found(trial)["grammar"] == "obeyed"


def test_what_is_to_be_written_can_be_read() -> None:
    from guard.config.capabilities import Capabilities  # noqa: PLC0415 (a layer above)

    for able, kind in ((Able(place=place, prefix=Prefix.TRAILING), "generic") for place in Place):
        written = overrides(tried(able, kind)[0].findings)
        changes = Capabilities.model_validate(written).changes
        row = backend_for(kind, "m", changes)
        assert not list(contradictions(row))
        assert row.grammar is able.place
        assert row.dialect is HELD[row.grammar][0] if row.grammar else row.dialect is None


@pytest.mark.local
def test_the_embedded_model_is_as_the_table_says() -> None:
    async def body() -> tuple[Trial, bool]:
        upstream = LocalUpstream("local", resolve(), threads=1, context=2048, slots=2)
        trial = Trial(upstream, BACKENDS["local"], upstream.target.model)
        await upstream.start()
        try:
            return trial, await trial.run()
        finally:
            await upstream.close()

    trial, usable = asyncio.run(body())
    assert usable
    assert overrides(trial.findings) == {}
    assert found(trial)["grammar"] == "obeyed"
    assert found(trial)["prefix"] == "trailing"
    assert "began after" in found(trial)["cut"]


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "good"),
    [
        (b"".join([*Answer().text(["7"]), *Answer().end()]), True),
        (json.dumps(Answer().ended()).encode(), True),
        (b"".join(Answer().failed("server_error", "no")), False),
        (b"".join(Answer().start()), False),
        (b"<html>", False),
        (b"", False),
        (b'{"choices": []}', False),
        (b"data: 7\n\ndata: {\n\n", False),
    ],
)
def test_any_body_of_a_response_is_read(body: bytes, good: bool) -> None:
    answer = read_answer(200, body, Api.RESPONSES)
    assert answer.good is good
    assert bool(answer.problem) is not good


@pytest.mark.parametrize(
    ("status", "body", "good"),
    [
        (200, b'{"choices": [{"message": {"content": "7"}}]}', True),
        (200, b'data: {"choices": [{"delta": {"content": "7"}}]}\n\ndata: [DONE]\n\n', True),
        (200, b'data: {"error": {"message": "no"}}\n\n', False),
        (200, b"<html>", False),
        (200, b"", False),
        (200, b'{"choices": 7}', False),
        (200, b'{"choices": [7, {"delta": [], "message": 3}]}', True),
        (400, b'{"error": {"message": "no"}}', False),
        (500, b"\xff\xfe", False),
    ],
)
def test_any_body_is_read(status: int, body: bytes, good: bool) -> None:
    answer = read_answer(status, body)
    assert answer.good is good
    assert bool(answer.problem) is not good


def test_each_dialect_has_a_place() -> None:
    assert {dialect for held in HELD.values() for dialect in held} == set(Dialect)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b" <html>log in</html>", "a web page came"),
        (b'{"type": "response.created"}', "the answer has no choices"),
        (b"\n", "the answer is empty"),
    ],
)
def test_what_came_instead_of_an_answer_is_shown(body: bytes, problem: str) -> None:
    answer = read_answer(200, body)
    assert (answer.problem, answer.said) == (problem, Foreign(body))
