"""One small world that holds something of every record: for the golden stores, and for what tenants must not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect import cite
from recollect.domain.agents import Lease
from recollect.domain.audit import Erasure
from recollect.domain.backups import Backup
from recollect.domain.cold import ColdArchive, ColdLink, ColdRecord
from recollect.domain.conversations import Session
from recollect.domain.memory import IndexTask
from recollect.domain.privacy import ErasureCertificate
from recollect.domain.record import now
from recollect.domain.retention import LegalHold, RetentionClock, RetentionRule
from recollect.domain.sources import Connection, Field, QueryRun, Source, SourceVersion, StoredObject, Table
from recollect.domain.tenancy import OrganizationSecret
from recollect.ports.steps import Insert
from recollect.services.memories.data_vectors import embedding_steps

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
    mem.project.add_member(ids("project"), ids("ann"), "admin")
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
    mem.kind.add("kind_" + ids("kind").replace("-", "_").lower(), f"Of the {word}")
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
        OrganizationSecret(**told, id=ids("own secret"), value="5f" * 32),
        Source(
            **told,
            id=ids("source"),
            name=f"prices of the {word}",
            path="prices.csv",
            content_hash="h",
            size=17,
            status="profiled",
            format="csv",
            project_id=ids("project"),
        ),
        SourceVersion(
            **told,
            id=ids("source-version"),
            source_id=ids("source"),
            number=1,
            content_hash="h",
            size=17,
            format="csv",
            path="prices.csv",
            tables=[{"name": "prices", "columns": ["price"]}],
        ),
        StoredObject(**told, id=ids("object"), source_id=ids("source"), digest="h", size=17, purpose="table"),
        Table(
            **told,
            id=ids("table"),
            source_id=ids("source"),
            name="prices",
            description=f"what the {word} costs",
            row_count=2,
            digest="h",
            size=17,
            rejected_count=1,
            rejected=[{"line": 3, "text": f"{word},,"}],
            profiled="whole",
            fingerprint="f",
        ),
        Field(
            **told,
            id=ids("field"),
            table_id=ids("table"),
            name="price",
            type="number",
            sample_values=[4, 9],
            meaning="money",
        ),
        Connection(
            **told,
            id=ids("connection"),
            name="warehouse",
            engine="postgresql",
            address="db.example",
            facts={"read_only": True},
            checked_at=now(),
        ),
        QueryRun(
            **told,
            id=ids("query"),
            question=f"what does the {word} cost?",
            sql="SELECT 1",
            connection_id=ids("connection"),
            source_ids=[ids("source")],
            states={ids("source"): {"name": "prices", "revision": 1, "hash": "sha256:0"}},
            rows=[[4]],
            result_hash="h",
            reading=[f"what the {word} costs"],
            confidence=0.8,
        ),
        Session(**told, id=ids("cold"), title=f"Long ago about the {word}", cold_at=now()),
        ColdArchive(
            **told,
            id=ids("cold"),
            session_id=ids("cold"),
            status="stored",
            address="file:///cold/storage/",
            place="elsewhere",
            digest="o1:" + "0" * 64,
            manifest="o1:" + "1" * 64,
            bytes=100,
            counts={"memory": 1},
            first_at=now(),
            last_at=now(),
        ),
        ColdRecord(
            **told, id=ids("moved"), archive_id=ids("cold"), record_table="memory", record_id=ids("cold memory")
        ),
        ColdLink(
            **told,
            id=ids("cold link"),
            source_memory_id=ids("fact"),
            target_archive_id=ids("cold"),
            link={
                "id": ids("cold link"),
                "source_id": ids("fact"),
                "target_id": ids("cold memory"),
                "type": "supports",
            },
        ),
        RetentionRule(**told, id=ids("rule"), kind="observation", keep_days=3650, then="archive", reason=word),
        RetentionClock(**told, id=ids("clock"), applied_at=now()),
        LegalHold(**told, id=ids("hold"), subject_type="user", subject_id=ids("ann"), reason=word, released_at=now()),
        IndexTask(**told, id=ids("owed"), memory_id=ids("fact"), namespace="long_term", model="another"),
        Erasure(**told, id=ids("erasure")),
        ErasureCertificate(**told, id=ids("certificate"), subject="k1:0", status="done", document={"deleted": {}}),
        Backup(**told, id=ids("backup"), place=f"/backups/{word}", kind="sqlite", made_at=now(), bytes=7, digest="d"),
        Lease(**told, id=ids("held"), holder="worker", fence=3, expires_at=now()),
    ]
    described = [one for one in kept if isinstance(one, Source | Table | Field)]
    tenant = mem._core.for_scope(scope)
    tenant.transact([*(Insert(one) for one in kept), *embedding_steps(tenant, described)])
