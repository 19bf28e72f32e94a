"""What was said in a session of a coding agent, read from the transcript that its host keeps.

Claude Code, Codex and Cursor write JSON Lines, Gemini CLI one JSON document; each names things differently and may
change that, so what looks like a message of the user or of the agent is taken, and everything else is left out: results
of tools, reminders and other text that hosts put into the mouth of the user.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

MOST_BYTES = 50_000_000
MOST_MESSAGES = 400
LONGEST_MESSAGE = 8_000
_ROLES: dict[str, Literal["user", "assistant"]] = {
    "user": "user", "human": "user", "assistant": "assistant", "gemini": "assistant", "model": "assistant",
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    role: Literal["user", "assistant"]
    text: str
    id: str


def read_transcript(path: Path) -> list[Said]:
    """The last messages, in order; OSError if it cannot be read."""
    if path.stat().st_size > MOST_BYTES:
        raise OSError(f"the transcript is larger than {MOST_BYTES:,} bytes")
    text = path.read_text(encoding="utf-8", errors="replace")
    said = [
        Said(role, words, _id_of(entry, place))
        for place, entry in enumerate(_entries(text))
        if (role := _role_of(entry)) is not None and (words := _words_of(entry))
    ]
    return [one for one in said if len(one.text) <= LONGEST_MESSAGE][-MOST_MESSAGES:]


def _entries(text: str) -> Iterable[Mapping[str, Any]]:
    try:
        whole = json.loads(text)
    except ValueError:
        return list(_lines(text))
    found = whole.get("messages", [whole]) if isinstance(whole, dict) else whole
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _lines(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the last line may be half written
            continue
        if isinstance(entry, dict):
            payload = entry.get("payload")
            yield payload if isinstance(payload, dict) and payload.get("type") == "message" else entry


def _role_of(entry: Mapping[str, Any]) -> Literal["user", "assistant"] | None:
    if entry.get("isMeta") or entry.get("isSidechain") or "toolUseResult" in entry:
        return None
    message = entry.get("message")
    inner = message if isinstance(message, dict) else {}
    for name in (inner.get("role"), entry.get("role"), entry.get("type")):
        if isinstance(name, str) and name in _ROLES:
            return _ROLES[name]
    return None


def _words_of(entry: Mapping[str, Any]) -> str:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else message or entry.get("content")
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    kept = (text.strip() for text in texts if isinstance(text, str))
    return "\n".join(text for text in kept if text and not text.startswith("<"))  # tags are the host's words


def _id_of(entry: Mapping[str, Any], place: int) -> str:
    named = entry.get("uuid") or entry.get("id")
    return named[:200] if isinstance(named, str) and named else str(place)
