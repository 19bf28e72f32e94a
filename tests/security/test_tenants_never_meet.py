"""Every operation with another tenant's id, in every field that names a record: as if there were no such thing."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from doors import DOORS, Door, by_command, doors_of
from likeness import absent_like, blurred, meant
from probing import MARKER, Place, operations, places, sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.record import RECORDS
from recollect.ports.records import Scope
from recollect.services.admin.copy import content_hash
from seeds import SOAK

pytestmark = pytest.mark.together("tenants")  # who share the worlds, with the services before them

# Whose ids are always tried, beside the tables that an operation is about: in its first field that names a record, and
# in the others. The rest of the tables take turns by operation and field; all are tried in a soak.
FIRST, FURTHER = {"memory", "user", "agent", "session", "workspace"}, {"memory"}
IN_TEXT = {"memory"}  # where no record is named, less will do
# Of equals, those with smaller ids are shown, and the ids differ: asked before other probes have left much behind.
RANKED = {"recall", "context", "why_not", "show", "list", "privacy.find"}


def probes(world: Any, operation: Operation) -> Iterator[tuple[Place, str, str]]:
    """Where a foreign id is put, its table and the id."""
    first = next((place for place in places(operation) if place.names_a_record), None)
    for number, place in enumerate(places(operation)):
        always, every = IN_TEXT, 96
        if place.names_a_record:
            is_first = first is not None and place.label == first.label
            always, every = (FIRST if is_first else FURTHER) | meant(operation, place), 40 if is_first else 80
        for turn, table in enumerate(sorted(world.foreign)):
            if SOAK or table in always or (number + turn + len(operation.name) + 1) % every == 0:
                yield place, table, world.foreign[table]


def test_the_other_tenant_has_something_of_every_record(world: Any) -> None:
    """What nobody has cannot leak: a new kind of record goes into tests/filling.py."""
    for organization in ("mine", "theirs"):
        assert [table for table, ids in world.ids(organization).items() if not ids] == []
    assert world.foreign.keys() == RECORDS.keys()


@pytest.mark.parametrize("name", sorted(one.name for one in operations() if places(one)))
def test_a_foreign_id_looks_exactly_like_an_absent_one(name: str, twins: Any) -> None:
    """One world is asked with the other tenant's ids, its twin with ids that nobody has; over every door in turn.

    A command opens the store each time: in a soak it takes its turn every time, else once in each operation.
    """
    operation = OPERATIONS[name]
    world, twin = twins(only_read=name in RANKED)
    before = world.theirs_at_first
    used: Counter[Door] = Counter()
    for place, table, foreign in probes(world, operation):
        absent = absent_like(foreign)
        asked = sample(operation, **place.fields(foreign))
        open_to = doors_of(operation, asked)
        door = min(open_to, key=lambda one: math.inf if used[one] and one is by_command and not SOAK else used[one])
        told = [
            blurred(door(one, operation, sample(operation, **place.fields(id))), id)
            for one, id in ((world, foreign), (twin, absent))
        ]
        assert told[0] == told[1], f"{door.__name__}: {place.label} with the id of a {table}"
        assert MARKER not in told[0], f"{door.__name__}: {place.label} with the id of a {table}"
        used[door] += 1
    assert content_hash(world.core.store, Scope("theirs")) == before
    assert used.keys() == set(open_to) or not place.names_a_record


@pytest.mark.parametrize("name", sorted(one.name for one in operations() if one.permission == "read"))
def test_nothing_of_another_tenant_is_ever_read(name: str, only_read: Any) -> None:
    """In a world where nobody typed the marker themselves, as the id of somebody new, say."""
    world, operation = only_read[0], OPERATIONS[name]
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
