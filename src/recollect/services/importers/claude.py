"""Exports of Claude: conversations.json with users.json and projects.json, in their zip or folder or alone."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.domain.conversations import Session
from recollect.domain.record import JsonObject, clipped
from recollect.domain.tenancy import Project, User
from recollect.services.importers.conversation import Turn, role_of, turn_entries
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import NOT_MAPPED, FieldMap, identifier, words
from recollect.services.importers.json_stream import values
from recollect.services.importers.objects import fields_at_first
from recollect.services.importers.origin import Origin

CONVERSATIONS = FieldMap(
    "conversation",
    {
        "uuid": "session.id",
        "name": "session.title",
        "summary": "session.summary",
        "created_at": "session.created_at",
        "updated_at": "session.updated_at",
        "account": "session.account: its uuid is the user",
        "chat_messages": "turns.all: a message and a memory (conversation) each",
    },
)
MESSAGES = FieldMap(
    "message",
    {
        "uuid": "message.id: its otid, and the id of the memory",
        "sender": "message.role",
        "text": "message.text",
        "content": "message.parts: tool calls and results; thinking and others as content of the message",
        "created_at": "message.created_at",
        "attachments": "message.attachments: as content of the message",
        "files": "message.files: as content of the message",
        "updated_at": NOT_MAPPED,
        "parent_message_uuid": NOT_MAPPED,
    },
)
USERS = FieldMap(
    "users.json",
    {"uuid": "user.id", "full_name": "user.name", "email_address": "user.email: in the profile data"},
)
PROJECTS = FieldMap(
    "projects.json",
    {
        "uuid": "project.id",
        "name": "project.name",
        "description": "project.description",
        "created_at": "project.created_at",
        "updated_at": "project.updated_at",
        "docs": "docs.all: a memory (fact) each",
    },
)
FILE = "conversations.json"


def recognises(origin: Origin) -> bool:
    if origin.is_folder or origin.is_zip:
        if not origin.has(FILE):
            return False
        with origin.open(FILE) as file:
            first = next((value for _, value in values(file, FILE)), None)
            return isinstance(first, dict) and "chat_messages" in first
    return "chat_messages" in fields_at_first(origin)


def read(reading: Reading) -> Iterator[Entry]:
    yield from _users(reading)
    yield from _projects(reading)
    with reading.origin.open(FILE) as file:
        for number, (_, item) in enumerate(values(file, reading.origin.name), 1):
            if not isinstance(item, dict) or not isinstance(item.get("chat_messages"), list):
                reading.findings.left_out(CONVERSATIONS.what, f"number {number}", "it has no messages")
                continue
            yield from _conversation(reading, item)


def _beside(reading: Reading, name: str) -> Iterator[JsonObject]:
    """The objects of another file of the export, if there is one."""
    if reading.origin.has(name):
        with reading.origin.open(name) as file:
            yield from (value for _, value in values(file, name) if isinstance(value, dict))


def _users(reading: Reading) -> Iterator[Entry]:
    for item in _beside(reading, "users.json"):
        of, rest = USERS.read(item, reading.findings)
        user = of.get("user", {})
        if "id" in user:
            email = user.get("email")
            profile = reading.kept({"email": email} if email else {}, rest)
            name = clipped(user.get("name") or user["id"], 255)
            yield from reading.once(User, user["id"], name=name, profile_data=profile)


def _projects(reading: Reading) -> Iterator[Entry]:
    for item in _beside(reading, "projects.json"):
        of, rest = PROJECTS.read(item, reading.findings)
        project = of.get("project", {})
        if "id" not in project:
            continue
        name = clipped(words(project.pop("name", None) or project["id"]), 255)
        yield from reading.once(Project, **project, name=name)
        for doc in of.get("docs", {}).get("all", []):
            if isinstance(doc, dict) and doc.get("content") and doc.get("uuid"):
                content = {"text": words(doc["content"]), "title": words(doc.get("filename", ""))}
                fields = {"id": words(doc["uuid"]), "content": content, "project": project["id"]}
                yield from reading.memory(fields, {})
        if rest:
            reading.findings.unmapped(PROJECTS.what, ", ".join(rest), "a project has no metadata here", project["id"])


def _conversation(reading: Reading, item: JsonObject) -> Iterator[Entry]:
    of, rest = CONVERSATIONS.read(item, reading.findings)
    session = of.get("session", {})
    if "id" not in session:
        reading.findings.left_out(CONVERSATIONS.what, item.get("name"), "it has no uuid")
        return
    account = session.pop("account", None)
    user = identifier(account["uuid"]) if isinstance(account, dict) and account.get("uuid") else None
    yield from reading.owners({"user": user})
    yield from reading.once(Session, **session, user_id=user, metadata=reading.kept({}, rest))
    turns = (_turn(reading, one) for one in of["turns"]["all"] if isinstance(one, dict))
    yield from turn_entries(reading, turns, session["id"], session.get("created_at"), user=user)


def _turn(reading: Reading, item: JsonObject) -> Turn:
    of, rest = MESSAGES.read(item, reading.findings)
    turn = of.get("message", {})
    parts = [one for one in turn.get("parts", []) if isinstance(one, dict)]
    texts = [one["text"] for one in parts if one.get("type") == "text" and isinstance(one.get("text"), str)]
    attached = [
        {"type": name.removesuffix("s"), **one}
        for name in ("attachments", "files")
        for one in turn.get(name, [])
        if isinstance(one, dict)
    ]
    message = {
        "content": [one for one in parts if one.get("type") not in ("text", "tool_use", "tool_result")] + attached,
        "tool_calls": [one for one in parts if one.get("type") == "tool_use"],
        "tool_returns": [one for one in parts if one.get("type") == "tool_result"],
    }
    text = turn.get("text") or "\n".join(texts)
    return Turn(role_of(turn.get("role")), text, turn.get("created_at"), turn.get("id"), message, rest)


SOURCE = Source(
    "claude",
    "Claude",
    "the zip or folder of an export, or its conversations.json",
    (CONVERSATIONS, MESSAGES, USERS, PROJECTS),
    recognises,
    read,
)
