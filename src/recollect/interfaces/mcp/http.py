"""MCP at /mcp of the service: each request brings its key, and nothing is kept between two of them.

So any worker can answer any request. A page in a browser cannot ask on its own: a strange Origin or Host is refused
before anything is read. The protocol is a third of all that a service would load when it starts: it is loaded when the
first request that brings a key asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Surroundings

from recollect.errors import RecollectError
from recollect.interfaces.http.app import Service, address_of, problem, request_id
from recollect.interfaces.http.host_check import check_host, check_origin
from recollect.interfaces.http.log_lines import log_request
from recollect.interfaces.http.request_parsing import body_of

if TYPE_CHECKING:
    from recollect.interfaces.mcp.http_protocol import HttpProtocol

PATH = "/mcp"


class McpEndpoint:
    """One request: known by its key, then handed to the protocol; counted and logged like every other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._is_wanted, self._is_over = asyncio.Event(), asyncio.Event()
        self._protocol: asyncio.Future[HttpProtocol] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._protocol = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._serve(self._protocol))
        try:
            yield
        finally:
            self._is_over.set()
            self._is_wanted.set()
            await serving

    async def _serve(self, protocol: asyncio.Future[HttpProtocol]) -> None:
        await self._is_wanted.wait()
        if self._is_over.is_set():
            protocol.cancel()
            return
        loading = asyncio.create_task(asyncio.to_thread(self._load))
        await asyncio.wait([loading])
        failure = loading.exception()
        if failure is not None:
            protocol.set_exception(failure)  # each who asks gets it
            return
        async with loading.result().manager.run():
            protocol.set_result(loading.result())
            await self._is_over.wait()

    def _load(self) -> HttpProtocol:
        from recollect.interfaces.mcp.http_protocol import HttpProtocol

        return HttpProtocol(self._service)

    async def _loaded(self) -> HttpProtocol:
        assert self._protocol is not None, "the application has not started"
        self._is_wanted.set()
        return await asyncio.shield(self._protocol)

    @property
    def route(self) -> Route:
        return Route(PATH, self)

    async def __call__(self, surroundings: Surroundings, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(surroundings, receive)
        request.state.id = request_id(request)
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_marks(request)]
            await send(message)

        try:
            await self._answer(request, receive, watched)
        finally:
            self._note(request, status, time.perf_counter() - began)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        service = self._service
        try:
            check_host(request, service.settings)
            check_origin(request)
            request.state.principal = await service.run(lambda: service.principal(request))
            protocol = await self._loaded()
            protocol.check(request)
            body = await body_of(request, service.settings.most_body_bytes) if request.method == "POST" else b""
        except RecollectError as error:
            await problem(request, error)(request.scope, receive, send)
            return
        if request.method != "POST":  # without sessions there is nothing to listen to and nothing to end
            await Response(status_code=405, headers={"allow": "POST"})(request.scope, receive, send)
            return
        await protocol.manager.handle_request(request.scope, _again(body, receive), send)

    def _note(self, request: Request, status: int, seconds: float) -> None:
        self._service.metrics.count("mcp", status, seconds)
        log_request(
            request_id=request.state.id,
            operation="mcp",
            method=request.method,
            status=status,
            ms=round(seconds * 1000, 2),
            organization=getattr(request.state, "organization", None),
            key=getattr(request.state, "key", None),
            address=address_of(request),
        )


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for somebody else to read; after it, whether the client is still there."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return unread.pop() if unread else await receive()

    return next_message


def _marks(request: Request) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-request-id", request.state.id.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
