"""mem0's platform: its `MemoryClient`, and what its requests mean, for the client and for the service alike.

`PlatformCalls` answers the requests of mem0's REST interface on an open memory. `MemoryClient` makes them against a
Recollect service with a key of it, over Recollect's own interface; mem0's own client reaches the same calls where the
service opens mem0's paths (`server.mem0`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from recollect.errors import InvalidInput
from recollect.integrations.mem0.filters import OWNERS, InvalidRequest, Json, NoSuchMemory, owner, read_filters
from recollect.integrations.mem0.memory import PAGE, UNSET, Awaited, Closing, Memory, awaited, owners_of
from recollect.integrations.mem0.shapes import messages_of

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect

ENTITIES = {"user": "user", "agent": "agent", "run": "session", "app": "project"}
DEFAULT_PAGE = 100
MOST_ENTITIES = 1000


class PlatformCalls:
    """The requests of mem0's platform, by the members of their bodies."""

    def __init__(self, mem: Recollect) -> None:
        self._mem = mem
        self._memory = Memory(mem)

    def ping(self) -> Json:
        """mem0's client will not start without the names of an organization and a project."""
        return {"status": "ok", "org_id": str(self._mem.organization), "project_id": "default"}

    def add(self, given: Json) -> Json:
        owners = self._owners(given)
        more = {name: given.get(name) for name in ("metadata", "expiration_date", "timestamp")}
        said = messages_of(given.get("messages") or [])
        keep = self._memory.inferred if given.get("infer", True) else self._memory.remembered
        return keep(said, owners, **more)

    def _owners(self, given: Json) -> Json:
        """Beside the messages, or as plain filters."""
        filters = {name: value for name, value in (given.get("filters") or {}).items() if name in OWNERS}
        named = {name: value for name in OWNERS if (value := given.get(name, filters.get(name))) is not None}
        return owners_of(**named)

    def get(self, id: str) -> Json:
        found = self._memory.get(id)
        if found is None:
            raise NoSuchMemory(f"Memory with id {id} not found")
        return found

    def get_all(self, given: Json) -> Json:
        page, size = _number(given, "page", 1), _number(given, "page_size", DEFAULT_PAGE, most=PAGE)
        wanted = read_filters(_filters(given), needs_owner=False)
        for bound, field in (("start_date", "created_since"), ("end_date", "created_until")):
            wanted.fields |= {field: given[bound]} if given.get(bound) else {}
        wanted.fields |= {"any_tags": given["categories"]} if given.get("categories") else {}
        if not wanted.checks:
            total = self._mem.list(limit=1, **wanted.asked()).total
            results = self._memory.listed(wanted, size, skip=(page - 1) * size)
        else:
            found = self._memory.listed(wanted, None)
            total, results = len(found), found[(page - 1) * size : page * size]
        following = f"?page={page + 1}&page_size={size}" if page * size < total else None
        before = f"?page={page - 1}&page_size={size}" if page > 1 else None
        return {"count": total, "next": following, "previous": before, "results": results}

    def search(self, given: Json) -> Json:
        query = given.get("query")
        if not isinstance(query, str) or not query.strip():
            raise InvalidRequest("the query is empty", remedy="say what to look for")
        wanted = read_filters(_filters(given), needs_owner=False)
        wanted.fields |= {"any_tags": given["categories"]} if given.get("categories") else {}
        wanted.fields |= {"by": "words"} if given.get("keyword_search") else {}
        limit = _number(given, "top_k", _number(given, "limit", 10, most=PAGE), most=PAGE)
        found = self._memory.found(query.strip(), wanted, limit, given.get("threshold"))
        names = given.get("fields")
        return {
            "results": [{name: one[name] for name in {"id", *names} & one.keys()} for one in found] if names else found
        }

    def update(self, id: str, given: Json) -> Json:
        expires = given.get("expiration_date", UNSET)
        self._memory.update(id, given.get("text", given.get("data")), given.get("metadata"), expires)
        if given.get("timestamp") is not None:
            self._mem.revise(id, at=given["timestamp"])
        return {**self.get(id), "message": "Memory updated successfully!"}

    def delete(self, id: str) -> Json:
        return self._memory.delete(id)

    def delete_all(self, given: Json) -> Json:
        self._memory.erase_of(self._owners(given))
        return {"message": "Memories deleted successfully!"}

    def history(self, id: str) -> list[Json]:
        return self._memory.history(id)

    def entities(self) -> Json:
        """Everybody who has memories."""
        results: list[Json] = []
        for type, field in ENTITIES.items():
            page = getattr(self._mem, field).list(limit=MOST_ENTITIES)
            for one in getattr(page, f"{field}s"):
                counted = self._mem.list(limit=1, **{field: one.id}).total
                if counted and not one.id.startswith("mem0-"):
                    results.append({"id": one.id, "name": one.id, "type": type, "total_memories": counted})
        return {"count": len(results), "next": None, "previous": None, "results": results}

    def delete_entity(self, type: str, name: str) -> Json:
        if type not in ENTITIES:
            raise InvalidRequest(f"unknown type of entity {type}", remedy=f"use {', '.join(ENTITIES)}")
        self._memory.erase_of({ENTITIES[type]: owner(type, name)})
        return {"message": "Entity deleted successfully!"}

    def batch_update(self, given: Json) -> Json:
        memories = _listed(given)
        for one in memories:
            self._memory.update(_id(one), one.get("text"), one.get("metadata"))
        return {"message": f"Successfully updated {len(memories)} memories"}

    def batch_delete(self, given: Json) -> Json:
        memories = _listed(given)
        for one in memories:
            self._memory.delete(_id(one))
        return {"message": f"Successfully deleted {len(memories)} memories"}

    def reset(self) -> Json:
        self._memory.reset()
        return {"message": "All memories reset"}


def _filters(given: Json) -> Json:
    """Owners may stand beside the filters; a list of filters is their AND."""
    filters = given.get("filters") or {}
    listed = {"AND": filters} if isinstance(filters, list) else dict(filters)
    metadata = given.get("metadata")
    return {
        **listed,
        **{name: given[name] for name in OWNERS if given.get(name) is not None},
        **(metadata if isinstance(metadata, dict) else {}),
    }


MOST_PAGES = 1_000_000


def _number(given: Json, name: str, default: int, most: int = MOST_PAGES) -> int:
    if given.get(name) is None:
        return default
    value = str(given[name])
    if not value.isdecimal() or len(value) > len(str(most)) or not 1 <= int(value) <= most:
        raise InvalidRequest(f"{name} must be a number from 1 to {most}", remedy=f"for example {name}={default}")
    return int(value)


def _listed(given: Json) -> list[Json]:
    memories = given.get("memories")
    if not isinstance(memories, list) or not all(isinstance(one, dict) for one in memories):
        raise InvalidRequest("memories must be a list", remedy='[{"memory_id": "…"}]')
    return memories


def _id(one: Json) -> str:
    id = one.get("memory_id", one.get("id"))
    if not isinstance(id, str):
        raise InvalidRequest("a memory of the batch names no memory_id", remedy='[{"memory_id": "…"}]')
    return id


class MemoryClient(Closing):
    """A Recollect service, spoken to as mem0's platform. `mem` may be any open memory instead."""

    def __init__(
        self,
        api_key: str | None = None,
        host: str | None = None,
        client: Any = None,
        *,
        mem: Recollect | None = None,
    ) -> None:
        self.api_key = api_key or os.environ.get("MEM0_API_KEY")
        self.host = host
        self._owns = mem is None
        self._mem = mem if mem is not None else self._connected(client)
        self._calls = PlatformCalls(self._mem)

    def _connected(self, client: object) -> Recollect:
        import recollect

        if client is not None:
            raise InvalidInput("a client of httpx is of no use here", remedy="leave `client` out, or give `mem`")
        if not self.host or not self.api_key:
            raise InvalidRequest("the service or its key is missing", remedy="give host and api_key")
        return recollect.connect(self.host, self.api_key)

    def add(self, messages: Any, options: Any = None, **kwargs: Any) -> dict[str, Any]:
        return self._calls.add({**_given(options, kwargs), "messages": messages})

    def get(self, memory_id: str) -> dict[str, Any]:
        return self._calls.get(memory_id)

    def get_all(self, options: Any = None, **kwargs: Any) -> dict[str, Any]:
        return self._calls.get_all(_given(options, kwargs))

    def search(self, query: str, options: Any = None, **kwargs: Any) -> dict[str, Any]:
        return self._calls.search({**_given(options, kwargs), "query": query})

    def update(self, memory_id: str, options: Any = None, **kwargs: Any) -> dict[str, Any]:
        return self._calls.update(memory_id, _given(options, kwargs))

    def delete(self, memory_id: str, delete_linked: bool = False) -> dict[str, Any]:
        return self._calls.delete(memory_id)

    def delete_all(self, options: Any = None, **kwargs: Any) -> dict[str, str]:
        return self._calls.delete_all(_given(options, kwargs))

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        return self._calls.history(memory_id)

    def users(self) -> dict[str, Any]:
        return self._calls.entities()

    def delete_users(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
    ) -> dict[str, str]:
        named = {"user": user_id, "agent": agent_id, "app": app_id, "run": run_id}
        chosen = [(type, name) for type, name in named.items() if name]
        for type, name in chosen or [(one["type"], one["name"]) for one in self.users()["results"]]:
            self._calls.delete_entity(type, name)
        return {"message": "Entity deleted successfully." if chosen else "All users, agents, apps and runs deleted."}

    def reset(self) -> dict[str, str]:
        self.delete_users()
        return {"message": "Client reset successful. All users and memories deleted."}

    def batch_update(self, memories: list[dict[str, Any]]) -> dict[str, Any]:
        return self._calls.batch_update({"memories": memories})

    def batch_delete(self, memories: list[dict[str, Any]]) -> dict[str, Any]:
        return self._calls.batch_delete({"memories": memories})


def _given(options: Any, kwargs: Json) -> Json:
    """mem0's typed options, or a dict, and what is named beside them."""
    read = options.model_dump(exclude_unset=True) if hasattr(options, "model_dump") else dict(options or {})
    return {**read, **kwargs}


@awaited(
    MemoryClient,
    *("add", "get", "get_all", "search", "update", "delete", "delete_all", "history"),
    *("users", "delete_users", "reset", "batch_update", "batch_delete", "close"),
)
class AsyncMemoryClient(Awaited):
    """The same, awaited."""

    def __init__(
        self,
        api_key: str | None = None,
        host: str | None = None,
        client: Any = None,
        *,
        mem: Recollect | None = None,
    ) -> None:
        self._sync = MemoryClient(api_key, host, client, mem=mem)
