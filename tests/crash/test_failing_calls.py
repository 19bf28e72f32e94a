"""Everything an operation writes commits together: whichever statement fails, nothing is half done.

For every operation of the catalogue that writes, the n-th SQL statement of the writer fails, for every n, until the
operation gets through: alone, together with the next (its undoing), or with all that follow. After each failure a
typed error came out, the tables hold exactly what they held, and the very same store goes on working.

In a soak all of it. Else every operation is tried with one of its requests and some of its statements, and a third of
the operations with failing calls of the store.
"""

from __future__ import annotations

import logging
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import recollect
from import_samples import made_sample
from probing import sample
from recollect.adapters.records.sqlite.connection import connect
from recollect.catalogue import OPERATIONS
from recollect.domain.agents import Cycle, Execution, Proposal, Result
from recollect.domain.conversations import Message
from recollect.domain.learning import PatternUse
from recollect.domain.memory import IndexTask, Memory
from recollect.domain.record import now
from recollect.domain.sources import Connection, Table
from recollect.errors import EmbedderFailed, InvalidInput, NotFound, RecollectError, StoreBusy, StoreError, StoreFull
from recollect.ports.query import Query, equal
from recollect.ports.steps import Insert, Put
from recollect.services.access_journal import KEPT_NAMES
from recollect.testing.fakes import HashEmbedder
from seeds import some

ELSEWHERE = {
    "organization.resume",  # the way back of organization.suspend, by the same function
    "sql",  # reads only, and not on SQLite: tests/adapters/records/duckdb/test_duckdb_sql.py
    *(
        "encryption.rewrap",
        "encryption.rotate",
        "encryption.reseal",
        "encryption.text",
    ),  # only where there is a key: tests/services/admin/test_encryption.py, test_encrypted_texts.py
}
WRITING = [name for name, operation in OPERATIONS.items() if operation.access != "read" and name not in ELSEWHERE]
# They need a greater permission, but write nothing to the store.
READ_ONLY = {"verify", "audit.verify", "export", "partitions", "migrate", "workspace.push"}
READ_ONLY |= {"privacy.find", "privacy.export", "privacy.verify"}
THEIR_OWN = {"user.change_password", "user.save_search", "user.remove_search"}  # asked by the user it is about
SAYS_SO = {"verify", "doctor"}  # answer with what they could not read, instead of failing
# Done, even if what is left on disk cannot be overwritten yet.
SWEEPS_LATER = {"source.add", "source.remove", "connection.add", "connection.refresh"}
NOTED = {"backup"}  # done, even if it cannot be recorded; a note says so
ERRORS: dict[type[apsw.Error], type[RecollectError]] = {
    apsw.IOError: StoreError,
    apsw.FullError: StoreFull,
    apsw.BusyError: StoreBusy,
}
ALICE = recollect.cite.user("alice", "said so in review")
BOB = recollect.cite.user("bob", "was there")


@dataclass
class Example:
    """A valid request. What happens in pieces may be left half way, sound, and is finished when repeated.

    `done` is what a repetition says when all was done but sweeping up the traces.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    in_pieces: bool = False
    done: type[RecollectError] | None = None

    def request(self, mem: Any, folder: Path) -> dict[str, Any]:
        return {name: value(mem, folder) if callable(value) else value for name, value in self.fields.items()}


def run_named(goal: str) -> Callable[[Any, Path], str]:
    """The id of a run of the furnished store, which cannot be chosen."""
    return lambda mem, _: next((run.id for run in mem.run.list() if run.goal == goal), "gone")


def removals(type: str) -> list[Example]:
    """Removing the user, agent, session or project of the furnished store: for a while, and for good."""
    asked = ({"id": type, "with_others": True}, {"id": type, "with_others": True, "for_good": True})
    return [Example(dict(fields), in_pieces=True, done=NotFound) for fields in asked]


def erasures(type: str) -> list[Example]:
    return [Example({"id": type, "with_others": True}, in_pieces=True, done=NotFound)]


def removed(noun: str) -> Callable[[Any, Path], str]:
    """The id of the one that is removed in the furnished store."""
    return lambda mem, _: next((one.id for one in getattr(mem, noun).list(removed=True)), "gone")


def driving(goal: str, **fields: Any) -> Example:
    """A call of the worker that holds a run."""
    return Example({"id": run_named(goal), "fence": 1, **fields})


def query_asked(mem: Any, _: Path) -> str:
    """The id of the query of the furnished store, which cannot be chosen."""
    runs = mem.query.list(verdict="unjudged").runs
    return str(runs[-1].run) if runs else "it is removed"


def backed_up(place: str) -> Callable[[Any, Path], str]:
    """The id of the furnished backup in a folder of this name."""
    return lambda mem, _: next((str(one.id) for one in mem.backup.list() if one.place.endswith(place)), "gone")


def organization_not_held(mem: Any, _: Path) -> str:
    """The organization, when nothing of it is on legal hold."""
    for hold in mem.hold.list():
        mem.hold.release(hold.id, reason="it is over")
    return "default"


EXAMPLES: dict[str, list[Example]] = {
    "remember": [
        Example({"content": "quite new", "tags": ["a", "b"], "cites": [ALICE, BOB], "idempotency_key": "key"}),
        Example({"content": "the successor", "supersedes": "plain", "derived_from": ["cited"], "session": "session"}),
        Example({"content": "of somebody new", "user": "new user", "session": "new session"}),
        Example({"content": "Alice prefers pytest", "tags": ["again"], "cites": [BOB]}),
        Example({"content": "Alice prefers pytest", "tags": ["again"], "priority": 9, "metadata": {"again": True}}),
    ],
    "remember_many": [
        Example({"memories": ["one", {"content": "two", "tags": ["t"]}, {"content": "three", "cites": [ALICE]}]}),
        Example({"memories": ["one", {"content": "Alice prefers pytest", "tags": ["again"]}]}),
    ],
    "revise": [
        Example({"id": "verified", "content": "it is different now", "tags": ["x"], "why": "because"}),
        Example({"id": "cited", "tags": ["x", "y"]}),
        Example({"id": "cited", "scope": "project", "project": "project", "namespaces": ["notes"], "author": "Zoe"}),
    ],
    "relate": [Example({"id": "cited", "to": "plain", "type": "supports"})],
    "unrelate": [Example({"id": "plain", "to": "cited"})],
    "tag.add": [Example({"id": "cited", "tags": ["x", "y"]})],
    "tag.remove": [Example({"id": "cited", "tags": ["testing"]})],
    "tag.rename": [Example({"tag": "testing", "to": "tests"})],
    "cite": [Example({"id": "plain", "cites": [ALICE, BOB]})],
    "uncite": [Example({"id": "verified", "citation": lambda mem, _: mem.show("verified").citations[0].id})],
    "confirm": [Example({"id": "verified", "citation": lambda mem, _: mem.show("verified").citations[0].id})],
    "check": [Example({"id": "outdated"}), Example({}, in_pieces=True)],
    "promote": [Example({"id": "cited"})],
    "demote": [Example({"id": "verified"})],
    "archive": [Example({"id": "cited"})],
    "merge": [
        Example({"id": "cited", "others": ["plain", "verified"], "promote": "verified"}),
        Example({"id": "verified", "others": ["plain"]}),
    ],
    "unmerge": [Example({"id": "merged", "why": "they differ"})],
    "roll_back": [Example({"source": "user:alice", "why": "she erred"})],
    "forget": [Example({"id": "cited"})],
    "restore": [Example({"id": "forgotten"})],
    "erase": [Example({"id": "cited"}, in_pieces=True, done=NotFound)],
    "forget_many": [Example({"tags": ["testing"], "why": "old"})],
    "erase_many": [Example({"tags": ["testing"]}, in_pieces=True)],
    "archive_many": [Example({"statuses": ["verified"]}, in_pieces=True)],
    "promote_many": [Example({"tags": ["testing"]})],
    "demote_many": [Example({"statuses": ["verified"]}, in_pieces=True)],
    "sweep": [Example(in_pieces=True)],
    "cold.store": [Example({"session": "quiet"}, in_pieces=True)],
    "cold.restore": [Example({"id": "cold"}, in_pieces=True, done=NotFound)],
    "retention.set": [Example({"kind": "fact", "keep_days": 30, "then": "forget"})],
    "retention.remove": [Example({"id": lambda mem, _: next((one.id for one in mem.retention.list()), "gone")})],
    "retention.apply": [Example(in_pieces=True)],
    "hold.place": [Example({"session": "session", "reason": "case 42"})],
    "hold.release": [Example({"id": lambda mem, _: mem.hold.list(released="yes")[0].id})],
    "prune": [Example({"keep": 1})],
    "user.add": [Example({"name": "Carol", "email": "carol@example.com"})],
    "agent.add": [Example({"name": "Builder"})],
    "session.add": [Example({"title": "planning", "user": "user", "agent": "agent"})],
    "project.add": [Example({"name": "Roof"})],
    "user.remove": [*removals("user"), Example({"id": "user", "hand_over_to": "heir"}, in_pieces=True, done=NotFound)],
    "agent.remove": removals("agent"),
    "session.remove": removals("session"),
    "project.remove": removals("project"),
    **{f"{type}.erase": erasures(type) for type in ("user", "agent", "session", "project")},
    "user.restore": [Example({"id": "removed"}, done=InvalidInput)],
    "agent.restore": [Example({"id": "removed agent"}, done=InvalidInput)],
    "session.restore": [Example({"id": "removed session"}, done=InvalidInput)],
    "project.restore": [Example({"id": "removed project"}, done=InvalidInput)],
    "project.revise": [Example({"id": "project", "description": "with a garden"})],
    "episode.record": [Example({"task": "mend the roof", "success": True, "tags": ["roof"], "cites": [ALICE]})],
    "episode.from_run": [Example({"run": "run", "critique": "quick"})],
    "pattern.learn": [
        Example({"min_episodes": 2}, in_pieces=True),
        Example({"min_episodes": 2, "project": "project"}, in_pieces=True),
    ],
    "pattern.apply": [Example({"id": "pattern", "task": "paint the door red", "idempotency_key": "once"})],
    "pattern.report": [
        Example({"application": "use", "success": True, "note": "went well"}),
        Example({"application": "last straw", "success": False}),
    ],
    "summary.make": [Example({"session": "chat"}), Example({"ids": ["plain", "cited"]})],
    "summary.roll_up": [
        Example({"include_open": True}, in_pieces=True),
        Example({"session": "chat", "include_open": True}, in_pieces=True),
    ],
    "summary.undo": [Example({"id": lambda mem, _: mem.summary.tree(session="session").lines[0].id})],
    "run.start": [Example({"goal": "bake", "agent": "agent", "session": "session", "idempotency_key": "bread"})],
    "run.claim": [
        Example({"worker": "w2"}),
        Example({"worker": "w2", "queue": "dead"}, in_pieces=True),
        Example({"worker": "w2", "queue": "too late"}, in_pieces=True),
    ],
    "run.renew": [driving("held", seconds=9000)],
    "run.release": [driving("held")],
    "run.propose": [
        driving("held", tool="knead", arguments={"minutes": 5}, snapshot={"step": 1}),
        driving("guarded", tool="bake"),
    ],
    "run.approve": [Example({"id": run_named("waiting for approval"), "why": "go on"})],
    "run.reject": [Example({"id": run_named("waiting for approval"), "why": "too hot"})],
    "run.record": [driving("open", summary="quite new", output={"a": 1}), driving("open", summary="Bob was in Rome")],
    "run.finish": [driving("held", result={"loaf": 1}, summary="a loaf of bread")],
    "run.fail": [driving("held", error={"code": "burnt"})],
    "run.pause": [Example({"id": run_named("held"), "why": "lunch"})],
    "run.resume": [Example({"id": run_named("asking")}), Example({"id": run_named("given up")})],
    "run.cancel": [Example({"id": run_named("held")})],
    "run.fork": [Example({"id": run_named("given up"), "after": 1})],
    "run.rewind": [Example({"id": run_named("given up"), "to": 0})],
    "run.settle": [
        Example({"id": run_named("asked"), "verdict": "happened", "summary": "it did", "output": {"a": 1}}),
        Example({"id": run_named("asked"), "verdict": "did_not_happen"}),
    ],
    "run.remove": [Example({"id": run_named("given up")}, done=NotFound)],
    "run.restore": [Example({"id": removed("run")}, done=NotFound)],
    "run.erase": [Example({"id": run_named("given up")}, in_pieces=True, done=NotFound)],
    "verify": [Example()],
    "doctor": [Example({"fix": True}, in_pieces=True)],
    "reindex": [Example({}, in_pieces=True), Example({"everything": True, "retire": True}, in_pieces=True)],
    "export": [Example({"path": lambda _, folder: str(folder / "out.jsonl"), "audit": True})],
    "import_": [
        Example({"path": lambda _, folder: exported(folder)}, in_pieces=True),
        Example({"path": lambda _, folder: made_sample("letta", folder), "source": "letta"}, in_pieces=True),
        Example({"path": lambda _, folder: made_sample("mem0", folder), "source": "auto"}, in_pieces=True),
    ],
    "user.revise": [Example({"id": "user", "role": "writer", "password": "a long password"})],
    "user.save_search": [Example({"name": "pools", "search": "q=pool&kinds=fact"})],
    "user.remove_search": [Example({"name": "saved"})],
    "user.change_password": [Example({"password": "correct horse", "new_password": "battery staple"})],
    "kind.add": [Example({"name": "recipe"}), Example({"name": "spare", "description": "x", "replace": True})],
    "kind.remove": [Example({"name": "spare"}, done=NotFound)],
    "embedding.add": [Example({"id": "plain", "vector": [1.0, 0.0], "model": "mine"})],
    "embedding.remove": [Example({"id": "plain", "model": "theirs"}, done=NotFound)],
    "key.add": [Example({"name": "ci", "scopes": ["read"], "user": "user", "expires_days": 1})],
    "key.revoke": [Example({"id": lambda mem, _: mem.key.list().keys[0].id})],
    "organization.remove": [Example({"id": organization_not_held}, in_pieces=True, done=NotFound)],
    "organization.add": [Example({"name": "Acme", "id": "acme"})],
    "organization.revise": [Example({"name": "Another"})],
    "organization.suspend": [Example({"id": "default"})],
    "project.add_member": [Example({"id": "project", "user": "user"})],
    "project.remove_member": [Example({"id": "project", "user": "heir"}, done=NotFound)],
    "audit.seal": [Example(in_pieces=True)],
    "audit.verify": [Example()],
    "privacy.find": [Example({"user": "user"})],
    "privacy.export": [Example({"user": "user", "path": lambda _, folder: new_folder(folder)})],
    "privacy.erase": [Example({"user": "bob"}, in_pieces=True, done=NotFound)],
    "privacy.verify": [Example({"id": lambda mem, _: mem.privacy.certificates()[0].id})],
    "partitions": [Example()],
    "migrate": [Example()],
    "agent.revise": [Example({"id": "agent", "system": "You help.", "directives": ["be kind"]})],
    "agent.pause": [Example({"id": "agent"})],
    "agent.activate": [Example({"id": "resting"})],
    "agent.retire": [Example({"id": "agent"})],
    "agent.in_context": [Example({"id": "agent", "append": ["message"], "keep": 5})],
    "block.add": [Example({"label": "human", "value": "Ann", "agents": ["agent"]}), Example({"template": "template"})],
    "block.write": [Example({"id": "block", "value": "something else"})],
    "block.append": [Example({"id": "block", "text": "more"})],
    "block.replace": [Example({"id": "block", "old": "core", "new": "heart"})],
    "block.revise": [Example({"id": "block", "label": "persona", "limit": 100})],
    "block.remove": [Example({"id": "block"}, done=NotFound)],
    "block.restore": [Example({"id": removed("block")}, done=NotFound)],
    "block.erase": [Example({"id": "block"}, in_pieces=True, done=NotFound)],
    "block.attach": [Example({"id": "block", "agent": "agent"})],
    "block.detach": [Example({"id": "block", "agent": "resting"})],
    "tool.add": [Example({"name": "bake", "json_schema": {"type": "object"}, "agents": ["agent"]})],
    "tool.revise": [Example({"id": "tool", "description": "new"})],
    "tool.remove": [Example({"id": "tool"}, done=NotFound)],
    "tool.restore": [Example({"id": removed("tool")}, done=NotFound)],
    "tool.erase": [Example({"id": "tool"}, in_pieces=True, done=NotFound)],
    "tool.attach": [Example({"id": "tool", "agent": "agent"})],
    "tool.detach": [Example({"id": "tool", "agent": "resting"})],
    "state.save": [
        Example({"agent": "agent", "data": {"step": 1}, "session": "session"}),
        Example({"agent": "resting", "data": {"step": 2}, "ttl_seconds": 60, "version": 1}),
    ],
    "state.drop": [Example({"agent": "resting"}, in_pieces=True)],
    "workspace.add": [Example({"agent": "agent", "name": "desk"})],
    "workspace.erase": [Example({"id": "workspace"}, in_pieces=True, done=NotFound)],
    "workspace.write": [
        Example({"id": "workspace", "path": "new/file.txt", "text": "fresh"}),
        Example({"id": "workspace", "path": "kept.txt", "text": "kept", "version": 1}),
    ],
    "workspace.remove": [Example({"id": "workspace"}, done=NotFound), Example({"id": "workspace", "path": "kept.txt"})],
    "workspace.remove_file": [Example({"id": "workspace", "path": "kept.txt"})],
    "workspace.move": [Example({"id": "workspace", "path": "kept.txt", "to": "moved/kept.txt"})],
    "workspace.pull": [Example({"id": "workspace", "folder": lambda _, folder: pulled(folder), "mirror": True}, True)],
    "workspace.push": [Example({"id": "workspace", "folder": lambda _, folder: str(folder / "pushed")})],
    "workspace.snapshot": [Example({"id": "workspace", "label": "now"})],
    "workspace.restore": [
        Example({"id": "workspace", "snapshot": lambda mem, _: mem.workspace.snapshots("workspace").snapshots[0].id})
    ],
    "workspace.prune": [Example({"id": "workspace", "keep": 0}, in_pieces=True)],
    "session.revise": [Example({"id": "session", "title": "another", "metadata": {"a": 1}})],
    "session.end": [Example({"id": "session", "summary": "done"})],
    "session.extract": [Example({"id": "session"})],
    "session.archive": [Example({"id": "session"})],
    "session.unarchive": [Example({"id": "aside"})],
    "message.add": [Example({"role": "user", "text": "hello", "session": "session", "references": ["memory:cited"]})],
    "message.add_many": [
        Example({"session": "session", "messages": [{"role": "user", "text": t, "otid": t} for t in "abc"]})
    ],
    "message.revise": [Example({"id": "message", "text": "in the long talk"})],
    "message.remember": [Example({"id": "message"})],
    "message.remove": [Example({"id": "message"}, done=NotFound)],
    "message.restore": [Example({"id": removed("message")}, done=NotFound)],
    "message.erase": [Example({"id": "message"}, in_pieces=True, done=NotFound)],
    "message.pop": [Example({"session": "session"})],
    "message.clear": [Example({"session": "session"}, in_pieces=True)],
    "backup": [
        Example({"path": lambda _, folder: str(folder / f"copy-{random.getrandbits(64)}.db")}, in_pieces=True),
        Example({"path": lambda _, folder: f"{folder}/backups/", "verify": False}, in_pieces=True),
    ],
    "backup.drill": [Example({"id": backed_up("kept")})],
    "backup.remove": [Example({"id": backed_up("removable")}, in_pieces=True, done=NotFound)],  # in each organization
    "checkpoint.put": [
        Example({"thread": "new", "id": "1", "items": {"": [b"x"]}}),
        Example(
            {"thread": "thread", "id": "4", "base": "3", "spans": {"s": [(0, 9)]}, "items": {"s": [b"y"]}, "keep": 1}
        ),
        Example({"thread": "folding", "id": "99", "items": {"s": [b"y"]}}),
    ],
    "checkpoint.write": [
        Example({"thread": "thread", "id": "3", "task": "new", "slots": [(0, "c")], "values": [b"x"]}),
        Example({"thread": "thread", "id": "3", "task": "t", "slots": [(1, "c")], "values": [b"x"]}),
    ],
    "checkpoint.delete": [Example({"thread": "thread"}), Example({"runs": ["run"]})],
    "checkpoint.copy": [Example({"source": "thread", "target": "copied"})],
    "connection.add": [
        Example(
            {"name": "fresh", "address": lambda mem, folder: f"sqlite:///{outside_database(folder)}"},
            in_pieces=True,
            done=InvalidInput,
        )
    ],
    "connection.check": [Example({"id": "connection"})],
    "connection.refresh": [Example({"id": "connection"}, in_pieces=True)],
    "connection.remove": [Example({"id": "connection"}, in_pieces=True, done=NotFound)],
    "checkpoint.prune": [Example({"keep": 1})],
    "item.put": [
        Example({"namespace": ["a"], "key": "new", "value": {"n": 1}, "texts": {"$": "red"}}),
        Example({"namespace": ["a"], "key": "k", "value": {"n": 2}}),
        Example({"namespace": ["a"], "key": "k", "value": None}),
    ],
    "item.put_many": [
        Example({"items": [{"namespace": ["a"], "key": key, "value": {"n": 1}} for key in ("k", "l")]}),
    ],
    "item.sweep": [Example(in_pieces=True)],
    "source.add": [
        Example({"path": lambda _, folder: table(folder, "prices", "price\n7\n")}, in_pieces=True),
        Example({"path": lambda _, folder: table(folder, "sales", "region,amount,day\nnorth,1,2\n")}, in_pieces=True),
    ],
    "source.revise": [Example({"id": "sales", "description": "what was sold", "columns": {"sales.amount": "euros"}})],
    "source.profile": [Example({"id": "sales"}, in_pieces=True)],
    "source.remove": [
        Example({"id": "sales"}),
        Example({"id": "sales", "for_good": True}, in_pieces=True, done=NotFound),
    ],
    "source.restore": [Example({"id": "old sales"})],
    "query.judge": [
        Example({"run": query_asked, "verdict": "right"}),
        Example({"run": query_asked, "verdict": "wrong"}),
        Example({"run": query_asked, "verdict": "wrong", "sql": "select max(amount) from sales"}, in_pieces=True),
    ],
    "query.remove": [Example({"run": query_asked}, in_pieces=True, done=NotFound)],
    "query.remember": [Example({"run": query_asked, "tags": ["sales"]})],
}


class Away(HashEmbedder):
    """An embedder that cannot be reached while `is_away`."""

    is_away = False

    def embed(self, texts: Any) -> Any:
        if self.is_away:
            raise EmbedderFailed("the model is away")
        return super().embed(texts)


def furnish(path: Path) -> None:
    """A store with a little of everything."""
    embedder, notes = Away(), path.parent / "notes.md"
    with recollect.open(path, embedder=embedder) as mem:
        mem.user.add("Alice", id="user")
        mem.user.add("Alice of the reviews", id="alice")
        mem.user.add("Bob", id="bob")
        mem.user.revise("user", password="correct horse", preferences={"saved_searches": {"saved": "q=x"}})
        mem.agent.add("Helper", id="agent")
        mem.project.add("House", id="project")
        mem.session.add("talk", id="session", user="user")
        said = Message(
            organization_id="default",
            id="message",
            role="user",
            text="in the talk; I live in Rome",
            session_id="session",
        )
        mem._core.store.transact(mem._scope, [Insert(said)])
        place = f"sqlite:///{outside_database(path.parent)}"
        told = Connection(organization_id="default", id="connection", name="shop", engine="sqlite", address=place)
        mem._core.store.transact(mem._scope, [Insert(told)])
        mem.session.add("put aside", id="aside")
        mem.agent.add("Resting", id="resting")
        mem.block.add("notes", "core memory", id="block", agents=["resting"])
        mem.block.add("persona", "kind", id="template", is_template=True)
        mem.tool.add("brew", id="tool", agents=["resting"])
        mem.kind.add("spare")
        mem.state.save("resting", {"step": 1})
        mem.agent.pause("resting")
        mem.workspace.add("resting", id="workspace")
        mem.workspace.write("workspace", "kept.txt", "kept")
        mem.workspace.write("workspace", "gone.txt", "gone")
        mem.workspace.snapshot("workspace")
        mem.workspace.remove("workspace", "gone.txt")
        mem.session.archive("aside")
        mem.remember("Alice prefers pytest", id="cited", cites=[ALICE], tags=["testing"])
        mem.remember("Bob was in Rome", id="verified", cites=[BOB], user="user", session="session")
        mem.promote("verified")
        mem.remember("plain as day", id="plain", project="project", agent="agent", relates={"cited": "supports"})
        mem.embedding.add("plain", [0.0, 1.0], "theirs")
        mem.remember("forgotten but there", id="forgotten", session="session", tags=["old"])
        mem.forget("forgotten")
        mem.user.add("Heir", id="heir")
        mem.project.add_member("project", "heir")
        mem.user.add("Removed", id="removed")
        mem.remember("of somebody removed", user="removed", id="removed memory")
        mem.user.remove("removed")
        mem.agent.add("Removed", id="removed agent")
        mem.agent.remove("removed agent")
        mem.session.add("Removed", id="removed session")
        mem.session.remove("removed session")
        mem.project.add("Removed", id="removed project")
        mem.project.remove("removed project")
        for noun, id in (
            ("message", mem.message.add("user", "said and removed", session="session").id),
            ("block", mem.block.add("removed", "x", agents=["agent"]).id),
            ("tool", mem.tool.add("removed", "x").id),
            ("run", mem.run.start("removed", agent="agent").id),
        ):
            getattr(mem, noun).remove(id)
        mem.remember("long over", id="expired", expires_at="2020-01-01T00:00:00Z")
        notes.write_text("as it was\n")
        mem.remember("as noted", id="outdated", cites=[recollect.cite.file(str(notes))])
        mem.promote("outdated")
        notes.write_text("as it is\n")
        mem.remember("tea is hot", id="stayed")
        mem.remember("tea is warm", id="merged", cites=[ALICE], tags=["tea"])
        mem.merge("stayed", ["merged"], promote="verified")
        furnish_learning(mem)
        furnish_retention(mem)
        furnish_data(mem, path.parent)
        mem.key.add("first")
        mem.user.add("Somebody Else", id="erased-person-1")
        mem.privacy.erase(user="erased-person-1")
        for name in ("kept", "removable"):
            mem.backup(f"{path.parent}/{name}/", verify=False)
        furnish_runs(mem)
        for number in range(1, 4):
            more: dict[str, Any] = (
                {"base": str(number - 1), "spans": {"s": [(0, 3 * number - 3)]}} if number > 1 else {}
            )
            run = "run" if number < 3 else None
            mem.checkpoint.put("thread", str(number), run=run, items={"s": [b"x"] * 3}, **more)
            mem.checkpoint.write("thread", str(number), task="t", slots=[(0, "c")], values=[b"x"])
        mem.item.put(["a"], "k", value={"n": 1}, texts={"$": "red"})
        mem.item.put(["a"], "over", value={"n": 1}, ttl_minutes=1e-9)
        for number in range(32):
            mem.checkpoint.put("folding", f"{number:02}", items={"s": [b"x"]})
        embedder.is_away = True
        assert mem.remember("still without a vector", id="owed").queued == ["vector:hash-64"]


def furnish_retention(mem: Any) -> None:
    """A session in cold storage, a rule with something due, and a hold."""
    for session in ("cold", "quiet"):
        mem.session.add("Long ago", id=session)
        mem.message.add("user", f"it was {session}", session=session)
        mem.remember(f"It was {session}", id=f"it was {session}", session=session)
    mem.cold.store(session="cold")
    mem.remember("an old thought", id="old thought", kind="reflection")
    tenant = mem._core.for_scope(mem._scope)
    thought = tenant.get(Memory, "old thought")
    tenant.transact([Put(thought.changed(created_at=now() - timedelta(days=99)), restoring=True)])
    mem.retention.set(kind="reflection", keep_days=30, then="forget")
    mem.user.add("Held", id="held")
    mem.hold.place(user="held", reason="case 42")


def furnish_learning(mem: Any) -> None:
    """A run, patterns with uses, episodes to learn from, sessions to sum up, and one summary."""
    scope, store = mem._scope, mem._core.store
    mine = {"organization_id": scope.organization_id}
    run = Execution(id="run", agent_id="agent", goal="sweep the floor", status="succeeded", ended_at=now(), **mine)
    cycle = Cycle(id="cycle", agent_id="agent", execution_id="run", index=0, status="done", **mine)
    proposal = Proposal(cycle_id="cycle", tool_call={"name": "sweep", "arguments": {"room": "hall"}}, **mine)
    result = Result(cycle_id="cycle", agent_id="agent", outcome="success", summary="it is clean", **mine)
    store.transact(scope, [Insert(one) for one in (run, cycle, proposal, result)])
    for colour in ("red", "blue"):
        mem.episode.record(f"paint the wall {colour}", True, action_plan=["wash it", f"paint it {colour}"])
    mem.episode.record("paint the wall pink", False, critique="the paint was dry")
    for colour in ("green", "grey"):
        plan = [f"sand the door, then paint it {colour}"]
        mem.episode.record(f"paint the door {colour}", True, action_plan=plan, project="project")
    content = {"problem_space": "paint the door {1}", "solution_template": "1. sand it\n2. paint it {1}"}
    mem.remember(content, kind="pattern", id="pattern", cites=[ALICE])
    mem.remember({**content, "text": "bad"}, kind="pattern", id="bad", cites=[ALICE])
    failed = {"outcome": "failure", "reported_at": now()}
    for id, pattern, told in (
        ("use", "pattern", {}), ("last straw", "bad", {}), *((f"failed {n}", "bad", failed) for n in range(9)),
    ):  # fmt: skip
        store.transact(scope, [Insert(PatternUse(id=id, pattern_id=pattern, pattern_version=1, **told, **mine))])
    mem.session.add("chat", id="chat", user="user")
    for number in range(3):
        said = f"Bob paid {number} euros for the paint."
        mem.remember(said, kind="conversation", author="Bob", session="chat", user="user", at=f"2024-05-0{number + 1}")
    message = Message(id="leak", session_id="chat", role="user", text="The roof leaks since May.", **mine)
    store.transact(scope, [Insert(message)])
    mem.summary.make(session="session")


def furnish_data(mem: Any, folder: Path) -> None:
    """A source of which only a sample was profiled, one that was removed, and a query that nobody judged yet."""
    sales = mem.source.add(table(folder, "sales")).id
    known = mem._core.store.find(mem._scope, Query(Table, (equal("source_id", sales),))).records[0]
    mem._core.store.transact(mem._scope, [Put(known.changed(profiled="sample"))])
    mem.source.add(table(folder, "old sales", "region\nwest\n"))
    mem.source.remove("old sales")
    mem.query.run("select sum(amount) from sales", question="how much was sold?")


def table(folder: Path, name: str, text: str = "region,amount\nnorth,10\nsouth,20\n") -> str:
    path = folder / f"{name}.csv"
    path.write_text(text)
    return str(path)


def furnish_runs(mem: Any) -> None:
    """A run in every condition: queued, held, amid a step, given up, not known to have happened, to be approved."""
    for goal, queue, seconds in (
        ("held", "a", 80_000), ("open", "b", 80_000), ("given up", "c", 80_000), ("asking", "dead", 1e-6),
        ("asked", "asked", 1e-6), ("guarded", "d", 80_000), ("waiting for approval", "e", 80_000),
        ("not approved in time", "too late", 80_000),
    ):  # fmt: skip
        limits = {"approval_seconds": 1e-6} if queue == "too late" else {}
        guard = "always" if goal in ("guarded", "waiting for approval", "not approved in time") else "never"
        run = mem.run.start(goal, agent="agent", queue=queue, approve=guard, **limits).id
        fence = mem.run.claim("w", id=run, seconds=seconds).fence
        if goal in ("held", "given up"):
            for number in range(2):
                mem.run.propose(run, fence, tool="knead")
                mem.run.record(run, fence, summary=f"kneaded {number}")
        elif goal != "guarded":
            mem.run.propose(run, fence, tool="bake")
        if goal == "given up":
            mem.run.fail(run, fence)
    assert mem.run.claim("w", queue="asked").run is None
    mem.run.start("waiting", agent="agent")


def exported(folder: Path) -> str:
    """A file with records that are new to the store."""
    target = folder / "export.jsonl"
    if not target.exists():
        with recollect.open(folder / "other.db", embedder="hash") as other:
            other.remember_many(["from elsewhere", {"content": "also from elsewhere", "tags": ["t"], "cites": [BOB]}])
            other.export(str(target))
    return str(target)


def new_folder(folder: Path) -> str:
    return str(folder / f"person-{random.getrandbits(64)}")


def pulled(folder: Path) -> str:
    """A folder with a file that is new to the workspace and one that is different there."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "kept.txt").write_text("different")
    (source / "new.txt").write_text("new")
    return str(source)


def outside_database(folder: Path) -> Path:
    """A small SQLite file that is not ours."""
    path = folder / "outside.db"
    if not path.exists():
        connection = apsw.Connection(str(path))
        connection.execute(
            "CREATE TABLE sales (id INTEGER PRIMARY KEY, region TEXT); INSERT INTO sales VALUES (1, 'n')"
        )
        connection.close()
    return path


class Breaker:
    """Makes the n-th statement of the writer fail, and `length` in all from there on."""

    def __init__(self, mem: Any, number: int, length: float, error: type[apsw.Error]) -> None:
        self._connection = mem._core.store._tables._connection
        self._failing = range(number, 10_000 if length == float("inf") else number + int(length))
        self._error = error
        self.seen = 0
        self.broke = 0

    def __enter__(self) -> Breaker:
        self._connection.exec_trace = self._trace
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.exec_trace = None

    def _trace(self, *_: Any) -> bool:
        self.seen += 1
        if self.seen in self._failing:
            self.broke += 1
            raise self._error("injected")
        return True


class Tables:
    """Everything a store's file holds, shadow tables and counters included."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path, writable=False)

    def read(self) -> dict[str, list[Any]]:
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        tables = [name for (name,) in self._connection.execute(names)]
        return {name: self._connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("furnished") / "store.db"
    furnish(path)
    return path


@pytest.fixture
def store(
    folder: Path, furnished: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], tuple[Any, Tables]]]:
    """Opens another copy of the furnished store, whose journal of reads and failures writes only when it is told to."""
    made: list[Tables] = []
    for bound in ("FLUSH_NOTES", "MOST_WAITING"):
        monkeypatch.setattr(f"recollect.services.access_journal.{bound}", 10**9)

    def copy() -> tuple[Any, Tables]:
        path = folder / f"{len(made)}.db"
        shutil.copy(furnished, path)
        shutil.copytree(f"{furnished}-objects", f"{path}-objects")
        mem = opened(path)
        mem._core.journal._flush_seconds = 3600.0
        made.append(Tables(path))
        return mem, made[-1]

    yield copy
    for tables in made:
        tables.close()


def failures(chance: random.Random, thorough: bool) -> Iterator[tuple[int, float, type[apsw.Error]]]:
    """Every statement, each way, in a soak; else the first ones and then fewer and fewer of the later ones."""
    lengths = (1, 2, float("inf"))
    number = 0
    while True:
        number += 1 if thorough or number < 3 else chance.randint(2, 8 + number)
        for length in lengths if thorough else [chance.choice(lengths)]:
            yield number, length, chance.choice(list(ERRORS))


def test_every_operation_that_writes_has_an_example() -> None:
    missing = set(WRITING) - set(EXAMPLES)
    assert not missing, f"add a valid request for {sorted(missing)} to EXAMPLES, so that its failures are tested"


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("operation", some(len(WRITING) // 2, WRITING, "operations whose statements fail"))
def test_a_failing_statement_leaves_nothing_half_done(
    operation: str, folder: Path, store: Any, chance: random.Random, times: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Every request of every operation in a soak; else one of them of every other, another with each seed."""
    caplog.set_level(logging.CRITICAL, "recollect")
    for example in some(1, EXAMPLES.get(operation, []), f"requests of {operation}"):
        mem, tables = store()
        before = tables.read()
        for number, length, error in failures(chance, times(1) > 1):
            fields = example.request(mem, folder)
            with Breaker(mem, number, length, error) as breaker:
                outcome = attempt(mem, operation, fields)
            if not breaker.broke:
                break
            where = f"{operation} with statement {number} failing ({error.__name__}, {length} in a row)"
            if operation not in SWEEPS_LATER | NOTED or isinstance(outcome, Exception):
                assert isinstance(outcome, ERRORS[error]), f"{where}: {outcome!r}"
            after = tables.read()
            if after != before:
                assert example.in_pieces, f"{where}: {differences(after, before)}"
                assert_sound(mem, where)
                assert_repeatable(mem, operation, example, folder)
                mem, tables = store()
        assert not isinstance(outcome, Exception), outcome
        assert (tables.read() != before) == (operation not in READ_ONLY)
        assert (breaker.seen > 0) == (operation not in READ_ONLY - {"migrate"})  # that one only looks
        assert_sound(mem, operation)


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("operation", some(len(WRITING) // 3, WRITING, "operations whose calls of the store fail"))
def test_a_failing_call_of_the_store_leaves_all_or_nothing_done(
    operation: str, folder: Path, store: Any, chance: random.Random, times: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of every operation in a soak; else of a third of them the first three calls, and then fewer and fewer
    of the later ones. That a commit is whole is tried with every operation by the statements above."""
    for example in EXAMPLES.get(operation, []):
        mem, tables = store()
        before = tables.read()
        number = 0
        while True:
            number += 1 if times(1) > 1 or number < 3 else chance.randint(1, 5 + number)
            fields = example.request(mem, folder)
            with monkeypatch.context() as patch:
                calls = Calls(mem, patch, number)
                outcome = attempt(mem, operation, fields)
            if len(calls.made) < number:
                break
            where = f"{operation} with call {number} of the store failing: {calls.made}"
            done = operation in SWEEPS_LATER | NOTED and not isinstance(outcome, Exception)
            assert isinstance(outcome, StoreError) or operation in SAYS_SO or done, where
            writes = calls.made[:-1].count("transact")
            assert writes <= 1 or example.in_pieces, where
            is_changed = tables.read() != before
            assert is_changed <= (writes > 0 or example.in_pieces), where
            if is_changed:
                assert_sound(mem, where)
                mem, tables = store()
        assert not isinstance(outcome, Exception), outcome


class Calls:
    """Makes the n-th call of a store fail."""

    def __init__(self, mem: Any, patch: pytest.MonkeyPatch, failing: int) -> None:
        self.made: list[str] = []
        self._failing = failing
        store = mem._core.store
        for verb in (
            "tenants",
            "get",
            "find",
            "select",
            "count",
            "transact",
            "search_text",
            "changes",
            "mend",
            "verify",
        ):
            patch.setattr(store, verb, self._counted(verb, getattr(store, verb)))

    def _counted(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self.made.append(verb)
            if len(self.made) == self._failing:
                raise StoreError("injected")
            return call(*given, **named)

        return counted


def differences(after: dict[str, list[Any]], before: dict[str, list[Any]]) -> list[str]:
    return [name for name in after if after[name] != before.get(name)]


def assert_repeatable(mem: Any, operation: str, example: Example, folder: Path) -> None:
    """What was left half way is finished by asking for it again."""
    outcome = attempt(mem, operation, example.request(mem, folder))
    assert not isinstance(outcome, Exception) or type(outcome) is example.done, repr(outcome)
    assert_sound(mem, f"{operation} repeated")


def attempt(mem: Any, operation: str, fields: dict[str, Any]) -> Any:
    try:
        return (mem.within(actor="user") if operation in THEIR_OWN else mem).call(operation, **fields)
    except RecollectError as error:
        return error


def assert_sound(mem: Any, where: str) -> None:
    if "organization.remove" in where:  # what is left of it is not used any more, only erased
        return
    report = mem.verify()
    assert report.sound, f"{where}: {report.problems}"
    owed = mem._core.store.select(mem._scope, Query(IndexTask), ("memory_id",))
    assert owed in ([], [("owed",)]), where
    assert mem._core.store.get(mem._scope, Memory, "plain", deleted=True) is not None or re.search(
        "remove|erase", where
    )


@pytest.mark.parametrize("operation", [name for name in WRITING if not OPERATIONS[name].unlogged])
def test_what_was_done_is_in_the_log_by_the_name_of_its_operation(operation: str, folder: Path, store: Any) -> None:
    for example in EXAMPLES.get(operation, []):
        mem, _ = store()
        if operation in THEIR_OWN:
            continue
        fields = example.request(mem, folder)  # which may ask for an id
        before = mem.log(limit=1).entries[0].id
        outcome = attempt(mem, operation, fields)
        assert not isinstance(outcome, Exception), outcome
        made = [entry for entry in mem.log(limit=1000).entries if entry.id > before and entry.action != "log"]
        named = {entry.action for entry in made} - KEPT_NAMES
        assert named == {operation}, "and nothing it did is under another name"
        found = mem.log(action=operation, success=True, limit=1000).entries
        assert {entry.id for entry in found} >= {entry.id for entry in made if entry.action == operation}


@pytest.mark.parametrize(
    "operation", [name for name, one in OPERATIONS.items() if one.access == "read" and name not in ELSEWHERE]
)
def test_what_was_read_or_refused_is_in_the_log_by_the_name_of_its_operation(operation: str, store: Any) -> None:
    mem, _ = store()
    fields = sample(OPERATIONS[operation]) | (
        {"id": "cited"} if "id" in OPERATIONS[operation].request.model_fields else {}
    )
    before = mem.log(limit=1).entries[0].id
    outcome = attempt(mem, operation, fields)
    made = [entry for entry in mem.log(limit=1000).entries if entry.id > before]
    assert (operation, not isinstance(outcome, Exception)) in {(entry.action, entry.success) for entry in made}
