"""The schema and the statements keep the rules of a Citus cluster.

Every statement that the contract suite makes the PostgreSQL store run is held against the rules, too: see
test_record_stores.py. How tables are spread is in test_citus_distribution.py, a real cluster in test_citus_cluster.py.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import recollect
from citus_rules import broken
from postgres_server import server
from recollect.adapters.postgres.connection import Database, is_for_one_server
from recollect.adapters.records.common import migrations
from recollect.adapters.records.postgres import distribution
from recollect.adapters.records.postgres.fulltext_index import text_statements
from recollect.adapters.records.postgres.schema import DDL
from recollect.domain.record import RECORDS
from recollect.errors import Unavailable


@pytest.mark.parametrize("migration", migrations.migrations(), ids=lambda one: one.name)
def test_every_migration_keeps_the_rules(migration: migrations.Migration) -> None:
    tables = migrations.built(one for one in migrations.migrations() if one.number < migration.number)
    for step in migration.steps:
        made = DDL.statements(step, tables.get(step["table"], {}))
        assert {text: wrong for text in made if (wrong := broken(text))} == {}
        migrations.apply_step(tables, step)


@pytest.mark.parametrize("table", sorted(RECORDS))
def test_every_declared_record_keeps_the_rules(table: str) -> None:
    declared = migrations.declared_table(RECORDS[table])
    made = [
        *DDL.statements({"do": "create_table", **declared}, {}),
        *(text_statements(table) if declared["text"] else ()),
    ]
    assert any(text.startswith("CREATE TABLE") for text in made)
    assert {text: wrong for text in made if (wrong := broken(text))} == {}
    assert "organization_id" in [column.name for column in RECORDS[table].columns()]


@pytest.mark.parametrize(
    ("statement", "is_broken"),
    [
        ("SELECT 1 FROM memory WHERE id = ?", True),
        ('SELECT 1 FROM "memory" WHERE "organization_id" = ? AND id = ?', False),
        ('SELECT 1 FROM "memory" m WHERE organization_id = ? AND EXISTS (SELECT 1 FROM "tag" WHERE id = m.id)', True),
        ("UPDATE memory SET organization_id = 'b' WHERE organization_id = 'a'", True),
        ("UPDATE memory SET text = ? WHERE id = ?", True),
        ("UPDATE memory SET text = ? WHERE organization_id = ? AND id = ?", False),
        ("DELETE FROM tag WHERE id = ?", True),
        ("INSERT INTO tag(id, tag) VALUES (?, ?)", True),
        ("INSERT INTO tag(organization_id, id) SELECT ?, id FROM tag WHERE organization_id = ?", True),
        ("MERGE INTO tag USING x ON true WHEN MATCHED THEN DELETE", True),
        ("SELECT set_config('recollect.organization', 'a', true)", True),
        ("SET LOCAL recollect.organization = 'acme'", False),
        ("SET LOCAL recollect.organization = $1", True),
        ("LOCK TABLE memory IN SHARE MODE", True),
        ("LOCK TABLE recollect_order IN SHARE MODE", False),
        ("CREATE TABLE memory(id text, PRIMARY KEY (id))", True),
        ("CREATE TABLE tag(id text, PRIMARY KEY (organization_id, id), FOREIGN KEY (m) REFERENCES memory (id))", True),
        ("CREATE UNIQUE INDEX x ON tag(tag)", True),
        ("CREATE UNIQUE INDEX x ON memory(organization_id, idempotency_key)", True),
        ("CREATE UNIQUE INDEX x ON tag(organization_id, tag)", False),
        ("CREATE TRIGGER t BEFORE INSERT ON tag EXECUTE FUNCTION f()", True),
        ("ALTER TABLE tag ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES b (c)", True),
        ("CREATE TABLE tag(organization_id text, n bigserial, PRIMARY KEY (organization_id, n))", True),
    ],
)
def test_a_broken_rule_is_noticed(statement: str, is_broken: bool) -> None:
    assert bool(broken(statement)) is is_broken


def test_all_tables_are_spread_beside_the_organizations() -> None:
    made = list(distribution.statements(distribution.every_table(), 16))
    spread = [text for text in made if "create_distributed_table" in text]
    assert len(spread) == len(RECORDS) + 1
    assert "\"organization\"', 'organization_id', colocate_with => 'none', shard_count => 16" in spread[0]
    assert all("colocate_with => '\"organization\"'" in text for text in spread[1:])
    assert sum("create_reference_table" in text for text in made) == 2


def test_a_server_without_citus_says_what_to_do() -> None:
    with recollect.open(server().emptied_store(), embedder="hash") as mem:
        with pytest.raises(Unavailable, match="has no Citus") as caught:
            mem.migrate(distribute=True)
        assert "CREATE EXTENSION citus" in caught.value.remedy
        assert mem.migrate().applied == []


def test_a_store_that_is_no_database_server_cannot_be_distributed(mem: recollect.Recollect) -> None:
    with pytest.raises(Unavailable, match="cannot be distributed"):
        mem.migrate(distribute=True)


def test_a_cluster_is_never_asked_what_only_one_server_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()

    class Listening(psycopg.Cursor[Any]):
        def execute(self, query: Any, *given: Any, **named: Any) -> Any:
            asked.add(str(query))
            return super().execute(query, *given, **named)

    monkeypatch.setattr(Database, "cursor_factory", Listening)
    with recollect.open(server().emptied_store(), embedder="hash") as mem:
        mem._core.store.database.is_distributed = True  # type: ignore[attr-defined]
        asked.clear()
        mem.remember("the boat is blue")
        for by in ("everything", "meaning"):
            assert [hit.text for hit in mem.recall("blue boat", by=by)] == ["the boat is blue"]
    assert len(asked) > 10
    assert not any(map(is_for_one_server, asked))
