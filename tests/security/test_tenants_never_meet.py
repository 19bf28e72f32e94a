"""Every operation with another tenant's id, in every field that names a record: as if there were no such thing."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import Any

import pytest

from probing import MARKER, id_fields, operations, sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.record import new_id
from recollect.errors import RecollectError
from recollect.interfaces.remote import _wired
from recollect.ports.records import Scope
from recollect.services.copying import content_hash

SOAK = bool(os.environ.get("RECOLLECT_SOAK"))
ALWAYS = {"memory", "user", "agent", "session", "workspace"}  # the ids of other tables take turns, all in a soak
# Of equals, those with smaller ids are shown, and the ids differ: asked before other probes have left much behind.
RANKED = {"recall", "context", "why_not", "show"}
PLACES = [(one.name, field, many) for one in operations() for field, many in id_fields(one)]


def over_http(world: Any, operation: Operation, fields: dict[str, Any]) -> Any:
    method, path, body = _wired(operation, dict(fields))
    headers = {"content-type": "application/json", "authorization": f"Bearer {world.key()}"}
    answer = world.http.request(method, path, content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    return answer.status_code, answer.json()


def in_process(world: Any, operation: Operation, fields: dict[str, Any]) -> Any:
    try:
        return world.mine.call(operation.name, **fields).model_dump(mode="json")
    except RecollectError as error:
        return error.as_dict()


def over_mcp(world: Any, operation: Operation, fields: dict[str, Any]) -> Any:
    return world.tool(world.key(), operation.name, fields)


def blurred(answer: Any, id: str) -> Any:
    """An answer without what differs from one call to the next: new ids, times and hashes."""
    text = json.dumps(answer, sort_keys=True).replace(id, "THE-ID")
    text = text.replace('"id": "theirs"', f'"id": "{UUID_ZERO}"')  # an earlier call took it as an id of its own
    plain = LONG_HEX.sub("HASH", UUID.sub("NEW-ID", _without_noise(json.loads(text))))
    return RANK.sub("ranks", plain)


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UUID_ZERO = "00000000-0000-0000-0000-000000000000"
RANK = re.compile(r"ranks \d+")  # equals are ranked by their ids
LONG_HEX = re.compile(r"[0-9a-f]{16,}")
NOISE = {"at", "rank", "request_id", "timestamp", "seq", "key", "next", "ms", "seconds"}


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


@pytest.mark.parametrize("name", sorted({name for name, _, _ in PLACES}))
def test_a_foreign_id_looks_exactly_like_an_absent_one(name: str, twins: Any) -> None:
    """One world is asked with the other tenant's ids, its twin with ids that nobody has."""
    operation = OPERATIONS[name]
    world, twin = twins(fresh=name in RANKED)
    before = content_hash(world.core.store, Scope("theirs"))
    doors = (over_http, in_process, over_mcp)
    for place, (field, many) in enumerate((field, many) for one, field, many in PLACES if one == name):
        for turn, (table, ids) in enumerate(sorted(world.ids("theirs").items())):
            if not SOAK and table not in ALWAYS and (place + turn + len(name)) % 4:
                continue
            for foreign in ids[:1]:
                door, absent = doors[(place + turn) % 3], _absent(foreign)
                told = [
                    blurred(door(asked, operation, sample(operation, **{field: [id] if many else id})), id)
                    for asked, id in ((world, foreign), (twin, absent))
                ]
                assert told[0] == told[1], f"{field} of {table} {foreign}"
                assert MARKER not in told[0]
    assert content_hash(world.core.store, Scope("theirs")) == before


@cache
def _absent(foreign: str) -> str:
    """Always the same for the same id, so that both worlds live through the same."""
    return new_id()


@pytest.mark.parametrize("name", sorted(one.name for one in operations() if one.permission == "read"))
def test_nothing_of_another_tenant_is_ever_read(name: str, world: Any) -> None:
    operation = OPERATIONS[name]
    texts = ("query", "task", "text", "name", "label")
    fields = {field: MARKER for field in operation.request.model_fields if field in texts}
    answer = json.dumps(over_http(world, operation, sample(operation, **fields)))
    assert MARKER not in answer.replace(f'"{MARKER}"', "").replace(f"'{MARKER}'", "")
