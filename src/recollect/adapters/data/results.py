"""A statement of a stranger, checked, made lenient and run; its rows as plain values, and the hash of all of them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb

from recollect.adapters.data.database import Catalog, add_tables, columns_of
from recollect.adapters.data.sql_leniency import Schema, make_lenient
from recollect.adapters.data.sql_rules import Parsed, nearest
from recollect.adapters.data.sql_wall import Wall
from recollect.errors import InvalidInput, NotFound, RecollectError, TooLarge
from recollect.ports.data import Column, Limits, Plain, Statement

_CHUNK = 2048
_MODULUS = 1 << 128
_EXACT_DIGITS = 15
_PLAIN_TYPES = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "BOOLEAN",
    "VARCHAR",
)
_UNKNOWN_COLUMN = re.compile(r'column(?: named)? "([^"]+)"')
_FILES = re.compile(r"'?/[^\s'\"/]+/[^\s'\"]*'?")


def prepare(
    connection: duckdb.DuckDBPyConnection, parsed: Parsed, tables: dict[str, Path], catalog: Catalog
) -> Statement:
    """The statement as it will run: its tables added, its dialect forgiven, checked, and known to be understood."""
    schema = add_tables(connection, {name: tables[name] for name in parsed.tables})
    make_lenient(parsed, schema, catalog.aggregates)
    try:
        sql = parsed.sql
        wall = Wall(catalog.safe, catalog.system_views, {name.lower() for name in parsed.tables})
        try:
            wall.check(connection, sql)
        except (duckdb.ParserException, InvalidInput):
            if parsed.is_rewritten or parsed.rewritten == sql:
                raise
            parsed.note("some of it was written anew for DuckDB")  # IIF is CASE there, for example
            sql = parsed.sql
            wall.check(connection, sql)
        columns = columns_of(connection, sql)
    except duckdb.Error as error:
        raise explained(error, schema) from None
    return Statement(sql, parsed.tables, columns, parsed.notes)


def run(connection: duckdb.DuckDBPyConnection, statement: Statement, limits: Limits) -> dict[str, object]:
    try:
        done = connection.execute(statement.sql)
        described = [(str(name), str(type)) for name, type, *_ in done.description or ()]
        kept, size, count, total = [], 0, 0, 0
        is_cut = False
        rounding = _rounding([type for _, type in described])
        for row in _rows(done, [type for _, type in described]):
            count += 1
            if count > limits.hashed_rows:
                break
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            exact = text if rounding is None else json.dumps([rounding(value) for value in row], separators=(",", ":"))
            total += int.from_bytes(
                hashlib.blake2b(exact.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big"
            )
            size_then = size + len(text)
            if is_cut or count > limits.rows or size_then > limits.reply_megabytes << 20:
                is_cut = True
                continue
            kept.append(row)
            size = size_then
    except duckdb.Error as error:
        raise explained(error, {}) from None
    except (OverflowError, ValueError) as error:
        raise InvalidInput(
            f"a value cannot be shown: {str(error)[:120]}", remedy="cast it to text in the query"
        ) from None
    if is_cut and not kept and limits.rows:
        raise TooLarge(f"one row is larger than {limits.reply_megabytes} MB", remedy="select fewer or shorter columns")
    is_whole = count <= limits.hashed_rows
    names = json.dumps([name for name, _ in described], ensure_ascii=False)
    digest = hashlib.sha256(f"{names}\n{count}\n{total % _MODULUS:032x}".encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "columns": [name for name, _ in described],
        "types": [type for _, type in described],
        "rows": kept,
        "is_cut": is_cut or not is_whole,
        "row_count": count if is_whole else None,
        "hash": digest if is_whole else None,
        "bytes": size,
        "sql": statement.sql,
        "tables": statement.tables,
        "notes": statement.notes,
    }


def _rows(done: duckdb.DuckDBPyConnection, types: list[str]) -> Iterator[list[Plain]]:
    """Row after row as plain values; columns that are plain already are not touched."""
    odd = [index for index, type in enumerate(types) if type not in _PLAIN_TYPES]
    while chunk := done.fetchmany(_CHUNK):
        for found in chunk:
            row = list(found)
            for index in odd:
                row[index] = plain(row[index])
            yield row


def plain(value: object) -> Plain:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= _EXACT_DIGITS else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in value]
    return str(value)  # timedelta, UUID


def _rounding(types: list[str]) -> Callable[[Plain], Plain] | None:
    """Sums of floating point numbers differ in their last digits from run to run, so the hash does not look at them."""
    return _rounded if any("DOUBLE" in type or "FLOAT" in type for type in types) else None


def _rounded(value: Plain) -> Plain:
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return value


def explained(error: duckdb.Error, schema: Schema) -> RecollectError:
    """What DuckDB says, in our errors: without its place in a text that is not quite the user's, without paths."""
    said = _FILES.sub("a file", str(error).partition("\n\nLINE")[0].strip())
    if isinstance(error, duckdb.InterruptException) or "max_execution_time" in said:
        return TooLarge("the query took too long", remedy="ask for less, or allow more seconds")
    if isinstance(error, duckdb.OutOfMemoryException) or "bad allocation" in said or "bad_alloc" in said:
        return TooLarge(
            "the query needs more memory than it may use", remedy="ask for less at a time, or group the rows"
        )
    if isinstance(error, duckdb.IOException):
        return TooLarge("the query writes more to disk than it may", remedy="ask for less at a time, or group the rows")
    unknown = _UNKNOWN_COLUMN.search(said)
    if unknown and ("not found" in said or "does not have" in said):
        return unknown_column(unknown[1], [column for columns in schema.values() for column in columns])
    if isinstance(error, duckdb.ConversionException):
        said = re.sub("'.*?'", "'…'", said)
    return InvalidInput(f"the query failed: {said[:400]}", remedy="check the names and types of the columns it uses")


def unknown_column(name: str, columns: list[Column]) -> NotFound:
    names = list(dict.fromkeys(column.name for column in columns))
    close = nearest(name, names)
    some = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    hint = f"did you mean {' or '.join(close)}?" if close else f"the columns are {some}"
    return NotFound(f"there is no column '{name[:80]}'", remedy=hint, nearest=close)
