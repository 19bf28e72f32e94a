"""Every column the five source documents ask for has its place in the code, and the page that says so is current."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import recollect.domain as domain  # registers the records
from recollect.catalogue import OPERATIONS
from recollect.domain.kinds import KINDS
from recollect.domain.provenance import AnyCitation
from recollect.domain.record import RECORDS
from recollect.settings import Settings

CHECKOUT = Path(__file__).parents[2]
SEEDS = CHECKOUT.parent / "shared" / "seeds"

assert domain


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("source_map", CHECKOUT / "docs" / "source_map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["source_map"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


source_map = _generator()
TRUTH = source_map.load()
COLUMNS = list(source_map.columns(TRUTH))
INDEXES = list(source_map.indexes(TRUTH))
TARGETS = {(one.document, one.table, one.name): one.carried_by for one in COLUMNS}
MODELS: dict[str, type[BaseModel]] = {model.__name__: model for model in (*KINDS.values(), *get_args(AnyCitation))}


def fields_of(name: str) -> set[str]:
    """The fields of a record by its table, or of a kind or citation by its class; none if there is no such thing."""
    if name in RECORDS:
        return {column.name for column in RECORDS[name].columns()}
    return set(MODELS[name].model_fields) if name in MODELS else set()


def ids(one: Any) -> str:
    return f"{one.document}.{getattr(one, 'table', '')}.{one.name}"


@pytest.mark.parametrize("column", COLUMNS, ids=ids)
def test_what_carries_a_column_exists(column: Any) -> None:
    assert bool(column.carried_by) != bool(column.missing)
    for target in column.carried_by:
        name, _, field = target.partition(".")
        assert field in fields_of(name), f"{target} is not in the code"


@pytest.mark.parametrize("column", [one for one in COLUMNS if "declared encrypted" in one.note], ids=ids)
def test_what_is_said_to_be_encrypted_is_declared_so(column: Any) -> None:
    name, _, field = column.carried_by[0].partition(".")
    assert field in RECORDS[name].shape.encrypted


def declared(index: Any) -> set[tuple[str, ...]]:
    """What the record declares of the kind that the map says serves the index."""
    shape = RECORDS[index.record].shape
    if index.way == "index":
        return set(shape.indexes)
    if index.way == "unique":
        return {unique.fields for unique in shape.unique}
    if index.way == "text":
        return {(field,) for field in shape.text.fields} if shape.text else set()
    if index.way == "members":
        return {(field,) for field in ("content", "metadata") if Settings(indexed=[f"{field}.member"])}
    if index.way == "filter":
        return {(field,) for field in OPERATIONS[f"{index.record}.list"].request.model_fields}
    assert index.way == "key"
    return {()}


@pytest.mark.parametrize("index", INDEXES, ids=ids)
def test_what_serves_an_index_is_declared(index: Any) -> None:
    assert bool(index.way) != bool(index.missing)
    if index.way and index.way != "vectors":
        assert index.fields in declared(index)


@pytest.mark.parametrize("index", [one for one in INDEXES if one.fields], ids=ids)
def test_what_serves_an_index_begins_with_its_columns(index: Any) -> None:
    carried = [TARGETS[index.document, index.table, column] for column in index.columns]
    wanted = [{target.partition(".")[2] for target in targets} for targets in carried]
    assert all(fields & set(index.fields) for fields in wanted)
    assert all(any(target.startswith(f"{index.record}.") for target in targets) for targets in carried)
    if not index.note:  # a note says why another order does
        assert all(field in fields for field, fields in zip(index.fields, wanted, strict=False))


@pytest.mark.parametrize("index", [one for one in INDEXES if one.is_unique and one.fields], ids=ids)
def test_a_unique_constraint_is_not_wider_than_asked(index: Any) -> None:
    assert index.note or len(index.fields) == len(index.columns)


def test_the_page_is_current() -> None:
    assert source_map.main(["--check"]) == 0


def test_a_stale_page_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source_map, "PAGE", tmp_path / "source-map.md")
    assert source_map.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert source_map.main([]) == 0
    assert source_map.main(["--check"]) == 0


def test_a_note_that_lost_its_end_is_refused() -> None:
    truth = {"X": {"title": "x", "tables": {"t": {"c": {"in": "user.id", "note": "one", "and two": None}}}}}
    with pytest.raises(ValueError, match="in quotes"):
        list(source_map.columns(truth))


def test_no_column_is_listed_twice() -> None:
    """YAML would silently keep the last."""
    listed = re.findall(r"^ {6}([^ #\n][^:\n]*): ", source_map.TRUTH.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) + _spread() == len(COLUMNS)


def _spread() -> int:
    """Columns written over several lines, whose first line ends with the colon."""
    return len(re.findall(r"^ {6}[^ #\n][^:\n]*:$", source_map.TRUTH.read_text(encoding="utf-8"), re.MULTILINE))


def document(letter: str) -> str:
    return next(SEEDS.glob(f"{letter}-*.md")).read_text(encoding="utf-8")


def listed(letter: str, table: str) -> set[str]:
    return set(TRUTH[letter]["tables"].get(table, ()))


def sql_tables(text: str) -> dict[str, set[str]]:
    found = {}
    for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\);", text, re.DOTALL):
        names = re.findall(r'^\s+"?(\w+)"? ', body, re.MULTILINE)
        found[table] = set(names) - {"CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK"}
    return found


needs_documents = pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not beside the checkout")


@needs_documents
class TestAgainstTheDocuments:
    @pytest.mark.parametrize(("letter", "count"), [("D", 8), ("E", 9)])
    def test_every_column_of_every_sql_table_is_listed(self, letter: str, count: int) -> None:
        tables = sql_tables(document(letter))
        assert len(tables) == count
        for table, names in tables.items():
            assert listed(letter, table) == names

    def test_every_row_of_the_column_tables_is_listed(self) -> None:
        sections = [part for part in document("D").split("\n### ") if "| Column |" in part]
        assert len(sections) == 8
        for section in sections:
            table = re.findall(r"CREATE TABLE (\w+)", section)[0]
            assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == listed("D", table)

    def test_every_field_of_the_legacy_systems_is_listed(self) -> None:
        found = re.findall(r"### (\w+) Mapping\n(.*?)\n(?=#)", document("D"), re.DOTALL)
        assert len(found) == 3
        for system, section in found:
            assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == listed("D", system)

    def test_every_field_of_every_interface_is_listed(self) -> None:
        found = re.findall(r"export interface (\w+)[^{]*\{(.*?)\n\}", document("C"), re.DOTALL)
        assert len(found) == 8
        for interface, body in found:
            assert set(re.findall(r"^\s+(\w+)\??:", body, re.MULTILINE)) == listed("C", interface)

    @pytest.mark.parametrize("letter", ["D", "E"])
    def test_every_index_is_listed(self, letter: str) -> None:
        assert set(re.findall(r"\bidx_\w+", document(letter))) == set(TRUTH[letter]["indexes"])

    @pytest.mark.parametrize("letter", ["D", "E"])
    def test_every_unique_constraint_is_listed(self, letter: str) -> None:
        asked = set(re.findall(r"CONSTRAINT (\w+) UNIQUE", document(letter)))
        assert asked == {name for name in TRUTH[letter]["unique"] if " " not in name}

    @pytest.mark.parametrize("letter", ["A", "B"])
    def test_every_entity_is_listed(self, letter: str) -> None:
        part = re.split(r"\n## (?:Relationships|Current)", document(letter))[0]
        asked = {name for names in re.findall(r"^- \*\*(.+?)\*\*:", part, re.MULTILINE) for name in names.split(" / ")}
        assert len(asked) >= 8
        assert asked == {table.removesuffix(" (vectors)") for table in TRUTH[letter]["tables"]}
