"""Makes the golden stores of a release: the same small world in a file of every store, and what must be read in it.

`make golden` runs it, once, from a checkout of the release; it writes tests/golden/VERSION.*

What is written is never made again: later programs open it, and must find what the listing says. See CONTRIBUTING.md.
"""

from __future__ import annotations

import base64
import json
import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recollect
from dynamodb_server import dynamodb
from postgres_server import BIN, server
from recollect import app, cite
from recollect.app.stores import record_store
from recollect.domain.agents import Lease
from recollect.domain.memory import IndexTask
from recollect.domain.record import RECORDS, now
from recollect.domain.sources import Connection, Field, QueryRun, Source, Table
from recollect.ports.records import Insert, Order, Query, RecordStore, Scope
from recollect.services.transfer import record_line

HERE = Path(__file__).parent
ORGANIZATIONS = ("acme", "globex ' \" % é")
WORDS = {"acme": "harbour", ORGANIZATIONS[1]: "vineyard"}
BESIDES = ("file.txt", "notes.md")
EMBEDDER = "hash"
_KINDS: dict[str, dict[str, Any]] = {
    "context": {},
    "user_preference": {"key": "tea", "value": {"milk": False}},
    "agent_state": {"state": {"at": "sea"}},
    "entity": {"name": "Ann", "type": "person", "attributes": {"age": 40}, "observations": ["likes tea"]},
    "interaction": {"request": "when?", "response": "at ten"},
    "query_pattern": {"question": "how much?", "sql": "SELECT 1", "tables": ["prices"], "usage_count": 2},
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for ending, raw in _made(Path(folder)):
            path = HERE / f"{recollect.__version__}.{ending}.xz"
            path.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME))
            print(f"{path.name}: {path.stat().st_size:,} bytes")


def _made(folder: Path) -> Iterator[tuple[str, bytes]]:
    origin = folder / "golden.db"
    with recollect.open(folder / "first.db", embedder=EMBEDDER, citation_root=folder) as mem:
        for name in ORGANIZATIONS:
            fill(mem.within(name, actor="ann"), WORDS[name], folder)
        mem.backup(str(origin))
    yield "sqlite", origin.read_bytes()
    yield "listing.json", json.dumps(listed(str(origin)), ensure_ascii=False, sort_keys=True, indent=0).encode()
    yield "duckdb", _backed_up(str(origin), f"duckdb:///{folder}/golden.duckdb", folder / "copy.duckdb")
    yield "pgdump", _backed_up(str(origin), server().new_store(), folder / "copy.pgdump", postgres_tools=BIN)
    yield "dynamodb.jsonl", _items_of(str(origin))
    with recollect.open(origin, embedder=EMBEDDER, organization=ORGANIZATIONS[0]) as mem:
        mem.export(str(folder / "export.jsonl"), audit=True)
    yield "export.jsonl", (folder / "export.jsonl").read_bytes()


def _backed_up(origin: str, address: str, target: Path, **settings: Any) -> bytes:
    _copied(origin, address)
    with recollect.open(address, embedder=EMBEDDER, **settings) as mem:
        mem.backup(str(target))
    return target.read_bytes()


def _items_of(origin: str) -> bytes:
    """Every item of the table as DynamoDB sends it, a line each; bytes in base64."""
    address = dynamodb().new_store()
    _copied(origin, address)
    table = address.partition("://")[2].partition("?")[0]
    items = [
        item for page in dynamodb().client.get_paginator("scan").paginate(TableName=table) for item in page["Items"]
    ]
    lines = (json.dumps(item, default=lambda raw: base64.b64encode(raw).decode(), sort_keys=True) for item in items)
    return "\n".join(sorted(lines)).encode() + b"\n"


def _copied(origin: str, address: str) -> None:
    """All records; leases too, which a copy leaves out."""
    app.copy(origin, address)
    here, there = record_store(origin)[0], record_store(address)[0]
    try:
        for name in ORGANIZATIONS:
            scope = Scope(name)
            there.transact(scope, [Insert(one) for one in here.find(scope, Query(Lease)).records])
    finally:
        here.close()
        there.close()


def listed(address: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every record of a store, field by field: by organization and table, in order of id."""
    store: RecordStore = record_store(address)[0]
    try:
        return {name: listed_tenant(store, Scope(name)) for name in store.tenants()}
    finally:
        store.close()


def listed_tenant(store: RecordStore, scope: Scope) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [
            json.loads(record_line(one))["record"]
            for one in store.find(scope, Query(record, (), (Order("id"),), deleted="yes")).records
        ]
        for table, record in sorted(RECORDS.items())
    }


def fill(mem: Any, word: str, folder: Path) -> None:
    """At least one record of every type, the way users make them where there is a way."""
    mem.add_user(f"Ann {word}", id="ann", email=f"ann@{word}.example", preferences={"tea": True})
    mem.add_project(f"Project {word}", id="project", owner="ann")
    mem.add_agent(f"Bee {word}", id="bee")
    mem.add_session(f"Talk about the {word}", id="talk", user="ann", agent="bee", project="project")
    _memories(mem, word, folder)
    _conversation(mem, word)
    _agent(mem, word)
    _learning(mem, word)
    _workspace(mem, word)
    _run(mem, word)
    _checkpoints_and_items(mem, word)
    _not_yet_made_by_anything(mem, word)
    mem.key.add(f"key {word}", scopes=["read"])
    mem.recall(word)
    mem.audit.seal()
    mem.recall(f"{word} again")


def _memories(mem: Any, word: str, folder: Path) -> None:
    for name in BESIDES:
        (folder / name).write_text(f"first line of the {word}\nsecond line\n")
    said = [cite.user("ann", f"said of the {word}"), cite.file(BESIDES[0], (1, 2))]
    fact = mem.remember(f"The {word} opens at nine", id="fact", cites=said, tags=[word, "hours"], user="ann")
    mem.promote(fact.id, why="she said so")
    mem.revise(fact.id, f"The {word} opens at ten", why="it moved")
    seen = mem.remember(f"The {word} was shut", id="seen", kind="observation", session="talk", agent="bee")
    mem.relate(seen.id, fact.id, "contradicts")
    public = mem.remember(f"The {word} has two gates", id="public", cites=said[:1], metadata={"k": [1, -0.5, None]})
    mem.promote(public.id)
    mem.promote(public.id, "published")
    old = mem.remember(f"The {word} had one gate", id="old", at="2020-02-03T04:05:06.000007Z")
    mem.archive(old.id, why="long ago")
    newer = mem.remember(f"The {word} takes three boats", id="boats-3")
    mem.remember(f"The {word} takes four boats", id="boats-4", supersedes=newer.id, valid_from="2026-01-01")
    mem.forget(mem.remember(f"A slip about the {word}", id="slip").id)
    mem.remember(
        {"text": f"Paint the {word}", "steps": ["buy paint", "paint"]}, id="plan", kind="plan", project="project"
    )
    mem.remember(f"People like the {word}", id="thought", kind="reflection", namespaces=["short_term", "long_term"])
    mem.remember({"text": f"Painted the {word}", "success": True}, id="done", kind="result", author="Ann", scope="task")
    mem.remember(f"We talked about the {word}", id="turn", kind="conversation", session="talk", expires_at="2999-01-01")
    for kind, content in _KINDS.items():
        mem.remember({**content, "text": f"About the {word}, as {kind}"}, id=f"a-{kind}", kind=kind)
    first = mem.remember(f"The {word} is blue", id="blue")
    mem.remember(f"The {word} is of a blue colour", id="bluish")
    mem.merge(first.id, ["bluish"])
    mem.erase(mem.remember(f"A secret of the {word}", id="secret").id)
    mem.check()


def _conversation(mem: Any, word: str) -> None:
    for number in range(4):
        mem.message.add("user" if number % 2 == 0 else "assistant", f"Message {number} on the {word}", session="talk")
    for number in range(10):
        mem.remember(f"Turn {number}: boats at the {word} number {number}", kind="conversation", session="talk")
    mem.summary.make("talk")
    mem.session.end("talk", summary=f"About the {word}")


def _agent(mem: Any, word: str) -> None:
    block = mem.block.add("persona", f"You keep the {word}", agents=["bee"])
    mem.block.write(block.id, f"You keep the {word} well")
    tool = mem.tool.add("fly", f"Flies over the {word}")
    mem.tool.attach(tool.id, "bee")
    mem.state.save("bee", {"at": word}, session="talk")


def _learning(mem: Any, word: str) -> None:
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


def _workspace(mem: Any, word: str) -> None:
    place = mem.workspace.add("bee", "desk")
    mem.workspace.write(place.id, "notes/plan.md", f"Plan of the {word}\n")
    mem.workspace.write(place.id, "a.txt", "a" * 3000)
    mem.workspace.snapshot(place.id, "first")
    mem.workspace.write(place.id, "notes/plan.md", f"Better plan of the {word}\n")


def _run(mem: Any, word: str) -> None:
    run = mem.run.start(f"Look after the {word}", agent="bee", session="talk", idempotency_key="once").id
    fence = mem.run.claim("worker", id=run).fence
    mem.run.propose(run, fence, tool="fly", arguments={"to": word}, reasoning="to see")
    mem.run.record(run, fence, summary=f"Flew over the {word}", output={"seen": 3})
    mem.run.propose(run, fence, tool="fly")


def _checkpoints_and_items(mem: Any, word: str) -> None:
    mem.checkpoint.put("thread", "1", items={"messages": [b"one", b"two"]}, body=word.encode(), metadata={"step": 1})
    mem.checkpoint.put("thread", "2", parent="1", base="1", spans={"messages": [(0, 2)]}, items={"more": [b"three"]})
    mem.checkpoint.write("thread", "2", task="task", slots=[(0, "channel")], values=[b"written"])
    mem.item.put(["notes", word], "key", value={"text": f"An item about the {word}", "n": 1}, texts={"text": word})


def _not_yet_made_by_anything(mem: Any, word: str) -> None:
    """Records that no operation of this release makes, and what is owed only for a moment."""
    scope = mem._scope
    told = {"organization_id": scope.organization_id}
    kept = [
        Source(
            **told, id="source", name=f"prices of the {word}", path="prices.csv", content_hash="h", project_id="project"
        ),
        Table(**told, id="table", source_id="source", name="prices", description=f"what the {word} costs"),
        Field(**told, id="field", table_id="table", name="price", type="number"),
        Connection(**told, id="connection", name="warehouse", engine="postgresql", address="db.example"),
        QueryRun(
            **told, id="query", question=f"what does the {word} cost?", sql="SELECT 1", connection_id="connection"
        ),
        IndexTask(**told, id="owed", memory_id="fact", namespace="long_term", model="another"),
        Lease(**told, id="held", holder="worker", fence=3, expires_at=now()),
    ]
    mem._core.store.transact(scope, [Insert(one) for one in kept])


if __name__ == "__main__":
    main()
