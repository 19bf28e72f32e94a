"""How many records a tenant has of each type and group, kept on its head and changed in the transaction that moves it.

A count is never wrong for being kept: it is of the very moment that the head names. Where it is not known (a type that
a newer program groups otherwise, or more groups than the head should hold) it is absent, and counting reads.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping

from recollect.adapters.records.common.dialect import json_text
from recollect.adapters.records.dynamodb.facts import group_mark, group_of
from recollect.domain.record import RECORDS, Record

Groups = dict[str, int]
MOST_BYTES = 6_000  # of a head that is written with every transaction; a store with ten kinds has some 300


class Counts:
    def __init__(self, groups: Mapping[str, Groups] | None = None) -> None:
        """Types that are not named have no records."""
        self._groups = {table: dict(one) for table, one in (groups or {}).items()}

    def of(self, record: type[Record]) -> Groups:
        return self._groups.get(record.shape.table, {})

    def changed(self, changes: Iterable[tuple[Record | None, Record | None]]) -> Counts:
        """After each of these records was replaced by the other; None stands for none."""
        new = Counts(self._groups)
        for before, after in changes:
            new._add(before, -1)
            new._add(after, 1)
        return new

    def _add(self, record: Record | None, by: int) -> None:
        if record is None:
            return
        groups, name = self._groups.setdefault(record.shape.table, {}), group_of(record)
        groups[name] = groups.get(name, 0) + by
        if not groups[name]:
            del groups[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self._filled() == other._filled()

    __hash__ = None  # type: ignore[assignment]

    def _filled(self) -> dict[str, Groups]:
        return {table: groups for table, groups in self._groups.items() if groups}

    def encoded(self) -> bytes | None:
        """None if it is too much for a head."""
        marked = {table: [group_mark(RECORDS[table]), groups] for table, groups in sorted(self._filled().items())}
        raw = zlib.compress(json_text(marked).encode(), 6)
        return raw if len(raw) <= MOST_BYTES else None

    @staticmethod
    def decoded(raw: bytes | None) -> Counts | None:
        """None if they are not known."""
        if raw is None:
            return None
        marked = json.loads(zlib.decompress(raw))
        if any(table not in RECORDS or mark != group_mark(RECORDS[table]) for table, (mark, _) in marked.items()):
            return None
        return Counts({table: groups for table, (_, groups) in marked.items()})


def counts_of(records: Iterable[Record]) -> Counts:
    return Counts().changed((None, record) for record in records)
