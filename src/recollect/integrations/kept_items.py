"""Messages of other programs as messages of ours, which come back exactly as they went in.

A message carries the text that a person would read, which is what search finds, and beside it the whole item as JSON,
under the name of the framework it is from.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recollect.errors import InvalidInput
from recollect.integrations.storable_text import clipped

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.services.conversations.messages import MessageView

MOST_KEPT = 800_000  # characters of an item; a message of ours has room for some more


def kept(item: Json, type: str) -> Json:
    """The item as a part of a message; as JSON in a text, with everything escaped, where no store can keep it."""
    try:
        written = json.dumps(item)
    except TypeError:
        raise InvalidInput("an item of the conversation is not JSON", remedy="give items as the SDK does") from None
    return {"type": type, **({"item": json.loads(written)} if _is_storable(item) else {"json": written})}


def kept_if_it_fits(item: Json, type: str) -> Json:
    """The same, but of an item with a large file only the size: what was said around it must not fail for it."""
    part = kept(item, type)
    size = len(json.dumps(part))
    return part if size <= MOST_KEPT else {"type": type, "left_out": f"{size} characters"}


def given_back(message: MessageView, type: str) -> Any | None:
    """The item that a message was made of; None for a message that came another way."""
    for part in message.content:
        if isinstance(part, dict) and part.get("type") == type and "left_out" not in part:
            return part["item"] if "item" in part else json.loads(part["json"])
    return None


def searchable(text: str) -> str | None:
    """The text of a message, as far as it is found by its words; None where there is none."""
    return clipped(text) or None


def _is_storable(item: Json) -> bool:
    try:
        written = json.dumps(item, ensure_ascii=False, allow_nan=False)
        return "\\u0000" not in written and bool(written.encode())
    except ValueError:
        return False  # not a number, or half a character
