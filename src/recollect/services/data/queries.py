"""Queries: one SELECT over the listed sources, run in a confined process, and remembered with what it rested on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import Field as Having

from recollect.domain.record import Id, JsonList, JsonObject, Name, QueryText, Text
from recollect.domain.sources import QueryRun, Source, Verdict
from recollect.errors import InvalidInput, NotFound, TooLarge
from recollect.ports.data import DEFAULT_LIMITS, ExportFormat, Limits, QueryResult, Tables
from recollect.ports.query import Order, Query, equal
from recollect.ports.steps import Delete, Insert
from recollect.services.data.outside_tables import FETCHED_ROWS, StatementRows, rows_of_statement
from recollect.services.data.results import QueryReply, ResultColumn, SourceState
from recollect.services.data.tables import (
    KnownTable,
    local_files,
    schema_fingerprint,
    sources_named,
    state_of,
    tables_of,
)
from recollect.services.erasure import erase_traces, is_owed, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.secrets import masked_value
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

KEPT_ROWS = 200
KEPT_BYTES = 256_000
LONGEST_SQL = 20_000


class DataRequest(Request):
    """What may be read, and for whom."""

    sources: list[Name] = Having(
        default_factory=list, max_length=100, description="The sources to read, by id or name; all by default"
    )
    project: Id | None = Having(None, description="Only the sources of this project")
    user: Id | None = Having(None, description="Only the sources of this user")
    agent: Id | None = Having(None, description="The agent that asks")
    session: Id | None = Having(None, description="The session it is asked in")
    limit: int = Having(1000, ge=1, le=10_000, description="How many rows to return at most")
    seconds: float = Having(30.0, gt=0, le=600, description="How long it may take")
    job: Id | None = Having(None, description="A name of your own, by which `query.cancel` ends it")

    def limits(self) -> Limits:
        return replace(DEFAULT_LIMITS, rows=self.limit, seconds=self.seconds, cpu_seconds=int(self.seconds * 2) + 1)


class RunQueryRequest(DataRequest):
    """A SELECT to run."""

    sql: Text = Having(min_length=1, max_length=LONGEST_SQL, description="One SELECT over the tables of the sources")
    question: Text = Having("", max_length=20_000, description="The question it answers, in plain words")


def run_query(tenant: Tenant, request: RunQueryRequest) -> QueryReply:
    """Run one SELECT over the sources; it reads nothing else and writes nothing."""
    known = tables_of(tenant, sources_named(tenant, request.sources, request.project, request.user))
    with statement_over(tenant, request.sql, known, request.limits()) as statement:
        result = statement.run(request.limits(), request.job)
    run = recorded_run(tenant, request, result, statement.read, question=request.question)
    commit(tenant, [Insert(run), logged(tenant, "search", "query.run", None, id=run.id, rows=result.row_count)])
    return query_reply(run, result)


@dataclass(frozen=True)
class OpenStatement:
    """A statement with the files of the tables it reads, but for those of connections, which are asked when it runs."""

    tenant: Tenant
    sql: str
    read: list[KnownTable]
    files: Tables

    def run(self, limits: Limits, job: str | None = None) -> QueryResult:
        engine = self.tenant.data_engine()
        with self._rows(limits, job, limits.rows) as rows:
            result = engine.query(rows.sql, rows.files, limits=limits, job=self.named(job))
        return result if len(self.files) == len(self.read) else rows.told(result, self.sql, self.read)

    def export(self, format: ExportFormat, target: Path, limits: Limits, job: str | None = None) -> int:
        engine = self.tenant.data_engine()
        with self._rows(limits, job, FETCHED_ROWS) as rows:
            if rows.is_cut:
                raise TooLarge(f"the result has more than {FETCHED_ROWS:,} rows", remedy="filter or aggregate more")
            return engine.export(rows.sql, rows.files, format, target, limits=limits, job=self.named(job)).rows

    def _rows(self, limits: Limits, job: str | None, rows: int) -> AbstractContextManager[StatementRows]:
        if len(self.files) == len(self.read):
            return nullcontext(StatementRows(self.sql, self.files))
        return rows_of_statement(self.tenant, self.sql, self.read, self.files, limits, self.named(job), rows)

    def named(self, job: str | None) -> str | None:
        return job and own_job(self.tenant, job)


def own_job(tenant: Tenant, job: str) -> str:
    """The name of a job as the engine knows it: others may use the same, and nobody ends another's."""
    return f"{tenant.scope.organization_id}\n{tenant.scope.actor or ''}\n{job}"


@contextmanager
def statement_over(
    tenant: Tenant, sql: str, known: Sequence[KnownTable], limits: Limits = DEFAULT_LIMITS
) -> Iterator[OpenStatement]:
    """A statement over some of the known tables: only those that it reads are fetched."""
    if not known:
        raise InvalidInput("there are no sources to query", remedy="add a file first: source.add")
    by_name = {one.sql_name: one for one in known}
    names = tenant.data_engine().tables_read(sql, list(by_name), limits=limits)
    read = [by_name[name] for name in names]
    with local_files(tenant, [one for one in read if one.source.connection_id is None]) as files:
        yield OpenStatement(tenant, sql, read, files)


def recorded_run(
    tenant: Tenant,
    request: DataRequest,
    result: QueryResult,
    read: Sequence[KnownTable],
    question: str = "",
    **more: object,
) -> QueryRun:
    """The record of a run: the statement, what it read in which state, and the first rows of what came of it."""
    sources = list({one.source.id: one.source for one in read}.values())
    kept = kept_rows(result.rows)
    run: QueryRun = made(
        QueryRun,
        tenant,
        question=question,
        sql=result.sql,
        project_id=request.project,
        user_id=request.user,
        agent_id=request.agent,
        session_id=request.session,
        connection_id=_connection_of(sources),
        source_ids=[source.id for source in sources],
        states=state_of(sources),
        fingerprint=schema_fingerprint(one.table for one in read),
        result_columns=[[name, type] for name, type in zip(result.columns, result.types, strict=True)],
        row_count=result.row_count if result.row_count is not None else len(result.rows),
        is_cut=result.is_cut or len(kept) < len(result.rows),
        rows=kept,
        result_hash=result.hash,
        notes=result.notes,
        metadata={"tables": {one.sql_name: one.table.id for one in read}},
        **more,
    )
    return masked_value(tenant, run)


def kept_rows(rows: Sequence[JsonList]) -> JsonList:
    """As many of the first rows as a record should hold."""
    kept: JsonList = []
    size = 0
    for row in rows[:KEPT_ROWS]:
        size += sum(len(cell) if isinstance(cell, str) else 8 for cell in row)
        if size > KEPT_BYTES and kept:
            break
        kept.append(row)
    return kept


def _connection_of(sources: Sequence[Source]) -> str | None:
    ids = {source.connection_id for source in sources}
    return ids.pop() if len(ids) == 1 else None


def query_reply(run: QueryRun, result: QueryResult) -> QueryReply:
    return QueryReply(**reply_fields(run), rows=result.rows, is_cut=result.is_cut, seconds=result.cost.seconds)


def reply_fields(run: QueryRun) -> JsonObject:
    """The fields of a reply that a run has kept, without its rows."""
    return {
        "run": run.id,
        "question": run.question,
        "sql": run.sql,
        "columns": [ResultColumn(name=name, type=type) for name, type in run.result_columns],
        "row_count": run.row_count,
        "hash": run.result_hash,
        "notes": run.notes,
        "chart": run.chart,
        "sources": [
            SourceState(id=id, name=str(state["name"]), version=state["revision"], hash=str(state["hash"]))
            for id, state in run.states.items()
        ],
    }


class QueryRequest(Request):
    """One run of a query."""

    run: Id = Having(description="The run, as `query.run` or `ask` returned it")


class QueryView(QueryReply):
    """A run that was kept: what was asked, by whom, and what came of it."""

    created_at: datetime
    created_by: str | None = None
    verdict: Verdict = "unjudged"
    reading: JsonList = Having(default_factory=list, description="How the question was read")
    confidence: float | None = None
    is_draft: bool = False
    others: JsonList = Having(
        default_factory=list, description="The next best readings; `ask` chooses one by its place"
    )
    pattern: str | None = Having(None, description="The query pattern it made or moved")


def show_query(tenant: Tenant, request: QueryRequest) -> QueryView:
    """A run with the first rows of its result."""
    return query_view(load(tenant, QueryRun, request.run))


def query_view(run: QueryRun) -> QueryView:
    return QueryView(
        **reply_fields(run),
        rows=run.rows,
        is_cut=run.is_cut,
        created_at=run.created_at,
        created_by=run.created_by,
        verdict=run.verdict,
        reading=run.reading,
        confidence=run.confidence,
        is_draft=run.is_draft,
        others=[
            {name: value for name, value in one.items() if name != "plan"} for one in run.metadata.get("others", [])
        ],
        pattern=run.pattern_id,
    )


class ListQueriesRequest(Request):
    """Which runs to list."""

    project: Id | None = Having(None, description="Only those of this project")
    user: Id | None = Having(None, description="Only those of this user")
    session: Id | None = Having(None, description="Only those of this session")
    verdict: Verdict | None = Having(None, description="Only those that were judged so")
    limit: int = Having(50, ge=1, le=200, description="How many at most")
    after: QueryText | None = Having(None, description="The `next` of the page before")


class QueryPage(PageReply[QueryView]):
    """Runs of queries, the newest first, without their rows."""

    runs: list[QueryView]


def list_queries(tenant: Tenant, request: ListQueriesRequest) -> QueryPage:
    """The queries that were run, the newest first."""
    given = {
        "project_id": request.project,
        "user_id": request.user,
        "session_id": request.session,
        "verdict": request.verdict,
    }
    where = tuple(equal(name, value) for name, value in given.items() if value is not None)
    page = tenant.find(
        Query(QueryRun, where, (Order("id", descending=True),), limit=request.limit, after=request.after)
    )
    return QueryPage(
        runs=[query_view(run).model_copy(update={"rows": [], "chart": None, "others": []}) for run in page.records],
        next=page.next,
    )


class RemoveQueryRequest(QueryRequest):
    """Which run to delete."""


class RemoveQueryReply(Reply):
    """`deleted` is 0 where it was deleted before, and its traces are erased now."""

    run: str
    deleted: int


def remove_query(tenant: Tenant, request: RemoveQueryRequest) -> RemoveQueryReply:
    """Delete a run with its rows for good; its pattern and memories of its answer stay, without that evidence."""
    run = tenant.get(QueryRun, request.run)
    if run is None and not is_owed(tenant, request.run):
        raise NotFound(f"there is no query '{request.run}'", remedy="`query.list` lists them", id=request.run)
    deleted = 0
    if run is not None:
        refuse_held(tenant, {"query_run": [run.id]})
        entry = logged(tenant, "delete", "query.remove", None, id=run.id)
        deleted = tenant.transact([Delete(QueryRun, run.id), owing(tenant, run.id), entry]).deleted
    erase_traces(tenant)
    return RemoveQueryReply(run=request.run, deleted=deleted)


class CancelQueryRequest(Request):
    """Which running query to end."""

    job: Id = Having(description="The name it was started with")


class CancelQueryReply(Reply):
    """Whether there was one."""

    job: str
    cancelled: bool


def cancel_query(tenant: Tenant, request: CancelQueryRequest) -> CancelQueryReply:
    """End a query that is running."""
    job = own_job(tenant, request.job)
    cancelled = tenant.databases.cancel(job) or tenant.data_engine().cancel(job)
    return CancelQueryReply(job=request.job, cancelled=cancelled)


def run_again(tenant: Tenant, run: QueryRun, limits: Limits = DEFAULT_LIMITS) -> tuple[QueryResult, list[KnownTable]]:
    """The statement of a run over the same sources as they are now."""
    with statement_of(tenant, run, limits) as statement:
        return statement.run(limits), statement.read


@contextmanager
def statement_of(tenant: Tenant, run: QueryRun, limits: Limits = DEFAULT_LIMITS) -> Iterator[OpenStatement]:
    """The statement of a run, over the same sources as they are now."""
    sources = sources_named(tenant, run.source_ids) if run.source_ids else []
    with statement_named(tenant, run.sql, sources, run.metadata.get("tables", {}), limits) as statement:
        yield statement


@contextmanager
def statement_named(
    tenant: Tenant, sql: str, sources: Sequence[Source], names: Mapping[str, Id], limits: Limits = DEFAULT_LIMITS
) -> Iterator[OpenStatement]:
    """A statement whose tables have the names they had when it was written, whatever was added since."""
    by_table = {table_id: name for name, table_id in names.items()}
    known = [replace(one, sql_name=by_table.get(one.table.id, one.sql_name)) for one in tables_of(tenant, sources)]
    with statement_over(tenant, sql, known, limits) as statement:
        yield statement
