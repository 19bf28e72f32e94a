"""Erasure of traces: what was deleted for good is overwritten on disk, or noted as pending until it is.

Deleting a record and overwriting its bytes are two steps: the second may fail (full disk, a concurrent reader, a killed
process) after the first. So every deletion that promises both commits a note with it, which has an id but no text; the
note is deleted after the overwriting. Pending erasures are shown by `doctor` and `stats`, and done by erasing the
memory again, by `sweep`, by `doctor --fix`, by background work and when the store is opened next.

Large content is deleted the same way: its note has its digest as id. Content that is uploaded again meanwhile must not
be lost. Who deletes first commits the note, then looks for records and uploads that need the content; who uploads first
reserves the content, then looks for a note (services/data/contents.py). So one of the two always sees the other.

Files of cold storage are deleted once their archive has no session any more: it was restored or deleted, or a killed
process never finished them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from recollect.domain.agents import Lease
from recollect.domain.audit import Erasure
from recollect.domain.cold import ColdArchive
from recollect.domain.record import now
from recollect.domain.sources import StoredObject
from recollect.domain.text.questions import forget_names
from recollect.domain.text.tokenizer import forget_texts
from recollect.errors import (
    IndexFailed,
    InvalidSettings,
    NotFound,
    RecollectError,
    RequirementFailed,
    Unavailable,
    VersionConflict,
)
from recollect.ports.models import RemembersQuestions
from recollect.ports.objects import is_object_hash
from recollect.ports.query import Compare, IsNull, OneOf, Query, equal
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Delete, DeleteWhere, Put, Require, Step, Update
from recollect.services.leases import held_now
from recollect.services.tenant import Core, Tenant

log = logging.getLogger("recollect.erasing")
DIGESTS_AT_ONCE = 200
COLD_WRITING_SECONDS = 6 * 3600.0
"""How long a session may take to be moved to cold storage; files without a session are deleted when they are older."""


def owing(tenant: Tenant, id: str) -> Step:
    """The note that the traces of something must be erased; commits with its deletion."""
    return Put(
        Erasure(
            organization_id=tenant.scope.organization_id,
            id=id,
            created_by=tenant.scope.actor,
            updated_by=tenant.scope.actor,
        )
    )


def owed(tenant: Tenant) -> int:
    return tenant.count(Query(Erasure))


def erase_traces(tenant: Tenant) -> list[str]:
    """Have the store and the index overwrite what was deleted; returns notes if the index is unavailable."""
    tenant = tenant.unrestricted  # what others need is not deleted, whoever asks
    noted = [id for (id,) in tenant.select(Query(Erasure), ("id",))]  # later ones are not affected
    notes = tuple(id for id in noted if not is_object_hash(id))
    waits: list[str] = []
    try:
        delete_content(tenant, [id for id in noted if is_object_hash(id)])
        delete_cold_files(tenant)
    except (Unavailable, InvalidSettings) as failure:
        waits.append(f"stored files are deleted when their storage is available again: {failure.message}")
        notes = _of_other_than_cold_files(tenant, notes)
    try:
        waits += _overwritten_in_memory_and_index(tenant)
        unfinished = _overwritten_in_store(tenant)
    except RecollectError as error:
        raise type(error)(
            f"it is deleted, but traces of it are still on disk: {error.message}",
            remedy="fix that, then erase it again or run `recollect sweep`; opening the store also tries it",
            **error.details,
        ) from error
    if notes and not unfinished:
        tenant.transact([DeleteWhere(Erasure, (OneOf("id", notes),))])
    return waits + unfinished


def _of_other_than_cold_files(tenant: Tenant, notes: tuple[str, ...]) -> tuple[str, ...]:
    """Those that can go; while files of cold storage are to be deleted, one stays, so that it is tried again."""
    return notes[1:] if tenant.count(Query(ColdArchive, (IsNull("session_id"),))) else notes


def overwrite(core: Core) -> list[str]:
    """The index and the store overwrite what was deleted; notes, if the index is unavailable or the store not done."""
    return _overwritten_in_memory_and_index(core) + _overwritten_in_store(core)


def _overwritten_in_store(core: Core) -> list[str]:
    return core.store.erase_traces() or []  # a store of somebody else's may say nothing, as all did before


def _overwritten_in_memory_and_index(core: Core) -> list[str]:
    """Questions may have named it. They are only in memory, as are short texts whose words were found lately: this
    process forgets those of all its tenants."""
    forget_texts()
    forget_names()
    for embedder in (*core.embedders, core.question_encoder):
        if isinstance(embedder, RemembersQuestions):
            embedder.forget_questions()
    try:
        core.vectors.purge()
    except IndexFailed as failure:
        when = "when it is available again and `reindex` runs"
        return [f"their vectors are removed from the index {when}: {failure.message}"]
    return []


def delete_content(tenant: Tenant, digests: Sequence[str]) -> int:
    """Delete noted content that no record and no upload needs, and its notes; how many objects were deleted.

    A note is taken over before, by which its version grows, and stays if yet another process took it over meanwhile:
    while somebody may still be deleting there is a note.
    """
    tenant, deleted = tenant.unrestricted, 0
    for start in range(0, len(digests), DIGESTS_AT_ONCE):
        some = tuple(digests[start : start + DIGESTS_AT_ONCE])
        taken = [note for note in tenant.find(Query(Erasure, (OneOf("id", some),))).records if _is_taken(tenant, note)]
        of_these = tuple(note.id for note in taken)
        unneeded = sorted(set(of_these) - needed_content(tenant, of_these))
        if unneeded:
            tenant.objects.delete(tenant.content_place, unneeded)
        deleted += len(unneeded)
        for note in taken:
            try:
                tenant.transact([Require(Erasure, note.id, {"version": note.version + 1}), Delete(Erasure, note.id)])
            except RequirementFailed:
                continue  # it is another's now
    return deleted


def _is_taken(tenant: Tenant, note: Erasure | ColdArchive, **fields: object) -> bool:
    try:
        tenant.transact([Update(revised(note, tenant.scope, **fields))])
    except (VersionConflict, NotFound):
        return False
    return True


def needed_content(tenant: Tenant, digests: Sequence[str]) -> set[str]:
    """Which of these a record needs, or somebody is uploading now."""
    if not digests:
        return set()
    records = Query(StoredObject, (OneOf("digest", tuple(digests)),), deleted="yes")
    cold = [
        (Query(ColdArchive, (IsNull("session_id", wanted=False), OneOf(name, tuple(digests)))), name)
        for name in ("digest", "manifest")
    ]
    uploads = Query(Lease, (OneOf("claim_key", tuple(digests)), *held_now()))
    return {
        digest for query, name in ((records, "digest"), (uploads, "claim_key"), *cold)
        for (digest,) in tenant.select(query, (name,))
    }  # fmt: skip


def delete_cold_files(tenant: Tenant) -> int:
    """Delete the files of archives that have no session any more, and those that were never finished; how many."""
    tenant = tenant.unrestricted
    stale = Compare("updated_at", "<", now() - timedelta(seconds=COLD_WRITING_SECONDS))
    unfinished = Query(ColdArchive, (equal("status", "writing"), IsNull("session_id", wanted=False), stale))
    for archive in tenant.find(unfinished).records:
        _is_taken(tenant, archive, session_id=None)
    done = 0
    for archive in tenant.find(Query(ColdArchive, (IsNull("session_id"),))).records:
        digests = {archive.digest, archive.manifest}
        if archive.address is None:
            unneeded = sorted(digests - needed_content(tenant, sorted(digests)))
            tenant.objects.delete(tenant.content_place, unneeded)
        elif archive.place == tenant.content_place:  # else they are another store's, which this one is a copy of
            tenant.cold_places(archive.address, Scope(tenant.scope.organization_id)).delete(archive.place, digests)
        tenant.transact([Delete(ColdArchive, archive.id)])
        done += 1
    return done


def is_owed(tenant: Tenant, id: str) -> bool:
    """Whether this is already deleted, and only its traces are left."""
    return tenant.get(Erasure, id) is not None


def finish(tenant: Tenant) -> int:
    """Erase pending traces; returns the number of deletions."""
    count = owed(tenant)
    if count:
        erase_traces(tenant)
    return count


def finish_quietly(tenant: Tenant) -> None:
    """The same as a side task: what cannot be done now stays pending."""
    try:
        finish(tenant)
    except RecollectError as error:
        log.warning("traces of what was deleted are still on disk: %s", error.code)
