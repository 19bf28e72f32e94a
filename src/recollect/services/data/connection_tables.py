"""The tables of an outside database as records: their columns, and a profile of the rows that were sampled."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recollect.domain.record import clipped
from recollect.domain.sources import Field, Source, Table
from recollect.errors import Denied, InvalidInput, NotFound, TooLarge
from recollect.ports.connections import FetchLimits, OutsideDatabase, OutsideSchema, OutsideTable
from recollect.ports.data import Column, ColumnProfile, NewTable, TableProfile
from recollect.services.data import value_lists
from recollect.services.data.contents import Kept, keep
from recollect.services.data.profiles import table_records
from recollect.services.data.sources import READING, Progress
from recollect.services.data.tables import table_names
from recollect.services.data.uploads import PARQUET, Draft
from recollect.services.tenant import Tenant

MOST_TABLES = 500
MOST_COLUMNS = 20_000
SECONDS_OF_A_TABLE = 20.0
SECONDS_OF_ALL = 300.0
"""Tables that were not reached in this time are listed without a profile."""
_TYPES = (
    ("bool|tinyint\\(1\\)", "BOOLEAN"),
    ("int|serial|year", "BIGINT"),
    ("numeric|decimal|money", "DECIMAL(18,3)"),
    ("real|double|float", "DOUBLE"),
    ("timestamp|datetime", "TIMESTAMP"),
    ("date", "DATE"),
)


@dataclass
class Sampling:
    """Reads some rows of each table, keeps them, and makes the records of the tables."""

    tenant: Tenant
    source: Source
    database: OutsideDatabase
    folder: Path
    rows: int
    begun: float
    kept: list[Kept]
    notes: list[str] = field(default_factory=list)

    def drafts(self, schema: OutsideSchema, progress: Progress) -> list[Draft]:
        names = table_names(table.name for table in schema.tables)
        found, columns = [], 0
        for at, (table, name) in enumerate(zip(schema.tables, names, strict=True)):
            columns += len(table.columns)
            if columns > MOST_COLUMNS:
                left = len(schema.tables) - at
                self.notes.append(f"{left:,} tables were left out: there are more than {MOST_COLUMNS:,} columns")
                break
            found.append(self._draft(table, name, at))
            progress(at + 1, len(schema.tables))
        return found

    def _draft(self, outside: OutsideTable, name: str, at: int) -> Draft:
        profile, path, notes = self._profile(outside)
        new = NewTable(
            outside.name,
            path or self.folder,
            profile.rows,
            [Column(column.name, column.type) for column in profile.columns],
            notes=notes,
            foreign_keys=outside.foreign_keys,
        )
        table, fields = table_records(self.tenant, self.source.id, name, new, profile, at)
        place = {"schema": outside.schema, "table": outside.table, "kind": outside.kind}
        table = table.changed(
            description=clipped(outside.description, 20_000),
            metadata={**table.metadata, **place, "keys": outside.primary_key or profile.keys},
            profiled=table.profiled if path is not None else "none",
        )
        fields = [
            one.changed(description=clipped(outside.descriptions.get(one.name, one.description), 20_000))
            for one in fields
        ]
        return self._with_rows(Draft(table, fields, []), path)

    def _with_rows(self, draft: Draft, path: Path | None) -> Draft:
        """Some rows are kept: candidates for the answer to a question are tried on them, and values looked up."""
        if path is None:
            return draft
        sample = keep(self.tenant, path, source_id=self.source.id, purpose="table", media_type=PARQUET)
        self.kept.append(sample)
        table = draft.table.changed(metadata={**draft.table.metadata, "sample": sample.digest}, size=sample.size)
        values = value_lists.build(
            self.tenant, path, source_id=self.source.id, columns=len(draft.fields), limits=READING
        )
        path.unlink()
        if values is None:
            return Draft(table, draft.fields, [sample])
        self.kept.append(values)
        return Draft(table.changed(values_digest=values.digest), draft.fields, [sample, values])

    def _profile(self, outside: OutsideTable) -> tuple[TableProfile, Path | None, list[str]]:
        if time.monotonic() - self.begun > SECONDS_OF_ALL:
            self.notes.append(f"{outside.name} was not sampled: the others took too long")
            return _declared(outside), None, []
        path = self.folder / "sample.parquet"
        limits = FetchLimits(seconds=SECONDS_OF_A_TABLE, megabytes=64)
        try:
            fetched = self.database.sample(outside, path, rows=self.rows, limits=limits)
        except (Denied, InvalidInput, NotFound, TooLarge) as error:
            self.notes.append(f"{outside.name} was not sampled: {error.message}")
            return _declared(outside), None, []
        profile = self.tenant.data_engine().profile(path, limits=READING)
        if not fetched.is_cut:
            return profile, path, []
        return replace(profile, rows=max(outside.rows or 0, profile.rows + 1)), path, []


def _declared(outside: OutsideTable) -> TableProfile:
    """What is known of a table that was not looked into: its columns."""
    columns = [
        ColumnProfile(column.name, _type(column.type), "text", rows=0, nulls=0, distinct=0, is_distinct_exact=False)
        for column in outside.columns
    ]
    return TableProfile(outside.rows or 0, 0, columns, outside.primary_key, 0)


def _type(declared: str) -> str:
    """The nearest type of DuckDB, whose names the rest knows."""
    return next((type for words, type in _TYPES if re.search(words, declared, re.IGNORECASE)), "VARCHAR")


def with_former_descriptions(
    drafts: Sequence[Draft], old: Sequence[Table], old_fields: Mapping[str, Sequence[Field]]
) -> list[Draft]:
    """What people wrote about tables and columns stays when the connection is read again."""
    tables = {table.id: table.description for table in old}
    fields = {one.id: one.description for some in old_fields.values() for one in some}
    return [
        Draft(
            draft.table.changed(description=tables.get(draft.table.id) or draft.table.description),
            [one.changed(description=fields.get(one.id) or one.description) for one in draft.fields],
            draft.contents,
        )
        for draft in drafts
    ]
