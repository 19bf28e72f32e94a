"""What belongs to a session and moves to cold storage with it, and why a session cannot be moved.

Its messages, memories, runs and checkpoints (of the thread that has the session's id), all that depends on them by the
references that records declare, and the sealed entries of the access log about them. Summaries, patterns and what was
extracted from the messages stay: they are what is left to recall. So does the session itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from recollect.domain.agents import Agent, Cycle, Execution
from recollect.domain.audit import AccessLog
from recollect.domain.checkpoints import CheckpointLine
from recollect.domain.cold import ColdLink
from recollect.domain.conversations import Message, Session
from recollect.domain.memory import EXTRACTED, Memory, Relationship
from recollect.domain.record import RECORDS, Record
from recollect.domain.run_branches import history_of
from recollect.ports.query import Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import Reads
from recollect.services.memories.revise import MADE_FROM_OTHERS
from recollect.services.tenant import Tenant

CHUNK = 500
MOST_RECORDS = 200_000
OPEN = ("queued", "running", "waiting", "paused")
NOT_MADE_FROM_OTHERS = OneOf("kind", tuple(sorted(MADE_FROM_OTHERS)), wanted=False)
NOT_EXTRACTED = Compare("metadata", "!=", True, key=EXTRACTED)
LINKS = frozenset({"relationship", "cold_link"})  # between two memories, of which one may stay
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class ClearedReference:
    """A field of a record that stays and refers to one that moves: it is empty until that one is back."""

    table: str
    id: str
    field: str
    value: str


@dataclass
class SessionRecords:
    """What moves, and what stays and is linked to it."""

    session: Session
    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    outward: list[Relationship] = field(default_factory=list)
    """Links to memories that stay."""
    cold_links: list[ColdLink] = field(default_factory=list)
    """Links to memories that are in cold storage already."""
    cleared: list[ClearedReference] = field(default_factory=list)
    last_cycles: dict[str, int] = field(default_factory=dict)
    """By agent: the number of its last cycle, where that one moves."""
    stays_because: str = ""

    def ids(self, table: str) -> list[str]:
        return [one.id for one in self.records.get(table, ())]

    def counts(self) -> dict[str, int]:
        return {table: len(records) for table, records in sorted(self.records.items()) if records}


def chunks(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(ids), CHUNK):
        yield tuple(ids[start : start + CHUNK])


@cache
def referring_to(table: str, on_delete: str) -> tuple[tuple[type[Record], str], ...]:
    """The record types and fields that refer to a table and are deleted, or cleared, with what they refer to."""
    return tuple(
        (record, name)
        for record in RECORDS.values()
        for name, reference in record.shape.references.items()
        if reference.to == table and reference.on_delete == on_delete and record.shape.table not in LINKS
    )


def roots(session: str) -> tuple[tuple[type[Record], tuple[Filter, ...]], ...]:
    """What belongs to a session directly."""
    return (
        (Message, (equal("session_id", session),)),
        (Execution, (equal("session_id", session),)),
        (Memory, (equal("session_id", session), NOT_MADE_FROM_OTHERS, NOT_EXTRACTED)),
        (CheckpointLine, (equal("thread", session),)),
    )


def session_records(tenant: Tenant, session: Session) -> SessionRecords:
    """All of it as of one moment, or why the session stays."""
    found = SessionRecords(session)
    with tenant.snapshot() as reading:
        reader = _Reader(tenant, reading)
        for record, where in roots(session.id):
            reader.add(found, reader.all(record, where))
        found.stays_because = (
            _open_run(found) or _expiring(found) or reader.shared_run(found) or reader.in_context(found)
        )
        if not found.stays_because:
            reader.add_dependents(found)
            reader.add_links(found)
            reader.add_log(found)
        if not found.stays_because and sum(found.counts().values()) > MOST_RECORDS:
            found.stays_because = f"it has more than {MOST_RECORDS:,} records"
    return found


def _open_run(found: SessionRecords) -> str:
    open_runs = [one.id for one in found.records["execution"] if isinstance(one, Execution) and one.status in OPEN]
    return f"run {open_runs[0]} is still open" if open_runs else ""


def _expiring(found: SessionRecords) -> str:
    """Nothing expires in cold storage: what has a time of its own is deleted at that time first."""
    own = [one.id for one in found.records["memory"] if isinstance(one, Memory) and one.expires_at is not None]
    return f"memory {own[0]} has an expiry of its own" if own else ""


class _Reader:
    def __init__(self, tenant: Tenant, reading: Reads) -> None:
        self._scope, self._reading = tenant.scope, reading

    def all(self, record: type[R], where: tuple[Filter, ...]) -> list[R]:
        query = Query(record, where, (Order("id"),), MOST_RECORDS + 1, deleted="yes")
        return self._reading.find(self._scope, query).records

    def of(self, record: type[R], name: str, ids: Sequence[str]) -> Iterator[R]:
        for some in chunks(ids):
            yield from self.all(record, (OneOf(name, some),))

    def add(self, found: SessionRecords, records: Sequence[Record]) -> list[str]:
        """Add those that are not there yet; their ids."""
        if not records:
            return []
        there = found.records[records[0].shape.table]
        known = {one.id for one in there}
        fresh = [one for one in records if one.id not in known]
        there += fresh
        return [one.id for one in fresh]

    def add_dependents(self, found: SessionRecords) -> None:
        """What would be deleted with them, and what would be cleared."""
        frontier = {table: found.ids(table) for table in list(found.records)}
        while frontier:
            following: dict[str, list[str]] = defaultdict(list)
            for table, ids in frontier.items():
                for record, name in referring_to(table, "cascade"):
                    of_these = [one for one in self.of(record, name, ids) if one.refers(name) is not None]
                    following[record.shape.table] += self.add(found, of_these)
            frontier = {table: ids for table, ids in following.items() if ids}
        for table in list(found.records):
            for record, name in referring_to(table, "clear"):
                moving = set(found.ids(record.shape.table))
                for one in self.of(record, name, found.ids(table)):
                    if one.id not in moving:
                        found.cleared.append(ClearedReference(record.shape.table, one.id, name, getattr(one, name)))
        self._add_last_cycles(found)

    def _add_last_cycles(self, found: SessionRecords) -> None:
        last: dict[str, int] = {}
        for one in found.records["cycle"]:
            if isinstance(one, Cycle):
                last[one.agent_id] = max(one.index, last.get(one.agent_id, 0))
        for agent, index in last.items():
            newest = Query(Cycle, (equal("agent_id", agent),), (Order("index", descending=True),), 1, deleted="yes")
            if [index] == [number for (number,) in self._reading.select(self._scope, newest, ("index",))]:
                found.last_cycles[agent] = index

    def add_links(self, found: SessionRecords) -> None:
        memories = found.ids("memory")
        moving, links = set(memories), dict[str, Relationship]()
        for name in ("source_id", "target_id"):
            links |= {one.id: one for one in self.of(Relationship, name, memories)}
        inward = [one for one in links.values() if {one.source_id, one.target_id} <= moving]
        self.add(found, inward)
        found.outward = [one for one in links.values() if not {one.source_id, one.target_id} <= moving]
        cold: dict[str, ColdLink] = {}
        for name in ("source_memory_id", "target_memory_id"):
            cold |= {one.id: one for one in self.of(ColdLink, name, memories)}
        found.cold_links = list(cold.values())

    def add_log(self, found: SessionRecords) -> None:
        """Sealed entries only: the others are not provable yet."""
        sealed = IsNull("seal", wanted=False)
        self.add(found, self.all(AccessLog, (equal("session_id", found.session.id), sealed)))
        for some in chunks(found.ids("memory")):
            self.add(found, self.all(AccessLog, (OneOf("memory_id", some), sealed)))

    def shared_run(self, found: SessionRecords) -> str:
        """A fork shares the steps of the run it came from: they move together, or not at all."""
        runs = [one for one in found.records["execution"] if isinstance(one, Execution)]
        ids = {one.id for one in runs}
        for run in runs:
            if {run.parent_id, *(part.run for part in history_of(run))} - ids - {None}:
                return f"run {run.id} shares steps with a run of another session"
        for fork in self.of(Execution, "parent_id", sorted(ids)):
            if fork.id not in ids:
                return f"run {fork.parent_id} shares steps with a run of another session"
        return ""

    def in_context(self, found: SessionRecords) -> str:
        """Messages that an agent has in its prompt are in use."""
        messages = [one for one in found.records["message"] if isinstance(one, Message)]
        ids = {one.id for one in messages}
        agents = {found.session.agent_id, *(one.agent_id for one in messages)} - {None}
        for some in chunks(sorted(str(one) for one in agents)):
            for agent in self.all(Agent, (OneOf("id", some),)):
                if ids.intersection(agent.message_ids):
                    return f"agent {agent.id} has messages of it in its context"
        return ""


def active_since(tenant: Tenant, sessions: Sequence[str], since: Filter) -> set[str]:
    """Those in which something was said, done or remembered since then."""
    active: set[str] = set()
    for some in chunks(sessions):
        for record in (Message, Memory, Execution):
            recent = Query(record, (OneOf("session_id", some), since))
            active |= {id for (id,) in tenant.count_by(recent, ("session_id",))}
    return active
