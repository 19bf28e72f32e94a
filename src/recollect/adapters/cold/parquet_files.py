"""Records in Parquet files, written, read and searched by DuckDB in this process.

Only files whose hash was checked come here, and no statement of a user, so there is no need for a confined process.
Nothing but the named files can be reached. DuckDB takes the rows as JSON Lines, since it needs no other package for
them and is far quicker so than row by row. (tests/adapters/cold)
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from recollect.errors import DamagedData, MissingExtra, StoreFull, typed_os_errors
from recollect.ports.cold import ColdHit, ColdQuery, ColdRow
from recollect.ports.folders import private_opener

if TYPE_CHECKING:
    import duckdb

_COLUMNS = (
    "{'table_name': 'VARCHAR', 'id': 'VARCHAR', 'kind': 'VARCHAR', 'moment': 'TIMESTAMP', 'text': 'VARCHAR', "
    "'terms': 'VARCHAR[]', 'record': 'VARCHAR'}"
)
_LONGEST_LINE = 1 << 30
_ROWS_AT_ONCE = 500
_GROUP_ROWS = 10_000
_PREFIX = "recollect-cold-"
_LEFT_SECONDS = 86_400.0


class ParquetFiles:
    """Fills `ports/cold.py:ColdFiles`."""

    def write(self, rows: Iterable[ColdRow], target: Path) -> int:
        _clear_left()
        with typed_os_errors(), TemporaryDirectory(prefix=_PREFIX) as folder:
            lines = Path(folder) / "rows.jsonl"
            with open(lines, "x", encoding="utf-8", opener=private_opener) as file:
                count = sum(1 for row in rows if file.write(_line(row) + "\n"))
            source = (
                f"read_json({_quoted(lines)}, format = 'newline_delimited', columns = {_COLUMNS}, "
                f"maximum_object_size = {_LONGEST_LINE})"
            )
            options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP_ROWS}"
            with _database() as database:
                database.execute(f"COPY (SELECT * FROM {source}) TO {_quoted(target)} ({options})")
            target.chmod(0o600)
        return count

    def read(self, path: Path) -> Iterator[ColdRow]:
        columns = "table_name, id, kind, moment, text, terms, record"
        with _database() as database:
            done = database.execute(f"SELECT {columns} FROM read_parquet({_quoted(path)})")
            while rows := done.fetchmany(_ROWS_AT_ONCE):
                for table, id, kind, moment, text, terms, record in rows:
                    yield ColdRow(table, id, record, kind, _in_utc(moment), text, terms or ())

    def search(self, files: Mapping[str, Path], query: ColdQuery) -> list[ColdHit]:
        if not files:
            return []
        names = {str(path): name for name, path in files.items()}
        where, values = ["list_contains($tables, table_name)"], dict[str, object]()
        values |= {"tables": list(query.tables), "terms": list(query.terms), "limit": query.limit}
        if query.terms:
            where.append("list_has_any(terms, $terms)")
        if query.kinds:
            where.append("list_contains($kinds, kind)")
            values["kinds"] = list(query.kinds)
        for name, operator, moment in (("since", ">=", query.since), ("until", "<", query.until)):
            if moment is not None:
                where.append(f"moment {operator} ${name}")
                values[name] = moment.astimezone(UTC).replace(tzinfo=None)
        listed = ", ".join(_quoted(path) for path in files.values())
        statement = (
            "SELECT filename, table_name, id, kind, moment, text, "
            "len(list_intersect(terms, $terms::VARCHAR[])) AS matched "
            f"FROM read_parquet([{listed}], filename = true) WHERE {' AND '.join(where)} "
            "ORDER BY matched DESC, moment DESC, id LIMIT $limit"
        )
        with _database() as database:
            found = database.execute(statement, values).fetchall()
        return [
            ColdHit(names[file], table, id, kind, _in_utc(moment), text or "", matched or 0)
            for file, table, id, kind, moment, text, matched in found
        ]


def _clear_left() -> None:
    """Delete the temporary folders that killed processes left: there is text in them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or gone already
            if folder.stat().st_mtime < time.time() - _LEFT_SECONDS:
                shutil.rmtree(folder)


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("duckdb is not installed", remedy="pip install 'recollect[data]'") from None
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False, "autoload_known_extensions": False, "threads": 2,
        "python_enable_replacements": False,
    }  # fmt: skip
    try:
        with duckdb.connect(":memory:", config=config) as database:
            yield database
    except duckdb.IOException as error:
        if "No space left" in str(error):
            raise StoreFull("no space left on the disk", remedy="free some disk space, then try again") from error
        raise DamagedData("a file of cold storage cannot be read", remedy="restore it from a backup") from error
    except duckdb.Error as error:
        raise DamagedData("a file of cold storage cannot be read", remedy="restore it from a backup") from error


def _line(row: ColdRow) -> str:
    moment = row.moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if row.moment is not None else None
    fields = {"table_name": row.table, "id": row.id, "kind": row.kind, "moment": moment, "text": row.text}
    return json.dumps(fields | {"terms": list(row.terms), "record": row.record}, ensure_ascii=False)


def _in_utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None else None


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
