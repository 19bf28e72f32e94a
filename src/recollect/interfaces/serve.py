"""`recollect serve`: the API, the console and MCP over HTTP, and the work behind them.

In one process, or in several workers on one port (workers/supervisor.py), each of which is all of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from pydantic import Field

from recollect import app
from recollect.app.background import Background, service_schedule
from recollect.errors import InvalidSettings, MissingExtra, Unavailable
from recollect.ports.folders import private_opener
from recollect.ports.records import Scope
from recollect.services.access import keys
from recollect.services.backups.history import last_good
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core
from recollect.settings import ServerSettings, Settings, load

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from recollect.interfaces.http.app import Service
    from recollect.interfaces.http.counts import Counts
    from recollect.interfaces.http.metrics import Metrics

OWN_FILES = 256  # kept back from connections: the store, the index, the models
# For so long a thread may keep the interpreter that another waits for. A request takes it again after each reading and
# waited Python's usual 5 ms each time where another computed.
SWITCH_SECONDS = 0.001
STOP_SECONDS = 30  # for those who are still sending or reading; what is at work in a thread is always finished


class ServeRequest(Request):
    """Start the service."""

    settings: str | None = Field(
        None, description="The store or YAML settings file; by default what the environment names"
    )
    host: str | None = Field(None, description="The address to listen on; overrides the settings")
    port: int | None = Field(None, ge=0, le=65535, description="The port to listen on; overrides the settings")
    workers: int | None = Field(
        None, ge=0, le=64, description="How many processes serve; 0: one per CPU core; overrides the settings"
    )


class Served(Reply):
    """How the service ended."""

    stopped: str


def serve(request: ServeRequest, progress: Progress | None = None) -> Served:
    """Serve the API, the console and MCP until stopped. The first start makes an owner and puts its key in a file."""
    try:
        from recollect.interfaces.http.log_lines import show_logs
        from recollect.interfaces.http.web_server import WebServer

        if find_spec("mcp") is None:  # one of its interfaces, loaded when it is asked for
            raise ImportError
    except ImportError:
        raise MissingExtra("the web server is not installed", remedy="pip install 'recollect[server]'") from None
    settings = settings_of(request)
    if worker_count(settings.server) > 1:
        from recollect.interfaces.workers.serving import serve_with_workers

        serve_with_workers(request, settings)
        return Served(stopped="by request")
    with opened(settings) as core:
        prepare(core, settings)
        with listening(settings.server) as (listener, address):
            served = application(core, settings)
            server = WebServer(web_config(served, settings.server))
            with _stopped_by_signals(server, served.state.service):
                print(f"Recollect listens on {address}", file=sys.stderr, flush=True)
                show_logs(settings.server.log_format)
                run_server(server, [listener])
    return Served(stopped="by request")


def settings_of(request: ServeRequest) -> Settings:
    named = ("host", "port", "workers")
    given = {name: value for name in named if (value := getattr(request, name)) is not None}
    return load(request.settings, server=given or None)


def worker_count(settings: ServerSettings) -> int:
    return settings.workers or core_count()


def core_count(limits: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The cores that this process may use, in a container also by its limit."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = map(int, limits.read_text().split())
    except (OSError, ValueError):  # no container, or "max": no limit
        return cores
    return max(1, min(cores, round(quota / period)))


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[Core]:
    """The store and all that is built around it, closed at the end."""
    core = app.traced(app.build(settings))
    try:
        yield core
    finally:
        app.close(core)
        core.tracing.close()


def web_config(served: Starlette, settings: ServerSettings) -> uvicorn.Config:
    """How the web server runs the application."""
    import uvicorn

    from recollect.interfaces.http.connection_limits import Connections

    counts = served.state.service.counts
    connections = Connections(settings, _connection_limit(settings.connections), counts)
    return uvicorn.Config(
        served,
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # http/client_address.py does it; uvicorn believes whoever is on this machine
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def run_server(server: uvicorn.Server, listeners: list[socket.socket]) -> None:
    """Until it is told to stop. (The web server's own way is to die of a signal when it is done: before us.)"""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what is loaded stays: to look for garbage in it made every recall wait that came meanwhile
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server._serve(listeners))


class Stopping:
    """Stops the service in order, whoever asks for it.

    It is not ready any more from then on, and goes on answering for as long as the settings say, so that those who
    balance load notice; unless it is to stop at once.
    """

    def __init__(self, server: uvicorn.Server, service: Service) -> None:
        self._server, self._service = server, service

    @property
    def is_asked(self) -> bool:
        return self._service.is_closing

    def ask(self, number: int = signal.SIGTERM, *, at_once: bool = False) -> None:
        seconds = 0.0 if at_once else self._service.settings.drain_seconds
        self._service.is_closing = True
        if not seconds:
            self._server.handle_exit(number, None)
            return
        timer = threading.Timer(seconds, self._server.handle_exit, (number, None))
        timer.daemon = True
        timer.start()


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server, service: Service) -> Iterator[None]:
    """A signal stops the service in order, a second one at once."""
    stopping = Stopping(server, service)

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.ask(number, at_once=stopping.is_asked)

    kept = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def prepare(core: Core, settings: Settings) -> None:
    tenant = core.for_scope(Scope(settings.organization))
    from recollect.interfaces.http.host_check import is_loopback

    if not is_loopback(settings.server.host) and not keys.has_keys(tenant):
        raise InvalidSettings(
            f"cannot listen on a public address ({settings.server.host}) without keys",
            remedy="add one first: recollect key add NAME --scope admin",
        )
    if not keys.needs_owner(tenant):
        return
    path = settings.server.key_file or app.key_file_of(settings.store)
    with _private(path) as file:
        file.write(keys.ensure_owner(tenant).key + "\n")
    print(
        f"The owner's key is in '{path}', which only you can read. Copy the key, then delete the file.", file=sys.stderr
    )


@contextlib.contextmanager
def _private(path: Path) -> Iterator[TextIO]:
    """A file that nobody else can read: what is printed ends up in logs. It is there before the key is made."""
    aside = path.with_name(path.name + ".part")
    try:
        aside.unlink(missing_ok=True)
        with open(aside, "x", opener=private_opener) as file:
            yield file
        aside.replace(path)
    except OSError as error:
        remedy = "set server.key_file to a path that you may write to"
        raise InvalidSettings(f"cannot write the owner's key to '{path}': {error.strerror}", remedy=remedy) from None
    finally:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def listening(settings: ServerSettings) -> Iterator[tuple[socket.socket, str]]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named so that asyncio sees TCP and sends answers at once: else each waits 40 ms for its rest.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
            listener.listen(1024)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}", remedy="choose another port"
            ) from None
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        yield listener, f"http://{shown}:{listener.getsockname()[1]}"


def _connection_limit(wanted: int) -> int:
    """How many connections fit beside the files we need; more of both are asked of the system where it lets us."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted + OWN_FILES:
        more = wanted + OWN_FILES if hard == resource.RLIM_INFINITY else min(wanted + OWN_FILES, hard)
        with contextlib.suppress(ValueError, OSError):  # where the system does not let us, fewer connections fit
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
    return min(wanted, max(16, soft - OWN_FILES))


def application(
    core: Core,
    settings: Settings,
    counts: Counts | None = None,
    metrics: Metrics | None = None,
    holder: str | None = None,
) -> Starlette:
    """The whole application, with its background work tied to its life. A worker brings what it shares with others."""
    from recollect.interfaces.http import console, data_files, files, sign_in
    from recollect.interfaces.http.app import Service, build
    from recollect.interfaces.mcp.http import McpEndpoint

    service = Service(core, settings.server, settings.organization, counts, metrics)
    mcp = McpEndpoint(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        background = service_background(service, holder)
        background.start()
        async with mcp.running():
            yield
        await asyncio.to_thread(background.close)
        await asyncio.to_thread(service.close)

    endpoints = [*files.endpoints(service), *data_files.endpoints(service), *sign_in.endpoints(service)]
    endpoints += console.endpoints(service, settings)
    if settings.server.mem0:
        from recollect.interfaces.http import mem0_paths

        endpoints += mem0_paths.endpoints(service)
    return build(service, endpoints, [mcp.route], lifespan)


def service_background(service: Service, holder: str | None = None) -> Background:
    """The store's background work as the service does it, and what each service does for itself."""
    core = service.core
    own = {"usage": service.usage.flush, "journal": core.journal.flush, "index": core.vectors.refresh}
    if core.backups.policy.to is not None:
        tenant = core.for_scope(Scope(service.operator))
        own["backup figures"] = lambda: service.metrics.note_backup(last_good(tenant))
    schedule = service_schedule(service.settings)
    return Background(core, schedule, own, service.metrics.count_background, holder, is_busy=service.is_busy)
