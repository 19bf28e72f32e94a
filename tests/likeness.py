"""Whether two answers are alike, and ids that are like others: for probes with ids of others and with absent ones."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from typing import Any

from probing import Place
from recollect.catalogue import Operation
from recollect.domain.record import RECORDS

OTHERWISE = {
    "run": "execution",
    "parent": "execution",
    "since": "snapshot",
    "to": "snapshot",
    "key": "api_key",
    "application": "pattern_use",
}


def meant(operation: Operation, place: Place) -> set[str]:
    """The tables that an id is most likely looked for in: those called like the group or the field."""
    words = {OTHERWISE.get(word, word) for word in (operation.group, place.label.strip("[]"))}
    return {table for table in RECORDS for word in words if word and word in table}


def blurred(answer: Any, id: str) -> Any:
    """An answer without what differs from one call to the next: new ids, times and hashes."""
    text = json.dumps(answer, sort_keys=True).replace(id, "THE-ID")
    for strange in STRANGE:  # an earlier call took it as an id of its own
        text = text.replace(json.dumps(strange), f'"{UUID_ZERO}"')
        if len(strange) > 12:  # or into a text of its own
            text = text.replace(json.dumps(strange)[1:-1], UUID_ZERO)
    plain = LONG_HEX.sub("HASH", NUMBERED.sub("NEW-ID", MOMENT.sub("WHEN", _without_noise(json.loads(text)))))
    return PSEUDONYM.sub("erased", RANK.sub("ranks", plain))


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NUMBERED = re.compile(rf"{UUID.pattern}(?::\d+)?")  # also of a line of something
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")
STRANGE: set[str] = set()  # ids that look like no other
UUID_ZERO = "00000000-0000-0000-0000-000000000000"
RANK = re.compile(r"ranks \d+")  # equals are ranked by their ids
PSEUDONYM = re.compile(r"erased-[0-9a-f]{12}")  # another in every store
LONG_HEX = re.compile(r"[0-9a-f]{16,}")
NOISE = {"at", "rank", "request_id", "timestamp", "seq", "key", "next", "ms", "seconds", "peak_bytes"}
NOISE |= {"public_key", "signature", "pseudonym", "scan", "anchor", "seals"}


def _unmarked(value: Any) -> tuple[str, bool]:
    text = json.dumps(value, sort_keys=True)
    return UUID.sub("", text.replace("THE-ID", "")), "THE-ID" in text


def _without_noise(value: Any) -> str:
    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: one for name, one in value.items() if name not in NOISE and not name.endswith("_at")}
            return {name: cleaned(one) for name, one in kept.items()}
        if isinstance(value, list):  # in no order: lists are sorted by ids, and the ids differ
            return sorted((cleaned(one) for one in value), key=_unmarked)
        return value

    return json.dumps(cleaned(value), sort_keys=True)


@cache
def absent_like(foreign: str) -> str:
    """Of the same shape, in the same place of any order, and always the same for the same id: the end of it differs."""
    width = 6 if len(foreign) > 12 else 2
    made = foreign[:-width] + hashlib.sha256(foreign.encode()).hexdigest()[:width]
    assert made != foreign
    if not UUID.fullmatch(foreign):
        STRANGE.update((foreign, made))
    return made
