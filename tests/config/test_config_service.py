"""What is built from a configuration, and what is said where it cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from guard.config import Config, Service, build, load_config
from guard.errors import ConfigError, UpstreamConnectError, UpstreamStatusError
from guard.telemetry.observer import FanOut
from guard.upstream.abilities import GRAMMARS
from guard.upstream.backends import BACKENDS
from guard.upstream.scripted import Reply, Script, ScriptedUpstream
from guard.upstream.spared import SparedUpstream
from tests.upstream.servers import Call, opening, run

CHAIN = "procedure chain(a: int) -> int\n  return a + 1\n"
SCRIPT = "replies: [{text: hello}]\n"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Service]:
    (tmp_path / "chain.proc").write_text(CHAIN)
    (tmp_path / "script.yaml").write_text(SCRIPT)

    def make(text: str, environment: dict[str, str] | None = None) -> Service:
        (tmp_path / "stepguard.yaml").write_text(f"procedures: [chain.proc]\n{text}")
        return build(load_config(tmp_path / "stepguard.yaml"), environment or {})

    return make


PLAY = "upstreams: {play: {kind: scripted, file: script.yaml}, more: {kind: scripted, file: script.yaml}}\n"


def test_everything_that_requests_share_is_made_once(make: Callable[..., Service]) -> None:
    service = make(PLAY + "policies: {strict: {attempts: 1}}")
    bound = service.policies["strict"].procedures
    assert set(bound) == {"chain"}
    assert "1 return a + 1" in bound["chain"].instructions
    assert set(service.upstreams) == {"play", "more"}
    assert {name: enforced.policy.attempts for name, enforced in service.policies.items()} == {
        "default": 12,
        "strict": 1,
    }


def test_each_upstream_has_a_breaker_and_a_budget_as_its_settings_say(make: Callable[..., Service]) -> None:
    service = make(
        "upstreams:\n"
        "  a: {kind: scripted, file: script.yaml, breaker: {failures: 2, open_s: 7}, retry_budget: {minimum: 0}}\n"
        "  b: {kind: scripted, file: script.yaml, breaker: off}\n"
    )
    one, other = (service.upstreams[name] for name in "ab")
    assert isinstance(one, SparedUpstream)
    assert isinstance(other, SparedUpstream)
    breaker, budget = one._breaker, one._budget
    assert (breaker.failures, breaker.open_s, breaker.longest_s) == (2, 7, 300)
    assert (budget.percent, budget.window_s, budget.minimum) == (20, 10, 0)
    assert other._breaker.failures == 0
    assert other._breaker is not breaker


HELD = sorted(kind for kind, row in BACKENDS.items() if row.dialect is not None and kind != "local")


@pytest.mark.parametrize("kind", HELD)
def test_no_upstream_is_sent_a_grammar_that_cannot_be_read(make: Callable[..., Service], kind: str) -> None:
    version = ", api_version: v1" if kind == "azure" else ""
    at = f"kind: {kind}, base_url: 'http://127.0.0.1:9', model: m, api_key: k{version}"
    [upstream] = make(f"upstreams: {{main: {{{at}}}}}").upstreams.values()
    assert upstream.target.dialect is not None

    async def body(grammar: str) -> None:
        await upstream.start()
        try:
            await anext(upstream.stream(opening(grammar=grammar), client=Call()))
        finally:
            await upstream.close()

    readable, unreadable = GRAMMARS[upstream.target.dialect]
    with pytest.raises(UpstreamConnectError):  # nobody listens there
        run(body(readable))
    with pytest.raises(UpstreamStatusError, match="was not sent") as caught:
        run(body(unreadable))
    assert caught.value.upstream_status == 400


def test_a_breaker_that_cannot_be_is_refused_with_its_key(make: Callable[..., Service]) -> None:
    with pytest.raises(ConfigError) as caught:
        make(
            "upstreams:\n"
            "  a: {kind: scripted, file: script.yaml, breaker: {failurs: 3, open_s: 600, longest_s: 10}}\n"
            "  b: {kind: scripted, file: script.yaml, breaker: on, retry_budget: {percent: 101, minimum: -1}}\n"
        )
    found = dict(caught.value.problems)
    assert "must not be less than open_s, which is 600" in found["upstreams.a.breaker.longest_s"]
    assert found["upstreams.a.breaker.failurs"] == "unknown key; did you mean 'failures'?"
    assert {"upstreams.b.breaker", "upstreams.b.retry_budget.percent"} < found.keys()


def test_the_first_upstream_is_the_default_one(make: Callable[..., Service]) -> None:
    assert make(PLAY).upstream_names(None) == ("play",)
    service = make(
        PLAY + "defaults: {upstream: [more, play]}\nroutes: [{model: x}, {model: y, upstream: play}]"
    )
    assert service.upstream_names(None) == ("more", "play")
    first, second = service.config.routes
    assert (service.upstream_names(first), service.upstream_names(second)) == (("more", "play"), ("play",))


def test_upstreams_that_cannot_be_made_are_all_named(make: Callable[..., Service], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("replies: []")
    (tmp_path / "model.gguf").write_text("no model")
    with pytest.raises(ConfigError) as caught:
        make(
            "upstreams:\n"
            "  a: {kind: scripted, file: bad.yaml}\n"
            "  b: {kind: scripted, file: none.yaml}\n"
            "  c: {kind: local, model: model.gguf}\n"
        )
    said = [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]
    assert [line.split(": ")[:2] for line in said] == [
        ["stepguard.yaml:3", "upstreams.a.file"],
        ["stepguard.yaml:4", "upstreams.b.file"],
        ["stepguard.yaml:5", "upstreams.c.model"],
    ]


def test_procedures_that_cannot_be_compiled_are_all_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.proc").write_text(f"procedure {name}() -> int\n  return missing\n")
    with pytest.raises(ConfigError) as caught:
        build(Config(procedures=(tmp_path,)), {})
    said = str(caught.value)
    assert "one.proc:2:10" in said
    assert "two.proc:2:10" in said
    assert "^^^^^^^" in said


def test_an_empty_folder_of_procedures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.proc"):
        _ = Config(procedures=(tmp_path,)).programs


def test_a_procedure_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.proc").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        _ = Config(procedures=(tmp_path / "a.proc",)).programs


def test_warnings_about_procedures_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.proc").write_text("procedure a(x: int) -> int\n  unused = x\n  return x\n")
    assert list(Config(procedures=(tmp_path / "a.proc",)).programs) == ["a"]
    assert "unused" in caplog.text


def test_spans_are_only_made_for_an_exporter(make: Callable[..., Service]) -> None:
    service = make(PLAY)
    assert isinstance(service.observer, FanOut)
    without = len(service.observer.observers)
    service = make(PLAY, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert isinstance(service.observer, FanOut)
    assert len(service.observer.observers) == without + 1
    service.observer.close()


class Fails(ScriptedUpstream):
    """An upstream that cannot start, and one that notes that it was closed."""

    closed = False

    async def start(self) -> None:
        raise UpstreamConnectError("no")

    async def close(self) -> None:
        self.closed = True


def test_nothing_is_left_running_where_an_upstream_does_not_start(make: Callable[..., Service]) -> None:

    fails = Fails("fails", Script(replies=(Reply(text=""),)))
    service = replace(make(PLAY), upstreams={"fails": fails})
    with pytest.raises(UpstreamConnectError):
        asyncio.run(service.start())
    assert fails.closed
