"""mem0's `Memory` on an open memory.

`add` with `infer` stores what is said as messages of a session and reads them for memories, each citing its message; a
configured language model does it as mem0's does. Without one, rules find what is stated plainly in English, and what
they find nothing in is remembered as it was said, questions apart. `add` without `infer` remembers each message.
What is deleted is erased; its history goes with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from recollect.errors import NotFound
from recollect.integrations.mem0.filters import OWNERS, InvalidRequest, Json, NoSuchMemory, Wanted, owner, read_filters
from recollect.integrations.mem0.shapes import expiry_of, history_of, hit_of, item_of, messages_of

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect

SESSIONS = "mem0"  # the type of the sessions that `add` makes
PROCEDURE = "procedural_memory"
OFFLINE = "extract"
PAGE = 1000
UNSET: Any = object()
C = TypeVar("C", bound=type)
log = logging.getLogger("recollect.mem0")


class Closing:
    """Closes the memory it works on, if it has opened that itself."""

    _mem: Recollect
    _owns: bool

    def close(self) -> None:
        if self._owns:
            self._mem.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class Memory(Closing):
    """An open memory, the path or address of one, or nothing: then the one that the settings name is opened."""

    def __init__(self, config: Recollect | str | Path | Mapping[str, Any] | None = None) -> None:
        self._owns = config is None or isinstance(config, str | Path | Mapping)
        self._mem: Recollect = _opened(config) if self._owns else config  # type: ignore[assignment]

    @classmethod
    def from_config(cls, config_dict: dict[str, Any]) -> Memory:
        """What it says under "recollect" is given to `recollect.open`; mem0's own parts choose nothing here."""
        return cls(config_dict)

    def add(
        self,
        messages: Any,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Remember what was said; one of the ids is needed. `prompt` changes nothing."""
        owners = owners_of(user_id=user_id, agent_id=agent_id, run_id=run_id)
        if memory_type not in (None, PROCEDURE):
            raise InvalidRequest(f"unknown memory_type {memory_type}", remedy=f"use {PROCEDURE}, or leave it out")
        more = {"metadata": metadata, "expiration_date": expiration_date, "timestamp": timestamp}
        if memory_type == PROCEDURE:
            text = "\n".join(f"{one['role']}: {one['text']}" for one in messages_of(messages))
            return self.remembered([{"role": None, "text": text}], owners, **more)
        if infer:
            return self.inferred(messages_of(messages), owners, **more)
        return self.remembered(messages_of(messages), owners, **more)

    def get(self, memory_id: str) -> dict[str, Any] | None:
        try:
            return {**_shown(item_of(self._mem.show(memory_id))), "score": None}
        except NotFound:
            return None

    def get_all(
        self, *, filters: dict[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """The newest memories of an owner. What has expired is gone, so `show_expired` adds nothing."""
        limit = _limit(top_k, kwargs)
        wanted = read_filters(_with_former(filters, kwargs), needs_owner=True)
        return {"results": self.listed(wanted, limit)}

    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: dict[str, Any] | None = None,
        threshold: float = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The memories that answer best. `score` is our `match`; ranking is always done whole, so `rerank` adds
        nothing."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidRequest("the query is empty", remedy="say what to look for")
        limit = _limit(top_k, kwargs)
        wanted = read_filters(_with_former(filters, kwargs), needs_owner=True)
        return {"results": self.found(query.strip(), wanted, limit, threshold, explain=explain)}

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: Any = UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Change a memory; `history` keeps what it said. `data` is a former name of `text`."""
        content = text if text is not None else data
        if content is None and metadata is None and expiration_date is UNSET:
            raise InvalidRequest("nothing to update", remedy="give text, metadata or expiration_date")
        changed: Json = {} if content is None else {"content": content}
        with _known(memory_id):
            if metadata is not None:
                changed["metadata"] = {**self._mem.show(memory_id).metadata, **_own(metadata)}
            if expiration_date is not UNSET:
                changed["expires_at"] = expiry_of(expiration_date)
            self._mem.revise(memory_id, **changed)
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, Any]:
        with _known(memory_id):
            self._mem.erase(memory_id)
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """Erase the memories of an owner, and what `add` kept of the talk they come from."""
        self.erase_of(owners_of(user_id=user_id, agent_id=agent_id, run_id=run_id))
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Every text the memory had; of one that was deleted nothing is left to tell."""
        try:
            return history_of(self._mem.history(memory_id), item_of(self._mem.show(memory_id)))
        except NotFound:
            return []

    def reset(self) -> None:
        """Erase every memory of the organization, those of other programs too."""
        log.warning("Resetting all memories")
        self.erase_of({})

    # -- with our own words for owners -------------------------------------------------------------------------------

    def remembered(
        self, messages: list[Json], owners: Json, *, metadata: Any, expiration_date: Any, timestamp: Any
    ) -> Json:
        """Each message as a memory."""
        shared = {"expires_at": expiry_of(expiration_date), "at": timestamp, "on_duplicate": "keep", **owners}
        made = [{"content": one["text"], **_speaker(one, _own(metadata or {})), **shared} for one in messages]
        receipts = self._mem.remember_many([*made]).receipts if made else []
        added = zip(receipts, messages, strict=True)
        return {"results": [_added(receipt.id, one) for receipt, one in added]}

    def inferred(
        self, messages: list[Json], owners: Json, *, metadata: Any, expiration_date: Any, timestamp: Any
    ) -> Json:
        """What the messages tell, each citing its message."""
        if not messages:
            return {"results": []}
        session = owners.get("session") or f"mem0-{uuid4()}"
        theirs: Json = {name: id for name, id in owners.items() if name != "session"}
        self._mem.session.add(session, id=session, type=SESSIONS, on_existing="return", **theirs)
        ours = [{**one, "role": one["role"] if one["role"] in ("user", "tool") else "assistant"} for one in messages]
        whose = {name: id for name, id in owners.items() if name in ("user", "agent")}
        said = self._mem.message.add_many([*ours], session=session, **whose).messages
        read = self._mem.session.extract(session)
        made = {one.id: one.text for one in read.proposals if one.id is not None}
        if read.made_by == OFFLINE:
            told = {message for one in read.proposals for message in one.messages}
            plain = [one for one in said if one.role == "user" and one.id not in told and not _asks(one.text or "")]
            made |= {self._mem.message.remember(one.id).id: one.text or "" for one in plain}
        self._note(made, metadata, expiration_date, timestamp)
        return {"results": [_added(id, {"text": text}) for id, text in made.items()]}

    def _note(self, made: dict[str, str], metadata: Any, expiration_date: Any, timestamp: Any) -> None:
        """What the caller said of all of them."""
        given = {"expires_at": expiry_of(expiration_date), "at": timestamp}
        changed: Json = {name: value for name, value in given.items() if value is not None}
        for id in made if changed or metadata else ():
            merged: Json = {"metadata": {**self._mem.show(id).metadata, **_own(metadata)}} if metadata else {}
            self._mem.revise(id, **changed, **merged)

    def listed(self, wanted: Wanted, limit: int | None, skip: int = 0) -> list[Json]:
        """The newest, after the first `skip`. Those are not read, so none can be skipped under `checks`."""
        found: list[Json] = []
        page_size = PAGE if wanted.checks or limit is None else min(skip + limit, PAGE)
        for id in islice(self._ids(wanted, page_size), skip, None):
            if limit is not None and len(found) >= limit:
                break
            with suppress(NotFound):  # deleted a moment ago
                item = item_of(self._mem.show(id))
                found += [_shown(item)] if wanted.keeps(item) else []
        return found

    def _ids(self, wanted: Wanted, page_size: int) -> Iterator[str]:
        after = None
        while True:
            page = self._mem.list(limit=page_size, after=after, **wanted.asked())
            yield from [line.id for line in page.memories]
            after = page.next
            if after is None:
                return

    def found(
        self, query: str, wanted: Wanted, limit: int, threshold: float | None, *, explain: bool = False
    ) -> list[Json]:
        asked = {**wanted.asked(), "include_messages": False, "min_match": threshold}
        most = min(PAGE, limit * 10) if wanted.checks else min(limit, PAGE)
        items: list[Json] = []
        for hit in self._mem.recall(query, limit=most, **asked).hits:
            with suppress(NotFound):  # deleted a moment ago
                item = hit_of(self._mem.show(hit.id), hit, explain=explain)
                items += [_shown(item)] if wanted.keeps(item) else []
            if len(items) == limit:
                break
        return items

    def erase_of(self, owners: Json) -> None:
        """Of nobody: of everybody."""
        for forgotten in (False, True):  # also what was forgotten and could still be restored
            while self._mem.erase_many(**owners, all=not owners, limit=PAGE, forgotten=forgotten).changed:
                pass
        session = owners.get("session")
        whose = {name: id for name, id in owners.items() if name != "session"}
        after = None
        while True:
            page = self._mem.session.list(type=SESSIONS, after=after, limit=PAGE, **whose)
            for one in page.sessions:
                if session in (None, one.id):
                    self._mem.message.clear(one.id, with_others=True)
            after = page.next
            if after is None:
                return


def owners_of(**given: str | None) -> Json:
    named = {OWNERS[name]: owner(name, id) for name, id in given.items() if id is not None}
    if not named:
        raise InvalidRequest(
            "at least one of user_id, agent_id or run_id is needed", remedy="give user_id; reset() is for everything"
        )
    return named


def _opened(config: object) -> Recollect:
    import recollect

    if not isinstance(config, Mapping):
        return recollect.open(config) if config is not None else recollect.open()  # type: ignore[arg-type]
    ignored = sorted(set(config) - {"recollect", "version"})
    if ignored:
        log.warning("%s of mem0's configuration choose nothing here: see Recollect's settings", ", ".join(ignored))
    return recollect.open(**config.get("recollect", {}))


@contextmanager
def _known(memory_id: str) -> Iterator[None]:
    """mem0's own error for a memory that is not there."""
    try:
        yield
    except NotFound:
        raise NoSuchMemory(f"Memory with id {memory_id} not found") from None


def _own(metadata: Json) -> Json:
    """Owners cannot be changed by metadata."""
    return {name: value for name, value in metadata.items() if name not in OWNERS}


def _speaker(said: Json, metadata: Json) -> Json:
    """Who said it; of somebody with a name the role is noted beside it."""
    name = said.get("name")
    return {"author": name or said["role"], "metadata": {**metadata, **({"role": said["role"]} if name else {})}}


def _added(id: str, said: Json) -> Json:
    who = {"role": said.get("role"), "actor_id": said.get("name")} if said.get("role") else {}
    return {"id": id, "memory": said["text"], "event": "ADD", **who}


def _shown(item: Json) -> Json:
    """Sessions that `add` made itself are no runs of the caller's."""
    return {name: value for name, value in item.items() if name != "run_id" or not str(value).startswith("mem0-")}


def _asks(text: str) -> bool:
    return text.rstrip().endswith(("?", "？"))


def _limit(top_k: int, more: Json) -> int:
    limit = more.pop("limit", None) or top_k
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidRequest("top_k must be a positive number", remedy="for example top_k=20")
    return limit


def _with_former(filters: Json | None, more: Json) -> Json:
    """Owners beside the filters, as mem0 took them before version 2, are read as filters."""
    named = {name: more[name] for name in OWNERS if more.get(name) is not None}
    return {**(filters or {}), **named}


def awaited(sync: type, *names: str) -> Callable[[C], C]:
    """Gives a class the methods of another, each run in a thread and awaited."""

    def method(name: str) -> Callable[..., Any]:
        original = getattr(sync, name)

        @wraps(original)
        async def run(self: Any, *given: Any, **named: Any) -> Any:
            return await asyncio.to_thread(original, self._sync, *given, **named)

        return run

    def with_methods(cls: C) -> C:
        for name in names:
            setattr(cls, name, method(name))
        return cls

    return with_methods


class Awaited:
    """The end of what is awaited; its methods are given by `awaited`."""

    _sync: Any

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await asyncio.to_thread(self._sync.close)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


@awaited(Memory, "add", "get", "get_all", "search", "update", "delete", "delete_all", "history", "reset", "close")
class AsyncMemory(Awaited):
    """The same, awaited."""

    def __init__(self, config: Recollect | str | Path | Mapping[str, Any] | None = None) -> None:
        self._sync = Memory(config)

    @classmethod
    async def from_config(cls, config_dict: dict[str, Any]) -> AsyncMemory:
        return await asyncio.to_thread(cls, config_dict)
