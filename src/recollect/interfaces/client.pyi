"""The Python door, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import Signature
from typing import Any, Literal

from recollect.catalogue import Operation
from recollect.ports.records import RecordStore, Scope
from recollect.services.tenant import Core, Tenant
from recollect.services.access.keys import KeyMade, KeyPage, KeyView
from recollect.services.access.passwords import SignedOut
from recollect.services.access.projects import ProjectPage, ProjectView
from recollect.services.access.users import UserPage, UserView
from recollect.services.admin.activity import Activity
from recollect.services.admin.audit import LogPage, LogVerified, Sealed
from recollect.services.admin.expiry import Swept
from recollect.services.admin.export import BackedUp, Transferred
from recollect.services.admin.maintenance import Diagnosis, Stats, Verified
from recollect.services.admin.partitions import Layout, Migrated
from recollect.services.admin.removal import Removal
from recollect.services.agents.agents import AgentPage, AgentView, InContext
from recollect.services.agents.blocks import BlockHistory, BlockPage, BlockRemoved, BlockView
from recollect.services.agents.states import StateDropped, StatePage, StateView
from recollect.services.agents.tools import ToolPage, ToolRemoved, ToolView
from recollect.services.conversations.messages import (
    MessagePage,
    MessageReference,
    MessageView,
    MessagesAdded,
    MessagesFound,
    MessagesRemoved,
    NewMessage,
    Popped,
)
from recollect.services.conversations.prompts import Prompt
from recollect.services.conversations.sessions import SessionPage, SessionView
from recollect.services.frameworks.checkpoints import (
    CheckpointPage,
    CheckpointsCopied,
    CheckpointsDeleted,
    PutCheckpointReply,
    ThreadPage,
    WriteCheckpointReply,
)
from recollect.services.frameworks.key_value import (
    ItemFound,
    ItemsFound,
    ItemsPut,
    ItemsSwept,
    NamespacePage,
    PutItemRequest,
)
from recollect.services.learning.pattern_use import Applied, PatternView, Reported, Suggested
from recollect.services.learning.patterns import Learned
from recollect.services.learning.rollup import RolledUp, Summarized, SummaryTree
from recollect.services.learning.summaries import SummaryView, Undone
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.indexing import ReindexReply
from recollect.services.memories.lifecycle import Forgotten, History, Pruned
from recollect.services.memories.remember import RememberManyReply
from recollect.services.memories.revise import Receipt
from recollect.services.recall.browse import MemoryPage, MemoryView
from recollect.services.recall.context import Context
from recollect.services.recall.recall import Recalled
from recollect.services.recall.user_sql import SqlReply
from recollect.services.recall.why_not import WhyNot
from recollect.services.runs.control import RunRemoved
from recollect.services.runs.execution import Proposed, Recorded
from recollect.services.runs.history import RunPage, RunView, Timeline
from recollect.services.runs.queue import Claimed, Renewed
from recollect.services.trust.citations import CitationPage
from recollect.services.trust.governance import Checked, Cited, Related, RolledBack, Standing
from recollect.services.trust.merge import Merged, Unmerged
from recollect.services.workspaces.file_reading import FileContent
from recollect.services.workspaces.files import (
    FilePage,
    FileView,
    FilesChanged,
    WorkspaceDropped,
    WorkspacePage,
    WorkspaceView,
)
from recollect.services.workspaces.folder_sync import Pulled, Pushed
from recollect.services.workspaces.snapshots import Compared, Restored, SnapshotPage, SnapshotView, SnapshotsPruned

Prepare = Callable[[RecordStore, Scope], None]

class Recollect:
    """An open memory, seen from one organization."""

    _core: Core
    _scope: Scope
    @property
    def _tenant(self) -> Tenant: ...
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
    def agent(self) -> Agent: ...
    @property
    def block(self) -> Block: ...
    @property
    def tool(self) -> Tool: ...
    @property
    def state(self) -> State: ...
    @property
    def workspace(self) -> Workspace: ...
    @property
    def session(self) -> Session: ...
    @property
    def message(self) -> Message: ...
    @property
    def episode(self) -> Episode: ...
    @property
    def pattern(self) -> Pattern: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def run(self) -> Run: ...
    @property
    def user(self) -> User: ...
    @property
    def project(self) -> Project: ...
    @property
    def citation(self) -> Citation: ...
    @property
    def key(self) -> Key: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def checkpoint(self) -> Checkpoint: ...
    @property
    def item(self) -> Item: ...
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
        vector_model: str | None = None,
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
        also_session: str | None = None,
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
        check: Literal["none", "stale", "always"] | None = None,
        min_match: float | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        vector: builtins.list[float] | None = None,
        vector_model: str | None = None,
    ) -> Recalled:
        """Find memories by words and by meaning, with reasons."""

    def context(
        self,
        query: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        also_session: str | None = None,
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
        check: Literal["none", "stale", "always"] | None = None,
        min_match: float | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        vector: builtins.list[float] | None = None,
        vector_model: str | None = None,
        tokens: int = 1000,
        summaries: bool = False,
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
        also_session: str | None = None,
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
        check: Literal["none", "stale", "always"] | None = None,
        min_match: float | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        vector: builtins.list[float] | None = None,
        vector_model: str | None = None,
    ) -> WhyNot:
        """Say what kept a memory out of an answer."""

    def show(self, id: str) -> MemoryView:
        """Show one memory with its citations, tags and links."""

    def list(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        also_session: str | None = None,
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
        rolled_up: bool = True,
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
        scope: Literal["task", "project", "global"] | None = None,
        level: str | None = None,
        namespaces: builtins.list[str] | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        author: str | None = None,
        at: datetime | str | None = None,
        source_agent: str | None = None,
        vector: builtins.list[float] | None = None,
        vector_model: str | None = None,
        version: int | None = None,
    ) -> Receipt:
        """Change a memory; its former state is kept."""

    def history(self, id: str) -> History:
        """Show every state a memory was in."""

    def relate(self, id: str, to: str, type: str, *, metadata: dict[str, Any] = ...) -> Related:
        """Link a memory to another."""

    def cite(self, id: str, cites: builtins.list[Any]) -> Cited:
        """Give a memory more evidence."""

    def confirm(self, id: str, citation: str) -> Standing:
        """Confirm that you said what a memory cites of you."""

    def uncite(self, id: str, citation: str) -> Standing:
        """Take a citation away."""

    def check(
        self,
        id: str | None = None,
        *,
        source: str | None = None,
        state: Literal["unchecked", "holds", "claimed", "broken", "unreachable"] | None = None,
    ) -> Checked:
        """Look citations up again; what broke demotes its memory."""

    def promote(
        self,
        id: str,
        to: Literal["verified", "published"] = "verified",
        *,
        why: str = "",
        version: int | None = None,
    ) -> Standing:
        """Verify or publish a memory whose citations hold."""

    def demote(
        self,
        id: str,
        *,
        why: str = "",
        version: int | None = None,
        to: Literal["hypothesis", "verified"] = "hypothesis",
    ) -> Standing:
        """Make a memory a hypothesis again."""

    def archive(self, id: str, *, why: str = "", version: int | None = None) -> Standing:
        """Archive a memory without losing it."""

    def merge(
        self,
        id: str,
        others: builtins.list[str],
        *,
        promote: Literal["verified", "published"] | None = None,
        why: str = "",
        version: int | None = None,
    ) -> Merged:
        """Merge memories that say the same into one."""

    def unmerge(self, id: str, *, why: str = "", version: int | None = None) -> Unmerged:
        """Undo a merge: the merged memory is back."""

    def roll_back(self, source: str, *, why: str = "", dry_run: bool = False) -> RolledBack:
        """Archive all that rests on a source."""

    def forget(self, id: str, *, why: str = "", version: int | None = None) -> Forgotten:
        """Forget a memory; it can be restored."""

    def restore(self, id: str, *, why: str = "", version: int | None = None) -> Forgotten:
        """Bring a forgotten memory back."""

    def erase(self, id: str, *, why: str = "", version: int | None = None) -> Forgotten:
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

    def stats(self) -> Stats:
        """How much is remembered, and how well supported."""

    def activity(self, days: int = 30) -> Activity:
        """How much was remembered and used, day by day."""

    def sql(self, statement: str, *, limit: int = 1000, seconds: float = 30.0, megabytes: int = 1024) -> SqlReply:
        """Ask a DuckDB store in SQL: one SELECT over your own records."""

    def log(
        self,
        memory: str | None = None,
        *,
        operation: Literal["create", "read", "update", "delete", "search"] | None = None,
        by: str | None = None,
        action: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        success: bool | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> LogPage:
        """Show who did what to which memory, the newest first."""

    def verify(self) -> Verified:
        """Re-read everything and name what disagrees."""

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Find problems in the store; with fix, repair them."""

    def reindex(self, *, retire: bool = False, everything: bool = False, index: bool = False) -> ReindexReply:
        """Make the vectors that are missing."""

    def export(self, path: str, *, audit: bool = False, damaged: Literal["refuse", "skip"] = "refuse") -> Transferred:
        """Write everything to a JSON Lines file."""

    def import_(self, path: str, *, existing: Literal["skip", "replace"] = "skip") -> Transferred:
        """Read an exported file."""

    def partitions(
        self,
        *,
        ahead: int | None = None,
        drop_before: datetime | str | None = None,
        older_than: str | None = None,
        memories: bool = False,
        all_organizations: bool = False,
        apply: bool = False,
    ) -> Layout:
        """Show the months of a large store; make them ahead, drop old ones."""

    def migrate(self, *, distribute: bool = False) -> Migrated:
        """Bring the tables up to date; spread them over a cluster."""

    def backup(self, path: str) -> BackedUp:
        """Copy the whole store while it is in use."""
    def get(self, id: str) -> MemoryView:
        """Show one memory with its citations, tags and links."""

class Room:
    """The operations of one room, on an open memory: `mem.run.show(...)`."""

    def __init__(self, mem: Recollect) -> None: ...
    def call(self, operation: str, /, **fields: Any) -> Any: ...

class Agent(Room):
    """Agents: what they are told, whether they work, their prompt."""

    def add(
        self,
        name: str,
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        type: str | None = None,
        description: str = "",
        system: str | None = None,
        topic: str | None = None,
        directives: builtins.list[Any] = ...,
        config_overrides: dict[str, Any] = ...,
        llm_config: dict[str, Any] = ...,
        embedding_config: dict[str, Any] = ...,
        tool_rules: builtins.list[Any] = ...,
        mcp_tools: builtins.list[Any] = ...,
        metadata: dict[str, Any] = ...,
    ) -> AgentView:
        """Add an agent."""

    def list(
        self,
        *,
        ids: builtins.list[str] = ...,
        removed: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> AgentPage:
        """List agents, the newest first."""

    def show(self, id: str) -> AgentView:
        """Show an agent with its blocks and tools."""

    def revise(
        self,
        id: str,
        *,
        name: str | None = None,
        type: str | None = None,
        description: str | None = None,
        system: str | None = None,
        topic: str | None = None,
        directives: builtins.list[Any] | None = None,
        config_overrides: dict[str, Any] | None = None,
        llm_config: dict[str, Any] | None = None,
        embedding_config: dict[str, Any] | None = None,
        tool_rules: builtins.list[Any] | None = None,
        mcp_tools: builtins.list[Any] | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
    ) -> AgentView:
        """Change what an agent is told."""

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
        for_good: bool = False,
    ) -> Removal:
        """Remove an agent with its memories; says first what that takes."""

    def restore(self, id: str) -> AgentView:
        """Bring a removed agent back."""

    def pause(self, id: str) -> AgentView:
        """Pause an agent."""

    def activate(self, id: str) -> AgentView:
        """Put an agent to work again."""

    def retire(self, id: str) -> AgentView:
        """Retire an agent: it takes no new work."""

    def in_context(
        self,
        id: str,
        messages: builtins.list[str] | None = None,
        *,
        append: builtins.list[str] = ...,
        keep: int | None = None,
        version: int | None = None,
    ) -> InContext:
        """Set, add to or trim the messages an agent has in mind."""

    def prompt(self, id: str) -> Prompt:
        """Show the prompt an agent begins its next step with."""

class Block(Room):
    """Core memory: short texts that are always in the prompt."""

    def add(
        self,
        label: str | None = None,
        value: str | None = None,
        *,
        limit: int | None = None,
        description: str | None = None,
        user: str | None = None,
        agents: builtins.list[str] = ...,
        template: str | None = None,
        is_template: bool = False,
        template_name: str | None = None,
        metadata: dict[str, Any] | None = None,
        id: str | None = None,
    ) -> BlockView:
        """Make a block of core memory."""

    def show(self, id: str) -> BlockView:
        """Show a block and who shares it."""

    def list(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        label: str | None = None,
        templates: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> BlockPage:
        """List blocks or templates, the newest first."""

    def write(self, id: str, value: str, *, version: int | None = None) -> BlockView:
        """Replace what a block says."""

    def append(self, id: str, text: str, *, separator: str = "\n", version: int | None = None) -> BlockView:
        """Add to what a block says."""

    def replace(
        self,
        id: str,
        old: str,
        new: str,
        *,
        everywhere: bool = False,
        version: int | None = None,
    ) -> BlockView:
        """Change a piece of what a block says."""

    def revise(
        self,
        id: str,
        *,
        label: str | None = None,
        limit: int | None = None,
        description: str | None = None,
        template_name: str | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
    ) -> BlockView:
        """Change a block's label, limit or description."""

    def history(self, id: str) -> BlockHistory:
        """Show what a block said before."""

    def remove(self, id: str, *, with_others: bool = False, dry_run: bool = False) -> BlockRemoved:
        """Delete a block for good."""

    def attach(self, id: str, agent: str) -> BlockView:
        """Give an agent a block."""

    def detach(self, id: str, agent: str) -> BlockView:
        """Take a block away from an agent."""

class Tool(Room):
    """Tools that agents may call."""

    def add(
        self,
        name: str,
        description: str = "",
        *,
        json_schema: dict[str, Any] = ...,
        source_type: str | None = None,
        source_code: str | None = None,
        tags: builtins.list[str] = ...,
        metadata: dict[str, Any] = ...,
        agents: builtins.list[str] = ...,
        id: str | None = None,
    ) -> ToolView:
        """Make a tool."""

    def show(self, id: str) -> ToolView:
        """Show a tool and who has it."""

    def list(
        self,
        *,
        agent: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> ToolPage:
        """List tools, the newest first."""

    def revise(
        self,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        json_schema: dict[str, Any] | None = None,
        source_type: str | None = None,
        source_code: str | None = None,
        tags: builtins.list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
    ) -> ToolView:
        """Change a tool."""

    def remove(self, id: str, *, with_others: bool = False, dry_run: bool = False) -> ToolRemoved:
        """Delete a tool."""

    def attach(self, id: str, agent: str) -> ToolView:
        """Give an agent a tool."""

    def detach(self, id: str, agent: str) -> ToolView:
        """Take a tool away from an agent."""

class State(Room):
    """Where agents left off."""

    def save(
        self,
        agent: str,
        data: dict[str, Any],
        *,
        session: str | None = None,
        expires_at: datetime | str | None = None,
        ttl_seconds: float | None = None,
        version: int | None = None,
    ) -> StateView:
        """Save where an agent left off."""

    def load(self, agent: str, *, session: str | None = None) -> StateView:
        """Show where an agent left off."""

    def list(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> StatePage:
        """List states that have not expired, the newest first."""

    def drop(self, agent: str, *, session: str | None = None) -> StateDropped:
        """Delete a state for good."""

class Workspace(Room):
    """Workspaces: an agent's files, snapshots of them, and back."""

    def add(
        self,
        agent: str,
        name: str = "workspace",
        *,
        metadata: dict[str, Any] = ...,
        id: str | None = None,
    ) -> WorkspaceView:
        """Make a workspace for an agent."""

    def list(self, *, agent: str | None = None, limit: int = 50, after: str | None = None) -> WorkspacePage:
        """List workspaces, the newest first."""

    def show(self, id: str) -> WorkspaceView:
        """Show a workspace."""

    def drop(self, id: str) -> WorkspaceDropped:
        """Delete a workspace for good."""

    def write(
        self,
        id: str,
        path: str,
        text: str | None = None,
        *,
        base64: str | None = None,
        media_type: str | None = None,
        version: int | None = None,
    ) -> FileView:
        """Write a file."""

    def read(self, id: str, path: str, *, snapshot: str | None = None) -> FileContent:
        """Read a file, now or in a snapshot."""

    def files(self, id: str, *, folder: str | None = None, limit: int = 1000, after: str | None = None) -> FilePage:
        """List the files of a workspace, by path."""

    def remove(self, id: str, path: str, *, folder: bool = False) -> FilesChanged:
        """Remove a file or folder."""

    def move(self, id: str, path: str, to: str, *, folder: bool = False) -> FilesChanged:
        """Give a file or folder another path."""

    def pull(self, id: str, folder: str, *, exclude: builtins.list[str] = ..., mirror: bool = False) -> Pulled:
        """Fill a workspace from a folder on disk."""

    def push(self, id: str, folder: str, *, snapshot: str | None = None) -> Pushed:
        """Write a workspace out to a folder on disk."""

    def snapshot(self, id: str, label: str = "", *, cycle: str | None = None) -> SnapshotView:
        """Keep a workspace as it is now."""

    def snapshots(
        self,
        id: str,
        *,
        cycle: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> SnapshotPage:
        """List the snapshots of a workspace, the newest first."""

    def diff(
        self,
        id: str,
        since: str,
        to: str | None = None,
        *,
        path: str | None = None,
        text: bool = True,
    ) -> Compared:
        """Show what changed between snapshots, or since one."""

    def restore(self, id: str, snapshot: str, *, dry_run: bool = False) -> Restored:
        """Go back to a snapshot; says what differed."""

    def prune(
        self,
        id: str,
        *,
        keep: int | None = None,
        older_than_days: float | None = None,
        dry_run: bool = False,
    ) -> SnapshotsPruned:
        """Delete old snapshots and unused content."""

class Session(Room):
    """Sessions: add, show, list, change, end, archive."""

    def add(
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
    ) -> SessionView:
        """Start a session."""

    def list(
        self,
        *,
        ids: builtins.list[str] = ...,
        removed: bool = False,
        limit: int = 50,
        after: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        type: str | None = None,
        archived: Literal["no", "yes", "only"] = "no",
        open: bool = False,
    ) -> SessionPage:
        """List sessions, the newest first."""

    def show(self, id: str) -> SessionView:
        """Show a session."""

    def revise(
        self,
        id: str,
        *,
        title: str | None = None,
        type: str | None = None,
        summary: str | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
    ) -> SessionView:
        """Change a session's title, type, summary or metadata."""

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
        for_good: bool = False,
    ) -> Removal:
        """Remove a session with its messages; says first what that takes."""

    def restore(self, id: str) -> SessionView:
        """Bring a removed session back."""

    def end(self, id: str, *, summary: str | None = None) -> SessionView:
        """Mark a session as ended, with a summary."""

    def archive(self, id: str) -> SessionView:
        """Archive a session; it takes no messages until it is unarchived."""

    def unarchive(self, id: str) -> SessionView:
        """Unarchive a session."""

class Message(Room):
    """Messages: add, list, search, take back."""

    def add(
        self,
        role: Literal["user", "assistant", "system", "tool"],
        text: str | None = None,
        *,
        session: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        content: builtins.list[Any] = ...,
        model: str | None = None,
        name: str | None = None,
        tool_calls: builtins.list[Any] = ...,
        tool_call_id: str | None = None,
        tool_returns: builtins.list[Any] = ...,
        step_id: str | None = None,
        otid: str | None = None,
        group_id: str | None = None,
        sender_id: str | None = None,
        references: builtins.list[MessageReference | dict[str, Any] | str | str] = ...,
    ) -> MessageView:
        """Add a message."""

    def add_many(
        self,
        messages: builtins.list[NewMessage | dict[str, Any] | str],
        *,
        session: str | None = None,
        user: str | None = None,
        agent: str | None = None,
    ) -> MessagesAdded:
        """Add messages in order: all, or none."""

    def show(self, id: str) -> MessageView:
        """Show one message."""

    def list(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        role: Literal["user", "assistant", "system", "tool"] | None = None,
        group_id: str | None = None,
        step_id: str | None = None,
        first: Literal["oldest", "newest"] = "oldest",
        limit: int = 100,
        after: str | None = None,
    ) -> MessagePage:
        """List messages, the oldest first unless asked otherwise."""

    def search(
        self,
        query: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        role: Literal["user", "assistant", "system", "tool"] | None = None,
        limit: int = 20,
    ) -> MessagesFound:
        """Find messages by their words."""

    def remove(self, id: str) -> MessagesRemoved:
        """Delete a message for good."""

    def pop(self, session: str | None = None, *, agent: str | None = None, user: str | None = None) -> Popped:
        """Take the last message away and show it."""

    def clear(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        with_others: bool = False,
        dry_run: bool = False,
    ) -> MessagesRemoved:
        """Delete all messages of a session, agent or user."""

class Episode(Room):
    """Tasks that were tried, and how they went."""

    def record(
        self,
        task: str,
        success: bool,
        *,
        action_plan: str | builtins.list[str] = "",
        action_output: str = "",
        initial_state_snapshot: str = "",
        critique: str = "",
        tags: builtins.list[str] = ...,
        cites: builtins.list[Any] = ...,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        at: datetime | str | None = None,
        metadata: dict[str, Any] = ...,
        idempotency_key: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Remember a task that was tried, and how it went."""

    def from_run(
        self,
        run: str,
        *,
        success: bool | None = None,
        critique: str = "",
        tags: builtins.list[str] = ...,
    ) -> Receipt:
        """Remember a run as an episode that cites it."""

class Pattern(Room):
    """Know-how learned from episodes, with how surely it works."""

    def learn(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        across_users: bool = False,
        min_episodes: int = 3,
        alike: float = 0.28,
        limit: int = 1000,
    ) -> Learned:
        """Generalise episodes into patterns."""

    def suggest(
        self,
        task: str,
        *,
        kind: Literal["pattern", "query_pattern"] = "pattern",
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        purpose: Literal["think", "act"] = "think",
        schema_fingerprint: str | None = None,
        min_evidence: int = 3,
        min_match: float = 0.2,
        limit: int = 5,
    ) -> Suggested:
        """Find patterns for a task, by meaning and by proven success."""

    def show(self, id: str) -> PatternView:
        """Show a pattern with the evidence for and against it."""

    def apply(
        self,
        id: str,
        task: str = "",
        *,
        values: dict[str, str] = ...,
        agent: str | None = None,
        session: str | None = None,
        schema_fingerprint: str | None = None,
        idempotency_key: str | None = None,
    ) -> Applied:
        """Put a pattern to use, filled in for a task."""

    def report(self, application: str, success: bool, *, note: str = "") -> Reported:
        """Say whether an application worked."""

class Summary(Room):
    """What was said, compressed in levels."""

    def make(
        self,
        session: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        ids: builtins.list[str] = ...,
    ) -> Summarized:
        """Summarise a stretch of a session, or memories."""

    def roll_up(
        self,
        *,
        session: str | None = None,
        project: str | None = None,
        include_open: bool = False,
    ) -> RolledUp:
        """Write every summary that is due, from the bottom up."""

    def show(self, id: str) -> SummaryView:
        """Show a summary with what it covers."""

    def tree(
        self,
        *,
        id: str | None = None,
        session: str | None = None,
        project: str | None = None,
        depth: int = 2,
        limit: int = 100,
    ) -> SummaryTree:
        """Show summaries from the top down."""

    def undo(self, id: str) -> Undone:
        """Take a summary away; what it covers stays."""

class Run(Room):
    """Runs of agents: start, drive step by step, watch, steer."""

    def list(
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
        idempotency_key: str | None = None,
    ) -> Claimed:
        """Take the next run that nobody works on."""

    def renew(self, id: str, fence: int, *, seconds: float = 60) -> Renewed:
        """Keep a run while a step takes long."""

    def release(self, id: str, fence: int, *, note: str = "") -> RunView:
        """Give a run back, so that another worker can go on."""

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

class User(Room):
    """Users: their profiles, roles and passwords."""

    def add(
        self,
        name: str,
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        email: str | None = None,
        timezone: str = "UTC",
        profile_data: dict[str, Any] = ...,
        preferences: dict[str, Any] = ...,
    ) -> UserView:
        """Add a user."""

    def list(
        self,
        *,
        ids: builtins.list[str] = ...,
        removed: bool = False,
        limit: int = 100,
        after: str | None = None,
        with_role: bool = False,
    ) -> UserPage:
        """List users, the newest first."""

    def show(self, id: str) -> UserView:
        """Show a user with role and preferences."""

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

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
        for_good: bool = False,
    ) -> Removal:
        """Remove an user with their memories; says first what that takes."""

    def restore(self, id: str) -> UserView:
        """Bring a removed user back."""

    def change_password(self, *, password: str, new_password: str) -> SignedOut:
        """Change your own password."""

class Project(Room):
    """Projects: what is worked on over many sessions."""

    def add(
        self,
        name: str,
        *,
        id: str | None = None,
        on_existing: Literal["fail", "return"] = "fail",
        description: str = "",
        owner: str | None = None,
    ) -> ProjectView:
        """Add a project."""

    def list(
        self,
        *,
        ids: builtins.list[str] = ...,
        removed: bool = False,
        limit: int = 50,
        after: str | None = None,
        user: str | None = None,
    ) -> ProjectPage:
        """List projects, the newest first."""

    def show(self, id: str) -> ProjectView:
        """Show a project."""

    def revise(
        self,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        owner: str | None = None,
        version: int | None = None,
    ) -> ProjectView:
        """Change a project's name, description or owner."""

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
        for_good: bool = False,
    ) -> Removal:
        """Remove a project; says first what that takes."""

    def restore(self, id: str) -> ProjectView:
        """Bring a removed project back."""

class Citation(Room):
    """Citations: the evidence that memories rest on."""

    def list(
        self,
        state: Literal["unchecked", "holds", "claimed", "broken", "unreachable"] | None = None,
        *,
        source: str | None = None,
        memories: builtins.list[str] = ...,
        limit: int = 50,
        after: str | None = None,
    ) -> CitationPage:
        """List citations with their memories, the newest first."""

class Key(Room):
    """Keys for programs: what each grants, and how often it may be used."""

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

    def list(self, *, user: str | None = None, revoked: bool = False) -> KeyPage:
        """List keys, the newest first: what they grant, when they were used."""

    def revoke(self, id: str) -> KeyView:
        """End a key at once."""

class Audit(Room):
    """The access log as evidence: sealed, and proven whole."""

    def seal(self) -> Sealed:
        """Seal what is new in the access log."""

    def verify(self, anchor: str | None = None) -> LogVerified:
        """Prove that the access log was not tampered with."""

class Checkpoint(Room):
    """The saved states of programs that run in steps, such as LangGraph's graphs."""

    def put(
        self,
        thread: str,
        id: str,
        *,
        namespace: str = "",
        parent: str | None = None,
        run: str | None = None,
        metadata: dict[str, Any] = ...,
        body: bytes = ...,
        items: dict[str, builtins.list[bytes]] = ...,
        base: str | None = None,
        spans: dict[str, builtins.list[tuple[int, int]]] = ...,
        lacks: builtins.list[str] = ...,
        keep: int | None = None,
        keep_seconds: float | None = None,
    ) -> PutCheckpointReply:
        """Save a checkpoint of a program that runs in steps."""

    def write(
        self,
        thread: str,
        id: str,
        *,
        namespace: str = "",
        task: str,
        path: str = "",
        slots: builtins.list[tuple[int, str]],
        values: builtins.list[bytes],
        replace: bool = False,
    ) -> WriteCheckpointReply:
        """Save what a task wrote towards the next checkpoint."""

    def get(self, thread: str, id: str | None = None, *, namespace: str = "") -> CheckpointPage:
        """Read one checkpoint, whole."""

    def list(
        self,
        thread: str | None = None,
        *,
        namespace: str | None = None,
        id: str | None = None,
        before: str | None = None,
        metadata: dict[str, Any] = ...,
        limit: int = 100,
        after: str | None = None,
    ) -> CheckpointPage:
        """List checkpoints, the newest first."""

    def threads(self, thread: str | None = None) -> ThreadPage:
        """List the threads that have checkpoints, by name."""

    def delete(self, thread: str | None = None, *, runs: builtins.list[str] = ...) -> CheckpointsDeleted:
        """Delete a thread, or what some runs made."""

    def copy(self, source: str, target: str) -> CheckpointsCopied:
        """Copy a thread with all its checkpoints."""

    def prune(
        self,
        *,
        threads: builtins.list[str] | None = None,
        keep: int | None = None,
        keep_seconds: float | None = None,
    ) -> CheckpointsDeleted:
        """Delete old checkpoints."""

class Item(Room):
    """Values that agents keep under a namespace and a key."""

    def put(
        self,
        namespace: builtins.list[str],
        key: str,
        *,
        value: dict[str, Any] | None,
        texts: dict[str, str] = ...,
        ttl_minutes: float | None = None,
    ) -> ItemsPut:
        """Keep a value under a key, in place of what was there."""

    def put_many(self, items: builtins.list[PutItemRequest | dict[str, Any] | str]) -> ItemsPut:
        """Put and delete several items: all, or none."""

    def get(self, namespace: builtins.list[str], key: str, *, refresh: bool = False) -> ItemFound:
        """Read one item."""

    def search(
        self,
        prefix: builtins.list[str] = ...,
        *,
        filter: dict[str, Any] = ...,
        query: str | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh: bool = False,
    ) -> ItemsFound:
        """Find items by filter and by meaning."""

    def namespaces(
        self,
        *,
        begins: builtins.list[builtins.list[str]] = ...,
        ends: builtins.list[builtins.list[str]] = ...,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> NamespacePage:
        """List the namespaces that hold an item, by name."""

    def sweep(self) -> ItemsSwept:
        """Delete the items that have expired."""

def attach(client: type[Recollect], operations: Iterable[Operation], rooms: Mapping[str, str]) -> None:
    """Give the client a method for each operation, and an attribute for each room."""

def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
