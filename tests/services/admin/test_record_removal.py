"""Messages, blocks, tools, runs and workspaces are removed, restored and erased as users and agents are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.catalogue import OPERATIONS
from recollect.domain.agents import Block, BlockLink, Execution, Lease, Tool, ToolLink
from recollect.domain.conversations import Message
from recollect.domain.record import now
from recollect.domain.workspaces import Workspace
from recollect.errors import Conflict, Denied, InvalidInput, NotFound, OnLegalHold
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Update
from recollect.services.admin.record_removal import RemoveWorkspaceRequest, remove_workspace, restore_workspace
from recollect.services.workspaces.snapshots import RestoreRequest

ADDED: dict[str, Callable[[Any], str]] = {
    "message": lambda mem: str(mem.message.add("user", "The walrus sings.", session="s", agent="a").id),
    "block": lambda mem: str(mem.block.add("human", "likes tea", agents=["a"]).id),
    "tool": lambda mem: str(mem.tool.add("brew", "makes tea", agents=["a"]).id),
    "run": lambda mem: str(mem.run.start("count", agent="a").id),
    "workspace": lambda mem: str(mem.workspace.add("a").id),
}
RECORD: dict[str, Any] = {"message": Message, "block": Block, "tool": Tool, "run": Execution, "workspace": Workspace}


def listed(mem: Any, noun: str, **fields: Any) -> list[str]:
    return [one.id for one in getattr(mem, noun).list(**fields)]


def age(mem: Any, noun: str, id: str) -> None:
    """As if it had been removed longer ago than it can be restored."""
    stored = mem._core.store.get(mem._scope, RECORD[noun], id, deleted=True)
    mem._core.store.transact(mem._scope, [Update(stored.changed(updated_at=now() - timedelta(days=31)))])


def test_each_is_hidden_comes_back_and_is_swept_in_time(every: Any) -> None:
    for noun, add in ADDED.items():
        group, id = getattr(every, noun), add(every)
        shown = group.show(id)
        assert group.remove(id, dry_run=True).takes
        assert listed(every, noun) == [id]
        removal = group.remove(id)
        assert removal.restorable_until > now(), noun
        assert listed(every, noun) == []
        (hidden,) = group.list(removed=True)
        assert (hidden.id, hidden.restorable_until) == (id, removal.restorable_until), noun
        for gone in (group.show, group.remove):
            with pytest.raises(NotFound):
                gone(id)
        assert every.sweep(dry_run=True).removed == 0
        group.restore(id)
        again = group.show(id)
        assert again.version == shown.version + 2
        assert again.model_dump(exclude=CHANGED) == shown.model_dump(exclude=CHANGED), noun
        with pytest.raises(InvalidInput, match="not removed"):
            group.restore(id)
        group.remove(id)
        age(every, noun, id)
        assert every.sweep(dry_run=True).removed == every.sweep().removed == 1, noun
        assert not every._core.store.count(every._scope, Query(RECORD[noun], (), deleted="yes")), noun
    for left in (BlockLink, ToolLink, Lease):
        assert not every._core.store.count(every._scope, Query(left, (), deleted="yes"))
    assert every.verify().sound


CHANGED = {"updated_at", "version", "restorable_until"}


def test_each_is_erased_removed_before_or_not(tmp_path: Path) -> None:
    marker = "zanzibarmarker"
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        for before in (False, True):
            message = mem.message.add("user", f"{marker} said", session="s").id
            block = mem.block.add("human", f"{marker} likes tea", agents=["a"]).id
            tool = mem.tool.add(f"brew {marker}").id
            run = mem.run.start(f"count {marker}", agent="a").id
            workspace = mem.workspace.add("a").id
            mem.workspace.write(workspace, f"{marker}.txt", marker)
            for noun, id in zip(RECORD, (message, block, tool, run, workspace), strict=True):
                if before:
                    getattr(mem, noun).remove(id)
                assert getattr(mem, noun).erase(id).deleted >= 1
                with pytest.raises(NotFound):
                    getattr(mem, noun).restore(id)
        holding = [path.name for path in tmp_path.rglob("*") if path.is_file() and marker.encode() in path.read_bytes()]
        assert holding == []


def test_what_is_removed_with_its_owner_returns_with_it_and_what_was_removed_before_stays(every: Any) -> None:
    ids = {noun: add(every) for noun, add in ADDED.items() if noun != "tool"}
    before = every.message.add("user", "removed before", session="s", agent="a").id
    every.message.remove(before)
    every.agent.remove("a")
    assert [listed(every, noun) for noun in ids] == [[], [ids["block"]], [], []]  # a block is nobody's alone
    with pytest.raises(Conflict, match="is removed, too"):
        every.message.restore(ids["message"])
    every.agent.restore("a")
    assert [listed(every, noun) for noun in ids] == [[id] for id in ids.values()]
    assert listed(every, "message", removed=True) == [before]
    every.message.restore(before)
    assert listed(every, "message") == [ids["message"], before]


def test_what_was_hidden_with_somebody_waits_for_them(each: Any) -> None:
    each.message.add("user", "hello", session="s", user="u")
    each.remember("tea", user="u")
    each.user.remove("u")
    assert each.sweep(dry_run=True).removed == 0
    stored = each._core.store.find(each._scope, Query(Message, (), deleted="only")).records
    assert len(stored) == 1
    each.user.restore("u")
    assert len(each.message.list("s")) == 1


def test_a_removed_message_is_in_no_search_prompt_count_or_summary(each: Any) -> None:
    id = ADDED["message"](each)
    each.agent.in_context("a", [id])
    each.summary.make(session="s")
    each.message.remove(id)
    assert each.message.search("walrus").hits == []
    assert each.agent.prompt("a").missing == [id]
    assert each.session.show("s").messages == 0
    assert each.list(kinds=["summary"]).memories == []
    each.message.restore(id)
    assert [hit.id for hit in each.message.search("walrus").hits] == [id]
    assert each.session.show("s").messages == 1


def test_a_removed_otid_is_not_taken_for_a_new_message(each: Any) -> None:
    id = each.message.add("user", "once", session="s", otid="o").id
    each.message.remove(id)
    with pytest.raises(Conflict, match="was removed") as refused:
        each.message.add("user", "once", session="s", otid="o")
    assert "message.restore" in refused.value.remedy
    each.message.restore(id)
    assert each.message.add("user", "once", session="s", otid="o").duplicate


def test_a_label_that_was_given_away_meanwhile_is_not_taken_back(each: Any) -> None:
    old = ADDED["block"](each)
    each.block.remove(old)
    assert each.agent.show("a").blocks == []
    new = each.block.add("human", "likes coffee", agents=["a"]).id
    with pytest.raises(Conflict, match="another block with its label"):
        each.block.restore(old)
    each.block.detach(new, "a")
    assert each.block.restore(old).agents == ["a"]


def test_what_several_agents_share_is_only_removed_if_one_says_so(each: Any) -> None:
    for noun in ("block", "tool"):
        group, id = getattr(each, noun), ADDED[noun](each)
        group.attach(id, "b")
        with pytest.raises(Conflict, match="agents share it"):
            group.remove(id)
        assert group.remove(id, with_others=True).agents == ["a", "b"]
        assert group.restore(id).agents == ["a", "b"]


def test_a_run_that_is_worked_on_or_shared_stays(each: Any) -> None:
    run = ADDED["run"](each)
    fence = each.run.claim("w", id=run).fence
    with pytest.raises(Conflict, match="is working"):
        each.run.remove(run)
    each.run.release(run, fence)
    fork = each.run.fork(run).id
    each.run.remove(run)
    assert each.run.claim("w").run.id == fork
    age(each, "run", run)
    assert each.sweep().removed == 0  # its steps are those of the fork, too
    each.run.restore(run)
    assert each.run.show(run).forks == [fork]


def test_a_hold_keeps_each_from_being_removed(each: Any) -> None:
    ids = {noun: add(each) for noun, add in ADDED.items() if noun not in ("tool", "block")}
    each.hold.place(agent="a", reason="case 42")
    for noun, id in ids.items():
        for verb in ("remove", "erase"):
            with pytest.raises(OnLegalHold):
                getattr(getattr(each, noun), verb)(id)


def test_removing_a_workspace_needs_more_than_removing_a_file(each: Any) -> None:
    id = ADDED["workspace"](each)
    each.workspace.write(id, "a.txt", "a")
    writer = each._core.for_scope(Scope(each.organization, "w", frozenset({"read", "write"})))
    assert remove_workspace(writer, RemoveWorkspaceRequest(id=id, path="a.txt")).files == ["a.txt"]
    with pytest.raises(Denied):
        remove_workspace(writer, RemoveWorkspaceRequest(id=id))
    each.workspace.remove(id)
    with pytest.raises(Denied):
        restore_workspace(writer, RestoreRequest(id=id))
    assert each.workspace.restore(id).workspace.id == id


@pytest.mark.parametrize("noun", ["user", "agent", "session", "project", *RECORD])
def test_the_verbs_and_the_stamps_are_the_same_for_all(noun: str) -> None:
    assert {f"{noun}.{verb}" for verb in ("remove", "restore", "erase")} <= set(OPERATIONS)
    assert "removed" in OPERATIONS[f"{noun}.list"].request.model_fields
    shown = set(OPERATIONS[f"{noun}.show"].reply.model_fields)
    stamps = {"created_at", "updated_at", "created_by", "updated_by", "version", "restorable_until"}
    assert stamps <= shown
