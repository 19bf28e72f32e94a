"""Statements that want more than to read listed tables: none reaches an outside database.

Each is tried in the SQL of the database and in that of uploads. A statement that is neither refused nor harmless would
show in the database: afterwards it has the same tables with the same rows, and nothing of the secret came out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.connections.conftest import SECRET_TEXT, Shop
from adapters.connections.test_databases import rows_of
from recollect.adapters.connections.select_rules import native_select
from recollect.domain.database_address import DatabaseEngine
from recollect.errors import InvalidInput, NotFound, RecollectError, TooLarge
from recollect.ports.connections import FetchLimits, OutsideTable, SqlDialect
from recollect.ports.data import Column

COLUMNS = [Column("id", "int"), Column("amount", "numeric"), Column("user", "text")]
TABLES = [OutsideTable("orders", "public", "orders", COLUMNS)]
EVERYWHERE = {
    "INSERT": "INSERT INTO orders VALUES (9)",
    "UPDATE": "UPDATE orders SET id = 9",
    "DELETE": "DELETE FROM orders",
    "DROP": "DROP TABLE orders",
    "CREATE TABLE": "CREATE TABLE made AS SELECT 1",
    "ALTER": "ALTER TABLE orders ADD COLUMN x int",
    "TRUNCATE": "TRUNCATE TABLE orders",
    "two statements": "SELECT 1; DELETE FROM orders",
    "two selects": "SELECT 1; SELECT 2",
    "behind a comment": "SELECT 1 /* ; */; DELETE FROM orders --",
    "behind a string": "SELECT 'a'';'; DELETE FROM orders",
    "SET": "SET x = 1",
    "BEGIN": "BEGIN",
    "COMMIT": "COMMIT",
    "EXPLAIN": "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE": "EXPLAIN ANALYZE DELETE FROM orders",
    "CALL": "CALL something()",
    "GRANT": "GRANT ALL ON orders TO public",
    "SELECT INTO": "SELECT id INTO made FROM orders",
    "FOR UPDATE": "SELECT * FROM orders FOR UPDATE",
    "FOR SHARE in a subquery": "SELECT * FROM (SELECT * FROM orders FOR SHARE) t",
    "unknown function": "SELECT made_up(id) FROM orders",
    "a function in quotes": 'SELECT "made_up"(id) FROM orders',
    "a function of a schema": "SELECT public.made_up(id) FROM orders",
    "a function as a table": "SELECT * FROM made_up(1)",
    "a function in WHERE": "SELECT id FROM orders WHERE made_up(id) = 1",
    "a function in ORDER BY": "SELECT id FROM orders ORDER BY made_up(id)",
    "a function in LIMIT": "SELECT id FROM orders LIMIT made_up(1)",
    "a function in a join": "SELECT * FROM orders a JOIN orders b ON made_up(a.id)",
    "a function in VALUES": "SELECT * FROM (VALUES (made_up(1))) t(x)",
    "a function named as a WITH": "WITH made_up(x) AS (SELECT 1) SELECT made_up(1)",
    "a function in a window": "SELECT sum(made_up(id)) OVER (PARTITION BY id) FROM orders",
    "a hidden table": "SELECT * FROM hidden",
    "a hidden table in a subquery": "SELECT (SELECT secret FROM hidden) FROM orders",
    "a hidden table in EXISTS": "SELECT 1 WHERE EXISTS (SELECT 1 FROM hidden)",
    "a hidden table in WITH": "WITH x AS (SELECT * FROM hidden) SELECT * FROM x",
    "a hidden table in UNION": "SELECT id FROM orders UNION SELECT secret FROM hidden",
    "a listed name for WITH": "WITH orders AS (SELECT 1 AS id) SELECT * FROM orders",
    "information_schema": "SELECT * FROM information_schema.tables",
    "another database": "SELECT * FROM other.public.orders",
    "current_user": "SELECT current_user",
    "session_user": "SELECT session_user FROM orders",
    "a NUL": "SELECT 1\0",
    "nothing": "  ;; -- nothing",
    "no statement": "hello",
    "nested deeply": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "too long": "SELECT '" + "x" * 200_000 + "'",
    "a parameter": "SELECT $1",
    "a question mark": "SELECT ? FROM orders",
}
POSTGRESQL = {
    "pg_read_file": "SELECT pg_read_file('/etc/passwd')",
    "pg_read_binary_file": "SELECT pg_read_binary_file('/etc/passwd')",
    "pg_ls_dir": "SELECT pg_ls_dir('/')",
    "pg_stat_file": "SELECT pg_stat_file('/etc/passwd')",
    "pg_sleep": "SELECT pg_sleep(10)",
    "pg_sleep in capitals": "SELECT PG_SLEEP(10)",
    "pg_sleep with a schema": "SELECT pg_catalog.pg_sleep(10)",
    "pg_sleep in quotes": 'SELECT "pg_sleep"(10)',
    "pg_sleep with escapes": 'SELECT U&"pg\\005fsleep"(10)',
    "pg_sleep with a comment": "SELECT pg_sleep/**/(10)",
    "pg_terminate_backend": "SELECT pg_terminate_backend(1)",
    "pg_reload_conf": "SELECT pg_reload_conf()",
    "pg_advisory_lock": "SELECT pg_advisory_lock(1)",
    "pg_notify": "SELECT pg_notify('a', 'b')",
    "lo_import": "SELECT lo_import('/etc/passwd')",
    "lo_export": "SELECT lo_export(1, '/tmp/x')",
    "dblink": "SELECT * FROM dblink('host=evil', 'SELECT 1') AS t(x int)",
    "nextval": "SELECT nextval('s')",
    "setval": "SELECT setval('s', 1)",
    "set_config": "SELECT set_config('transaction_read_only', 'off', false)",
    "current_setting": "SELECT current_setting('data_directory')",
    "query_to_xml": "SELECT query_to_xml('DELETE FROM orders', true, true, '')",
    "database_to_xml": "SELECT database_to_xml(true, true, '')",
    "has_table_privilege": "SELECT has_table_privilege('orders', 'SELECT')",
    "txid_current": "SELECT txid_current()",
    "version": "SELECT version()",
    "inet_server_addr": "SELECT inet_server_addr()",
    "pg_catalog": "SELECT rolname FROM pg_catalog.pg_roles",
    "pg_shadow": "SELECT * FROM pg_shadow",
    "pg_stat_activity": "SELECT query FROM pg_stat_activity",
    "regclass": "SELECT 'pg_class'::regclass",
    "regproc": "SELECT CAST('pg_sleep' AS regproc)",
    "an operator of a schema": "SELECT 1 OPERATOR(pg_catalog.+) 1",
    "COPY": "COPY orders TO '/tmp/made'",
    "COPY PROGRAM": "COPY (SELECT 1) TO PROGRAM 'id'",
    "DO": "DO $$ BEGIN DELETE FROM orders; END $$",
    "LISTEN": "LISTEN x",
    "PREPARE": "PREPARE p AS SELECT 1",
    "DECLARE": "DECLARE c CURSOR FOR SELECT 1",
    "LOCK": "LOCK TABLE orders",
    "VACUUM": "VACUUM",
    "SET ROLE": "SET ROLE postgres",
    "a write in WITH": "WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x",
    "an insert in WITH": "WITH x AS (INSERT INTO orders VALUES (9) RETURNING id) SELECT * FROM x",
    "TABLE": "TABLE hidden",
    "ROWS FROM": "SELECT * FROM ROWS FROM (pg_ls_dir('/')) AS t",
    "dollar quotes": "SELECT pg_sleep($$10$$)",
    "full width letters": "SELECT ｐｇ_sleep(10)",
    "generate_series of millions": "SELECT pg_sleep(x) FROM generate_series(1, 100000) x",
    "a lateral function": "SELECT * FROM orders, LATERAL pg_ls_dir('/') f",
    "MERGE": "MERGE INTO orders USING orders o ON true WHEN MATCHED THEN DELETE",
}
MYSQL = {
    "LOAD_FILE": "SELECT LOAD_FILE('/etc/passwd')",
    "INTO OUTFILE": "SELECT * FROM orders INTO OUTFILE '/tmp/made'",
    "INTO DUMPFILE": "SELECT 1 INTO DUMPFILE '/tmp/made'",
    "INTO a variable": "SELECT 1 INTO @x",
    "SLEEP": "SELECT SLEEP(10)",
    "SLEEP with a comment": "SELECT SLEEP/**/(10)",
    "BENCHMARK": "SELECT BENCHMARK(1000000000, md5('a'))",
    "GET_LOCK": "SELECT GET_LOCK('a', 10)",
    "RELEASE_LOCK": "SELECT RELEASE_LOCK('a')",
    "MASTER_POS_WAIT": "SELECT MASTER_POS_WAIT('a', 1, 10)",
    "USER": "SELECT USER()",
    "VERSION": "SELECT VERSION()",
    "DATABASE": "SELECT DATABASE()",
    "a system variable": "SELECT @@version",
    "a global variable": "SELECT @@global.secure_file_priv",
    "an assignment": "SELECT @x := 1",
    "an executable comment": "SELECT 1 /*!50000 , SLEEP(10) */",
    "a comment that hides a table": "SELECT * FROM /*! hidden */",
    "a hint": "SELECT /*+ SET_VAR(max_execution_time=0) */ SLEEP(10)",
    "mysql.user": "SELECT * FROM mysql.user",
    "performance_schema": "SELECT * FROM performance_schema.threads",
    "SHOW": "SHOW GRANTS",
    "HANDLER": "HANDLER orders OPEN",
    "LOAD DATA": "LOAD DATA INFILE '/etc/passwd' INTO TABLE orders",
    "LOAD DATA LOCAL": "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE orders",
    "KILL": "KILL 1",
    "USE": "USE mysql",
    "LOCK TABLES": "LOCK TABLES orders READ",
    "FLUSH": "FLUSH TABLES",
    "PREPARE": "PREPARE p FROM 'SELECT 1'",
    "REPLACE": "REPLACE INTO orders VALUES (9)",
    "LOCK IN SHARE MODE": "SELECT * FROM orders LOCK IN SHARE MODE",
    "PROCEDURE ANALYSE": "SELECT * FROM orders PROCEDURE ANALYSE()",
    "UpdateXML": "SELECT UPDATEXML('<a/>', 'x', 'y')",
    "ExtractValue": "SELECT EXTRACTVALUE(1, concat(0x5c, (SELECT 1)))",
    "UUID_SHORT": "SELECT UUID_SHORT()",
    "NEXTVAL": "SELECT NEXTVAL(s)",
    "NEXT VALUE FOR": "SELECT NEXT VALUE FOR s",
    "LAST_INSERT_ID": "SELECT LAST_INSERT_ID(5)",
    "a function in backticks": "SELECT `sleep`(10)",
    "a string that ends early": "SELECT 'a\\' , SLEEP(10) -- '",
    "DO": "DO SLEEP(10)",
    "XA": "XA START 'a'",
    "sys_exec": "SELECT sys_exec('id')",
}
SQLITE = {
    "ATTACH": "ATTACH '/tmp/made.db' AS x",
    "DETACH": "DETACH main",
    "PRAGMA": "PRAGMA query_only = OFF",
    "a pragma as a table": "SELECT * FROM pragma_table_info('hidden')",
    "pragma_database_list": "SELECT * FROM pragma_database_list",
    "sqlite_master": "SELECT * FROM sqlite_master",
    "sqlite_schema": "SELECT * FROM sqlite_schema",
    "sqlite_temp_master": "SELECT * FROM sqlite_temp_master",
    "sqlite_dbpage": "SELECT * FROM sqlite_dbpage",
    "main.sqlite_master": "SELECT * FROM main.sqlite_master",
    "dbstat": "SELECT * FROM dbstat",
    "load_extension": "SELECT load_extension('x')",
    "readfile": "SELECT readfile('/etc/passwd')",
    "writefile": "SELECT writefile('/tmp/made', 'x')",
    "edit": "SELECT edit('x')",
    "fts3_tokenizer": "SELECT fts3_tokenizer('x', x'00')",
    "zeroblob": "SELECT zeroblob(1000000000)",
    "randomblob": "SELECT randomblob(1000000000)",
    "sqlite_version": "SELECT sqlite_version()",
    "sqlite_source_id": "SELECT sqlite_source_id()",
    "sqlite_compileoption_get": "SELECT sqlite_compileoption_get(1)",
    "last_insert_rowid": "SELECT last_insert_rowid()",
    "changes": "SELECT changes()",
    "json_each": "SELECT * FROM json_each('[1]')",
    "fsdir": "SELECT * FROM fsdir('/')",
    "csv": "SELECT * FROM csv('/etc/passwd')",
    "VACUUM INTO": "VACUUM INTO '/tmp/made.db'",
    "REINDEX": "REINDEX",
    "ANALYZE": "ANALYZE",
    "REPLACE": "REPLACE INTO orders VALUES (9)",
    "CREATE TRIGGER": "CREATE TRIGGER t AFTER INSERT ON orders BEGIN SELECT 1; END",
    "CREATE TEMP TABLE": "CREATE TEMP TABLE t AS SELECT 1",
    "INDEXED BY": "SELECT * FROM hidden INDEXED BY x",
    "a quoted system table": 'SELECT * FROM "sqlite_master"',
    "a system table in square brackets": "SELECT * FROM [sqlite_master]",
    "a system table in backticks": "SELECT * FROM `sqlite_master`",
}
ATTACKS: dict[DatabaseEngine, dict[str, str]] = {"postgresql": POSTGRESQL, "mysql": MYSQL, "sqlite": SQLITE}
# What these become is harmless: a text, a column that does not exist, a comment that is not sent.
HARMLESS = {
    ("mysql", "native", "a function in quotes"),
    ("mysql", "native", "a parameter"),
    ("mysql", "native", "an executable comment"),
    ("mysql", "native", "a string that ends early"),
    ("mysql", "duckdb", "a system variable"),
    ("mysql", "duckdb", "a global variable"),
    ("mysql", "duckdb", "an executable comment"),
    ("sqlite", "native", "a parameter"),
}
DIALECTS: tuple[SqlDialect, ...] = ("native", "duckdb")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("engine", "name"), [(engine, name) for engine in ATTACKS for name in {**EVERYWHERE, **ATTACKS[engine]}]
)
def test_an_attack_is_refused(engine: DatabaseEngine, dialect: SqlDialect, name: str) -> None:
    sql = {**EVERYWHERE, **ATTACKS[engine]}[name]
    if (engine, dialect, name) in HARMLESS:
        text = native_select(sql, TABLES, engine, dialect).sql
        assert not any(word in text.lower() for word in ("/*", "--  ", "@@", ":="))
        return
    with pytest.raises((InvalidInput, NotFound, TooLarge)) as caught:
        pytest.fail(f"it would run: {native_select(sql, TABLES, engine, dialect).sql}")
    assert caught.value.remedy


def test_after_all_attacks_the_database_is_as_it_was(shop: Shop, tmp_path: Path) -> None:
    before = _contents(shop, tmp_path)
    came_out = []
    for sql in {**EVERYWHERE, **ATTACKS[shop.database.engine]}.values():
        for dialect in DIALECTS:
            target = tmp_path / "attack.parquet"
            limits = FetchLimits(seconds=5)
            try:
                shop.database.select(sql, shop.tables, target, dialect=dialect, limits=limits)
                came_out.append(str(rows_of(target)))
            except RecollectError as error:
                came_out.append(str(error))
    assert SECRET_TEXT not in "".join(came_out)
    assert not any("root:" in text for text in came_out)
    assert _contents(shop, tmp_path) == before


def _contents(shop: Shop, folder: Path) -> dict[str, list[tuple[object, ...]]]:
    schema = shop.database.schema()
    found = {}
    for table in schema.tables:
        shop.database.sample(table, folder / "all.parquet")
        found[table.name] = rows_of(folder / "all.parquet", "ORDER BY ALL")
    return found


def test_each_dialect_has_at_least_thirty_attacks_of_its_own() -> None:
    assert all(len(own) >= 30 for own in ATTACKS.values())
