"""The Python client, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import Signature
from typing import Any, Literal

from recollect.catalogue import Operation
from recollect.ports.records import RecordStore, Scope
from recollect.services.tenant import Core, Tenant
from recollect.services.access.keys import KeyPage, KeyView, NewKey
from recollect.services.access.passwords import SignOutReply
from recollect.services.access.projects import ProjectPage, ProjectView
from recollect.services.access.users import UserPage, UserView
from recollect.services.admin.activity import Activity
from recollect.services.admin.audit import LogPage, SealReply, VerifyLogReply
from recollect.services.admin.expiry import SweepReply
from recollect.services.admin.export import BackupReply, TransferReply
from recollect.services.admin.maintenance import Diagnosis, Stats, VerifyReply
from recollect.services.admin.partitions import MigrateReply, PartitionsReply
from recollect.services.admin.removal import Removal
from recollect.services.agents.agents import AgentPage, AgentView, InContextReply
from recollect.services.agents.blocks import BlockHistory, BlockPage, BlockView, RemoveBlockReply
from recollect.services.agents.states import DropStateReply, StatePage, StateView
from recollect.services.agents.tools import RemoveToolReply, ToolPage, ToolView
from recollect.services.conversations.messages import (
    AddMessagesReply,
    MessagePage,
    MessageReference,
    MessageView,
    NewMessage,
    PopMessagesReply,
    RemoveMessagesReply,
    SearchMessagesReply,
)
from recollect.services.conversations.prompts import Prompt
from recollect.services.conversations.sessions import SessionPage, SessionView
from recollect.services.frameworks.checkpoint_reading import CheckpointPage, ThreadPage
from recollect.services.frameworks.checkpoint_retention import DeleteCheckpointsReply
from recollect.services.frameworks.checkpoints import CopyCheckpointsReply, PutCheckpointReply, WriteCheckpointReply
from recollect.services.frameworks.key_value import (
    GetItemReply,
    NamespacePage,
    PutItemRequest,
    PutItemsReply,
    SearchItemsReply,
    SweepItemsReply,
)
from recollect.services.learning.pattern_use import ApplyReply, PatternView, ReportReply, SuggestReply
from recollect.services.learning.patterns import LearnReply
from recollect.services.learning.rollup import MakeSummaryReply, RollUpReply, SummaryTree
from recollect.services.learning.summaries import SummaryView, UndoSummaryReply
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.indexing import ReindexReply
from recollect.services.memories.lifecycle import ForgetReply, History, PruneReply
from recollect.services.memories.remember import RememberManyReply
from recollect.services.memories.revise import Receipt
from recollect.services.recall.browse import MemoryPage, MemoryView
from recollect.services.recall.context import Context
from recollect.services.recall.recall import RecallReply
from recollect.services.recall.user_sql import SqlReply
from recollect.services.recall.why_not import WhyNot
from recollect.services.runs.control import RemoveRunReply
from recollect.services.runs.execution import ProposeReply, RecordReply
from recollect.services.runs.history import RunPage, RunView, Timeline
from recollect.services.runs.queue import ClaimReply, RenewReply
from recollect.services.trust.citations import CitationPage
from recollect.services.trust.governance import CheckReply, CiteReply, RelateReply, RollBackReply, StatusReply
from recollect.services.trust.merge import MergeReply, UnmergeReply
from recollect.services.workspaces.file_reading import FileContent
from recollect.services.workspaces.files import (
    DropWorkspaceReply,
    FilePage,
    FileView,
    FilesReply,
    WorkspacePage,
    WorkspaceView,
)
from recollect.services.workspaces.folder_sync import PullReply, PushReply
from recollect.services.workspaces.snapshots import (
    DiffReply,
    PruneSnapshotsReply,
    RestoreSnapshotReply,
    SnapshotPage,
    SnapshotView,
)

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
        """The same store as another organization or another actor. Close only the one you opened."""

    def call(self, operation: str, /, *, progress: Callable[[int, int], None] | None = None, **fields: Any) -> Any:
        """Any operation by name: what every method here does."""

    def close(self) -> None:
        """Write what is pending, and close the store."""

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
        """Store many memories at once: all or none."""

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
    ) -> RecallReply:
        """Find memories by words and meaning, with the reasons for each hit."""

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
        """Pack recalled memories into a prompt, within a token budget."""

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
        """Explain why a memory is not in an answer."""

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
        """List memories, newest first."""

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
        """Change a memory; its history keeps the previous version."""

    def history(self, id: str) -> History:
        """Show every version of a memory."""

    def relate(self, id: str, to: str, type: str, *, metadata: dict[str, Any] = ...) -> RelateReply:
        """Link one memory to another."""

    def cite(self, id: str, cites: builtins.list[Any]) -> CiteReply:
        """Add citations to a memory."""

    def confirm(self, id: str, citation: str) -> StatusReply:
        """Confirm that you said what a memory cites you for."""

    def uncite(self, id: str, citation: str) -> StatusReply:
        """Remove a citation from a memory."""

    def check(
        self,
        id: str | None = None,
        *,
        source: str | None = None,
        state: Literal["unchecked", "holds", "claimed", "broken", "unreachable"] | None = None,
    ) -> CheckReply:
        """Check citations again; a memory with a broken one is demoted."""

    def promote(
        self,
        id: str,
        to: Literal["verified", "published"] = "verified",
        *,
        why: str = "",
        version: int | None = None,
    ) -> StatusReply:
        """Mark a memory as verified or published, if its citations hold."""

    def demote(
        self,
        id: str,
        *,
        why: str = "",
        version: int | None = None,
        to: Literal["hypothesis", "verified"] = "hypothesis",
    ) -> StatusReply:
        """Make a memory a hypothesis again."""

    def archive(self, id: str, *, why: str = "", version: int | None = None) -> StatusReply:
        """Archive a memory: it is kept, but no longer recalled."""

    def merge(
        self,
        id: str,
        others: builtins.list[str],
        *,
        promote: Literal["verified", "published"] | None = None,
        why: str = "",
        version: int | None = None,
    ) -> MergeReply:
        """Merge memories that say the same thing into one."""

    def unmerge(self, id: str, *, why: str = "", version: int | None = None) -> UnmergeReply:
        """Undo a merge and bring the merged memory back."""

    def roll_back(self, source: str, *, why: str = "", dry_run: bool = False) -> RollBackReply:
        """Archive every memory that depends on a source."""

    def forget(self, id: str, *, why: str = "", version: int | None = None) -> ForgetReply:
        """Forget a memory; it can be restored."""

    def restore(self, id: str, *, why: str = "", version: int | None = None) -> ForgetReply:
        """Restore a forgotten memory."""

    def erase(self, id: str, *, why: str = "", version: int | None = None) -> ForgetReply:
        """Delete a memory for good and overwrite its traces on disk."""

    def sweep(self, *, dry_run: bool = False) -> SweepReply:
        """Delete everything that has expired."""

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
    ) -> PruneReply:
        """Forget the memories that are least worth keeping."""

    def stats(self) -> Stats:
        """Count memories by kind, status and evidence."""

    def activity(self, days: int = 30) -> Activity:
        """Show how much was remembered and used, day by day."""

    def sql(self, statement: str, *, limit: int = 1000, seconds: float = 30.0, megabytes: int = 1024) -> SqlReply:
        """Run a SQL SELECT over your own records (DuckDB only)."""

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
        """Show who did what to which memory, newest first."""

    def verify(self) -> VerifyReply:
        """Check every record and index, and list the problems."""

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Find problems in the store; with fix, repair them."""

    def reindex(self, *, retire: bool = False, everything: bool = False, index: bool = False) -> ReindexReply:
        """Create the vectors that are missing."""

    def export(
        self,
        path: str,
        *,
        audit: bool = False,
        damaged: Literal["refuse", "skip"] = "refuse",
    ) -> TransferReply:
        """Export everything to a JSON Lines file."""

    def import_(self, path: str, *, existing: Literal["skip", "replace"] = "skip") -> TransferReply:
        """Import an exported file."""

    def partitions(
        self,
        *,
        ahead: int | None = None,
        drop_before: datetime | str | None = None,
        older_than: str | None = None,
        memories: bool = False,
        all_organizations: bool = False,
        apply: bool = False,
    ) -> PartitionsReply:
        """List monthly partitions, create future ones, drop old ones."""

    def migrate(self, *, distribute: bool = False) -> MigrateReply:
        """Bring the tables up to date, or spread them over a cluster."""

    def backup(self, path: str) -> BackupReply:
        """Back up the whole store while it is in use."""
    def get(self, id: str) -> MemoryView:
        """Show one memory with its citations, tags and links."""

class OperationGroup:
    """The operations of one group, on an open memory: `mem.run.show(...)`."""

    def __init__(self, mem: Recollect) -> None: ...
    def call(self, operation: str, /, **fields: Any) -> Any: ...

class Agent(OperationGroup):
    """Agents: their prompt, status and configuration."""

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
        """List agents, newest first."""

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
        """Change an agent's prompt, directives or configuration."""

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
        for_good: bool = False,
    ) -> Removal:
        """Remove an agent and its memories; restorable for 30 days by default."""

    def restore(self, id: str) -> AgentView:
        """Restore a removed agent."""

    def pause(self, id: str) -> AgentView:
        """Pause an agent."""

    def activate(self, id: str) -> AgentView:
        """Activate a paused or retired agent."""

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
    ) -> InContextReply:
        """Set, add to or trim the messages in an agent's context."""

    def prompt(self, id: str) -> Prompt:
        """Show the prompt for an agent's next step."""

class Block(OperationGroup):
    """Blocks of core memory: short texts that are always in an agent's prompt."""

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
        """Create a block of core memory."""

    def show(self, id: str) -> BlockView:
        """Show a block and the agents that share it."""

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
        """List blocks or templates, newest first."""

    def write(self, id: str, value: str, *, version: int | None = None) -> BlockView:
        """Replace the text of a block."""

    def append(self, id: str, text: str, *, separator: str = "\n", version: int | None = None) -> BlockView:
        """Append to the text of a block."""

    def replace(
        self,
        id: str,
        old: str,
        new: str,
        *,
        everywhere: bool = False,
        version: int | None = None,
    ) -> BlockView:
        """Replace part of the text of a block."""

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
        """Show the previous texts of a block."""

    def remove(self, id: str, *, with_others: bool = False, dry_run: bool = False) -> RemoveBlockReply:
        """Delete a block for good."""

    def attach(self, id: str, agent: str) -> BlockView:
        """Attach a block to an agent."""

    def detach(self, id: str, agent: str) -> BlockView:
        """Detach a block from an agent."""

class Tool(OperationGroup):
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
        """Add a tool."""

    def show(self, id: str) -> ToolView:
        """Show a tool and the agents that have it."""

    def list(
        self,
        *,
        agent: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> ToolPage:
        """List tools, newest first."""

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

    def remove(self, id: str, *, with_others: bool = False, dry_run: bool = False) -> RemoveToolReply:
        """Delete a tool."""

    def attach(self, id: str, agent: str) -> ToolView:
        """Attach a tool to an agent."""

    def detach(self, id: str, agent: str) -> ToolView:
        """Detach a tool from an agent."""

class State(OperationGroup):
    """The saved states of agents."""

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
        """Save the state of an agent."""

    def load(self, agent: str, *, session: str | None = None) -> StateView:
        """Load the state of an agent."""

    def list(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> StatePage:
        """List states that have not expired, newest first."""

    def drop(self, agent: str, *, session: str | None = None) -> DropStateReply:
        """Delete the state of an agent for good."""

class Workspace(OperationGroup):
    """Workspaces: the files of agents, with snapshots."""

    def add(
        self,
        agent: str,
        name: str = "workspace",
        *,
        metadata: dict[str, Any] = ...,
        id: str | None = None,
    ) -> WorkspaceView:
        """Create a workspace for an agent."""

    def list(self, *, agent: str | None = None, limit: int = 50, after: str | None = None) -> WorkspacePage:
        """List workspaces, newest first."""

    def show(self, id: str) -> WorkspaceView:
        """Show a workspace."""

    def drop(self, id: str) -> DropWorkspaceReply:
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

    def remove(self, id: str, path: str, *, folder: bool = False) -> FilesReply:
        """Delete a file or folder."""

    def move(self, id: str, path: str, to: str, *, folder: bool = False) -> FilesReply:
        """Move or rename a file or folder."""

    def pull(self, id: str, folder: str, *, exclude: builtins.list[str] = ..., mirror: bool = False) -> PullReply:
        """Copy a folder on disk into a workspace."""

    def push(self, id: str, folder: str, *, snapshot: str | None = None) -> PushReply:
        """Copy a workspace to a folder on disk."""

    def snapshot(self, id: str, label: str = "", *, cycle: str | None = None) -> SnapshotView:
        """Take a snapshot of a workspace."""

    def snapshots(
        self,
        id: str,
        *,
        cycle: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> SnapshotPage:
        """List the snapshots of a workspace, newest first."""

    def diff(
        self,
        id: str,
        since: str,
        to: str | None = None,
        *,
        path: str | None = None,
        text: bool = True,
    ) -> DiffReply:
        """Show what changed between two snapshots, or since one."""

    def restore(self, id: str, snapshot: str, *, dry_run: bool = False) -> RestoreSnapshotReply:
        """Restore a snapshot; the reply lists the files that differed."""

    def prune(
        self,
        id: str,
        *,
        keep: int | None = None,
        older_than_days: float | None = None,
        dry_run: bool = False,
    ) -> PruneSnapshotsReply:
        """Delete old snapshots and unused content."""

class Session(OperationGroup):
    """Sessions: conversations, or stretches of work."""

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
        """List sessions, newest first."""

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
        """Remove a session and its messages; restorable for 30 days by default."""

    def restore(self, id: str) -> SessionView:
        """Restore a removed session."""

    def end(self, id: str, *, summary: str | None = None) -> SessionView:
        """Mark a session as ended, with a summary if you like."""

    def archive(self, id: str) -> SessionView:
        """Archive a session; it takes no messages until it is unarchived."""

    def unarchive(self, id: str) -> SessionView:
        """Unarchive a session."""

class Message(OperationGroup):
    """Messages: what was said in sessions."""

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
    ) -> AddMessagesReply:
        """Add several messages in order: all or none."""

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
        """List messages, oldest first unless you ask for the newest."""

    def search(
        self,
        query: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        role: Literal["user", "assistant", "system", "tool"] | None = None,
        limit: int = 20,
    ) -> SearchMessagesReply:
        """Find messages by their words."""

    def remove(self, id: str) -> RemoveMessagesReply:
        """Delete a message for good."""

    def pop(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
    ) -> PopMessagesReply:
        """Remove the last message and return it."""

    def clear(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        with_others: bool = False,
        dry_run: bool = False,
    ) -> RemoveMessagesReply:
        """Delete all messages of a session, agent or user."""

class Episode(OperationGroup):
    """Episodes: tasks that were tried, and how they went."""

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
        """Record a task that was tried, and how it went."""

    def from_run(
        self,
        run: str,
        *,
        success: bool | None = None,
        critique: str = "",
        tags: builtins.list[str] = ...,
    ) -> Receipt:
        """Record a run as an episode that cites it."""

class Pattern(OperationGroup):
    """Patterns: know-how learned from episodes, with success rates."""

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
    ) -> LearnReply:
        """Learn patterns from episodes."""

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
    ) -> SuggestReply:
        """Suggest patterns for a task, by meaning and success rate."""

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
    ) -> ApplyReply:
        """Apply a pattern to a task: fill in its template."""

    def report(self, application: str, success: bool, *, note: str = "") -> ReportReply:
        """Report whether an applied pattern worked."""

class Summary(OperationGroup):
    """Summaries of sessions, days and projects."""

    def make(
        self,
        session: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        ids: builtins.list[str] = ...,
    ) -> MakeSummaryReply:
        """Summarise part of a session, or some memories."""

    def roll_up(
        self,
        *,
        session: str | None = None,
        project: str | None = None,
        include_open: bool = False,
    ) -> RollUpReply:
        """Write every summary that is due, lowest level first."""

    def show(self, id: str) -> SummaryView:
        """Show a summary and what it covers."""

    def tree(
        self,
        *,
        id: str | None = None,
        session: str | None = None,
        project: str | None = None,
        depth: int = 2,
        limit: int = 100,
    ) -> SummaryTree:
        """Show summaries as a tree, from the top down."""

    def undo(self, id: str) -> UndoSummaryReply:
        """Delete a summary; what it covers is kept."""

class Run(OperationGroup):
    """Runs of agents: start, carry out, watch and control them."""

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
        """List runs of agents, newest first."""

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
        """Queue a task for an agent; a worker picks it up."""

    def show(self, id: str, *, limit: int = 50, before: int | None = None) -> Timeline:
        """Show the status and steps of a run."""

    def claim(
        self,
        worker: str,
        *,
        id: str | None = None,
        queue: str = "default",
        agent: str | None = None,
        seconds: float = 60,
        idempotency_key: str | None = None,
    ) -> ClaimReply:
        """Claim the next run that no worker holds."""

    def renew(self, id: str, fence: int, *, seconds: float = 60) -> RenewReply:
        """Renew the lease of a run during a long step."""

    def release(self, id: str, fence: int, *, note: str = "") -> RunView:
        """Release a run, so that another worker can continue it."""

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
    ) -> ProposeReply:
        """Store the next step before it is carried out."""

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
    ) -> RecordReply:
        """Store the result of a step."""

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
        """Pause a run before its next step."""

    def resume(self, id: str, *, why: str = "") -> Timeline:
        """Resume a run; the reply says what happens next."""

    def cancel(self, id: str, *, why: str = "") -> Timeline:
        """Cancel a run."""

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
        """Start another run from any step of this one."""

    def rewind(self, id: str, to: int, *, why: str = "", paused: bool = True) -> Timeline:
        """Go back to an earlier step; later steps stay visible."""

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

    def remove(self, id: str) -> RemoveRunReply:
        """Delete a run and its steps for good."""

class User(OperationGroup):
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
        """List users, newest first."""

    def show(self, id: str) -> UserView:
        """Show a user's profile, role and preferences."""

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
        """Remove a user and their memories; restorable for 30 days by default."""

    def restore(self, id: str) -> UserView:
        """Restore a removed user."""

    def change_password(self, *, password: str, new_password: str) -> SignOutReply:
        """Change your own password."""

class Project(OperationGroup):
    """Projects: work that spans many sessions."""

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
        """List projects, newest first."""

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
        """Remove a project; restorable for 30 days by default."""

    def restore(self, id: str) -> ProjectView:
        """Restore a removed project."""

class Citation(OperationGroup):
    """Citations: the evidence for memories."""

    def list(
        self,
        state: Literal["unchecked", "holds", "claimed", "broken", "unreachable"] | None = None,
        *,
        source: str | None = None,
        memories: builtins.list[str] = ...,
        limit: int = 50,
        after: str | None = None,
    ) -> CitationPage:
        """List citations with their memories, newest first."""

class Key(OperationGroup):
    """API keys: permissions, limits and expiry."""

    def add(
        self,
        name: str,
        *,
        scopes: builtins.list[Literal["read", "write", "govern", "delete", "admin", "operate"]] = ...,
        user: str | None = None,
        expires_days: float | None = None,
        rate_per_minute: int | None = None,
        requests_per_day: int | None = None,
    ) -> NewKey:
        """Create an API key; it is shown only once."""

    def list(self, *, user: str | None = None, revoked: bool = False) -> KeyPage:
        """List API keys, newest first, with permissions and last use."""

    def revoke(self, id: str) -> KeyView:
        """Revoke an API key at once."""

class Audit(OperationGroup):
    """The access log: seal it, and verify that nobody changed it."""

    def seal(self) -> SealReply:
        """Seal the new entries of the access log."""

    def verify(self, anchor: str | None = None) -> VerifyLogReply:
        """Verify that the access log was not tampered with."""

class Checkpoint(OperationGroup):
    """Checkpoints of programs that run in steps, such as LangGraph graphs."""

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
        """Save what a task wrote for the next checkpoint."""

    def get(self, thread: str, id: str | None = None, *, namespace: str = "") -> CheckpointPage:
        """Read one checkpoint."""

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
        """List checkpoints, newest first."""

    def threads(self, thread: str | None = None) -> ThreadPage:
        """List the threads that have checkpoints, by name."""

    def delete(self, thread: str | None = None, *, runs: builtins.list[str] = ...) -> DeleteCheckpointsReply:
        """Delete a thread, or the checkpoints of some runs."""

    def copy(self, source: str, target: str) -> CopyCheckpointsReply:
        """Copy a thread with all its checkpoints."""

    def prune(
        self,
        *,
        threads: builtins.list[str] | None = None,
        keep: int | None = None,
        keep_seconds: float | None = None,
    ) -> DeleteCheckpointsReply:
        """Delete old checkpoints."""

class Item(OperationGroup):
    """Items: values under a namespace and a key, as in LangGraph's store."""

    def put(
        self,
        namespace: builtins.list[str],
        key: str,
        *,
        value: dict[str, Any] | None,
        texts: dict[str, str] = ...,
        ttl_minutes: float | None = None,
    ) -> PutItemsReply:
        """Store a value under a namespace and a key, replacing the old one."""

    def put_many(self, items: builtins.list[PutItemRequest | dict[str, Any] | str]) -> PutItemsReply:
        """Store and delete several items: all or none."""

    def get(self, namespace: builtins.list[str], key: str, *, refresh: bool = False) -> GetItemReply:
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
    ) -> SearchItemsReply:
        """Find items by filter and meaning."""

    def namespaces(
        self,
        *,
        begins: builtins.list[builtins.list[str]] = ...,
        ends: builtins.list[builtins.list[str]] = ...,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> NamespacePage:
        """List the namespaces that have items, by name."""

    def sweep(self) -> SweepItemsReply:
        """Delete items that have expired."""

def attach(client: type[Recollect], operations: Iterable[Operation], groups: Mapping[str, str]) -> None:
    """Give the client a method for each operation, and an attribute for each group."""

def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
