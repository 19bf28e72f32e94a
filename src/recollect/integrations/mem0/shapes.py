"""Our memories and their versions, in the shapes of mem0's replies."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from hashlib import md5
from typing import TYPE_CHECKING, Any

from recollect.integrations.mem0.filters import InvalidRequest, Json

if TYPE_CHECKING:
    from recollect.services.memories.lifecycle import History
    from recollect.services.recall.browse import MemoryView
    from recollect.services.recall.hits import Hit

ROLES = frozenset({"user", "assistant", "system", "tool"})
OURS = frozenset({"extracted", "made_by", "role"})  # what is noted of a memory here


def item_of(view: MemoryView) -> Json:
    item: Json = {
        "id": view.id,
        "memory": view.text,
        "hash": hash_of(view.text),
        "created_at": view.created_at.isoformat(),
        "updated_at": _moment(view.fields.get("updated_at"), view.created_at).isoformat(),
    }
    expires = view.fields.get("expires_at")
    is_role = view.author in ROLES
    more = {
        "user_id": view.user,
        "agent_id": view.agent,
        "run_id": view.session,
        "app_id": view.project,
        "role": view.author if is_role else view.metadata.get("role"),
        "actor_id": None if is_role else view.author,
        "expiration_date": _last_day(_moment(expires, view.created_at)) if expires else None,
        "categories": list(view.tags),
    }
    item["metadata"] = {name: value for name, value in view.metadata.items() if name not in OURS} or None
    return item | {name: value for name, value in more.items() if value}


def hit_of(view: MemoryView, hit: Hit, *, explain: bool) -> Json:
    item = {**item_of(view), "score": round(hit.match, 6)}
    return {**item, "score_details": dict(hit.parts)} if explain else item


def _moment(written: object, otherwise: datetime) -> datetime:
    return datetime.fromisoformat(str(written)) if written else otherwise


def _last_day(expires_at: datetime) -> str:
    return (expires_at - timedelta(microseconds=1)).date().isoformat()


def hash_of(text: str) -> str:
    """As mem0 has it: it tells texts apart, and protects nothing."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def history_of(found: History, item: Json) -> list[Json]:
    """The versions of a memory, as mem0 tells them: each with what it said before, and who said it."""
    told: list[Json] = []
    old, first = None, found.entries[0].held_from.isoformat() if found.entries else None
    for entry in found.entries:
        if old is None or entry.text != old:
            told.append(
                {
                    "id": f"{found.id}:{entry.number}",
                    "memory_id": found.id,
                    "old_memory": old,
                    "new_memory": entry.text,
                    "event": "ADD" if old is None else "UPDATE",
                    "created_at": first,
                    "updated_at": entry.held_from.isoformat(),
                    "is_deleted": False,
                    "actor_id": item.get("actor_id"),
                    "role": item.get("role"),
                }
            )
        old = entry.text
    return told


def expiry_of(given: object) -> datetime | None:
    """mem0's expiration date: through the end of that day."""
    if given is None:
        return None
    try:
        day = given if isinstance(given, date) else date.fromisoformat(str(given)[:10])
    except ValueError:
        raise InvalidRequest("expiration_date must be a date", remedy="give it as YYYY-MM-DD") from None
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def messages_of(given: object) -> list[Json]:
    """What `add` takes: a text, a message or a list of messages; those of the system are the program's own."""
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else [given]
    messages: list[Any] = given if isinstance(given, list) else listed
    if not all(isinstance(one, dict | str) for one in messages):
        raise InvalidRequest("messages must be a text, a message or a list of messages", remedy='{"role", "content"}')
    read: list[Json] = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    return [
        {"role": one.get("role") or "user", "text": text, "name": one.get("name")}
        for one in read
        if one.get("role") != "system" and (text := _text(one.get("content")).strip())
    ]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict)).strip()
