"""What is stored about a person: what belongs to them, what they made, what names them, what is shared with them.

What belongs to a user is what `user.remove` would delete (services/admin/removal_plan.py), and what has no reference to
them: runs in their sessions, checkpoints of their threads, items under their id. The rest is found by reading every
record of the organization once, so a new record type needs no line here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from recollect.domain.agents import Execution
from recollect.domain.audit import AccessLog
from recollect.domain.checkpoints import Checkpoint, CheckpointItems, CheckpointLine, CheckpointWrites
from recollect.domain.conversations import Session
from recollect.domain.key_value import Item
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import User
from recollect.domain.workspaces import BlobChunk, Snapshot, WorkspaceFile
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import Reads
from recollect.services.admin.removal_plan import RemovalPlan, depending_on, planned
from recollect.services.memories.indexing import Progress
from recollect.services.privacy.redaction import Redaction
from recollect.services.tenant import Tenant
from recollect.services.workspaces.file_erasure import snapshots_with

PAGE = 500
Relation = Literal["own", "by", "about", "shared"]
RELATIONS: dict[Relation, str] = {
    "own": "belongs to them",
    "by": "was made by them",
    "about": "names them, and belongs to others",
    "shared": "others share it with them",
}
Ids = dict[str, set[str]]
"""The ids of records by table."""

# What somebody made that belongs to no other user is theirs. Agents, tools, sources and the like are for all: they stay
# and lose the name of their maker.
AUTHORED = frozenset({"memory", "message", "execution", "query_run", "checkpoint_line", "item", "workspace_file"})
# Derived from others, without any text, or about the store itself. The access log has its own way.
UNREAD = frozenset(
    "organization organization_secret access_log seal erasure erasure_certificate lease embedding index_task"
    " item_vector tree_node blob blob_chunk".split()
)
_IN_LINES = (Checkpoint, CheckpointItems, CheckpointWrites)


@dataclass(frozen=True)
class Subject:
    """A person: their id, their record if there still is one, and what they are called in texts."""

    id: str
    user: User | None
    names: tuple[str, ...]

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.names, ids={self.id: ""})


def subject_of(tenant: Tenant, id: str, also: Sequence[str] = ()) -> Subject:
    user = tenant.get(User, id, deleted=True)
    known = (user.name if _is_only(tenant, user) else "", user.email or "") if user is not None else ()
    return Subject(id, user, tuple(dict.fromkeys(name.strip() for name in (id, *known, *also) if name.strip())))


def _is_only(tenant: Tenant, user: User) -> bool:
    """Whether no other user has the same name: texts with it may be about the other."""
    return tenant.count(Query(User, (equal("name", user.name),), deleted="yes")) == 1


@dataclass
class SubjectData:
    """All that is stored about a person."""

    subject: Subject
    plan: RemovalPlan | None
    own: Ids
    by: Ids
    touched: Ids
    """What they made or changed and others keep: only their name goes."""
    about: Ids
    shared: Ids
    files: list[WorkspaceFile]
    """Files of workspaces with their words or by their hand, and below the snapshots that have them."""
    snapshots: list[Snapshot]
    log_entries: int = 0
    deleted_before: set[str] = field(default_factory=set)
    """Memories that they made and that are gone: the log and the store still have the ids."""

    def of(self, relation: Relation) -> Ids:
        found: Ids = getattr(self, relation)
        return found

    @property
    def is_empty(self) -> bool:
        return not (self.own or self.by or self.touched or self.about or self.files or self.log_entries)


def collect(tenant: Tenant, subject: Subject, progress: Progress = lambda done, total: None) -> SubjectData:
    """Everything about a person, as of one moment."""
    tenant.journal.flush()
    plan = planned(tenant, subject.user, None, False, ownerless=True) if subject.user is not None else None
    reader = _Reader(tenant, subject, plan)
    with tenant.snapshot() as reading:
        reader.read(reading, progress)
    own = _with(reader.own, depending_on(tenant, reader.filed))
    by = _without(depending_on(tenant, reader.by), own)
    files = {file.id: file for file in (*reader.files, *_files_with(tenant, reader.blobs))}
    kept = [file for file in files.values() if file.id not in own.get("workspace_file", ())]
    words = {(file.path, file.content_hash) for file in kept}
    names, blobs = subject.redaction, reader.blobs
    snapshots = (
        snapshots_with(tenant, lambda path, hash: hash in blobs or (path, hash) in words or names.finds(path))
        if tenant.count(Query(Snapshot, deleted="yes"))
        else []
    )
    shared = _without(_shared_with(tenant, own), own, by)
    return SubjectData(
        subject,
        plan,
        own,
        by,
        touched=_without(reader.touched, own, by),
        about=_without(reader.about, own, by),
        shared=shared,
        files=kept,
        snapshots=[one for one in snapshots if one.id not in own.get("snapshot", ())],
        log_entries=reader.log_entries,
        deleted_before=_missing(tenant, reader.made),
    )


def _with(ids: Ids, more: Ids) -> Ids:
    return {table: found for table in {*ids, *more} if (found := ids.get(table, set()) | more.get(table, set()))}


def _without(ids: Ids, *others: Ids) -> Ids:
    left = {table: some.difference(*(other.get(table, ()) for other in others)) for table, some in ids.items()}
    return {table: some for table, some in left.items() if some}


@dataclass
class _Reader:
    """Reads every record once, and says of each what it has to do with a person."""

    tenant: Tenant
    subject: Subject
    plan: RemovalPlan | None
    filed: Ids = field(default_factory=lambda: defaultdict(set))
    """What is theirs without a reference to them; what hangs on it is, too."""
    by: Ids = field(default_factory=lambda: defaultdict(set))
    touched: Ids = field(default_factory=lambda: defaultdict(set))
    about: Ids = field(default_factory=lambda: defaultdict(set))
    files: list[WorkspaceFile] = field(default_factory=list)
    blobs: set[str] = field(default_factory=set)
    log_entries: int = 0
    made: set[str] = field(default_factory=set)
    """The memories that they made, as the log tells."""

    def __post_init__(self) -> None:
        self._redaction = self.subject.redaction
        going = self.plan.going if self.plan is not None else {}
        self.own: Ids = defaultdict(set, {table: set(ids) for table, ids in going.items()})
        self.filed["execution"] |= _runs_of(self.tenant, self.own) - self.own["execution"]
        runs = depending_on(self.tenant, {"execution": self.filed["execution"]})
        self._steps = {*self.own["cycle"], *runs.get("cycle", ())}
        self._threads = {self.subject.id, *self.own["session"], *self.own["execution"], *self.filed["execution"]}
        theirs = Compare("user_id", "!=", self.subject.id)
        others = Query(Session, (IsNull("user_id", wanted=False), theirs), deleted="yes")
        self._sessions_of_others = {id for (id,) in self.tenant.select(others, ("id",))}

    def read(self, reading: Reads, progress: Progress) -> None:
        read = [record for table, record in sorted(RECORDS.items()) if table not in UNREAD]
        read += [BlobChunk, AccessLog]
        total, done = sum(reading.count(self.tenant.scope, Query(one, deleted="yes")) for one in read), 0
        for record in read:
            for page in pages(reading, self.tenant, record):
                for one in page:
                    self._take(one)
                done += len(page)
                progress(done, max(total, done))

    def _take(self, one: Record) -> None:
        table = one.shape.table
        if isinstance(one, BlobChunk):
            self.blobs |= {one.blob_id} if self._redaction.finds(one.data) else set()
        elif isinstance(one, AccessLog):
            self.log_entries += bool(self._redaction.fields_found(one))
            if one.actor_id == self.subject.id and one.operation == "create" and one.memory_id is not None:
                self.made.add(one.memory_id)
        elif one.id not in self.own.get(table, ()) and one.id not in self.filed.get(table, ()):
            self._take_of_others(one, table)

    def _take_of_others(self, one: Record, table: str) -> None:
        if self._is_filed_under_them(one):
            self.filed[table].add(one.id)
        elif self._is_theirs_alone(one, table):
            self.by[table].add(one.id)
            self.files += [one] if isinstance(one, WorkspaceFile) else []
        elif self._redaction.fields_found(one):
            if isinstance(one, WorkspaceFile):
                self.files.append(one)
            elif isinstance(one, _IN_LINES):
                self.about["checkpoint_line"].add(one.line_id)
            else:
                self.about[table].add(one.id)
        if self.subject.id in (one.created_by, one.updated_by):
            self.touched[table].add(one.id)

    def _is_filed_under_them(self, one: Record) -> bool:
        if isinstance(one, CheckpointLine):
            return one.thread in self._threads or self._redaction.finds(one.thread)
        if getattr(one, "user_id", None) is None and getattr(one, "session_id", None) in self.own["session"]:
            return one.shape.table in AUTHORED
        if isinstance(one, Memory):
            return one.user_id is None and one.cycle_id in self._steps
        if isinstance(one, Item):
            return any(self._redaction.finds(label) for label in (*one.namespace, one.key))
        return False

    def _is_theirs_alone(self, one: Record, table: str) -> bool:
        if table not in AUTHORED or one.created_by != self.subject.id:
            return False
        session = getattr(one, "session_id", None)
        return getattr(one, "user_id", None) is None and session not in self._sessions_of_others


def pages(reading: Reads, tenant: Tenant, record: type[Record]) -> Iterator[Sequence[Any]]:
    """All records of a type, removed ones too, a page at a time."""
    after: str | None = None
    while True:
        page = reading.find(tenant.scope, Query(record, (), (Order("id"),), PAGE, after, "yes"))
        yield page.records
        after = page.next
        if after is None:
            return


def _runs_of(tenant: Tenant, own: Ids) -> set[str]:
    """The runs in their sessions, and those that their messages started."""
    where: list[Filter] = [
        OneOf(f"{table}_id", tuple(sorted(own[table]))) for table in ("session", "message") if own.get(table)
    ]
    runs: set[str] = set()
    while where:
        found = {id for (id,) in tenant.select(Query(Execution, (AnyOf(tuple(where)),), deleted="yes"), ("id",))}
        fresh = tuple(sorted(found - runs))
        where = [OneOf("parent_id", fresh)] if fresh else []  # forks share the steps of the run they were made from
        runs |= found
    return runs


def _missing(tenant: Tenant, memories: set[str]) -> set[str]:
    listed, there = sorted(memories), set[str]()
    for start in range(0, len(listed), PAGE):
        found = Query(Memory, (OneOf("id", tuple(listed[start : start + PAGE])),), deleted="yes")
        there |= {id for (id,) in tenant.select(found, ("id",))}
    return memories - there


def _files_with(tenant: Tenant, blobs: set[str]) -> list[WorkspaceFile]:
    query = Query(WorkspaceFile, (OneOf("content_hash", tuple(sorted(blobs))),), deleted="yes")
    return tenant.find(query).records if blobs else []


def _shared_with(tenant: Tenant, own: Ids) -> Ids:
    """Memories of the projects that they own or work in."""
    sessions = OneOf("id", tuple(sorted(own.get("session", ()))))
    worked_in = tenant.select(Query(Session, (sessions,), deleted="yes"), ("project_id",)) if sessions.values else []
    projects = {*own.get("project", ()), *(id for (id,) in worked_in if id is not None)}
    of_these = Query(Memory, (OneOf("project_id", tuple(sorted(projects))),))
    return {"memory": {id for (id,) in tenant.select(of_these, ("id",))}} if projects else {}
