"""The socket for record stores: a few generic verbs over typed records, and queries as data.

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

import base64
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from recollect.domain.record import Record, now
from recollect.errors import InvalidInput

R = TypeVar("R", bound=Record)
Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose data, and on whose behalf. No store verb can be called without one.

    `granted` are the permissions of whoever asks, None for those who open the store themselves; `address` is where
    they ask from, `timezone` the zone they live in where that is known. Stores look at none of them.
    """

    organization_id: str
    actor: str | None = None
    granted: frozenset[str] | None = None
    address: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """A field against a value; with `key`, one member of a JSON object field, types compared strictly."""

    field: str
    operator: Operator
    value: Any
    key: str | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    """A field is one of these values; or none of them, not even where it is empty."""

    field: str
    values: tuple[Any, ...]
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class IsNull:
    field: str
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Holds:
    """A JSON list field has this text among its members."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class AnyOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """There is a living record of `record` whose `field` is this record's id and that passes `where`."""

    record: type[Record]
    field: str
    where: tuple[Filter, ...] = ()
    wanted: bool = True


Filter = Compare | OneOf | IsNull | Holds | AnyOf | Linked


def equal(field: str, value: Any) -> Filter:
    return IsNull(field) if value is None else Compare(field, "=", value)


@dataclass(frozen=True, slots=True)
class Order:
    """Empty fields come first going up and last going down; ties are broken by id."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query(Generic[R]):
    record: type[R]
    where: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    after: str | None = None
    deleted: Literal["no", "yes", "only"] = "no"

    def ordering(self) -> tuple[Order, ...]:
        if any(order.field == "id" for order in self.order):
            return self.order
        return (*self.order, Order("id", self.order[-1].descending if self.order else False))

    def start(self) -> list[Any] | None:
        """The ordering values of the last record of the page before this one."""
        return None if self.after is None else decode_cursor(self.after, self)


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    records: list[R]
    next: str | None = None


def encode_cursor(values: Sequence[Any]) -> str:
    plain = [["t", value.isoformat()] if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, query: Query[Any]) -> list[Any]:
    try:
        plain = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        values = [datetime.fromisoformat(value[1]) if isinstance(value, list) else value for value in plain]
    except (ValueError, TypeError, IndexError, RecursionError):
        plain = values = []
    if not isinstance(plain, list) or len(values) != len(query.ordering()):
        raise InvalidInput("that cursor is not one of ours", remedy="give `next` of the page before, unchanged")
    return values


@dataclass(frozen=True, slots=True)
class Spans:
    """The stretches of time between these moments, in order: 0 is before the first, 1 from the first on, and so on."""

    field: str
    edges: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Beside(Generic[R]):
    """What stands beside some records: among those with the same `within`, in order of `by` and then of id.

    Each place is a record's values of `within` and `by`, and its id; `within` and `by` are declared as an index in this
    order, and neither is empty.
    """

    record: type[R]
    within: str
    by: str
    places: tuple[tuple[Any, Any, str], ...]
    reach: int
    where: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class TextQuery(Generic[R]):
    """Any of the terms, in any of the record's declared text fields; best first, ties by id.

    The rarer a term within what the facets leave, the more it counts; other tenants' texts never matter. `facets`
    must all match and are part of the index; `where` filters what is left.
    """

    record: type[R]
    terms: tuple[str, ...]
    limit: int
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    where: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class TextHit:
    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Insert:
    """Fails with DuplicateKey if the id or a unique key is taken.

    With `restoring`, references may point at soft-deleted records: for imports, and for what is kept about them.
    """

    record: Record
    restoring: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """Replaces the record if its stored version is still the given one's; the store counts the version up."""

    record: Record


@dataclass(frozen=True, slots=True)
class Put:
    """Inserts, or replaces whatever version is there: only for what cannot be lost by overwriting.

    With `restoring`, the record keeps its own version and may refer to soft-deleted records: for imports.
    """

    record: Record
    restoring: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes for good, with all that hangs on it. Deleting what is not there is no error."""

    record: type[Record]
    id: str


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """Deletes for good every record, soft-deleted or not, that passes all filters; one filter at least."""

    record: type[Record]
    where: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """Adds to counters and sets fields without a new version or seq: for statistics, which never conflict."""

    record: type[Record]
    id: str
    add: Mapping[str, int | float] = field(default_factory=dict)
    put: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Require:
    """Fails with RequirementFailed unless this living record exists and its fields equal `match`."""

    record: type[Record]
    id: str
    match: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Absent:
    """Fails with RequirementFailed, naming the id it found, if a living record passes all filters."""

    record: type[Record]
    where: tuple[Filter, ...]


Step = Insert | Update | Put | Delete | DeleteWhere | Touch | Require | Absent


@dataclass(frozen=True, slots=True)
class Committed:
    """What a transaction did: the highest seq it gave out, and how many records it deleted for good."""

    seq: int
    deleted: int = 0


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
    name: str
    durable: bool
    many_processes: bool
    text_search: bool = True
    sql: bool = False
    """Whether the store is a `SqlStore`, too."""
    row_by_row: bool = False
    """Whether reading gives the interpreter away and takes it again for every row."""
    remarks: tuple[Remark, ...] = ()
    """What a person should know of how this store was found."""


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


Reading = tuple[Query[Any], Sequence[str]]
"""A query, and the fields that are wanted."""


class Reads(Protocol):
    """The verbs that read records: of a store, each as of its own moment; of a snapshot, all as of one."""

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None: ...

    def find(self, scope: Scope, query: Query[R]) -> Page[R]: ...

    def select(self, scope: Scope, query: Query[Any], fields: Sequence[str]) -> list[tuple[Any, ...]]:
        """Like `find`, but only these fields, as tuples: for hot paths that need no records."""

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[tuple[Any, ...]]]:
        """What `select` answers to each, in one wait where the store is far away."""

    def count(self, scope: Scope, query: Query[Any]) -> int: ...

    def count_by(self, scope: Scope, query: Query[Any], by: Sequence[str | Spans]) -> dict[tuple[Any, ...], int]:
        """How many pass, for each combination of the values of these fields that occurs; asked once, however many.

        A field is text, a whole number or a boolean, and may be empty; moments are counted by `Spans`.
        """


class RecordStore(Reads, Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    def tenants(self) -> list[str]:
        """The ids of all organizations, for upkeep that visits each in its own scope."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[Reads]:
        """One tenant as of one moment, for as long as the block lasts, whatever others write meanwhile.

        For reading much of it: nothing is held in memory that was not asked for. It keeps a database from cleaning up
        behind itself, so read and let go; `erase_traces` may wait for it, or say that it could not be finished.
        """

    def beside(self, scope: Scope, query: Beside[Any]) -> list[list[str]]:
        """For each place the ids of up to `reach` living records before it that pass `where`, its own if it passes, and
        up to `reach` after it, in order. Must cost the same however many records there are `within`.
        """

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        """All the steps or none. Concurrent calls may share one disk sync; each fails or succeeds alone."""

    def search_text(self, scope: Scope, query: TextQuery[Any]) -> list[TextHit]: ...

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

    def erase_traces(self) -> None:
        """Leave no byte of what was deleted for good in the store's own files."""

    def close(self) -> None: ...


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
    rows: list[list[Any]]
    is_cut: bool


class SqlStore(Protocol):
    """A record store that lets its users ask in SQL."""

    def query_sql(self, scope: Scope, statement: str, limits: SqlLimits) -> SqlAnswer:
        """One SELECT over the tenant's own living records, one view per record type.

        The statement is a stranger's: it must not write, read a file, change a setting, or see by any name or function
        what belongs to another tenant or to the store itself.
        """


def revised(record: R, tenant: Scope, /, **fields: Any) -> R:
    """A validated copy of a record, marked as changed now by the actor on whose behalf it is."""
    changed: R = record.changed(**{"updated_at": now(), "updated_by": tenant.actor, **fields})
    return changed


def passes(record: Record, given: Filter) -> bool | None:
    """Whether a record passes a filter; None when that depends on other records (Linked)."""
    if isinstance(given, AnyOf):
        verdicts = [passes(record, one) for one in given.filters]
        return None if None in verdicts and True not in verdicts else True in verdicts
    if isinstance(given, Linked):
        return None
    if given.field not in type(record).model_fields:
        raise InvalidInput(f"{type(record).__name__} has no field '{given.field}'", remedy="see the record reference")
    value = getattr(record, given.field)
    if isinstance(given, Compare):
        return _compares(value, given) if given.key is None else _member_compares(value, given)
    if isinstance(given, OneOf):
        return (value in [_as_kept(one) for one in given.values]) == given.wanted
    if isinstance(given, Holds):
        return isinstance(value, list) and given.value in value
    return (value is None) == given.wanted


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compares(value: Any, given: Compare) -> bool:
    if given.operator == "!=":
        return bool(value != _as_kept(given.value))
    wanted = _as_kept(given.value)
    return value is not None and wanted is not None and _TESTS[given.operator](value, wanted)


def _as_kept(value: Any) -> Any:
    """As records read a moment without a zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _member_compares(value: Any, given: Compare) -> bool:
    """JSON values are compared only with their own type: 1 is neither true nor "1"."""
    comparable = isinstance(value, dict) and given.key in value and _kind(value[given.key]) == _kind(given.value)
    if given.operator == "!=":
        return not (comparable and value[given.key] == given.value)
    if not comparable:
        return False
    if given.value is None or isinstance(given.value, bool):
        return bool(value[given.key] == given.value)
    return _TESTS[given.operator](value[given.key], given.value)


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "constant"
    return "number" if isinstance(value, int | float) else type(value).__name__
