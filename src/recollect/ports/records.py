"""The socket for record stores: a few generic verbs over typed records. Queries and steps are data.

Every verb takes the tenant's scope first; there is no verb that reads across tenants except `tenants`. A store knows
record types only through their declared shape, so a new type adds no line here or in any adapter.

The rules that every store keeps, and `recollect.testing.conformance` checks:

- `transact` is all or nothing, and durable when it returns. Its steps see what earlier steps did.
- A record may refer only to living records of its own tenant.
- Deleting for good follows the declared references: cascade, or clear the field.
- A soft-deleted record is invisible to every read that does not ask for it, and to text search.
- `seq` grows with every write of a record and is never reused; `changes` lists what changed after one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

from recollect.domain.access import Restriction
from recollect.domain.record import Record, now
from recollect.ports.partitions import Partitioned
from recollect.ports.protocols import missing
from recollect.ports.query import Beside, Page, Query, Reading, Row, Spans, TextHit, TextQuery
from recollect.ports.steps import Committed, Step
from recollect.ports.vectors import StoredVector, TenantVectors, VectorTruth

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose data, and on whose behalf. No store verb can be called without one.

    `granted` are the permissions of whoever asks, None for those who open the store themselves; `address` is where
    they ask from, `timezone` the zone they live in where that is known. `reading` says what reading is for: use by a
    program, a view of a page in the console, or a poll of an open page for what is new. Stores look at none of them.
    `restriction` is the part of the organization that they reach: `Core.for_scope` binds a store that keeps to it.
    """

    organization_id: str
    actor: str | None = None
    granted: frozenset[str] | None = None
    address: str | None = None
    timezone: str | None = None
    reading: Literal["use", "view", "poll"] = "use"
    restriction: Restriction | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The latest change of one record: its seq, and whether the record is gone for good."""

    seq: int
    table: str
    id: str
    gone: bool


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a store that is no fault and may surprise, with what to do about it; `doctor` says it."""

    name: str
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store says of itself. Each optional one names the protocol that the store follows, too (`OPTIONAL`)."""

    name: str
    durable: bool
    many_processes: bool
    sql: bool = False
    """Users may query it in SQL: it is a `SqlStore`."""
    partitions: bool = False
    """Its large tables are kept in pieces by month: it is `Partitioned`."""
    vectors_by_tenant: bool = False
    """Its seqs are counted tenant by tenant, so the vectors are read by tenant: it is `TenantVectors`, else a
    `VectorTruth`."""
    pgvector: bool = False
    """The database finds the nearest vectors itself, by pgvector."""
    row_by_row: bool = False
    """Reading releases the interpreter and takes it again for every row."""
    keeps_rows: bool = False
    """What ranks a memory is kept in memory once it was read, as long as it does not change: it is worth reading little
    of many, and the rest of those that are shown."""
    encrypted: bool = False
    """All of it is encrypted at rest, whichever fields are declared so."""
    remarks: tuple[Remark, ...] = ()
    """What an operator should know about how this store is set up."""


@runtime_checkable
class WritesInTurn(Protocol):
    """A store that one process at a time can write to."""

    def write_in_turn(self, turn: AbstractContextManager[object]) -> None:
        """Enter `turn` for every transaction. Whoever finds the store busy else tries again after a while, and may be
        overtaken each time."""


@runtime_checkable
class KeepsRows(Protocol):
    """A store that keeps in memory what it has read, until it changes."""

    def keep_rows(self, most_bytes: int) -> None:
        """No more than so much, in this process."""


Part = Literal["records", "index", "vectors"]
"""What a problem is about: the truth itself, or what `mend` makes again from it, or the vectors."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that `verify` found wrong, with the record where it can. `what` is for people, `part` for programs."""

    what: str
    table: str | None = None
    id: str | None = None
    organization_id: str | None = None
    part: Part = "records"


class Reads(Protocol):
    """The verbs that read records: of a store, each as of its own moment; of a snapshot, all as of one."""

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None: ...

    def find(self, scope: Scope, query: Query[R]) -> Page[R]: ...

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        """Like `find`, but only these fields, as tuples: for hot paths that need no records."""

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        """What `select` answers to each, in one wait where the store is far away."""

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        """How many pass; with `most`, counting stops there, so that it need not look at everything."""

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        """How many pass, for each combination of the values of these fields that occurs; asked once, however many.

        A field is text, a whole number or a boolean, and may be empty; moments are counted by `Spans`.
        """


@runtime_checkable
class RecordStore(Reads, Protocol):
    """What every store has. It is also a `VectorTruth`, or `TenantVectors` where its capabilities say so."""

    @property
    def capabilities(self) -> Capabilities: ...

    def tenants(self) -> list[str]:
        """The ids of all organizations, for upkeep that visits each in its own scope."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[Reads]:
        """One tenant as of one moment, for as long as the block lasts, whatever others write meanwhile.

        For reading much of it: nothing is held in memory that was not asked for. It keeps a database from cleaning up
        behind itself, so read and let go; `erase_traces` may wait for it, or say that it could not be finished.
        """

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        """For each place the ids of up to `reach` living records before it that pass `where`, its own if it passes, and
        up to `reach` after it, in order. Must cost the same however many records there are `within`.
        """

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        """All the steps or none. Concurrent calls may share one disk sync; each fails or succeeds alone."""

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]: ...

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> Sequence[StoredVector]:
        """All the vectors of these memories in one space, in any order."""

    def changes(self, scope: Scope, after: int, limit: int = 1000) -> list[Change]:
        """What changed after a seq, oldest first, each record once with its latest change."""

    def migrate(self) -> list[str]:
        """Apply the migrations this store has not seen; each one whole, or not at all."""

    def backup(self, target: Path) -> None:
        """A consistent copy while others write. The copy is another incarnation of the store."""

    def verify(self) -> list[Problem]:
        """Re-read everything and compare it with its declarations, hashes and indexes."""

    def mend(self) -> list[str]:
        """Make the derived parts (text index) again from the records; says what was done."""

    def erase_traces(self) -> list[str]:
        """Leave no byte of what was deleted for good in the store's own files; notes where that ends later, by itself.
        Then it is to be called again."""

    def close(self) -> None: ...


@runtime_checkable
class ReadsAtOnce(Protocol):
    """A record store to which it costs to begin reading: ten times for one question."""

    def reading(self) -> AbstractContextManager[None]:
        """What this thread reads in the block is of one moment; a search of vectors begins a new one."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What a query of a user may cost."""

    rows: int
    seconds: float
    megabytes: int


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """Rows of plain JSON values; `is_cut` when there were more than the limit."""

    columns: list[str]
    types: list[str]
    rows: list[list[object]]
    is_cut: bool


@runtime_checkable
class SqlStore(Protocol):
    """A record store that its users may query in SQL."""

    def query_sql(self, scope: Scope, statement: str, limits: SqlLimits) -> SqlAnswer:
        """One SELECT over the tenant's own living records, one view per record type.

        The statement is a stranger's: it must not write, read a file, change a setting, or see by any name or function
        what belongs to another tenant or to the store itself.
        """


OPTIONAL: Mapping[str, type] = {"sql": SqlStore, "partitions": Partitioned, "vectors_by_tenant": TenantVectors}
"""The protocols that capabilities name."""


def missing_verbs(store: object) -> list[str]:
    """What the port, or a capability that the store claims, asks for and the store does not have."""
    capabilities = getattr(store, "capabilities", None)
    if not isinstance(capabilities, Capabilities):
        return missing(store, RecordStore, VectorTruth)
    claimed = [port for name, port in OPTIONAL.items() if getattr(capabilities, name)]
    return missing(store, RecordStore, *claimed, *(() if capabilities.vectors_by_tenant else (VectorTruth,)))


def revised(record: R, tenant: Scope, /, **fields: object) -> R:
    """A validated copy of a record, marked as changed now by the actor on whose behalf it is."""
    changed: R = record.changed(**{"updated_at": now(), "updated_by": tenant.actor, **fields})
    return changed
