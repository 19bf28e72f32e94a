"""Hosts of MCP, as the tests start them: the SDK's own client over each transport."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

T = TypeVar("T")
PACKAGES = Path(__file__).parents[1] / ".node" / "mcp" / "node_modules" / "@modelcontextprotocol"
OFFICIAL = PACKAGES / "server-memory" / "dist" / "index.js"
CONFORMANCE = PACKAGES / "conformance" / "dist" / "index.js"


@asynccontextmanager
async def over_stdio(store: Path, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
    command = ["-m", "recollect", "mcp", "--store", str(store), *options]
    environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash"}
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=store.parent)
    async with Client(server, mode=mode, cache=None) as client:
        yield client


@asynccontextmanager
async def over_http(address: str, key: str, query: str = "", mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {key}"}
    async with create_mcp_http_client(headers) as http:
        transport = streamable_http_client(f"{address}/mcp{query}", http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            yield client


def run(work: Callable[[], Awaitable[T]], seconds: float = 60) -> T:
    async def within() -> T:
        return await asyncio.wait_for(work(), seconds)

    return asyncio.run(within())


async def tools_of(client: Any) -> dict[str, Any]:
    """Every tool, page by page."""
    page = await client.list_tools()
    found = list(page.tools)
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        found += page.tools
    assert len({tool.name for tool in found}) == len(found)
    return {tool.name: tool for tool in found}
