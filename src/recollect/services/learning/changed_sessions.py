"""Which sessions have changed since summaries were last written, so that the service does not read all of them again.

Every hour those are looked at in which something was said, remembered, revised or forgotten, and those that were not
over the last time; once a day, and when the service starts, all of them: what was erased has left no session to look
at. Reading everything every hour took minutes of processor with a hundred thousand sessions.
Proof: tests/services/learning/test_changed_sessions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import Memory
from recollect.domain.record import Record, now
from recollect.ports.query import OneOf, Query
from recollect.services.change_feed import changes_after, last_change
from recollect.services.learning.rollup import RollUp, RollUpReply, RollUpRequest, roll_all, roll_changed
from recollect.services.tenant import Tenant

ALL_AFTER = timedelta(days=1)
MOST_CHANGES = 200_000
CLOCKS = timedelta(hours=1)
"""By how much the clock of another machine may be behind."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was looked at, and up to which change."""

    seq: int
    at: datetime
    all_at: datetime
    open: frozenset[str]


class DueSummaries:
    """Writes what is due, and remembers for each organization how far it got. A new process begins with all of it."""

    def __init__(self) -> None:
        self._looked: dict[str, _Looked] = {}

    def write(self, tenant: Tenant, go_on: Callable[[], None]) -> RollUpReply:
        organization, moment = tenant.scope.organization_id, now()
        run = RollUp(tenant, RollUpRequest(), lambda done, of: go_on(), moment)
        looked = self._looked.get(organization)
        is_partial = looked is not None and looked.all_at <= moment < looked.all_at + ALL_AFTER
        found = _changed_after(tenant, looked) if looked is not None and is_partial else None
        if looked is None or found is None:
            seq = last_change(tenant)  # first: what changes meanwhile is looked at the next time
            roll_all(run)
            self._looked[organization] = _Looked(seq, moment, moment, frozenset(run.open))
            return run.report
        roll_changed(run, found.sessions | looked.open, found.moments, looked.at)
        self._looked[organization] = _Looked(found.seq, moment, looked.all_at, frozenset(run.open))
        return run.report


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
