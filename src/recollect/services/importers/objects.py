"""The objects of a file that another program wrote: a JSON array, JSON Lines, an object by id, or a SQLite table."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from recollect.domain.record import JsonObject
from recollect.errors import InvalidInput
from recollect.services.importers.entries import Reading
from recollect.services.importers.field_map import FieldMap
from recollect.services.importers.json_stream import values
from recollect.services.importers.origin import Origin
from recollect.services.importers.sqlite_tables import tables_of


def objects(reading: Reading, map: FieldMap, id_field: str, wrappers: Collection[str]) -> Iterator[JsonObject]:
    """Every object that has the field which identifies it; the others are reported."""
    origin, findings = reading.origin, reading.findings
    if origin.is_sqlite:
        with tables_of(origin.path) as tables:
            table = tables.with_columns(id_field)
            if table is None:
                raise origin.lacks(f"table with the column {id_field}")
            yield from tables.rows(table, (id_field,))
        return
    with origin.open(*_names(wrappers)) as file:
        for number, (_, value) in enumerate(values(file, origin.name, wrappers), 1):
            if not isinstance(value, dict):
                findings.left_out(map.what, f"number {number}", "it is not a JSON object")
            elif id_field in value:
                yield value
            elif value and all(
                isinstance(inner, dict) and inner.keys() & map.fields.keys() for inner in value.values()
            ):
                yield from ({id_field: id, **inner} for id, inner in value.items())
            else:
                findings.left_out(map.what, ", ".join(list(value)[:5]), f"it has no {id_field}")


def _names(wrappers: Collection[str]) -> list[str]:
    return [f"{name}.json" for name in wrappers] + [f"{name}.jsonl" for name in wrappers]


def fields_at_first(origin: Origin, wrappers: Collection[str] = ()) -> set[str]:
    """The names of the fields of the first object, to recognise a source by; of a SQLite file those of all columns."""
    if origin.is_folder or origin.is_zip:
        return set()
    if origin.is_sqlite:
        with tables_of(origin.path) as tables:
            return {column for columns in tables.columns.values() for column in columns}
    try:
        with origin.open() as file:
            _, first = next(values(file, origin.name, wrappers))
    except InvalidInput:  # not JSON, or not whole: whoever imports it says so
        return set()
    inner = next(iter(first.values()), None) if isinstance(first, dict) else None
    return (set(first) if isinstance(first, dict) else set()) | (set(inner) if isinstance(inner, dict) else set())
