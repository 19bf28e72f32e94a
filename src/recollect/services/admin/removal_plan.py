"""What is removed with a record: whose it is, who else uses it, and how it is restored.

A record belongs to the user it names, else to its parent. A record that belongs to another user, or has such children,
is shared: the removal is refused, or the record is handed over, or removed only if the request says so. Removing is
soft: the party and all records that can be read by themselves are hidden with the same time (`updated_at`), by which
`returning_steps` finds exactly them again; their children (steps of a run, files of a workspace) cannot be reached
without them and stay as they are. The sweep deletes for good what was not restored in time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from pydantic import Field

from recollect.domain.agents import Agent, Block, Execution, Lease, Tool
from recollect.domain.cold import ColdArchive
from recollect.domain.conversations import Message, Session
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, Record, now
from recollect.domain.sources import Source
from recollect.domain.tenancy import Membership, Project, User
from recollect.domain.workspaces import Workspace
from recollect.errors import Conflict, InColdStorage, InvalidInput
from recollect.ports.query import Compare, Filter, Holds, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Absent, Delete, Require, Step, Update
from recollect.services.data.contents import deleting_steps
from recollect.services.legal_holds import refuse_held
from recollect.services.memories import message_vectors
from recollect.services.memories.data_vectors import moved_steps
from recollect.services.memories.derived import erasing_steps, forgetting_steps
from recollect.services.memories.embeddings import restored_steps
from recollect.services.memories.revise import change_steps, fallen_steps, identified, kept_steps
from recollect.services.parties import PARTIES
from recollect.services.requests import Reply
from recollect.services.runs.history import lease_name
from recollect.services.tenant import Tenant
from recollect.services.transaction import load, logged, spoken

CHUNK = 500
DERIVED = frozenset({"embedding", "index_task"})  # derived from the others
# Records that are found by themselves, and so hidden by themselves; all others are read through one of these.
HIDDEN = (
    *PARTIES,
    "api_key", "message", "block", "tool", "memory", "agent_state", "workspace", "execution", "source", "connection",
    "query_run",
)  # fmt: skip
HIDDEN_WITH = {"block": ("block_link",), "tool": ("tool_link",)}
"""What a block or tool was attached to: no longer when it is removed, and again when it is restored."""
REMOVED_ALONE: tuple[type[Record], ...] = (Message, Block, Tool, Workspace, Execution)
"""Records other than parties that are removed and restored one by one."""
Key = tuple[str, str]
"""A table and an id."""
Owner = tuple[str, str] | None
"""`user` or `agent`, and the id; None for what belongs to no one."""


class RecordCount(Reply):
    """How many records of one type belong to whom."""

    table: str
    owner_type: str | None = Field(None, description="user or agent; empty for what belongs to no one")
    owner: str | None = None
    owner_name: str = ""
    others: bool = Field(False, description="Whether it belongs to someone other than the one being removed")
    count: int


@dataclass
class Dependents:
    """All records that depend on a party, the owner of each, and the parent of each."""

    root: Record
    owners: dict[Key, Owner] = field(default_factory=dict)
    parents: dict[Key, set[Key]] = field(default_factory=lambda: defaultdict(set))
    links: dict[Key, str] = field(default_factory=dict)  # the field by which direct children refer to the party
    removed: set[str] = field(default_factory=set)  # users who are removed themselves

    @property
    def start(self) -> Key:
        return (self.root.shape.table, self.root.id)

    def others(self) -> set[Key]:
        """What belongs to other users."""
        people: set[Owner] = {("user", user) for user in self.users() - self.removed}
        own: set[Owner] = {self.owners[self.start]} if self.owners[self.start] else set()
        if not own and len(people) == 1:
            own = people  # a project or session without an owner that only one person used belongs to that person
        return {key for key, owner in self.owners.items() if owner not in own and owner in people}

    def users(self) -> set[str]:
        return {owner[1] for owner in self.owners.values() if owner and owner[0] == "user"}

    def shared(self) -> set[Key]:
        """The direct children that belong to another user, or have such children."""
        found: set[Key] = set()
        seen = frontier = self.others()
        while frontier:
            found |= {key for key in frontier if self.start in self.parents[key]}
            frontier = {parent for key in frontier for parent in self.parents[key]} - seen - {self.start}
            seen = seen | frontier
        return found

    def going(self, kept: set[Key]) -> dict[str, list[str]]:
        """What is removed, by table, if these stay."""
        children: dict[Key, list[Key]] = defaultdict(list)
        for key, above in self.parents.items():
            for parent in above:
                children[parent].append(key)
        seen, frontier = {self.start}, [self.start]
        while frontier:
            frontier = [key for parent in frontier for key in children[parent] if key not in seen and key not in kept]
            seen |= set(frontier)
        tables: dict[str, list[str]] = defaultdict(list)
        for table, id in sorted(seen):
            tables[table].append(id)
        return tables


def dependents_of(tenant: Tenant, root: Record) -> Dependents:
    """Everything that deleting a party would delete, by the references that records declare."""
    found = Dependents(root)
    found.owners[found.start] = _owner_of_party(root)
    frontier: dict[str, list[str]] = {root.shape.table: [root.id]}
    spoken_in: dict[Key, str] = {}
    while frontier:
        following: dict[str, list[str]] = defaultdict(list)
        for table, ids in frontier.items():
            for record, link in _hanging_on(table):
                for id, parent, user, session in _rows(tenant, record, link, ids):
                    key = (record.shape.table, id)
                    found.parents[key].add((table, parent))
                    if (table, parent) == found.start:
                        found.links[key] = link
                    if session is not None and user is None:
                        spoken_in[key] = session
                    if key not in found.owners:
                        found.owners[key] = ("user", user) if user is not None else found.owners[table, parent]
                        following[record.shape.table].append(id)
        frontier = following
    _settle_replies(tenant, found, spoken_in)
    for some in _chunks(sorted(found.users())):
        gone = Query(User, (OneOf("id", some),), deleted="only")
        found.removed |= {id for (id,) in tenant.select(gone, ("id",))}
    return found


def depending_on(tenant: Tenant, roots: dict[str, set[str]]) -> dict[str, set[str]]:
    """These records, by table, and everything that deleting them would delete."""
    found = {table: set(ids) for table, ids in roots.items()}
    frontier = {table: sorted(ids) for table, ids in roots.items()}
    while frontier:
        following: dict[str, list[str]] = defaultdict(list)
        for table, ids in frontier.items():
            for record, link in _hanging_on(table):
                known = found.setdefault(record.shape.table, set())
                fresh = {row[0] for row in _rows(tenant, record, link, ids)} - known
                known |= fresh
                following[record.shape.table] += sorted(fresh)
        frontier = {table: ids for table, ids in following.items() if ids}
    return {table: ids for table, ids in found.items() if ids}


def _owner_of_party(root: Record) -> Owner:
    if isinstance(root, User | Agent):
        return (root.shape.table, root.id)
    user = root.owner_id if isinstance(root, Project) else getattr(root, "user_id", None)
    return ("user", user) if user is not None else None


@cache
def _hanging_on(table: str) -> tuple[tuple[type[Record], str], ...]:
    return tuple(
        (record, name)
        for record in RECORDS.values()
        if record.shape.table not in DERIVED
        for name, reference in record.shape.references.items()
        if reference.to == table and reference.on_delete == "cascade"
    )


def _rows(
    tenant: Tenant, record: type[Record], link: str, ids: Sequence[str]
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Id, parent and user, and for a message its session."""
    names = ["id", link]
    user = next((name for name in ("user_id", "owner_id") if name in record.model_fields), None)
    user = None if record is Membership else user  # it says who takes part in a project, and is the project's
    names += [user] if user else []
    names += ["session_id"] if record is Message and link != "session_id" else []
    for some in _chunks(ids):
        for row in tenant.select(Query(record, (OneOf(link, some),), deleted="yes"), tuple(names)):
            told = dict(zip(names, row, strict=True))
            yield told["id"], told[link], told.get(user or ""), told.get("session_id")


def _settle_replies(tenant: Tenant, found: Dependents, spoken_in: dict[Key, str]) -> None:
    """Messages of a session without a user belong to the owner of the session."""
    users: dict[str, str] = {}
    for some in _chunks(sorted(set(spoken_in.values()))):
        owned = Query(Session, (OneOf("id", some), IsNull("user_id", wanted=False)), deleted="yes")
        users |= dict(tenant.select(owned, ("id", "user_id")))
    for key, session in spoken_in.items():
        if session in users:
            found.owners[key] = ("user", users[session])


def _chunks(ids: Iterable[str]) -> Iterator[tuple[str, ...]]:
    listed = list(ids)
    for start in range(0, len(listed), CHUNK):
        yield tuple(listed[start : start + CHUNK])


@dataclass(frozen=True)
class RemovalPlan:
    """What a removal deletes, and what it hands over to whom."""

    dependents: Dependents
    others: set[Key]
    kept: set[Key]
    going: dict[str, list[str]]
    heir: str | None
    with_others: bool
    ownerless: bool = False
    """What others use stays, and belongs to no one if there is no heir."""

    @property
    def refusal(self) -> Conflict | None:
        if not self.others or self.with_others or self.heir is not None or self.ownerless:
            return None
        root = self.dependents.root
        remedy = "give with_others=True to remove it nevertheless"
        if not isinstance(root, Session):
            remedy = f"name another {root.shape.table} in hand_over_to to keep it for them, or {remedy}"
        owners = sorted({owner[1] for key in self.others if (owner := self.dependents.owners[key])})
        return Conflict(
            f"{len(self.others)} records that depend on {root.shape.table} '{root.id[:80]}' belong to other users",
            remedy=f"{remedy}; dry_run=True shows what and whose",
            id=root.id,
            others=len(self.others),
            owners=owners[:20],
        )


def planned(
    tenant: Tenant, root: Record, heir: str | None, with_others: bool, *, ownerless: bool = False
) -> RemovalPlan:  # fmt: skip
    """What removing a party does, without doing it."""
    if heir is not None:
        _check_heir(tenant, root, heir)
    hanging = dependents_of(tenant, root)
    others = hanging.others()
    kept = hanging.shared() if (ownerless or heir is not None) and not with_others else set()
    return RemovalPlan(hanging, others, kept, hanging.going(kept), heir, with_others, ownerless)


def _check_heir(tenant: Tenant, root: Record, heir: str) -> None:
    if isinstance(root, Session):
        raise InvalidInput("a session has nothing to hand over", remedy="give with_others=True, or do not remove it")
    if heir == root.id:
        raise InvalidInput(f"a {root.shape.table} cannot inherit from itself", remedy="name another one")
    load(tenant, type(root), heir)


def counted(tenant: Tenant, plan: RemovalPlan, tables: dict[str, list[str]]) -> list[RecordCount]:
    """How many records of which type belong to whom."""
    counts = Counter((table, plan.dependents.owners[table, id]) for table, ids in tables.items() for id in ids)
    others = {plan.dependents.owners[key] for key in plan.others}
    names = _names(tenant, {owner for _, owner in counts if owner})
    return [
        RecordCount(
            table=table,
            owner_type=owner[0] if owner else None,
            owner=owner[1] if owner else None,
            owner_name=names.get(owner, "") if owner else "",
            others=owner in others,
            count=count,
        )
        for (table, owner), count in sorted(counts.items(), key=lambda one: (one[0][0], one[0][1] or ("", "")))
    ]


def _names(tenant: Tenant, owners: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    names: dict[tuple[str, str], str] = {}
    for type in ("user", "agent"):
        for some in _chunks(sorted(id for one, id in owners if one == type)):
            rows = tenant.select(Query(PARTIES[type], (OneOf("id", some),), deleted="yes"), ("id", "name"))
            names |= {(type, id): name for id, name in rows}
    return names


def removing_steps(tenant: Tenant, plan: RemovalPlan, *, for_good: bool, moment: datetime) -> list[Step]:
    """Hand over what stays, require that nothing of others was added meanwhile, then hide or delete the rest."""
    steps = [*_handing_steps(tenant, plan), *_guards(plan)]
    if for_good:
        _refuse_in_cold_storage(tenant, plan)
        return [*steps, *_deleting_steps(tenant, plan)]
    return [*steps, *_hiding_steps(tenant, plan, moment)]


def _refuse_in_cold_storage(tenant: Tenant, plan: RemovalPlan) -> None:
    """The archives of sessions that go are deleted with them; what lies in those of other sessions cannot be."""
    root = plan.dependents.root
    if not isinstance(root, User | Agent):
        return
    sessions = plan.going.get("session", [])
    with_them = Query(ColdArchive, (Holds(f"{root.shape.table}_ids", root.id), IsNull("session_id", wanted=False)))
    others = [id for (id,) in tenant.select(with_them, ("id",)) if id not in sessions]
    if others:
        raise InColdStorage(
            f"records of {root.shape.table} '{root.id[:80]}' are in cold storage, in {len(others)} sessions of others",
            remedy=f"restore them first: recollect cold restore {others[0][:80]}",
            id=root.id,
            sessions=others[:20],
        )


def _handing_steps(tenant: Tenant, plan: RemovalPlan) -> list[Step]:
    if not plan.kept:
        return []
    root = plan.dependents.root
    steps: list[Step] = [Require(type(root), plan.heir)] if plan.heir is not None else []
    for record in _records(tenant, plan.kept, deleted=True):
        link = plan.dependents.links[record.shape.table, record.id]
        if isinstance(record, Memory):
            moved = identified(record, **{link: plan.heir})
            why = f"its {root.shape.table} {root.id} was removed"
            steps += change_steps(tenant, record, "moved", why, **moved)
            continue
        more = {}
        if isinstance(record, Message) and isinstance(root, Agent) and record.name is None:
            more["name"] = root.name  # who said it stays recorded, although it belongs to another now
        handed = revised(record, tenant.scope, **{link: plan.heir}, **more)
        steps.append(Update(handed))
        steps += moved_steps(tenant, handed) if isinstance(handed, Source) else []
        steps += message_vectors.changed_steps(tenant, record, handed) if isinstance(handed, Message) else []
    return steps


def _guards(plan: RemovalPlan) -> list[Step]:
    """Fails if others began to use what is removed since it was read; then it is planned again."""
    if plan.with_others:
        return []
    root, steps = plan.dependents.root, list[Step]()
    known = tuple(plan.going.get("session", ()))
    seen = (OneOf("id", known, wanted=False),) if known else ()
    if isinstance(root, Agent):
        steps.append(Absent(Session, (equal("agent_id", root.id), *seen)))
        steps.append(Absent(Memory, (equal("agent_id", root.id), IsNull("user_id", wanted=False))))
    for some in _chunks(plan.going.get("project", ())):
        steps.append(Absent(Session, (OneOf("project_id", some), *seen)))
    own = {
        owner[1]
        for key, owner in plan.dependents.owners.items()
        if owner and owner[0] == "user" and key not in plan.others
    }
    for some in _chunks(known):
        spoken: tuple[Filter, ...] = (OneOf("session_id", some), IsNull("user_id", wanted=False))
        strangers = (OneOf("user_id", tuple(sorted(own)), wanted=False),) if own else ()
        steps.append(Absent(Message, (*spoken, *strangers)))
    return steps


def _hiding_steps(tenant: Tenant, plan: RemovalPlan, moment: datetime) -> list[Step]:
    """Hide them, all with the same time, by which they can be restored."""
    why = f"its {plan.dependents.root.shape.table} {plan.dependents.root.id} was removed"
    memories, messages = plan.going.get("memory", []), plan.going.get("message", [])
    steps = forgetting_steps(tenant, memories, messages)
    fallen: list[Memory] = []
    for record in _records(tenant, _hideable(plan.dependents.root, plan.going)):
        if isinstance(record, Memory):
            fallen.append(record)
            steps += change_steps(tenant, record, "forgotten", why, is_deleted=True, updated_at=moment)
        else:
            steps.append(Update(revised(record, tenant.scope, is_deleted=True, updated_at=moment)))
    return [*steps, *fallen_steps(tenant, fallen, "was removed")]


def _hideable(root: Record, going: dict[str, list[str]]) -> Iterator[Key]:
    for table in (*HIDDEN, *HIDDEN_WITH.get(root.shape.table, ())):
        yield from ((table, id) for id in going.get(table, ()))


def _records(tenant: Tenant, keys: Iterable[Key], *, deleted: bool = False) -> Iterator[Any]:
    by_table: dict[str, list[str]] = defaultdict(list)
    for table, id in keys:
        by_table[table].append(id)
    for table, ids in by_table.items():
        for some in _chunks(ids):
            query: Query[Any] = Query(RECORDS[table], (OneOf("id", some),), deleted="yes" if deleted else "no")
            yield from tenant.find(query).records


def _deleting_steps(tenant: Tenant, plan: RemovalPlan) -> list[Step]:
    """Delete for good, with what patterns and summaries repeat of it.

    The links of memories that stay are cleared first, so that their history and vectors follow in the same write.
    """
    root = plan.dependents.root
    steps = erasing_steps(tenant, plan.going.get("memory", []), plan.going.get("message", []))
    gone = {*plan.going.get("memory", ()), *(step.id for step in steps if isinstance(step, Delete))}
    for id, fields in _links_to_clear(tenant, plan.going).items():
        memory = tenant.get(Memory, id, deleted=True) if id not in gone else None
        if memory is not None:
            what = " and ".join(sorted(name.removesuffix("_id") for name in fields))
            steps += change_steps(tenant, memory, "moved", f"its {what} was removed", **fields)
    leases = [Delete(Lease, lease_name(root.id))] if isinstance(root, Execution) else []
    return [*steps, *deleting_steps(tenant, plan.going.get("source", [])), *leases, Delete(type(root), root.id)]


def _links_to_clear(tenant: Tenant, going: dict[str, list[str]]) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for type in ("session", "project"):
        for some in _chunks(going.get(type, ())):
            linked = Query(Memory, (OneOf(f"{type}_id", some),), deleted="yes")
            for (id,) in tenant.select(linked, ("id",)):
                found[id][f"{type}_id"] = None
    return found


def returning_steps(tenant: Tenant, root: Record) -> list[Step]:
    """Restore a removed party and exactly what was hidden with it."""
    _refuse_orphan(tenant, root)
    hanging = dependents_of(tenant, root).going(set())
    steps: list[Step] = []
    memories: list[Memory] = []
    messages: list[Message] = []
    for record in _records(tenant, _hideable(root, hanging), deleted=True):
        if not record.is_deleted or record.updated_at != root.updated_at:
            continue  # it was deleted before
        if isinstance(record, Memory):
            after, kept = kept_steps(tenant, record, "restored", f"its {root.shape.table} is back", is_deleted=False)
            memories.append(after)
            steps += kept
        else:
            steps.append(Update(revised(record, tenant.scope, is_deleted=False)))
            messages += [record] if isinstance(record, Message) else []
    entry = logged(tenant, "update", f"{spoken(type(root))}.restore", None, id=root.id)
    return [*steps, *restored_steps(tenant, memories), *message_vectors.restored_steps(tenant, messages), entry]


def _refuse_orphan(tenant: Tenant, root: Record) -> None:
    for name, reference in root.shape.references.items():
        id = getattr(root, name)
        if id is not None and tenant.get(RECORDS[reference.to], id) is None:
            raise Conflict(
                f"its {reference.to} '{id[:80]}' is removed, too",
                remedy=f"restore that first: {reference.to}.restore {id[:80]}",
                id=root.id,
            )


def overdue(tenant: Tenant, records: Iterable[type[Record]]) -> list[Record]:
    """The removed records of these types that can no longer be restored, the oldest first."""
    before = Compare("updated_at", "<=", now() - timedelta(days=tenant.restore_days))
    found: list[Record] = []
    for record in records:
        found += tenant.find(Query(record, (before,), (Order("id"),), deleted="only")).records
    return sorted(found, key=lambda one: (one.updated_at, one.id))


def burying_steps(tenant: Tenant, root: Record) -> list[Step]:
    """Delete for good what was removed long ago; what others used was dealt with then."""
    plan = planned(tenant, root, None, with_others=True)
    refuse_held(tenant, plan.going)
    entry = logged(tenant, "delete", "sweep", None, id=root.id, type=root.shape.table)
    return [*removing_steps(tenant, plan, for_good=True, moment=now()), entry]
