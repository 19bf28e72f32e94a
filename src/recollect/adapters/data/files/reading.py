"""A file becomes tables: the format is found out, the rows are read, the types chosen, and Parquet written."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from recollect.adapters.data.database import columns_of, parquet, quoted_name, quoted_text
from recollect.adapters.data.files import column_types, csv_file, excel_file, json_file, sqlite_file
from recollect.adapters.data.files.input_file import head_of, opened
from recollect.adapters.data.files.raw_table import InputFile, RawTable, unique_names
from recollect.errors import DamagedData, InvalidInput
from recollect.ports.data import Column, ForeignKey, Limits, NewTable, Progress

_PARQUET = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 122880"


def read_file(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    name: str | None,
    folder: Path,
    limits: Limits,
    progress: Progress,
) -> list[NewTable]:
    """The tables of a file, as Parquet files in `folder`."""
    with opened(path, folder, limits) as file:
        raw = _raw_tables(connection, file, progress)
        if name and len(raw) == 1 and not is_database(file):
            raw[0].name = name
        names = unique_names((table.name for table in raw), limits)
        made = []
        for index, (table, own) in enumerate(zip(raw, names, strict=True)):
            table.name = own
            with _reporting(connection, progress, index, len(raw)):
                made.append(_write(connection, table, folder / f"{index}.parquet", limits))
    return made


def _raw_tables(connection: duckdb.DuckDBPyConnection, file: InputFile, progress: Progress) -> list[RawTable]:
    head = head_of(file.path, 64)
    if head.startswith(b"PAR1"):
        return [_parquet(connection, file)]
    if is_database(file):
        return sqlite_file.read(file, progress)
    if head.startswith(b"\xd0\xcf\x11\xe0") or _is_workbook(file):
        return excel_file.read(file, connection)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    is_json = file.suffix in (".json", ".jsonl", ".ndjson", ".geojson")
    if is_json or (text.startswith((b"[{", b"{")) and file.suffix not in (".csv", ".tsv", ".tab", ".txt")):
        return json_file.read(file, connection)
    return csv_file.read(file)


def is_database(file: InputFile) -> bool:
    return head_of(file.path, 16).startswith(b"SQLite format 3\0")


def _is_workbook(file: InputFile) -> bool:
    if not zipfile.is_zipfile(file.path) or not head_of(file.path, 4).startswith(b"PK"):
        return False
    try:
        with zipfile.ZipFile(file.path) as packed:
            names = set(packed.namelist()[:10_000])
    except zipfile.BadZipFile:
        names = set()
    if names & {"xl/workbook.xml", "xl/workbook.bin", "content.xml"}:
        return True
    raise InvalidInput(f"'{file.name}' is a zip archive", remedy="unpack it, and add the files in it")


def _parquet(connection: duckdb.DuckDBPyConnection, file: InputFile) -> RawTable:
    source = f"SELECT * FROM {parquet(file.path)}"
    try:
        columns = columns_of(connection, source)
    except duckdb.Error as error:
        said = str(error).replace(str(file.path), "the file").splitlines()[0][:160]
        raise DamagedData(f"the file is not Parquet: {said}", remedy="write it again") from None
    names = unique_names((column.name for column in columns), file.limits)
    shown = ", ".join(f"{quoted_name(column.name)} AS c{index}" for index, column in enumerate(columns))
    return RawTable(file.stem, f"SELECT {shown} FROM ({source})", names, file.notes, is_typed=True)


def _write(connection: duckdb.DuckDBPyConnection, table: RawTable, path: Path, limits: Limits) -> NewTable:
    types = [column.type for column in columns_of(connection, table.sql)]
    texts = [index for index, type in enumerate(types) if type == "VARCHAR"]
    chosen = column_types.chosen(connection, table.sql, table.names, texts, iso_only=table.is_typed)
    if table.has_reject_table:
        csv_file.forget_rejects(connection)
    notes = list(table.notes)
    shown = []
    for index, name in enumerate(table.names):
        found = chosen.get(index)
        notes += found.notes if found else []
        shown.append(f"{found.sql if found else f'c{index}'} AS {quoted_name(name)}")
    try:
        copy = f"COPY (SELECT {', '.join(shown)} FROM ({table.sql})) TO {quoted_text(str(path))} ({_PARQUET})"
        ((rows,),) = connection.execute(copy).fetchall()
    except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
        said = str(error).splitlines()[0][:160]
        raise DamagedData(f"the file cannot be read to its end: {said}", remedy="check the file") from None
    if table.has_reject_table:
        table.rejected, table.rejected_count = csv_file.rejects(connection, limits)
    written = columns_of(connection, f"SELECT * FROM {parquet(path)}")
    columns = [Column(column.name, column.type) for column in written]
    keys = [ForeignKey(key.column, key.to_table, key.to_column) for key in table.foreign_keys]
    return NewTable(table.name, path, rows, columns, table.rejected, table.rejected_count, notes, keys)


@contextmanager
def _reporting(connection: duckdb.DuckDBPyConnection, progress: Progress, index: int, count: int) -> Iterator[None]:
    """Say how far DuckDB is, a few times a second, from another thread: this one waits for it."""
    done = threading.Event()

    def report() -> None:
        while not done.wait(0.3):
            share = max(0.0, connection.query_progress()) / 100
            progress("reading", min(1.0, (index + share) / count))

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
