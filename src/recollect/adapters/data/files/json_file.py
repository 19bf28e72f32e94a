"""JSON: one value per line, an array of objects, or an object with an array in it."""

from __future__ import annotations

import json
import re

import duckdb

from recollect.adapters.data.database import columns_of, quoted_name, quoted_text
from recollect.adapters.data.files.input_file import as_utf8
from recollect.adapters.data.files.raw_table import SHOWN_REJECTS, InputFile, RawTable, check_columns, unique_names
from recollect.errors import DamagedData, TooLarge
from recollect.ports.data import Column, RejectedRow

_LARGEST_OBJECT = 16 << 20


def read(file: InputFile, connection: duckdb.DuckDBPyConnection) -> list[RawTable]:
    path = as_utf8(file)
    rejected: list[RejectedRow] = []
    count = 0
    form = "newline_delimited" if _has_lines(path) else "auto"
    source = _read_json(path, form)
    try:
        columns = columns_of(connection, source)
        connection.execute(f"SELECT count(*) FROM ({source})").fetchall()
    except duckdb.Error as error:
        if form == "auto":
            said = re.sub(r'".*?"', "the file", str(error).splitlines()[0])[:160]
            raise DamagedData(f"the file is not JSON: {said}", remedy="check it with a JSON tool") from None
        rejected, count = _sift(path, file)
        source = _read_json(file.folder / "lines", form)
        columns = columns_of(connection, source)
    check_columns(len(columns), file.limits)
    notes = list(file.notes)
    if (inner := _wrapped(connection, source, columns)) is not None:
        notes.append(f"the rows are the array '{inner}' of the one object in the file")
        source = f"SELECT unnest({quoted_name(inner)}, max_depth := 2) FROM ({source})"
        columns = columns_of(connection, source)
    names = [column.name for column in columns]
    raw = ", ".join(f"{quoted_name(name)} AS c{index}" for index, name in enumerate(names))
    table = RawTable(file.stem, f"SELECT {raw} FROM ({source})", unique_names(names, file.limits), notes, is_typed=True)
    table.rejected, table.rejected_count = rejected, count
    return [table]


def _read_json(path: object, form: str) -> str:
    return (
        f"SELECT * FROM read_json({quoted_text(str(path))}, format='{form}', sample_size=100000, "
        "hive_partitioning=false, "
        f"maximum_object_size={_LARGEST_OBJECT}, maximum_depth=-1, map_inference_threshold=200)"
    )


def _has_lines(path: object) -> bool:
    """Whether each line is a value of its own: the first one is, and another follows."""
    with open(str(path), "rb") as file:
        first = file.readline(1 << 22).decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if not first.startswith("{") or not file.readline(1 << 22).strip():
            return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _sift(path: object, file: InputFile) -> tuple[list[RejectedRow], int]:
    """Copy the lines that are JSON objects; the others are counted, with their number and what is wrong with them."""
    rejected: list[RejectedRow] = []
    count = 0
    with (
        open(str(path), encoding="utf-8", errors="replace") as source,
        open(file.folder / "lines", "w", encoding="utf-8") as good,
    ):
        for number, line in enumerate(source, 1):
            text = line.strip().removeprefix("\ufeff")
            if not text:
                continue
            if (reason := _wrong(text)) is None:
                good.write(text + "\n")
                continue
            count += 1
            if len(rejected) < SHOWN_REJECTS:
                rejected.append(RejectedRow(number, reason, text[:200]))
            if count > file.limits.rejected_rows:
                raise TooLarge(
                    f"more than {file.limits.rejected_rows:,} lines are not JSON, the first is line {rejected[0].line}",
                    remedy="check that the file has one JSON object per line",
                )
    return rejected, count


def _wrong(text: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError as error:
        return str(error)[:120]
    except RecursionError:
        return "nested too deeply"
    if "\ufffd" in text:
        return "broken letters (not UTF-8)"
    return None if isinstance(value, dict) else "not an object"


def _wrapped(connection: duckdb.DuckDBPyConnection, source: str, columns: list[Column]) -> str | None:
    """The array that holds the rows, where a file is one object around it."""
    lists = [column.name for column in columns if column.type.startswith("STRUCT") and column.type.endswith("[]")]
    if len(lists) != 1 or len(connection.execute(f"SELECT 1 FROM ({source}) LIMIT 2").fetchall()) != 1:
        return None
    return lists[0]
