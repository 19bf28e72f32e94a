"""The large content of sources: stored before the records that name it, deleted after them, never lost in between.

Bytes and records are in two places, and no transaction spans both. So bytes come first: they are stored, reserved by a
lease, and the records that name them are committed together with the end of the lease. Bytes go last: the records are
deleted together with a note of what is to be deleted (services/erasure.py). What a killed process leaves is content
that no record names; `collect` deletes it after an hour. (tests/services/data/test_contents.py)
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from recollect.domain.agents import Lease
from recollect.domain.audit import Erasure
from recollect.domain.cold import ColdArchive
from recollect.domain.record import new_id, now
from recollect.domain.sources import ObjectPurpose, StoredObject
from recollect.errors import DamagedData, NotFound, RecollectError, StoreBusy, TooLarge
from recollect.ports.objects import ObjectInfo
from recollect.ports.query import Compare, IsNull, OneOf, Query, equal
from recollect.ports.records import Problem
from recollect.ports.steps import Delete, DeleteWhere, Insert, Put, Require, Step
from recollect.retry import Retry
from recollect.services.erasure import DIGESTS_AT_ONCE, delete_content, needed_content, owing
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

log = logging.getLogger("recollect.contents")
UPLOAD_SECONDS = 3600.0
"""How long content may wait for the records that name it; content without any is deleted when it is older."""
DELETION_SECONDS = 120.0  # after which whoever noted a deletion is taken for dead
_LEASES = "object:"
_PAUSES = Retry(tries=7, first_pause_seconds=0.05, longest_pause_seconds=1.0)


class Kept(NamedTuple):
    """Stored content, and the steps that name it: to be committed within the hour, after the source's own."""

    digest: str
    size: int
    steps: list[Step]
    lease: str


@contextmanager
def deleted_on_failure(tenant: Tenant) -> Iterator[list[Kept]]:
    """What is kept within the block, and added to the list, is deleted again if the block fails: nothing names it."""
    kept: list[Kept] = []
    with ExitStack() as undone:
        undone.callback(_discard, tenant, kept)
        yield kept
        undone.pop_all()


def _discard(tenant: Tenant, kept: Sequence[Kept]) -> None:
    """Without the leases, a commit that is still under way fails, so what is not named now never will be."""
    digests = sorted({one.digest for one in kept})
    try:
        if kept:
            tenant.transact([*(Delete(Lease, one.lease) for one in kept), *(owing(tenant, one) for one in digests)])
        delete_content(tenant, digests)
    except RecollectError as error:  # what went wrong before is what the caller must hear of
        log.warning("an upload that failed is deleted later: %s", error.code)


def keep(
    tenant: Tenant,
    source: Path | Iterable[bytes],
    *,
    source_id: str,
    purpose: ObjectPurpose = "upload",
    media_type: str = "application/octet-stream",
) -> Kept:
    """Store a file, or what comes in pieces, for a source. Raises TooLarge if the organization may not store as much.

    The same content for the same source and purpose is named once. Uploads that run at once are each measured against
    what is stored already.
    """
    left = tenant.object_bytes - stored_bytes(tenant)
    if isinstance(source, Path):
        if source.is_file() and source.stat().st_size > left:
            raise _over_quota(tenant, left)
        stored = _reserved(tenant, source)
    else:
        stored = _reserved(tenant, _at_most(tenant, source, left))
    about = hashlib.sha256("\0".join((source_id, stored.info.digest, purpose)).encode()).hexdigest()[:32]
    record = made(
        StoredObject, tenant, id=about, source_id=source_id, digest=stored.info.digest, size=stored.info.size,
        media_type=media_type, purpose=purpose,
    )  # fmt: skip
    steps: list[Step] = [Require(Lease, stored.lease), Put(record), Delete(Lease, stored.lease)]
    return Kept(stored.info.digest, stored.info.size, steps, stored.lease)


class _Reserved(NamedTuple):
    info: ObjectInfo
    lease: str


def _reserved(tenant: Tenant, source: Path | Iterable[bytes]) -> _Reserved:
    """Store it and reserve it; store it again if somebody deleted it in between."""
    info = tenant.objects.put(tenant.content_place, source)
    lease = Lease(
        organization_id=tenant.scope.organization_id,
        id=f"{_LEASES}{new_id()}",
        holder=tenant.scope.actor or "upload",
        fence=1,
        expires_at=now() + timedelta(seconds=UPLOAD_SECONDS),
        claim_key=info.digest,
    )
    tenant.transact([Insert(lease)])
    _await_deletion(tenant, info.digest)
    if tenant.objects.info(tenant.content_place, info.digest) is None:
        if not isinstance(source, Path):
            raise StoreBusy("the same content was deleted meanwhile", remedy="upload it again", digest=info.digest)
        tenant.objects.put(tenant.content_place, source)
    return _Reserved(info, lease.id)


def _await_deletion(tenant: Tenant, digest: str) -> None:
    """Wait until nobody deletes this content. Who begins from now on sees that it is reserved."""
    for pause in _PAUSES.chances():
        note = tenant.get(Erasure, digest)
        if note is None:
            return
        if note.updated_at < now() - timedelta(seconds=DELETION_SECONDS):
            delete_content(tenant, [digest])  # which keeps the content, since it is reserved, and ends the deletion
            continue
        pause()
    raise StoreBusy("the same content is being deleted", remedy="try again in a few minutes", digest=digest)


def stored_bytes(tenant: Tenant) -> int:
    """How much content the records of the tenant name; what several of them name counts once."""
    return sum(dict(tenant.select(Query(StoredObject, deleted="yes"), ("digest", "size"))).values())


def _at_most(tenant: Tenant, pieces: Iterable[bytes], left: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > left:
            raise _over_quota(tenant, left)
        yield piece


def _over_quota(tenant: Tenant, left: int) -> TooLarge:
    return TooLarge(
        f"an organization may store {tenant.object_bytes:,} bytes of files, of which {max(left, 0):,} are left",
        remedy="delete sources for good that are no longer needed, or raise `object_bytes` in the settings",
        limit=tenant.object_bytes,
        left=max(left, 0),
    )


def deleting_steps(tenant: Tenant, source_ids: Sequence[str]) -> list[Step]:
    """Notes that the content of these sources is to be deleted: commit them with the deletion of the sources, then
    call `erasure.erase_traces`. What another source names stays.
    """
    digests: set[str] = set()
    for start in range(0, len(source_ids), DIGESTS_AT_ONCE):
        of_these = OneOf("source_id", tuple(source_ids[start : start + DIGESTS_AT_ONCE]))
        digests |= {digest for (digest,) in tenant.select(Query(StoredObject, (of_these,), deleted="yes"), ("digest",))}
    return [owing(tenant, digest) for digest in sorted(digests)]


def dropping_steps(tenant: Tenant, objects: Sequence[StoredObject]) -> list[Step]:
    """The same for single objects of a source that stays, such as those of a former version."""
    return [step for one in objects for step in (Delete(StoredObject, one.id), owing(tenant, one.digest))]


def collect(tenant: Tenant) -> int:
    """Delete content that no record names and nobody uploads, and temporary files; how many objects.

    Safe while others upload: bytes that are younger than an hour may be about to be named, and stay.
    """
    tenant = tenant.unrestricted
    ended = (Compare("id", ">=", _LEASES), Compare("id", "<", _after(_LEASES)), Compare("expires_at", "<", now()))
    if tenant.count(Query(Lease, ended)):
        tenant.transact([DeleteWhere(Lease, ended)])
    tenant.objects.sweep()
    before, deleted = now() - timedelta(seconds=UPLOAD_SECONDS), 0
    old = [info.digest for info in stored_content(tenant) if info.modified < before]
    for start in range(0, len(old), DIGESTS_AT_ONCE):
        some = old[start : start + DIGESTS_AT_ONCE]
        unneeded = sorted(set(some) - needed_content(tenant, some))
        if unneeded:
            tenant.transact([owing(tenant, digest) for digest in unneeded])
            deleted += delete_content(tenant, unneeded)
    return deleted


def stored_content(tenant: Tenant) -> Iterator[ObjectInfo]:
    """Everything that the objects have of this tenant, listed in records or not."""
    place = tenant.keyring.known_content_place(tenant.scope.organization_id)
    return tenant.objects.list(place) if place is not None else iter(())


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class ContentCheck(NamedTuple):
    """How many objects the records name, how many more are stored, and what is wrong."""

    named: int
    unneeded: int
    problems: list[Problem]


def check_contents(tenant: Tenant, *, deep: bool = False) -> ContentCheck:
    """Compare the records with what is stored: that it is there, its size, and with `deep` its hash."""
    rows = tenant.select(Query(StoredObject, deleted="yes"), ("id", "digest", "size"))
    stored = {info.digest: info.size for info in stored_content(tenant)}
    problems, found = [], dict[str, str]()
    for id, digest, size in rows:
        if digest not in found:
            found[digest] = _wrong_with(tenant, digest, size, stored.get(digest), deep)
        if found[digest]:
            problems.append(Problem(found[digest], "object", id, tenant.scope.organization_id))
    in_use = (IsNull("address"), IsNull("session_id", wanted=False), equal("status", "stored"))
    for archive in tenant.find(Query(ColdArchive, in_use)).records:
        for digest in (archive.digest, archive.manifest):
            found[digest] = _wrong_with(tenant, digest, stored.get(digest, 0), stored.get(digest), deep)
            if found[digest]:
                what = found[digest].replace("upload the file again", "put it back from a backup")
                problems.append(Problem(what, "cold_archive", archive.id, tenant.scope.organization_id))
    return ContentCheck(len(found), len(stored.keys() - found.keys()), problems)


def _wrong_with(tenant: Tenant, digest: str, size: int, stored: int | None, deep: bool) -> str:
    if stored is None:
        return f"its content {digest} is missing; upload the file again"
    if stored != size:
        return f"its content {digest} has {stored} instead of {size} bytes; upload the file again"
    try:
        for _ in tenant.objects.read(tenant.content_place, digest) if deep else ():
            pass
    except (DamagedData, NotFound) as error:
        return error.message
    return ""
