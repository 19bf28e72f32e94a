"""The tables that a statement may read: which there are, what each is called in SQL, and its rows as a local file.

Names are unique within a source. Where two sources have a table of the same name, the older keeps it and the other is
called `source_table`, the same for everybody who asks about the same sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from recollect.domain.memory import canonical
from recollect.domain.record import Id
from recollect.domain.sources import Field, Source, Table
from recollect.errors import InvalidInput, NotFound
from recollect.ports.query import AnyOf, Filter, OneOf, Order, Query, equal
from recollect.services.tenant import Tenant

MOST_SOURCES = 2000
_WORD = re.compile(r"\W+")


@dataclass(frozen=True)
class KnownTable:
    """A table with its source, and its name in SQL."""

    sql_name: str
    table: Table
    source: Source

    @property
    def sample(self) -> str | None:
        """Of a table of a connection: the object with some of its rows."""
        digest: str | None = self.table.metadata.get("sample")
        return digest


def sources_named(
    tenant: Tenant, names: Sequence[str] = (), project: Id | None = None, user: Id | None = None
) -> list[Source]:
    """The sources with these ids or names; without any, all of the project or user. The oldest first."""
    where: list[Filter] = []
    if names:
        where.append(AnyOf((OneOf("id", tuple(names)), OneOf("name", tuple(names)))))
    if project is not None:
        where.append(equal("project_id", project))
    if user is not None:
        where.append(equal("user_id", user))
    found = tenant.find(Query(Source, tuple(where), (Order("id"),), limit=MOST_SOURCES + 1)).records
    if len(found) > MOST_SOURCES:
        raise InvalidInput(
            f"there are more than {MOST_SOURCES:,} sources to read", remedy="name those you mean, or give a project"
        )
    known = {one.id for one in found} | {one.name for one in found}
    missing = [name for name in names if name not in known]
    if missing:
        raise NotFound(
            f"there is no source '{missing[0][:80]}'",
            remedy="`source.list` shows them; `source.add` adds one",
            id=missing[0][:255],
        )
    return sorted(found, key=lambda one: (one.created_at, one.id))


def tables_of(tenant: Tenant, sources: Sequence[Source]) -> list[KnownTable]:
    """All tables of some sources, each with a name of its own."""
    if not sources:
        return []
    by_id = {source.id: source for source in sources}
    order = {source.id: at for at, source in enumerate(sources)}
    query = Query(Table, (OneOf("source_id", tuple(by_id)),), (Order("id"),))
    found = tenant.find(query).records
    found.sort(key=lambda table: (order[table.source_id], table.metadata.get("position", 0)))
    known: list[KnownTable] = []
    taken: set[str] = set()
    for table in found:
        source = by_id[table.source_id]
        name = _free_name(taken, table.name, f"{source.name}_{table.name}")
        taken.add(name.casefold())
        known.append(KnownTable(name, table, source))
    return known


def fields_of(tenant: Tenant, tables: Sequence[Table]) -> dict[str, list[Field]]:
    """The fields of each table, in their order."""
    found: dict[str, list[Field]] = {table.id: [] for table in tables}
    if tables:
        for field in tenant.find(Query(Field, (OneOf("table_id", tuple(found)),), (Order("id"),))).records:
            found[field.table_id].append(field)
    return {id: sorted(fields, key=lambda field: field.position) for id, fields in found.items()}


@contextmanager
def local_files(tenant: Tenant, tables: Iterable[KnownTable], *, samples: bool = False) -> Iterator[dict[str, Path]]:
    """The rows of tables as local files, by their names in SQL; with `samples`, some rows of those of connections."""
    with ExitStack() as open_files:
        files: dict[str, Path] = {}
        for known in tables:
            digest = known.table.digest or (known.sample if samples else None)
            if digest is None:
                raise InvalidInput(
                    f"the rows of the table '{known.sql_name}' are not stored here",
                    remedy=f"they are in the database of the connection '{known.source.name}'",
                )
            fetched = tenant.objects.fetch(tenant.content_place, digest)
            files[known.sql_name] = open_files.enter_context(fetched)
        yield files


def fingerprint_of(columns: Iterable[tuple[str, str]]) -> str:
    """Of the columns of a table and their types, whatever their order."""
    return "t1:" + sha256(canonical(sorted([name.casefold(), type] for name, type in columns))).hexdigest()[:32]


def schema_fingerprint(tables: Iterable[Table]) -> str:
    """Of the tables that a statement reads: what fits them fits tables with the same fingerprint."""
    named = sorted([table.name.casefold(), table.fingerprint] for table in tables)
    return "s1:" + sha256(canonical(named)).hexdigest()[:32]


def state_of(sources: Iterable[Source]) -> dict[str, dict[str, object]]:
    """What a result rests on: the sources as they are now."""
    return {
        source.id: {"name": source.name, "revision": source.revision, "hash": source.content_hash} for source in sources
    }


def readable_name(text: str) -> str:
    """A name for SQL that needs no quotes: letters, digits and underscores of any script."""
    name = _WORD.sub("_", text.strip()).strip("_")[:100] or "data"
    return f"t_{name}" if name[0].isdigit() else name


def table_names(wanted: Iterable[str]) -> list[str]:
    """Names for the tables of a source: readable, and each another."""
    names: list[str] = []
    for text in wanted:
        base = readable_name(text)
        names.append(_free_name({name.casefold() for name in names}, base))
    return names


def _free_name(taken: set[str], *wanted: str) -> str:
    for name in wanted:
        if name.casefold() not in taken:
            return name
    number = 2
    while f"{wanted[-1]}_{number}".casefold() in taken:
        number += 1
    return f"{wanted[-1]}_{number}"
