"""Tables made ready for questions: their schema, values and likely joins, read from the records and kept for the next.

What is kept depends on the state of the tables alone, so a new version of a source is made ready anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from recollect.domain.memory import canonical
from recollect.domain.record import JsonObject
from recollect.domain.sources import Field, Table
from recollect.errors import DamagedData, NotFound
from recollect.ports.data import ColumnProfile, ForeignKey, Join, TableProfile, Tables, ValueCount
from recollect.services.data.tables import KnownTable, fields_of
from recollect.services.data.value_lists import load
from recollect.services.tenant import Tenant

if TYPE_CHECKING:
    from recollect.services.data.asking.analysis import Prepared

MOST_KEPT = 8


def prepared_for(tenant: Tenant, known: Sequence[KnownTable], files: Tables) -> Prepared:
    """The tables as the asking engine wants them."""
    from recollect.services.data.asking.analysis import Prepared
    from recollect.services.data.asking.profiles import schema_of, value_lists

    fields = fields_of(tenant, [one.table for one in known])
    key = _key(tenant, known, fields)
    kept = tenant.prepared.get(key)
    if isinstance(kept, Prepared):
        return kept
    schema = schema_of(
        {one.sql_name: profile_of(one.table, fields[one.table.id]) for one in known},
        joins_of(known),
        {one.sql_name: _declared(one, known) for one in known},
        _descriptions(known, fields),
    )
    values = {one.sql_name: _values(tenant, files, one) for one in known}
    prepared = Prepared(schema, value_lists(schema, values), tenant.question_encoder.embed, tenant.query_ranker.compare)
    while len(tenant.prepared) >= MOST_KEPT:
        tenant.prepared.pop(next(iter(tenant.prepared)), None)
    tenant.prepared[key] = prepared
    return prepared


def _values(tenant: Tenant, files: Tables, known: KnownTable) -> Mapping[str, Sequence[ValueCount]]:
    try:
        listed = load(tenant, known.table)
    except (NotFound, DamagedData):  # they are made of the rows, which are there
        listed = None
    return listed if listed is not None else tenant.data_engine().values(files[known.sql_name])


def _key(tenant: Tenant, known: Sequence[KnownTable], fields: Mapping[str, Sequence[Field]]) -> bytes:
    state = [
        [
            one.sql_name,
            one.table.id,
            one.table.digest,
            one.table.version,
            [field.version for field in fields[one.table.id]],
        ]
        for one in known
    ]
    return canonical([tenant.scope.organization_id, state])


def profile_of(table: Table, fields: Sequence[Field]) -> TableProfile:
    """The profile of a table, as its records have kept it."""
    rows = max((int(field.statistics.get("rows", 0)) for field in fields), default=0)
    return TableProfile(
        rows=table.row_count,
        sampled=rows,
        columns=[_column(field) for field in fields],
        keys=list(table.metadata.get("keys", [])),
        bytes=table.size,
    )


def _column(field: Field) -> ColumnProfile:
    said: JsonObject = field.statistics
    return ColumnProfile(
        name=field.name,
        type=field.type,
        meaning=field.meaning or "text",  # type: ignore[arg-type]  # as the profile said
        rows=said.get("rows", 0),
        nulls=said.get("nulls", 0),
        distinct=said.get("distinct", 0),
        is_distinct_exact=said.get("is_distinct_exact", False),
        min=said.get("min"),
        max=said.get("max"),
        top=[ValueCount(one["value"], one["count"]) for one in said.get("top", [])],
        samples=field.sample_values,
        is_key=said.get("is_key", False),
    )


def joins_of(known: Sequence[KnownTable]) -> list[Join]:
    """The likely joins among some tables, by their names in SQL."""
    by_id = {one.table.id: one.sql_name for one in known}
    return [
        Join(
            one.sql_name,
            join["column"],
            by_id[join["to_table"]],
            join["to_column"],
            join["containment"],
            join["reason"],
        )
        for one in known
        for join in one.table.joins
        if join["to_table"] in by_id
    ]


def _declared(table: KnownTable, known: Sequence[KnownTable]) -> list[ForeignKey]:
    """The keys that a database file declares, by the names in SQL."""
    names = {
        str(one.table.metadata.get("original_name", one.table.name)).casefold(): one.sql_name
        for one in known
        if one.source.id == table.source.id
    }
    return [
        ForeignKey(key["column"], names[key["to_table"].casefold()], key["to_column"])
        for key in table.table.metadata.get("foreign_keys", [])
        if key["to_table"].casefold() in names
    ]


def _descriptions(known: Sequence[KnownTable], fields: Mapping[str, Sequence[Field]]) -> dict[tuple[str, str], str]:
    said = {(one.sql_name, ""): one.table.description for one in known if one.table.description}
    for one in known:
        said |= {(one.sql_name, field.name): field.description for field in fields[one.table.id] if field.description}
    return said
