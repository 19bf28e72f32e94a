"""A restore drill: proves a backup by restoring it to a temporary place and using it as a store."""

from __future__ import annotations

import time

from pydantic import Field

from recollect.domain.backups import Backup
from recollect.domain.memory import Memory
from recollect.domain.record import Id, now
from recollect.errors import InvalidInput
from recollect.ports.query import Order, Query
from recollect.ports.records import Scope
from recollect.services.admin.maintenance import VerifyRequest, verify
from recollect.services.backups.history import last_at_place, record_backup
from recollect.services.memories.indexing import Progress
from recollect.services.recall.recall import RecallRequest, find
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, Tenant
from recollect.services.transaction import load

ASKED = 3
MOST_ASKED = 30
LONGEST_QUESTION = 200


class DrillRequest(Request):
    """Which backup to prove."""

    id: Id | None = Field(None, description="The backup; by default the last one")


class DrillReply(Reply):
    """What was proven, and what was not; `sound` if there is no problem."""

    sound: bool
    id: str
    place: str
    organizations: int
    memories: int
    objects: int = Field(0, description="Stored files that were read and checked against their hashes")
    recalled: int = Field(0, description="Memories that were found again by their own words")
    asked: int = Field(0, description="Memories that were looked for")
    restore_seconds: float
    seconds: float
    problems: list[str] = Field(default_factory=list)


def drill(tenant: Tenant, request: DrillRequest, progress: Progress = lambda done, total: None) -> DrillReply:
    """Restore a backup to a temporary place, check every record and file, recall from it, and record the result."""
    found = load(tenant, Backup, request.id) if request.id is not None else last_at_place(tenant)
    if found.kind == "file" or found.error is not None:
        raise InvalidInput(
            "only backups in a folder or a bucket can be tried this way",
            remedy="restore this one with `recollect backup restore`, then run `recollect verify` on the copy",
        )
    began, repository = time.monotonic(), tenant.backups.at(found.place)
    repository.check(found.id, lambda size: progress(0, 0))
    with tenant.backups.restored(repository, found.id, objects=True) as copy:
        restored = time.monotonic() - began
        reply = _tried(copy, progress).model_copy(update={"id": found.id, "place": found.place})
    reply = reply.model_copy(
        update={"restore_seconds": round(restored, 3), "seconds": round(time.monotonic() - began, 3)}
    )
    moment = now()
    proven = found.changed(
        drilled_at=moment,
        drill=reply.model_dump(exclude={"id", "place"}),
        verified_at=moment if reply.sound else found.verified_at,
    )
    record_backup(tenant, proven)
    return reply


def _tried(copy: Core, progress: Progress) -> DrillReply:
    reply = DrillReply(
        sound=True, id="", place="", organizations=0, memories=0, restore_seconds=0, seconds=0
    )  # fmt: skip
    organizations = copy.store.tenants()
    problems: list[str] = []
    for done, organization in enumerate(organizations):
        tenant = copy.for_scope(Scope(organization))
        checked = verify(tenant, VerifyRequest(deep=True))
        asked, recalled = _recalled(tenant) if reply.asked < MOST_ASKED else (0, 0)
        problems += [f"{organization}: {problem.what}" for problem in checked.problems]
        if asked and not recalled:  # some may have been replaced by newer ones, but not all
            problems.append(f"{organization}: none of {asked} memories is found by its own words")
        reply = reply.model_copy(
            update={
                "memories": reply.memories + checked.memories,
                "objects": reply.objects + checked.objects,
                "asked": reply.asked + asked,
                "recalled": reply.recalled + recalled,
            }
        )
        progress(done + 1, len(organizations))
    return reply.model_copy(
        update={"organizations": len(organizations), "sound": not problems, "problems": problems[:100]}
    )


def _recalled(tenant: Tenant) -> tuple[int, int]:
    """How many of the newest memories were looked for by their own words, and how many found."""
    newest = tenant.find(Query(Memory, (), (Order("id", True),), ASKED)).records
    asked = [one for one in newest if one.text.strip() and one.status != "archived"]
    found = 0
    for one in asked:
        question = RecallRequest(query=one.text[:LONGEST_QUESTION], namespaces=one.namespaces, limit=20)
        found += any(hit.id == one.id for hit in find(tenant, question).hits)
    return len(asked), found
