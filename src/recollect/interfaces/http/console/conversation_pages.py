"""Sessions as conversations: what was said and what was remembered, in order, with the summaries made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from recollect.interfaces.http.console.page_context import Page, Visit

MESSAGES_AT_ONCE, MOST_MEMORIES = 200, 1000
SPOKEN = ("conversation", "interaction")
TONES = 8


def sessions(visit: Visit) -> dict[str, Any]:
    page = visit.call("session.list", after=visit.query("after"), archived="yes", limit=50)
    names = visit.names("agent", (one.agent for one in page.sessions))
    return {"sessions": page.sessions, "next": page.next, "names": names}


def session(visit: Visit) -> dict[str, Any]:
    """The end of a conversation, or what came before it: messages by pages, memories where they fall among them."""
    page = visit.call("list", session=visit.id, limit=MOST_MEMORIES, include_superseded=True)
    asked = {"session": visit.id, "first": "newest", "limit": MESSAGES_AT_ONCE, "after": visit.query("after")}
    messages = visit.ask("message.list", **asked)
    turns = _turns(page.memories, messages.messages if messages else [])
    earlier, until = messages.next if messages else None, _moment(visit.query("until"))
    began = min(one.created_at for one in messages.messages) if earlier else None
    tree = visit.ask("summary.tree", session=visit.id, depth=3)
    shown = visit.call("session.show", id=visit.id)
    return {
        "session": shown,
        "agent": visit.names("agent", [shown.agent]).get(shown.agent),
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
    Page("/sessions", "sessions.html", "session.list", sessions),
    Page("/sessions/{id}", "session.html", "session.show", session),
)
