"""What information_schema says of a MySQL or MariaDB database: four statements, however many tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from recollect.ports.connections import DatabaseFacts, OutsideSchema, OutsideTable
from recollect.ports.data import Column, ForeignKey

Rows = Sequence[tuple[object, ...]]
FACTS = """
SELECT @@version_comment, @@version, @@global.read_only,
  (SELECT count(*) FROM information_schema.tables WHERE table_schema = database())
"""
COUNT = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()"
TABLES = """
SELECT table_name, table_type, table_rows, table_comment FROM information_schema.tables
WHERE table_schema = database() ORDER BY table_name LIMIT %s
"""
COLUMNS = """
SELECT table_name, column_name, column_type, column_comment, column_key FROM information_schema.columns
WHERE table_schema = database() AND table_name <= %s ORDER BY table_name, ordinal_position
"""
KEYS = """
SELECT table_name, column_name, referenced_table_name, referenced_column_name, constraint_name
FROM information_schema.key_column_usage
WHERE table_schema = database() AND referenced_table_schema = database() AND table_name <= %s
ORDER BY table_name, constraint_name, ordinal_position
"""
GEOMETRIES = frozenset(
    "geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection".split()
)
_READING = re.compile(
    r"(USAGE|SELECT|SHOW VIEW|SHOW DATABASES|PROCESS|REPLICATION CLIENT|BINLOG MONITOR|SLAVE MONITOR)( \(.*\))?"
)


def facts(
    server: str, version: str, is_replica: bool, tables: int, grants: Sequence[str], is_encrypted: bool
) -> DatabaseFacts:
    """Read-only when all that is granted is reading; roles are not followed, so they count as more than that."""
    given = [re.match(r"GRANT (.+?) ON ", grant) for grant in grants if not grant.startswith("GRANT PROXY")]
    is_read_only = all(
        found is not None and all(_READING.fullmatch(one.strip()) for one in re.split(r",(?![^(]*\))", found[1]))
        for found in given
    )
    name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    notes = (
        [] if is_read_only else ["the login may change data; connections read only, but a login that only may is safer"]
    )
    return DatabaseFacts("mysql", name, version, is_read_only, tables, is_replica, is_encrypted, notes)


def schema_of(tables: Rows, columns: Rows, keys: Rows, count: int, database: str) -> OutsideSchema:
    columns_of: dict[str, list[Column]] = defaultdict(list)
    descriptions: dict[str, dict[str, str]] = defaultdict(dict)
    primary: dict[str, list[str]] = defaultdict(list)
    for table, column, type, comment, key in columns:
        columns_of[str(table)].append(Column(str(column), str(type)))
        if comment:
            descriptions[str(table)][str(column)] = str(comment)
        if key == "PRI":
            primary[str(table)].append(str(column))
    parts: dict[tuple[str, str], list[ForeignKey]] = defaultdict(list)
    for table, column, other, other_column, constraint in keys:
        parts[str(table), str(constraint)].append(ForeignKey(str(column), str(other), str(other_column)))
    foreign: dict[str, list[ForeignKey]] = defaultdict(list)
    for (name, _), found in parts.items():
        foreign[name] += found if len(found) == 1 else []
    listed = [
        OutsideTable(
            str(name), database, str(name), columns_of[str(name)], "view" if "VIEW" in str(kind) else "table",
            "" if str(comment) == "VIEW" else str(comment or ""), descriptions[str(name)], primary[str(name)],
            foreign[str(name)], int(str(rows)) if rows is not None else None,
        )
        for name, kind, rows, comment in tables
        if columns_of[str(name)]
    ]  # fmt: skip
    return OutsideSchema(listed, left_out=max(0, count - len(tables)))
