"""An organization on DynamoDB that grows in every respect, and every operation that reads, asked of it.

One owner, session, agent, tag, thread and workspace keep their size while the organization grows around them. How what
an operation reads may grow is declared here; `tests/adapters/records/dynamodb/test_dynamodb_growth.py` holds it to
that, and `bench/dynamodb_costs.py --reads` prints it for docs/guides/dynamodb.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dynamodb_meter import Cost, Meter
from filling import fill
from recollect import cite

Shape = Literal["constant", "some", "whole"]
"""Not at all; with what it answers about (an owner's memories, a window of time, a pool of candidates); with all."""
TALK = 50
Names = dict[str, Any]
Call = Callable[[Any, Names], object]


def begin(mem: Any, folder: Path) -> Names:
    """What stays as it is: something of every type, and one talk to ask for."""
    fill(mem, "sea", folder)
    grow(mem, 0, TALK)
    first = mem.list(session="talk0", limit=1).memories[0].id
    message = mem.message.list(session="talk0").messages[0].id
    place = mem.workspace.list(agent="bee").workspaces[0].id
    return {
        "memory": first, "message": message, "workspace": place,
        "snapshot": mem.workspace.snapshots(place).snapshots[0].id,
        "pattern": mem.list(kinds=["pattern"]).memories[0].id,
        "summary": mem.list(kinds=["summary"]).memories[0].id,
        "block": mem.block.list(agent="bee").blocks[0].id,
        "tool": mem.tool.list().tools[-1].id,
        "run": mem.run.list(agent="bee").runs[0].id,
        "folder": folder,
    }  # fmt: skip


def grow(mem: Any, before: int, after: int) -> None:
    for talk in range(before // TALK, after // TALK):
        _talk(mem, talk)


def _talk(mem: Any, talk: int) -> None:
    """Fifty memories of one owner in one session, and what comes with them."""
    owner, agent, session, day = (
        f"user{talk}",
        f"agent{talk}",
        f"talk{talk}",
        f"2026-{1 + talk % 9:02d}-{1 + talk % 28:02d}",
    )
    mem.user.add(f"User {talk}", id=owner)
    mem.agent.add(f"Agent {talk}", id=agent)
    mem.session.add(f"Talk {talk}", id=session, user=owner, agent=agent)
    mem.remember_many([_said(talk, n, owner, session, day) for n in range(TALK)])
    for n in range(3):
        mem.message.add("user", f"message {n} of talk {talk} on the anchor", session=session)
    ids = [one.id for one in mem.list(session=session, limit=4).memories]
    mem.relate(ids[0], ids[1], "supports")
    mem.revise(ids[2], f"a better word of talk {talk}")
    mem.forget(ids[3])
    mem.block.add("persona", f"You are agent {talk}", agents=[agent])
    mem.tool.add(f"tool{talk}", "does it")
    mem.state.save(agent, {"at": talk}, session=session)
    run = mem.run.start(f"look {talk}", agent=agent, session=session).id
    fence = mem.run.claim("worker", id=run).fence
    mem.run.propose(run, fence, tool="look")
    mem.run.record(run, fence, summary=f"looked {talk}")
    mem.checkpoint.put(f"thread{talk}", "1", items={"messages": [b"one"]})
    mem.item.put(["notes", f"n{talk}"], "key", value={"text": f"item {talk}"})
    place = mem.workspace.add(agent, "desk")
    mem.workspace.write(place.id, "a.txt", f"of talk {talk}")
    mem.project.add(f"Project {talk}", id=f"project{talk}")


def _said(talk: int, n: int, owner: str, session: str, day: str) -> dict[str, Any]:
    said: dict[str, Any] = {
        "content": f"note {n} of talk {talk} on the anchor and w{talk * 7 % 300} and w{n}",
        "session": session, "user": owner, "author": ("ann", "bob")[n % 2], "at": f"{day}T10:{n:02d}:00Z",
    }  # fmt: skip
    if n % 10 == 0:
        said |= {"tags": [f"tag{talk}", "sea"], "cites": [cite.user(owner, f"said {n}")], "priority": 1 + n // 10}
    return said


@dataclass(frozen=True)
class Reading:
    """A call, and how what it reads grows."""

    call: Call
    shape: Shape = "constant"


def _list(**given: Any) -> Call:
    return lambda mem, names: mem.list(limit=10, **given)


ORDERS = ("newest", "oldest", "happened", "updated", "priority", "confidence", "importance", "used", "expires")
BY_ORDER: dict[str, Shape] = {"updated": "whole", "used": "whole"}
READINGS: dict[str, Reading] = {
    "recall": Reading(lambda mem, names: mem.recall("what of w5 and w40"), "some"),
    "recall, one user's": Reading(lambda mem, names: mem.recall("what of w5 and w40", user="user0"), "some"),
    "context": Reading(lambda mem, names: mem.context("what of w5 and w40"), "some"),
    "why_not": Reading(lambda mem, names: mem.why_not("what of w5", names["memory"]), "some"),
    "show": Reading(lambda mem, names: mem.show(names["memory"])),
    **{f"list, {order}": Reading(_list(order=order), BY_ORDER.get(order, "constant")) for order in ORDERS},
    "list, one user's": Reading(_list(user="user0")),
    "list, one user's, happened": Reading(_list(user="user0", order="happened")),
    "list, one session's": Reading(_list(session="talk0")),
    "list, one session's, happened": Reading(_list(session="talk0", order="happened")),
    "list, one agent's": Reading(_list(agent="bee")),
    "list, one project's": Reading(_list(project="project")),
    "list, of a kind": Reading(_list(kinds=["fact"])),
    "list, of a rare kind": Reading(_list(kinds=["plan"])),
    "list, of a status": Reading(_list(statuses=["hypothesis"])),
    "list, of a rare status": Reading(_list(statuses=["archived"])),
    "list, with a tag": Reading(_list(tags=["tag0"])),
    "list, with a frequent tag": Reading(_list(tags=["sea"]), "some"),
    "list, of an author": Reading(_list(author="ann"), "whole"),
    "list, of a rare author": Reading(_list(author="Ann"), "whole"),
    "list, of a day": Reading(_list(since="2026-01-01", until="2026-01-01")),
    "list, created lately": Reading(_list(created_since="2026-01-01"), "whole"),
    "list, changed lately": Reading(_list(changed_since="2026-01-01"), "whole"),
    "list, of high priority": Reading(_list(min_priority=9)),
    "list, citing a source": Reading(_list(source="user:user0")),
    "list, forgotten": Reading(lambda mem, names: mem.list(limit=3, forgotten=True)),
    "list, with metadata": Reading(_list(metadata={"k": 1}), "whole"),
    "review.list": Reading(lambda mem, names: mem.review.list(limit=10), "some"),
    "review.list, one user's": Reading(lambda mem, names: mem.review.list(limit=10, user="user0")),
    "history": Reading(lambda mem, names: mem.history(names["memory"])),
    "relations": Reading(lambda mem, names: mem.relations(limit=3)),
    "relations, of one": Reading(lambda mem, names: mem.relations(names["memory"], limit=3)),
    "relations.graph": Reading(lambda mem, names: mem.relations.graph(names["memory"])),
    "tag.list": Reading(lambda mem, names: mem.tag.list(limit=3), "some"),
    "citation.list": Reading(lambda mem, names: mem.citation.list(limit=3)),
    "citation.list, of a state": Reading(lambda mem, names: mem.citation.list("broken", limit=3)),
    "cold.list": Reading(lambda mem, names: mem.cold.list(limit=3)),
    "cold.show": Reading(lambda mem, names: mem.cold.show("cold")),
    "retention.list": Reading(lambda mem, names: mem.retention.list()),
    "retention.preview": Reading(lambda mem, names: mem.retention.preview()),
    "hold.list": Reading(lambda mem, names: mem.hold.list()),
    "pattern.suggest": Reading(lambda mem, names: mem.pattern.suggest("sail a boat"), "some"),
    "pattern.show": Reading(lambda mem, names: mem.pattern.show(names["pattern"])),
    "summary.show": Reading(lambda mem, names: mem.summary.show(names["summary"])),
    "summary.tree": Reading(lambda mem, names: mem.summary.tree()),
    "run.list": Reading(lambda mem, names: mem.run.list(limit=3)),
    "run.show": Reading(lambda mem, names: mem.run.show(names["run"])),
    "run.waiting": Reading(lambda mem, names: mem.run.waiting(limit=3)),
    "cycle.list": Reading(lambda mem, names: mem.cycle.list(limit=3)),
    "cycle.list, one agent's": Reading(lambda mem, names: mem.cycle.list(agent="bee", limit=3)),
    "cycle.show": Reading(lambda mem, names: mem.cycle.show("bee", 1)),
    "user.list": Reading(lambda mem, names: mem.user.list(limit=3)),
    "user.list, updated": Reading(lambda mem, names: mem.user.list(limit=3, order="updated"), "whole"),
    "user.show": Reading(lambda mem, names: mem.user.show("user0")),
    "embedding.list": Reading(lambda mem, names: mem.embedding.list(names["memory"])),
    "kind.list": Reading(lambda mem, names: mem.kind.list()),
    "key.list": Reading(lambda mem, names: mem.key.list()),
    "organization.list": Reading(lambda mem, names: mem.organization.list()),
    "organization.show": Reading(lambda mem, names: mem.organization.show()),
    "audit.verify": Reading(lambda mem, names: mem.audit.verify(), "whole"),
    "privacy.find": Reading(lambda mem, names: mem.privacy.find(user="user0"), "whole"),
    "privacy.certificates": Reading(lambda mem, names: mem.privacy.certificates()),
    "stats": Reading(lambda mem, names: mem.stats(), "some"),
    "activity": Reading(lambda mem, names: mem.activity()),
    "activity, by what happened": Reading(lambda mem, names: mem.activity(by="happened"), "some"),
    "log": Reading(lambda mem, names: mem.log(limit=3)),
    "verify": Reading(lambda mem, names: mem.verify(), "whole"),
    "doctor": Reading(lambda mem, names: mem.doctor(), "whole"),
    "export": Reading(lambda mem, names: mem.export(str(names["folder"] / "out.jsonl")), "whole"),
    "backup.list": Reading(lambda mem, names: mem.backup.list()),
    "project.list": Reading(lambda mem, names: mem.project.list(limit=3)),
    "project.show": Reading(lambda mem, names: mem.project.show("project")),
    "project.members": Reading(lambda mem, names: mem.project.members("project")),
    "session.list": Reading(lambda mem, names: mem.session.list(limit=3)),
    "session.list, one user's": Reading(lambda mem, names: mem.session.list(limit=3, user="user0")),
    "session.list, updated": Reading(lambda mem, names: mem.session.list(limit=3, order="updated"), "whole"),
    "session.show": Reading(lambda mem, names: mem.session.show("talk0")),
    "message.show": Reading(lambda mem, names: mem.message.show(names["message"])),
    "message.list": Reading(lambda mem, names: mem.message.list(limit=3)),
    "message.list, one session's": Reading(lambda mem, names: mem.message.list(session="talk0", limit=3)),
    "message.search": Reading(lambda mem, names: mem.message.search("the anchor"), "some"),
    "message.history": Reading(lambda mem, names: mem.message.history(names["message"])),
    "agent.list": Reading(lambda mem, names: mem.agent.list(limit=3)),
    "agent.show": Reading(lambda mem, names: mem.agent.show("bee")),
    "agent.prompt": Reading(lambda mem, names: mem.agent.prompt("bee")),
    "block.list": Reading(lambda mem, names: mem.block.list(limit=3)),
    "block.show": Reading(lambda mem, names: mem.block.show(names["block"])),
    "block.history": Reading(lambda mem, names: mem.block.history(names["block"])),
    "tool.list": Reading(lambda mem, names: mem.tool.list(limit=3)),
    "tool.show": Reading(lambda mem, names: mem.tool.show(names["tool"])),
    "state.load": Reading(lambda mem, names: mem.state.load("agent0", session="talk0")),
    "state.list": Reading(lambda mem, names: mem.state.list(limit=3)),
    "workspace.list": Reading(lambda mem, names: mem.workspace.list(limit=3)),
    "workspace.show": Reading(lambda mem, names: mem.workspace.show(names["workspace"])),
    "workspace.read": Reading(lambda mem, names: mem.workspace.read(names["workspace"], "a.txt")),
    "workspace.files": Reading(lambda mem, names: mem.workspace.files(names["workspace"], limit=3)),
    "workspace.snapshots": Reading(lambda mem, names: mem.workspace.snapshots(names["workspace"])),
    "workspace.diff": Reading(lambda mem, names: mem.workspace.diff(names["workspace"], names["snapshot"])),
    "checkpoint.get": Reading(lambda mem, names: mem.checkpoint.get("thread0")),
    "checkpoint.list": Reading(lambda mem, names: mem.checkpoint.list(thread="thread0", limit=3)),
    "checkpoint.threads": Reading(lambda mem, names: mem.checkpoint.threads(), "some"),
    "item.get": Reading(lambda mem, names: mem.item.get(["notes", "n0"], "key")),
    "item.search": Reading(lambda mem, names: mem.item.search(limit=3)),
    "item.search, in one place": Reading(lambda mem, names: mem.item.search(["notes", "n0"], limit=3)),
    "item.namespaces": Reading(lambda mem, names: mem.item.namespaces(), "some"),
    "source.list": Reading(lambda mem, names: mem.source.list(limit=3)),
    "source.show": Reading(lambda mem, names: mem.source.show("source")),
    "source.find": Reading(lambda mem, names: mem.source.find("prices")),
    "source.versions": Reading(lambda mem, names: mem.source.versions("source")),
    "connection.list": Reading(lambda mem, names: mem.connection.list()),
    "connection.show": Reading(lambda mem, names: mem.connection.show("warehouse")),
    "query.list": Reading(lambda mem, names: mem.query.list(limit=3)),
    "query.show": Reading(lambda mem, names: mem.query.show("query")),
    "query.patterns": Reading(lambda mem, names: mem.query.patterns()),
}  # fmt: skip


ELSEWHERE: dict[str, str] = {
    "user.searches": "reads the user's own record",
    "user.remove_search": "reads the user's own record",
    "privacy.verify": "looks through the files of a store, and the whole table",
    "sql": "is for stores with SQL",
    "cold.search": "reads what is in cold storage, elsewhere",
    "ask": "reads the data of sources",
    "query.run": "reads the data of sources",
    "query.chart": "reads the result of a query",
    "query.export": "reads the data of sources",
    "query.cancel": "reads nothing",
}
"""Operations that read no more than a record or two from the table, or are not for it."""


def measured(mem: Any, meter: Meter, call: Call, names: Names) -> Cost:
    """Of a call that was made once before."""
    call(mem, names)
    mem._core.journal.flush()
    with meter.cost() as cost:
        call(mem, names)
    return cost
