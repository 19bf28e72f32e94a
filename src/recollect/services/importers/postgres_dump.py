"""Tables of a PostgreSQL dump (`pg_dump --format plain`), read line by line into a temporary SQLite file.

Nothing of the dump is run: only the rows of COPY are read, of the tables that are asked for.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from recollect.errors import InvalidInput, TooLarge
from recollect.services.importers.origin import Origin
from recollect.services.importers.sqlite_tables import SqliteTables, quoted, tables_of

LONGEST_LINE = 128 << 20
ROWS_AT_ONCE = 500
_COPY = re.compile(r'COPY (?:"?[\w$]+"?\.)?"?([\w$]+)"? \(([^()]*)\) FROM stdin;\s*')
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def is_dump(origin: Origin) -> bool:
    return not origin.is_folder and b"PostgreSQL database dump" in origin.head(2000)


@contextmanager
def dumped_tables(origin: Origin, names: Collection[str]) -> Iterator[SqliteTables]:
    """These tables of a dump, with every value as text."""
    with TemporaryDirectory(prefix="recollect-import-") as folder:
        path = Path(folder) / "dump.sqlite"
        with closing(sqlite3.connect(path)) as made, origin.open() as file:
            made.execute("PRAGMA journal_mode = OFF")
            for table, columns in _copies(file, names):
                listed = ", ".join(map(quoted, columns))
                made.execute(f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({listed})")
                insert = f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * len(columns))})"
                made.executemany(insert, _rows(file, len(columns), origin.name))
            made.commit()
        with tables_of(path) as tables:
            yield tables


def _copies(file: IO[bytes], names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """The tables whose rows follow in the file; whoever asks reads them before the next."""
    while raw := file.readline(LONGEST_LINE):
        found = _COPY.fullmatch(raw.decode("utf-8", "replace")) if raw.startswith(b"COPY ") else None
        if found and found[1] in names:
            yield found[1], [name.strip().strip('"') for name in found[2].split(",")]


def _rows(file: IO[bytes], columns: int, name: str) -> Iterator[list[str | None]]:
    while raw := file.readline(LONGEST_LINE):
        if len(raw) == LONGEST_LINE:
            raise TooLarge(f"'{name}' has a row of more than {LONGEST_LINE:,} bytes", remedy="leave it out of the dump")
        if raw.rstrip(b"\r\n") == b"\\.":
            return
        if not raw.endswith(b"\n"):
            break
        values = raw.decode("utf-8", "replace").rstrip("\r\n").split("\t")
        if len(values) != columns:
            raise InvalidInput(f"'{name}' is not a plain dump of PostgreSQL", remedy="make one with pg_dump")
        yield [None if one == "\\N" else _ESCAPED.sub(_unescaped, one) for one in values]
    raise InvalidInput(f"'{name}' was cut short", remedy="dump the database again")


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])


def bytea(value: object) -> bytes:
    """Bytes: as SQLite has them, or as PostgreSQL writes them, with \\x and hexadecimal digits."""
    if isinstance(value, bytes):
        return value
    text = str(value or "")
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
