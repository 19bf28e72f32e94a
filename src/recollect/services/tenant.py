"""A tenant: the ports, bound to one organization and the caller.

Isolation of tenants begins here. The composition root binds the ports once (`Core`); every call of an operation binds
them to a scope (`Tenant`), and services read and write through it. Nothing in the services names another tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from recollect.domain.provenance import CitationLookup
from recollect.domain.record import Record
from recollect.ports.folders import Folders
from recollect.ports.models import Embedder, LanguageModel
from recollect.ports.query import Beside, Page, Query, Reading, Spans, TextHit, TextQuery
from recollect.ports.records import Reads, RecordStore, Scope
from recollect.ports.steps import Committed, Step
from recollect.ports.vectors import VectorStore
from recollect.services.access_journal import Journal
from recollect.services.keyed_hashes import Keyring

R = TypeVar("R", bound=Record)


class SupportsClose(Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    file_bytes: int = 100_000_000
    files: int = 200_000
    bytes: int = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Core:
    """The first embedder serves recall; a second one, if any, is being moved to (see services/memories/indexing.py).

    Whoever reads much and computes takes the `turn` for it where one after the other is quicker for all: a thread that
    reads row by row gives the interpreter away with every row, and waits for those that rank. Eight recalls at once on
    SQLite answered half as many questions a second as one at a time.
    """

    store: RecordStore
    vectors: VectorStore
    embedders: tuple[Embedder, ...]
    citation_lookup: Callable[[Scope, str | None], CitationLookup]
    journal: Journal
    folders: Folders
    keyring: Keyring
    timezone: str = "UTC"
    late_interaction: bool = True
    access_log_days: int | None = None
    stale_seconds: float = 86_400.0
    """After how long what was found of a citation is looked at again."""
    restore_days: float = 30
    passages_at_once: int | None = None
    """How many passages one call has embedded while its caller waits; the vectors of longer ones are owed. The service
    sets it, which makes them afterwards; in process a call does all its work itself.
    """
    background: SupportsClose | None = None
    """The background work that was started with the store, if any; closing ends it first."""
    owns_store: bool = True
    """Whether closing closes the store, too; one that was handed in is its owner's to close."""
    workspaces: WorkspaceLimits = WorkspaceLimits()
    language_model: LanguageModel | None = None
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    lengths: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """How long vectors given from outside are, by tenant, namespace and model, as far as it was looked up."""
    zones: dict[tuple[str, str], tuple[str | None, float]] = field(default_factory=dict)
    """The zones of users that were asked for lately, and until when they are believed; see services/times.py."""

    @property
    def embedder(self) -> Embedder | None:
        return self.embedders[0] if self.embedders else None

    def for_scope(self, scope: Scope) -> Tenant:
        """The same ports, bound to a tenant and a caller."""
        return Tenant(scope=scope, **{one.name: getattr(self, one.name) for one in _PORTS})


_PORTS = fields(Core)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(Core):
    """What an operation works with. Its verbs are those of the store, for this tenant."""

    scope: Scope

    def get(self, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        return self.store.get(self.scope, record, id, deleted=deleted)

    def find(self, query: Query[R]) -> Page[R]:
        return self.store.find(self.scope, query)

    def select(self, query: Query[Any], fields: Sequence[str]) -> list[tuple[Any, ...]]:
        return self.store.select(self.scope, query, fields)

    def select_each(self, readings: Sequence[Reading]) -> list[list[tuple[Any, ...]]]:
        return self.store.select_each(self.scope, readings)

    def count(self, query: Query[Any]) -> int:
        return self.store.count(self.scope, query)

    def count_by(self, query: Query[Any], by: Sequence[str | Spans]) -> dict[tuple[Any, ...], int]:
        return self.store.count_by(self.scope, query, by)

    def search_text(self, query: TextQuery[Any]) -> list[TextHit]:
        return self.store.search_text(self.scope, query)

    def beside(self, query: Beside[Any]) -> list[list[str]]:
        return self.store.beside(self.scope, query)

    def snapshot(self) -> AbstractContextManager[Reads]:
        return self.store.snapshot(self.scope)

    def transact(self, steps: Sequence[Step]) -> Committed:
        return self.store.transact(self.scope, steps)
