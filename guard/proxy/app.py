"""The two applications, their listeners, and an end that lets running requests finish."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
import uvloop
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.routing import Route

from guard.config import Config, Service
from guard.procedure.normal import normal
from guard.proxy import routes
from guard.proxy.admission import Admission
from guard.proxy.observe import Watch
from guard.proxy.protocol import Protocol
from guard.proxy.routes import Endpoint, Handler
from guard.telemetry.metrics import CONTENT_TYPE

log = logging.getLogger(__name__)

BACKLOG: Final = 2048
START_S: Final = 10.0  # until a listener that has its socket serves
_NOT_READ_AGAIN: Final = (
    "SIGHUP is ignored: the configuration is read at the start only; restart to change it"
)

# FastAPI would make spans and logs of its own as soon as there is a provider, at twice the cost of ours.
_QUIET: Final[dict[str, Any]] = {
    "telemetry": {"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    "openapi_url": None,
}


def client_app(service: Service, admission: Admission, watch: Watch) -> FastAPI:
    """Make what clients reach. Every path is plain ASGI, without FastAPI's per-request work."""
    app = FastAPI(title="stepguard", **_QUIET)

    def add(path: str, handle: Handler, *methods: str) -> None:
        endpoint = Endpoint(service, admission, watch, handle)
        for prefix in ("/v1", "/p/{procedure}/v1"):
            app.router.routes.append(Route(prefix + path, endpoint, methods=methods or None))

    add("/chat/completions", routes.chat, "POST")
    add("/models", routes.models, "GET")
    add("/models/{model:path}", routes.model, "GET")
    add("/{path:path}", routes.other)
    app.router.default = Endpoint(service, admission, watch, routes.nothing)
    return app


# FastAPI keeps the endpoints that it has seen as long as the process runs. So these hold nothing: what they
# need they find at their application, and a server that has stopped leaves no metrics and procedures behind.
_OPERATORS: Final = APIRouter()


@_OPERATORS.get("/metrics")
def _metrics(request: Request) -> Response:  # not async: rendering takes milliseconds, in a thread
    return Response(request.app.state.metrics.render(), media_type=CONTENT_TYPE)


@_OPERATORS.get("/healthz")
async def _healthz() -> dict[str, str]:
    return {"status": "ok"}


@_OPERATORS.get("/readyz")
async def _readyz(request: Request, response: Response) -> dict[str, str]:
    if request.app.state.admission.draining:
        response.status_code = 503
        return {"status": "stopping"}
    return {"status": "ready"}


def admin_app(service: Service, admission: Admission) -> FastAPI:
    """Make what operators reach, on a listener of its own: `/metrics`, `/healthz`, `/readyz`."""
    app = FastAPI(title="stepguard admin", **_QUIET)
    app.state.metrics, app.state.admission = service.metrics, admission
    app.include_router(_OPERATORS)
    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a server listens, as URLs without a path."""

    client: str
    admin: str


async def serve(
    service: Service,
    *,
    ready: Callable[[Addresses], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; then let running requests finish, as long as `drain_s`.

    `ready` is called once, when both listeners serve. Raises `ConfigError` where an address cannot be
    had, and what `Service.start` raises; nothing is left running then.
    """
    settings = service.config
    admission, watch = Admission(settings.server.max_requests), Watch()
    stop = stop or asyncio.Event()
    with (
        _listening(settings, "server", settings.server.host, settings.server.port) as client,
        _listening(settings, "admin", settings.admin.host, settings.admin.port) as admin,
        _signals(stop),
    ):
        await service.start()
        try:
            await _run(
                [
                    _Listener(client_app(service, admission, watch), client, dates=False),
                    _Listener(admin_app(service, admission), admin, dates=True),
                ],
                admission,
                stop,
                drain_s=settings.server.drain_s,
                ready=lambda: ready and ready(Addresses(client=_url(client), admin=_url(admin))),
            )
        finally:
            await watch.close()
            await service.close()


def settle() -> None:
    """Take what is there by now, and stays, out of what the garbage collector goes through.

    Each of its full passes would hold up all requests for the 0.2 s that it takes to look at what was loaded.
    What the first text that is not ASCII needs is made before.
    """
    normal("\N{LATIN SMALL LETTER E WITH ACUTE}")
    gc.collect()
    gc.freeze()


def run(service: Service, *, ready: Callable[[Addresses], None] | None = None) -> None:
    """Serve in this thread, on the fast event loop; see `serve`."""
    settle()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(service, ready=ready))


async def _run(
    listeners: list[_Listener],
    admission: Admission,
    stop: asyncio.Event,
    *,
    drain_s: float,
    ready: Callable[[], object],
) -> None:
    serving = [asyncio.create_task(listener.listen()) for listener in listeners]
    stopping = asyncio.create_task(stop.wait())
    try:
        async with asyncio.timeout(START_S):
            while not all(listener.started for listener in listeners):  # noqa: ASYNC110 (uvicorn has no event)
                await asyncio.sleep(0.005)
        ready()
        await asyncio.wait([*serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        await admission.drain(drain_s)
    finally:
        stopping.cancel()
        for listener in listeners:
            listener.should_exit = True
        await asyncio.gather(*serving)


class _Listener(uvicorn.Server):
    """A server that leaves signals to us and has its socket already.

    `dates`: it says the time in each answer. An `Exchange` does that itself, where an upstream has not.
    """

    def __init__(self, app: FastAPI, listening: socket.socket, *, dates: bool) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,  # on httptools, which refuses what h11 lets through in two readings
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                date_header=dates,
                timeout_graceful_shutdown=2,
            )
        )
        self._listening = listening

    async def listen(self) -> None:
        await self.serve(sockets=[self._listening])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _listening(config: Config, section: str, host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise config.places.error([(section, problem)]) from error
    with listening:
        yield listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Stop gently at the first signal; a second one ends the process as it would without us.

    SIGHUP, with which others are told to read their files again and which a closed terminal sends, does not
    end it.
    """
    loop = asyncio.get_running_loop()
    caught = (signal.SIGTERM, signal.SIGINT)

    def gently() -> None:
        stop.set()
        for number in caught:
            loop.remove_signal_handler(number)

    try:
        for number in caught:
            loop.add_signal_handler(number, gently)
        loop.add_signal_handler(signal.SIGHUP, log.warning, "%s", _NOT_READ_AGAIN)
    except (RuntimeError, ValueError):  # not in the main thread: whoever runs us there stops us by `stop`
        yield
        return
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
