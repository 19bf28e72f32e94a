"""What a search shows, as a file: JSON Lines or CSV, with the filters of the page and the permissions of the visitor.

It is read a page at a time and sent as it is read, so the size of a store does not matter. Texts that a spreadsheet
would take for a formula get an apostrophe in CSV; JSON Lines has them as they are.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect.errors import InvalidInput
from recollect.interfaces.http.app import Endpoint, Service
from recollect.interfaces.http.console.memory_pages import MOST_HITS, filters
from recollect.interfaces.http.console.page_context import ROOT, SECURITY_HEADERS, PageContext, shown
from recollect.services.recall.browse import MemoryLine
from recollect.services.requests import Reply

AT_ONCE = 500
COLUMNS = [name for name in MemoryLine.model_fields if name not in Reply.model_fields]
MEDIA_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def endpoints(service: Service) -> list[Endpoint]:
    async def export(request: Request) -> Response:
        return await shown(request, lambda: service.run(lambda: _begun(service, request)))

    return [("GET", f"{ROOT}/search/export", "console export", export)]


def _begun(service: Service, request: Request) -> Response:
    context = PageContext(service, request, service.principal(request))
    format = context.query("format", "jsonl")
    if format not in MEDIA_TYPES:
        raise InvalidInput(f"there is no format {format[:20]!r}", remedy="choose jsonl or csv")
    context.allowed("recall" if _is_question(context) else "list")  # refused before anything is sent
    pages = _pages(context)
    first = next(pages)  # a filter that makes no sense is refused before anything is sent, too
    parts = _in_lines(first, pages) if format == "jsonl" else _in_columns(first, pages)
    headers = {
        "content-disposition": f'attachment; filename="memories.{format}"',
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return StreamingResponse(parts, media_type=MEDIA_TYPES[format], headers=headers | SECURITY_HEADERS)


def _is_question(context: PageContext) -> bool:
    return bool(context.query("q").strip()) and not context.query("forgotten")


def _pages(context: PageContext) -> Iterator[list[dict[str, Any]]]:
    """What the page of search would show, all of it; of a question the best hits that are memories."""
    if _is_question(context):
        asked = {"query": context.query("q").strip(), "by": context.query("by"), "limit": MOST_HITS}
        hits = context.call("recall", include_messages=False, **asked, **filters(context)).hits
        yield [_line(hit) for hit in hits]
        return
    after: str | None = ""
    asked = {"forgotten": bool(context.query("forgotten")), "limit": AT_ONCE, "count_at_most": 1, **filters(context)}
    while after is not None:
        page = context.call("list", after=after, **asked)
        yield [_line(one) for one in page.memories]
        after = page.next


def _line(found: Any) -> dict[str, Any]:
    told = found.model_dump(mode="json")
    return {name: told.get(name) for name in COLUMNS}


def _in_lines(first: list[dict[str, Any]], rest: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    for page in chain([first], rest):
        yield "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in page).encode()


def _in_columns(first: list[dict[str, Any]], rest: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    written = io.StringIO(newline="")
    table = csv.writer(written)
    table.writerow(COLUMNS)
    for page in chain([first], rest):
        table.writerows([_cell(one[name]) for name in COLUMNS] for one in page)
        yield written.getvalue().encode()
        written.seek(0)
        written.truncate()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
