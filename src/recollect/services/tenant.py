"""A tenant: the ports, bound to one organization and the caller.

Isolation of tenants begins here. The composition root binds the ports once (`Core`); every call of an operation binds
them to a scope (`Tenant`), and services read and write through it. Nothing in the services names another tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from recollect.domain.provenance import ENOUGH_EVIDENCE, CitationLookup, EvidenceKind
from recollect.domain.record import Record
from recollect.domain.text.secrets import SecretPolicy
from recollect.ports.models import AnswerFinder, Embedder, LanguageModel, QueryRanker
from recollect.ports.query import Beside, Page, Query, Reading, Spans, TextHit, TextQuery
from recollect.ports.records import Reads, RecordStore, Scope
from recollect.ports.steps import Committed, Step
from recollect.ports.tracing import NoTracing, Tracing
from recollect.ports.vectors import VectorStore
from recollect.services.access_journal import Journal
from recollect.services.keyed_hashes import Keyring
from recollect.services.requests import CreatedOwner
from recollect.services.restricted_store import RestrictedStore

if TYPE_CHECKING:  # named by the types alone: who needs one of these ports imports it
    from recollect.domain.retention import RetentionTerms
    from recollect.ports.backups import BackupPolicy, BackupRepository
    from recollect.ports.charts import ChartRenderer
    from recollect.ports.cold import ColdFiles, ColdPlaces
    from recollect.ports.connections import OutsideDatabases
    from recollect.ports.data import DataEngine
    from recollect.ports.folders import Folders
    from recollect.ports.keys import EncryptedFiles
    from recollect.ports.objects import ObjectStore

R = TypeVar("R", bound=Record)
GoOn = Callable[[], None]
"""Called between two pieces of background work: may rest, and raises if the work should stop."""


class SupportsClose(Protocol):
    def close(self) -> None: ...


class Backups(Protocol):
    """Backups of this store, as the settings say."""

    @property
    def policy(self) -> BackupPolicy: ...

    def at(self, address: str) -> BackupRepository:
        """The backups in a folder or at an address such as s3://…; nothing is reached yet."""

    def work_folder(self) -> AbstractContextManager[Path]:
        """A folder for the files that are needed on the way; deleted after the block."""

    def restored(self, repository: BackupRepository, id: str, *, objects: bool) -> AbstractContextManager[Core]:
        """A backup as a store of its own in a temporary place, which is deleted after the block."""


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
    objects: ObjectStore
    data_engine: Callable[[], DataEngine]
    """Made when it is first asked for; MissingExtra where its packages are not installed."""
    question_encoder: Embedder
    """What reads questions about data, and compares statements, whichever embedder serves recall."""
    query_ranker: QueryRanker
    charts: ChartRenderer
    databases: OutsideDatabases
    """Opens outside databases, as far as the operator allows it."""
    files: EncryptedFiles
    cold_files: ColdFiles
    cold_places: ColdPlaces
    """Where files of cold storage lie, as far as the operator allows it."""
    backups: Backups
    object_bytes: int = 50_000_000_000
    """How much large content a tenant may store."""
    data_file_bytes: int = 16_000_000_000
    timezone: str = "UTC"
    late_interaction: bool = True
    access_log_days: int | None = None
    stale_seconds: float = 86_400.0
    """After how long what was found of a citation is looked at again."""
    restore_days: float = 30
    approval_seconds: float = 604_800
    """How long a step of a run waits for approval, where the run does not say."""
    enough_evidence: Mapping[str, frozenset[EvidenceKind]] = field(default_factory=lambda: ENOUGH_EVIDENCE)
    """Which kinds of citations support a promotion, by the status that it leads to."""
    accepts_unknown_kinds: bool = False
    manages_organizations: bool = False
    """Whether those who run a service may reach other organizations over the network."""
    strict_owners: bool = False
    """Whether users, agents, sessions and projects must be added before they are named."""
    retention: tuple[RetentionTerms, ...] = ()
    """The rules of the settings; those of an organization are stored."""
    passages_at_once: int | None = None
    """How many passages one call has embedded while its caller waits; the vectors of longer ones are owed. The service
    sets it, which makes them afterwards; in process a call does all its work itself.
    """
    tracing: Tracing = field(default_factory=NoTracing)
    """Tells what is done as spans; the service sets it, where the environment asks for traces."""
    background: SupportsClose | None = None
    """The background work that was started with the store, if any; closing ends it first."""
    readonly: bool = False
    """Whether it was opened to be read alone: whatever would write is refused."""
    owns_store: bool = True
    """Whether closing closes the store, too; one that was handed in is its owner's to close."""
    workspaces: WorkspaceLimits = WorkspaceLimits()
    secrets: SecretPolicy = field(default_factory=SecretPolicy)
    language_model: LanguageModel | None = None
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    lengths: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """How long vectors given from outside are, by tenant, namespace and model, as far as it was looked up."""
    prepared: dict[bytes, object] = field(default_factory=dict)
    """Tables that were made ready for questions lately; see services/data/prepared.py."""
    value_indexes: dict[tuple[str, str], object] = field(default_factory=dict)
    """Values of tables that were searched lately, by tenant and digest; see services/data/value_lists.py."""
    zones: dict[tuple[str, str], tuple[str | None, float]] = field(default_factory=dict)
    """The zones of users that were asked for lately, and until when they are believed; see services/times.py."""

    @property
    def embedder(self) -> Embedder | None:
        return self.embedders[0] if self.embedders else None

    @property
    def likeness_embedder(self) -> Embedder | None:
        """What says how alike two statements or tasks are."""
        return self.question_encoder if isinstance(self.embedder, AnswerFinder) else self.embedder

    def for_scope(self, scope: Scope, *, makes_owners: bool = False) -> Tenant:
        """The same ports, bound to a tenant and a caller; one with a restriction reaches only a part of the store."""
        ports = dict(zip(_PORTS, _ports_of(self), strict=True))
        if scope.restriction is not None and not isinstance(self.store, RestrictedStore):
            ports["store"] = RestrictedStore(self.store, scope.restriction)
        # Who reaches only a part must not learn from what is made which ids there are in the rest.
        makes_owners = makes_owners and not self.strict_owners and scope.restriction is None
        return Tenant(scope=scope, makes_owners=makes_owners, **ports)


_PORTS = [one.name for one in fields(Core)]
_ports_of = attrgetter(*_PORTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(Core):
    """What an operation works with. Its verbs are those of the store, for this tenant."""

    scope: Scope
    makes_owners: bool = False
    """Whether an owner that nobody has added is made when it is named: in operations that could add it, too."""
    created: list[CreatedOwner] = field(default_factory=list)
    """Those that were made by this call."""

    @property
    def content_place(self) -> str:
        """Where `objects` stores what is this tenant's."""
        return self.keyring.content_place(self.scope.organization_id)

    def owners(self, record: type[Record], named: Mapping[str, object]) -> dict[str, str]:
        """Whom a new record belongs to where it names nobody: those that the caller is restricted to."""
        if not isinstance(self.store, RestrictedStore):
            return {}
        by_default = self.store.rules.owners(record)
        return {field: id for field, id in by_default.items() if named.get(field) is None}

    @property
    def unrestricted(self) -> Tenant:
        """The same without a restriction: for what the product must know or write whoever asks, and shows nobody."""
        if not isinstance(self.store, RestrictedStore):
            return self
        return replace(self, store=self.store.unrestricted, scope=replace(self.scope, restriction=None))

    def get(self, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        return self.store.get(self.scope, record, id, deleted=deleted)

    def find(self, query: Query[R]) -> Page[R]:
        return self.store.find(self.scope, query)

    def select(self, query: Query[Any], fields: Sequence[str]) -> list[tuple[Any, ...]]:
        return self.store.select(self.scope, query, fields)

    def select_each(self, readings: Sequence[Reading]) -> list[list[tuple[Any, ...]]]:
        return self.store.select_each(self.scope, readings)

    def count(self, query: Query[Any], most: int | None = None) -> int:
        return self.store.count(self.scope, query, most)

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
