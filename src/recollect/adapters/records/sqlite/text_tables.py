"""What the full-text tables of a record type are called."""

from __future__ import annotations

from recollect.adapters.records.common.sql_compiler import quoted
from recollect.domain.record import Record


def text_table(record: type[Record]) -> str:
    return quoted(record.shape.table + "_text")


def listed_table(record: type[Record]) -> str:
    """Where FTS5 lists its rows."""
    return quoted(record.shape.table + "_text_docsize")
