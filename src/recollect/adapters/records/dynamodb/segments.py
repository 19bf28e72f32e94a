"""Sealed segments: a copy of what a process keeps to search a tenant, in the storage for large content (S3).

Without one, every process that searches reads all texts and vectors of the organization once. With one, it fetches a
file and reads what the log tells of since. The item `g` of the tenant names the one in force. A segment is derived: one
that is missing, damaged, of another format or of another incarnation is made again, and storage that is away only costs
reading. Since it holds words and vectors of what may be erased later, it is deleted when something was (`drop`), and
none is put in force that describes a record as it no longer is.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.adapters.records.dynamodb.client import TransactionCancelled, TransactionContended, pauses
from recollect.adapters.records.dynamodb.codec import Item
from recollect.adapters.records.dynamodb.keys import Key
from recollect.adapters.records.dynamodb.log import LogHead, TenantLog
from recollect.adapters.records.dynamodb.replica_file import ReplicaFile, format_mark
from recollect.domain.record import new_id
from recollect.errors import RecollectError
from recollect.ports.objects import ObjectStore

log = logging.getLogger("recollect.records")
SEAL_ROWS = 500
"""Fewer records and vectors than this are read faster than fetched."""
_SHARE = 4  # a new segment is made when a quarter of it would be new


class Segments:
    """Those of one table, in one storage."""

    def __init__(self, objects: ObjectStore, *, seal_rows: int = SEAL_ROWS, is_private: bool = False) -> None:
        self._objects = objects
        self.seal_rows = seal_rows
        self._is_private = is_private

    def is_due(self, size: int, unsealed: int) -> bool:
        return unsealed >= max(self.seal_rows, size // _SHARE)

    def fill(self, tenant: TenantLog, head: LogHead, file: ReplicaFile) -> int | None:
        """Make a new file what the segment in force is; the seq that it is of, None if there is none to be used."""
        named = tenant.dynamo.get([_key(tenant)]).get(_key(tenant))
        if named is None or (named["i"], named["f"]) != (head.incarnation, format_mark()) or named["q"] > head.seq:
            return None
        try:
            with self._folder() as folder, (folder / "segment").open("wb") as copy:
                # read, not fetched: no copy of what may be erased one day is left in a cache of this machine
                copy.writelines(self._objects.read(_place(tenant, head), named["o"]))
                copy.flush()
                file.read_from(folder / "segment")
        except RecollectError as error:  # it is derived, and the table has everything
            log.warning("a segment of the search index cannot be fetched, so the table is read: %s", error.code)
            return None
        return int(named["q"])

    def seal(self, tenant: TenantLog, head: LogHead, file: ReplicaFile) -> bool:
        """Store a copy and put it in force; whether that was done."""
        try:
            with self._folder() as folder:
                path = folder / "segment"
                if not file.copied_to(path):
                    return False
                digest = self._objects.put(_place(tenant, head), path).digest
        except (RecollectError, OSError) as error:
            log.warning("a segment of the search index could not be stored: %s", getattr(error, "code", error))
            return False
        before = tenant.dynamo.get([_key(tenant)]).get(_key(tenant))
        in_force = self._put_in_force(tenant, head, file, digest)
        if before is not None and before["o"] == digest:
            return in_force
        if not in_force:
            self._delete(_place(tenant, head), digest)
        elif before is not None:
            self._delete(f"{tenant.id}@search-{before['i']}", before["o"])
        return in_force

    def _put_in_force(self, tenant: TenantLog, made_at: LogHead, file: ReplicaFile, digest: str) -> bool:
        """Unless a record that the copy has was changed or erased since it was made."""
        key = _key(tenant)
        item: Item = {"p": key[0], "s": key[1], "o": digest, "q": made_at.seq, "i": made_at.incarnation}
        for pause in pauses(5):
            now = tenant.head()
            changed = tenant.log_after(made_at.seq)
            if now.incarnation != made_at.incarnation or any(file.has(table, id) for table, id, _, _ in changed):
                return False
            still = "q = :q AND i = :i AND attribute_not_exists(x)"
            fence = tenant.dynamo.check(tenant.keys.head, still, q=now.seq, i=now.incarnation)
            newer = "attribute_not_exists(p) OR q <= :q OR i <> :i OR f <> :f"
            put = tenant.dynamo.put(
                {**item, "f": format_mark()}, newer, q=made_at.seq, i=made_at.incarnation, f=format_mark()
            )
            try:
                tenant.dynamo.transact([fence, put], new_id())
                return True
            except TransactionCancelled as failed:
                if 1 in failed.places:
                    return False  # another process has put a newer one in force
                pause()
            except TransactionContended:
                pause()
        return False

    def drop(self, tenant: TenantLog) -> None:
        """Delete the segment in force if it may describe a record that was changed or erased since."""
        named = outdated(tenant)
        if named is None:
            return
        self._objects.delete(f"{tenant.id}@search-{named['i']}", [named["o"]])
        gone = tenant.dynamo.delete(_key(tenant), "o = :o", o=named["o"])
        try:
            tenant.dynamo.transact([gone], new_id())
        except (TransactionCancelled, TransactionContended):  # a newer one is in force, which has none of it
            return

    def _delete(self, place: str, digest: str) -> None:
        try:
            self._objects.delete(place, [digest])
        except RecollectError as error:
            log.warning("a segment of the search index that is not used any more stays in storage: %s", error.code)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """In memory where the store is encrypted: the copy has words in the clear until it is put."""
        shared = Path("/dev/shm")
        within = str(shared) if self._is_private and shared.is_dir() else None
        with tempfile.TemporaryDirectory(prefix="recollect-", dir=within) as folder:
            yield Path(folder)


def outdated(tenant: TenantLog) -> Item | None:
    """What names the segment in force, if anything was changed since it was made."""
    named = tenant.dynamo.get([_key(tenant)]).get(_key(tenant))
    return named if named is not None and any(True for _ in tenant.log_after(named["q"])) else None


def _key(tenant: TenantLog) -> Key:
    return tenant.keys.segments, "segment"


def _place(tenant: TenantLog, head: LogHead) -> str:
    """Apart from the content that records name, which is swept; sealed with the key of the organization."""
    return f"{tenant.id}@search-{head.incarnation}"
