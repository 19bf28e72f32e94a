"""Replies about data, cut to what a language model can use: every row and every statistic of a reply is read as tokens.

What was cut is said in `notes`, with what to do about it.
"""

from __future__ import annotations

import json

from recollect.services.data.results import QueryReply
from recollect.services.data.sources import FieldView, SourcePage, SourceView, TableView
from recollect.services.requests import Reply

MOST_ROWS = 100
MOST_CHARACTERS = 20_000
MOST_FIELDS = 100
MOST_REJECTED = 3
_STATISTICS = ("nulls", "distinct", "min", "max", "mean", "is_key")
_TOP_VALUES = 5


def shortened(reply: Reply) -> Reply:
    if isinstance(reply, QueryReply):
        return _rows(reply)
    if isinstance(reply, SourceView):
        return _source(reply)
    if isinstance(reply, SourcePage):
        return reply.model_copy(update={"sources": [_source(one) for one in reply]})
    return reply


def _rows(reply: QueryReply) -> QueryReply:
    kept, size = [], 0
    for row in reply.rows[:MOST_ROWS]:
        size += len(json.dumps(row, ensure_ascii=False, default=str))
        if size > MOST_CHARACTERS:
            break
        kept.append(row)
    if len(kept) == len(reply.rows):
        return reply.model_copy(update={"chart": None})
    whole = len(reply.rows) if reply.row_count is None else reply.row_count
    note = f"the first {len(kept):,} of {whole:,} rows are shown: aggregate, filter or select fewer columns in SQL"
    return reply.model_copy(update={"rows": kept, "is_cut": True, "chart": None, "notes": [*reply.notes, note]})


def _source(source: SourceView) -> SourceView:
    return source.model_copy(update={"tables": [_table(one) for one in source.tables]})


def _table(table: TableView) -> TableView:
    left = len(table.fields) - MOST_FIELDS
    notes = [*table.notes, f"{left:,} more columns: find them with source_find"] if left > 0 else table.notes
    return table.model_copy(
        update={
            "fields": [_field(one) for one in table.fields[:MOST_FIELDS]],
            "rejected_rows": table.rejected_rows[:MOST_REJECTED],
            "notes": notes,
        }
    )


def _field(field: FieldView) -> FieldView:
    known = {name: field.statistics[name] for name in _STATISTICS if field.statistics.get(name) is not None}
    top = [one["value"] for one in field.statistics.get("top", [])[:_TOP_VALUES] if one["count"] > 1]
    return field.model_copy(update={"statistics": known | ({"top": top} if top else {})})
