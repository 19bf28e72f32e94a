"""MCP at /mcp of the service: each request brings its key, and nothing is kept between two of them.

So any worker can answer any request. A tool runs with the permissions of the key, and those it does not grant are not
listed. A page in a browser cannot ask on its own: a strange Origin or Host is refused before anything is read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Surroundings

from recollect.catalogue import Operation
from recollect.errors import RecollectError
from recollect.interfaces.http.app import Service, address_of, problem, request_id
from recollect.interfaces.http.host_check import check_host, check_origin
from recollect.interfaces.http.log_lines import log_request
from recollect.interfaces.http.request_parsing import body_of
from recollect.interfaces.mcp.access import RequestContext
from recollect.interfaces.mcp.server import build
from recollect.interfaces.mcp.tools import offered
from recollect.ports.records import Scope
from recollect.services.access.authorize import Principal

PATH = "/mcp"
T = TypeVar("T")


class KeyAccess:
    """Whoever the request's key names, with what it grants."""

    def __init__(self, service: Service) -> None:
        self.core = service.core
        self._service = service

    def profile(self, context: RequestContext) -> str:
        return profile_of(_request(context))

    def project(self, context: RequestContext) -> str | None:
        return _request(context).query_params.get("project") or None

    def root(self, context: RequestContext) -> None:
        return None

    def may(self, context: RequestContext, operation: Operation) -> bool:
        return self._service.grants(_principal(context), operation)

    def admitted(self, context: RequestContext, operation: Operation) -> Scope:
        return self._service.permitted(_principal(context), operation).scope

    async def run(self, work: Callable[[], T], operation: Operation) -> T:
        done: T = await self._service.run(work, operation)
        return done


def _principal(context: RequestContext) -> Principal:
    principal: Principal = _request(context).state.principal
    return principal


def _request(context: RequestContext) -> Request:
    assert isinstance(context.request, Request), "over HTTP every call comes with its request"
    return context.request


def profile_of(request: Request) -> str:
    return request.query_params.get("profile", "default")


class McpEndpoint:
    """One request: known by its key, then handed to the protocol; counted and logged like every other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._manager = StreamableHTTPSessionManager(
            build(KeyAccess(service)),
            json_response=True,
            stateless=True,
            max_request_body_size=service.settings.most_body_bytes,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

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
            offered(profile_of(request))
            body = await body_of(request, service.settings.most_body_bytes) if request.method == "POST" else b""
        except RecollectError as error:
            await problem(request, error)(request.scope, receive, send)
            return
        if request.method != "POST":  # without sessions there is nothing to listen to and nothing to end
            await Response(status_code=405, headers={"allow": "POST"})(request.scope, receive, send)
            return
        await self._manager.handle_request(request.scope, _again(body, receive), send)

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
