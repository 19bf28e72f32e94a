"""One memory takes the place of another: when it does, and how that is undone.

What replaces a memory ends its validity, with a link that says so. A trusted memory gives way only to a trusted one:
until the replacement is promoted, the link is recorded and both are recalled. A link `may_supersede` proposes this: it
does nothing until the replacement is promoted, whatever the status of the other. When the replacement is forgotten,
erased, archived or rolled back, what it replaced is valid again as it was before; when it is demoted, what is trusted.
"""

from __future__ import annotations

from datetime import datetime

from recollect.domain.memory import TRUSTED, Memory, Relationship, Revision
from recollect.domain.record import now
from recollect.errors import Conflict
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.steps import Step
from recollect.services.memories.revise import change_steps
from recollect.services.tenant import Tenant

SUPERSEDES, MAY_SUPERSEDE = "supersedes", "may_supersede"


def refuse_replaced(tenant: Tenant, target: Memory) -> None:
    """A memory is replaced once; what comes next replaces the replacement."""
    if target.valid_to is None or target.valid_to > now():
        return
    current = _living_successors(tenant, target.id)
    if current:
        raise Conflict(
            "that memory was already replaced",
            remedy=f"supersede the one that replaced it: {current[0].id}",
            id=target.id,
            current=current[0].id,
        )


def end_steps(tenant: Tenant, successor: Memory, target: Memory) -> list[Step]:
    """End the validity of what a memory replaces, if it may."""
    if target.status in TRUSTED and successor.status not in TRUSTED:
        return []
    end = successor.valid_from or successor.occurred_at
    if target.valid_from is not None:
        end = max(end, target.valid_from)
    if target.valid_to is not None:
        end = min(end, target.valid_to)
    why = f"replaced by {successor.id}"
    return change_steps(tenant, target, "superseded", why, because_of=successor.id, valid_to=end)


def promoted_steps(tenant: Tenant, successor: Memory) -> list[Step]:
    """A promoted memory now ends what it was waiting to replace; of what is only proposed, once it is trusted."""
    types = (SUPERSEDES, MAY_SUPERSEDE) if successor.status in TRUSTED else (SUPERSEDES,)
    return [
        step
        for target in _targets(tenant, successor.id, *types)
        if target.valid_to is None or target.valid_to > now()
        for step in end_steps(tenant, successor, target)
    ]


def moved_steps(tenant: Tenant, before: Memory, after: Memory) -> list[Step]:
    """A replacement was put aside or demoted, or is back from there: what it replaced follows."""
    if after.status == "archived":
        return reinstated_steps(tenant, [before])
    if before.status in TRUSTED and after.status not in TRUSTED:
        return reinstated_steps(tenant, [before], TRUSTED)
    return promoted_steps(tenant, after) if before.status == "archived" else []


def reinstated_steps(tenant: Tenant, gone: list[Memory], statuses: frozenset[str] | None = None) -> list[Step]:
    """When replacements go, what they replaced is valid again, unless another living memory replaces it.

    With `statuses`, only what has one of them.
    """
    leaving = {memory.id for memory in gone}
    steps: list[Step] = []
    for memory in gone:
        for target in _targets(tenant, memory.id):
            if statuses is not None and target.status not in statuses:
                continue
            others = [one for one in _living_successors(tenant, target.id) if one.id not in leaving]
            former = _former_end(tenant, target, memory.id)
            if target.id not in leaving and not others and former is not False and former != target.valid_to:
                why = f"its replacement {memory.id} is gone"
                steps += change_steps(tenant, target, "restored", why, because_of=memory.id, valid_to=former)
    return steps


def _targets(tenant: Tenant, id: str, *types: str) -> list[Memory]:
    links = Query(Relationship, (equal("source_id", id), OneOf("type", types or (SUPERSEDES, MAY_SUPERSEDE))))
    ids = tuple(target for (target,) in tenant.select(links, ("target_id",)))
    return tenant.find(Query(Memory, (OneOf("id", ids),))).records if ids else []


def _living_successors(tenant: Tenant, id: str) -> list[Memory]:
    links = Query(Relationship, (equal("target_id", id), OneOf("type", (SUPERSEDES, MAY_SUPERSEDE))))
    types = dict(sorted(tenant.select(links, ("source_id", "type"))))
    found = tenant.find(Query(Memory, (OneOf("id", tuple(types)),))).records if types else []
    return [
        memory
        for memory in found
        if memory.status in TRUSTED or (types[memory.id] == SUPERSEDES and memory.status != "archived")
    ]


def _former_end(tenant: Tenant, target: Memory, by: str) -> datetime | bool | None:
    """How long the target was valid before it was replaced by this memory; False if it never was."""
    query = Query(Revision, (equal("memory_id", target.id), equal("change", "superseded")), (Order("number", True),))
    for revision in tenant.find(query).records:
        # What was written before revisions named the cause says it in words alone.
        if revision.because_of == by or (revision.because_of is None and revision.why == f"replaced by {by}"):
            return Memory.model_validate(revision.state).valid_to
    return False
