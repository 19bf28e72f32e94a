"""CSV and its relatives: the delimiter, the quotes and the header are found out; DuckDB reads the rows.

DuckDB's own detection gives up on a file with a few broken rows and takes it for one column, so it is done here, on the
beginning of the file.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb

from recollect.adapters.data.database import quoted_text
from recollect.adapters.data.files.input_file import as_utf8
from recollect.adapters.data.files.raw_table import SHOWN_REJECTS, InputFile, RawTable, check_columns, unique_names
from recollect.errors import InvalidInput, TooLarge
from recollect.ports.data import Limits, RejectedRow

_SAMPLE = 1 << 18
_DELIMITERS = {"\t": 1.05, ",": 1.0, ";": 1.0, "|": 1.0, "\x1f": 1.0, "^": 0.7, "~": 0.7, ":": 0.5}
"""With how likely each is when two fit alike."""
_NUMBER = re.compile(r"[+-]?[\d.,\s]*\d[\d.,]*%?")
_LONGEST_LINE = 4 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    quote: str
    escape: str
    skipped: int
    has_header: bool
    first: list[str]
    """The header, or the first row."""


def read(file: InputFile) -> list[RawTable]:
    path = _with_equal_line_ends(as_utf8(file), file)
    with open(path, "rb") as source:
        head = source.read(_SAMPLE)
    dialect = _dialect(head, file)
    width = len(dialect.first)
    names = unique_names(
        dialect.first if dialect.has_header else [f"column_{i}" for i in range(1, width + 1)], file.limits
    )
    columns = ", ".join(f"'c{index}': 'VARCHAR'" for index in range(width))
    options = {
        "auto_detect": "false",
        "delim": quoted_text(dialect.delimiter),
        "quote": quoted_text(dialect.quote),
        "escape": quoted_text(dialect.escape),
        "skip": str(dialect.skipped),
        "header": str(dialect.has_header).lower(),
        "columns": "{" + columns + "}",
        "max_line_size": str(_LONGEST_LINE),
        "ignore_errors": "true",
        "store_rejects": "true",
        "rejects_limit": str(file.limits.rejected_rows + 1),
    }
    if dialect.skipped:
        file.notes.append(f"the first {dialect.skipped} lines are not part of the table and were skipped")
    sql = f"SELECT * FROM read_csv({quoted_text(str(path))}, {', '.join(f'{k}={v}' for k, v in options.items())})"
    return [RawTable(file.stem, sql, names, file.notes, has_reject_table=True)]


def _with_equal_line_ends(path: Path, file: InputFile) -> Path:
    """The file, or a copy where lines end differently: DuckDB gives up on those. Within quotes both may occur."""
    with open(path, "rb") as source:
        ends = windows = 0
        for chunk in _whole_lines(source):
            ends, windows = ends + chunk.count(b"\n"), windows + chunk.count(b"\r\n")
        if windows in (0, ends):
            return path
        target = file.folder / "line-ends"
        source.seek(0)
        with open(target, "wb") as copy:
            for chunk in _whole_lines(source):
                copy.write(chunk.replace(b"\r\n", b"\n"))
    return target


def _whole_lines(source: BinaryIO) -> Iterator[bytes]:
    """Chunks that do not end within a line end."""
    rest = b""
    while chunk := source.read(_CHUNK):
        chunk = rest + chunk
        rest = b"\r" if chunk.endswith(b"\r") else b""
        yield chunk.removesuffix(rest)
    yield rest


def rejects(connection: duckdb.DuckDBPyConnection, limits: Limits) -> tuple[list[RejectedRow], int]:
    """The rows that could not be read, once each: some of them, and how many there are."""
    by_line = "SELECT line, min(error_message), min(csv_line) FROM reject_errors GROUP BY line"
    ((count,),) = connection.execute("SELECT count(DISTINCT line) FROM reject_errors").fetchall()
    found = connection.execute(f"{by_line} ORDER BY line LIMIT {SHOWN_REJECTS}").fetchall()
    rows = [RejectedRow(line, str(reason)[:200], str(text or "")[:200]) for line, reason, text in found]
    if count > limits.rejected_rows:
        raise TooLarge(
            f"more than {limits.rejected_rows:,} rows cannot be read, the first on line {rows[0].line}: "
            f"{rows[0].reason}",
            remedy="check that the file is a table, with the same columns in every row",
        )
    return rows, count


def forget_rejects(connection: duckdb.DuckDBPyConnection) -> None:
    for table in ("reject_errors", "reject_scans"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _dialect(head: bytes, file: InputFile) -> Dialect:
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    if len(head) == _SAMPLE:
        if "\n" not in text and "\r" not in text:
            check_columns(max(text.count(delimiter) for delimiter in _DELIMITERS), file.limits)
        else:
            text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    if not text.strip():
        raise InvalidInput(f"'{file.name}' has no text in it", remedy="give a file with at least one row")
    lines = text.splitlines(keepends=True)
    check_columns(max(lines[0].count(delimiter) for delimiter in _DELIMITERS), file.limits)
    quote = "'" if _single_quotes(text) else '"'
    escape = "\\" if f"\\{quote}" in text and f"{quote}{quote}" not in text.replace(f",{quote}{quote}", "") else quote
    found = (_fit(lines, delimiter, quote, escape, likely) for delimiter, likely in _DELIMITERS.items())
    best = max(found, key=lambda fit: fit[0])
    if file.suffix in (".tsv", ".tab"):
        best = _fit(lines, "\t", quote, escape, 1.0)
    _, delimiter, rows = best
    width = Counter(len(row) for row in rows if row).most_common(1)[0][0]
    start = next(index for index, row in enumerate(rows) if len(row) == width)
    if start > 10 or any(len(row) > 1 for row in rows[:start] if row):
        start = 0
        width = len(rows[0]) or width
    while not rows[start]:
        start += 1
    has_header = is_header(rows[start], rows[start + 1 : start + 200])
    skipped = sum(1 for _ in rows[:start])
    return Dialect(delimiter, quote, escape, skipped, has_header, rows[start])


def _single_quotes(text: str) -> bool:
    return '"' not in text and len(re.findall(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\r\n])", text, re.MULTILINE)) > 2


def _fit(
    lines: list[str], delimiter: str, quote: str, escape: str, likely: float
) -> tuple[float, str, list[list[str]]]:
    """How well a delimiter fits: the share of rows with the most frequent number of fields, if that is not one."""
    options = {"doublequote": True} if escape == quote else {"doublequote": False, "escapechar": escape}
    csv.field_size_limit(1 << 24)
    rows = list(csv.reader(lines, delimiter=delimiter, quotechar=quote, **options))
    widths = Counter(len(row) for row in rows if row)
    if not widths:
        return 0.0, delimiter, rows
    width, times = widths.most_common(1)[0]
    share = times / sum(widths.values())
    return (share * likely * (1 + min(width, 50) / 500) if width > 1 else 0.1 * likely), delimiter, rows


def is_header(first: list[str], rest: Iterable[list[str]]) -> bool:
    """Whether the first row names the columns: no number in it, nothing twice, and none of it in the rows below."""
    named = [cell.strip() for cell in first]
    filled = [cell for cell in named if cell]
    if not filled or len({cell.lower() for cell in filled}) < len(filled) * 0.5:
        return False
    if any(_NUMBER.fullmatch(cell) and not re.fullmatch(r"(19|20)\d\d", cell) for cell in filled):
        return False
    below = [row for row in rest if len(row) == len(first)]
    return not any(row[index].strip() == cell for row in below for index, cell in enumerate(named) if len(cell) > 3)
