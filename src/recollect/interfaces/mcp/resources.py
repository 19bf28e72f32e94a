"""What a host can read without a tool: each memory by its id, the newest memories, and how much there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from mcp import types
from mcp.shared.exceptions import MCPError

from recollect.catalogue import OPERATIONS, Operation
from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.interfaces.mcp.replies import pruned
from recollect.interfaces.mcp.tools import offered
from recollect.services.frameworks import graph
from recollect.services.recall.browse import MemoryLine
from recollect.services.recall.context import Context
from recollect.services.requests import Reply

if TYPE_CHECKING:
    from recollect.interfaces.mcp.access import RequestContext
    from recollect.interfaces.mcp.server import ToolHandlers

JSON = "application/json"
TEXT = "text/plain"
MEMORY = "memory://"
CONTEXT = "recollect://context/"
GRAPH = "memory://knowledge-graph"
FIXED: dict[str, tuple[str, dict[str, object], str]] = {
    "recollect://recent": ("list", {"limit": 50}, "The newest memories"),
    "recollect://stats": ("stats", {}, "How much is remembered, and how well supported"),
}
PAGE = 50
TITLE_LENGTH = 80


def plain(reply: Reply, structured: Mapping[str, object]) -> str:
    """A reply as text: what was packed for a prompt as it is, everything else as JSON.

    The official memory server says done in words, and gives lists without a name; prompts were written for that.
    """
    if isinstance(reply, Context):
        return reply.text
    if isinstance(reply, graph.DeleteReply):
        return reply.message
    if isinstance(reply, graph.CreateEntitiesReply | graph.CreateRelationsReply | graph.AddObservationsReply):
        return json.dumps(*structured.values(), ensure_ascii=False, indent=2)
    return json.dumps(structured, ensure_ascii=False, separators=(",", ":"))


class ResourceHandlers:
    def __init__(self, tools: ToolHandlers) -> None:
        self._tools = tools

    async def list_resources(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The fixed ones first, then every memory, the newest first, page by page."""
        cursor = params.cursor if params else None
        if not self._tools.access.may(context, OPERATIONS["list"]):
            return types.ListResourcesResult(resources=[])
        fixed = [] if cursor else self._fixed(context)
        page = await self._told(context, OPERATIONS["list"], {"limit": PAGE, "after": cursor})
        memories = [_listed(line) for line in page.memories]
        return types.ListResourcesResult(resources=[*fixed, *memories], next_cursor=page.next)

    def _fixed(self, context: RequestContext) -> list[types.Resource]:
        made = [
            types.Resource(uri=uri, name=uri.rpartition("/")[2], title=title, description=title, mime_type=JSON)
            for uri, (_, _, title) in FIXED.items()
        ]
        if self._tools.access.profile(context) == "memory-server":
            title = "The full knowledge graph with all entities and relations"
            made.append(types.Resource(uri=GRAPH, name="knowledge-graph", title="Knowledge Graph", description=title))
        return made

    async def list_templates(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(uri_template=uri, name=name, title=title, description=title, mime_type=type)
            for uri, name, title, type in (
                (MEMORY + "{id}", "memory", "One memory with its evidence, tags and links", JSON),
                (CONTEXT + "{task}", "context", "What is known about a task, ready to be read", TEXT),
            )
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(self, context: RequestContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        operation, fields = self._meant(context, uri)
        reply = await self._told(context, operation, fields)
        type, text = JSON, json.dumps(reply.model_dump(mode="json", by_alias=True), ensure_ascii=False, indent=2)
        if isinstance(reply, Context):
            type, text = TEXT, reply.text
        elif uri != GRAPH:
            text = json.dumps(pruned(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=type, text=text)])

    def _meant(self, context: RequestContext, uri: str) -> tuple[Operation, dict[str, object]]:
        if uri in FIXED:
            name, fields, _ = FIXED[uri]
            return OPERATIONS[name], fields
        if uri == GRAPH and self._tools.access.profile(context) == "memory-server":
            return offered("memory-server")["read_graph"].operation, {}
        if uri.startswith(CONTEXT) and uri != CONTEXT:
            return OPERATIONS["context"], {"query": unquote(uri.removeprefix(CONTEXT), errors="replace")}
        if not uri.startswith(MEMORY) or uri == MEMORY:
            raise refused(NotFound(f"there is no resource '{uri[:80]}'", remedy="list the resources"))
        return OPERATIONS["show"], {"id": unquote(uri.removeprefix(MEMORY), errors="replace")}

    async def _told(self, context: RequestContext, operation: Operation, fields: dict[str, object]) -> Any:
        try:
            meant = self._tools.within_project(context, operation, fields)
            return await self._tools.ask(context, operation, meant)
        except RecollectError as error:
            raise refused(error) from None


def _listed(line: MemoryLine) -> types.Resource:
    head = " ".join(line.text.split())
    title = head if len(head) <= TITLE_LENGTH else head[: TITLE_LENGTH - 1] + "…"
    about = f"{line.kind}, {line.status}, {line.occurred_at}"
    return types.Resource(
        uri=MEMORY + quote(line.id, safe=""), name=line.id, title=title, description=about, mime_type=JSON
    )


def refused(error: RecollectError) -> MCPError:
    """A problem where there is no tool to carry it: in the protocol's own shape, with ours inside."""
    wrong = isinstance(error, InvalidInput | NotFound)
    code = types.INVALID_PARAMS if wrong else types.INTERNAL_ERROR
    return MCPError(code, str(error), json.loads(json.dumps(error.as_dict(), default=str)))
