"""The question sets of `bench/ask.py`: databases in an in-memory DuckDB, profiled, with their questions.

The profile here is small and the bench's own: types, counts, top values, keys that the database declares, and joins
that names and values suggest.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from recollect.services.data.asking.plans.joins import likely_joins
from recollect.services.data.asking.plans.schema import Field, Join, Kind, Scalar, Schema, Table

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
# Nearly the same tables as two databases of the test set.
LEFT_OUT = {"chinook_1", "customers_card_transactions"}
MOST_VALUES = 20_000
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?")

Question = dict[str, Any]
Rows = list[tuple[Scalar, ...]]


@dataclass
class Database:
    name: str
    schema: Schema
    values: dict[int, list[str]]
    connection: Any  # score.Duck
    gold: Any  # score.Lite
    results: dict[str, Rows | None] = field(default_factory=dict)

    def execute(self, sql: str) -> Rows | None:
        """The rows, or None where the statement fails."""
        if sql not in self.results:
            try:
                self.results[sql] = self.connection.run(sql)
            except Exception:  # noqa: BLE001 - whatever DuckDB says, the candidate is no good
                self.results[sql] = None
        return self.results[sql]


@lru_cache
def scorer(folder: Path) -> ModuleType:
    path = folder / "score.py"
    spec = importlib.util.spec_from_file_location("nlsql_score", path if path.exists() else SHARED / "nlsql/score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def questions(folder: Path, name: str = "questions.jsonl", keep: Callable[[str], bool] = bool) -> list[Question]:
    lines = (folder / name).read_text(encoding="utf8").splitlines()
    found = [json.loads(line) for line in lines]
    return [each for each in found if each["db"] not in LEFT_OUT and keep(each["db"])]


def database(folder: Path, name: str) -> Database:
    score = scorer(folder)
    path = str(folder / "databases" / f"{name}.sqlite")
    duck, lite = score.Duck(path), score.Lite(path)
    schema, values = _profile(name, duck, lite)
    return Database(name, schema, values, duck, lite)


def _profile(name: str, duck: Any, lite: Any) -> tuple[Schema, dict[int, list[str]]]:
    tables: list[Table] = []
    texts: dict[int, list[str]] = {}
    names = [row[0] for row in duck.run("select table_name from information_schema.tables")]
    for table in _declared_order(lite, names):
        info = lite.run(f'pragma table_info("{table}")')
        rows = duck.run(f'select count(*) from "{table}"')[0][0]
        fields: list[Field] = []
        for column in info:
            made, values = _field(duck, table, column[1], rows, bool(column[5]))
            if values is not None:
                texts[sum(len(each.fields) for each in tables) + len(fields)] = values
            fields.append(made)
        tables.append(Table(table, tuple(fields), rows))
    bare = Schema(tuple(tables), name=name)
    declared = list(_declared_joins(bare, lite))
    joins = likely_joins(bare, declared, lambda number: _distinct(duck, bare.fields[number]))
    return Schema(tuple(tables), tuple(joins), name), texts


def _declared_order(lite: Any, names: Sequence[str]) -> list[str]:
    order = [row[0] for row in lite.run("select name from sqlite_master where type='table'")]
    return [each for each in order if each in names]


def _field(duck: Any, table: str, name: str, rows: int, is_key: bool) -> tuple[Field, list[str] | None]:
    quoted = f'"{name}"'
    sql_type = duck.run(f'select typeof({quoted}) from "{table}" limit 1')
    declared = sql_type[0][0] if sql_type else "VARCHAR"
    distinct, nulls, low, high = duck.run(
        f'select count(distinct {quoted}), count(*) - count({quoted}), min({quoted}), max({quoted}) from "{table}"'
    )[0]
    top = duck.run(
        f'select {quoted} from "{table}" where {quoted} is not null group by 1 order by count(*) desc, 1 limit 20'
    )
    kind: Kind = "number" if declared in ("BIGINT", "DOUBLE") else "text"
    values: list[str] | None = None
    if kind == "text":
        found = duck.run(
            f'select distinct {quoted} from "{table}" where {quoted} is not null order by 1 limit {MOST_VALUES}'
        )
        values = [str(row[0]) for row in found]
        if values and all(_DATE.match(each) for each in values):
            kind = "date"
    made = Field(
        table, name, kind, "", "", rows, nulls, distinct, low, high,
        tuple(row[0] for row in top), (), is_key, declared,
    )  # fmt: skip
    return made, values


def _distinct(duck: Any, made: Field) -> frozenset[Scalar]:
    sql = f'select distinct "{made.name}" from "{made.table}" where "{made.name}" is not null limit 5000'
    return frozenset(row[0] for row in duck.run(sql))


def _declared_joins(schema: Schema, lite: Any) -> Iterator[Join]:
    for table in schema.tables:
        try:
            keys = lite.run(f'pragma foreign_key_list("{table.name}")')
        except sqlite3.Error:
            continue
        for key in keys:
            left = schema.number(table.name, key[3])
            other = schema.table_number(key[2])
            right = schema.number(key[2], key[4]) if key[4] else schema.key_of[other] if other is not None else None
            if left is not None and right is not None:
                yield Join(left, right)
