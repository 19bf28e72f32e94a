"""Exports of ChatGPT: conversations.json, in the zip or folder it came in or alone.

A conversation is a tree, since messages can be edited and answers made again; the branch that was shown last is
imported, and the report counts the messages of others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from recollect.domain.conversations import Session
from recollect.domain.record import JsonObject
from recollect.domain.tenancy import User
from recollect.services.importers.conversation import Turn, role_of, turn_entries
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import NOT_MAPPED, FieldMap, words
from recollect.services.importers.json_stream import values
from recollect.services.importers.objects import fields_at_first
from recollect.services.importers.origin import Origin

CONVERSATIONS = FieldMap(
    "conversation",
    {
        "id": "session.id",
        "conversation_id": "session.id",
        "title": "session.title",
        "create_time": "session.created_at",
        "update_time": "session.updated_at",
        "is_archived": "session.is_archived",
        "mapping": "turns.all: of the branch shown last, a message and a memory (conversation) each",
        "current_node": "turns.last: names that branch",
    },
)
MESSAGES = FieldMap(
    "message",
    {
        "id": "message.id: its otid, and the id of the memory",
        "author": "message.by: its role, and the name of a tool",
        "create_time": "message.created_at",
        "content": "message.content: the text; images and other parts as content of the message",
        "metadata": "message.details: the model of the message; the rest is kept",
        "recipient": "message.to: a message to a tool is a tool call",
        "update_time": NOT_MAPPED,
        "status": NOT_MAPPED,
        "end_turn": NOT_MAPPED,
        "weight": NOT_MAPPED,
        "channel": NOT_MAPPED,
    },
)
USERS = FieldMap("user.json", {"id": "user.id", "name": "user.name", "email": "user.email: in the profile data"})
FILE = "conversations.json"


def recognises(origin: Origin) -> bool:
    if origin.is_folder or origin.is_zip:
        return origin.has(FILE) and _first_fields(origin) >= {"mapping"}
    return {"mapping", "title"} <= fields_at_first(origin)


def _first_fields(origin: Origin) -> set[str]:
    with origin.open(FILE) as file:
        first = next((value for _, value in values(file, FILE)), None)
        return set(first) if isinstance(first, dict) else set()


def read(reading: Reading) -> Iterator[Entry]:
    user = yield from _user(reading)
    with reading.origin.open(FILE) as file:
        for number, (_, item) in enumerate(values(file, reading.origin.name), 1):
            if not isinstance(item, dict) or not isinstance(item.get("mapping"), dict):
                reading.findings.left_out(CONVERSATIONS.what, f"number {number}", "it has no messages")
                continue
            yield from _conversation(reading, item, user)


def _user(reading: Reading) -> Generator[Entry, None, str | None]:
    """Whose account it is, where the export says so."""
    if not reading.origin.has("user.json"):
        return None
    with reading.origin.open("user.json") as file:
        found = next((value for _, value in values(file, "user.json")), None)
    of, rest = USERS.read(found if isinstance(found, dict) else {}, reading.findings)
    account = of.get("user", {})
    if "id" not in account:
        return None
    email = account.pop("email", None)
    profile = reading.kept({"email": email} if email else {}, rest)
    yield from reading.once(User, account["id"], name=account.get("name") or account["id"], profile_data=profile)
    return str(account["id"])


def _conversation(reading: Reading, item: JsonObject, user: str | None) -> Iterator[Entry]:
    of, rest = CONVERSATIONS.read(item, reading.findings)
    session, turns = of.get("session", {}), of.get("turns", {})
    if "id" not in session:
        reading.findings.left_out(CONVERSATIONS.what, item.get("title"), "it has no id")
        return
    yield from reading.once(Session, **session, user_id=user, metadata=reading.kept({}, rest))
    said = (_turn(reading, node) for node in _branch(reading, turns["all"], turns.get("last")))
    yield from turn_entries(reading, (one for one in said if one), session["id"], session.get("created_at"), user=user)


def _branch(reading: Reading, nodes: JsonObject, last: object) -> list[JsonObject]:
    """The nodes from the root to the one that was shown last."""
    if not isinstance(last, str) or last not in nodes:
        last = next(reversed(nodes), None)
    branch: list[JsonObject] = []
    seen: set[object] = set()
    while isinstance(last, str) and last not in seen and isinstance(node := nodes.get(last), dict):
        seen.add(last)
        branch.append(node)
        last = node.get("parent")
    others = [id for id, node in nodes.items() if id not in seen and isinstance(node, dict) and node.get("message")]
    for id in others:
        reading.findings.left_out(MESSAGES.what, id, "it is on another branch: an edited message or another answer")
    return branch[::-1]


def _turn(reading: Reading, node: JsonObject) -> Turn | None:
    item = node.get("message")
    if not isinstance(item, dict):
        return None
    of, rest = MESSAGES.read(item, reading.findings)
    turn = of.get("message", {})
    details, author = _object(turn.get("details")), _object(turn.get("by"))
    text, parts = _said(turn.get("content"))
    if not text.strip() and not parts:  # ChatGPT makes empty messages for its own use
        return None
    message: JsonObject = {"content": parts} if parts else {}
    if isinstance(author.get("name"), str):
        message["name"] = author["name"]
    if isinstance(details.get("model_slug"), str):
        message["model"] = details.pop("model_slug")
    hidden = bool(details.get("is_visually_hidden_from_conversation"))
    for name in details:
        reading.findings.unmapped(MESSAGES.what, f"metadata.{name}", example=turn.get("id"))
    rest |= {"metadata": details} if details else {}
    is_call = turn.get("to") not in (None, "all")
    if is_call:
        message["tool_calls"] = [{"name": words(turn["to"]), "arguments": text}]
    return Turn(
        role_of(author.get("role"), "system"),
        text,
        turn.get("created_at"),
        turn.get("id"),
        message,
        rest,
        is_said=not is_call and not hidden,
    )


def _object(value: object) -> JsonObject:
    return {name: inner for name, inner in value.items() if inner} if isinstance(value, dict) else {}


def _said(content: object) -> tuple[str, list[JsonObject]]:
    """The text of a message, and its parts that are not text."""
    if not isinstance(content, dict):
        return (words(content) if content else ""), []
    texts: list[str] = []
    parts: list[JsonObject] = []
    listed = content.get("parts")
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict):
            texts += [one["text"]] if isinstance(one.get("text"), str) else []
            parts.append({"type": words(one.get("content_type", "part")), **one})
    texts += [content[name] for name in ("text", "result") if isinstance(content.get(name), str)]
    known = {"content_type", "parts", "text", "result", "language", "response_format_name"}
    more = {name: value for name, value in content.items() if name not in known and value}
    if more:
        parts.append({"type": words(content.get("content_type", "part")), **more})
    return "\n".join(one for one in texts if one), parts


SOURCE = Source(
    "chatgpt",
    "ChatGPT",
    "the zip or folder of an export, or its conversations.json",
    (CONVERSATIONS, MESSAGES, USERS),
    recognises,
    read,
)
