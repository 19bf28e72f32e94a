"""Citations of queries: what a run is cited with, what the same query gives now, and which must be checked again.

A citation of a query names its sources in one indexed text. When a source changes, those that name it are found by
counting that index, and are due at once: background work and `check` begin with what was never tried.
"""

from __future__ import annotations

from dataclasses import replace

from recollect.domain.answers import MOST_CELLS, first_cells
from recollect.domain.provenance import QUERY, Citation, CitedData, QueryCitation
from recollect.domain.sources import QueryRun, Source
from recollect.errors import InvalidInput, NotFound, RecollectError, TooLarge
from recollect.ports.data import DEFAULT_LIMITS
from recollect.ports.query import Compare, OneOf, Query
from recollect.ports.steps import Step, Touch
from recollect.services.data.queries import statement_named
from recollect.services.data.tables import state_of
from recollect.services.tenant import Tenant

CHECK_LIMITS = replace(DEFAULT_LIMITS, seconds=10.0, cpu_seconds=20, megabytes=512, rows=MOST_CELLS, reply_megabytes=1)
"""A check is made for others: in the background, or while somebody waits for a recall."""
_AFTER = QUERY[:-1] + chr(ord(QUERY[-1]) + 1)


def cited_run(tenant: Tenant, id: str) -> QueryCitation | None:
    """A run as it is cited; None if there is no such run."""
    run = tenant.get(QueryRun, id)
    if run is None or run.status != "done":
        return None
    return QueryCitation(
        run=run.id,
        sql=run.sql,
        sources={id: CitedData.model_validate(state) for id, state in run.states.items()},
        tables=run.metadata.get("tables", {}),
        result_hash=run.result_hash,
        row_count=run.row_count,
        values=first_cells(run.rows),
    )


def result_now(tenant: Tenant, cited: QueryCitation) -> QueryCitation:
    """What the cited query gives on its sources as they are now; see `CitationLookup.query_result`.

    Stored content that is missing, and what goes wrong in an outside database, say nothing about the answer.
    """
    sources = tenant.find(Query(Source, (OneOf("id", tuple(cited.sources)),))).records
    _refuse_gone(cited, sources)
    try:
        with statement_named(tenant, cited.sql, sources, cited.tables, CHECK_LIMITS) as statement:
            result = statement.run(CHECK_LIMITS)
    except RecollectError as error:
        is_away = "digest" in error.details or any(source.connection_id is not None for source in sources)
        if isinstance(error, NotFound | InvalidInput) and not isinstance(error, TooLarge) and not is_away:
            raise
        raise LookupError(error.message) from error
    return cited.model_copy(
        update={
            "sources": {id: CitedData.model_validate(state) for id, state in state_of(sources).items()},
            "result_hash": result.hash,
            "row_count": result.row_count,
            "values": first_cells(result.rows),
        }
    )


def _refuse_gone(cited: QueryCitation, sources: list[Source]) -> None:
    there = {source.id for source in sources}
    gone = [source.name for id, source in cited.sources.items() if id not in there]
    if gone:
        raise NotFound(f"the source '{gone[0]}' was removed", remedy="restore it: source.restore")


def due_steps(tenant: Tenant, source_id: str) -> list[Step]:
    """Have every citation of a query over this source checked again soon."""
    within = (Compare("source", ">=", QUERY), Compare("source", "<", _AFTER))
    named = [text for (text,) in tenant.count_by(Query(Citation, within), ("source",))]
    naming = tuple(text for text in named if source_id in text.removeprefix(QUERY).split(","))
    if not naming:
        return []
    found = tenant.select(Query(Citation, (OneOf("source", naming),)), ("id",))
    return [Touch(Citation, id, put={"tried_at": None}) for (id,) in found]
