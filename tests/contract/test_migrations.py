"""The migrations make exactly what the records declare, and a released one is never edited."""

from __future__ import annotations

import json
from pathlib import Path

import recollect.domain  # noqa: F401 - registers the records
from recollect.adapters.records import schema
from recollect.domain.record import RECORDS

PINS = Path(__file__).parent / "released_migrations.txt"


def of_the_model(tables: schema.Tables) -> schema.Tables:
    """Without what other tests may have declared."""
    ours = {table for table, record in RECORDS.items() if record.__module__.startswith("recollect.domain")}
    return {name: table for name, table in tables.items() if name in ours}


def test_the_migrations_build_what_is_declared() -> None:
    assert schema.difference(schema.built(schema.migrations()), of_the_model(schema.declared())) == []


def test_building_leaves_the_migrations_as_they_are() -> None:
    before = json.dumps([migration.steps for migration in schema.migrations()])
    schema.built(schema.migrations())
    schema.built(schema.migrations())
    assert json.dumps([migration.steps for migration in schema.migrations()]) == before


def test_the_migrations_build_nothing_else() -> None:
    built, declared = schema.built(schema.migrations()), of_the_model(schema.declared())
    assert set(built) == set(declared)
    for name, table in declared.items():
        assert {tuple(column) for column in built[name]["columns"]} == {tuple(column) for column in table["columns"]}
        assert built[name]["unique"] == table["unique"]
        assert sorted(built[name]["indexes"]) == sorted(table["indexes"])


def test_a_declared_field_that_no_migration_makes_is_noticed() -> None:
    declared = of_the_model(schema.declared())
    table = declared["user"]
    wider = {**declared, "user": {**table, "columns": [*table["columns"], ["shoe_size", "integer", True]]}}
    assert schema.difference(schema.built(schema.migrations()), wider) == [
        {"do": "add_column", "table": "user", "column": ["shoe_size", "integer", True]}
    ]


def test_migrations_are_numbered_without_gaps_and_named_by_their_number() -> None:
    assert [migration.number for migration in schema.migrations()] == list(range(1, len(schema.migrations()) + 1))
    folder = Path(schema.__file__).parent / "migrations"
    names = [f"{migration.number:04d}_{migration.name}.json" for migration in schema.migrations()]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_every_reference_leads_to_a_declared_table() -> None:
    declared = of_the_model(schema.declared())
    for table in declared:
        for field, reference in RECORDS[table].shape.references.items():
            assert reference.to in declared, f"{table}.{field}"
            column = next(column for column in RECORDS[table].columns() if column.name == field)
            assert column.nullable or reference.on_delete == "cascade", f"{table}.{field} cannot be cleared"


def test_a_released_migration_is_never_edited() -> None:
    lines = [line.split() for line in PINS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    pins = {int(number): checksum for number, checksum in lines}
    assert sorted(pins) == list(range(1, len(pins) + 1))
    known = {migration.number: migration.checksum for migration in schema.migrations()}
    assert {number: known.get(number) for number in pins} == pins
