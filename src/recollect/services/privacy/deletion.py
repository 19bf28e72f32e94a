"""What an erasure deletes: all of it in one transaction, so that it has happened or not.

What patterns and summaries repeat of erased memories goes by services/memories/derived.py; what others use stays, as
when a user is removed (services/admin/removal_plan.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from recollect.domain.agents import Lease
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, now
from recollect.ports.steps import Delete, Step, Update
from recollect.services.admin.removal_plan import RemovalPlan, planned, removing_steps
from recollect.services.data.contents import deleting_steps
from recollect.services.memories.derived import erasing_steps
from recollect.services.privacy.subject import AUTHORED, Ids, SubjectData
from recollect.services.runs.history import lease_name
from recollect.services.tenant import Tenant
from recollect.services.workspaces.file_erasure import file_erasing_steps

Mentions = Literal["keep", "mask", "delete"]
Authored = Literal["keep", "delete"]
# With mentions=delete, what others wrote is deleted; the rest is masked, since others hang on it.
_DELETABLE = frozenset({"memory", "message", "execution", "query_run", "item"})
_FILES = frozenset({"workspace_file", "snapshot"})


@dataclass(frozen=True)
class ErasureChoices:
    mentions: Mentions = "mask"
    authored: Authored = "delete"
    hand_over_to: str | None = None


@dataclass
class Deletion:
    """The steps, and what the certificate says of them."""

    ids: Ids
    """All that is deleted but what the store deletes by itself: vectors, and notes of work that is owed."""
    going: dict[str, list[str]] = field(default_factory=dict)
    """What is deleted because of whose it is, without what follows from that."""
    steps: list[Step] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    derived: dict[str, int] = field(default_factory=dict)
    """Patterns and summaries: how many were deleted, how many rebuilt without what was erased."""
    handed_over: dict[str, int] = field(default_factory=dict)
    """What others use and the person owned; it belongs to another now, or to no one."""


def deletion_of(tenant: Tenant, data: SubjectData, choices: ErasureChoices) -> Deletion:
    """Everything that is deleted for good."""
    found = Deletion(_erased_ids(data, choices))
    plan = _plan(tenant, data, choices)
    going = found.going = {table: sorted(ids) for table, ids in found.ids.items()}
    if plan is not None:
        whole = replace(plan, going=going)
        found.steps += removing_steps(tenant, whole, for_good=True, moment=now())
        for table, _ in plan.kept:
            found.handed_over[table] = found.handed_over.get(table, 0) + 1
    else:
        found.steps += erasing_steps(tenant, going.get("memory", []), going.get("message", []))
        found.steps += deleting_steps(tenant, going.get("source", []))
    _count_derived(found)
    known = {table: set(ids) for table, ids in plan.going.items()} if plan is not None else {}
    for table in sorted(AUTHORED - _FILES):  # all else hangs on these
        left = found.ids.get(table, set()) - known.get(table, set())
        found.steps += [Delete(RECORDS[table], id) for id in sorted(left)]
    found.counts = {table: len(ids) for table, ids in sorted(found.ids.items()) if ids}
    found.steps += [Delete(Lease, lease_name(id)) for id in going.get("execution", [])]
    _delete_files(tenant, data, choices, found)
    for step in found.steps:
        if isinstance(step, Delete):
            found.ids.setdefault(step.record.shape.table, set()).add(step.id)
    found.ids.setdefault("memory", set()).update(data.deleted_before)
    return found


def _plan(tenant: Tenant, data: SubjectData, choices: ErasureChoices) -> RemovalPlan | None:
    if data.plan is None or choices.hand_over_to is None:
        return data.plan
    return planned(tenant, data.plan.dependents.root, choices.hand_over_to, False, ownerless=True)


def _erased_ids(data: SubjectData, choices: ErasureChoices) -> Ids:
    found = {table: set(ids) for table, ids in data.own.items()}
    for table, ids in data.by.items() if choices.authored == "delete" else ():
        found.setdefault(table, set()).update(ids)
    for table, ids in data.about.items() if choices.mentions != "keep" else ():
        # Nothing can be replaced in the bytes of a checkpoint.
        if table == "checkpoint_line" or (choices.mentions == "delete" and table in _DELETABLE):
            found.setdefault(table, set()).update(ids)
    return {table: ids for table, ids in found.items() if ids}


def _count_derived(found: Deletion) -> None:
    erased = found.ids.get("memory", set())
    for step in found.steps:
        if isinstance(step, Delete) and step.record is Memory and step.id not in erased:
            found.derived["deleted"] = found.derived.get("deleted", 0) + 1
        elif isinstance(step, Update) and isinstance(step.record, Memory) and step.record.kind == "pattern":
            found.derived["rebuilt"] = found.derived.get("rebuilt", 0) + 1


def _delete_files(tenant: Tenant, data: SubjectData, choices: ErasureChoices, found: Deletion) -> None:
    """Files by their hand go; files of others that name them go, too, since there is no other way to take it out."""
    by = data.by.get("workspace_file", set())
    for table in _FILES:
        found.counts.pop(table, None)
    files = [
        file for file in data.files if (choices.authored == "delete" if file.id in by else choices.mentions != "keep")
    ]
    snapshots = data.snapshots if files or choices.mentions != "keep" else []
    found.steps += file_erasing_steps(tenant, files, snapshots)
    own = data.own
    for table, count in (("workspace_file", len(files)), ("snapshot", len(snapshots))):
        if total := count + len(own.get(table, ())):
            found.counts[table] = total
