"""What PostgreSQL's own catalog says: server, login, tables, columns, keys. Four statements, however many tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from recollect.ports.connections import DatabaseFacts, OutsideSchema, OutsideTable
from recollect.ports.data import Column, ForeignKey

_READABLE = """
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
      AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                      AND d.deptype = 'e')
      AND has_schema_privilege(n.oid, 'USAGE') AND (has_table_privilege(c.oid, 'SELECT')
           OR has_any_column_privilege(c.oid, 'SELECT'))"""
COUNT = f"SELECT count(*) {_READABLE}"
FACTS = f"""
SELECT current_setting('server_version'), pg_is_in_recovery(),
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
  (SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = current_user),
  EXISTS (SELECT 1 {_READABLE} AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')),
  EXISTS (SELECT 1 FROM pg_namespace WHERE nspname !~ '^pg_' AND has_schema_privilege(oid, 'CREATE')),
  (SELECT count(*) {_READABLE})
"""
TABLES = f"""
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text,
  CASE WHEN c.relkind = 'p'
    THEN (SELECT sum(greatest(p.reltuples, 0))::bigint FROM pg_partition_tree(c.oid) t
          JOIN pg_class p ON p.oid = t.relid WHERE t.isleaf) ELSE c.reltuples::bigint END,
  coalesce(obj_description(c.oid, 'pg_class'), '')
  {_READABLE}
ORDER BY n.nspname <> 'public', n.nspname, c.relname LIMIT {{most}}
"""
COLUMNS = """
SELECT a.attrelid::bigint, a.attname::text, format_type(a.atttypid, a.atttypmod),
  coalesce(col_description(a.attrelid, a.attnum), '')
FROM pg_attribute a
WHERE a.attrelid IN ({tables}) AND a.attnum > 0 AND NOT a.attisdropped
  AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
ORDER BY a.attrelid, a.attnum
"""
KEYS = """
SELECT k.conrelid::bigint, k.contype::text, a.attname::text, k.confrelid::bigint, b.attname::text,
  cardinality(k.conkey)::bigint
FROM pg_constraint k CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u(own, other, place)
  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.own
  LEFT JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = u.other
WHERE k.conrelid IN ({tables}) AND k.contype IN ('p', 'f') ORDER BY k.conrelid, k.conname, u.place
"""
DEFAULT_SCHEMA = "public"
Rows = Sequence[tuple[Any, ...]]


def facts(row: tuple[Any, ...]) -> DatabaseFacts:
    version, is_replica, is_encrypted, is_powerful, may_change, may_create, tables = row
    is_read_only = bool(is_replica) or not (is_powerful or may_change or may_create)
    notes = (
        [] if is_read_only else ["the login may change data; connections read only, but a login that only may is safer"]
    )
    return DatabaseFacts(
        "postgresql", "PostgreSQL", str(version), is_read_only, int(tables), bool(is_replica), bool(is_encrypted), notes
    )


def schema_of(tables: Rows, columns: Rows, keys: Rows, count: int) -> OutsideSchema:
    columns_of, primary, foreign = defaultdict(list), defaultdict(list), defaultdict(list)
    descriptions: dict[int, dict[str, str]] = defaultdict(dict)
    names = {row[0]: shown_name(str(row[1]), str(row[2])) for row in tables}
    for oid, column, type, description in columns:
        columns_of[oid].append(Column(str(column), str(type)))
        if description:
            descriptions[oid][str(column)] = str(description)
    for oid, kind, column, other, other_column, width in keys:
        if kind == "p":
            primary[oid].append(str(column))
        elif width == 1 and other in names:
            foreign[oid].append(ForeignKey(str(column), names[other], str(other_column)))
    found = [
        OutsideTable(
            names[oid], str(schema), str(name), columns_of[oid], "view" if kind in "vm" else "table", str(description),
            descriptions[oid], primary[oid], foreign[oid], int(rows) if rows is not None and rows >= 0 else None,
        )
        for oid, schema, name, kind, rows, description in tables
        if columns_of[oid]
    ]  # fmt: skip
    return OutsideSchema(found, left_out=max(0, count - len(tables)))


def shown_name(schema: str, table: str) -> str:
    return table if schema == DEFAULT_SCHEMA else f"{schema}.{table}"
