"""Statements that want to do harm: none writes a file, reads what is not listed, or passes its limits.

Each has a name. Some are refused, others run and end at their limit; whichever way, no more memory and processor time
is used than was allowed, nothing of the secret comes out, no file appears, and the next question is answered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.data.conftest import SECRET
from recollect.adapters.data.engine import DuckDBEngine
from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.ports.data import Limits
from seeds import some

LIMITS = Limits(seconds=1.5, cpu_seconds=3, megabytes=400, disk_megabytes=64, rows=1000, hashed_rows=20_000)
SLACK = 256 << 20  # memory is looked at every few milliseconds, and on a busy machine somewhat later
"""The memory is looked at every ten milliseconds; so much can be filled in between."""

REFUSED = {
    # other files
    "read_text": "SELECT * FROM read_text('{folder}/secret.txt')",
    "read_blob": "SELECT * FROM read_blob('{folder}/secret.txt')",
    "read_csv": "SELECT * FROM read_csv('{folder}/secret.csv')",
    "read_csv_auto": "SELECT * FROM read_csv_auto('{folder}/secret.csv')",
    "read_json": "SELECT * FROM read_json('{folder}/secret.txt')",
    "read_parquet": "SELECT * FROM read_parquet('{folder}/unlisted.parquet')",
    "parquet_scan": "SELECT * FROM parquet_scan('{folder}/unlisted.parquet')",
    "parquet_metadata": "SELECT * FROM parquet_metadata('{folder}/unlisted.parquet')",
    "parquet_kv_metadata": "SELECT * FROM parquet_kv_metadata('{folder}/unlisted.parquet')",
    "sniff_csv": "SELECT * FROM sniff_csv('{folder}/secret.csv')",
    "glob": "SELECT * FROM glob('{folder}/*')",
    "from a file": "SELECT * FROM '{folder}/secret.csv'",
    "from a quoted file": 'SELECT * FROM "{folder}/unlisted.parquet"',
    "from a relative file": "SELECT * FROM 'unlisted.parquet'",
    "from a list of files": "SELECT * FROM read_parquet(['{folder}/unlisted.parquet'])",
    "from a folder": "SELECT * FROM '{folder}/*.parquet'",
    "from an address": "SELECT * FROM 'https://example.com/data.parquet'",
    "from a bucket": "SELECT * FROM 's3://bucket/data.parquet'",
    "a file in a subquery": "SELECT (SELECT secret FROM '{folder}/secret.csv')",
    "a file in WITH": "WITH x AS (SELECT * FROM read_text('{folder}/secret.txt')) SELECT * FROM x",
    "a file in a join": "SELECT * FROM sales JOIN read_csv('{folder}/secret.csv') ON true",
    "a file in EXISTS": "SELECT 1 WHERE EXISTS (FROM read_blob('{folder}/secret.txt'))",
    "a file in a lateral join": "SELECT * FROM sales, LATERAL (SELECT * FROM read_text('{folder}/secret.txt'))",
    # writing
    "COPY TO": "COPY sales TO '{folder}/made.csv'",
    "COPY a query": "COPY (SELECT 1) TO '{folder}/made.parquet' (FORMAT parquet)",
    "COPY FROM": "COPY sales FROM '{folder}/secret.csv'",
    "EXPORT": "EXPORT DATABASE '{folder}/made'",
    "IMPORT": "IMPORT DATABASE '{folder}'",
    "ATTACH": "ATTACH '{folder}/made.db'",
    "CREATE TABLE": "CREATE TABLE made AS SELECT 1",
    "CREATE VIEW": "CREATE OR REPLACE VIEW sales AS SELECT 1",
    "CREATE MACRO": "CREATE MACRO f(x) AS x + 1",
    "CREATE SECRET": "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "INSERT": "INSERT INTO sales VALUES (1)",
    "UPDATE": "UPDATE sales SET id = 1",
    "DELETE": "DELETE FROM sales",
    "DROP": "DROP VIEW sales",
    "SELECT INTO": "SELECT 1 INTO made",
    "a write in WITH": "WITH x AS (DELETE FROM sales RETURNING *) SELECT * FROM x",
    "CHECKPOINT": "CHECKPOINT",
    # the engine itself
    "INSTALL": "INSTALL httpfs",
    "LOAD": "LOAD httpfs",
    "PRAGMA": "PRAGMA database_list",
    "pragma function": "SELECT * FROM pragma_table_info('sales')",
    "SET": "SET threads = 64",
    "RESET": "RESET enable_external_access",
    "CALL": "CALL pragma_version()",
    "EXPLAIN ANALYZE": "EXPLAIN ANALYZE SELECT 1",
    "PREPARE": "PREPARE p AS SELECT 1",
    "DESCRIBE": "DESCRIBE sales",
    "SHOW": "SHOW ALL TABLES",
    "USE": "USE temp",
    "BEGIN": "BEGIN TRANSACTION",
    "query()": "SELECT * FROM query('SELECT * FROM read_text(''{folder}/secret.txt'')')",
    "query_table": "SELECT * FROM query_table('{folder}/secret.csv')",
    "duckdb_settings": "SELECT * FROM duckdb_settings()",
    "duckdb_secrets": "SELECT * FROM duckdb_secrets()",
    "which_secret": "SELECT * FROM which_secret('s3://x', 's3')",
    "duckdb_tables as a table": "SELECT * FROM duckdb_tables",
    "information_schema": "SELECT * FROM information_schema.tables",
    "pg_catalog": "SELECT * FROM pg_catalog.pg_class",
    "sqlite_master": "SELECT * FROM sqlite_master",
    "another database": "SELECT * FROM system.main.sales",
    "getenv": "SELECT getenv('HOME')",
    "current_setting": "SELECT current_setting('temp_directory')",
    "getvariable": "SELECT getvariable('x')",
    "current_user": "SELECT current_user",
    "version": "SELECT * FROM pragma_version()",
    "json_execute": "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "json_serialize_sql": "SELECT json_serialize_sql('SELECT 1')",
    "pg_sleep": "SELECT pg_sleep(10)",
    "write_log": "SELECT write_log('x')",
    "a function of a schema": "SELECT main.getenv('HOME')",
    "nextval": "SELECT nextval('s')",
    "python variables": "SELECT * FROM connection",
    "SUMMARIZE": "SUMMARIZE sales",
    # tricks of writing
    "two statements": "SELECT 1; DROP VIEW sales",
    "two statements behind a comment": "SELECT 1 /* ; */ ; COPY sales TO '{folder}/made.csv' --",
    "a comment in a name": "SELECT * FROM read_/**/text('{folder}/secret.txt')",
    "a nested comment": "SELECT * FROM /* /* */ */ read_text('{folder}/secret.txt')",
    "case": "SeLeCt * FrOm ReAd_TeXt('{folder}/secret.txt')",
    "full width letters": "SELECT * FROM ｒｅａｄ_text('{folder}/secret.txt')",
    "a name in quotes": "SELECT * FROM \"read_text\"('{folder}/secret.txt')",
    "a name with unicode escapes": "SELECT * FROM U&\"read\\005ftext\"('{folder}/secret.txt')",
    "no-break spaces": "COPY\u00a0sales\u00a0TO\u00a0'{folder}/made.csv'",
    "a NUL": "SELECT 1\0; COPY sales TO '{folder}/made.csv'",
    "dollar quotes": "SELECT * FROM read_text($${folder}/secret.txt$$)",
    "method calls": "SELECT ('{folder}/secret.txt').read_text()",
    "FROM first": "FROM read_text('{folder}/secret.txt')",
    "a name of WITH outside it": "SELECT * FROM (WITH sqlite_master AS (SELECT 1) FROM sqlite_master), sqlite_master",
    "a file as a name of WITH": (
        'SELECT * FROM (WITH "{folder}/secret.csv" AS (SELECT 1 AS a) SELECT 1), "{folder}/secret.csv"'
    ),
    "a view of the system in WITH": "SELECT * FROM (WITH duckdb_settings AS (SELECT 1) SELECT 1), duckdb_settings",
    "a table of the engine in WITH": "SELECT (WITH pg_class AS (SELECT 1 AS x) SELECT x FROM pg_class) FROM pg_class",
    "PIVOT of a file": "PIVOT '{folder}/secret.csv' ON secret",
    "nothing": "",
    "only a comment": "-- nothing",
    "a huge statement": "SELECT '" + "x" * 200_000 + "'",
    "deep nesting": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "deep subqueries": "SELECT * FROM (" * 3_000 + "SELECT 1" + ")" * 3_000,
    "deep functions": "SELECT " + "abs(" * 9_000 + "1" + ")" * 9_000,
}

BOUNDED = {
    "repeat": "SELECT repeat('x', 4000000000)",
    "repeat of repeats": "SELECT repeat(repeat('x', 100000), 40000)",
    "repeat for each row": "SELECT repeat(label, 100000) FROM big",
    "lpad": "SELECT lpad('x', 2000000000, 'y')",
    "rpad for each row": "SELECT max(rpad(label, 1000000, 'y')) FROM big",
    "levenshtein": "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
    "damerau_levenshtein": "SELECT damerau_levenshtein(repeat('a', 100000), repeat('b', 100000))",
    "range": "SELECT sum(i) FROM range(100000000000) t(i)",
    "generate_series": "SELECT count(DISTINCT i) FROM generate_series(1, 100000000000) t(i)",
    "a list of a range": "SELECT range(3000000000)",
    "lists for each row": "SELECT sum(len(range(id * 1000))) FROM big",
    "cross joins": "SELECT count(*) FROM big a, big b, big c WHERE a.label || b.label || c.label = 'x'",
    "a sort that does not fit": "SELECT a.label || b.label AS x FROM big a, big b ORDER BY md5(x)",
    "a join on everything": "SELECT max(a.label || b.label) FROM big a JOIN big b ON a.part = b.part",
    "a recursive query without end": (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
    ),
    "a recursive query that doubles": (
        "WITH RECURSIVE t(n, x) AS (SELECT 1, 'ab' UNION ALL SELECT n + 1, x || x FROM t) SELECT max(len(x)) FROM t"
    ),
    "a regular expression": "SELECT regexp_matches(repeat('a', 30000000), '(a*)*(a|b)*(a?){500}b')",
    "regexp_replace": "SELECT len(regexp_replace(repeat('a', 3000000), 'a', repeat('b', 1000), 'g'))",
    "regexp_extract_all": "SELECT len(regexp_extract_all(repeat('a', 100000000), '.'))",
    "string_agg": "SELECT string_agg(a.label || b.label, ',') FROM big a, big b",
    "list": "SELECT list(a.label || b.id) FROM big a, big b",
    "list_aggregate": "SELECT list_aggregate(list(label), 'string_agg', repeat('x', 100000)) FROM big",
    "list_transform": "SELECT list_transform(range(2000000000), lambda x: x || 'abc')",
    "list_sort": "SELECT list_sort(list_transform(range(50000000), lambda x: md5(x::VARCHAR)))",
    "a map of everything": "SELECT map(list(id), list(label)) FROM (SELECT a.id, b.label FROM big a, big b)",
    "histogram": "SELECT histogram(a.label || b.label) FROM big a, big b",
    "quantiles of everything": "SELECT quantile_cont(a.id * b.id, 0.5) FROM big a, big b",
    "exact median of texts": "SELECT mode(a.label || b.label) FROM big a, big b",
    "windows": (
        "SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 199999 PRECEDING AND CURRENT ROW), list(label) OVER () FROM big"
    ),
    "huge decimals": "SELECT sum(99999999999999999999999999999999999999::DECIMAL(38,0)) FROM big",
    "factorial": "SELECT factorial(1000000000::INTEGER)",
    "printf": "SELECT printf('%1000000000d', 1)",
    "format": "SELECT format('{:>2000000000}', 'x')",
    "a million columns": "SELECT " + ", ".join(f"{i}" for i in range(14_000)),
    "COLUMNS squared": "SELECT " + ", ".join(["big.*"] * 6_000) + " FROM big",
    "a long IN": "SELECT count(*) FROM big WHERE id IN (" + ", ".join(map(str, range(14_000))) + ")",
    "a long chain of AND": "SELECT 1 WHERE " + " AND ".join(["1 = 1"] * 9_000),
    "a long chain of OR": "SELECT count(*) FROM big WHERE " + " OR ".join(f"id = {i}" for i in range(6_000)),
    "a long chain of UNION": " UNION ALL ".join(["SELECT 1"] * 5_000),
    "many joins": "SELECT count(*) FROM " + ", ".join(f"big b{i}" for i in range(60)),
    "a billion rows out": "SELECT a.label, b.label FROM big a, big b",
    "wide rows out": "SELECT repeat(label, 20000) FROM big",
    "json": "SELECT json_group_array(a.label) FROM big a, big b",
    "deep json": "SELECT json_extract('" + "[" * 40_000 + "]" * 40_000 + "', '$[0]')",
    "to_json of everything": "SELECT to_json(list(big)) FROM big, range(1000)",
    "bit strings": "SELECT bitstring('1', 2000000000)",
    "hex of a giant": "SELECT hex(repeat('x', 1000000000))",
    "base64 of a giant": "SELECT base64(repeat('x', 1000000000)::BLOB)",
    "md5 of a giant": "SELECT md5(repeat('x', 1500000000))",
    "replace": "SELECT len(replace(repeat('a', 1000000), 'a', repeat('b', 1000)))",
    "string_split": "SELECT len(string_split(repeat('a,', 100000000), ','))",
    "split and unnest": "SELECT count(*) FROM (SELECT unnest(string_split(repeat('a,', 50000000), ',')))",
    "translate": "SELECT len(translate(repeat('a', 1000000000), 'a', 'b'))",
    "similarity": "SELECT jaro_winkler_similarity(repeat('ab', 1000000), repeat('ba', 1000000))",
    "array_cross": "SELECT list_distinct(range(300000000))",
    "flatten": "SELECT flatten(list_transform(range(20000), lambda x: range(x)))",
    "power": "SELECT 10::HUGEINT ** 38 * 10",
    "division by zero": "SELECT 1 // 0, 1 % 0",
    "an error with data in it": "SELECT (label || '{secret}')::INTEGER FROM big",
}


def _files(*folders: Path) -> set[str]:
    return {os.path.join(root, name) for folder in folders for root, _, names in os.walk(folder) for name in names}


@pytest.fixture
def untouched(
    engine: DuckDBEngine, tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Afterwards no file has come or gone, and the engine answers."""
    engine.query("SELECT 1", {})
    before = _files(tmp_path_factory.getbasetemp())
    yield
    assert engine.query("SELECT count(*) FROM sales", tables).rows == [[3]]
    assert _files(tmp_path_factory.getbasetemp()) == before


def _written(sql: str, folder: Path) -> str:
    return sql.replace("{folder}", str(folder)).replace("{secret}", SECRET[:3])


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str, engine: DuckDBEngine, tables: dict[str, Path], folder: Path, untouched: None) -> None:
    with pytest.raises(RecollectError) as refusal:
        engine.query(_written(REFUSED[name], folder), tables, limits=LIMITS)
    error = refusal.value
    assert isinstance(error, InvalidInput | NotFound), error  # TooLarge is an InvalidInput
    assert error.remedy
    assert SECRET not in str(error.as_dict())
    assert 0 < error.details["peak_bytes"] <= LIMITS.megabytes << 20


@pytest.mark.parametrize("name", some(12, BOUNDED, "statements that keep to their limits"))
def test_it_keeps_to_its_limits(
    name: str, engine: DuckDBEngine, tables: dict[str, Path], folder: Path, untouched: None
) -> None:
    """It is ended at a limit, or it is harmless and answers within them."""
    refusal = None
    try:
        done = engine.query(_written(BOUNDED[name], folder), tables, limits=LIMITS)
    except InvalidInput as error:
        refusal = error
    if refusal is not None:
        assert refusal.remedy
        peak = refusal.details["peak_bytes"]
    else:
        peak = done.cost.peak_bytes
        assert done.cost.cpu_seconds <= LIMITS.cpu_seconds + 1
        assert len(done.rows) <= LIMITS.rows
        assert done.bytes <= LIMITS.reply_megabytes << 20
    # Of one that died by itself it is not known where the process of the tests is larger.
    assert (peak is None and refusal is not None) or 0 < peak <= (LIMITS.megabytes << 20) + SLACK


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) + len(BOUNDED) >= 60
