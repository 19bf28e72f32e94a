"""What was said, turn by turn: each turn becomes a message, and a memory that cites it.

The message is the log that the memory's citation leads to, so an imported conversation says why it is believed, and
`check` finds it. System and tool messages are messages only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from recollect.domain.conversations import Message
from recollect.domain.kinds import TEXT_LIMIT
from recollect.domain.memory import canonical
from recollect.domain.record import JsonObject
from recollect.services.importers.entries import IMPORTED, Entry, Reading, ordered_id

ROLES = {"human": "user", "customer": "user", "ai": "assistant", "bot": "assistant", "model": "assistant"} | {
    "agent": "assistant",
    "developer": "system",
    "function": "tool",
    "ipython": "tool",
}
SPOKEN = ("user", "assistant")
_PARTS = ("content", "tool_calls", "tool_returns")
_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Turn:
    role: str
    text: str
    at: datetime | None = None
    id: str | None = None
    """Its id in the source."""
    message: JsonObject = field(default_factory=dict)
    """Further fields of the message."""
    rest: JsonObject = field(default_factory=dict)
    """What could not be mapped."""
    is_said: bool = True
    """Whether somebody said it: calls of tools and hidden instructions are messages only."""


def role_of(given: object, otherwise: str = "user") -> str:
    said = str(given).strip().lower()
    known = ROLES.get(said, said)
    return known if known in ("user", "assistant", "system", "tool") else otherwise


def turn_entries(
    reading: Reading, turns: Iterable[Turn], session: str | None, begun: datetime | None = None, **owners: str | None
) -> Iterator[Entry]:
    """The messages and memories of one conversation. `owners` are its user and agent."""
    last, ties = begun or _START, 0
    known: Counter[str] = Counter()
    owned = {name: id for name, id in owners.items() if id}
    for turn in turns:
        moment = max(turn.at or last, last)
        ties = ties + 1 if moment - last < timedelta(milliseconds=1) else 0
        last = moment
        key = turn.id or f"{turn.role}\x1f{turn.at}\x1f{turn.text}"
        known[key] += 1
        id = ordered_id(moment, ties, reading.source, session or "", key, str(known[key]))
        yield from _entries(reading, turn, id, session, owned)


def _entries(reading: Reading, turn: Turn, id: str, session: str | None, owners: JsonObject) -> Iterator[Entry]:
    if len(turn.text) > TEXT_LIMIT:
        reading.findings.left_out("message", turn.id or session, f"it has more than {TEXT_LIMIT:,} characters")
        return
    parts = {name: turn.message[name] for name in _PARTS if turn.message.get(name)}
    if parts and len(turn.text) + len(canonical(parts)) > TEXT_LIMIT:
        why = f"with them the message has more than {TEXT_LIMIT:,} characters; they are left out"
        reading.findings.unmapped("message", ", ".join(parts), why, turn.id or session)
        turn.message = {name: value for name, value in turn.message.items() if name not in parts}
        parts = {}
    if not turn.text.strip() and not parts:
        reading.findings.left_out("message", turn.id or session, "it has no text")
        return
    belongs = {**owners, **({"session": session} if session else {})}
    yield from reading.owners(belongs)
    when = {"created_at": turn.at, "updated_at": turn.at} if turn.at else {}
    is_memory = turn.is_said and turn.role in SPOKEN and bool(turn.text.strip())
    message = {**turn.message, "id": id, "role": turn.role, "text": turn.text or None, "otid": turn.id or id}
    if turn.rest and not is_memory:  # a message has no metadata
        message["content"] = [*message.get("content", []), {"type": IMPORTED, "from": reading.source, **turn.rest}]
    yield Entry(Message, message | {f"{name}_id": value for name, value in belongs.items()} | when)
    if is_memory:
        log = {"type": "log", "log_id": id} | ({"timestamp": turn.at} if turn.at else {})
        said = {"kind": "conversation", "content": {"text": turn.text, "role": turn.role}, "cites": [log]}
        author = turn.message.get("name") or turn.role
        yield from reading.memory({"id": turn.id or id, "author": author, **said, **belongs, **when}, turn.rest)
