"""Entries of the access log: by the names of the catalogue, with session and agent, and old ones stay findable."""

from __future__ import annotations

from typing import Any

from recollect.catalogue import OPERATIONS
from recollect.domain.audit import FORMER_NAMES, AccessLog
from recollect.ports.records import Scope
from recollect.ports.steps import Insert

HERE = Scope("default")


def test_entries_know_the_session_and_the_agent(mem: Any) -> None:
    agent = mem.agent.add("Bot").id
    session = mem.session.add("Talk", agent=agent).id
    made = mem.remember("said in a session", session=session, agent=agent).id
    mem.show(made)
    mem.recall("said", session=session)
    mem.message.add("user", "hello", session=session)
    mem.session.end(session)
    mem.agent.pause(agent)
    mem.forget(made)
    by_session = {entry.action for entry in mem.log(session=session, limit=100).entries}
    assert by_session >= {"remember", "show", "recall", "message.add", "session.end", "forget"}
    by_agent = {entry.action for entry in mem.log(agent=agent, limit=100).entries}
    assert by_agent >= {"session.add", "remember", "show", "agent.pause", "forget"}
    assert {entry.session for entry in mem.log(action="remember").entries} == {session}


def test_what_exactly_was_done_stands_beside_the_name(mem: Any) -> None:
    made = mem.remember("a fact", tags=["a"]).id
    mem.revise(made, "another fact", tags=["b"])
    changes = {entry.request["change"] for entry in mem.log(action="revise").entries}
    assert changes == {"revised", "retag"}


def test_old_entries_are_found_by_their_old_names_and_by_those_of_today(mem: Any) -> None:
    """They are sealed, so they keep the names they had."""
    old = [AccessLog(organization_id="default", operation="create", action=name) for name in ("add workspace", "retag")]
    mem._core.store.transact(HERE, [Insert(one) for one in old])
    mem.audit.seal()
    agent = mem.agent.add("Bot").id
    new = mem.workspace.add(agent).id
    for asked in ("add workspace", "workspace.add"):
        found = mem.log(action=asked).entries
        assert old[0].id in {entry.id for entry in found}
        assert new in {entry.request.get("id") for entry in found}
    assert [entry.id for entry in mem.log(action="revise").entries] == [old[1].id]
    assert mem.audit.verify().sound


def test_former_names_lead_to_operations_and_are_none_themselves() -> None:
    assert set(FORMER_NAMES) <= set(OPERATIONS)
    assert not {name for former in FORMER_NAMES.values() for name in former} & set(OPERATIONS)
