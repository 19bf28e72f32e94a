"""The schema as data: what the records declare, and the numbered migrations that lead there.

A migration is a JSON file of store-neutral steps, frozen once released (each store records its checksum). Every
store turns the same steps into its own tables. `python -m recollect.adapters.records.common.migrations NAME` writes the
next migration from the difference between the declarations and what the files already make; a test fails while there
is such a difference, and another if a released file was edited.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from recollect.domain.record import RECORDS, Record
from recollect.errors import NewerStore, StoreError

Table = dict[str, Any]
Step = Table
Tables = dict[str, Table]


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    steps: tuple[Step, ...]
    checksum: str


def declared_table(record: type[Record]) -> Table:
    shape = record.shape
    unset = {"unset": list(shape.unset)} if shape.unset else {}
    return {
        "table": shape.table,
        "columns": [[column.name, column.type, column.nullable] for column in record.columns()],
        "unique": [{"fields": list(key.fields), "nulls_equal": key.nulls_equal} for key in shape.unique],
        "indexes": [list(fields) for fields in shape.indexes],
        "text": {"fields": list(shape.text.fields), "facets": list(shape.text.facets)} if shape.text else None,
        **unset,
    }


def declared() -> Tables:
    return {table: declared_table(record) for table, record in sorted(RECORDS.items())}


@cache
def migrations() -> tuple[Migration, ...]:
    folder = files("recollect.adapters.records") / "migrations"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".json")), key=lambda path: path.name)
    return tuple(_read(path.read_bytes()) for path in paths)


def _read(raw: bytes) -> Migration:
    data = json.loads(raw)
    return Migration(data["number"], data["name"], tuple(data["steps"]), hashlib.sha256(raw).hexdigest())


def pending(migration: Migration, done: Mapping[int, str], store: str) -> bool:
    """Whether a store that recorded these numbers and checksums lacks the migration; refuses one that is not ours."""
    newest = len(migrations())
    if done and max(done) > newest:
        raise NewerStore(
            f"{store} was written by a newer Recollect (schema {max(done)}, this program knows {newest})",
            remedy="upgrade this program: pip install -U recollect",
        )
    if migration.number in done and migration.checksum != done[migration.number]:
        raise StoreError(
            f"{store} has other tables than any release makes: its migration {migration.number} is not the one "
            "this program knows. Nothing in it was changed",
            remedy="run `recollect export` with the version that made it, then `recollect import` here, in a new store",
        )
    return migration.number not in done


def outstanding(done: Mapping[int, str], store: str) -> str:
    """What opening a store that recorded these would do to it, in words."""
    count = sum(pending(one, done, store) for one in migrations())
    if not done:
        return "its tables will be made when it is first used"
    return f"{count} migrations will be applied when it is next opened" if count else "its tables are up to date"


def built(history: Iterable[Migration]) -> Tables:
    """The tables that a store has after these migrations."""
    tables: Tables = {}
    for migration in history:
        for step in migration.steps:
            apply_step(tables, step)
    return tables


def apply_step(tables: Tables, step: Step) -> None:
    """Do to the description of the tables what a step does to the tables."""
    kind = step["do"]
    if kind == "create_table":
        # Copies: later steps add to these lists (never to what is in them), and the migrations are read once for all.
        tables[step["table"]] = {
            key: list(value) if isinstance(value, list) else value for key, value in step.items() if key != "do"
        }
        return
    table = tables[step["table"]]
    if kind == "add_column":
        table["columns"].append(step["column"])
    elif kind == "add_unique":
        table["unique"].append(step["unique"])
    elif kind == "drop_unique":
        table["unique"].remove(step["unique"])
    elif kind == "add_index":
        table["indexes"].append(step["fields"])
    elif kind == "drop_index":
        table["indexes"].remove(step["fields"])
    elif kind == "add_unset_index":
        table["unset"] = [*table.get("unset", ()), step["field"]]
    elif kind == "drop_unset_index":
        table["unset"] = [field for field in table["unset"] if field != step["field"]]
    elif kind == "index_text":
        table["text"] = step["text"]
    else:
        raise ValueError(f"unknown migration step {kind}")


def difference(have: Tables, want: Tables) -> list[Step]:
    """The steps from one schema to the other. Keys and indexes may go; nothing stored is ever dropped."""
    steps: list[Step] = []
    for name, table in want.items():
        if name not in have:
            steps.append({"do": "create_table", **table})
        else:
            steps.extend(_table_difference(have[name], table))
    return steps


def _table_difference(have: Table, want: Table) -> list[Step]:
    table = want["table"]
    known = {name for name, _, _ in have["columns"]}
    steps = [_added(table, column) for column in want["columns"] if column[0] not in known]
    # What goes comes first: a key of the same fields that says otherwise has the same name.
    for key in have["unique"]:
        if key not in want["unique"]:
            steps.append({"do": "drop_unique", "table": table, "unique": key})
    for key in want["unique"]:
        if key not in have["unique"]:
            steps.append({"do": "add_unique", "table": table, "unique": key})
    for fields in want["indexes"]:
        if fields not in have["indexes"]:
            steps.append({"do": "add_index", "table": table, "fields": fields})
    for fields in have["indexes"]:
        if fields not in want["indexes"]:
            steps.append({"do": "drop_index", "table": table, "fields": fields})
    unset, wanted = have.get("unset", ()), want.get("unset", ())
    steps += [{"do": "add_unset_index", "table": table, "field": field} for field in wanted if field not in unset]
    steps += [{"do": "drop_unset_index", "table": table, "field": field} for field in unset if field not in wanted]
    if want["text"] != have["text"]:
        steps.append({"do": "index_text", "table": table, "text": want["text"]})
    return steps


def _added(table: str, column: Sequence[str]) -> Step:
    """A new column; one that may not be empty says what the records that are there get: the default of the field."""
    step: Step = {"do": "add_column", "table": table, "column": column}
    name, _, nullable = column
    info = RECORDS[table].model_fields.get(name) if table in RECORDS else None
    if nullable or info is None:
        return step
    if info.is_required():
        raise ValueError(f"{table}.{name} needs a default: it is what the records that are there will have")
    fill = info.get_default(call_default_factory=True)
    json.dumps(fill)  # or it cannot be written into a migration
    return {**step, "fill": fill}


def write_next(name: str, folder: Path) -> Path | None:
    steps = difference(built(migrations()), declared())
    if not steps:
        return None
    number = len(migrations()) + 1
    path = folder / f"{number:04d}_{name}.json"
    body = json.dumps({"number": number, "name": name, "steps": steps}, indent=1, ensure_ascii=False)
    path.write_text(body + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    import recollect.domain  # noqa: F401 - registers the records

    written = write_next(sys.argv[1] if len(sys.argv) > 1 else "change", Path(__file__).parents[1] / "migrations")
    print(f"wrote {written}" if written else "the migrations already make what is declared")
