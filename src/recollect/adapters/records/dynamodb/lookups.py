"""What a filter names: the values of fields by which entries and guards are looked up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from recollect.adapters.records.dynamodb.keys import RARE, guarding, indexed_fields, is_gathered
from recollect.domain.record import RECORDS, Record
from recollect.ports.query import AllOf, AnyOf, Compare, Filter, Linked, OneOf, Query


def values_of(given: Filter, field: str) -> Collection[str] | None:
    """The values that a filter leaves to a field, if it names them."""
    if isinstance(given, Compare) and given.field == field and given.operator == "=" and given.key is None:
        return () if given.value is None else (given.value,)
    if isinstance(given, OneOf) and given.wanted and given.field == field and None not in given.values:
        return tuple(dict.fromkeys(given.values))
    return None


def lookups_of(record: type[Record], where: Sequence[Filter]) -> list[tuple[str, Collection[str]]]:
    """Indexed fields with the values that filters leave them, where entries or guards lead to all who have them."""
    table = record.shape.table
    named = ((field, values_of(one, field)) for one in where for field in indexed_fields(record))
    found = [(field, values) for field, values in named if values is not None]
    return [one for one in found if RARE.get((table, one[0])) not in one[1]]


def fields_of(where: Iterable[Filter]) -> Iterator[str]:
    """What filters look at of the records themselves."""
    for one in where:
        if isinstance(one, AllOf | AnyOf):
            yield from fields_of(one.filters)
        else:
            yield one.by if isinstance(one, Linked) else one.field


def is_gettable(table: str, field: str) -> bool:
    """Whether who has a value is said by items that are read by their keys."""
    return guarding(RECORDS[table], field) is not None or is_gathered(RECORDS[table], field)


def single_values(query: Query[Record]) -> list[tuple[str, str]]:
    """Indexed fields of which the filters leave one value."""
    named = lookups_of(query.record, query.where)
    return [(field, next(iter(values))) for field, values in named if len(values) == 1]
