"""The record store for those who live on AWS: one DynamoDB table.

Promise: what `transact` acknowledged is committed, all of it or nothing, and every read is of one moment. Shape: see
keys; partitions begin with the tenant. One small item, the head, counts the tenant's seq; a transaction is
planned in our own code on consistent reads and commits only if the head has not moved (transaction), a reader
patches what changed under its hands (tenant_view), and what a dead process left half applied is finished by the
next who comes (log). Words and vectors are searched in a file that each process keeps for itself and that follows the
tenant's log (replica), and that begins as a copy of another's where there is storage for it (segments).

There are no secondary indexes: a global one lags behind its table, so nothing could be decided on it, and a local one
binds all of a tenant's records to 10 GB. Index entries are items of the same transaction instead. What is written all
the time is spread over several partitions by a hash (keys): ids grow with time, so DynamoDB cannot split the end of
one where all the writes are. Expiry is a matter of filters and `sweep`, as on every store; the table's own
time-to-live would take a memory away and leave its tags, citations and vectors behind.
Proof: tests/adapters/records, tests/property, tests/crash.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from recollect.adapters.records.common.checks import check_beside, check_filters, check_groups, check_query, check_text
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.data_keys import DataKeys
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.in_python_queries import paged
from recollect.adapters.records.dynamodb import maintenance as upkeep
from recollect.adapters.records.dynamodb.client import ATTEMPTS, DynamoClient
from recollect.adapters.records.dynamodb.codec import ItemEncoding, field_of, opened
from recollect.adapters.records.dynamodb.counting import CountingView
from recollect.adapters.records.dynamodb.keys import TENANTS
from recollect.adapters.records.dynamodb.log import TenantLog
from recollect.adapters.records.dynamodb.replica import Replica, ReplicaVectors
from recollect.adapters.records.dynamodb.scan import scan_items
from recollect.adapters.records.dynamodb.segments import SEAL_ROWS, Segments, outdated
from recollect.adapters.records.dynamodb.snapshot import Snapshot
from recollect.adapters.records.dynamodb.tenant_view import TenantView
from recollect.adapters.records.dynamodb.turns import transact
from recollect.domain.record import RECORDS, Record
from recollect.errors import InvalidSettings
from recollect.ports.keys import KeyService
from recollect.ports.objects import ObjectStore
from recollect.ports.query import Beside, OneOf, Page, Query, Reading, Row, Spans, TextHit, TextQuery
from recollect.ports.records import Capabilities, Change, Problem, Scope
from recollect.ports.steps import Committed, Step
from recollect.ports.traces import ScannedPlace
from recollect.ports.vectors import StoredVector, VectorTruth

R = TypeVar("R", bound=Record)
AT_ONCE = 200


class DynamoStore:
    scans_files = False

    def __init__(self, address: str, *, key_service: KeyService | None = None, attempts: int = ATTEMPTS) -> None:
        self.address = address
        self.dynamo = DynamoClient(address, attempts)
        self.data_keys = DataKeys(self, key_service, self._write)
        self._cipher = FieldCipher(self.data_keys)
        self._codecs: dict[type[Record], Codec] = {}
        self._tenants: dict[str, TenantLog] = {}
        self._followed: dict[str, Replica] = {}
        self._segments: Segments | None = None
        self._is_encrypting = key_service is not None
        self._lock = threading.Lock()
        self.capabilities = Capabilities("dynamodb", durable=True, many_processes=True, vectors_by_tenant=True)
        try:
            self.migrate()
        except BaseException:
            self.dynamo.close()
            raise

    def __repr__(self) -> str:
        return f"DynamoStore({self.dynamo.table})"

    def tenants(self) -> list[str]:
        self.dynamo.check_open()
        return sorted(item["s"] for item in self.dynamo.query(TENANTS) if not item.get("x"))

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        found = self._view(scope).alone(record.shape.table, id)
        return opened([found])[0] if isinstance(found, record) and (deleted or not found.is_deleted) else None

    def find(self, scope: Scope, query: Query[R]) -> Page[R]:
        return paged(opened(self._found(scope, query)), query)

    def _found(self, scope: Scope, query: Query[R]) -> list[R]:
        view = self._view(scope)
        return view.settled(lambda: view.matching(query))

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        check_query(query, fields)
        return [tuple(field_of(record, name) for name in fields) for record in self._found(scope, query)]

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        return [self.select(scope, query, fields) for query, fields in readings]

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        check_beside(query)
        return self._following(scope.organization_id).beside(query)

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        check_filters(query.record, query.where)
        view = self._view(scope)
        total = view.settled(lambda: view.counted(query))
        return total if most is None else min(total, most)

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        check_filters(query.record, query.where)
        check_groups(query.record, by)
        view = self._view(scope)
        return view.settled(lambda: view.counted_by(query, by))

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self.data_keys.transact(scope, steps)

    def _write(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return transact(self.tenant(scope.organization_id), self.codec, scope, steps)

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        check_text(query)
        hits = self._following(scope.organization_id).search(query)
        if not query.where:
            return hits[: query.limit]
        view = self._view(scope)
        return view.settled(lambda: self._filtered(view, query, hits))

    def _filtered(self, view: TenantView, query: TextQuery[Record], hits: Sequence[TextHit]) -> list[TextHit]:
        """The best that pass, looked at from the top until there are enough."""
        best: list[TextHit] = []
        for start in range(0, len(hits), AT_ONCE):
            some = hits[start : start + AT_ONCE]
            named = OneOf("id", tuple(hit.id for hit in some))
            passing = {record.id for record in view.passing(Query(query.record, (named, *query.where)))}
            best += [hit for hit in some if hit.id in passing]
            if len(best) >= query.limit:
                break
        return best[: query.limit]

    def changes(self, scope: Scope, after: int, limit: int = 1000) -> list[Change]:
        view = self._view(scope)
        return view.settled(lambda: _latest(view, self.tenant(scope.organization_id), after, limit))

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[Snapshot]:
        with closing(Snapshot(self.tenant(scope.organization_id), self.codec)) as moment:
            moment.settle()
            yield moment

    def migrate(self) -> list[str]:
        return upkeep.migrate(self)

    def backup(self, target: Path) -> None:
        upkeep.backup(self.dynamo, target)

    def verify(self) -> list[Problem]:
        self.dynamo.check_open()
        return upkeep.verify(self)

    def mend(self) -> list[str]:
        return upkeep.mend(self)

    def erase_words(self) -> None:
        """No words are stored but in segments: each process has them in a file of its own that has no name."""
        self._drop_segments()

    def erase_traces(self) -> list[str]:
        """What was deleted is out of the table at once; point-in-time recovery keeps it as long as AWS is told to."""
        self._drop_segments()
        return []

    def keep_segments(self, objects: ObjectStore, seal_rows: int = SEAL_ROWS) -> None:
        """From now on copies of the search index are stored there, and fetched by processes that come later."""
        self._segments = Segments(objects, seal_rows=seal_rows, is_private=self._is_encrypting)

    def _drop_segments(self) -> None:
        """Of every tenant that this process has to do with: it was one of them that something was erased from."""
        with self._lock:
            tenants = list(self._tenants.values())
        for tenant in tenants:
            if self._segments is not None:
                self._segments.drop(tenant)
            elif outdated(tenant) is not None:
                raise InvalidSettings(
                    "a copy of the search index with what was erased lies in an object storage that is not set here",
                    remedy="set `objects` as the processes that search have it, then run `recollect sweep`",
                )

    def scan(self, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
        return scan_items(self.dynamo, scope, needles)

    def close(self) -> None:
        self.dynamo.close()
        for followed in self._followed.values():
            followed.close()

    def vectors_of(self, organization_id: str) -> VectorTruth:
        """The vectors of one tenant: seqs are counted per tenant, so an index belongs to one."""
        return ReplicaVectors(self._following(organization_id), organization_id)

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> list[StoredVector]:
        return self._following(scope.organization_id).stored_vectors(space, ids)

    def tenant(self, organization_id: str) -> TenantLog:
        self.dynamo.check_open()
        with self._lock:
            found = self._tenants.get(organization_id)
            if found is None:
                modernize = partial(upkeep.modernize, self)
                found = TenantLog(self.dynamo, organization_id, self.dynamo.new_shards, modernize)
                self._tenants[organization_id] = found
            return found

    def codec(self, record: type[Record]) -> Codec:
        codec = self._codecs.get(record)
        if codec is None:
            codec = self._codecs[record] = Codec(record, self._cipher, ItemEncoding())
        return codec

    def _view(self, scope: Scope) -> CountingView:
        return CountingView(self.tenant(scope.organization_id), self.codec)

    def _following(self, organization_id: str) -> Replica:
        tenant = self.tenant(organization_id)
        with self._lock:
            if organization_id not in self._followed:
                made = Replica(tenant, self.codec, lambda: self._segments, in_memory=self._is_encrypting)
                self._followed[organization_id] = made
            return self._followed[organization_id]


def _latest(view: TenantView, tenant: TenantLog, after: int, limit: int) -> list[Change]:
    """The entries of the log that are the last about their record."""
    found: list[Change] = []
    some: list[tuple[str, str, int, bool]] = []
    log = tenant.log_after(after)
    while len(found) < limit:
        some = [entry for _, entry in zip(range(max(100, limit)), log, strict=False)]
        if not some:
            break
        view.fetch([(table, id) for table, id, _, _ in some])
        for table, id, seq, gone in some:
            stored = view.stored(table, id)
            told = not gone or RECORDS[table].shape.leaves_trace
            if told and stored is not None and stored.seq == seq:
                found.append(Change(seq, table, id, gone))
    return found[:limit]
