"""Every operation with another tenant's id, in every field that names a record: as if there were no such thing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from doors import DOORS, doors_of
from probing import MARKER, Place, operations, places, sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.record import RECORDS
from recollect.ports.records import Scope
from recollect.services.admin.copy import content_hash
from seeds import SOAK

pytestmark = pytest.mark.xdist_group("tenants")  # who share the worlds, with the services before them

# Whose ids are always tried, beside the tables that an operation is about: in its first field that names a record, and
# in the others. The rest of the tables take turns by operation and field; all are tried in a soak.
FIRST, FURTHER = {"memory", "user", "agent", "session", "workspace"}, {"memory"}
OTHERWISE = {
    "run": "execution",
    "parent": "execution",
    "since": "snapshot",
    "to": "snapshot",
    "key": "api_key",
    "application": "pattern_use",
}
IN_TEXT = {"memory"}  # where no record is named, less will do
# Of equals, those with smaller ids are shown, and the ids differ: asked before other probes have left much behind.
RANKED = {"recall", "context", "why_not", "show"}


def probes(world: Any, operation: Operation) -> Iterator[tuple[Place, str, str]]:
    """Where a foreign id is put, its table and the id."""
    first = next((place for place in places(operation) if place.names_a_record), None)
    for number, place in enumerate(places(operation)):
        always, every = IN_TEXT, 24
        if place.names_a_record:
            is_first = first is not None and place.label == first.label
            always, every = (FIRST if is_first else FURTHER) | meant(operation, place), 10 if is_first else 20
        for turn, table in enumerate(sorted(world.foreign)):
            if SOAK or table in always or (number + turn + len(operation.name) + 1) % every == 0:
                yield place, table, world.foreign[table]


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
    plain = LONG_HEX.sub("HASH", UUID.sub("NEW-ID", MOMENT.sub("WHEN", _without_noise(json.loads(text)))))
    return RANK.sub("ranks", plain)


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")
STRANGE: set[str] = set()  # ids that look like no other
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


def test_the_other_tenant_has_something_of_every_record(world: Any) -> None:
    """What nobody has cannot leak: a new kind of record goes into tests/filling.py."""
    for organization in ("mine", "theirs"):
        assert [table for table, ids in world.ids(organization).items() if not ids] == []
    assert world.foreign.keys() == RECORDS.keys()


@pytest.mark.parametrize("name", sorted(one.name for one in operations() if places(one)))
def test_a_foreign_id_looks_exactly_like_an_absent_one(name: str, twins: Any) -> None:
    """One world is asked with the other tenant's ids, its twin with ids that nobody has; over every door in turn."""
    operation = OPERATIONS[name]
    world, twin = twins(only_read=name in RANKED)
    before = content_hash(world.core.store, Scope("theirs"))
    used = set()
    for turn, (place, table, foreign) in enumerate(probes(world, operation)):
        absent = _absent(foreign)
        asked = sample(operation, **place.fields(foreign))
        open_to = doors_of(operation, asked)
        door = open_to[turn % len(open_to)]
        told = [
            blurred(door(one, operation, sample(operation, **place.fields(id))), id)
            for one, id in ((world, foreign), (twin, absent))
        ]
        assert told[0] == told[1], f"{door.__name__}: {place.label} with the id of a {table}"
        assert MARKER not in told[0], f"{door.__name__}: {place.label} with the id of a {table}"
        used.add(door)
    assert content_hash(world.core.store, Scope("theirs")) == before
    assert used == set(open_to) or not place.names_a_record


@cache
def _absent(foreign: str) -> str:
    """Of the same shape, in the same place of any order, and always the same for the same id: the end of it differs."""
    width = 6 if len(foreign) > 12 else 2
    made = foreign[:-width] + hashlib.sha256(foreign.encode()).hexdigest()[:width]
    assert made != foreign
    if not UUID.fullmatch(foreign):
        STRANGE.update((foreign, made))
    return made


@pytest.mark.parametrize("name", sorted(one.name for one in operations() if one.permission == "read"))
def test_nothing_of_another_tenant_is_ever_read(name: str, world: Any) -> None:
    operation = OPERATIONS[name]
    texts = ("query", "task", "text", "name", "label")
    fields = {field: MARKER for field in operation.request.model_fields if field in texts}
    asked = sample(operation, **fields)
    for door in doors_of(operation, asked):
        answer = json.dumps(door(world, operation, asked))
        assert MARKER not in answer.replace(f'"{MARKER}"', "").replace(f"'{MARKER}'", ""), door.__name__


def test_every_door_is_open_to_most_operations() -> None:
    """A door that nothing goes through would be tried by nothing."""
    for door in DOORS:
        assert sum(door in doors_of(one, sample(one)) for one in operations()) > 100, door.__name__
