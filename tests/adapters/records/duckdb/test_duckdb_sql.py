"""SQL by a user reads the tenant's own living records, and nothing else by any name, function or trick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.domain.memory import Memory
from recollect.errors import InvalidInput, TooLarge, Unsupported
from recollect.interfaces.cli import main
from recollect.ports.query import Query

SECRET = "xyzzy of globex"
OTHER_TABLES = [
    *("recollect_store", "recollect_gone", "recollect_migrations", "memory_text", "main.memory", "store.memory"),
    *('"store".main.memory', "temp.memory", "temp.main.memory", "information_schema.tables", "pg_catalog.pg_tables"),
    *("sqlite_master", "sqlite_schema", "duckdb_tables", "duckdb_columns", "pragma_database_list", "pg_tables"),
    *("'notes.csv'", "'store.duckdb'", '"/etc/passwd"', "'notes.parquet'", "statement", "self", "no_such_table"),
    *("memory AT (VERSION => 1)", "system.main.duckdb_tables", "duckdb_views", "duckdb_settings"),
]
TABLE_FUNCTIONS = [
    *("duckdb_tables()", "duckdb_settings()", "duckdb_secrets()", "duckdb_functions()", "duckdb_databases()"),
    *("pragma_table_info('memory')", "pragma_storage_info('memory')", "pragma_database_size()", "duckdb_logs()"),
    *("query('SELECT * FROM main.memory')", "query_table('recollect_store')", "query_table(['memory', 'memory'])"),
    *("read_text('/etc/passwd')", "read_blob('/etc/passwd')", "read_csv('/etc/passwd')", "read_csv_auto('x')"),
    *("read_json('x.json')", "read_parquet('x.parquet')", "parquet_scan('x')", "read_duckdb('store.duckdb')"),
    *("glob('/*')", "sniff_csv('x')", "json_execute_serialized_sql(json_serialize_sql('FROM recollect_store'))"),
    *("checkpoint()", "force_checkpoint()", "seq_scan('main', 'memory')", "which_secret('s3://x', 's3')"),
    *("enable_logging()", "truncate_duckdb_logs()", "test_all_types()", "summary((FROM recollect_store))"),
    *("pandas_scan(1)", "arrow_scan(1, 2, 3)", "main.range(3)", "repeat('x', 3)"),
]
FUNCTIONS = [
    *("getenv('HOME')", "current_setting('secret_directory')", "getvariable('x')", "current_query()", "version2()"),
    *("nextval('s')", "currval('s')", "write_log('x')", "sleep_ms(100000)", "pg_sleep(100)", "setseed(0.1)"),
    *("current_database()", "current_schemas(true)", "txid_current()", "in_search_path('a', 'b')", "current_user"),
    *("pg_get_viewdef(1)", "has_table_privilege('memory', 'select')", "obj_description(1)", "main.lower('A')"),
    *("json_serialize_sql('SELECT 1')", "system.main.lower('A')", "stats(1)", "create_sort_key(1, 'ASC')"),
]
STATEMENTS = [
    *(
        "",
        ";",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM memory",
        "DELETE FROM memory",
        "UPDATE memory SET text = ''",
    ),
    *("INSERT INTO memory SELECT * FROM memory", "CREATE TABLE x AS SELECT 1", "CREATE TEMP TABLE x(a INT)"),
    *("DROP TABLE memory", "ALTER TABLE memory ADD COLUMN x INT", "TRUNCATE memory", "COPY memory TO 'out.csv'"),
    *("COPY (SELECT 1) TO 'out.csv'", "COPY memory FROM 'in.csv'", "ATTACH 'other.duckdb'", "DETACH store"),
    *("EXPORT DATABASE 'folder'", "IMPORT DATABASE 'folder'", "INSTALL httpfs", "LOAD httpfs", "CHECKPOINT", "VACUUM"),
    *("PRAGMA database_list", "SET threads = 1", "RESET threads", "SET VARIABLE x = 1", "USE main", "BEGIN", "COMMIT"),
    *("CALL pragma_version()", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT * FROM memory", "PREPARE p AS SELECT 1"),
    *(
        "EXECUTE p",
        "SHOW TABLES",
        "SHOW ALL TABLES",
        "SHOW DATABASES",
        "DESCRIBE recollect_store",
        "SUMMARIZE main.memory",
    ),
    *(
        "SELECT",
        "nonsense",
        "SELECT '",
        "SELECT /* unended",
        "SELECT * FROM memory WHERE id = ?",
        "\ud800",
        "SELECT '\x00",
    ),
    *("MERGE INTO memory USING memory ON FALSE WHEN NOT MATCHED THEN INSERT", "CREATE MACRO f() AS 1", "((((" * 3000),
    *("CREATE SECRET s (TYPE http)", "COMMENT ON TABLE memory IS 'x'", "SELECT * INTO x FROM memory"),
]
HIDDEN_AWAY = [
    "SELECT (SELECT value FROM recollect_store LIMIT 1)",
    "SELECT * FROM memory WHERE id IN (SELECT id FROM main.memory)",
    "SELECT * FROM memory ORDER BY (SELECT count(*) FROM main.memory)",
    "SELECT count(*) FILTER (WHERE EXISTS (FROM recollect_store)) FROM memory",
    "SELECT sum(1) OVER (ORDER BY (SELECT max(seq) FROM recollect_gone)) FROM memory",
    "SELECT list_transform([1], lambda x: (SELECT max(value) FROM recollect_store))",
    "SELECT CASE WHEN TRUE THEN getenv('HOME') END",
    "SELECT * FROM (VALUES ((SELECT value FROM recollect_store LIMIT 1)))",
    "SELECT 1 LIMIT (SELECT count(*) FROM main.memory)",
    "SELECT 1 UNION ALL SELECT seq FROM recollect_gone",
    "WITH x AS (SELECT * FROM recollect_store) SELECT * FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM x, recollect_store WHERE a < 3) FROM x",
    "WITH recollect_store AS (SELECT 1) SELECT * FROM recollect_store",
    "SELECT * FROM duckdb_tables, (WITH duckdb_tables AS (SELECT 1) SELECT * FROM duckdb_tables) q",
    'SELECT * FROM \'notes.csv\', (WITH "notes.csv" AS (SELECT 1) SELECT * FROM "notes.csv") q',
    "FROM (DESCRIBE recollect_store)",
    "SELECT * FROM memory, LATERAL (SELECT * FROM recollect_store) q",
    "SELECT * FROM memory JOIN recollect_store ON TRUE",
    "SELECT * FROM memory SEMI JOIN recollect_store ON TRUE",
    "FROM query_table((SELECT 'recollect_store'))",
    "SELECT unnest((SELECT list(value) FROM recollect_store))",
    "PIVOT (SELECT * FROM recollect_store) ON key USING first(value)",
    "SELECT COLUMNS(*) FROM recollect_store",
    "SELECT * REPLACE ((SELECT max(value) FROM recollect_store) AS text) FROM memory",
]


@pytest.fixture(scope="module")
def mem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("sql")
    with recollect.open(f"duckdb:///{folder}/store.duckdb", embedder="hash", organization="acme") as opened:
        other = opened.within("globex")
        other.remember(SECRET, tags=["theirs"])
        other.user.add("Xyzzy", id="theirs", email="xyzzy@globex.org")
        opened.remember("41", tags=["a", "b"], id="one", metadata={"k": [1, "x"]})
        opened.remember("42", tags=["a"], id="two")
        opened.remember("43 forgotten", id="three")
        opened.forget("three")
        yield opened


def test_what_is_asked_comes_back_as_a_table(mem: Any) -> None:
    reply = mem.sql(
        "SELECT t.tag, count(*) AS n FROM memory m JOIN tag t ON t.memory_id = m.id GROUP BY ALL ORDER BY ALL"
    )
    assert (reply.columns, reply.types, reply.rows, reply.cut) == (
        ["tag", "n"], ["VARCHAR", "BIGINT"], [["a", 2], ["b", 1]], False
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "WITH x AS (FROM memory) SELECT upper(text) AS t FROM x WHERE text ILIKE '4%' ORDER BY t",
        "SELECT metadata->>'k', date_trunc('day', created_at), rank() OVER (ORDER BY id) FROM memory -- comment",
        "DESCRIBE memory",
        "SUMMARIZE tag",
        "SELECT j.key FROM memory, json_each(metadata) j",
        "SELECT now(), today(), random(), uuid(), INTERVAL 1 DAY, [1, 2], {'a': 1}",
        "SELECT 1.5::DECIMAL(4, 2), 'x'::BLOB, 'nan'::FLOAT, NULL, TIME '12:00', MAP {'a': 1}",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY priority), list(text ORDER BY id) FROM memory",
        "SELECT * FROM range(3), generate_series(1, 2), unnest([1, 2])",
        "WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x WHERE a < 5) FROM x",
    ],
)
def test_ordinary_questions_are_answered_in_plain_json(mem: Any, statement: str) -> None:
    reply = mem.sql(statement)
    assert reply.rows
    assert reply.model_dump_json()


def test_only_living_records_of_the_tenant_are_there(mem: Any) -> None:
    assert mem.sql("SELECT id FROM memory ORDER BY id").rows == [["one"], ["two"]]
    assert mem.within("globex").sql("SELECT text FROM memory").rows == [[SECRET]]
    assert mem.within("' OR 1=1 --").sql("SELECT * FROM memory").rows == []
    for record in ("organization", "user", "tag", "citation", "embedding", "access_log", "revision"):
        rows = mem.sql(f'SELECT * FROM "{record}"').rows
        assert "xyzzy" not in str(rows).lower()
        assert all(row[0] == "acme" for row in rows)


def test_hashes_of_passwords_and_keys_are_not_there(mem: Any) -> None:
    assert "password_hash" not in mem.sql('SELECT * FROM "user"').columns
    with pytest.raises(InvalidInput):
        mem.sql("SELECT key_hash FROM api_key")


ESCAPES = [
    *(f"SELECT * FROM {table}" for table in OTHER_TABLES),
    *(f"SELECT * FROM {function}" for function in TABLE_FUNCTIONS),
    *(f"SELECT {function}" for function in FUNCTIONS),
    *STATEMENTS,
    *HIDDEN_AWAY,
]


@pytest.mark.parametrize("statement", ESCAPES, ids=lambda statement: ascii(statement)[:50])
def test_no_escape(mem: Any, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mem._core.store.path.parent)
    Path("notes.csv").write_text("a,b\n1,2\n")
    before = sorted(Path().iterdir())
    with pytest.raises(InvalidInput) as caught:
        mem.sql(statement)
    assert "xyzzy" not in str(caught.value)
    assert sorted(Path().iterdir()) == before
    assert mem.sql("SELECT count(*) FROM memory").rows == [[2]]


def test_there_are_many_escapes_to_try() -> None:
    assert len(set(ESCAPES)) > 140


def test_what_a_query_says_about_failing_rows_tells_nothing_of_others(mem: Any) -> None:
    """A filter that met the rows of another tenant before they were sorted out would fail on them, and tell."""
    for condition in ("CAST(text AS INT) > 0", "CASE WHEN text LIKE 'x%' THEN CAST('no' AS INT) > 0 ELSE TRUE END"):
        assert mem.sql(f"SELECT count(*) FROM memory WHERE {condition}").rows == [[2]]
    assert mem.sql("SELECT max(CAST(text AS INT)) FROM memory").rows == [[42]]


def test_the_engine_itself_reaches_no_file_and_keeps_its_settings(mem: Any) -> None:
    """The second wall: what got past the first would still read nothing outside."""
    with mem._core.store._file.cursor(once=True) as cursor:
        for statement in ("FROM read_text('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/x'", "ATTACH '/tmp/x.duckdb'"):
            with pytest.raises(Exception, match="disabled by configuration"):
                cursor.execute(statement)
        for statement in ("SET enable_external_access = true", "SET threads = 1", "SET allowed_paths = ['/']"):
            with pytest.raises(Exception, match=r"locked|cannot be changed|Cannot"):
                cursor.execute(statement)
        with pytest.raises(Exception, match=r"load|install|disabled|Permission"):
            cursor.execute("LOAD httpfs")


def test_rows_and_time_have_limits(mem: Any) -> None:
    cut = mem.sql("SELECT * FROM range(10)", limit=4)
    assert (cut.rows, cut.cut) == ([[0], [1], [2], [3]], True)
    assert mem.sql("SELECT * FROM range(4)", limit=4).cut is False
    with pytest.raises(TooLarge, match="longer than"):
        mem.sql("SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE a.range + b.range = 7", seconds=0.2)
    with pytest.raises(InvalidInput, match="at most 100000"):
        mem.sql("SELECT '" + "x" * 200_000 + "'")
    assert mem.sql("SELECT 1").rows == [[1]]


def test_a_query_leaves_the_store_as_it_was(mem: Any) -> None:
    store = mem._core.store
    assert isinstance(store, DuckdbStore)
    mem.sql("SELECT * FROM memory")
    assert store.count(mem.within("globex")._scope, Query(Memory)) == 1
    assert mem.verify().sound


def test_asking_is_in_the_access_log(mem: Any) -> None:
    mem.sql("SELECT 'quoted text'")
    mem._core.journal.flush()
    entries = [entry for entry in mem.log(limit=500).entries if entry.action == "sql"]
    assert entries
    assert "quoted text" not in str(entries)


def test_another_store_says_where_sql_is_to_be_had(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "plain.db", embedder="hash") as plain, pytest.raises(Unsupported) as caught:
        plain.sql("SELECT 1")
    assert "duckdb:///" in caught.value.remedy
    assert "recollect copy" in caught.value.remedy


def test_the_command_line_draws_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = f"duckdb:///{tmp_path}/cli.duckdb"
    with recollect.open(store, embedder="hash") as mem:
        mem.remember("Alice prefers pytest", tags=["testing"])
    assert main.run(["sql", "SELECT tag, count(*) AS n FROM tag GROUP BY tag", "--store", store]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["tag", "n"], ["testing", "1"]]
    assert main.run(["sql", "DROP TABLE memory", "--store", store]) == 2
    assert "not one SELECT" in capsys.readouterr().err
