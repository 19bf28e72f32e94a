"""The Python door, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import Signature
from typing import Any, Literal

from recollect.catalogue import Operation
from recollect.ports.records import RecordStore, Scope
from recollect.services.core import Core
from recollect.services.audit import LogPage
from recollect.services.directory import MemoryPage, MemoryView, PartyPage, PartyView, Removed
from recollect.services.governance import Checked, Cited, Related, RolledBack, Standing
from recollect.services.indexing import ReindexReply
from recollect.services.lifecycle import Forgotten, History, Pruned, Swept
from recollect.services.packing import Context
from recollect.services.queueing import Claimed, Renewed
from recollect.services.recall import Recalled, WhyNot
from recollect.services.remember import RememberManyReply, RememberRequest
from recollect.services.revise import Receipt
from recollect.services.runtime import Proposed, Recorded
from recollect.services.steering import RunRemoved
from recollect.services.timeline import RunPage, RunView, Timeline
from recollect.services.transfer import BackedUp, Transferred
from recollect.services.upkeep import Diagnosis, Stats, Verified

Prepare = Callable[[RecordStore, Scope], None]

class Recollect:
    """An open memory, seen from one organization."""

    def __init__(self, core: Core, scope: Scope, prepare: Prepare, *, owns: bool = True) -> None: ...
    @property
    def organization(self) -> str: ...
    @property
    def timezone(self) -> str: ...
    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        """The same store seen from another organization or by another actor. Close only the one you opened."""

    def call(self, operation: str, /, *, progress: Callable[[int, int], None] | None = None, **fields: Any) -> Any:
        """Any operation by name: what every method here does."""

    def close(self) -> None:
        """Write what is noted and let go of the files."""

    def __enter__(self) -> Recollect: ...
    def __exit__(self, *problem: object) -> None: ...
    @property
    def run(self) -> Run: ...
    def remember(
        self,
        content: str | dict[str, Any],
        *,
        kind: str = "fact",
        cites: builtins.list[Any] = ...,
        tags: builtins.list[str] = ...,
        author: str | None = None,
        at: datetime | str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        cycle: str | None = None,
        source_agent: str | None = None,
        scope: Literal["task", "project", "global"] = "global",
        level: str = "item",
        confidence: float = 0.5,
        priority: int = 5,
        importance: float = 0.0,
        metadata: dict[str, Any] = ...,
        namespaces: builtins.list[str] = ...,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        expires_at: datetime | str | None = None,
        ttl_seconds: float | None = None,
        supersedes: str | None = None,
        derived_from: builtins.list[str] = ...,
        relates: dict[str, str] = ...,
        idempotency_key: str | None = None,
        id: str | None = None,
        on_duplicate: Literal["return", "keep"] | None = None,
        vector: builtins.list[float] | None = None,
    ) -> Receipt:
        """Store a memory with its citations."""

    def remember_many(self, memories: builtins.list[RememberRequest | dict[str, Any] | str]) -> RememberManyReply:
        """Store many at once: all, or none."""

    def recall(
        self,
        query: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        kinds: builtins.list[str] = ...,
        scopes: builtins.list[Literal["task", "project", "global"]] = ...,
        statuses: builtins.list[Literal["hypothesis", "verified", "published", "archived"]] = ...,
        levels: builtins.list[str] = ...,
        tags: builtins.list[str] = ...,
        any_tags: builtins.list[str] = ...,
        author: str | None = None,
        source_agent: str | None = None,
        source: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        min_priority: int | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 10,
        by: Literal["everything", "meaning", "words"] = "everything",
        as_of: datetime | str | None = None,
        min_match: float | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        vector: builtins.list[float] | None = None,
    ) -> Recalled:
        """Find memories by words and by meaning, with reasons."""

    def context(
        self,
        query: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        kinds: builtins.list[str] = ...,
        scopes: builtins.list[Literal["task", "project", "global"]] = ...,
        statuses: builtins.list[Literal["hypothesis", "verified", "published", "archived"]] = ...,
        levels: builtins.list[str] = ...,
        tags: builtins.list[str] = ...,
        any_tags: builtins.list[str] = ...,
        author: str | None = None,
        source_agent: str | None = None,
        source: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        min_priority: int | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 50,
        by: Literal["everything", "meaning", "words"] = "everything",
        as_of: datetime | str | None = None,
        min_match: float | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        vector: builtins.list[float] | None = None,
        tokens: int = 1000,
    ) -> Context:
        """Pack what is recalled into a token budget for a prompt."""

    def why_not(
        self,
        query: str,
        id: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        kinds: builtins.list[str] = ...,
        scopes: builtins.list[Literal["task", "project", "global"]] = ...,
        statuses: builtins.list[Literal["hypothesis", "verified", "published", "archived"]] = ...,
        levels: builtins.list[str] = ...,
        tags: builtins.list[str] = ...,
        any_tags: builtins.list[str] = ...,
        author: str | None = None,
        source_agent: str | None = None,
        source: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        min_priority: int | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 10,
        by: Literal["everything", "meaning", "words"] = "everything",
        as_of: datetime | str | None = None,
        min_match: float | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        vector: builtins.list[float] | None = None,
    ) -> WhyNot:
        """Say what kept a memory out of an answer."""

    def show(self, id: str) -> MemoryView:
        """Show one memory with everything that hangs on it."""

    def list(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        kinds: builtins.list[str] = ...,
        scopes: builtins.list[Literal["task", "project", "global"]] = ...,
        statuses: builtins.list[Literal["hypothesis", "verified", "published", "archived"]] = ...,
        levels: builtins.list[str] = ...,
        tags: builtins.list[str] = ...,
        any_tags: builtins.list[str] = ...,
        author: str | None = None,
        source_agent: str | None = None,
        source: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        min_priority: int | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 50,
        after: str | None = None,
        forgotten: bool = False,
    ) -> MemoryPage:
        """List memories, the newest first."""

    def revise(
        self,
        id: str,
        content: str | dict[str, Any] | None = None,
        *,
        why: str = "",
        tags: builtins.list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        confidence: float | None = None,
        priority: int | None = None,
        importance: float | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        expires_at: datetime | str | None = None,
        version: int | None = None,
    ) -> Receipt:
        """Change a memory; its former state is kept."""

    def history(self, id: str) -> History:
        """Show every state a memory was in."""

    def relate(self, id: str, to: str, type: str, *, metadata: dict[str, Any] = ...) -> Related:
        """Link a memory to another."""

    def cite(self, id: str, cites: builtins.list[Any]) -> Cited:
        """Give a memory more evidence."""

    def uncite(self, id: str, citation: str) -> Standing:
        """Take a citation away."""

    def check(self, id: str | None = None, *, source: str | None = None) -> Checked:
        """Look citations up again; what broke demotes its memory."""

    def promote(self, id: str, to: Literal["verified", "published"] = "verified", *, why: str = "") -> Standing:
        """Verify or publish a memory whose citations hold."""

    def demote(self, id: str, *, why: str = "", to: Literal["hypothesis", "verified"] = "hypothesis") -> Standing:
        """Make a memory a hypothesis again."""

    def archive(self, id: str, *, why: str = "") -> Standing:
        """Put a memory aside without losing it."""

    def roll_back(self, source: str, *, why: str = "", dry_run: bool = False) -> RolledBack:
        """Archive all that rests on a source."""

    def forget(self, id: str, *, why: str = "") -> Forgotten:
        """Let go of a memory; it can be restored."""

    def restore(self, id: str, *, why: str = "") -> Forgotten:
        """Bring a forgotten memory back."""

    def erase(self, id: str, *, why: str = "") -> Forgotten:
        """Delete a memory for good, traces included."""

    def sweep(self, *, dry_run: bool = False) -> Swept:
        """Delete what has expired."""

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than_days: float | None = None,
        unread_for_days: float | None = None,
        max_priority: int = 9,
        user: str | None = None,
        agent: str | None = None,
        keep_trusted: bool = True,
        dry_run: bool = False,
    ) -> Pruned:
        """Forget what is least worth keeping."""

    def add_user(
        self,
        name: str,
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        email: str | None = None,
        timezone: str = "UTC",
        profile_data: dict[str, Any] = ...,
        preferences: dict[str, Any] = ...,
    ) -> PartyView:
        """Add a user."""

    def add_agent(
        self,
        name: str,
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        type: str | None = None,
        description: str = "",
        system: str | None = None,
        metadata: dict[str, Any] = ...,
    ) -> PartyView:
        """Add an agent."""

    def add_session(
        self,
        title: str = "",
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        type: str = "conversation",
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        metadata: dict[str, Any] = ...,
    ) -> PartyView:
        """Start a session."""

    def add_project(
        self,
        name: str,
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        description: str = "",
        owner: str | None = None,
    ) -> PartyView:
        """Add a project."""

    def end_session(self, id: str, *, summary: str | None = None) -> PartyView:
        """Mark a session as ended."""

    def parties(
        self,
        type: Literal["user", "agent", "session", "project"],
        *,
        user: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> PartyPage:
        """List users, agents, sessions or projects."""

    def remove(self, type: Literal["user", "agent", "session", "project"], id: str) -> Removed:
        """Delete a user, agent, session or project."""

    def runs(
        self,
        *,
        status: Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"] | None = None,
        agent: str | None = None,
        session: str | None = None,
        queue: str | None = None,
        parent: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> RunPage:
        """List runs of agents, the newest first."""

    def stats(self) -> Stats:
        """How much is remembered, and how well supported."""

    def log(
        self,
        memory: str | None = None,
        *,
        operation: Literal["create", "read", "update", "delete", "search"] | None = None,
        by: str | None = None,
        since: datetime | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> LogPage:
        """Show who did what to which memory."""

    def verify(self) -> Verified:
        """Re-read everything and name what disagrees."""

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Say what ails the store; with fix, mend it."""

    def reindex(self, *, retire: bool = False, everything: bool = False) -> ReindexReply:
        """Make the vectors that are missing."""

    def export(self, path: str, *, audit: bool = False) -> Transferred:
        """Write everything to a JSON Lines file."""

    def import_(self, path: str, *, existing: Literal["skip", "replace"] = "skip") -> Transferred:
        """Read an exported file."""

    def backup(self, path: str) -> BackedUp:
        """Copy the whole store while it is in use."""

class Room:
    """The operations of one room, on an open memory: `mem.run.show(...)`."""

    def __init__(self, mem: Recollect) -> None: ...
    def call(self, operation: str, /, **fields: Any) -> Any: ...

class Run(Room):
    """Runs of agents: start, drive step by step, watch, steer."""

    def start(
        self,
        goal: str,
        *,
        agent: str,
        session: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        queue: str = "default",
        priority: int = 5,
        steps: builtins.list[Any] = ...,
        deadline: datetime | str | None = None,
        max_steps: int | None = None,
        max_crashes: int | None = None,
        remember: bool | None = None,
        metadata: dict[str, Any] = ...,
    ) -> RunView:
        """Accept a task for an agent; workers find it in its queue."""

    def show(self, id: str, *, limit: int = 50, before: int | None = None) -> Timeline:
        """Show a run: where it stands, and its steps."""

    def claim(
        self,
        worker: str,
        *,
        id: str | None = None,
        queue: str = "default",
        agent: str | None = None,
        seconds: float = 60,
    ) -> Claimed:
        """Take the next run that nobody works on."""

    def renew(self, id: str, fence: int, *, seconds: float = 60) -> Renewed:
        """Hold on to a run while a step takes long."""

    def release(self, id: str, fence: int, *, note: str = "") -> RunView:
        """Let go of a run, so that another worker goes on."""

    def propose(
        self,
        id: str,
        fence: int,
        *,
        tool: str | None = None,
        arguments: dict[str, Any] = ...,
        thoughts: dict[str, Any] = ...,
        reasoning: str = "",
        plan: builtins.list[Any] = ...,
        snapshot: dict[str, Any] = ...,
        repeatable: bool = False,
        number: int | None = None,
    ) -> Proposed:
        """Store what is to be done next, before it is done."""

    def record(
        self,
        id: str,
        fence: int,
        *,
        outcome: Literal["success", "error", "timeout"] = "success",
        summary: str = "",
        output: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        artifacts: builtins.list[Any] = ...,
        seconds: float | None = None,
        number: int | None = None,
        remember: bool | None = None,
        kind: Literal["result", "observation"] = "result",
    ) -> Recorded:
        """Store what came of a step, before the next."""

    def finish(
        self,
        id: str,
        fence: int,
        *,
        result: dict[str, Any] = ...,
        summary: str = "",
        remember: bool | None = None,
    ) -> RunView:
        """End a run that has reached its goal."""

    def fail(self, id: str, fence: int, *, error: dict[str, Any] = ..., note: str = "") -> RunView:
        """End a run that cannot reach its goal."""

    def pause(self, id: str, *, why: str = "") -> Timeline:
        """Stop a run before its next step."""

    def resume(self, id: str, *, why: str = "") -> Timeline:
        """Let a run go on where it stopped; says what happens next."""

    def cancel(self, id: str, *, why: str = "") -> Timeline:
        """End a run that is no longer wanted."""

    def fork(
        self,
        id: str,
        *,
        why: str = "",
        after: int | None = None,
        branch: int | None = None,
        goal: str | None = None,
        queue: str | None = None,
        paused: bool = False,
        idempotency_key: str | None = None,
    ) -> Timeline:
        """Begin another run after any step of this one."""

    def rewind(self, id: str, to: int, *, why: str = "", paused: bool = True) -> Timeline:
        """Give up the steps after one; they stay visible."""

    def settle(
        self,
        id: str,
        verdict: Literal["happened", "did_not_happen", "abandon"],
        *,
        why: str = "",
        output: dict[str, Any] | None = None,
        summary: str = "",
        step: int | None = None,
        resume: bool = True,
    ) -> Timeline:
        """Say whether an uncertain step happened."""

    def remove(self, id: str) -> RunRemoved:
        """Delete a run with its steps for good."""

def attach(client: type[Recollect], operations: Iterable[Operation], rooms: Mapping[str, str]) -> None:
    """Give the client a method for each operation, and an attribute for each room."""

def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
