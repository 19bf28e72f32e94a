"""Who asks over MCP, and what they may do: the one thing in which the two transports differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mcp.server.context import ServerRequestContext

from recollect.catalogue import Operation
from recollect.ports.records import Scope
from recollect.services.tenant import Core

T = TypeVar("T")
RequestContext = ServerRequestContext[Any, Any]


class Access(Protocol):
    core: Core

    def profile(self, context: RequestContext) -> str: ...

    def project(self, context: RequestContext) -> str | None:
        """The project that is meant where a call names none."""
        ...

    def root(self, context: RequestContext) -> Path | None:
        """The folder that relative paths of citations are taken from, where that is not the one of the store."""
        ...

    def may(self, context: RequestContext, operation: Operation) -> bool:
        """Whether to offer it; leaves no entry in the access log."""
        ...

    def admitted(self, context: RequestContext, operation: Operation) -> Scope:
        """The scope to work in; Denied otherwise, which ends in the access log."""
        ...

    async def run(self, work: Callable[[], T], operation: Operation) -> T: ...
