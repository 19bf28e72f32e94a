"""That something is not there, proven with few and short questions: for each memory it is asked whether it is known.

A run of absences that differ in one value is one question for all. A single one asks first whether anything has the
value that it must have: mostly nothing has, and to put the whole question into words takes longer than to answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import cast

from recollect.adapters.records.common.bulk_transaction import StepKind, step_kind
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.domain.record import Record
from recollect.ports.query import Compare, Filter, OneOf, Query
from recollect.ports.steps import Absent, Require, Step

_ONLY_ASKING = (Absent, Require)
_OTHER = StepKind(object)


def unproven(steps: Sequence[Step], ids: Callable[[Query[Record]], Sequence[str]]) -> Iterator[Iterable[Step]]:
    """The steps without those absences that one statement proves for all of a run, before anything is written. If
    one of them is there, the run is gone through step by step, which says which.
    """
    is_unwritten = True
    for kind, run in groupby(steps, _AbsentKinds()):
        some = list(run)
        if is_unwritten and kind.step is Absent and kind.record is not None and len(some) > 1:
            values = tuple(cast(Compare, cast(Absent, step).where[0]).value for step in some)
            filters = (OneOf(kind.field, values), *cast(tuple[Filter, ...], kind.rest))
            if not ids(Query(kind.record, filters, limit=1)):
                continue
        is_unwritten = is_unwritten and all(isinstance(step, _ONLY_ASKING) for step in some)
        yield some


class _AbsentKinds:
    """The kind of one step after the other: of thousands that differ in a value it is made once."""

    def __init__(self) -> None:
        self._last = _OTHER

    def __call__(self, step: Step) -> StepKind:
        if not isinstance(step, Absent):
            return _OTHER
        if not _is_of(self._last, step):
            self._last = step_kind(step)
        return self._last


def _is_of(kind: StepKind, step: Absent) -> bool:
    if kind.step is not Absent or kind.record is not step.record or kind.rest != step.where[1:]:
        return False
    first = step.where[0] if step.where else None
    is_plain = isinstance(first, Compare) and first.operator == "=" and first.key is None and first.value is not None
    return is_plain and cast(Compare, first).field == kind.field


def key_asked(query: Query[Record]) -> Compare | None:
    """The first condition, if it is that an indexed field has a plain text, which is stored as it is."""
    first = query.where[0] if query.where else None
    if not isinstance(first, Compare) or first.operator != "=" or first.key is not None:
        return None
    value = first.value
    is_plain = type(value) is str and value.isascii() and value.isprintable()
    return first if is_plain and first.field in _text_keys(query.record) else None


@cache
def _text_keys(record: type[Record]) -> frozenset[str]:
    """The text fields that an index begins with and that are never encrypted one by one."""
    leading = {fields[0] for fields in record.shape.indexes} | {one.fields[0] for one in record.shape.unique}
    texts = {column.name for column in record.columns() if column.type == "text"}
    return frozenset(leading & texts) - record.shape.encrypted


@cache
def any_statement(record: type[Record], field: str) -> str:
    """Whether any record of the organization, soft-deleted or not, has a value in a field."""
    table = quoted(record.shape.table)
    return f"SELECT 1 FROM {table} WHERE organization_id = ? AND {quoted(field)} = ? LIMIT 1"
