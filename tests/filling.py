"""One small world that holds something of every record: for the golden stores, and for what tenants must not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect import cite
from recollect.domain.agents import Lease
from recollect.domain.audit import Erasure
from recollect.domain.memory import IndexTask
from recollect.domain.record import now
from recollect.domain.sources import Connection, Field, QueryRun, Source, Table
from recollect.ports.steps import Insert

Ids = Callable[[str], str]
BESIDES = ("file.txt", "notes.md")
_KINDS: dict[str, dict[str, Any]] = {
    "context": {},
    "user_preference": {"key": "tea", "value": {"milk": False}},
    "agent_state": {"state": {"at": "sea"}},
    "entity": {"name": "Ann", "type": "person", "attributes": {"age": 40}, "observations": ["likes tea"]},
    "interaction": {"request": "when?", "response": "at ten"},
    "query_pattern": {"question": "how much?", "sql": "SELECT 1", "tables": ["prices"], "usage_count": 2},
}


def fill(mem: Any, word: str, folder: Path, ids: Ids = str) -> None:
    """At least one record of every type, the way users make them where there is a way; `ids` makes ids of names."""
    mem.user.add(f"Ann {word}", id=ids("ann"), email=f"ann@{word}.example", preferences={"tea": True})
    mem.project.add(f"Project {word}", id=ids("project"), owner=ids("ann"))
    mem.agent.add(f"Bee {word}", id=ids("bee"))
    mem.session.add(f"Talk about the {word}", id=ids("talk"), user=ids("ann"), agent=ids("bee"), project=ids("project"))
    _memories(mem, word, ids, folder)
    _conversation(mem, word, ids)
    _agent(mem, word, ids)
    _learning(mem, word, ids)
    _workspace(mem, word, ids)
    _run(mem, word, ids)
    _checkpoints_and_items(mem, word, ids)
    _not_yet_made_by_anything(mem, word, ids)
    mem.key.add(f"key {word}", scopes=["read"])
    mem.recall(word)
    mem.audit.seal()
    mem.recall(f"{word} again")


def _memories(mem: Any, word: str, ids: Ids, folder: Path) -> None:
    for name in BESIDES:
        (folder / name).write_text(f"first line of the {word}\nsecond line\n")
    said = [cite.user(ids("ann"), f"said of the {word}"), cite.file(BESIDES[0], (1, 2))]
    fact = mem.remember(f"The {word} opens at nine", id=ids("fact"), cites=said, tags=[word, "hours"], user=ids("ann"))
    mem.promote(fact.id, why="she said so")
    mem.revise(fact.id, f"The {word} opens at ten", why="it moved")
    seen = mem.remember(
        f"The {word} was shut", id=ids("seen"), kind="observation", session=ids("talk"), agent=ids("bee")
    )
    mem.relate(seen.id, fact.id, "contradicts")
    public = mem.remember(
        f"The {word} has two gates", id=ids("public"), cites=said[:1], metadata={"k": [1, -0.5, None]}
    )
    mem.promote(public.id)
    mem.promote(public.id, "published")
    old = mem.remember(f"The {word} had one gate", id=ids("old"), at="2020-02-03T04:05:06.000007Z")
    mem.archive(old.id, why="long ago")
    newer = mem.remember(f"The {word} takes three boats", id=ids("boats-3"))
    mem.remember(f"The {word} takes four boats", id=ids("boats-4"), supersedes=newer.id, valid_from="2026-01-01")
    mem.forget(mem.remember(f"A slip about the {word}", id=ids("slip")).id)
    mem.remember(
        {"text": f"Paint the {word}", "steps": ["buy paint", "paint"]},
        id=ids("plan"),
        kind="plan",
        project=ids("project"),
    )
    mem.remember(
        f"People like the {word}", id=ids("thought"), kind="reflection", namespaces=["short_term", "long_term"]
    )
    mem.remember(
        {"text": f"Painted the {word}", "success": True}, id=ids("done"), kind="result", author="Ann", scope="task"
    )
    mem.remember(
        f"We talked about the {word}", id=ids("turn"), kind="conversation", session=ids("talk"), expires_at="2999-01-01"
    )
    for kind, content in _KINDS.items():
        mem.remember({**content, "text": f"About the {word}, as {kind}"}, id=ids(f"a-{kind}"), kind=kind)
    first = mem.remember(f"The {word} is blue", id=ids("blue"))
    mem.remember(f"The {word} is of a blue colour", id=ids("bluish"))
    mem.merge(first.id, [ids("bluish")])
    mem.erase(mem.remember(f"A secret of the {word}", id=ids("secret")).id)
    mem.check()


def _conversation(mem: Any, word: str, ids: Ids) -> None:
    for number in range(4):
        mem.message.add(
            "user" if number % 2 == 0 else "assistant", f"Message {number} on the {word}", session=ids("talk")
        )
    for number in range(10):
        mem.remember(f"Turn {number}: boats at the {word} number {number}", kind="conversation", session=ids("talk"))
    mem.summary.make(ids("talk"))
    mem.session.end(ids("talk"), summary=f"About the {word}")


def _agent(mem: Any, word: str, ids: Ids) -> None:
    block = mem.block.add("persona", f"You keep the {word}", agents=[ids("bee")])
    mem.block.write(block.id, f"You keep the {word} well")
    tool = mem.tool.add("fly", f"Flies over the {word}")
    mem.tool.attach(tool.id, ids("bee"))
    mem.state.save(ids("bee"), {"at": word}, session=ids("talk"))


def _learning(mem: Any, word: str, ids: Ids) -> None:
    for number in range(4):
        mem.episode.record(
            f"Sail boat {number} out of the {word}",
            number != 2,
            action_plan=["untie", "sail"],
            critique="mind the wind",
        )
    mem.pattern.learn()
    pattern = mem.list(kinds=["pattern"]).memories[0]
    used = mem.pattern.apply(pattern.id, f"Sail boat 9 out of the {word}")
    mem.pattern.report(used.application, True)


def _workspace(mem: Any, word: str, ids: Ids) -> None:
    place = mem.workspace.add(ids("bee"), "desk")
    mem.workspace.write(place.id, "notes/plan.md", f"Plan of the {word}\n")
    mem.workspace.write(place.id, "a.txt", "a" * 3000)
    mem.workspace.snapshot(place.id, "first")
    mem.workspace.write(place.id, "notes/plan.md", f"Better plan of the {word}\n")


def _run(mem: Any, word: str, ids: Ids) -> None:
    run = mem.run.start(f"Look after the {word}", agent=ids("bee"), session=ids("talk"), idempotency_key=ids("once")).id
    fence = mem.run.claim("worker", id=run).fence
    mem.run.propose(run, fence, tool="fly", arguments={"to": word}, reasoning="to see")
    mem.run.record(run, fence, summary=f"Flew over the {word}", output={"seen": 3})
    mem.run.propose(run, fence, tool="fly")


def _checkpoints_and_items(mem: Any, word: str, ids: Ids) -> None:
    mem.checkpoint.put(
        ids("thread"), ids("1"), items={"messages": [b"one", b"two"]}, body=word.encode(), metadata={"step": 1}
    )
    mem.checkpoint.put(
        ids("thread"),
        ids("2"),
        parent=ids("1"),
        base=ids("1"),
        spans={"messages": [(0, 2)]},
        items={"more": [b"three"]},
    )
    mem.checkpoint.write(ids("thread"), ids("2"), task="task", slots=[(0, "channel")], values=[b"written"])
    mem.item.put(["notes", word], "key", value={"text": f"An item about the {word}", "n": 1}, texts={"text": word})


def _not_yet_made_by_anything(mem: Any, word: str, ids: Ids) -> None:
    """Records that no operation of this release makes, and what is owed only for a moment."""
    scope = mem._scope
    told = {"organization_id": scope.organization_id}
    kept = [
        Source(
            **told,
            id=ids("source"),
            name=f"prices of the {word}",
            path="prices.csv",
            content_hash="h",
            project_id=ids("project"),
        ),
        Table(**told, id=ids("table"), source_id=ids("source"), name="prices", description=f"what the {word} costs"),
        Field(**told, id=ids("field"), table_id=ids("table"), name="price", type="number"),
        Connection(**told, id=ids("connection"), name="warehouse", engine="postgresql", address="db.example"),
        QueryRun(
            **told,
            id=ids("query"),
            question=f"what does the {word} cost?",
            sql="SELECT 1",
            connection_id=ids("connection"),
        ),
        IndexTask(**told, id=ids("owed"), memory_id=ids("fact"), namespace="long_term", model="another"),
        Erasure(**told, id=ids("erasure")),
        Lease(**told, id=ids("held"), holder="worker", fence=3, expires_at=now()),
    ]
    mem._core.store.transact(scope, [Insert(one) for one in kept])
