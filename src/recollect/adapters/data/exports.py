"""The whole result of a statement as a file: JSON, CSV and Parquet by DuckDB, Arrow by nanoarrow, Excel by XlsxWriter.

DuckDB hands its rows over by Arrow's C interface, so no larger Arrow library is needed.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from recollect.adapters.data.database import quoted_text
from recollect.adapters.data.results import explained, plain
from recollect.errors import InvalidInput, MissingExtra, TooLarge
from recollect.ports.data import Limits, Statement

if TYPE_CHECKING:
    from xlsxwriter.worksheet import Worksheet

OPTIONS = {
    "json": "FORMAT json, ARRAY true",
    "csv": "FORMAT csv, HEADER true",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
_SHEET_ROWS, _SHEET_COLUMNS, _CELL = 1_048_576, 16_384, 32_767
_LARGEST_EXACT = 1 << 53


def write(
    connection: duckdb.DuckDBPyConnection, statement: Statement, format: str, folder: Path, limits: Limits
) -> dict[str, object]:
    path = folder / f"export.{format}"
    notes = list(statement.notes)
    try:
        if format in OPTIONS:
            copy = f"COPY ({statement.sql}\n) TO {quoted_text(str(path))} ({OPTIONS[format]})"
            ((rows,),) = connection.execute(copy).fetchall()
        elif format == "arrow":
            rows = _arrow(connection, statement, path)
        elif format == "xlsx":
            rows = _excel(connection, statement, path, notes)
        else:
            raise InvalidInput(f"'{format[:40]}' is not a format", remedy="choose json, csv, parquet, arrow or xlsx")
    except duckdb.Error as error:
        raise explained(error, {}) from None
    except OSError:
        raise TooLarge(f"the file is larger than {limits.disk_megabytes} MB", remedy="export fewer rows") from None
    return {"file": path.name, "rows": rows, "bytes": path.stat().st_size, "notes": notes}


def _arrow(connection: duckdb.DuckDBPyConnection, statement: Statement, path: Path) -> int:
    """An Arrow IPC stream, which every Arrow library reads."""
    try:
        from nanoarrow import c_array_stream
        from nanoarrow.ipc import StreamWriter
    except ImportError:
        raise MissingExtra("nanoarrow is not installed", remedy="pip install 'recollect[data]'") from None
    rows = 0
    with open(path, "wb") as file, c_array_stream(connection.sql(statement.sql)) as stream:
        writer = StreamWriter.from_writable(file)
        try:
            for batch in stream:
                rows += batch.length
                writer.write_array(batch)
        finally:
            writer.close()
    return rows


def _excel(connection: duckdb.DuckDBPyConnection, statement: Statement, path: Path, notes: list[str]) -> int:
    try:
        import xlsxwriter
    except ImportError:
        raise MissingExtra("XlsxWriter is not installed", remedy="pip install 'recollect[data]'") from None
    if len(statement.columns) > _SHEET_COLUMNS:
        raise TooLarge(f"a sheet has at most {_SHEET_COLUMNS:,} columns", remedy="select fewer, or export as parquet")
    done, rows, is_cut = connection.execute(statement.sql), 0, False
    options = {
        "constant_memory": True,
        "tmpdir": str(path.parent),
        "strings_to_formulas": False,  # a text that begins with = stays a text
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "default_date_format": "yyyy-mm-dd",
        "remove_timezone": True,
        "nan_inf_to_errors": True,
    }
    with xlsxwriter.Workbook(str(path), options) as book:
        moments = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        sheet = book.add_worksheet("result")
        sheet.write_row(0, 0, [column.name[:_CELL] for column in statement.columns], book.add_format({"bold": True}))
        sheet.freeze_panes(1, 0)
        while chunk := done.fetchmany(2048):
            for row in chunk:
                rows += 1
                if rows >= _SHEET_ROWS:
                    raise TooLarge(f"a sheet has at most {_SHEET_ROWS:,} rows", remedy="export as csv or parquet")
                for index, value in enumerate(row):
                    is_cut |= _cell(sheet, rows, index, value, moments)
    if is_cut:
        notes.append(f"texts longer than {_CELL:,} characters were cut: Excel has no room for more in a cell")
    return rows


def _cell(sheet: Worksheet, row: int, column: int, value: object, moments: object) -> bool:
    """Write one value; whether it had to be cut."""
    if value is None:
        return False
    if isinstance(value, datetime) and value.year >= 1900:
        sheet.write_datetime(row, column, value, moments)
    elif isinstance(value, date) and not isinstance(value, datetime) and value.year >= 1900:
        sheet.write_datetime(row, column, value)
    elif isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, Decimal | float) or (isinstance(value, int) and abs(value) < _LARGEST_EXACT):
        sheet.write_number(row, column, value)
    else:
        text = value.isoformat() if isinstance(value, time) else str(plain(value))
        sheet.write_string(row, column, text[:_CELL])
        return len(text) > _CELL
    return False
