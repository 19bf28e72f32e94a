"""SQL over one's own memories, where the store can answer it.

The store runs one SELECT over views of the tenant's living records and nothing else; the limits keep an honest mistake
from taking the process down. That someone asked is in the access log; the statement is not, for it may quote memories.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from recollect.errors import Unsupported
from recollect.ports.records import SqlLimits, SqlStore
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant

MOST_ROWS = 100_000
MOST_SECONDS = 600


class SqlRequest(Request):
    """One SELECT over the organization's own records."""

    statement: str = Field(
        max_length=100_000, description="The query; tables are named like the records: memory, tag, citation, …"
    )
    limit: int = Field(1000, ge=1, le=MOST_ROWS, description="How many rows at most")
    seconds: float = Field(30.0, gt=0, le=MOST_SECONDS, description="How long it may take")
    megabytes: int = Field(1024, ge=16, description="How much memory sorting and grouping may take")


class SqlReply(Reply):
    """A table: the names and types of its columns, and its rows."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    cut: bool = Field(description="Whether there were more rows than the limit")


def sql(tenant: Tenant, request: SqlRequest) -> SqlReply:
    """Answer one SELECT; times are UTC, JSON fields come as JSON, bytes as base64."""
    if not isinstance(tenant.store, SqlStore):
        raise Unsupported(
            f"the {tenant.store.capabilities.name} store cannot be asked in SQL",
            remedy="move the memories into a DuckDB store (recollect copy, or export and import) and ask that:"
            " recollect sql --store duckdb:///memories.duckdb 'SELECT …'",
        )
    tenant.journal.flush()
    limits = SqlLimits(request.limit, request.seconds, request.megabytes)
    found = tenant.store.query_sql(tenant.scope, request.statement, limits)
    tenant.journal.note(tenant.scope, "search", "sql", [])
    return SqlReply(columns=found.columns, types=found.types, rows=found.rows, cut=found.is_cut)
