"""The Python client, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from inspect import Signature
from typing import Any, Literal

from recollect.catalogue import FormerName, Operation
from recollect.ports.records import RecordStore, Scope
from recollect.services.tenant import Core, Tenant
from os import PathLike
from recollect.ports.data import ArrowStream
from recollect.services.access.keys import KeyPage, KeyView, NewKey
from recollect.services.access.passwords import SignOutReply
from recollect.services.access.projects import MemberPage, MemberView, ProjectPage, ProjectView
from recollect.services.access.saved_searches import SavedSearches
from recollect.services.access.users import UserPage, UserView
from recollect.services.admin.activity import Activity
from recollect.services.admin.audit import LogPage, SealReply, VerifyLogReply
from recollect.services.admin.bulk_changes import BulkReply
from recollect.services.admin.encryption import EncryptTextsReply, ResealReply, RewrapKeysReply
from recollect.services.admin.expiry import SweepReply
from recollect.services.admin.export import TransferReply
from recollect.services.admin.import_ import ImportReply
from recollect.services.admin.maintenance import Diagnosis, Stats, VerifyReply
from recollect.services.admin.organizations import OrganizationErasure, OrganizationPage, OrganizationView
from recollect.services.admin.partitions import MigrateReply, PartitionsReply
from recollect.services.admin.record_removal import MessageRemoval, SharedRemoval, WorkspaceRemoval
from recollect.services.admin.removal import Removal
from recollect.services.agents.agents import AgentPage, AgentView, InContextReply
from recollect.services.agents.blocks import BlockHistory, BlockPage, BlockView
from recollect.services.agents.states import DropStateReply, StatePage, StateView
from recollect.services.agents.tools import ToolPage, ToolView
from recollect.services.backups.backup import BackupReply
from recollect.services.backups.drill import DrillReply
from recollect.services.backups.history import BackupPage, RemovedBackup
from recollect.services.cold.archives import ArchivePage, ShowColdReply
from recollect.services.cold.restore_sessions import RestoreColdReply
from recollect.services.cold.search import SearchColdReply
from recollect.services.cold.store_sessions import StoreColdReply
from recollect.services.conversations.message_revisions import MessageHistory, RememberedMessage, RevisedMessage
from recollect.services.conversations.message_search import SearchMessagesReply
from recollect.services.conversations.messages import (
    AddMessagesReply,
    MessagePage,
    MessageReference,
    MessageView,
    NewMessage,
    PopMessagesReply,
    RemoveMessagesReply,
)
from recollect.services.conversations.prompts import Prompt
from recollect.services.conversations.sessions import SessionPage, SessionView
from recollect.services.data.answers import AnswerReceipt
from recollect.services.data.ask import AskReply, PartChange
from recollect.services.data.charts import ChartReply
from recollect.services.data.connections import ConnectionPage, ConnectionView, RemoveConnectionReply
from recollect.services.data.exports import ExportQueryReply
from recollect.services.data.find import FindReply
from recollect.services.data.patterns import JudgeReply, QueryPatternPage
from recollect.services.data.queries import CancelQueryReply, QueryPage, QueryView, RemoveQueryReply
from recollect.services.data.results import QueryReply
from recollect.services.data.sources import RemoveSourceReply, SourcePage, SourceView, VersionPage
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
from recollect.services.learning.extraction import ExtractReply
from recollect.services.learning.pattern_use import ApplyReply, PatternView, ReportReply, SuggestReply
from recollect.services.learning.patterns import LearnReply
from recollect.services.learning.rollup import MakeSummaryReply, RollUpReply
from recollect.services.learning.summaries import SummaryView, UndoSummaryReply
from recollect.services.learning.summary_tree import SummaryTree
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.indexing import ReindexReply
from recollect.services.memories.kinds import KindList, KindView
from recollect.services.memories.lifecycle import ForgetReply, History, PruneReply
from recollect.services.memories.relations import RelateReply, RelationPage, UnrelateReply
from recollect.services.memories.remember import RememberManyReply
from recollect.services.memories.revise import Receipt
from recollect.services.memories.stored_embeddings import EmbeddingList, RemovedEmbeddings
from recollect.services.memories.tags import RenameTagReply, TagPage, TagsReply
from recollect.services.privacy.certificate import CertificatePage, CertificateVerdict
from recollect.services.privacy.erase import ErasureReply
from recollect.services.privacy.export import SubjectExport
from recollect.services.privacy.find import SubjectPage
from recollect.services.recall.browse import MemoryPage, MemoryView
from recollect.services.recall.context import Context
from recollect.services.recall.linked import RelationGraph
from recollect.services.recall.recall import RecallReply
from recollect.services.recall.review import ReviewPage
from recollect.services.recall.user_sql import SqlReply
from recollect.services.recall.why_not import WhyNot
from recollect.services.retention.application import RetentionReply
from recollect.services.retention.holds import HoldPage, HoldView
from recollect.services.retention.rules import RuleList, RuleView
from recollect.services.runs.approval import WaitingPage
from recollect.services.runs.cycles import CyclePage
from recollect.services.runs.execution import ProposeReply, RecordReply
from recollect.services.runs.history import RunPage, RunView, StepView, Timeline
from recollect.services.runs.queue import ClaimReply, RenewReply
from recollect.services.trust.citations import CitationPage
from recollect.services.trust.governance import CheckReply, CiteReply, RollBackReply, StatusReply
from recollect.services.trust.merge import MergeReply, UnmergeReply
from recollect.services.workspaces.file_reading import FileContent
from recollect.services.workspaces.files import FilePage, FileView, FilesReply, WorkspacePage, WorkspaceView
from recollect.services.workspaces.folder_sync import PullReply, PushReply
from recollect.services.workspaces.snapshots import (
    DiffReply,
    PruneSnapshotsReply,
    RestoreSnapshotReply,
    SnapshotPage,
    SnapshotView,
)

Prepare = Callable[[RecordStore, Scope], None]
Progress = bool | Callable[[int, int], None] | None

class Recollect(OpenMemory):
    """An open memory, seen from one organization."""

    _core: Core
    _scope: Scope
    @property
    def _tenant(self) -> Tenant: ...
    def __init__(self, core: Core, scope: Scope, prepare: Prepare, *, owns: bool = True) -> None: ...
    @property
    def timezone(self) -> str: ...
    @property
    def shown_zone(self) -> str | None: ...
    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        """The same store as another organization or another actor. Close only the one you opened."""

    def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> Recollect:
        """The same store for one user, agent, project or namespace: it reaches only what is theirs."""

    def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
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
    def cycle(self) -> Cycle: ...
    @property
    def source(self) -> Source: ...
    @property
    def connection(self) -> Connection: ...
    @property
    def query(self) -> Query: ...
    @property
    def user(self) -> User: ...
    @property
    def organization(self) -> Organization: ...
    @property
    def project(self) -> Project: ...
    @property
    def review(self) -> Review: ...
    @property
    def citation(self) -> Citation: ...
    @property
    def relations(self) -> Relations: ...
    @property
    def tag(self) -> Tag: ...
    @property
    def embedding(self) -> Embedding: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def key(self) -> Key: ...
    @property
    def encryption(self) -> Encryption: ...
    @property
    def privacy(self) -> Privacy: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def retention(self) -> Retention: ...
    @property
    def hold(self) -> Hold: ...
    @property
    def cold(self) -> Cold: ...
    @property
    def backup(self) -> Backup: ...
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
        created_at: datetime | str | None = None,
        score: float | None = None,
    ) -> Receipt:
        """Store a memory with its citations."""

    def remember_many(
        self,
        memories: builtins.list[RememberRequest | dict[str, Any] | str],
        *,
        progress: Progress = None,
    ) -> RememberManyReply:
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 10,
        by: Literal["everything", "meaning", "words"] = "everything",
        as_of: datetime | str | None = None,
        check: Literal["none", "stale", "always"] | None = None,
        min_match: float | None = None,
        include_messages: bool | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        follow: builtins.list[str] = ...,
        hops: int = 1,
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 50,
        by: Literal["everything", "meaning", "words"] = "everything",
        as_of: datetime | str | None = None,
        check: Literal["none", "stale", "always"] | None = None,
        min_match: float | None = None,
        include_messages: bool | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        follow: builtins.list[str] = ...,
        hops: int = 1,
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 10,
        by: Literal["everything", "meaning", "words"] = "everything",
        as_of: datetime | str | None = None,
        check: Literal["none", "stale", "always"] | None = None,
        min_match: float | None = None,
        include_messages: bool | None = None,
        boost: dict[Literal["recency", "priority", "trust", "access"], float] = ...,
        follow: builtins.list[str] = ...,
        hops: int = 1,
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        limit: int = 50,
        after: str | None = None,
        order: Literal["newest", "oldest", "happened", "updated", "priority", "confidence", "importance", "used", "expires"] = "newest",
        forgotten: bool = False,
        rolled_up: bool = True,
        count_at_most: int | None = 100000,
    ) -> MemoryPage:
        """List memories, newest first or in another order."""

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

    def unrelate(self, id: str, to: str, type: str | None = None) -> UnrelateReply:
        """Delete a link between two memories."""

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
        fetch: bool = False,
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

    def forget_many(
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        all: bool = False,
        limit: int = 1000,
        expect: int | None = None,
        why: str = "",
        dry_run: bool = False,
        progress: Progress = None,
    ) -> BulkReply:
        """Forget every memory that passes a filter; each can be restored."""

    def erase_many(
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        all: bool = False,
        limit: int = 1000,
        expect: int | None = None,
        why: str = "",
        dry_run: bool = False,
        forgotten: bool = False,
        progress: Progress = None,
    ) -> BulkReply:
        """Delete every memory that passes a filter for good."""

    def archive_many(
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        all: bool = False,
        limit: int = 1000,
        expect: int | None = None,
        why: str = "",
        dry_run: bool = False,
        progress: Progress = None,
    ) -> BulkReply:
        """Archive every memory that passes a filter."""

    def promote_many(
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        all: bool = False,
        limit: int = 1000,
        expect: int | None = None,
        why: str = "",
        dry_run: bool = False,
        to: Literal["verified", "published"] = "verified",
        progress: Progress = None,
    ) -> BulkReply:
        """Promote every memory that passes a filter, if its citations hold."""

    def demote_many(
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        all: bool = False,
        limit: int = 1000,
        expect: int | None = None,
        why: str = "",
        dry_run: bool = False,
        to: Literal["hypothesis", "verified"] = "hypothesis",
        progress: Progress = None,
    ) -> BulkReply:
        """Demote every memory that passes a filter."""

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

    def activity(self, days: int = 30, *, by: Literal["stored", "happened"] = "stored") -> Activity:
        """Show how much was remembered and used, day by day."""

    def sql(self, statement: str, *, limit: int = 1000, seconds: float = 30.0, megabytes: int = 1024) -> SqlReply:
        """Run a SQL SELECT over your own records (DuckDB only)."""

    def log(
        self,
        memory: str | None = None,
        *,
        operation: Literal["create", "read", "update", "delete", "search", "view"] | None = None,
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

    def verify(self, *, deep: bool = False) -> VerifyReply:
        """Check every record and index, and list the problems."""

    def doctor(
        self,
        *,
        fix: bool = False,
        parts: builtins.list[Literal["presence", "index", "health", "kernel", "pending", "backups"]] = ...,
    ) -> Diagnosis:
        """Find problems in the store; with fix, repair them."""

    def reindex(
        self,
        *,
        retire: bool = False,
        everything: bool = False,
        index: bool = False,
        progress: Progress = None,
    ) -> ReindexReply:
        """Create the vectors that are missing."""

    def export(
        self,
        path: str,
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
        cycle: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        expires_since: datetime | str | None = None,
        expires_until: datetime | str | None = None,
        content: dict[str, Any] = ...,
        metadata: dict[str, Any] = ...,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        min_priority: int | None = None,
        max_priority: int | None = None,
        min_importance: float | None = None,
        max_importance: float | None = None,
        namespaces: builtins.list[str] = ...,
        purpose: Literal["think", "act"] = "think",
        include_superseded: bool = False,
        audit: bool = False,
        plain: bool = False,
        damaged: Literal["refuse", "skip"] = "refuse",
        progress: Progress = None,
    ) -> TransferReply:
        """Export everything to a JSON Lines file."""

    def import_(
        self,
        path: str,
        *,
        existing: Literal["skip", "replace"] = "skip",
        source: str | None = None,
        dry_run: bool = False,
        vector_model: str | None = None,
        progress: Progress = None,
    ) -> ImportReply:
        """Import an exported file, or the memories of another product."""

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

    def ask(
        self,
        question: str,
        *,
        sources: builtins.list[str] = ...,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        limit: int = 1000,
        seconds: float = 30.0,
        job: str | None = None,
        follows: str | None = None,
        changes: builtins.list[PartChange | dict[str, Any] | str] = ...,
        choose: int | None = None,
    ) -> AskReply:
        """Answer a question about your data in plain words, with the SQL."""
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
        name: str | None = None,
        *,
        id: str | None = None,
        on_existing: Literal["match", "return", "fail"] = "match",
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
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        order: Literal["newest", "oldest", "updated"] = "newest",
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

    def erase(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
    ) -> Removal:
        """Delete an agent and its memories for good."""

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
        removed: bool = False,
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

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        for_good: bool = False,
        with_others: bool = False,
    ) -> SharedRemoval:
        """Remove a block; restorable for 30 days by default."""

    def restore(self, id: str) -> BlockView:
        """Restore a removed block."""

    def erase(self, id: str, *, dry_run: bool = False, with_others: bool = False) -> SharedRemoval:
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
        removed: bool = False,
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

    def remove(
        self,
        id: str,
        *,
        dry_run: bool = False,
        for_good: bool = False,
        with_others: bool = False,
    ) -> SharedRemoval:
        """Remove a tool; restorable for 30 days by default."""

    def restore(self, id: str) -> ToolView:
        """Restore a removed tool."""

    def erase(self, id: str, *, dry_run: bool = False, with_others: bool = False) -> SharedRemoval:
        """Delete a tool for good."""

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

    def list(
        self,
        *,
        agent: str | None = None,
        removed: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> WorkspacePage:
        """List workspaces, newest first."""

    def show(self, id: str) -> WorkspaceView:
        """Show a workspace."""

    def remove(
        self,
        id: str,
        path: str | None = None,
        *,
        dry_run: bool = False,
        for_good: bool = False,
        folder: bool = False,
    ) -> WorkspaceRemoval:
        """Remove a workspace; restorable for 30 days by default."""

    def erase(self, id: str, *, dry_run: bool = False) -> Removal:
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

    def remove_file(self, id: str, path: str, *, folder: bool = False) -> FilesReply:
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

    def restore(self, id: str, snapshot: str | None = None, *, dry_run: bool = False) -> RestoreSnapshotReply:
        """Restore a snapshot, or a removed workspace."""

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
        on_existing: Literal["match", "return", "fail"] = "match",
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
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        order: Literal["newest", "oldest", "updated"] = "newest",
        limit: int = 50,
        after: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        type: str | None = None,
        ended_since: datetime | str | None = None,
        ended_until: datetime | str | None = None,
        metadata: dict[str, Any] = ...,
        archived: Literal["no", "yes", "only"] = "no",
        open: bool = False,
        cold: Literal["no", "yes", "only"] = "yes",
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

    def erase(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
    ) -> Removal:
        """Delete a session and its messages for good."""

    def end(self, id: str, *, summary: str | None = None) -> SessionView:
        """Mark a session as ended, with a summary if you like."""

    def extract(self, id: str, *, again: bool = False, dry_run: bool = False, limit: int = 200) -> ExtractReply:
        """Propose memories from what was said in a session, each citing its messages."""

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
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        role: Literal["user", "assistant", "system", "tool"] | None = None,
        group_id: str | None = None,
        step_id: str | None = None,
        removed: bool = False,
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
        by: Literal["words", "meaning"] = "words",
        role: Literal["user", "assistant", "system", "tool"] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 20,
    ) -> SearchMessagesReply:
        """Find messages by their words, or by what they mean."""

    def revise(
        self,
        id: str,
        text: str | None = None,
        *,
        content: builtins.list[Any] | None = None,
        why: str = "",
        version: int | None = None,
    ) -> RevisedMessage:
        """Change a message; its history keeps what it said before."""

    def history(self, id: str) -> MessageHistory:
        """Show everything a message has said."""

    def remember(
        self,
        id: str,
        *,
        content: str = "",
        kind: str = "fact",
        tags: builtins.list[str] = ...,
    ) -> RememberedMessage:
        """Remember a message as a memory that cites it."""

    def remove(self, id: str, *, dry_run: bool = False, for_good: bool = False) -> MessageRemoval:
        """Remove a message; restorable for 30 days by default."""

    def restore(self, id: str) -> MessageView:
        """Restore a removed message."""

    def erase(self, id: str, *, dry_run: bool = False) -> MessageRemoval:
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
        author: str | None = None,
        cycle: str | None = None,
        source_agent: str | None = None,
        scope: Literal["task", "project", "global"] = "global",
        level: str = "item",
        confidence: float = 0.5,
        priority: int = 5,
        importance: float = 0.0,
        namespaces: builtins.list[str] = ...,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        expires_at: datetime | str | None = None,
        ttl_seconds: float | None = None,
        supersedes: str | None = None,
        derived_from: builtins.list[str] = ...,
        relates: dict[str, str] = ...,
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
        progress: Progress = None,
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
        progress: Progress = None,
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
    """Runs of agents: start, carry out, approve, watch and control them."""

    def list(
        self,
        *,
        status: Literal["queued", "running", "waiting", "paused", "succeeded", "failed", "cancelled", "interrupted"] | None = None,
        agent: str | None = None,
        session: str | None = None,
        message: str | None = None,
        queue: str | None = None,
        parent: str | None = None,
        removed: bool = False,
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
        approve: Literal["never", "tools", "always"] | None = None,
        approval_seconds: float | None = None,
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

    def waiting(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> WaitingPage:
        """List the steps that wait for approval."""

    def approve(self, id: str, *, step: int | None = None, cycle: str | None = None, why: str = "") -> Timeline:
        """Approve a step that waits, so that it is carried out."""

    def reject(self, id: str, why: str, *, step: int | None = None, cycle: str | None = None) -> Timeline:
        """Reject a step that waits; the agent is told why."""

    def remove(self, id: str, *, dry_run: bool = False, for_good: bool = False) -> Removal:
        """Remove a run and its steps; restorable for 30 days by default."""

    def restore(self, id: str) -> RunView:
        """Restore a removed run."""

    def erase(self, id: str, *, dry_run: bool = False) -> Removal:
        """Delete a run and its steps for good."""

class Cycle(OperationGroup):
    """Cycles: the steps of an agent, through all its runs."""

    def list(
        self,
        *,
        agent: str | None = None,
        run: str | None = None,
        state: Literal["open", "waiting", "approved", "done", "uncertain", "again", "abandoned"] | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> CyclePage:
        """List the cycles of agents, latest first."""

    def show(self, agent: str, index: int) -> StepView:
        """Show one cycle of an agent by its number."""

class Source(OperationGroup):
    """Sources: files and databases that questions can be asked of."""

    def add(
        self,
        path: str | PathLike[str] | ArrowStream | None = None,
        *,
        base64: str | None = None,
        name: str | None = None,
        description: str = "",
        project: str | None = None,
        user: str | None = None,
        version_of: str | None = None,
        profile: Literal["sample", "whole"] = "sample",
        progress: Progress = None,
    ) -> SourceView:
        """Add a file or a data frame to ask questions of."""

    def list(
        self,
        *,
        project: str | None = None,
        user: str | None = None,
        connection: str | None = None,
        removed: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> SourcePage:
        """List sources with their tables, newest first."""

    def find(
        self,
        query: str,
        *,
        sources: builtins.list[str] = ...,
        project: str | None = None,
        user: str | None = None,
        limit: int = 10,
    ) -> FindReply:
        """Find tables, fields and values by words and meaning, each with its reason."""

    def show(self, id: str, *, fields: bool = True) -> SourceView:
        """Show a source: its tables, and the profile of their columns."""

    def versions(self, id: str) -> VersionPage:
        """List the versions of a source, with what each changed."""

    def revise(
        self,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        tables: dict[str, str] = ...,
        columns: dict[str, str] = ...,
    ) -> SourceView:
        """Change the name and the descriptions of a source."""

    def profile(self, id: str, *, progress: Progress = None) -> SourceView:
        """Profile every row of a source that was only sampled."""

    def remove(self, id: str, *, for_good: bool = False) -> RemoveSourceReply:
        """Remove a source; restorable for 30 days by default."""

    def restore(self, id: str) -> SourceView:
        """Restore a removed source."""

class Connection(OperationGroup):
    """Connections: outside databases that are read where they are."""

    def add(
        self,
        name: str,
        address: str,
        *,
        secret_env: str | None = None,
        secret_file: str | None = None,
        options: dict[str, str] = ...,
        project: str | None = None,
        description: str = "",
        sample_rows: int = 5000,
        progress: Progress = None,
    ) -> ConnectionView:
        """Connect to an outside database to ask questions of it."""

    def list(self, *, project: str | None = None, limit: int = 50, after: str | None = None) -> ConnectionPage:
        """List the connections to outside databases, by name."""

    def show(self, id: str) -> ConnectionView:
        """Show a connection: its server and its tables."""

    def check(self, id: str) -> ConnectionView:
        """Try a connection now, and say what was found."""

    def refresh(self, id: str, *, sample_rows: int = 5000, progress: Progress = None) -> ConnectionView:
        """Read the tables of a connection again, and say what changed."""

    def remove(self, id: str) -> RemoveConnectionReply:
        """Remove a connection; the database itself is not touched."""

class Query(OperationGroup):
    """Queries over sources: run, judged, charted, remembered."""

    def run(
        self,
        sql: str,
        *,
        sources: builtins.list[str] = ...,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        limit: int = 1000,
        seconds: float = 30.0,
        job: str | None = None,
        question: str = "",
    ) -> QueryReply:
        """Run one SELECT over your sources, safely."""

    def list(
        self,
        *,
        project: str | None = None,
        user: str | None = None,
        session: str | None = None,
        verdict: Literal["unjudged", "right", "wrong"] | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> QueryPage:
        """List the queries that were run, newest first."""

    def show(self, run: str) -> QueryView:
        """Show a query that was run, with the first rows of its result."""

    def remove(self, run: str) -> RemoveQueryReply:
        """Delete a query and the rows it returned for good."""

    def judge(
        self,
        run: str,
        verdict: Literal["right", "wrong"],
        *,
        sql: str | None = None,
        question: str = "",
    ) -> JudgeReply:
        """Say whether the answer of a query was right."""

    def patterns(
        self,
        *,
        project: str | None = None,
        user: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> QueryPatternPage:
        """List the questions that were judged, newest first."""

    def remember(
        self,
        run: str,
        *,
        content: str = "",
        kind: str = "fact",
        tags: builtins.list[str] = ...,
    ) -> AnswerReceipt:
        """Remember the answer of a query as a memory that cites it."""

    def chart(
        self,
        run: str,
        kind: Literal["bar", "line", "area", "scatter", "histogram", "heatmap", "pie", "number"] | None = None,
        *,
        format: Literal["svg", "png", "pdf", "html", "json"] | None = None,
        theme: Literal["light", "dark"] = "light",
        path: str | None = None,
    ) -> ChartReply:
        """Draw the result of a query."""

    def export(
        self,
        run: str | None = None,
        *,
        sql: str | None = None,
        format: Literal["json", "csv", "parquet", "arrow", "xlsx"] | None = None,
        path: str | None = None,
        sources: builtins.list[str] = ...,
        project: str | None = None,
        user: str | None = None,
        seconds: float = 120.0,
    ) -> ExportQueryReply:
        """Write the whole result of a query to a file."""

    def cancel(self, job: str) -> CancelQueryReply:
        """End a query that is running."""

class User(OperationGroup):
    """Users: their profiles, roles and passwords."""

    def add(
        self,
        name: str | None = None,
        *,
        id: str | None = None,
        on_existing: Literal["match", "return", "fail"] = "match",
        email: str | None = None,
        timezone: str = "UTC",
        profile_data: dict[str, Any] = ...,
        preferences: dict[str, Any] = ...,
        role: Literal["reader", "writer", "curator", "admin", "owner"] | None = None,
        password: str | None = None,
    ) -> UserView:
        """Add a user."""

    def list(
        self,
        *,
        ids: builtins.list[str] = ...,
        removed: bool = False,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        order: Literal["newest", "oldest", "updated"] = "newest",
        limit: int = 100,
        after: str | None = None,
        with_role: bool = False,
        preferences: dict[str, Any] = ...,
        profile_data: dict[str, Any] = ...,
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
        own_only: bool | None = None,
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

    def erase(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
    ) -> Removal:
        """Delete a user and their memories for good."""

    def searches(self) -> SavedSearches:
        """List your own saved searches."""

    def save_search(self, name: str, search: str) -> SavedSearches:
        """Save a search under a name, for yourself."""

    def remove_search(self, name: str) -> SavedSearches:
        """Remove one of your saved searches."""

    def change_password(self, *, password: str, new_password: str) -> SignOutReply:
        """Change your own password."""

class Organization(OperationGroup, str):
    """Organizations: the tenants of a store."""

    def add(self, name: str | None = None, *, id: str | None = None) -> OrganizationView:
        """Add an organization."""

    def list(self, *, limit: int = 50, after: str | None = None) -> OrganizationPage:
        """List the organizations of the store, by id."""

    def show(self, id: str | None = None) -> OrganizationView:
        """Show an organization."""

    def revise(
        self,
        id: str | None = None,
        name: str | None = None,
        *,
        version: int | None = None,
    ) -> OrganizationView:
        """Change the name of an organization."""

    def suspend(self, id: str) -> OrganizationView:
        """Suspend an organization: its keys and users are refused, its data are kept."""

    def resume(self, id: str) -> OrganizationView:
        """Resume a suspended organization."""

    def remove(self, id: str, *, dry_run: bool = False, progress: Progress = None) -> OrganizationErasure:
        """Delete an organization with everything in it, for good."""

class Project(OperationGroup):
    """Projects: work that spans many sessions."""

    def add(
        self,
        name: str | None = None,
        *,
        id: str | None = None,
        on_existing: Literal["match", "return", "fail"] = "match",
        description: str = "",
        owner: str | None = None,
    ) -> ProjectView:
        """Add a project."""

    def list(
        self,
        *,
        ids: builtins.list[str] = ...,
        removed: bool = False,
        created_since: datetime | str | None = None,
        created_until: datetime | str | None = None,
        changed_since: datetime | str | None = None,
        changed_until: datetime | str | None = None,
        order: Literal["newest", "oldest", "updated"] = "newest",
        limit: int = 50,
        after: str | None = None,
        user: str | None = None,
        member: str | None = None,
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

    def members(self, id: str, *, limit: int = 100, after: str | None = None) -> MemberPage:
        """List the members of a project with their roles, newest first."""

    def add_member(
        self,
        id: str,
        user: str,
        role: Literal["reader", "writer", "curator", "admin", "owner"] = "writer",
    ) -> MemberView:
        """Take a user into a project, with a role."""

    def remove_member(self, id: str, user: str) -> ProjectView:
        """Take a user out of a project."""

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

    def erase(
        self,
        id: str,
        *,
        dry_run: bool = False,
        hand_over_to: str | None = None,
        with_others: bool = False,
    ) -> Removal:
        """Delete a project for good."""

class Review(OperationGroup):
    """Review: hypotheses that wait for a decision."""

    def list(
        self,
        reason: Literal["contradicted", "broken", "depended_on", "used", "important", "supported", "claimed", "uncited"] | None = None,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        kinds: builtins.list[str] = ...,
        author: str | None = None,
        limit: int = 50,
        after: str | None = None,
        count_all: bool = True,
    ) -> ReviewPage:
        """List hypotheses to review, the most urgent first, with the reasons."""

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

class Relations(OperationGroup):
    """Links between memories."""

    def __call__(
        self,
        of: str | None = None,
        *,
        type: str | None = None,
        direction: Literal["both", "to", "from"] = "both",
        limit: int = 100,
        after: str | None = None,
    ) -> RelationPage:
        """List the links between memories, newest first."""

    def graph(self, of: str, *, hops: int = 1, types: builtins.list[str] = ..., limit: int = 100) -> RelationGraph:
        """Show the memories around one, and the links between them."""

class Tag(OperationGroup):
    """Tags of memories: added, removed, counted, renamed."""

    def add(self, id: str, tags: builtins.list[str]) -> TagsReply:
        """Add tags to a memory."""

    def remove(self, id: str, tags: builtins.list[str]) -> TagsReply:
        """Remove tags from a memory."""

    def list(
        self,
        prefix: str = "",
        *,
        order: Literal["name", "count"] = "name",
        limit: int = 100,
        after: str | None = None,
    ) -> TagPage:
        """List tags by name, with the number of their memories."""

    def rename(self, tag: str, to: str) -> RenameTagReply:
        """Rename a tag on every memory that has it."""

class Embedding(OperationGroup):
    """Embeddings: the stored vectors of memories, by model."""

    def add(self, id: str, vector: builtins.list[float], model: str, *, namespace: str | None = None) -> EmbeddingList:
        """Store a vector of a memory, made by a model of yours."""

    def list(
        self,
        id: str,
        *,
        model: str | None = None,
        namespace: str | None = None,
        vectors: bool = False,
    ) -> EmbeddingList:
        """List the stored vectors of a memory, by model."""

    def remove(self, id: str, model: str, *, namespace: str | None = None) -> RemovedEmbeddings:
        """Remove the vectors of a memory by one model."""

class Kind(OperationGroup):
    """Kinds of memory: built in, or your own."""

    def add(
        self,
        name: str,
        description: str = "",
        *,
        json_schema: dict[str, Any] = ...,
        replace: bool = False,
    ) -> KindView:
        """Declare a kind of memory."""

    def list(self) -> KindList:
        """List the kinds of memory, by name."""

    def remove(self, name: str) -> KindView:
        """Remove a kind that no memory is of."""

class Key(OperationGroup):
    """API keys: permissions, limits and expiry."""

    def add(
        self,
        name: str,
        *,
        scopes: builtins.list[Literal["read", "write", "govern", "delete", "admin", "operate"]] = ...,
        user: str | None = None,
        own_only: bool | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
        expires_days: float | None = None,
        rate_per_minute: int | None = None,
        requests_per_day: int | None = None,
    ) -> NewKey:
        """Create an API key; it is shown only once."""

    def list(self, *, user: str | None = None, revoked: bool = False) -> KeyPage:
        """List API keys, newest first, with permissions and last use."""

    def revoke(self, id: str) -> KeyView:
        """Revoke an API key at once."""

class Encryption(OperationGroup):
    """Encryption at rest: its keys, made and changed."""

    def rewrap(self, *, progress: Progress = None) -> RewrapKeysReply:
        """Wrap all data keys with the current master key."""

    def rotate(self, *, progress: Progress = None) -> ResealReply:
        """Give the organization a new data key, and seal everything with it."""

    def reseal(self, *, progress: Progress = None) -> ResealReply:
        """Seal encrypted fields that are in the clear or have a former key."""

    def text(self, switch: Literal["on", "off"], *, progress: Progress = None) -> EncryptTextsReply:
        """Encrypt the texts of the organization, or decrypt them."""

class Privacy(OperationGroup):
    """Privacy: find, hand over and erase what is stored about a person."""

    def find(
        self,
        *,
        user: str,
        also: builtins.list[str] = ...,
        kind: str | None = None,
        relation: Literal["own", "by", "about", "shared"] | None = None,
        limit: int = 50,
        after: str | None = None,
        progress: Progress = None,
    ) -> SubjectPage:
        """Find everything that is stored about a person."""

    def export(
        self,
        path: str,
        *,
        user: str,
        also: builtins.list[str] = ...,
        about: bool = True,
        progress: Progress = None,
    ) -> SubjectExport:
        """Write everything about a person to a folder they can read."""

    def erase(
        self,
        *,
        user: str,
        also: builtins.list[str] = ...,
        mentions: Literal["keep", "mask", "delete"] = "mask",
        authored: Literal["keep", "delete"] = "delete",
        hand_over_to: str | None = None,
        requested_by: str = "",
        reason: str = "",
        dry_run: bool = False,
        progress: Progress = None,
    ) -> ErasureReply:
        """Erase a person for good, everywhere, with a signed certificate."""

    def certificates(
        self,
        *,
        id: str | None = None,
        user: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> CertificatePage:
        """List the certificates of erasures, newest first."""

    def verify(self, id: str | None = None, *, certificate: dict[str, Any] | None = None) -> CertificateVerdict:
        """Verify a certificate: its signature, and what the log says."""

class Audit(OperationGroup):
    """The access log: seal it, and verify that nobody changed it."""

    def seal(self) -> SealReply:
        """Seal the new entries of the access log."""

    def verify(self, anchor: str | None = None) -> VerifyLogReply:
        """Verify that the access log was not tampered with."""

class Retention(OperationGroup):
    """Retention rules: how long memories and sessions are kept, and what happens then."""

    def set(
        self,
        *,
        kind: str | None = None,
        project: str | None = None,
        level: str | None = None,
        keep_days: float,
        then: Literal["archive", "forget", "erase", "cold"],
        reason: str = "",
    ) -> RuleView:
        """Store a retention rule: what to keep for how long, and what happens then."""

    def list(self) -> RuleList:
        """List the retention rules, the most specific first."""

    def remove(self, id: str) -> RuleView:
        """Remove a stored retention rule."""

    def preview(self, rule: str | None = None) -> RetentionReply:
        """Show what the retention rules would do now, and why."""

    def apply(self, rule: str | None = None, *, limit: int = 1000, trust_clock: bool = False) -> RetentionReply:
        """Apply the retention rules now."""

class Hold(OperationGroup):
    """Legal holds: nothing of a user, agent, session or project is deleted."""

    def place(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        reason: str,
    ) -> HoldView:
        """Put a user, agent, session or project on legal hold."""

    def list(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        released: Literal["no", "yes", "only"] = "no",
        limit: int = 50,
        after: str | None = None,
    ) -> HoldPage:
        """List legal holds, newest first."""

    def release(self, id: str, *, reason: str = "") -> HoldView:
        """Release a legal hold."""

class Cold(OperationGroup):
    """Cold storage: old sessions in files, which can be searched and restored."""

    def store(
        self,
        *,
        before: datetime | str | None = None,
        project: str | None = None,
        session: str | None = None,
        to: str | None = None,
        limit: int = 1000,
        dry_run: bool = False,
        progress: Progress = None,
    ) -> StoreColdReply:
        """Move old sessions to cold storage: compressed files in a folder or bucket."""

    def list(
        self,
        *,
        session: str | None = None,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> ArchivePage:
        """List the sessions in cold storage, newest first."""

    def show(self, id: str) -> ShowColdReply:
        """Show a session in cold storage, and check its files."""

    def search(
        self,
        query: str = "",
        *,
        session: str | None = None,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        type: Literal["memory", "message", "run", "result"] | None = None,
        kinds: builtins.list[str] = ...,
        limit: int = 20,
    ) -> SearchColdReply:
        """Find words in cold storage, without restoring anything."""

    def restore(self, id: str) -> RestoreColdReply:
        """Restore a session from cold storage, as it was."""

class Backup(OperationGroup):
    """Backups of the store: made, listed, proven, restored."""

    def __call__(self, path: str | None = None, *, verify: bool = True, progress: Progress = None) -> BackupReply:
        """Back up the whole store while it is in use."""

    def list(self, *, place: str | None = None, limit: int = 100, after: str | None = None) -> BackupPage:
        """List backups, newest first."""

    def drill(self, id: str | None = None, *, progress: Progress = None) -> DrillReply:
        """Prove a backup: restore it to a temporary place and try it."""

    def remove(self, id: str) -> RemovedBackup:
        """Delete a backup, with what no other one needs."""

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

class OpenMemory:
    """What every open memory does, whether it is awaited or not."""

class OperationSignature(Signature):
    """What a method takes, read off the request when somebody looks at it."""

    def __init__(self, operation: Operation) -> None: ...

def no_attribute(asked: object, name: str, known: Sequence[str], by_habit: str = "") -> AttributeError:
    """The error for a name that is not there, with the one that may have been meant."""

def attach(
    client: type,
    operations: Iterable[Operation],
    groups: Mapping[str, str],
    method: Callable[[Operation], Callable[..., Any]] = ...,
    former: Mapping[str, FormerName] = ...,
) -> None:
    """Give the client a method for each operation and for each name it had, and an attribute for each group."""

def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
