"""Searching cold storage: the files are read where they are, nothing is restored."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.cold import ColdArchive
from recollect.domain.record import Name, QueryText, clipped
from recollect.domain.text import tokenizer
from recollect.domain.text.questions import read_question
from recollect.errors import DamagedData, Denied, NotFound, Unavailable
from recollect.ports.cold import ColdHit, ColdQuery
from recollect.ports.query import Order, Query
from recollect.services.cold.archive_files import fetched
from recollect.services.cold.archives import ArchiveFilter
from recollect.services.requests import ListReply, Reply
from recollect.services.tenant import Tenant

MOST_ARCHIVES = 500
LONGEST_TEXT = 2000
ColdType = Literal["memory", "message", "run", "result"]
_TABLES: dict[str, str] = {"memory": "memory", "message": "message", "run": "execution", "result": "result"}
_TYPES = {table: type for type, table in _TABLES.items()}


class SearchColdRequest(ArchiveFilter):
    """What to look for in cold storage."""

    query: QueryText = Field("", description="Words, any of them; without any, everything that passes the filters")
    type: ColdType | None = Field(None, description="Only memories, messages, runs, or results of steps")
    kinds: list[Name] = Field(
        default_factory=list, max_length=100, description="Only memories of these kinds, or messages of these roles"
    )
    limit: int = Field(20, ge=1, le=1000, description="How many at most")


class ColdFound(Reply):
    """Something that was found, and the session to restore for the rest of it."""

    session: str
    type: str
    id: str
    kind: str | None = None
    at: datetime | None = None
    text: str
    matched: int = Field(0, description="How many of the words it has")


class SearchColdReply(ListReply[ColdFound]):
    """What was found, that with most of the words first, then the newest."""

    hits: list[ColdFound]
    searched: int = Field(0, description="How many sessions were looked through")
    more: bool = Field(False, description="Whether there are older sessions that were not looked through")
    notes: list[str] = Field(default_factory=list)


def search(tenant: Tenant, request: SearchColdRequest) -> SearchColdReply:
    """Find what was said, remembered and done in sessions that are in cold storage, without restoring them.

    The newest 500 sessions that pass the filters are looked through; give `until` to look further back.
    """
    newest = Query(ColdArchive, request.filters(), (Order("last_at", descending=True),), MOST_ARCHIVES + 1)
    archives = tenant.find(newest).records
    terms = tuple(tokenizer.terms_asked(read_question(request.query).terms)) if request.query.strip() else ()
    reply = SearchColdReply(hits=[], more=len(archives) > MOST_ARCHIVES)
    if request.query.strip() and not terms:
        return reply
    asked = ColdQuery(
        terms=terms,
        tables=[_TABLES[request.type]] if request.type is not None else list(_TYPES),
        limit=request.limit,
        kinds=request.kinds,
        since=request.since,
        until=request.until,
    )
    with ExitStack() as opened:
        files = {}
        for archive in archives[:MOST_ARCHIVES]:
            try:
                files[archive.id] = opened.enter_context(fetched(tenant, archive))
            except (DamagedData, Denied, NotFound, Unavailable) as error:
                reply.notes.append(f"session {archive.id} was not looked through: {error.message}")
        reply.searched = len(files)
        reply.hits += [_found(hit) for hit in tenant.cold_files.search(files, asked)]
    return reply


def _found(hit: ColdHit) -> ColdFound:
    return ColdFound(
        session=hit.file,
        type=_TYPES[hit.table],
        id=hit.id,
        kind=hit.kind,
        at=hit.moment,
        text=clipped(hit.text, LONGEST_TEXT),
        matched=hit.matched,
    )
