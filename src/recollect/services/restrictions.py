"""Whose each record is, and so what a restricted key or account reads and changes: conditions that are added to every
query and checked on every write (services/restricted_store.py).

- What names a user, agent or project is theirs. A restricted caller reads what names everyone they are restricted to.
- What was made in a session and names no user of its own is the session's; messages always are. Parts follow the whole:
  citations and tags their memory, steps their run, fields their table.
- What names nobody is the organization's: everybody in it reads it, nobody with a restriction changes it.
- A user also reads what is shared with their projects: memories that name the project and no user, or whose scope is
  the project. What names no user they may change, too.
- A type that says nothing of its owner is closed, unless it is listed here as open (to be read) or as bookkeeping.

A new record type that is in none of the tables below is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from recollect.domain.access import Restriction
from recollect.domain.agents import (
    Agent,
    AgentState,
    Block,
    BlockLink,
    BlockRevision,
    Cycle,
    Execution,
    Lease,
    Proposal,
    Result,
    Tool,
    ToolLink,
)
from recollect.domain.audit import AccessLog, Erasure
from recollect.domain.checkpoints import Checkpoint, CheckpointItems, CheckpointLine, CheckpointWrites
from recollect.domain.cold import ColdArchive, ColdRecord
from recollect.domain.conversations import Message, Session
from recollect.domain.key_value import Item, ItemVector, after_all_below, path_of
from recollect.domain.kinds import MemoryKind
from recollect.domain.learning import PatternUse
from recollect.domain.memory import Embedding, IndexTask, Memory, Relationship, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import RECORDS, Record
from recollect.domain.retention import LegalHold, RetentionRule
from recollect.domain.sources import Connection, Field, QueryRun, Source, SourceVersion, StoredObject, Table
from recollect.domain.tenancy import Organization, Project, User
from recollect.domain.workspaces import Blob, BlobChunk, ChangedBucket, Snapshot, TreeNode, Workspace, WorkspaceFile
from recollect.ports.query import AllOf, AnyOf, Compare, Filter, Holds, IsNull, Linked, OneOf, equal

Conditions = tuple[Filter, ...]
CLOSED: Conditions = (AnyOf(()),)
FREE: Conditions = ()


@dataclass(frozen=True, slots=True)
class Owned:
    """A type that names its owners: by which field each, and the field of the session it was made in.

    With `follows`, the session alone says whose it is, where there is one.
    """

    fields: Mapping[str, str]
    session: str | None = None
    follows: bool = False


OWNED: dict[type[Record], Owned] = {
    Memory: Owned({"user": "user_id", "agent": "agent_id", "project": "project_id"}, "session_id"),
    Session: Owned({"user": "user_id", "agent": "agent_id", "project": "project_id"}),
    Message: Owned({"user": "user_id", "agent": "agent_id"}, "session_id", follows=True),
    Execution: Owned({"agent": "agent_id"}, "session_id"),
    AgentState: Owned({"agent": "agent_id"}, "session_id"),
    PatternUse: Owned({"user": "created_by", "agent": "agent_id"}, "session_id"),
    QueryRun: Owned({"user": "user_id", "agent": "agent_id", "project": "project_id"}, "session_id"),
    Source: Owned({"user": "user_id", "project": "project_id"}),
    Connection: Owned({"project": "project_id"}),
    Block: Owned({"user": "user_id"}),
    Workspace: Owned({"agent": "agent_id"}),
    ColdArchive: Owned({}, "session_id"),
    Project: Owned({"user": "owner_id", "project": "id"}),
    Agent: Owned({"agent": "id"}),
    User: Owned({"user": "id"}),
}
PARTS: dict[type[Record], tuple[str, ...]] = {
    **dict.fromkeys((Tag, Citation), ("memory_id",)),
    Relationship: ("source_id", "target_id"),
    **dict.fromkeys((BlockRevision, BlockLink), ("block_id",)),
    Cycle: ("execution_id",),
    **dict.fromkeys((Proposal, Result), ("cycle_id",)),
    **dict.fromkeys((Checkpoint, CheckpointItems, CheckpointWrites), ("line_id",)),
    ItemVector: ("item_id",),
    **dict.fromkeys((SourceVersion, Table), ("source_id",)),
    Field: ("table_id",),
    **dict.fromkeys((WorkspaceFile, ChangedBucket, Snapshot), ("workspace_id",)),
    ColdRecord: ("archive_id",),
}
"""What each is a part of. Who changes a part must be allowed to change the first of these, and to read the others."""
EITHER: frozenset[type[Record]] = frozenset({Embedding, IndexTask, Revision})
"""Parts of one of several things: of a memory, of a message, of a source."""
OPEN: frozenset[type[Record]] = frozenset({Organization, Tool, ToolLink, LegalHold, MemoryKind, RetentionRule})
"""Everybody reads these; nobody with a restriction changes them. Agents are open unless the restriction names one."""
BOOKKEEPING: frozenset[type[Record]] = frozenset({Lease, Erasure, StoredObject, Blob, BlobChunk, TreeNode})
"""No operation shows these by themselves: they are reached from what they belong to."""


@dataclass(slots=True)
class Rules:
    """The conditions of one restriction, by record type."""

    restriction: Restriction
    _known: dict[tuple[type[Record], bool], Conditions] = field(default_factory=dict)

    def readable(self, record: type[Record]) -> Conditions:
        return self._of(record, False)

    def writable(self, record: type[Record]) -> Conditions:
        return self._of(record, True)

    def nameable(self, record: type[Record]) -> Conditions:
        """What a written record may refer to: what can be read; and any user or project, where none is prescribed."""
        given = self.restriction
        if given.user is None and (record is User or (record is Project and given.project is None)):
            return FREE
        return self.readable(record)

    def owners(self, record: type[Record]) -> dict[str, str]:
        """What a new record of this type names as its owner, where it names nobody."""
        owned = OWNED.get(record)
        pairs = owned.fields.items() if owned is not None else ()
        return {field: id for name, field in pairs if field != "id" and (id := self._limits.get(name)) is not None}

    @property
    def _limits(self) -> dict[str, str | None]:
        given = self.restriction
        return {"user": given.user, "agent": given.agent, "project": given.project}

    def _of(self, record: type[Record], writing: bool) -> Conditions:
        key = record, writing
        if key not in self._known:
            self._known[key] = self._made(record, writing)
        return self._known[key]

    def _made(self, record: type[Record], writing: bool) -> Conditions:
        if record in BOOKKEEPING:
            return FREE
        if record in OPEN or (record is Agent and self.restriction.agent is None):
            return CLOSED if writing else FREE
        if record in PARTS:
            first, *others = PARTS[record]
            return self._part(record, first, writing), *(self._part(record, one, False) for one in others)
        if record in EITHER:
            return self._either(record, writing)
        if record in _SPECIAL:
            return _SPECIAL[record](self, writing)
        return self._owned(record, writing) if record in OWNED else CLOSED

    def _part(self, record: type[Record], field: str, writing: bool) -> Filter:
        whole = RECORDS[record.shape.references[field].to]
        return Linked(whole, "id", self._of(whole, writing), by=field, deleted=True)

    def _owned(self, record: type[Record], writing: bool) -> Conditions:
        """One condition for each restriction that says something about this type; closed if none does.

        A user's are closed to whoever cannot be told apart from other users, whatever else is known.
        """
        conditions = [self._one(record, name, id, writing) for name, id in self._limits.items() if id is not None]
        if self.restriction.user is not None and conditions[0] is None:
            return CLOSED
        found = [one for one in conditions if one is not None]
        if record is Memory and self.restriction.namespace is not None:
            found.append(Holds("namespaces", self.restriction.namespace))
        return tuple(found) or CLOSED

    def _one(self, record: type[Record], name: str, id: str, writing: bool) -> Filter | None:
        owned = OWNED[record]
        own, session = owned.fields.get(name), owned.session
        unnamed = (IsNull(own),) if own is not None and own != "id" else ()
        alone = (IsNull(session),) if session is not None else ()
        ways: list[Filter] = []
        if own is not None:
            ways.append(AllOf((equal(own, id), *(alone if owned.follows else ()))))
        if name == "user":
            ways += self._shared(record, owned, writing, alone)
        if record is Block and name == "agent":
            ways.append(Linked(BlockLink, "block_id", (equal("agent_id", id),)))
        if session is not None:
            through = Linked(Session, "id", self._of(Session, writing), by=session, deleted=True)
            ways.append(AllOf((*(() if owned.follows else unnamed), through)))
        if not ways:
            return None
        if not writing and own != "id" and owned.fields:
            nobody = [IsNull(one) for one in owned.fields.values() if one != "id"]
            ways.append(AllOf((*nobody, *alone)))
        return AnyOf(tuple(ways))

    def _shared(self, record: type[Record], owned: Owned, writing: bool, alone: Conditions) -> list[Filter]:
        project, user = owned.fields.get("project"), owned.fields.get("user")
        if project is None:
            return []
        theirs: Filter = OneOf(project, tuple(sorted(self.restriction.shared)))
        if record is Project:
            return [] if writing else [theirs]
        unowned = (IsNull(user),) if user is not None else ()
        ways: list[Filter] = [AllOf((theirs, *unowned, *alone))]
        if record is Memory and not writing:
            ways.append(AllOf((theirs, equal("scope", "project"))))
        return ways

    def _either(self, record: type[Record], writing: bool) -> Conditions:
        ways: list[Filter] = []
        for name, reference in record.shape.references.items():
            if name != "organization_id":
                others = (IsNull(other) for other in reference.unless)
                ways.append(AllOf((*others, self._part(record, name, writing))))
        return (AnyOf(tuple(ways)),)

    def _checkpoints(self, writing: bool) -> Conditions:
        """Of threads that are called like a session."""
        return (Linked(Session, "id", self._of(Session, writing), by="thread", deleted=True),)

    def _items(self, writing: bool) -> Conditions:
        """In namespaces that begin with who the caller is restricted to."""
        given = self.restriction
        first = given.user or given.agent or given.project or given.namespace
        path = path_of([first or ""])
        return Compare("path", ">=", path), Compare("path", "<", after_all_below(path))

    def _log(self, writing: bool) -> Conditions:
        """Entries are written by whoever does something, and read where they are about a memory that is readable."""
        return FREE if writing else (Linked(Memory, "id", self._of(Memory, False), by="memory_id", deleted=True),)


_SPECIAL: dict[type[Record], Callable[[Rules, bool], Conditions]] = {
    CheckpointLine: Rules._checkpoints,
    Item: Rules._items,
    AccessLog: Rules._log,
}
