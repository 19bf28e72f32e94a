"""Sessions as conversations: what was said and what was remembered, in order, with the summaries made of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues
from recollect.services.conversations.messages import MessageView
from recollect.services.recall.browse import MemoryLine

MESSAGES_AT_ONCE, MOST_MEMORIES = 200, 1000
SPOKEN = ("conversation", "interaction")
TONES = 8


def sessions(context: PageContext) -> TemplateValues:
    page = context.call("session.list", after=context.query("after"), archived="yes", limit=50)
    names = context.names("agent", (one.agent for one in page.sessions))
    return {"sessions": page.sessions, "next": page.next, "names": names}


def session(context: PageContext) -> TemplateValues:
    """The end of a conversation, or what came before it: messages by pages, memories where they fall among them."""
    page = context.call("list", session=context.id, limit=MOST_MEMORIES, include_superseded=True)
    asked = {"session": context.id, "first": "newest", "limit": MESSAGES_AT_ONCE, "after": context.query("after")}
    messages = context.ask("message.list", **asked)
    turns = _turns(page.memories, messages.messages if messages else [])
    earlier, until = messages.next if messages else None, _moment(context.query("until"))
    began = min(one.created_at for one in messages.messages) if earlier else None
    tree = context.ask("summary.tree", session=context.id, depth=3)
    shown = context.call("session.show", id=context.id)
    return {
        "session": shown,
        "agent": context.names("agent", [shown.agent]).get(shown.agent),
        "turns": [one for one in turns if (not began or one.at >= began) and (not until or one.at < until)],
        "earlier": {"after": earlier, "until": began.isoformat()} if began else None,
        "is_end": not context.query("after"),
        "left_out": page.total - len(page.memories),
        "summaries": [line for line in tree.lines if line.kind == "summary"] if tree else [],
    }


def _moment(given: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Turn(NamedTuple):
    """Something that was said in a conversation, or a memory where it falls among that."""

    at: datetime
    id: str
    who: str
    role: str
    text: str
    memory: MemoryLine | None = None
    tools: Sequence[object] = ()
    is_spoken: bool = True
    tone: int = 0


def _turns(memories: Sequence[MemoryLine], messages: Sequence[MessageView]) -> list[Turn]:
    """Messages and memories as one conversation, by time; summaries stand apart, and a turn that is both shows once."""
    said = [
        Turn(one.created_at, one.id, one.name or one.role, one.role, one.text or "", tools=one.tool_calls)
        for one in messages
    ]
    kept = [
        Turn(
            datetime.fromisoformat(one.occurred_at), one.id, one.author or one.kind, "memory", one.text, memory=one,
            is_spoken=one.kind in SPOKEN,
        )
        for one in memories
        if one.kind != "summary"
    ]  # fmt: skip
    told = {(turn.at, turn.text) for turn in said}
    kept = [turn for turn in kept if not (turn.is_spoken and (turn.at, turn.text) in told)]
    turns = sorted([*said, *kept], key=lambda turn: (turn.at, turn.id))
    tones: dict[str, int] = {}
    return [turn._replace(tone=tones.setdefault(turn.who, len(tones) % TONES)) for turn in turns]


PAGES = (
    Page("/sessions", "sessions.html", "session.list", sessions),
    Page("/sessions/{id}", "session.html", "session.show", session),
)
