"""An old session that has something of everything that cold storage moves, and what a tenant has at a moment."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import recollect
from recollect import cite
from recollect.domain.record import RECORDS
from recollect.ports.query import OneOf, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Put
from recollect.services.record_lines import plain
from recollect.services.tenant import Tenant

LONG_AGO = datetime(2024, 5, 6, tzinfo=UTC)
OPERATIONAL = frozenset(
    "organization organization_secret access_log seal lease erasure cold_archive cold_record cold_link".split()
)


def opened(address: str | Path, **settings: Any) -> Any:
    return recollect.open(address, embedder="hash", background=False, **settings)


def tenant_of(mem: Any, organization: str = "default", granted: frozenset[str] | None = None) -> Tenant:
    bound: Tenant = mem._core.for_scope(Scope(organization, "tester", granted))
    return bound


def fill(mem: Any, session: str = "old", agent: str = "bee") -> None:
    """A session with messages, memories, links, a run with steps, checkpoints, and an entry in the log for each."""
    if not mem.user.list():
        mem.user.add("Ann", id="ann")
        mem.project.add("Ferries", id="ferries", owner="ann")
        mem.remember("The harbour is in the north", id="harbour")
    if agent not in {one.id for one in mem.agent.list()}:
        mem.agent.add("Bee", id=agent)
    mem.session.add(f"About {session}", id=session, user="ann", agent=agent, project="ferries")
    said = mem.message.add("user", "When does the ferry leave? 渡轮几点出发", session=session, user="ann")
    mem.message.add("assistant", "At nine, from pier 4", session=session, otid="reply")
    fact = mem.remember(
        "The ferry leaves at nine 渡轮九点", id=f"{session}-fact", session=session, tags=["ferry"],
        cites=[cite.log(said.id)], idempotency_key=f"{session}-key",
    )  # fmt: skip
    mem.revise(fact.id, "The ferry leaves at ten 渡轮十点", why="new timetable")
    mem.remember("A slip", id=f"{session}-slip", session=session, kind="observation")
    mem.forget(f"{session}-slip")
    mem.relate(fact.id, "harbour", "located_at")
    mem.remember("Pier 4 is closed", id=f"{session}-pier", session=session)
    mem.relate(f"{session}-pier", fact.id, "contradicts")
    run = mem.run.start(f"find the {session} timetable", agent=agent, session=session)
    held = mem.run.claim("worker", agent=agent)
    mem.run.propose(run.id, held.fence, reasoning="look it up")
    mem.run.record(run.id, held.fence, outcome="success", summary="found it in the drawer")
    mem.run.finish(run.id, held.fence, result={"ok": True})
    mem.checkpoint.put(session, "c1", body=b"state", items={"messages": [b"hello"]})
    mem.recall("ferry", session=session)
    mem._core.journal.flush()


def contents(tenant: Tenant, *, log: bool = False) -> dict[str, dict[str, Any]]:
    """Every record of a tenant, by table and id."""
    found: dict[str, dict[str, Any]] = {}
    for table, record in RECORDS.items():
        if table not in OPERATIONAL or (log and table == "access_log"):
            found[table] = {one.id: plain(one) for one in tenant.find(Query(record, deleted="yes")).records}
    return found


def age(tenant: Tenant, session: str = "old") -> None:
    """As if all of it had happened long ago."""
    for table in ("session", "message", "memory", "execution"):
        of_it = "id" if table == "session" else "session_id"
        query: Query[Any] = Query(RECORDS[table], (OneOf(of_it, (session,)),), deleted="yes")
        moved = [one.changed(created_at=LONG_AGO) for one in tenant.find(query).records]
        tenant.transact([Put(one, restoring=True) for one in moved])
