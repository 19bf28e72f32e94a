"""`recollect mcp`: the MCP server that a host starts for itself, speaking over its standard input and output.

Whoever can open the store can do everything, as on the command line. Standard output carries the protocol and nothing
else; what there is to say goes to standard error.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field

from recollect import app
from recollect.catalogue import Operation
from recollect.errors import MissingExtra
from recollect.interfaces.hosts.places import HERE, here, made_folder_of, users_store
from recollect.ports.records import Scope
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Request
from recollect.services.tenant import Core
from recollect.settings import load

if TYPE_CHECKING:
    from recollect.interfaces.mcp.access import RequestContext

T = TypeVar("T")


class McpRequest(Request):
    """Serve one host."""

    store: str | None = Field(None, description="The store: a file, an address, or a YAML settings file")
    profile: Literal["default", "data", "agent", "all", "memory-server"] = Field(
        "default", description="Which tools to offer: default, data, agent, all or memory-server"
    )
    project: str | None = Field(
        None, description="The project to work in where a call names none; . is the git repository of this folder"
    )
    organization: str | None = Field(None, description="The organization (tenant) to work in")
    actor: str | None = Field(None, description="Who is acting; recorded with every change")


class OwnerAccess:
    """The owner of the store, who may do everything."""

    def __init__(
        self, core: Core, scope: Scope, profile: str, project: str | None = None, root: Path | None = None
    ) -> None:
        self.core = core
        self._scope = scope
        self._profile = profile
        self._project = project
        self._root = root

    def profile(self, context: RequestContext) -> str:
        return self._profile

    def project(self, context: RequestContext) -> str | None:
        return self._project

    def root(self, context: RequestContext) -> Path | None:
        return self._root

    def may(self, context: RequestContext, operation: Operation) -> bool:
        return True

    def admitted(self, context: RequestContext, operation: Operation) -> Scope:
        return self._scope

    async def run(self, work: Callable[[], T], operation: Operation) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)


def _within(request: McpRequest) -> tuple[str | None, str | None, Path | None]:
    """The store, the project and the folder that files are cited from; in a repository the store is the user's own."""
    if request.project != HERE:
        return request.store, request.project, None
    checkout, store = here(), users_store(request.store)
    made_folder_of(store)
    return store, checkout.project, checkout.root


def serve(request: McpRequest, progress: Progress | None = None) -> None:
    """Serve MCP over standard input and output until the host closes them."""
    try:
        from mcp.server.stdio import stdio_server

        from recollect.interfaces.mcp.server import build
    except ImportError:
        raise MissingExtra("the MCP library is not installed", remedy="pip install 'recollect[mcp]'") from None
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    place, project, root = _within(request)
    settings = load(place, organization=request.organization, actor=request.actor)
    core = app.with_background(app.build(settings), settings)
    access = OwnerAccess(core, Scope(settings.organization, settings.actor), request.profile, project, root)

    async def talk() -> None:
        server = build(access)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    try:
        asyncio.run(talk())
    finally:
        app.close(core)
