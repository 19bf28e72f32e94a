"""A fresh DuckDB in memory for each job, opened ahead of time and locked before anything of a stranger's reaches it.

It can read the files of this job and no other, write to the job's own folder where the job makes a file, load nothing,
and change no setting. No two jobs share a database, a connection or a temporary file: the next one sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from recollect.adapters.data.sql_wall import known_functions, system_views
from recollect.errors import DamagedData, NotFound
from recollect.ports.data import Column, Limits

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "async_threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_file_cache": False,
    "python_enable_replacements": False,  # else the variables of this program could be read as tables
    "threads": 1,
}
_ITSELF_MEGABYTES = 128
"""What Python, DuckDB and the parser fill before any data are read (measured)."""


@dataclass(frozen=True)
class Catalog:
    """What DuckDB has, asked once: functions that are safe to call, those that aggregate, and views of its own."""

    safe: frozenset[str]
    aggregates: frozenset[str]
    system_views: frozenset[str]

    @classmethod
    def by(cls, connection: duckdb.DuckDBPyConnection) -> Catalog:
        asked = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type = 'aggregate'"
        aggregates = frozenset(name for (name,) in connection.execute(asked).fetchall())
        return cls(known_functions(connection), aggregates, system_views(connection))


def fresh() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config=_CONFIG)


def lock(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    limits: Limits,
    readable: Sequence[Path],
    writable: Path | None = None,
) -> None:
    """From here on only these files exist for it. `folder` is the job's own, where what does not fit in memory goes."""
    share = max(32, int((limits.megabytes - _ITSELF_MEGABYTES) * 0.75))
    settings = {
        "threads": str(limits.threads),
        "memory_limit": quoted_text(f"{share}MB"),
        "temp_directory": quoted_text(str(folder / "spill")),
        "max_temp_directory_size": quoted_text(f"{limits.disk_megabytes}MB"),
        "max_execution_time": str(int(limits.seconds * 1000)),
        "enable_progress_bar": "true",  # not shown, but counted: see `reporting`
        "enable_progress_bar_print": "false",
        "progress_bar_time": "0",
        "error_on_division_by_zero": "false",  # NULL, as in SQLite and MySQL
        "ieee_floating_point_ops": "false",
        "secret_directory": quoted_text(str(folder / "secrets")),
        "extension_directories": "[]",
        "allowed_paths": "[" + ", ".join(quoted_text(str(path)) for path in readable) + "]",
        "allowed_directories": f"[{quoted_text(str(writable) + '/')}]" if writable else "[]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {value}")


def add_tables(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Path]) -> dict[str, list[Column]]:
    """Give the files their names; the columns of each."""
    schema = {}
    for name, path in tables.items():
        try:
            connection.execute(f"CREATE OR REPLACE VIEW {quoted_name(name)} AS SELECT * FROM {parquet(path)}")
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            if not path.is_file():
                raise NotFound(f"the file of the table '{name}' is gone", remedy="add the source again") from None
            raise DamagedData(
                f"the file of the table '{name}' cannot be read", remedy="add the source again"
            ) from error
        schema[name] = columns_of(connection, f"SELECT * FROM {quoted_name(name)}")
    return schema


def parquet(path: Path, *options: str) -> str:
    """The rows of a file as a part of a statement: its own columns only.

    Else DuckDB takes a folder called `a=b`, as ours for each organization is, for one more column.
    """
    return f"read_parquet({', '.join((quoted_text(str(path)), 'hive_partitioning=false', *options))})"


def columns_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Column]:
    """The columns that a statement returns, without running it."""
    return [Column(name, type) for name, type, *_ in connection.execute(f"DESCRIBE {sql}").fetchall()]


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
