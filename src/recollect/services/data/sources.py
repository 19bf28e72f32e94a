"""Sources: files, data frames and outside databases with their tables; shown, described, profiled, removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from pydantic import Field as Having

from recollect.domain.record import Id, Json, JsonList, Name, QueryText, Text, clipped, now
from recollect.domain.sources import Field, QueryRun, Source, SourceVersion, Table
from recollect.errors import InvalidInput
from recollect.ports.data import Limits
from recollect.ports.query import Compare, Holds, Order, Query, equal
from recollect.ports.steps import Delete, DeleteWhere, Put, Step, Update
from recollect.services import notebook
from recollect.services.data import value_lists
from recollect.services.data.contents import deleted_on_failure, deleting_steps
from recollect.services.data.profiles import field_record
from recollect.services.data.query_citations import due_steps
from recollect.services.data.tables import KnownTable, fields_of, local_files, tables_of
from recollect.services.erasure import erase_traces, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.memories.data_vectors import embedding_steps
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, rewritten

Progress = Callable[[int, int], None]
READING = Limits(seconds=3600, cpu_seconds=3600, megabytes=1024)
MOST_JOINED = 40


class FieldView(Reply):
    """A column: its type, what it means, and its statistics."""

    name: str
    type: str
    meaning: str = ""
    description: str = ""
    statistics: Json = Having(default_factory=dict)
    samples: JsonList = Having(default_factory=list)


class TableView(Reply):
    """A table of a source."""

    name: str = Having(description="Its name in SQL")
    rows: int
    bytes: int = 0
    description: str = ""
    profiled: str = Having("none", description="What its profile rests on: none, sample or whole")
    rejected: int = Having(0, description="How many rows of the file could not be read")
    rejected_rows: JsonList = Having(default_factory=list, description="Some of them: line, reason, text")
    keys: list[str] = Having(default_factory=list, description="Columns that are likely keys, the best first")
    joins: JsonList = Having(default_factory=list, description="Likely joins with other tables")
    notes: list[str] = Having(default_factory=list)
    fields: list[FieldView] = Having(default_factory=list)


class SourceView(Reply):
    """A source and its tables."""

    id: str
    name: str
    description: str = ""
    format: str = ""
    bytes: int = 0
    hash: str
    version: int = Having(description="Counts up with each new version of the file")
    project: str | None = None
    user: str | None = None
    connection: str | None = Having(None, description="The connection whose tables these are")
    created_at: datetime
    updated_at: datetime
    is_new: bool = Having(False, description="Whether this call added it, or a version of it")
    changes: JsonList = Having(default_factory=list, description="What the newest version changed in its columns")
    tables: list[TableView] = Having(default_factory=list)
    notes: list[str] = Having(default_factory=list)
    restorable_until: datetime | None = Having(None, description="Set for a removed one: `source.restore` until then")

    def _repr_html_(self) -> str:
        """How a notebook shows it: the profile of each table."""
        parts = [f"<h4>{notebook.cell(self.name)}</h4>", notebook.facts([self.description] if self.description else [])]
        for table in self.tables:
            rejected = [f"{table.rejected:,} rows could not be read"] if table.rejected else []
            joins = [f"{one['column']} joins {one['to_name']}.{one['to_column']}" for one in table.joins]
            parts.append(notebook.strong(table.name))
            parts.append(notebook.facts([f"{table.rows:,} rows", *rejected, *joins, *table.notes]))
            titles = [("column", False), ("type", False), ("meaning", False), ("empty", True), ("distinct", True)]
            rows = [
                [notebook.cell(field.name), notebook.cell(field.type), notebook.cell(field.meaning),
                 f"{field.statistics.get('nulls', 0):,}", f"{field.statistics.get('distinct', 0):,}",
                 notebook.values(field.statistics)]
                for field in table.fields
            ]  # fmt: skip
            parts.append(notebook.table([*titles, ("values", False)], rows) if rows else "")
        return "".join(parts) + notebook.facts(self.notes)


class SourcePage(PageReply[SourceView]):
    """Sources, the newest first."""

    sources: list[SourceView]


def join_tables(tenant: Tenant, source: Source) -> None:
    """Find likely joins of a source's tables, among themselves and with others of the same owner."""
    where = (equal("project_id", source.project_id), equal("user_id", source.user_id))
    others = tenant.find(Query(Source, where, (Order("id", descending=True),), limit=MOST_JOINED)).records
    known = [one for one in tables_of(tenant, others) if one.table.digest or one.sample][:MOST_JOINED]
    if len(known) < 2:
        return
    by_name = {one.sql_name: one for one in known}
    with local_files(tenant, known, samples=True) as files:
        joins = tenant.data_engine().joins(files, limits=READING)
    found: dict[str, list[dict[str, object]]] = {one.table.id: [] for one in known}
    for join in joins:
        target = by_name[join.to_table].table
        found[by_name[join.table].table.id].append(
            {"column": join.column, "to_table": target.id, "to_name": join.to_table, "to_column": join.to_column,
             "containment": join.containment, "reason": join.reason}
        )  # fmt: skip
    changed = [one.table for one in known if one.table.joins != found[one.table.id]]
    if changed:
        tenant.transact([Put(rewritten(table, tenant, joins=found[table.id])) for table in changed])


class SourceRequest(Request):
    """One source."""

    id: Id = Having(description="The source: its id or its name")


class ShowSourceRequest(SourceRequest):
    """Which source to show."""

    fields: bool = Having(True, description="Also its columns with their statistics")


def named_source(tenant: Tenant, id: str, *, deleted: bool = False) -> Source:
    """The source with this id, or the only one with this name."""
    if tenant.get(Source, id, deleted=deleted) is None:
        query = Query(Source, (equal("name", id),), (Order("id"),), limit=2, deleted="yes" if deleted else "no")
        found = tenant.find(query).records
        if len(found) == 2:
            raise InvalidInput(
                f"there are several sources named '{id[:80]}'", remedy="give the id; `source.list` shows it"
            )
        if found:
            return found[0]
    return load(tenant, Source, id, deleted=deleted)


def show_source(tenant: Tenant, request: ShowSourceRequest) -> SourceView:
    """A source with its tables, and what is known of their columns."""
    return source_view(tenant, named_source(tenant, request.id), with_fields=request.fields)


class ListSourcesRequest(Request):
    """Which sources to list."""

    project: Id | None = Having(None, description="Only those of this project")
    user: Id | None = Having(None, description="Only those of this user")
    connection: Id | None = Having(None, description="Only the tables of this connection")
    removed: bool = Having(False, description="List removed ones that can be restored instead")
    limit: int = Having(50, ge=1, le=200, description="How many at most")
    after: QueryText | None = Having(None, description="The `next` of the page before")


def list_sources(tenant: Tenant, request: ListSourcesRequest) -> SourcePage:
    """Sources with their tables, the newest first."""
    given = {"project_id": request.project, "user_id": request.user, "connection_id": request.connection}
    where = tuple(equal(name, value) for name, value in given.items() if value is not None)
    page = tenant.find(
        Query(
            Source,
            where,
            (Order("created_at", descending=True),),
            limit=request.limit,
            after=request.after,
            deleted="only" if request.removed else "no",
        )
    )
    known = tables_of(tenant, page.records)
    views = [_view(tenant, source, [one for one in known if one.source.id == source.id], {}) for source in page.records]
    return SourcePage(sources=views, next=page.next)


class VersionView(Reply):
    """One version of a source."""

    number: int
    created_at: datetime
    created_by: str | None = None
    bytes: int
    hash: str
    path: str = ""
    tables: JsonList = Having(default_factory=list)
    changes: JsonList = Having(default_factory=list)


class VersionPage(PageReply[VersionView]):
    """The versions of a source, the newest first."""

    versions: list[VersionView]


def list_versions(tenant: Tenant, request: SourceRequest) -> VersionPage:
    """Every version of a source, with what it changed."""
    source = named_source(tenant, request.id)
    query = Query(SourceVersion, (equal("source_id", source.id),), (Order("number", descending=True),), limit=200)
    page = tenant.find(query)
    versions = [
        VersionView(
            number=one.number, created_at=one.created_at, created_by=one.created_by, bytes=one.size,
            hash=one.content_hash, path=one.path, tables=one.tables, changes=one.changes,
        )
        for one in page.records
    ]  # fmt: skip
    return VersionPage(versions=versions, next=page.next)


class ReviseSourceRequest(SourceRequest):
    """Change how a source is described; what is left out stays."""

    name: Name | None = Having(None, description="What to call it")
    description: Text | None = Having(None, description="What it is about")
    tables: dict[str, Text] = Having(default_factory=dict, description="What tables are about, by name")
    columns: dict[str, Text] = Having(
        default_factory=dict, description="What columns are about, as table.column and its description"
    )


def revise_source(tenant: Tenant, request: ReviseSourceRequest) -> SourceView:
    """Change the name and descriptions of a source, its tables and columns."""
    source = named_source(tenant, request.id)
    given = request.model_dump(include={"name", "description"}, exclude_none=True)
    known = tables_of(tenant, [source])
    fields = fields_of(tenant, [one.table for one in known])
    tables = _described_tables(tenant, known, request.tables)
    columns = _described_columns(tenant, known, fields, request.columns)
    if not (given or tables or columns):
        raise InvalidInput("nothing to change was given", remedy="give name, description, tables or columns")
    after = rewritten(source, tenant, **given)
    changed = [*([after] if given else []), *tables.values(), *columns.values()]
    steps: list[Step] = [Update(one) for one in changed]
    touched = {*tables, *(field.table_id for field in columns.values())}
    described: list[Source | Table | Field] = [after]
    for one in known:
        if one.table.id in touched:
            described.append(tables.get(one.table.id, one.table))
            described += [columns.get(field.id, field) for field in fields[one.table.id]]
    steps += embedding_steps(tenant, described, replacing=True) if touched else []
    commit(tenant, [*steps, logged(tenant, "update", "source.revise", None, id=source.id)])
    return source_view(tenant, load(tenant, Source, source.id), with_fields=True)


def _described_tables(tenant: Tenant, known: Sequence[KnownTable], given: dict[str, str]) -> dict[str, Table]:
    """The tables with their new descriptions, by id."""
    by_name = {one.table.name.casefold(): one.table for one in known}
    changed: dict[str, Table] = {}
    for name, text in given.items():
        table = by_name.get(name.casefold())
        if table is None:
            raise InvalidInput(f"there is no table '{name[:80]}'", remedy=f"it has {_listing(by_name)}")
        changed[table.id] = rewritten(table, tenant, description=text)
    return changed


def _described_columns(
    tenant: Tenant, known: Sequence[KnownTable], fields: Mapping[str, Sequence[Field]], given: dict[str, str]
) -> dict[str, Field]:
    """The fields with their new descriptions, by id."""
    by_name = {f"{one.table.name}.{field.name}".casefold(): field for one in known for field in fields[one.table.id]}
    changed: dict[str, Field] = {}
    for name, text in given.items():
        field = by_name.get(name.casefold())
        if field is None:
            raise InvalidInput(f"there is no column '{name[:80]}'", remedy="give it as table.column")
        changed[field.id] = rewritten(field, tenant, description=text)
    return changed


def _listing(names: Sequence[str] | dict[str, Table]) -> str:
    return clipped(", ".join(names), 200) or "none"


class RemoveSourceRequest(SourceRequest):
    """Which source to remove."""

    for_good: bool = Having(False, description="Delete it immediately and for good: it cannot be restored")


class RemoveSourceReply(Reply):
    """What was removed."""

    id: str
    name: str
    for_good: bool
    restorable_until: datetime | None = None


def remove_source(tenant: Tenant, request: RemoveSourceRequest) -> RemoveSourceReply:
    """Remove a source with its tables; it can be restored for a while, unless it is deleted for good."""
    source = named_source(tenant, request.id, deleted=request.for_good)
    if source.connection_id is not None:
        raise InvalidInput("these are the tables of a connection", remedy="remove the connection: connection.remove")
    refuse_held(tenant, {"source": [source.id]})
    entry = logged(tenant, "delete", "source.remove", None, id=source.id, for_good=request.for_good)
    if not request.for_good:
        commit(tenant, [Update(rewritten(source, tenant, is_deleted=True)), entry, *due_steps(tenant, source.id)])
        until = now() + timedelta(days=tenant.restore_days)
        return RemoveSourceReply(id=source.id, name=source.name, for_good=False, restorable_until=until)
    delete_for_good(tenant, [source], entry, *due_steps(tenant, source.id))
    return RemoveSourceReply(id=source.id, name=source.name, for_good=True)


def delete_for_good(tenant: Tenant, sources: Sequence[Source], *more: Step, provided: Sequence[Step] = ()) -> None:
    """Delete sources with everything that is theirs: their bytes, unless others need them, and the queries that read
    them, whose records hold rows of them. Nothing is deleted unless what is `provided` holds.
    """
    ids = [source.id for source in sources]
    notes = [*deleting_steps(tenant, ids), *(owing(tenant, id) for id in ids)]
    runs = [DeleteWhere(QueryRun, (Holds("source_ids", id),)) for id in ids]
    commit(tenant, [*provided, *notes, *runs, *(Delete(Source, id) for id in ids), *more])
    erase_traces(tenant)


def overdue_sources(tenant: Tenant) -> list[Source]:
    """Sources that were removed so long ago that they can no longer be restored."""
    ended = Compare("updated_at", "<", now() - timedelta(days=tenant.restore_days))
    return tenant.find(Query(Source, (ended,), deleted="only")).records


def restore_source(tenant: Tenant, request: SourceRequest) -> SourceView:
    """Bring a removed source back."""
    source = named_source(tenant, request.id, deleted=True)
    if not source.is_deleted:
        return source_view(tenant, source)
    entry = logged(tenant, "update", "source.restore", None, id=source.id)
    commit(tenant, [Update(rewritten(source, tenant, is_deleted=False)), entry, *due_steps(tenant, source.id)])
    return source_view(tenant, load(tenant, Source, source.id))


class ProfileSourceRequest(SourceRequest):
    """Which source to look at as a whole."""


def profile_source(
    tenant: Tenant, request: ProfileSourceRequest, progress: Progress = lambda done, of: None
) -> SourceView:
    """Profile every row of a source of which only a sample was looked at."""
    source = named_source(tenant, request.id)
    known = [one for one in tables_of(tenant, [source]) if one.table.profiled != "whole"]
    for at, one in enumerate(known):
        profile_whole(tenant, one, partial(_report, progress, at, len(known)))
    return source_view(tenant, load(tenant, Source, source.id), with_fields=True)


def _report(progress: Progress, at: int, of: int, what: str, part: float) -> None:
    progress(int(100 * (at + part)), 100 * of)


def profile_whole(tenant: Tenant, known: KnownTable, progress: Callable[[str, float], None] | None = None) -> None:
    """Look at all rows of a table; what a newer version has replaced meanwhile is left alone."""
    with local_files(tenant, [known]) as files, deleted_on_failure(tenant) as kept:
        rows = files[known.sql_name]
        profile = tenant.data_engine().profile(rows, limits=READING, progress=progress)
        columns = len(profile.columns)
        values = value_lists.build(tenant, rows, source_id=known.source.id, columns=columns, limits=READING)
        kept += [values] if values else []
        before = {field.name: field for field in fields_of(tenant, [known.table])[known.table.id]}
        fields = [field_record(tenant, known.table.id, column, at) for at, column in enumerate(profile.columns)]
        described = [
            field.changed(description=before[field.name].description) for field in fields if field.name in before
        ]
        said = {"profiled": "whole", "metadata": {**known.table.metadata, "keys": profile.keys}}
        table = rewritten(known.table, tenant, **said, values_digest=values.digest if values else None)
        vectors = embedding_steps(tenant, [known.source, table, *described], replacing=True)
        commit(tenant, [Update(table), *(step for one in kept for step in one.steps), *map(Put, described), *vectors])


_SAMPLED = (equal("profiled", "sample"), Compare("digest", ">", ""))


def sampled_tables(tenant: Tenant) -> int:
    """How many tables were only sampled so far."""
    return tenant.count(Query(Table, _SAMPLED))


def profile_next(tenant: Tenant) -> None:
    """Profile the whole of one table that was only sampled."""
    found = tenant.find(Query(Table, _SAMPLED, (Order("updated_at"),), limit=1)).records
    source = tenant.get(Source, found[0].source_id) if found else None
    if source is not None:
        profile_whole(tenant, next(one for one in tables_of(tenant, [source]) if one.table.id == found[0].id))


def source_view(
    tenant: Tenant, source: Source, *, is_new: bool = False, with_fields: bool = False, notes: Sequence[str] = ()
) -> SourceView:
    known = tables_of(tenant, [source])
    fields = fields_of(tenant, [one.table for one in known]) if with_fields or is_new else {}
    view = _view(tenant, source, known, fields)
    if source.revision > 1:
        where = (equal("source_id", source.id), equal("number", source.revision))
        rows = tenant.select(Query(SourceVersion, where, limit=1), ("changes",))
        view.changes = rows[0][0] if rows else []
    view.is_new, view.notes = is_new, list(notes)
    return view


def _view(
    tenant: Tenant, source: Source, known: Sequence[KnownTable], fields: Mapping[str, Sequence[Field]]
) -> SourceView:
    until = source.updated_at + timedelta(days=tenant.restore_days) if source.is_deleted else None
    return SourceView(
        id=source.id,
        name=source.name,
        description=source.description,
        format=source.format,
        bytes=source.size,
        hash=source.content_hash,
        version=source.revision,
        project=source.project_id,
        user=source.user_id,
        connection=source.connection_id,
        created_at=source.created_at,
        updated_at=source.updated_at,
        tables=[_table_view(one, fields.get(one.table.id, ())) for one in known],
        restorable_until=until,
    )


def _table_view(known: KnownTable, fields: Sequence[Field]) -> TableView:
    table = known.table
    return TableView(
        name=known.sql_name,
        rows=table.row_count,
        bytes=table.size,
        description=table.description,
        profiled=table.profiled,
        rejected=table.rejected_count,
        rejected_rows=table.rejected,
        keys=table.metadata.get("keys", []),
        joins=table.joins,
        notes=table.metadata.get("notes", []),
        fields=[
            FieldView(
                name=field.name,
                type=field.type,
                meaning=field.meaning,
                description=field.description,
                statistics=field.statistics,
                samples=field.sample_values,
            )
            for field in fields
        ],
    )
