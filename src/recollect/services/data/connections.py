"""Connections: outside databases that are read where they are, with a profile of their tables taken from samples.

Adding one connects, reads the schema, samples the tables and lists them as a source, in one transaction at the end.
The password is never stored or shown: a connection names the environment variable or file that holds it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from pydantic import Field as Having

from recollect.domain.database_address import DatabaseAddress
from recollect.domain.memory import canonical
from recollect.domain.record import Id, Json, JsonList, Name, QueryText, Text, derived_id, now
from recollect.domain.sources import Connection, Source
from recollect.errors import InvalidInput, RecollectError
from recollect.ports.connections import DatabaseFacts, OutsideDatabase, OutsideSchema
from recollect.ports.query import Order, Query, equal
from recollect.ports.steps import Delete, Insert, Update
from recollect.services.data.connection_tables import MOST_TABLES, Sampling, with_former_descriptions
from recollect.services.data.contents import deleted_on_failure
from recollect.services.data.outside_tables import opened
from recollect.services.data.profiles import changes_between
from recollect.services.data.sources import Progress, delete_for_good, join_tables
from recollect.services.data.tables import fields_of, tables_of
from recollect.services.data.uploads import list_tables
from recollect.services.legal_holds import refuse_held
from recollect.services.requests import AS_GIVEN, PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten


class AddConnectionRequest(Request):
    """A database to read."""

    name: Name = Having(description="What to call it; its tables are a source of this name")
    address: Annotated[Text, AS_GIVEN] = Having(
        max_length=4000,
        description="postgresql://user@host/database, mysql://user@host/database or sqlite:///path/to/file.db; "
        "never with a password",
    )
    secret_env: Text | None = Having(
        None, max_length=255, description="The environment variable with the password, where Recollect runs"
    )
    secret_file: Text | None = Having(None, max_length=4000, description="A file with the password instead")
    options: dict[Text, Text] = Having(
        default_factory=dict, max_length=10, description="TLS: sslmode, sslrootcert, sslcert, sslkey"
    )
    project: Id | None = Having(None, description="The project it belongs to")
    description: Text = Having("", max_length=20_000, description="What it is about")
    sample_rows: int = Having(5000, ge=1, le=100_000, description="How many rows of each table to look at")


class ConnectionRequest(Request):
    """One connection."""

    id: Id = Having(description="The connection: its id or its name")


class ListConnectionsRequest(Request):
    """Which connections to list."""

    project: Id | None = Having(None, description="Only those of this project")
    limit: int = Having(50, ge=1, le=200, description="How many at most")
    after: QueryText | None = Having(None, description="The `next` of the page before")


class RefreshConnectionRequest(ConnectionRequest):
    """Which connection to read again."""

    sample_rows: int = Having(5000, ge=1, le=100_000, description="How many rows of each table to look at")


class ConnectionTable(Reply):
    """A table of a connection, by its name in SQL."""

    name: str
    rows: int = Having(description="How many rows it has, about")
    columns: int
    description: str = ""
    profiled: str = Having("none", description="What its profile rests on: none, sample or whole")


class ConnectionView(Reply):
    """A connection, what was found there, and its tables."""

    id: str
    name: str
    engine: str
    address: str = Having(description="Server and database, without options")
    secret: str | None = Having(None, description="The name of the secret: an environment variable, or file:…")
    project: str | None = None
    source: str | None = Having(None, description="The source that its tables are")
    facts: Json = Having(default_factory=dict, description="Server, version, is_read_only, is_replica, is_encrypted")
    problem: str = Having("", description="Why the last check failed; empty if it did not")
    checked_at: datetime | None = None
    tables: list[ConnectionTable] = Having(default_factory=list)
    changes: JsonList = Having(default_factory=list, description="What was different when it was read again")
    notes: list[str] = Having(default_factory=list)


class ConnectionPage(PageReply[ConnectionView]):
    """Connections by name, without their tables."""

    connections: list[ConnectionView]


class RemoveConnectionReply(Reply):
    """What was removed."""

    id: str
    name: str


def add_connection(
    tenant: Tenant, request: AddConnectionRequest, progress: Progress = lambda done, of: None
) -> ConnectionView:
    """Connect to a database, read its schema, and sample its tables, so that questions can be asked of them."""
    parsed = DatabaseAddress.parse(request.address, request.options)
    connection: Connection = made(
        Connection,
        tenant,
        id=derived_id("connection", request.name.casefold()),
        name=request.name,
        engine=parsed.engine,
        address=request.address.strip(),
        secret_name=_secret_name(request),
        options=request.options,
        project_id=request.project,
    )
    taken = tenant.find(Query(Source, (equal("name", request.name),), limit=1)).records
    if taken or _named(tenant, request.name) is not None:
        raise InvalidInput(f"there is a source named '{request.name}' already", remedy="choose another name")
    database = opened(tenant, connection)
    facts = database.check()
    source = _new_source(tenant, connection, request.description)
    return _read(tenant, connection, source, None, database, facts, request.sample_rows, progress)


def _new_source(tenant: Tenant, connection: Connection, description: str = "") -> Source:
    """The source that the tables of a connection are."""
    source: Source = made(
        Source,
        tenant,
        id=derived_id("source", "connection", connection.id),
        name=connection.name,
        description=description,
        path=_shown(connection),
        content_hash="",
        format=connection.engine,
        media_type="application/sql",
        status="profiled",
        connection_id=connection.id,
        project_id=connection.project_id,
    )
    return source


def _secret_name(request: AddConnectionRequest) -> str | None:
    if request.secret_env is not None and request.secret_file is not None:
        raise InvalidInput("two secrets were given", remedy="give secret_env or secret_file")
    if request.secret_env is not None and request.secret_env.startswith("file:"):
        raise InvalidInput("this is not the name of an environment variable", remedy="give secret_file for a file")
    return f"file:{request.secret_file}" if request.secret_file is not None else request.secret_env


def refresh_connection(
    tenant: Tenant, request: RefreshConnectionRequest, progress: Progress = lambda done, of: None
) -> ConnectionView:
    """Read the schema again and sample the tables anew; the reply says what changed."""
    connection = named_connection(tenant, request.id)
    before = _source_of(tenant, connection)
    database = opened(tenant, connection)
    facts = database.check()
    source = rewritten(before, tenant, revision=before.revision + 1) if before else _new_source(tenant, connection)
    return _read(tenant, connection, source, before, database, facts, request.sample_rows, progress)


def _read(
    tenant: Tenant, connection: Connection, source: Source, before: Source | None, database: OutsideDatabase,
    facts: DatabaseFacts, sample_rows: int, progress: Progress,
) -> ConnectionView:  # fmt: skip
    """List what the database has: everything in one transaction, after everything was read."""
    schema = database.schema(most_tables=MOST_TABLES)
    source = source.changed(content_hash=_schema_hash(schema))
    connection = connection.changed(facts=asdict(facts), problem="", checked_at=now())
    old = [known.table for known in tables_of(tenant, [before])] if before is not None else []
    old_fields = fields_of(tenant, old)
    with tempfile.TemporaryDirectory(prefix="recollect-samples-") as folder, deleted_on_failure(tenant) as kept:
        sampling = Sampling(tenant, source, database, Path(folder), sample_rows, time.monotonic(), kept)
        drafts = sampling.drafts(schema, progress)
        drafts = with_former_descriptions(drafts, old, old_fields)
        changes = changes_between(
            old, old_fields, [one.table for one in drafts], {one.table.id: one.fields for one in drafts}
        )
        is_known = tenant.get(Connection, connection.id) is not None
        first = [Update(rewritten(connection, tenant))] if is_known else [Insert(connection)]
        action = "connection.refresh" if is_known else "connection.add"
        notes = list_tables(tenant, source, before, drafts, [], action, first)
    join_tables(tenant, source)
    view = _view(tenant, load(tenant, Connection, connection.id), with_tables=True)
    view.notes = [*facts.notes, *_left_out(schema), *schema.notes, *sampling.notes, *notes]
    view.changes = list(changes) if before is not None else []
    return view


def _schema_hash(schema: OutsideSchema) -> str:
    """Of the names and types of all columns. The rows are not ours: they may be others at any time."""
    listed = [[table.name, [[column.name, column.type] for column in table.columns]] for table in schema.tables]
    return "d1:" + sha256(canonical(listed)).hexdigest()


def _left_out(schema: OutsideSchema) -> list[str]:
    if not schema.left_out:
        return []
    return [f"{schema.left_out:,} more tables were left out; use a login that sees only what is needed"]


def check_connection(tenant: Tenant, request: ConnectionRequest) -> ConnectionView:
    """Try a connection now; the reply says what was found, or why it failed."""
    connection = named_connection(tenant, request.id)
    try:
        facts, problem = asdict(opened(tenant, connection).check()), ""
    except RecollectError as error:
        facts, problem = connection.facts, str(error)
    changed = rewritten(connection, tenant, facts=facts, problem=problem, checked_at=now())
    entry = logged(tenant, "update", "connection.check", None, id=connection.id, works=not problem)
    commit(tenant, [Update(changed), entry])
    return _view(tenant, changed, with_tables=True)


def list_connections(tenant: Tenant, request: ListConnectionsRequest) -> ConnectionPage:
    """The connections, by name."""
    where = (equal("project_id", request.project),) if request.project is not None else ()
    page = tenant.find(Query(Connection, where, (Order("name"),), limit=request.limit, after=request.after))
    return ConnectionPage(connections=[_view(tenant, one) for one in page.records], next=page.next)


def show_connection(tenant: Tenant, request: ConnectionRequest) -> ConnectionView:
    """A connection with its tables."""
    return _view(tenant, named_connection(tenant, request.id), with_tables=True)


def remove_connection(tenant: Tenant, request: ConnectionRequest) -> RemoveConnectionReply:
    """Remove a connection and what is known of its tables; the database itself is not touched."""
    connection = named_connection(tenant, request.id)
    source = _source_of(tenant, connection)
    refuse_held(tenant, {"connection": [connection.id]})
    entry = logged(tenant, "delete", "connection.remove", None, id=connection.id)
    delete_for_good(tenant, [source] if source is not None else [], Delete(Connection, connection.id), entry)
    return RemoveConnectionReply(id=connection.id, name=connection.name)


def named_connection(tenant: Tenant, id: str) -> Connection:
    """The connection with this id or name."""
    found = tenant.get(Connection, id) or _named(tenant, id)
    return found if found is not None else load(tenant, Connection, id)


def _named(tenant: Tenant, name: str) -> Connection | None:
    found = tenant.find(Query(Connection, (equal("name", name),), limit=1)).records
    return found[0] if found else None


def _source_of(tenant: Tenant, connection: Connection) -> Source | None:
    found = tenant.find(Query(Source, (equal("connection_id", connection.id),), (Order("id"),), limit=1)).records
    return found[0] if found else None


def _view(tenant: Tenant, connection: Connection, *, with_tables: bool = False) -> ConnectionView:
    source = _source_of(tenant, connection)
    known = tables_of(tenant, [source]) if source is not None and with_tables else []
    fields = fields_of(tenant, [one.table for one in known])
    return ConnectionView(
        id=connection.id,
        name=connection.name,
        engine=connection.engine,
        address=_shown(connection),
        secret=connection.secret_name,
        project=connection.project_id,
        source=source.id if source is not None else None,
        facts=connection.facts,
        problem=connection.problem,
        checked_at=connection.checked_at,
        tables=[
            ConnectionTable(
                name=one.sql_name,
                rows=one.table.row_count,
                columns=len(fields[one.table.id]),
                description=one.table.description,
                profiled=one.table.profiled,
            )
            for one in known
        ],
    )


def _shown(connection: Connection) -> str:
    """An imported record may hold anything; what cannot be read as an address is not shown."""
    try:
        return str(DatabaseAddress.parse(connection.address, connection.options))
    except InvalidInput:
        return f"{connection.engine}://…"
