"""Which sessions have changed since summaries were last written, so that the service does not read all of them again.

Every hour those are looked at in which something was said, remembered, revised or forgotten, and those that were not
over the last time; once a day, and when the service starts, all of them: what was erased has left no session to look
at. Reading everything every hour took minutes of processor with a hundred thousand sessions.
Proof: tests/services/learning/test_changed_sessions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import Memory
from recollect.domain.record import Record, now
from recollect.ports.query import Compare, IsNull, OneOf, Order, Query
from recollect.services.change_feed import changes_after, last_change
from recollect.services.learning.rollup import (
    RollUp,
    RollUpReply,
    RollUpRequest,
    roll_above_all,
    roll_changed,
    roll_sessions,
)
from recollect.services.tenant import GoOn, Tenant

ALL_AFTER = timedelta(days=1)
MOST_CHANGES = 200_000
SESSIONS_AT_ONCE = 500
CLOCKS = timedelta(hours=1)
"""By how much the clock of another machine may be behind."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """When and up to which change was looked, when at all sessions, and how far that has got; None when it is done."""

    seq: int
    at: datetime
    all_at: datetime
    open: frozenset[str] = frozenset()
    all_upto: str | None = None


class DueSummaries:
    """Writes what is due, and remembers for each organization how far it got. A new process begins with all of it.

    All sessions are looked at some at a time, so that other work is not kept waiting.
    """

    def __init__(self, every_seconds: float) -> None:
        self._every = timedelta(seconds=every_seconds)
        self._looked: dict[str, _Looked] = {}

    def is_waiting(self, tenant: Tenant) -> bool:
        looked = self._looked.get(tenant.scope.organization_id)
        if looked is None or looked.all_upto is not None:
            return True
        return not looked.at <= now() < looked.at + self._every

    def write(self, tenant: Tenant, go_on: GoOn) -> RollUpReply:
        organization, moment = tenant.scope.organization_id, now()
        run = RollUp(tenant, RollUpRequest(), lambda done, of: go_on(), moment)
        looked = self._looked.get(organization)
        is_old = looked is None or not looked.all_at <= moment < looked.all_at + ALL_AFTER
        found = None if looked is None or is_old or looked.all_upto is not None else _changed_after(tenant, looked)
        if looked is None or is_old or (found is None and looked.all_upto is None):
            # What changes from here on is looked at the next time.
            looked = _Looked(last_change(tenant), moment, moment, all_upto="")
        if found is None:
            self._looked[organization] = _some_of_all(run, looked)
        else:
            roll_changed(run, found.sessions | looked.open, found.moments, looked.at)
            self._looked[organization] = _Looked(found.seq, moment, looked.all_at, frozenset(run.open))
        return run.report


def _some_of_all(run: RollUp, looked: _Looked) -> _Looked:
    """The next of all sessions; after the last of them, what is above."""
    next_ones = (IsNull("cold_at"), Compare("id", ">", looked.all_upto))
    sessions = run.tenant.find(Query(Session, next_ones, (Order("id"),), SESSIONS_AT_ONCE)).records
    roll_sessions(run, sessions)
    is_done = len(sessions) < SESSIONS_AT_ONCE
    if is_done:
        roll_above_all(run)
    return replace(looked, open=looked.open | run.open, all_upto=None if is_done else sessions[-1].id)


@dataclass(slots=True)
class _Changes:
    """The sessions in which something has changed, when that was said, and the last change."""

    seq: int
    sessions: set[str] = field(default_factory=set)
    moments: set[datetime] = field(default_factory=set)

    def add(self, tenant: Tenant, record: type[Record], ids: Sequence[str], since: datetime) -> None:
        """What was written since: that a memory was read is noted with it, but changes no summary."""
        fields = ("session_id", "updated_at", "occurred_at" if record is Memory else "created_at")
        of_these = Query(record, (OneOf("id", tuple(ids)),), deleted="yes")
        for session, updated_at, at in tenant.select(of_these, fields) if ids else ():
            if session is not None and updated_at >= since:
                self.sessions.add(session)
                self.moments.add(at)


def _changed_after(tenant: Tenant, looked: _Looked) -> _Changes | None:
    """None where there is so much that all may as well be read."""
    found, count = _Changes(looked.seq), 0
    for changes in changes_after(tenant, looked.seq):
        found.seq, count = changes[-1].seq, count + len(changes)
        if count > MOST_CHANGES:
            return None
        living = [change for change in changes if not change.gone]
        found.sessions |= {change.id for change in living if change.table == Session.shape.table}
        for record in (Memory, Message):
            ids = [change.id for change in living if change.table == record.shape.table]
            found.add(tenant, record, ids, looked.at - CLOCKS)
    return found
