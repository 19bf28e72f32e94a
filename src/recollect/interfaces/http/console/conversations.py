"""Sessions as conversations: what was said and what was remembered, in order, with the summaries made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from recollect.errors import NotFound
from recollect.interfaces.http.console.visit import Page, Visit

MESSAGES_AT_ONCE, MOST_MEMORIES = 200, 1000
SPOKEN = ("conversation", "interaction")
TONES = 8


def sessions(visit: Visit) -> dict[str, Any]:
    if visit.may("session.list"):
        page = visit.call("session.list", after=visit.query("after"), archived="yes", limit=50)
        shown = [one.model_dump() for one in page.sessions]
        return {"sessions": shown, "next": page.next, "names": visit.names("agent")}
    page = visit.call("parties", type="session", after=visit.query("after"), limit=50)
    return {"sessions": [_from_party(one) for one in page.parties], "next": page.next, "names": {}}


def _from_party(party: Any) -> dict[str, Any]:
    """A session as the list of parties tells it, in the words of the sessions' own room."""
    kept = {name: party.fields.get(name) for name in ("type", "summary", "ended_at")}
    owners = {name: party.fields.get(f"{name}_id") for name in ("user", "agent", "project")}
    is_archived = bool(party.fields.get("is_archived"))
    return kept | owners | {
        "id": party.id, "title": party.name, "started_at": party.created_at, "archived": is_archived, "messages": None,
    }  # fmt: skip


def session(visit: Visit) -> dict[str, Any]:
    """The end of a conversation, or what came before it: messages by pages, memories where they fall among them."""
    page = visit.call("list", session=visit.id, limit=MOST_MEMORIES, include_superseded=True)
    asked = {"session": visit.id, "first": "newest", "limit": MESSAGES_AT_ONCE, "after": visit.query("after")}
    messages = visit.ask("message.list", **asked)
    turns = _turns(page.memories, messages.messages if messages else [])
    earlier, until = messages.next if messages else None, _moment(visit.query("until"))
    began = min(one.created_at for one in messages.messages) if earlier else None
    tree = visit.ask("summary.tree", session=visit.id, depth=3)
    shown = _session(visit)
    return {
        "session": shown,
        "agent": visit.names("agent").get(shown["agent"]) if shown["agent"] else None,
        "turns": [one for one in turns if (not began or one["at"] >= began) and (not until or one["at"] < until)],
        "earlier": {"after": earlier, "until": began.isoformat()} if began else None,
        "is_end": not visit.query("after"),
        "left_out": page.total - len(page.memories),
        "summaries": [line for line in tree.lines if line.kind == "summary"] if tree else [],
    }


def _moment(given: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _session(visit: Visit) -> dict[str, Any]:
    if visit.may("session.show"):
        shown: dict[str, Any] = visit.call("session.show", id=visit.id).model_dump()
        return shown
    for party in visit.call("parties", type="session", limit=1000).parties:
        if party.id == visit.id:
            return _from_party(party)
    raise NotFound("there is no such session", remedy="see the list of sessions")


def _turns(memories: list[Any], messages: list[Any]) -> list[dict[str, Any]]:
    """Messages and memories as one conversation, by time; summaries stand apart."""
    said = [
        {"at": one.created_at, "who": one.name or one.role, "role": one.role, "text": one.text or "",
         "memory": None, "tools": one.tool_calls, "is_spoken": True, "id": one.id}
        for one in messages
    ]  # fmt: skip
    kept = [
        {"at": datetime.fromisoformat(one.occurred_at), "who": one.author or one.kind, "role": "memory",
         "text": one.text, "memory": one, "tools": [], "is_spoken": one.kind in SPOKEN, "id": one.id}
        for one in memories
        if one.kind != "summary"
    ]  # fmt: skip
    turns = sorted([*said, *kept], key=lambda turn: (turn["at"], turn["id"]))
    tones: dict[str, int] = {}
    return [turn | {"tone": tones.setdefault(turn["who"], len(tones) % TONES)} for turn in turns]


PAGES = (
    Page("/sessions", "sessions.html", "parties", sessions),
    Page("/sessions/{id}", "session.html", "list", session),
)
