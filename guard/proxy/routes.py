"""What clients can ask for: guarded chat completions, the list of models, and all else passed through."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

import orjson
from starlette.types import Receive, Scope, Send

from guard.config import Service
from guard.engine import give_way, read_clock
from guard.errors import GuardError, RequestError, UpstreamError
from guard.proxy.admission import Admission, Keys
from guard.proxy.binding import (
    Caller,
    bind,
    choose,
    is_open,
    passes,
    require_passing,
    route_for,
)
from guard.proxy.delivery import Call, deliver
from guard.proxy.endpoints import METHODS, is_quiet, models_named
from guard.proxy.exchange import HEADER_TEXT, ClientGone, Exchange, Interrupted
from guard.proxy.observe import Watch, observe, observes
from guard.proxy.responses import DONE
from guard.run.messages import Outcome
from guard.telemetry.foreign_log import crashed, tell
from guard.telemetry.observer import Refusal, Stage
from guard.upstream.base import Passage
from guard.upstream.bodies import PLAIN, whole
from guard.wire import sse
from guard.wire.body import read_object
from guard.wire.lenient import read_json
from guard.wire.problem import ErrorAnswer, of_error

log = logging.getLogger(__name__)

MODELS_S: Final = 5.0  # how long the upstream's own list of models is waited for
MODELS_BYTES: Final = 1024 * 1024  # of that list
BUSY: Final = 503
TOO_LARGE: Final = 413
RETRY_AFTER_S: Final = 1.0
JSON: Final = (("content-type", "application/json"),)
PASSED: Final = ("x-stepguard-outcome", Outcome.PASSTHROUGH.value)  # on what no procedure guarded

_INTERNAL: Final = ErrorAnswer(
    status=500, type="server_error", code="internal_error", message="internal error"
)
_STOPPING: Final = ErrorAnswer(
    status=503,
    type="server_error",
    code="stopping",
    message="the server is stopping",
    retry=True,
    retry_after_s=RETRY_AFTER_S,
)
_GONE: Final = Refusal(code="client_gone", status=499)  # nginx's number for it; nobody reads it

Handler = Callable[["Endpoint", Exchange, Caller], Awaitable[None]]


class Endpoint:
    """An ASGI application around one handler: admission, keys, and an answer whatever goes wrong."""

    def __init__(self, service: Service, admission: Admission, watch: Watch, handle: Handler) -> None:
        self.service, self.watch = service, watch
        self._admission, self._handle = admission, handle
        self._keys = Keys(key.get_secret_value() for key in service.config.server.api_keys)

    def passage(self, exchange: Exchange, body: bytes) -> Passage:
        """Give a request as it goes on to an upstream, without any header that holds a key of ours.

        Raises `RequestError` where its query holds one.
        """
        pairs = ((name.decode("latin-1"), value) for name, value in exchange.scope["headers"])
        path = _path(exchange)
        if self._keys.held_by(unquote(path)):
            raise RequestError(
                "the query holds a key of this server, which must not reach an upstream; send it as a bearer "
                "token",
                code="key_in_query",
            )
        return Passage(
            method=exchange.method,
            path=path,
            headers=tuple(
                (name, value.decode(*HEADER_TEXT))
                for name, value in pairs
                if name != "content-length" and not self._keys.held_by(value.decode("latin-1"))
            ),
            body=body,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        exchange = Exchange(scope, receive, send)
        try:
            await self._serve(exchange)
        except ClientGone:
            if not exchange.counted:
                self.service.observer.request_refused(replace(_GONE, procedure=exchange.procedure))
        except CancelledError:
            if exchange.stopped() is None:
                raise  # else a client that does not even take its error

    async def _serve(self, exchange: Exchange) -> None:
        try:
            exchange.require_head()
            with self._admission.admit(exchange):
                await self._carry_out(exchange)
        except RequestError as error:
            answer = of_error(error, self.service.sink)
            if error.http_status == BUSY:
                answer = replace(answer, retry=True, retry_after_s=RETRY_AFTER_S)
            await self._refuse(exchange, answer)
        except GuardError as error:
            if isinstance(error, UpstreamError):  # of a request that passed through
                tell(error, self.service.sink, "a request that is passed on")
            await self._refuse(exchange, of_error(error, self.service.sink))
        except Interrupted:
            await self._refuse(exchange, _STOPPING)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the client gets an answer)
            crashed(error, self.service.sink, "a request failed")
            await self._refuse(exchange, _INTERNAL)

    async def _carry_out(self, exchange: Exchange) -> None:
        procedure = exchange.scope.get("path_params", {}).get("procedure")
        try:
            await self._handle(self, exchange, self._keys.caller(exchange, procedure))
        except CancelledError:
            why = exchange.stopped()
            if why is None:
                raise
            raise why from None

    async def _refuse(self, exchange: Exchange, answer: ErrorAnswer) -> None:
        """Answer with an error; in the stream where one has begun. What passes through is cut there."""
        if not exchange.counted:
            refusal = Refusal(code=answer.code, status=answer.status, procedure=exchange.procedure)
            self.service.observer.request_refused(refusal)
        if not exchange.committed:
            await exchange.answer(answer.status, answer.headers, answer.body)
        elif exchange.streaming:
            await exchange.end(sse.encode(answer.body) + DONE)
        else:
            log.warning("an answer that passed through is cut: %s", answer.code)


async def chat(endpoint: Endpoint, exchange: Exchange, caller: Caller) -> None:
    """`POST /v1/chat/completions`, bound or not."""
    service = endpoint.service
    body = await exchange.body(service.config.server.max_body_bytes)
    begun = exchange.elapsed
    await give_way()  # a long body is put together, and read twice, and others have their turn in between
    choice = choose(service, caller, read_object(body))
    require_passing(service, choice, _path(exchange))
    await give_way()
    exchange.procedure = choice.procedure
    if observes(service, choice):
        passage = endpoint.passage(exchange, body)
        await observe(service, endpoint.watch, exchange, caller=caller, choice=choice, passage=passage)
        return
    unbound = passes(service, choice, body)
    if unbound is not None:
        await _pass(endpoint, exchange, caller, unbound.upstream, unbound.body)
        return
    bound = bind(service, choice, body, read_clock())
    await give_way()
    service.observer.overhead(Stage.BIND, exchange.elapsed - begun)
    await deliver(service, exchange, caller, bound)


async def other(endpoint: Endpoint, exchange: Exchange, caller: Caller) -> None:
    """Everything else below `/v1`: passed on to the upstream that the model's route names.

    What is bound, and what must not pass unbound, reaches only endpoints that are known not to generate.
    """
    service, path = endpoint.service, _path(exchange)
    if exchange.method not in METHODS:
        raise RequestError(
            f"the method {exchange.method} is not passed on; expected one of {', '.join(sorted(METHODS))}",
            code="method_not_allowed",
            status=405,
        )
    body = await exchange.body(service.config.server.max_body_bytes)
    await give_way()
    raw = _told(body)
    await give_way()
    if not is_quiet(exchange.method, path):
        for name in models_named(raw, path):
            choice = choose(service, caller, {**raw, "model": name})
            if choice.procedure:
                raise RequestError(
                    f"a request that is bound to a procedure cannot be made to {exchange.method} "
                    f"/v1{path.partition('?')[0]}, which may generate what nobody checks; use POST "
                    "/v1/chat/completions",
                    code="unsupported_endpoint",
                )
            require_passing(service, choice, path)
    route = route_for(service, caller, raw.get("model"))
    await _pass(endpoint, exchange, caller, service.upstream_names(route)[0], body)


async def models(endpoint: Endpoint, exchange: Exchange, caller: Caller) -> None:
    """`GET /v1/models`: the models that this client's routes name, and the upstream's that it may use."""
    service = endpoint.service
    ours = _own_models(service, caller)
    names = {model["id"] for model in ours}
    async with exchange.watched():
        theirs = await _upstream_models(service, caller) if _asks_upstream(service, caller) else []
    usable = (model for model in theirs if model.get("id") not in names and _may_use(service, caller, model))
    await exchange.answer(200, JSON, orjson.dumps({"object": "list", "data": [*ours, *usable]}))
    service.observer.passthrough(status=200, duration_s=exchange.elapsed)


async def model(endpoint: Endpoint, exchange: Exchange, caller: Caller) -> None:
    """`GET /v1/models/{id}`: one of ours, or whatever the upstream says of it."""
    for own in _own_models(endpoint.service, caller):
        if own["id"] == exchange.scope["path_params"]["model"]:
            await exchange.answer(200, JSON, orjson.dumps(own))
            endpoint.service.observer.passthrough(status=200, duration_s=exchange.elapsed)
            return
    await other(endpoint, exchange, caller)


async def nothing(_endpoint: Endpoint, exchange: Exchange, _caller: Caller) -> None:
    """Any other path."""
    raise RequestError(
        f"there is nothing at {exchange.scope['path']!r}; expected a path below /v1",
        code="not_found",
        status=404,
    )


async def _pass(endpoint: Endpoint, exchange: Exchange, caller: Caller, upstream: str, body: bytes) -> None:
    """Forward a request and relay the answer as it comes, byte for byte."""
    service = endpoint.service
    call = Call(extra={}, authorization=caller.authorization)
    status = _GONE.status
    async with (
        exchange.watched(),
        service.upstreams[upstream].forward(endpoint.passage(exchange, body), client=call) as answer,
    ):
        try:
            status = answer.status
            await exchange.begin(status, (*answer.headers, PASSED))
            async for data in answer.body:
                await exchange.write(data)
            await exchange.end()
        finally:
            exchange.counted = True
            service.observer.passthrough(status=status, duration_s=exchange.elapsed)


def _path(exchange: Exchange) -> str:
    """Give what stands behind `/v1`, as the client wrote it, with the query."""
    raw: str = exchange.scope["raw_path"].decode("latin-1")
    query: str = exchange.scope["query_string"].decode("latin-1")
    segments = 4 if "procedure" in exchange.scope["path_params"] else 2  # of /p/<procedure>/v1, or /v1
    behind = raw.split("/", segments)[segments:]
    return f"/{''.join(behind)}" + (f"?{query}" if query else "")


def _told(body: bytes) -> Mapping[str, Any]:
    """Give the JSON object that a body is; an empty one where it is anything else, a form perhaps."""
    if not body.lstrip().startswith(b"{"):
        return {}
    try:
        return read_object(body)
    except RequestError as error:
        if error.http_status == TOO_LARGE:
            raise  # what is not read for its model goes nowhere
        return {}


def _own_models(service: Service, caller: Caller) -> list[dict[str, Any]]:
    names = [
        route.model
        for route in service.config.routes
        if route.procedure and not set("*?[") & set(route.model) and is_open(route, caller)
    ]
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "stepguard"}
        for name in dict.fromkeys(names)
    ]


def _asks_upstream(service: Service, caller: Caller) -> bool:
    """Whether any model that only the upstream can name is one that the client may use."""
    config = service.config
    return config.passes_unbound(None) or any(
        is_open(route, caller) and (route.procedure is None or set("*?[") & set(route.model))
        for route in config.routes
    )


def _may_use(service: Service, caller: Caller, model: Mapping[str, Any]) -> bool:
    route = route_for(service, caller, model.get("id"))
    return bool(route and route.procedure) or service.config.passes_unbound(route)


async def _upstream_models(service: Service, caller: Caller) -> list[Any]:
    """Ask the default upstream for its list; none where it has none to give."""
    upstream = service.upstreams[service.upstream_names(None)[0]]
    call = Call(extra={}, authorization=caller.authorization)
    passage = Passage(method="GET", path="/models", headers=(PLAIN,), body=b"")
    try:
        async with asyncio.timeout(MODELS_S), upstream.forward(passage, client=call) as answer:
            found = read_json(await whole(answer, MODELS_BYTES))
    except (UpstreamError, TimeoutError):
        return []
    listed = found.get("data") if answer.status == 200 and isinstance(found, dict) else None
    entries = listed if isinstance(listed, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and _can_be_sent(entry)]


def _can_be_sent(entry: dict[str, Any]) -> bool:
    """Whether what a server says of a model can be written as JSON: not where it is nested too deeply."""
    try:
        orjson.dumps(entry)
    except orjson.JSONEncodeError:
        return False
    return True
