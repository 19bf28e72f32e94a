"""Lists: every one is iterable, has a length and an index, and begins with the newest unless it says otherwise."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.catalogue import OPERATIONS
from recollect.services.requests import ListReply, PageReply

LISTS = sorted(name for name in OPERATIONS if name == "list" or name.endswith(".list"))
OTHER_ORDERS = {
    "message.list": "oldest first",
    "workspace.files": "by path",
    "connection.list": "by name",
    "organization.list": "by id",
    "cycle.list": "latest first",
    "embedding.list": "by model",
    "kind.list": "by name",
    "tag.list": "by name",
    "retention.list": "most specific first",
    "review.list": "most urgent first",
}


def made(mem: Any, tmp_path: Path) -> dict[str, Callable[[str], object]]:
    """How to add one more of each noun, by a name."""
    bee = mem.agent.add("Bee").id
    desk = mem.workspace.add(bee, "desk").id
    mem.source.add(base64=_table("queried"), name="queried")
    return {
        "source.list": lambda name: mem.source.add(base64=_table(name), name=name).id,
        "query.list": lambda name: mem.query.run(f"SELECT '{name}' FROM queried").run,
        "list": lambda name: mem.remember(f"{name} is remembered").id,
        "user.list": lambda name: mem.user.add(name).id,
        "agent.list": lambda name: mem.agent.add(name).id,
        "session.list": lambda name: mem.session.add(name).id,
        "project.list": lambda name: mem.project.add(name).id,
        "run.list": lambda name: mem.run.start(name, agent=bee).id,
        "key.list": lambda name: mem.key.add(name, scopes=["read"]).id,
        "block.list": lambda name: mem.block.add(name, "a value").id,
        "tool.list": lambda name: mem.tool.add(name, "does it").id,
        "state.list": lambda name: mem.state.save(mem.agent.add(name).id, {"at": name}).id,
        "workspace.list": lambda name: mem.workspace.add(bee, name).id,
        "workspace.snapshots": lambda name: mem.workspace.snapshot(desk, name).id,
        "backup.list": lambda name: mem.backup(f"{tmp_path}/backups/", verify=False).id,
        "hold.list": lambda name: mem.hold.place(user=mem.user.add(name).id, reason=name).id,
        "cold.list": lambda name: _moved(mem, name, tmp_path),
        "citation.list": lambda name: (
            mem.show(mem.remember(f"{name} said so", cites=["url:http://x/"]).id).citations[0].id
        ),
    }


def _table(value: str) -> str:
    return base64.b64encode(f"value\n{value}\n".encode()).decode()


def _moved(mem: Any, name: str, tmp_path: Path) -> str:
    """A session in cold storage."""
    session = mem.session.add(name).id
    mem.message.add("user", name, session=session)
    return str(mem.cold.store(session=session, to=str(tmp_path / "cold")).moved[0].session)


def name_of(one: Any) -> str:
    names = (getattr(one, name, None) for name in ("id", "run", "session", "agent"))
    return str(next(name for name in names if name is not None))


def test_every_list_operation_answers_with_a_list() -> None:
    for name in LISTS:
        assert issubclass(OPERATIONS[name].reply, PageReply), name
    for name in ("history", "block.history", "log", "workspace.files", "message.search", "item.search"):
        assert issubclass(OPERATIONS[name].reply, ListReply), name


def test_lists_iterate_and_begin_with_the_newest(mem: Any, tmp_path: Path) -> None:
    ways = made(mem, tmp_path)
    assert set(LISTS) - set(ways) - set(OTHER_ORDERS) == {"checkpoint.list"}
    for name, add in ways.items():
        operation = OPERATIONS[name]
        added = [add(one) for one in ("first", "second", "third")]
        desk = {one.name: one.id for one in mem.workspace.list()}["desk"]
        given = {"id": desk} if name == "workspace.snapshots" else {}
        page = mem.call(name, **given, limit=2) if "limit" in operation.request.model_fields else mem.call(name)
        assert [name_of(one) for one in page][:2] == added[::-1][:2], name
        assert (name_of(page[0]), page[-1], len(page[:2])) == (added[2], list(page)[-1], 2), name
        assert len(page) == len(list(page)), name
        if "after" in operation.request.model_fields:
            assert name_of(mem.call(name, **given, after=page.next)[0]) == added[0], name
        assert "newest first" in operation.summary, name


@pytest.mark.parametrize(("name", "order"), OTHER_ORDERS.items())
def test_another_order_is_said(name: str, order: str) -> None:
    assert order in OPERATIONS[name].summary
