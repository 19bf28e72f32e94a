"""Write source-map.md from source-map.yaml: `python docs/source_map.py`, or `--check` to fail if it is stale."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
TRUTH = HERE / "source-map.yaml"
PAGE = HERE / "source-map.md"

INTRODUCTION = """\
# Where everything asked for is kept

<!-- Written by docs/source_map.py from source-map.yaml: change that file, not this one. -->

Recollect grew out of five documents, A to E, that each describe a part of the memory of agents. This page says for
every table and column of each which record and field carries it. `record.field` is a field of a record; `Class.field`
is a field of a kind of memory, kept in `memory.content`, or of a type of citation, kept in `citation.evidence`. Beside
it stand the operations that write and that show it.

Every record also has `organization_id`, `id`, `version`, `created_at`, `updated_at`, `created_by`, `updated_by` and
`is_deleted`, asked for or not. Every key, index and unique constraint holds within one organization.
"""


@dataclass(frozen=True, slots=True)
class Column:
    document: str
    table: str
    name: str
    carried_by: tuple[str, ...]
    note: str
    missing: str


@dataclass(frozen=True, slots=True)
class Index:
    """An index or unique constraint a document asks for, and the declaration that serves it."""

    document: str
    is_unique: bool
    name: str
    table: str
    columns: tuple[str, ...]
    way: str
    record: str
    fields: tuple[str, ...]
    note: str
    missing: str

    @property
    def served_by(self) -> str:
        return " ".join(part for part in (self.way, _call(self.record, self.fields)) if part)


@dataclass(frozen=True, slots=True)
class Way:
    """Which operation writes a field and which shows it; `named` is what requests and replies call it."""

    write: str
    show: str
    named: str
    is_made: bool
    """Written by the operation itself, not given by whoever calls it."""


def load() -> dict[str, Any]:
    """The documents, without the operations."""
    loaded: dict[str, Any] = yaml.safe_load(TRUTH.read_text(encoding="utf-8"))
    del loaded["operations"]
    return loaded


@cache
def _operations() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(TRUTH.read_text(encoding="utf-8"))["operations"]
    return loaded


def way(target: str) -> Way:
    """How a field is written and shown: as its own line says, else that of such fields, else that of its record."""
    operations = _operations()
    record, _, field = target.partition(".")
    told = {**operations.get(record, {}), **operations["every record"].get(field, {}), **operations.get(target, {})}
    _only(told, {"write", "show", "as", "made"})
    return Way(told["write"], told["show"], told.get("as", field), told.get("made", False))


def columns(truth: dict[str, Any]) -> Iterator[Column]:
    for document, about in truth.items():
        for table, listed in about["tables"].items():
            for name, carried in listed.items():
                yield _column(document, table, name, carried if isinstance(carried, dict) else {"in": carried})


def _column(document: str, table: str, name: str, carried: dict[str, Any]) -> Column:
    _only(carried, {"in", "note", "open"})
    targets = carried.get("in", [])
    targets = [targets] if isinstance(targets, str) else targets
    return Column(document, table, name, tuple(targets), carried.get("note", ""), carried.get("open", ""))


def indexes(truth: dict[str, Any]) -> Iterator[Index]:
    for document, about in truth.items():
        for section in ("indexes", "unique"):
            for name, told in about.get(section, {}).items():
                yield _index(document, section == "unique", name, told)


def _index(document: str, is_unique: bool, name: str, told: dict[str, Any]) -> Index:
    _only(told, {"of", "by", "note", "open"})
    way, _, served = told.get("by", "").partition(" ")
    note, missing = told.get("note", ""), told.get("open", "")
    return Index(document, is_unique, name, *_parts(told["of"]), way, *_parts(served), note, missing)


def _only(told: dict[str, Any], known: set[str]) -> None:
    """A note with a comma and no quotes reads as further keys; do not let its end vanish."""
    if odd := set(told) - known:
        raise ValueError(f"'{min(odd)}' is no key: put the text it belongs to in quotes")


def _parts(call: str) -> tuple[str, tuple[str, ...]]:
    """`memory(kind, id)` as its name and fields; the fields may be left out."""
    found = re.fullmatch(r"(\w*)(?:\(([^()]+)\))?", call)
    if found is None:
        raise ValueError(f"'{call}' should read like table(column, column)")
    return found[1], tuple(field.strip() for field in found[2].split(",")) if found[2] else ()


def _call(name: str, fields: Sequence[str]) -> str:
    return f"{name}({', '.join(fields)})" if fields else name


def render(truth: dict[str, Any]) -> str:
    parts = [INTRODUCTION, _open_points(truth)]
    for document, about in truth.items():
        parts.append(f"## {document}: {about['title']}\n")
        for table in about["tables"]:
            parts.append(f"### {document}.{table}\n")
            parts.append(_column_table(column for column in columns({document: about}) if column.table == table))
        for heading, is_unique in (("indexes", False), ("unique constraints", True)):
            listed = [index for index in indexes({document: about}) if index.is_unique == is_unique]
            if listed:
                parts.append(f"### {document}: {heading}\n")
                parts.append(_index_table(listed))
    return "\n".join(parts)


def _open_points(truth: dict[str, Any]) -> str:
    points = [f"{one.document}.{one.table}.{one.name}: {one.missing}" for one in columns(truth) if one.missing]
    points += [f"{one.document}.{one.name}: {one.missing}" for one in indexes(truth) if one.missing]
    lines = [f"- {point}." for point in points] or ["Nothing: everything asked for has its place."]
    return "\n".join(["## Not carried yet", "", *lines, ""])


def _column_table(listed: Iterable[Column]) -> str:
    rows = []
    for one in listed:
        ways = [way(target) for target in one.carried_by]
        rows.append(
            (
                f"`{one.name}`",
                _named(one.carried_by) or "open",
                _named(told.write for told in ways),
                _named(told.show for told in ways),
                one.note or one.missing,
            )
        )
    return _table(("column", "carried by", "written by", "shown by", ""), rows)


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def _index_table(listed: Iterable[Index]) -> str:
    rows = [
        (
            f"`{one.name}`",
            f"`{_call(one.table, one.columns)}`",
            f"`{one.served_by}`" if one.served_by else "open",
            one.note or one.missing,
        )
        for one in listed
    ]
    return _table(("name", "of", "served by", ""), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells).rstrip() + " |" for cells in lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    page = render(load())
    if "--check" not in arguments:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PAGE.name} is stale: run python docs/source_map.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
