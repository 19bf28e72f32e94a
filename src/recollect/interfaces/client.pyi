"""The Python door, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import Signature
from typing import Any, Literal

from recollect.catalogue import Operation
from recollect.ports.records import RecordStore, Scope
from recollect.services.core import Core
from recollect.services.access import KeyMade, KeyView, Keys, UserView, Users
from recollect.services.audit import LogPage, LogVerified, Sealed
from recollect.services.directory import MemoryPage, MemoryView, PartyPage, PartyView, Removed
from recollect.services.governance import Checked, Cited, Related, RolledBack, Standing
from recollect.services.indexing import ReindexReply
from recollect.services.lifecycle import Forgotten, History, Pruned, Swept
from recollect.services.packing import Context
from recollect.services.recall import Recalled, WhyNot
from recollect.services.remember import RememberManyReply, RememberRequest
from recollect.services.revise import Receipt
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
    def user(self) -> User: ...
    @property
    def key(self) -> Key: ...
    @property
    def audit(self) -> Audit: ...
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

    def stats(self) -> Stats:
        """How much is remembered, and how well supported."""

    def log(
        self,
        memory: str | None = None,
        *,
        operation: Literal["create", "read", "update", "delete", "search"] | None = None,
        by: str | None = None,
        action: str | None = None,
        success: bool | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
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

class User(Room):
    """Those who may come in: their profiles, roles and passwords."""

    def show(self, id: str) -> UserView:
        """Show a user with role and preferences."""

    def list(self, *, limit: int = 100, after: str | None = None) -> Users:
        """List users with their roles."""

    def revise(
        self,
        id: str,
        *,
        name: str | None = None,
        email: str | None = None,
        timezone: str | None = None,
        profile_data: dict[str, Any] | None = None,
        preferences: dict[str, Any] | None = None,
        role: Literal["reader", "writer", "curator", "admin", "owner"] | None = None,
        status: Literal["active", "invited", "suspended"] | None = None,
        password: str | None = None,
    ) -> UserView:
        """Change a user's profile, role, status or password."""

class Key(Room):
    """Keys for programs: what each grants, and how often it may ask."""

    def add(
        self,
        name: str,
        *,
        scopes: builtins.list[Literal["read", "write", "govern", "delete", "admin", "operate"]] = ...,
        user: str | None = None,
        expires_days: float | None = None,
        rate_per_minute: int | None = None,
        requests_per_day: int | None = None,
    ) -> KeyMade:
        """Make a key; it is shown this once."""

    def list(self, *, user: str | None = None, revoked: bool = False) -> Keys:
        """List keys: what they grant, when they were used."""

    def revoke(self, id: str) -> KeyView:
        """End a key at once."""

class Audit(Room):
    """The access log as evidence: sealed, and proven whole."""

    def seal(self) -> Sealed:
        """Seal what is new in the access log."""

    def verify(self, anchor: str | None = None) -> LogVerified:
        """Prove that the access log was not tampered with."""

def attach(client: type[Recollect], operations: Iterable[Operation], rooms: Mapping[str, str]) -> None:
    """Give the client a method for each operation, and an attribute for each room."""

def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
