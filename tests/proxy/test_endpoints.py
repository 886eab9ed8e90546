"""Which endpoints a request that is to be guarded may reach, whatever is asked for and however it is spelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guard.proxy.endpoints import is_quiet, models_named
from tests.proxy.running import BOUND, Endpoint, run, running, scripted

QUIET = [
    ("GET", "/models"),
    ("GET", "/models/a"),
    ("HEAD", "/models/org/a:b?x=1"),
    ("POST", "/embeddings"),
    ("POST", "/embeddings?x=/completions"),
    ("POST", "/moderations"),
    ("POST", "/rerank"),
    ("POST", "/score"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("GET", "/files"),
    ("POST", "/files"),
    ("DELETE", "/files/f-1"),
    ("GET", "/files/f-1/content"),
]
LISTED = {path.partition("?")[0] for _, path in QUIET}

# Those of real servers that generate, and other spellings of those that do not.
LOUD = [
    "/completions",
    "/responses",
    "/responses/compact",
    "/messages",
    "/messages/batches",
    "/threads/runs",
    "/realtime/sessions",
    "/generate_stream",
    "/complete",
    "/batches",
    "/models/x:generateContent",
    "/chat/completions/extra",
    "/chat/completions/",
    "//chat/completions",
    "/embeddings/../chat/completions",
    "/embeddings%2F..%2Fchat/completions",
    "/embeddings;/chat/completions",
    "/Embeddings",
    "/embeddings/",
    "/embeddings/x",
    "/audio/transcriptions",
    "/images/generations",
    "/fine_tuning/jobs",
    "/files/f/content/x",
]
SEGMENTS = st.sampled_from(
    [
        "chat",
        "completions",
        "embeddings",
        "models",
        "files",
        "..",
        ".",
        "",
        "a",
        "%2e%2e",
        "%2F",
        "x:generate",
        "v1",
    ]
)
PATHS = st.one_of(
    st.lists(SEGMENTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.text(st.characters(codec="ascii", exclude_categories=("Cc", "Zs")), max_size=12).map(
        lambda text: f"/{text}"
    ),
)
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])


@pytest.mark.parametrize(("method", "path"), QUIET)
def test_what_does_not_generate_is_listed(method: str, path: str) -> None:
    assert is_quiet(method, path)
    assert not is_quiet("PUT", path)


@given(METHODS, PATHS)
@example("POST", "/models/x")
@example("POST", "/embeddings\n")
def test_all_that_is_not_listed_generates(method: str, path: str) -> None:
    if is_quiet(method, path):
        plain = path.partition("?")[0]
        listed = plain in LISTED or plain.startswith(("/models/", "/files/"))
        assert listed
        assert method in {"GET", "HEAD", "DELETE"} or plain in LISTED
        assert method != "DELETE" or plain.startswith("/files/")


@given(
    st.sampled_from(["models", "engines", "deployments"]), st.from_regex(r"[a-z0-9-]{1,9}", fullmatch=True)
)
def test_a_model_is_found_wherever_a_request_names_it(where: str, name: str) -> None:
    assert name in models_named({"model": name}, "/x")
    assert name in models_named({}, f"/x?y=1&model={name}")
    assert name in models_named({}, f"/{where}/{name}:generate?z")
    assert name in models_named({"model": 1}, f"/{where}/{name}/completions")


BINDINGS: list[dict[str, Any]] = [
    {"body": {"model": "chain"}},
    {"body": {"stepguard": {"procedure": "chain"}}},
    {"x_stepguard_procedure": "chain"},
    {"prefix": "/p/chain"},
    {"query": "?model=chain"},
]


@settings(max_examples=12)
@given(st.lists(st.tuples(METHODS.filter(lambda method: method != "HEAD"), PATHS), min_size=20, max_size=20))
def test_a_bound_request_reaches_nothing_that_may_generate(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, str]]
) -> None:
    folder: Path = tmp_path_factory.mktemp("bound")
    asked = [*(("POST", path) for path in LOUD), *drawn]

    async def body() -> None:
        # Every other request may pass here, and a scripted upstream says 404 to what it does not have.
        async with running(
            scripted(folder, "told by the model", config=BOUND + "defaults: {unbound: pass}")
        ) as endpoint:
            for number, (method, path) in enumerate(asked):
                await refused(endpoint, BINDINGS[number % len(BINDINGS)], method, path)

    async def refused(endpoint: Endpoint, binding: dict[str, Any], method: str, path: str) -> None:
        options = {name: value for name, value in binding.items() if name.startswith("x_")}
        query = binding.get("query", "").replace("?", "&" if "?" in path else "?")
        whole = f"{binding.get('prefix', '')}/v1{path.replace('#', '')}{query}"
        reply = await endpoint.post(binding.get("body", {}), path=whole, method=method, **options)
        assert "told by the model" not in reply.body.decode(errors="replace"), (method, whole)
        if not is_quiet(method, path.replace("#", "")) and path != "/chat/completions":
            assert reply.status in {400, 404, 405}, (method, whole)
            assert reply.headers.get("x-stepguard-outcome") is None, (method, whole)

    run(body())
