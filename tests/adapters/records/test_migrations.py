"""The migrations make exactly what the records declare, and a released one is never edited."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import recollect.domain  # noqa: F401 - registers the records
from every_store import EVERY_STORE
from recollect.adapters.records.common import ddl, migrations
from recollect.adapters.records.sqlite.connection import connect
from recollect.app.stores import examine_store, record_store
from recollect.domain.record import RECORDS
from recollect.errors import StoreError

PINS = Path(__file__).parent / "released_migrations.txt"


def of_the_model(tables: migrations.Tables) -> migrations.Tables:
    """Without what other tests may have declared."""
    ours = {table for table, record in RECORDS.items() if record.__module__.startswith("recollect.domain")}
    return {name: table for name, table in tables.items() if name in ours}


def test_the_migrations_build_what_is_declared() -> None:
    assert migrations.difference(migrations.built(migrations.migrations()), of_the_model(migrations.declared())) == []


def test_building_leaves_the_migrations_as_they_are() -> None:
    before = json.dumps([migration.steps for migration in migrations.migrations()])
    migrations.built(migrations.migrations())
    migrations.built(migrations.migrations())
    assert json.dumps([migration.steps for migration in migrations.migrations()]) == before


def test_the_migrations_build_nothing_else() -> None:
    built, declared = migrations.built(migrations.migrations()), of_the_model(migrations.declared())
    assert set(built) == set(declared)
    for name, table in declared.items():
        assert {tuple(column) for column in built[name]["columns"]} == {tuple(column) for column in table["columns"]}
        assert built[name]["unique"] == table["unique"]
        assert sorted(built[name]["indexes"]) == sorted(table["indexes"])


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_new_store_has_the_tables_that_all_migrations_in_turn_would_make(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, in_turn = ((tmp_path / name) for name in ("at-once", "in-turn"))
    for folder in (at_once, in_turn):
        folder.mkdir()
        record_store(EVERY_STORE[kind](folder))[0].close()
        monkeypatch.setattr(ddl.Ddl, "make", lambda self, run: [])
    shape = shape_of(kind, at_once)
    assert all(shape)
    assert shape == shape_of(kind, in_turn)


def shape_of(kind: str, folder: Path) -> list[list[tuple[object, ...]]]:
    """The columns in their order, the indexes and the migrations; not what older rows would be filled with."""
    migrated = "SELECT number, name, checksum FROM recollect_migrations ORDER BY number"
    if kind == "duckdb":
        columns = "SELECT table_name, column_index, column_name, data_type, is_nullable FROM duckdb_columns()"
        indexes = "SELECT table_name, index_name, sql FROM duckdb_indexes() ORDER BY ALL"
        with duckdb.connect(str(folder / "store.duckdb"), read_only=True) as file:
            asked = (f"{columns} WHERE NOT internal ORDER BY ALL", indexes, migrated)
            return [file.execute(query).fetchall() for query in asked]
    columns = "SELECT t.name, c.cid, c.name, c.type, c.'notnull' FROM sqlite_schema t, pragma_table_info(t.name) c"
    indexes = "SELECT tbl_name, name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY 1, 2"
    with closing(connect(folder / "store.db", writable=False)) as connection:
        asked = (f"{columns} WHERE t.type = 'table' ORDER BY 1, 2", indexes, migrated)
        return [connection.execute(query).fetchall() for query in asked]


def test_a_declared_field_that_no_migration_makes_is_noticed() -> None:
    declared = of_the_model(migrations.declared())
    table = declared["user"]
    wider = {**declared, "user": {**table, "columns": [*table["columns"], ["shoe_size", "integer", True]]}}
    assert migrations.difference(migrations.built(migrations.migrations()), wider) == [
        {"do": "add_column", "table": "user", "column": ["shoe_size", "integer", True]}
    ]


def test_migrations_are_numbered_without_gaps_and_named_by_their_number() -> None:
    assert [migration.number for migration in migrations.migrations()] == list(
        range(1, len(migrations.migrations()) + 1)
    )
    folder = Path(migrations.__file__).parents[1] / "migrations"
    names = [f"{migration.number:04d}_{migration.name}.json" for migration in migrations.migrations()]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_every_reference_leads_to_a_declared_table() -> None:
    declared = of_the_model(migrations.declared())
    for table in declared:
        for field, reference in RECORDS[table].shape.references.items():
            assert reference.to in declared, f"{table}.{field}"
            column = next(column for column in RECORDS[table].columns() if column.name == field)
            assert column.nullable or reference.on_delete == "cascade", f"{table}.{field} cannot be cleared"


def pinned() -> dict[int, str]:
    """The checksum of every released migration."""
    lines = [line.split() for line in PINS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {int(number): checksum for number, checksum, _ in lines}


def unlike_the_pins(known: dict[int, str]) -> list[int]:
    """The released migrations that were edited or removed."""
    return [number for number, checksum in pinned().items() if known.get(number) != checksum]


def test_a_released_migration_is_never_edited_or_removed() -> None:
    known = {migration.number: migration.checksum for migration in migrations.migrations()}
    assert sorted(pinned()) == list(range(1, len(pinned()) + 1))
    assert unlike_the_pins(known) == []
    edited = migrations._read(b'{"number": 2, "name": "edited", "steps": []}')
    assert unlike_the_pins({**known, 2: edited.checksum}) == [2]
    assert unlike_the_pins({number: checksum for number, checksum in known.items() if number != 2}) == [2]


def test_what_a_release_makes_is_pinned_in_order_of_release() -> None:
    versions = [line.split()[2] for line in PINS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")])


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_a_store_of_other_migrations_says_what_to_do_and_is_left_as_it_is(kind: str, tmp_path: Path) -> None:
    address = EVERY_STORE[kind](tmp_path)
    record_store(address)[0].close()
    first, second, *rest = migrations.migrations()
    edited = dataclasses.replace(second, checksum="0" * 64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda: (first, edited, *rest))
        for _ in range(2):
            with pytest.raises(StoreError, match=r"recollect export.*version that made it.*recollect import"):
                record_store(address)[0].close()
        with pytest.raises(StoreError, match="migration 2 is not the one"):
            examine_store(address)
    record_store(address)[0].close()
