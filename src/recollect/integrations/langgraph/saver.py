"""LangGraph's checkpointer on Recollect: every capability of its conformance kit, and growth that is bounded.

What a step changed is what a step costs: see deduplication.py. `keep` and `keep_for` delete old checkpoints, a few at a
time; a thread can always resume, since its newest checkpoint stays, with whatever that one needs of its ancestors.
The asynchronous methods run the synchronous ones in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from recollect.errors import InvalidInput, NotFound
from recollect.integrations.langgraph.deduplication import (
    CheckpointDraft,
    StoredCheckpoint,
    StoredItems,
    dump,
    load,
    restored,
)

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.interfaces.client import Recollect
    from recollect.services.frameworks.checkpoint_reading import CheckpointPage, SavedCheckpoint

MOST_LINES_KNOWN = 64
PAGE = 100
DELTAS = "counters_since_delta_snapshot"  # the channels whose value only the ancestors hold


class RecollectSaver(BaseCheckpointSaver[Any]):
    """Saves the checkpoints of graphs in an open memory.

    `keep` is how many checkpoints each thread and namespace keeps (there are never more than half as many again),
    `keep_for` how long (an eighth longer at most, if the thread goes on); without them all are kept.
    """

    def __init__(
        self,
        mem: Recollect,
        *,
        keep: int | None = None,
        keep_for: timedelta | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._checkpoints = mem.checkpoint
        self._keep = keep
        self._keep_seconds = keep_for.total_seconds() if keep_for else None
        self._known: OrderedDict[tuple[str, str], StoredCheckpoint] = OrderedDict()
        self._lock = threading.Lock()

    # -- writing -----------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        line, parent = _line(config), get_checkpoint_id(config)
        known = self._known.get(line)
        try:
            self._save(line, parent, config, checkpoint, metadata, new_versions, known)
        except NotFound:  # what it shares with was deleted meanwhile: send everything
            self._save(line, parent, config, checkpoint, metadata, new_versions, None)
        return _config(config["configurable"]["thread_id"], line[1], checkpoint["id"])

    def _save(
        self,
        line: tuple[str, str],
        parent: str | None,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        known: StoredCheckpoint | None,
    ) -> None:
        draft = CheckpointDraft(self.serde, known)
        follows = known is not None and known.id == parent
        for channel, value in checkpoint["channel_values"].items():
            draft.add(channel, value, is_unchanged=follows and channel not in new_versions)
        body = {**checkpoint, "channel_values": draft.references}
        described = cast("Json", get_checkpoint_metadata(config, metadata))
        reply = self._checkpoints.put(
            *(line[0], checkpoint["id"]),
            namespace=line[1],
            parent=parent,
            run=described.get("run_id"),
            metadata=described,
            body=dump(self.serde, body),
            items=draft.items,
            base=known.id if known else None,
            spans=draft.spans(),
            lacks=[one for one in described.get(DELTAS) or () if one not in checkpoint["channel_values"]],
            keep=self._keep,
            keep_seconds=self._keep_seconds,
        )
        self._learn(line, draft.known_as(checkpoint["id"], reply.starts))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, object]], task_id: str, task_path: str = ""
    ) -> None:
        thread, namespace = _line(config)
        self._checkpoints.write(
            *(thread, config["configurable"]["checkpoint_id"]),
            namespace=namespace,
            task=task_id,
            path=task_path,
            slots=[(WRITES_IDX_MAP.get(channel, place), channel) for place, (channel, _) in enumerate(writes)],
            values=[dump(self.serde, value) for _, value in writes],
            replace=all(channel in WRITES_IDX_MAP for channel, _ in writes),
        )

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace = _line(config)
        page = self._checkpoints.get(thread, get_checkpoint_id(config), namespace=namespace)
        for found, known in self._tuples(page):
            last = self._known.get((thread, namespace))
            if last is None or last.id <= known.id:
                self._learn((thread, namespace), known)
            return found
        return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Json | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        named = config["configurable"] if config else {}
        thread = named.get("thread_id")
        wanted: Json = {
            "thread": None if thread is None else str(thread),
            "namespace": named.get("checkpoint_ns"),
            "id": named.get("checkpoint_id"),
            "before": get_checkpoint_id(before) if before else None,
            "metadata": filter or {},
        }
        after, left = None, limit
        while left is None or left > 0:
            page = self._checkpoints.list(**wanted, limit=min(left or PAGE, PAGE), after=after)
            for found, _ in self._tuples(page):
                yield found
            after, left = page.next, None if left is None else left - len(page.checkpoints)
            if after is None:
                return

    def _tuples(self, page: CheckpointPage) -> Iterator[tuple[CheckpointTuple, StoredCheckpoint]]:
        items = {(line.thread, line.namespace): StoredItems(line.spans, line.items) for line in page.lines}
        for kept in page.checkpoints:
            yield self._tuple(kept, items.get((kept.thread, kept.namespace)) or StoredItems({}, {}))

    def _tuple(self, kept: SavedCheckpoint, items: StoredItems) -> tuple[CheckpointTuple, StoredCheckpoint]:
        body = cast("Json", load(self.serde, kept.body))
        values, known = restored(self.serde, kept.id, body["channel_values"], kept.starts, items)
        writes = [
            (task.task, channel, load(self.serde, raw))
            for task in kept.writes
            for (_, channel), raw in zip(task.slots, task.values, strict=True)
        ]
        found = CheckpointTuple(
            _config(kept.thread, kept.namespace, kept.id),
            cast(Checkpoint, {**body, "channel_values": values}),
            cast(CheckpointMetadata, kept.metadata),
            _config(kept.thread, kept.namespace, kept.parent) if kept.parent else None,
            writes,
        )
        return found, known

    # -- deleting ----------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        self._checkpoints.delete(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete what these runs made; what other runs need of it for a delta channel goes, too."""
        if run_ids:
            self._checkpoints.delete(runs=list(map(str, run_ids)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._checkpoints.copy(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace ("keep_latest"), with its delta history, or none ("delete")."""
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f"unknown strategy '{strategy[:50]}'", remedy="use keep_latest or delete")
        if strategy == "keep_latest":
            self._checkpoints.prune(threads=list(map(str, thread_ids)), keep=1)
            return
        for thread in thread_ids:
            self._checkpoints.delete(str(thread))

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """Whole numbers; a thread that came from another checkpointer goes on in its own form."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}"
        return 1 if current is None else int(current) + 1

    # -- the same, asynchronously ------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: Json | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, object]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def _learn(self, line: tuple[str, str], known: StoredCheckpoint) -> None:
        with self._lock:
            self._known[line] = known
            self._known.move_to_end(line)
            while len(self._known) > MOST_LINES_KNOWN:
                self._known.popitem(last=False)


def _line(config: RunnableConfig) -> tuple[str, str]:
    named = config["configurable"]
    return str(named["thread_id"]), str(named.get("checkpoint_ns", ""))


def _config(thread: object, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}
