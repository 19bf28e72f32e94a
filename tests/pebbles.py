"""A record type in three versions, and the migrations between them: what an upgrade does to a store with records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pydantic import Field

import recollect.domain  # registers the records
from recollect.adapters.records.common import migrations, sql_compiler, transaction
from recollect.domain.record import RECORDS, Id, JsonList, Record, Reference, Shape, Text, TextIndex, Unique

_OF_TENANT = {"organization_id": Reference("organization")}


class Pebble1(Record):
    shape = Shape("pebble", references=_OF_TENANT, unique=(Unique(("name", "owner_id")),), indexes=(("owner_id",),))
    name: Text
    note: Text | None = None
    owner_id: Id | None = None


class Pebble2(Record):
    """Other keys and indexes, new fields, searched as text."""

    shape = Shape(
        "pebble",
        references=_OF_TENANT,
        unique=(Unique(("note", "owner_id"), nulls_equal=True),),
        indexes=(("note",), ("colour", "id")),
        text=TextIndex(("note", "name"), ("owner_id",)),
    )
    name: Text
    note: Text | None = None
    owner_id: Id | None = None
    colour: Text = "it's grey"
    weight: int = 3
    share: float = 0.5
    is_round: bool = True
    marks: JsonList = Field(default_factory=lambda: ["new", {"n": 1}])
    place: Text | None = None


class Pebble3(Record):
    """Other fields are searched, and the key says again that empty fields differ."""

    shape = Shape(
        "pebble",
        references=_OF_TENANT,
        unique=(Unique(("note", "owner_id")),),
        indexes=(("note",), ("colour", "id")),
        text=TextIndex(("name", "colour")),
    )
    name: Text
    note: Text | None = None
    owner_id: Id | None = None
    colour: Text = "it's grey"
    weight: int = 3
    share: float = 0.5
    is_round: bool = True
    marks: JsonList = Field(default_factory=lambda: ["new", {"n": 1}])
    place: Text | None = None


VERSIONS: tuple[Any, ...] = (Pebble1, Pebble2, Pebble3)
del RECORDS["pebble"]
_RELEASED = migrations.migrations()


@contextmanager
def program(version: int) -> Iterator[Any]:
    """As the program of that version is; gives its type of pebble."""
    history = list(_RELEASED)
    try:
        for number, record in enumerate(VERSIONS[:version]):
            RECORDS["pebble"] = record
            changed = migrations.difference(migrations.built(history), {"pebble": migrations.declared_table(record)})
            checksum = hashlib.sha256(json.dumps(changed).encode()).hexdigest()
            history.append(migrations.Migration(len(history) + 1, f"pebbles_{number + 1}", tuple(changed), checksum))
        _forget_statements()
        with mock.patch.object(migrations, "migrations", return_value=tuple(history)):
            yield VERSIONS[version - 1]
    finally:
        RECORDS.pop("pebble", None)
        _forget_statements()


def _forget_statements() -> None:
    sql_compiler.changes_statement.cache_clear()
    transaction.referrers.cache_clear()


assert recollect.domain
