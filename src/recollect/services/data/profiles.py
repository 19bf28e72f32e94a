"""What is known of a table: its profile as records of it and of its fields, and what a new version changes in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import TypedDict

from recollect.domain.record import JsonObject, clipped, derived_id, storable_json
from recollect.domain.sources import Field, Table, sample_text
from recollect.ports.data import ColumnProfile, NewTable, TableProfile
from recollect.services.data.tables import fingerprint_of
from recollect.services.secrets import masked_value
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

SAMPLE_ROWS = 200_000
MOST_REJECTED_SHOWN = 100
LONGEST_VALUE = 500


class ColumnChange(TypedDict, total=False):
    """One difference between two versions of a source."""

    change: str
    table: str
    column: str
    before: object
    after: object


def table_records(
    tenant: Tenant, source_id: str, name: str, new: NewTable, profile: TableProfile, position: int
) -> tuple[Table, list[Field]]:
    """The records of a new table. The same table of the same source has the same id in every version."""
    id = derived_id(source_id, name.casefold())
    table: Table = made(
        Table,
        tenant,
        id=id,
        source_id=source_id,
        name=name,
        row_count=new.rows,
        size=profile.bytes,
        rejected_count=new.rejected_count,
        rejected=masked_value(tenant, [_plain(asdict(row)) for row in new.rejected[:MOST_REJECTED_SHOWN]]),
        fingerprint=fingerprint_of((column.name, column.type) for column in new.columns),
        metadata={
            "position": position,
            "original_name": new.name,
            "keys": profile.keys,
            "notes": [*new.notes, *profile.notes],
            "foreign_keys": [asdict(key) for key in new.foreign_keys],
        },
        **_extent(profile),
    )
    return table, [field_record(tenant, id, column, at) for at, column in enumerate(profile.columns)]


def field_record(tenant: Tenant, table_id: str, column: ColumnProfile, position: int) -> Field:
    """A column with what its profile says."""
    samples = masked_value(tenant, [_short(value) for value in column.samples])
    field: Field = made(
        Field,
        tenant,
        id=derived_id(table_id, column.name),
        table_id=table_id,
        name=clipped(column.name, 255),
        type=column.type,
        meaning=column.meaning,
        position=position,
        statistics=masked_value(tenant, _statistics(column)),
        sample_values=samples,
        sample_text=clipped(sample_text(column.name, [value for value in samples if isinstance(value, str)]), 2000),
    )
    return field


def _extent(profile: TableProfile) -> dict[str, object]:
    return {"profiled": "sample" if profile.is_sample else "whole"}


def _statistics(column: ColumnProfile) -> JsonObject:
    told = {
        "rows": column.rows,
        "nulls": column.nulls,
        "distinct": column.distinct,
        "is_distinct_exact": column.is_distinct_exact,
        "min": _short(column.min),
        "max": _short(column.max),
        "mean": column.mean,
        "quantiles": column.quantiles,
        "histogram": [asdict(bin) for bin in column.histogram],
        "top": [{"value": _short(one.value), "count": one.count} for one in column.top],
        "is_key": column.is_key,
    }
    return _plain(told)


def _plain(value: Mapping[str, object]) -> JsonObject:
    """JSON that every store can keep: what no store keeps in a text (NUL, half a surrogate pair) is replaced."""
    return {name: _kept(inner) for name, inner in value.items()}


def _kept(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(_kept(key)): _kept(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_kept(inner) for inner in value]
    return storable_json(value)


def _short(value: object) -> object:
    kept = _kept(value)
    return clipped(kept, LONGEST_VALUE) if isinstance(kept, str) else kept


def changes_between(
    before: Sequence[Table],
    fields_before: Mapping[str, Sequence[Field]],
    after: Sequence[Table],
    fields_after: Mapping[str, Sequence[Field]],
) -> list[ColumnChange]:
    """What a new version of a source changed in its tables and columns."""
    old, new = {table.id: table for table in before}, {table.id: table for table in after}
    changes: list[ColumnChange] = []
    changes += [{"change": "table added", "table": new[id].name} for id in new if id not in old]
    changes += [{"change": "table removed", "table": old[id].name} for id in old if id not in new]
    for id in (id for id in new if id in old):
        table = new[id].name
        was = {field.name: field.type for field in fields_before.get(id, ())}
        now = {field.name: field.type for field in fields_after.get(id, ())}
        changes += [{"change": "column added", "table": table, "column": name} for name in now if name not in was]
        changes += [{"change": "column removed", "table": table, "column": name} for name in was if name not in now]
        changes += [
            {"change": "type changed", "table": table, "column": name, "before": was[name], "after": now[name]}
            for name in now
            if name in was and was[name] != now[name]
        ]
        if old[id].row_count != new[id].row_count:
            rows = {"before": old[id].row_count, "after": new[id].row_count}
            changes.append({"change": "rows", "table": table, "before": rows["before"], "after": rows["after"]})
    return changes
