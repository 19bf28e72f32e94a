"""What a filter names: the values of fields by which entries and guards are looked up."""

from __future__ import annotations

from collections.abc import Collection

from recollect.adapters.records.dynamodb.keys import guarding, indexed_fields, is_gathered
from recollect.domain.record import RECORDS, Record
from recollect.ports.query import Compare, Filter, OneOf, Query


def values_of(given: Filter, field: str) -> Collection[str] | None:
    """The values that a filter leaves to a field, if it names them."""
    if isinstance(given, Compare) and given.field == field and given.operator == "=" and given.key is None:
        return () if given.value is None else (given.value,)
    if isinstance(given, OneOf) and given.wanted and given.field == field and None not in given.values:
        return tuple(dict.fromkeys(given.values))
    return None


def is_gettable(table: str, field: str) -> bool:
    """Whether who has a value is said by items that are read by their keys."""
    return guarding(RECORDS[table], field) is not None or is_gathered(RECORDS[table], field)


def single_values(query: Query[Record]) -> list[tuple[str, str]]:
    """Indexed fields of which the filters leave one value."""
    record: type[Record] = query.record
    named = ((field, values_of(one, field)) for field in indexed_fields(record) for one in query.where)
    return [(field, next(iter(values))) for field, values in named if values is not None and len(values) == 1]
