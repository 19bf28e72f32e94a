"""Reading a damaged store: what can still be read, record by record, and what cannot, by id.

A store refuses a whole page of records if one is damaged. So the ids are read by themselves (they are in an index,
apart from the records), and then each record on its own. Where the ids cannot be read, either, those after the damage
are read from the other end, and the range between is reported as lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import ValidationError

from recollect.domain.record import Record
from recollect.errors import DamagedData, WrongKey
from recollect.ports.query import Order, Query, encode_cursor
from recollect.ports.records import Reads, Scope
from recollect.services.memories.content_hashes import difference

R = TypeVar("R", bound=Record)
PAGE = 500
Deleted = Literal["no", "yes"]
CANNOT_BE_READ, IS_MISSING = "it cannot be read", "its row is missing"
IS_ENCRYPTED = "it is encrypted with another key"
UNREADABLE = (CANNOT_BE_READ, IS_MISSING, IS_ENCRYPTED)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """A record that cannot be read; with `between`, all records between two ids, of unknown number."""

    table: str
    why: str
    id: str | None = None
    between: tuple[str | None, str | None] | None = None


def readable(
    reading: Reads, scope: Scope, record: type[R], *, deleted: Deleted = "yes", page: int = PAGE
) -> Iterator[R | LostRecords]:
    """Every record of a type in the order of ids, or in its place a note that it is lost."""
    last: str | None = None
    while True:
        after = None if last is None else encode_cursor([last])
        try:
            found = reading.find(scope, Query(record, (), (Order("id"),), page, after, deleted))
        except (DamagedData, WrongKey):
            ids = _ids_after(reading, scope, record, last, page, deleted)
            if ids is None:
                yield from _beyond(reading, scope, record, last, page, deleted)
                return
            for id in ids:
                yield _one(reading, scope, record, id)
            if not ids:
                return
            last = ids[-1]
            continue
        yield from found.records
        if found.next is None:
            return
        last = found.records[-1].id


def _ids_after(
    reading: Reads, scope: Scope, record: type[R], last: str | None, most: int, deleted: Deleted, down: bool = False
) -> list[str] | None:
    """The next ids, as many as can be read at once; None if none can."""
    after = None if last is None else encode_cursor([last])
    while most:
        query = Query(record, (), (Order("id", down),), most, after, deleted)
        try:
            return [id for (id,) in reading.select(scope, query, ("id",))]
        except DamagedData:
            most //= 2
    return None


def _beyond(
    reading: Reads, scope: Scope, record: type[R], last: str | None, page: int, deleted: Deleted
) -> Iterator[R | LostRecords]:
    """The ids from the other end, as far as they can be read."""
    ids: list[str] = []
    while True:
        more = _ids_after(reading, scope, record, ids[-1] if ids else None, page, deleted, down=True)
        fresh = [id for id in more or [] if last is None or id > last]
        ids += fresh
        if not more or len(fresh) < len(more):
            break
    yield LostRecords(record.shape.table, "their ids cannot be read", between=(last, ids[-1] if ids else None))
    for id in reversed(ids):
        yield _one(reading, scope, record, id)


def _one(reading: Reads, scope: Scope, record: type[R], id: str) -> R | LostRecords:
    try:
        found = reading.get(scope, record, id, deleted=True)
    except DamagedData:
        return LostRecords(record.shape.table, CANNOT_BE_READ, id)
    except WrongKey:
        return LostRecords(record.shape.table, IS_ENCRYPTED, id)
    return found if found is not None else LostRecords(record.shape.table, IS_MISSING, id)


def fault(record: Record) -> str | None:
    """What is wrong with a record that was read; None if it is intact."""
    try:
        type(record).model_validate(record.__dict__)
    except ValidationError:
        return "it is not valid"
    return difference(record) or None
