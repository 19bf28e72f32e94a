"""Which records a filtered export has: the memories that pass, what hangs on them, and all that these refer to.

So the file can be imported alone: nothing in it refers to something that is not there. Links are exported where both
memories are.
"""

from __future__ import annotations

from collections.abc import Iterable

from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, Record, now
from recollect.ports.query import OneOf, Query
from recollect.ports.records import Reads, Scope
from recollect.services.recall.filters import MemoryFilter, search_conditions

CHUNK = 500
_OUTER = "organization"


class ExportSelection:
    """The ids of the memories that pass and of all that they refer to, by table."""

    def __init__(self, reading: Reads, scope: Scope, wanted: MemoryFilter) -> None:
        self._reading, self._scope = reading, scope
        passing = reading.select(scope, Query(Memory, search_conditions(wanted, now()).filters()), ("id",))
        self._ids: dict[str, set[str]] = {}
        waiting = {"memory": {id for (id,) in passing}}
        self._ids["memory"] = set()
        while waiting:
            table, ids = waiting.popitem()
            new = ids - self._ids.setdefault(table, set())
            self._ids[table] |= new
            for to, found in self._referred(RECORDS[table], new):
                waiting[to] = waiting.get(to, set()) | found

    def _referred(self, record: type[Record], ids: Iterable[str]) -> Iterable[tuple[str, set[str]]]:
        references = {name: one.to for name, one in record.shape.references.items() if one.to != _OUTER}
        if not references:
            return
        ordered = sorted(ids)
        for start in range(0, len(ordered), CHUNK):
            some = Query(record, (OneOf("id", tuple(ordered[start : start + CHUNK])),), deleted="yes")
            rows = self._reading.select(self._scope, some, list(references))
            for place, to in enumerate(references.values()):
                yield to, {row[place] for row in rows if row[place] is not None}

    def takes(self, record: Record) -> bool:
        """Whether a record is exported: it was selected, or hangs on a memory and refers to nothing that was not."""
        table, references = record.shape.table, record.shape.references
        if table in self._ids:
            return record.id in self._ids[table]
        if all(reference.to != "memory" for reference in references.values()):
            return False
        referred = [(one.to, record.refers(name)) for name, one in references.items() if one.to != _OUTER]
        return all(id is None or id in self._ids.get(to, ()) for to, id in referred) and any(
            to == "memory" and id is not None for to, id in referred
        )
