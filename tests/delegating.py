"""A store that another package might bring: every verb of the port passed on to another store, and nothing besides."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from recollect.adapters.records.in_memory import MemoryStore
from recollect.domain.record import Record
from recollect.ports.query import Beside, Page, Query, Reading, Spans, TextHit, TextQuery
from recollect.ports.records import Capabilities, Change, Problem, Reads, Scope
from recollect.ports.steps import Committed, Step
from recollect.ports.vectors import StoredVector, VectorSnapshot


class DelegatingStore:
    def __init__(self) -> None:
        self._inner = MemoryStore()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("delegating", durable=False, many_processes=False)

    def get(self, scope: Scope, record: type[Record], id: str, *, deleted: bool = False) -> Any:
        return self._inner.get(scope, record, id, deleted=deleted)

    def find(self, scope: Scope, query: Query[Any]) -> Page[Any]:
        return self._inner.find(scope, query)

    def select(self, scope: Scope, query: Query[Any], fields: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._inner.select(scope, query, fields)

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[tuple[Any, ...]]]:
        return self._inner.select_each(scope, readings)

    def count(self, scope: Scope, query: Query[Any], most: int | None = None) -> int:
        return self._inner.count(scope, query, most)

    def count_by(self, scope: Scope, query: Query[Any], by: Sequence[str | Spans]) -> dict[tuple[Any, ...], int]:
        return self._inner.count_by(scope, query, by)

    def beside(self, scope: Scope, query: Beside[Any]) -> list[list[str]]:
        return self._inner.beside(scope, query)

    def snapshot(self, scope: Scope) -> AbstractContextManager[Reads]:
        return self._inner.snapshot(scope)

    def tenants(self) -> list[str]:
        return self._inner.tenants()

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self._inner.transact(scope, steps)

    def search_text(self, scope: Scope, query: TextQuery[Any]) -> list[TextHit]:
        return self._inner.search_text(scope, query)

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> Sequence[StoredVector]:
        return self._inner.stored_vectors(scope, space, ids)

    def vector_snapshot(self) -> AbstractContextManager[VectorSnapshot]:
        return self._inner.vector_snapshot()

    def changes(self, scope: Scope, after: int, limit: int = 1000) -> list[Change]:
        return self._inner.changes(scope, after, limit)

    def migrate(self) -> list[str]:
        return self._inner.migrate()

    def backup(self, target: Path) -> None:
        self._inner.backup(target)

    def verify(self) -> list[Problem]:
        return self._inner.verify()

    def mend(self) -> list[str]:
        return self._inner.mend()

    def erase_traces(self) -> list[str]:
        return self._inner.erase_traces()

    def close(self) -> None:
        self._inner.close()


class MiscountingStore(DelegatingStore):
    """Breaks a rule."""

    def count(self, scope: Scope, query: Query[Any], most: int | None = None) -> int:
        return super().count(scope, query, most) + 1


def make_store(folder: Path) -> DelegatingStore:
    return DelegatingStore()


def make_miscounting(folder: Path) -> DelegatingStore:
    return MiscountingStore()
