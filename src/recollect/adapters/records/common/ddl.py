"""Migrations and text indexes of the SQL stores, written once; a store says only what its database spells otherwise.

A step is turned into statements with the table as it was before it, so that a key or an index that is added later is
the same as one that was there from the beginning. Text indexes are no part of it: they are derived from the records,
and each store makes them after the last migration wherever its mark is not the one that is wanted (`text_marks`). That
makes one again when its fields or facets change, when other words are made of a text
(`domain/text/tokenizer.py:VERSION`), and when whoever made it was killed before it was whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from recollect.adapters.records.common import migrations
from recollect.adapters.records.common.dialect import Run, Values, json_text
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.domain.record import RECORDS, ColumnType, Record, now
from recollect.domain.text import tokenizer
from recollect.errors import StoreError

MARK = "text:"
"""How the keys of the marks begin, in a store's own table of values."""

Table = Mapping[str, Any]


def text_marks(maker: str) -> dict[str, str]:
    """What each text index is made of, by its table; `maker` is how the store itself keeps terms."""
    tables = migrations.built(migrations.migrations())
    return {name: _mark(maker, table["text"]) for name, table in sorted(tables.items()) if table["text"]}


def _mark(maker: str, text: Table) -> str:
    made_of = json.dumps([tokenizer.VERSION, maker, text["fields"], text["facets"]])
    return hashlib.sha256(made_of.encode()).hexdigest()[:16]


def marks(run: Run) -> dict[str, str]:
    """What the text indexes that are there were made of."""
    kept = run(f"SELECT key, value FROM recollect_store WHERE substr(key, 1, {len(MARK)}) = ?", (MARK,))
    return {str(key).removeprefix(MARK): str(mark) for key, mark in kept}


def mark_text(run: Run, table: str, mark: str | None) -> None:
    """Note what a text index is made of; None if there is none."""
    run("DELETE FROM recollect_store WHERE key = ?", (MARK + table,))
    if mark is not None:
        run("INSERT INTO recollect_store(key, value) VALUES (?, ?)", (MARK + table, mark))


def update_text(run: Run, maker: str, drop: Callable[[str], object], make: Callable[[type[Record]], object]) -> bool:
    """Make the text indexes that are not, or not any more, what they should be; says whether there was one."""
    have, wanted = marks(run), text_marks(maker)
    for table in sorted(have.keys() | wanted.keys()):
        if have.get(table) != wanted.get(table):
            drop(table)
            if table in wanted:
                make(RECORDS[table])
            mark_text(run, table, wanted.get(table))
    return have != wanted


def recorded(run: Run) -> dict[int, str]:
    """The migrations that a store has seen, by number, with their checksums."""
    return {row[0]: row[1] for row in run("SELECT number, checksum FROM recollect_migrations", ())}


def is_current(run: Run, maker: str) -> bool:
    """Asked first: most stores that are opened were opened before, and nothing is written."""
    done = {migration.number: migration.checksum for migration in migrations.migrations()}
    return recorded(run) == done and marks(run) == text_marks(maker)


def index_name(table: str, fields: Sequence[str]) -> str:
    return f"{table}_by_{'_'.join(fields)}"


def unset_name(table: str, field: str) -> str:
    return f"{table}_without_{field}"


def unique_name(table: str, fields: Sequence[str]) -> str:
    return f"{table}_unique_{'_'.join(fields)}"


class Ddl:
    types: ClassVar[Mapping[ColumnType, str]]
    empty: ClassVar[Mapping[ColumnType, str]]
    """What a column that may not be empty holds in the rows that are older, unless its step says it."""

    def make(self, run: Run) -> list[str]:
        """The tables of a store that has seen no migration, as all of them would leave them; in the caller's
        transaction. A table is made once, with all its columns: adding them one by one takes ten times as long.
        """
        if recorded(run):
            return []
        history = migrations.migrations()
        for step in migrations.difference({}, migrations.built(history)):
            for statement in self.statements(step, {}):
                run(statement, ())
        for migration in history:
            self._note(migration, run)
        return [migration.name for migration in history]

    def migrate(self, migration: migrations.Migration, run: Run, refused: type[Exception], store: str) -> bool:
        """Every step of a migration that the store lacks, and the record of it; in the caller's transaction.

        `refused` is how the database says that a key is taken twice.
        """
        if not migrations.pending(migration, recorded(run), store):
            return False
        tables = migrations.built(one for one in migrations.migrations() if one.number < migration.number)
        for step in migration.steps:
            try:
                for statement in self.statements(step, tables.get(step["table"], {})):
                    run(statement, ())
            except refused:
                raise taken_twice(step, store) from None
            migrations.apply_step(tables, step)
        self._note(migration, run)
        return True

    def _note(self, migration: migrations.Migration, run: Run) -> None:
        noted = (migration.number, migration.name, migration.checksum, self.kept(now()))
        run("INSERT INTO recollect_migrations VALUES (?, ?, ?, ?)", noted)

    def kept(self, moment: datetime) -> object:
        """A moment as the store's own tables hold it."""
        return moment

    def statements(self, step: migrations.Step, table: Table) -> Iterator[str]:
        """What a step does to a table, given as it was before."""
        kind, name = step["do"], step["table"]
        if kind == "create_table":
            yield from self.create_table(step)
        elif kind == "add_column":
            yield f"ALTER TABLE {quoted(name)} ADD COLUMN {self.column(step['column'], self.filler(step))}"
        elif kind == "add_unique":
            yield from self.add_unique(table, step["unique"])
        elif kind == "drop_unique":
            yield f"DROP INDEX IF EXISTS {quoted(unique_name(name, step['unique']['fields']))}"
        elif kind == "add_index":
            yield from self.add_index(table, step["fields"])
        elif kind == "drop_index":
            yield from self.drop_index(table, step["fields"])
        elif kind == "add_unset_index":
            yield from self.add_unset_index(table, step["field"])
        elif kind == "drop_unset_index":
            yield f"DROP INDEX IF EXISTS {quoted(unset_name(name, step['field']))}"
        elif kind != "index_text":
            raise ValueError(f"unknown migration step {kind}")

    def create_table(self, step: Table) -> Iterator[str]:
        raise NotImplementedError

    def keys_and_indexes(self, step: Table) -> Iterator[str]:
        for key in step["unique"]:
            yield from self.add_unique(step, key)
        for fields in step["indexes"]:
            yield from self.add_index(step, fields)
        for field in step.get("unset", ()):
            yield from self.add_unset_index(step, field)

    def column(self, column: Values, filler: str | None = None) -> str:
        name, type, nullable = column
        text = f"{quoted(name)} {self.types[type]}"
        if nullable:
            return text
        return f"{text} NOT NULL" if filler is None else f"{text} NOT NULL DEFAULT {filler}"

    def filler(self, step: Table) -> str:
        """What the rows that are there get in a new column that may not be empty."""
        _, type, _ = step["column"]
        return self.literal(type, step["fill"]) if "fill" in step else self.empty[type]

    def literal(self, type: ColumnType, value: object) -> str:
        if type == "json":
            value = json_text(value)
        if type == "boolean":
            return self.empty["boolean"] if not value else self.true
        return str(value) if type in ("integer", "real") else "'" + str(value).replace("'", "''") + "'"

    true: ClassVar[str] = "true"

    def add_unique(self, table: Table, key: Table) -> Iterator[str]:
        """Where empty fields count as equal they are compared as if they were empty texts."""
        columns = {name: (type, nullable) for name, type, nullable in table["columns"]}
        fields = [
            self.comparable(name, columns[name][0]) if key["nulls_equal"] and columns[name][1] else quoted(name)
            for name in key["fields"]
        ]
        name = quoted(unique_name(table["table"], key["fields"]))
        yield f"CREATE UNIQUE INDEX {name} ON {quoted(table['table'])}(organization_id, {', '.join(fields)})"

    def comparable(self, name: str, type: ColumnType) -> str:
        column = quoted(name) if type == "text" else f"CAST({quoted(name)} AS {self.types['text']})"
        return f"coalesce({column}, '')"

    def add_index(self, table: Table, fields: Sequence[str]) -> Iterator[str]:
        columns = ", ".join(quoted(name) for name in fields)
        # Most memories leave most links empty: a partial index costs nothing for those.
        nullable = any(name == fields[0] and may_be_null for name, _, may_be_null in table["columns"])
        partial = f" WHERE {quoted(fields[0])} IS NOT NULL" if nullable else ""
        name = quoted(index_name(table["table"], fields))
        yield f"CREATE INDEX {name} ON {quoted(table['table'])}(organization_id, {columns}){partial}"

    def add_unset_index(self, table: Table, field: str) -> Iterator[str]:
        name, unset = quoted(unset_name(table["table"], field)), f"{quoted(field)} IS NULL"
        yield f"CREATE INDEX {name} ON {quoted(table['table'])}(organization_id, id) WHERE {unset}"

    def drop_index(self, table: Table, fields: Sequence[str]) -> Iterator[str]:
        yield f"DROP INDEX IF EXISTS {quoted(index_name(table['table'], fields))}"


def taken_twice(step: Table, store: str) -> StoreError:
    fields = ", ".join(step.get("unique", {}).get("fields", ()))
    return StoreError(
        f"{store} cannot be brought up to date: several records of '{step['table']}' are the same in {fields}, of "
        "which there may be only one from now on. Nothing in it was changed",
        remedy="open it with the version before this one and remove all but one of them",
    )
