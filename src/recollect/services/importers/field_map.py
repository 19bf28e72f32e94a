"""Field maps: which field of a source becomes which field of ours, declared once for code, report and docs.

A map reads one object of the source. Each value is converted for the field it goes to; one that does not fit, and
every field that the map does not name, stays with the rest, which is kept in the metadata and reported.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from recollect.domain.record import DEEPEST_JSON, RECORDS, Id, JsonObject
from recollect.services.importers.findings import KEPT, Findings
from recollect.services.request_limits import MOST_TAGS

LONGEST_TAG = 64
DEEPEST = DEEPEST_JSON - 10  # it may be put a little deeper here
_ID: TypeAdapter[str] = TypeAdapter(Id)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
NOT_MAPPED = "-"
"""The target of a field that is known and not needed here, such as a checksum that is made anew."""


class Mapped(NamedTuple):
    """The values of one object, by our record and field, and what is left."""

    of: dict[str, JsonObject]
    rest: JsonObject


@dataclass(frozen=True, slots=True)
class FieldMap:
    what: str
    """What the source calls it."""
    fields: Mapping[str, str]
    """Its fields, and for each ours: `memory.created_at`; several things at once are in words after a colon."""

    def in_words(self, name: str) -> str:
        """What becomes of a field, for people."""
        place, _, told = self.fields[name].partition(": ")
        if place == NOT_MAPPED:
            return "not needed"
        record, _, field = place.partition(".")
        if record == "content":
            return f"`memory.content.{field}`"
        is_field = record in RECORDS and field in RECORDS[record].model_fields
        return ": ".join(part for part in (f"`{place}`" if is_field or not told else "", told) if part)

    def read(self, item: Mapping[str, object], findings: Findings) -> Mapped:
        of: dict[str, JsonObject] = {}
        rest: JsonObject = {}
        for name, given in item.items():
            target = self.fields.get(name)
            if target == NOT_MAPPED or given is None or given in ("", [], {}):
                continue
            value = clean(given)
            if target is None:
                rest[str(clean(str(name)))] = value
                findings.unmapped(self.what, str(clean(str(name))), KEPT, _label(item))
                continue
            record, _, field = target.partition(":")[0].partition(".")
            try:
                found = _CONVERTED[field](value) if field in _CONVERTED else value
            except (ValueError, OverflowError) as error:
                rest[name] = value if field != "vector" else None
                findings.unmapped(
                    self.what, name, f"{error}; it is kept in the metadata, under `imported`", _label(item)
                )
                continue
            _put(of.setdefault(record, {}), field, found)
        return Mapped(of, rest)


def _put(fields: JsonObject, field: str, value: object) -> None:
    """Two fields of a source may go to one of ours: objects and lists are joined, of others the first counts."""
    before = fields.get(field)
    if isinstance(before, dict) and isinstance(value, dict):
        fields[field] = {**before, **value}
    elif isinstance(before, list) and isinstance(value, list) and field == "tags":
        fields[field] = [*before, *value][:MOST_TAGS]
    elif before is None:
        fields[field] = value


def _label(item: Mapping[str, object]) -> object:
    return next((item[name] for name in item if str(name).lower().endswith(("id", "name")) and item[name]), "")


def clean(value: object, depth: int = 0) -> object:
    """Without what no store can keep: NUL characters, lone halves of characters, and what is nested too deeply."""
    if isinstance(value, str):
        if not _UNSTORABLE.search(value):
            return value
        return value.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict | list | tuple) and depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {str(clean(str(name))): clean(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner, depth + 1) for inner in value]
    return value


def moment(value: object) -> datetime:
    """ISO 8601, seconds or milliseconds since 1970; without a zone in UTC."""
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        try:
            found = datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
        except OSError:
            raise ValueError("it is not a time") from None
    elif isinstance(value, str):
        text = value.strip()
        if text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) > 8:
            return moment(float(text))
        try:
            found = datetime.fromisoformat(text.removesuffix(" UTC"))
        except ValueError:
            raise ValueError("it is not a time") from None
    else:
        raise ValueError("it is not a time")
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def identifier(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("it is not an id")
    try:
        return _ID.validate_python(str(value))
    except ValidationError:
        raise ValueError("it is not an id of 1 to 255 printable characters") from None


def words(value: object) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def decoded(value: object) -> object:
    """JSON that a database has as text."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found


def json_object(value: object) -> JsonObject:
    found = decoded(value)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def tags(value: object) -> list[str]:
    found = decoded(value)
    listed = found.split(",") if isinstance(found, str) else found
    if not isinstance(listed, list):
        raise ValueError("it is not a list of tags")
    names = dict.fromkeys(str(one).strip().removeprefix("#") for one in listed if str(one).strip())
    if len(names) > MOST_TAGS or any(len(one) > LONGEST_TAG for one in names):
        raise ValueError(f"it has more than {MOST_TAGS} tags, or one of more than {LONGEST_TAG} characters")
    return list(names)


def vector(value: object) -> list[float]:
    """Numbers, as JSON or as the bytes of 32-bit floats."""
    found = decoded(value)
    if isinstance(found, bytes) and found and len(found) % 4 == 0:
        found = list(struct.unpack(f"<{len(found) // 4}f", found))
    if not isinstance(found, list) or not found:
        raise ValueError("it is not a vector")
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in found):
        raise ValueError("it is not a vector of finite numbers")
    if not any(found):
        raise ValueError("it is a vector without a direction")
    return [float(one) for one in found]


def truth(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "1", "yes", "t")
    return bool(value)


_MOMENTS = ("created_at", "updated_at", "expires_at", "ended_at", "at", "valid_from", "valid_to")
_IDS = ("id", "user", "agent", "session", "user_id", "agent_id", "session_id")
_CONVERTED: dict[str, Callable[[object], object]] = {
    **dict.fromkeys(_MOMENTS, moment),
    **dict.fromkeys(_IDS, identifier),
    **dict.fromkeys(("metadata", "preferences", "profile_data", "state_data"), json_object),
    **dict.fromkeys(("title", "summary", "source_agent", "author", "name", "role", "text", "model"), words),
    "tags": tags,
    "vector": vector,
    "is_archived": truth,
}
