"""What `verify` asks of every SQL store alike: that references lead somewhere, and that no row vanished."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recollect.adapters.records.common.sql_compiler import dangling_statement, quoted
from recollect.adapters.records.common.transaction import DERIVED
from recollect.domain.record import RECORDS, Record
from recollect.ports.query import Row
from recollect.ports.records import Problem

Ask = Callable[[str], list[Row]]


def check_references(ask: Ask, record: type[Record], trouble: type[Exception]) -> Iterator[Problem]:
    table = record.shape.table
    for field in record.shape.references:
        try:
            for organization_id, id in ask(dangling_statement(record, field)):
                yield Problem(f"its {field} points at nothing", table, id, organization_id)
        except trouble as error:
            yield Problem(what=f"its references cannot be followed: {error}", table=table)


def check_count(ask: Ask, trouble: type[Exception]) -> Iterator[Problem]:
    """Rows that vanished without a trace: what is left may read perfectly well, so only a count tells."""
    tables = " + ".join(f"(SELECT count(*) FROM {quoted(table)})" for table in sorted(RECORDS.keys() - DERIVED))
    counted = "SELECT value FROM recollect_store WHERE key = 'records'"
    try:
        ((there, expected),) = ask(f"SELECT {tables}, ({counted})")
    except trouble as error:
        yield Problem(what=f"the records cannot be counted: {error}")
        return
    if int(there) != int(expected):
        yield Problem(what=f"there are {there} records, and there should be {expected}")
