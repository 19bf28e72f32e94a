"""SQLite files, every table: read by Python's own sqlite3, since DuckDB's way to them is an extension to download.

The file is a stranger's. It is opened read-only and immutable, its schema is not trusted, and only plain tables are
read: no view, no virtual table, no trigger can run. Values go to DuckDB as JSON lines, which keep numbers, texts and
NULL apart.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from recollect.adapters.data.database import quoted_name, quoted_text
from recollect.adapters.data.files.column_types import ABSENT
from recollect.adapters.data.files.raw_table import InputFile, RawTable, unique_names
from recollect.errors import DamagedData, InvalidInput, TooLarge
from recollect.ports.data import ForeignKey, Progress

_MOST_TABLES = 2000
_LONGEST_VALUE = 256 << 20
_CHUNK = 1000
_MOST_NAMED = 20


def read(file: InputFile, progress: Progress) -> list[RawTable]:
    try:
        with closing(_opened(file.path)) as connection:
            tables = _tables(connection)
            if not tables:
                raise InvalidInput("the database has no table", remedy="give one with at least one table")
            found = []
            for index, name in enumerate(tables):
                progress("reading", index / len(tables))
                found.append(_table(connection, name, file.folder / f"table-{index}", file))
            file.notes.extend(_left_out(connection, file))
    except sqlite3.Error as error:
        raise DamagedData(f"the database cannot be read: {str(error)[:120]}", remedy="check it with sqlite3") from None
    found[0].notes[:0] = file.notes
    return found


def _left_out(connection: sqlite3.Connection, file: InputFile) -> Iterator[str]:
    views = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' LIMIT 21")]
    if views:
        more = ", …" if len(views) > _MOST_NAMED else ""
        yield f"views are not read: {', '.join(views[:_MOST_NAMED])}{more}; a connection to the file reads them"
    log = Path(f"{file.path}-wal")
    if log.is_file() and log.stat().st_size:
        yield f"what is still in {file.name}-wal was not read; close what writes to it, and add the file again"


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0", "cache_size=-8192"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _tables(connection: sqlite3.Connection) -> list[str]:
    asked = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) != 'sqlite_' ORDER BY rowid"
    )
    rows = connection.execute(asked).fetchmany(_MOST_TABLES + 1)
    if len(rows) > _MOST_TABLES:
        raise TooLarge(f"the database has more than {_MOST_TABLES:,} tables", remedy="split it")
    virtual = {name for name, sql in rows if str(sql).lstrip().upper().startswith("CREATE VIRTUAL")}
    shadows = {
        f"{name}_{end}"
        for name in virtual
        for end in ("data", "idx", "content", "docsize", "config", "node", "rowid", "parent")
    }
    return [str(name) for name, sql in rows if sql and name not in virtual | shadows]


def _table(connection: sqlite3.Connection, name: str, path: Path, file: InputFile) -> RawTable:
    columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_xinfo({quoted_name(name)})") if row[6] != 1]
    names = unique_names(columns, file.limits)
    read = ", ".join(quoted_name(column) for column in columns)
    kinds, longest = _write(connection.execute(f"SELECT {read} FROM {quoted_name(name)}"), len(columns), path)
    notes, types, shown = [], {}, []
    for index, kind in enumerate(kinds):
        type, sql = _type(kind, f"c{index}")
        types[f"c{index}"] = type if sql == f"c{index}" else "VARCHAR"
        shown.append(f"{sql} AS c{index}")
        if note := _note(kind, type):
            notes.append(f"{names[index]}: {note}")
    listed = "{" + ", ".join(f"'{column}': '{type}'" for column, type in types.items()) + "}"
    options = f"format='newline_delimited', columns={listed}, maximum_object_size={max(1 << 20, longest)}"
    sql = f"SELECT {', '.join(shown)} FROM read_json({quoted_text(str(path))}, {options})"
    keys = [
        ForeignKey(str(row[3]), str(row[2]), str(row[4] or row[3]))
        for row in connection.execute(f"PRAGMA foreign_key_list({quoted_name(name)})")
    ]
    return RawTable(name, sql, names, notes, is_typed=True, foreign_keys=keys)


def _type(kinds: set[str], column: str) -> tuple[str, str]:
    """The type of a column, and how its values are made of what was written."""
    known = kinds - {"absent"}
    if known and known <= {"int", "float"}:
        type = "BIGINT" if known == {"int"} else "DOUBLE"
        return type, column if known == kinds else f"TRY_CAST({column} AS {type})"
    return ("BLOB", f"unhex({column})") if kinds == {"bytes"} else ("VARCHAR", column)


def _note(kinds: set[str], type: str) -> str:
    if "absent" in kinds and type != "VARCHAR":
        return "marks such as '' were read as empty"
    words = sorted({"int": "numbers", "float": "numbers", "bytes": "bytes"}.get(kind, "texts") for kind in kinds)
    return f"holds {' and '.join(dict.fromkeys(words))}; all were read as text" if len(set(words)) > 1 else ""


def _write(rows: Iterator[tuple[object, ...]] | sqlite3.Cursor, width: int, path: Path) -> tuple[list[set[str]], int]:
    """Write rows as JSON lines; the kinds of values in each column, and the length of the longest line."""
    longest = 0
    kinds: list[set[str]] = [set() for _ in range(width)]
    keys = [f"c{index}" for index in range(width)]
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        for row in rows:
            plain = []
            for value, kind in zip(row, kinds, strict=True):
                if isinstance(value, str):
                    kind.add("absent" if len(value) < 10 and value.strip().lower() in ABSENT else "str")
                elif value is not None:
                    kind.add(type(value).__name__)
                if isinstance(value, bytes):
                    value = value.hex()
                elif isinstance(value, float) and not math.isfinite(value):
                    value = None
                plain.append(value)
            line = json.dumps(dict(zip(keys, plain, strict=True)), ensure_ascii=False, separators=(",", ":"))
            longest = max(longest, len(line))
            file.write(line + "\n")
    return kinds, 4 * longest  # bytes at most
