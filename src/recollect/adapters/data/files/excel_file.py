"""Excel workbooks, every sheet: fastexcel reads the cells as texts, and their types are found like those of CSV."""

from __future__ import annotations

import zipfile

import duckdb

from recollect.adapters.data.database import quoted_name
from recollect.adapters.data.files.csv_file import is_header
from recollect.adapters.data.files.raw_table import InputFile, RawTable, check_columns, unique_names
from recollect.errors import DamagedData, InvalidInput, MissingExtra, TooLarge

_LARGEST_RATIO = 200
_MOST_SHEETS = 500


def read(file: InputFile, connection: duckdb.DuckDBPyConnection) -> list[RawTable]:
    try:
        import fastexcel
    except ImportError:
        raise MissingExtra("fastexcel is not installed", remedy="pip install 'recollect[data]'") from None
    _check_packed(file)
    try:
        book = fastexcel.read_excel(str(file.path))
        names = book.sheet_names
        if len(names) > _MOST_SHEETS:
            raise TooLarge(f"the workbook has more than {_MOST_SHEETS} sheets", remedy="split it")
        found = []
        for index, name in enumerate(names):
            sheet = book.load_sheet(index, header_row=None, dtypes="string")
            check_columns(sheet.width, file.limits)
            if sheet.width and sheet.height:
                found.append(_table(connection, sheet, index, name if len(names) > 1 else file.stem, file))
            else:
                file.notes.append(f"the sheet '{name}' is empty")
    except fastexcel.FastExcelError as error:
        raise DamagedData(
            f"the workbook cannot be read: {str(error).splitlines()[0][:160]}", remedy="save it again"
        ) from None
    if not found:
        raise InvalidInput("the workbook has no rows", remedy="give one with at least one row")
    found[0].notes[:0] = file.notes
    return found


def _check_packed(file: InputFile) -> None:
    """A workbook is a zip: what its directory admits is checked here, what it hides ends at the process's limits."""
    if not zipfile.is_zipfile(file.path):
        return  # the older format
    try:
        with zipfile.ZipFile(file.path) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
    except (zipfile.BadZipFile, ValueError) as error:
        raise DamagedData(f"the workbook cannot be unpacked: {str(error)[:120]}", remedy="save it again") from None
    most = min(file.limits.input_megabytes << 20, max(file.path.stat().st_size * _LARGEST_RATIO, 64 << 20))
    if size > most:
        raise TooLarge(f"the workbook unpacks to more than {most >> 20:,} MB", remedy="split it, or save it as CSV")


def _table(connection: duckdb.DuckDBPyConnection, sheet: object, index: int, name: str, file: InputFile) -> RawTable:
    raw = f"sheet_{index}"
    relation = connection.from_arrow(sheet)
    columns = relation.columns
    relation.create(raw)
    head = connection.execute(f"SELECT * FROM {raw} LIMIT 200").fetchall()
    rows = [["" if cell is None else str(cell) for cell in row] for row in head]
    start = _start(rows)
    with_header = start < len(rows) and is_header(rows[start], rows[start + 1 :])
    names = unique_names(rows[start] if with_header else [f"column_{i + 1}" for i in range(len(columns))], file.limits)
    shown = ", ".join(f"{quoted_name(column)} AS c{place}" for place, column in enumerate(columns))
    filled = " OR ".join(f"{quoted_name(column)} IS NOT NULL" for column in columns)
    notes = [f"the first {start} rows are not part of the table and were skipped"] if start else []
    sql = f"SELECT {shown} FROM {raw} WHERE rowid >= {start + with_header} AND ({filled})"
    return RawTable(name, sql, names, notes)


def _start(rows: list[list[str]]) -> int:
    """The row where the table begins: titles above it fill one or two cells of many."""
    width = max((sum(bool(cell) for cell in row) for row in rows[:20]), default=0)
    for index, row in enumerate(rows[:20]):
        if sum(bool(cell) for cell in row) >= max(1, width * 0.6):
            return index
    return 0
