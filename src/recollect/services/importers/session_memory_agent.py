"""SessionMemoryAgent: sessions of a voice assistant with the history of what was said in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recollect.domain.conversations import Session
from recollect.domain.record import JsonObject
from recollect.services.importers.conversation import Turn, role_of, turn_entries
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import FieldMap, clean, decoded
from recollect.services.importers.objects import fields_at_first, objects
from recollect.services.importers.origin import Origin

SESSIONS = FieldMap(
    "session",
    {
        "session_id": "session.id",
        "conversation_history": "turns.all: a message and a memory (conversation) each",
        "session_data": "session.metadata",
        "session_summary": "session.summary",
        "created_at": "session.created_at",
        "last_interaction": "session.updated_at",
        "user_id": "session.user_id",
    },
)
TURNS = FieldMap(
    "turn of conversation_history",
    {
        "role": "message.role",
        "speaker": "message.role",
        "content": "message.text",
        "text": "message.text",
        "message": "message.text",
        "timestamp": "message.created_at",
        "created_at": "message.created_at",
        "id": "message.id: its otid, and the id of the memory",
    },
)
WRAPPERS = ("sessions",)


def recognises(origin: Origin) -> bool:
    return {"session_id", "conversation_history"} <= fields_at_first(origin, WRAPPERS)


def read(reading: Reading) -> Iterator[Entry]:
    for item in objects(reading, SESSIONS, "session_id", WRAPPERS):
        of, rest = SESSIONS.read(item, reading.findings)
        session = of.get("session", {})
        if "id" not in session:
            reading.findings.left_out(SESSIONS.what, item.get("session_id"), "its session_id is not an id")
            continue
        user = session.get("user_id")
        yield from reading.owners({"user": user})
        metadata = reading.kept(session.pop("metadata", {}), rest)
        yield from reading.once(Session, **session, metadata=metadata)
        turns = turns_of(reading, of.get("turns", {}).get("all"))
        yield from turn_entries(reading, turns, session["id"], session.get("created_at"), user=user)


def turns_of(reading: Reading, history: object) -> Iterator[Turn]:
    """Turns with a role and a text, exchanges such as {"user": …, "assistant": …}, or plain texts, the user's first."""
    listed = decoded(history)
    for number, one in enumerate(listed if isinstance(listed, list) else [listed] if listed else []):
        if isinstance(one, str):
            yield Turn(("user", "assistant")[number % 2], str(clean(one)))
        elif isinstance(one, dict) and {"user", "assistant"} & one.keys() and not {"role", "speaker"} & one.keys():
            yield from _exchange(reading, one)
        elif isinstance(one, dict):
            of, rest = TURNS.read(one, reading.findings)
            turn: JsonObject = of.get("message", {})
            yield Turn(
                role_of(turn.get("role", "user")),
                turn.get("text", ""),
                turn.get("created_at"),
                turn.get("id"),
                {},
                rest,
            )
        else:
            reading.findings.left_out(TURNS.what, number, "it is not a turn")


def _exchange(reading: Reading, one: Mapping[str, object]) -> Iterator[Turn]:
    others = {name: value for name, value in one.items() if name not in ("user", "assistant")}
    of, rest = TURNS.read(others, reading.findings)
    for role in ("user", "assistant"):
        if one.get(role):
            yield Turn(role, str(clean(str(one[role]))), of.get("message", {}).get("created_at"), None, {}, rest)


SOURCE = Source(
    "session-memory-agent",
    "SessionMemoryAgent",
    "JSON, JSON Lines, or a SQLite table with a column session_id",
    (SESSIONS, TURNS),
    recognises,
    read,
)
