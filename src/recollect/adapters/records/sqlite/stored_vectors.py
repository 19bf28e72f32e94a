"""The stored vectors as one read transaction sees them: what an index is made of and compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import apsw

from recollect.adapters.records.common.vector_rows import VECTOR_COLUMNS, vector_rows
from recollect.adapters.records.sqlite.known_rows import KnownRows
from recollect.adapters.records.sqlite.row_marks import RowMarks
from recollect.ports.vectors import VectorRow


class SqliteVectors:
    """The stored vectors as one read transaction sees them."""

    def __init__(self, connection: apsw.Connection, counters: Mapping[str, Any], known: KnownRows) -> None:
        self._connection = connection
        self._counters = counters
        self._known = known

    @property
    def incarnation(self) -> str:
        return str(self._counters["incarnation"])

    def last_seq(self) -> int:
        return int(str(self._counters["seq"]))

    @cached_property
    def _view(self) -> RowMarks | None:
        return self._known.view(self._connection, self._counters)

    def rows_after(self, seq: int, limit: int) -> list[VectorRow]:
        text = f"SELECT {VECTOR_COLUMNS} FROM embedding WHERE _seq > ? ORDER BY _seq LIMIT ?"
        return vector_rows(self._connection.execute(text, (seq, limit)).fetchall())

    def rows_at(self, seqs: Sequence[int]) -> list[VectorRow]:
        return self._known.vectors_at(self._view, self._connection, seqs) if len(seqs) else []

    def memories_at(self, seqs: Sequence[int]) -> list[tuple[int, str]]:
        import numpy as np

        if not len(seqs):
            return []
        wanted = apsw.carray(np.asarray(seqs, dtype=np.int64))
        text = "SELECT e._seq, e.memory_id FROM carray(?) c CROSS JOIN embedding e ON e._seq = c.value"
        return cast(list[tuple[int, str]], self._connection.execute(text, (wanted,)).fetchall())

    def living_sum(self, after: int, upto: int) -> tuple[int, int]:
        text = "SELECT count(*), coalesce(sum(_seq), 0) FROM embedding WHERE _seq > ? AND _seq <= ?"
        count, total = self._connection.execute(text, (after, upto)).get
        return count, total

    def living_seqs(self, after: int, upto: int) -> Iterable[int]:
        text = "SELECT _seq FROM embedding WHERE _seq > ? AND _seq <= ? ORDER BY _seq"
        return (seq for (seq,) in self._connection.execute(text, (after, upto)))
