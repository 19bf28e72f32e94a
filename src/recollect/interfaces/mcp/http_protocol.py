"""The protocol behind /mcp: a tool runs with the permissions of the key, and those it does not grant are not listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request

from recollect.catalogue import Operation
from recollect.interfaces.http.app import Service
from recollect.interfaces.mcp.access import RequestContext
from recollect.interfaces.mcp.server import build
from recollect.interfaces.mcp.tools import offered
from recollect.ports.records import Scope
from recollect.services.access.authorize import Principal

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


class HttpProtocol:
    """What speaks MCP once a request is known by its key."""

    def __init__(self, service: Service) -> None:
        self.manager = StreamableHTTPSessionManager(
            build(KeyAccess(service)),
            json_response=True,
            stateless=True,
            max_request_body_size=service.settings.most_body_bytes,
        )

    def check(self, request: Request) -> None:
        """InvalidInput if it asks for a profile that there is not."""
        offered(profile_of(request))
