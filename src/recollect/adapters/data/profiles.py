"""What is in a table: a sample in well under a second, all rows in a few passes over the file, column by column.

A pass over all columns gives counts, extremes, means, estimates of distinct values and quantiles; a short query per
column gives the histogram and the most frequent values. Little of it is kept in memory, whatever the size of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from recollect.adapters.data.database import columns_of, parquet, quoted_name
from recollect.adapters.data.meanings import meaning_of
from recollect.adapters.data.results import plain
from recollect.ports.data import Bin, Column, ColumnProfile, Plain, Progress, TableProfile, ValueCount

_SLICES = 20
_BINS = 20
_TOP = 10
_SAMPLES = 5
_LOOKED_AT = 1000
"""Rows whose values say what a column means."""
_TOGETHER = 40
"""Columns of one pass."""
_IN_DETAIL = 400
"""Columns with a histogram and top values; of tables with more, the others have counts only."""
_COUNTED = 100_000
"""Up to so many distinct values are counted exactly."""
_EXACT_ROWS = 200_000
_LONGEST = 200
_SHARES = "[0.05, 0.25, 0.5, 0.75, 0.95]"
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U", "FLOAT", "DOUBLE", "DECIMAL")


def family(type: str) -> str:
    """number, moment (a date or a time of a day), text, flag or other."""
    if type.startswith(_NUMBERS) and type != "UUID" and not type.endswith("[]") and not type.startswith("UNION"):
        return "number"
    if type.startswith(("DATE", "TIMESTAMP")) and not type.endswith("[]"):
        return "moment"
    return {"VARCHAR": "text", "BOOLEAN": "flag", "UUID": "text"}.get(type, "other")


@dataclass
class _Found:
    """A column as far as it is known."""

    column: Column
    count: int = 0
    distinct: int = 0
    is_exact: bool = False
    min: Plain = None
    max: Plain = None
    mean: float | None = None
    quantiles: list[Plain] = field(default_factory=list)
    histogram: list[Bin] = field(default_factory=list)
    top: list[ValueCount] = field(default_factory=list)

    @property
    def sql(self) -> str:
        return quoted_name(self.column.name)

    @property
    def family(self) -> str:
        return family(self.column.type)


def profile(
    connection: duckdb.DuckDBPyConnection, path: Path, sample_rows: int | None, progress: Progress
) -> TableProfile:
    rows = row_count(connection, path)
    columns = columns_of(connection, f"SELECT * FROM {parquet(path)}")
    source, sampled = parquet(path), rows
    notes = []
    if sample_rows is not None and sample_rows < rows:
        connection.execute(f"CREATE TEMP TABLE sample AS {slices(path, rows, sample_rows)}")
        source, sampled = "sample", row_count_of(connection, "sample")
        notes.append(f"from {sampled:,} of {rows:,} rows")
    found = [_Found(column) for column in columns]
    for start in range(0, len(found), _TOGETHER):
        progress("profiling", 0.5 * start / len(found))
        _count(connection, source, found[start : start + _TOGETHER], sampled)
    if len(found) > _IN_DETAIL:
        notes.append(f"histograms and frequent values are of the first {_IN_DETAIL} columns")
    for index, one in enumerate(found[:_IN_DETAIL]):
        progress("profiling", 0.5 + 0.5 * index / len(found))
        _detail(connection, source, one)
    looked_at = connection.execute(slices(path, rows, _LOOKED_AT)).fetchall()
    profiles = [
        _profile(connection, source, one, sampled, [row[index] for row in looked_at]) for index, one in enumerate(found)
    ]
    return TableProfile(rows, sampled, profiles, _keys(profiles), path.stat().st_size, notes)


def row_count(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """As the file says, without reading its rows."""
    return row_count_of(connection, parquet(path))


def row_count_of(connection: duckdb.DuckDBPyConnection, source: str) -> int:
    ((count,),) = connection.execute(f"SELECT count(*) FROM {source}").fetchall()
    return int(count)


def slices(path: Path, rows: int, wanted: int) -> str:
    """Some rows from all over a file, found by their numbers, so that only their parts of the file are read."""
    if wanted >= rows:
        return f"SELECT * FROM {parquet(path)}"
    size, step = max(1, wanted // _SLICES), max(1, rows // _SLICES)
    ranges = [(start, start + size - 1) for start in range(0, rows, step)][:_SLICES]
    within = " OR ".join(f"file_row_number BETWEEN {first} AND {last}" for first, last in ranges)
    numbered = parquet(path, "file_row_number=true")
    return f"SELECT * EXCLUDE (file_row_number) FROM {numbered} WHERE {within}"


def _count(connection: duckdb.DuckDBPyConnection, source: str, found: Sequence[_Found], rows: int) -> None:
    """Everything about some columns that one pass can tell."""
    asked = []
    for one in found:
        is_ordered = one.family in ("number", "moment", "text")
        number = f"CAST({one.sql} AS DOUBLE)"
        quantiles = (
            f"quantile_disc({one.sql}, {_SHARES})" if rows <= _EXACT_ROWS else f"approx_quantile({one.sql}, {_SHARES})"
        )
        asked += [
            f"count({one.sql})",
            f"approx_count_distinct({one.sql})",
            f"min({one.sql})" if is_ordered else "NULL",
            f"max({one.sql})" if is_ordered else "NULL",
            f"avg({number}) FILTER (isfinite({number}))" if one.family == "number" else "NULL",
            quantiles if one.family in ("number", "moment") else "NULL",
        ]
    (counted,) = connection.execute(f"SELECT {', '.join(asked)} FROM {source}").fetchall()
    values = iter(counted)
    for one in found:
        one.count, one.distinct = int(next(values)), int(next(values))
        one.min, one.max = _shown(next(values)), _shown(next(values))
        one.mean = next(values)
        one.quantiles = [_shown(value) for value in next(values) or ()]
        one.distinct = min(one.distinct, one.count)


def _shown(value: object) -> Plain:
    found = plain(value)
    return found[:_LONGEST] if isinstance(found, str) else found


def _detail(connection: duckdb.DuckDBPyConnection, source: str, one: _Found) -> None:
    if not one.count:
        one.is_exact = True
        return
    if one.family in ("number", "moment"):
        one.histogram = _histogram(connection, source, one)
    if one.family != "other":
        _top(connection, source, one)


def _top(connection: duckdb.DuckDBPyConnection, source: str, one: _Found) -> None:
    """The most frequent values. Where there are too many to count, those that seem to be frequent are counted."""
    counted = f"SELECT {one.sql} AS x, count(*) AS n FROM {source} WHERE {one.sql} IS NOT NULL"
    if one.distinct <= _COUNTED:
        found = connection.execute(
            f"SELECT x, n, count(*) OVER () FROM ({counted} GROUP BY 1) ORDER BY n DESC, x LIMIT {_TOP}"
        ).fetchall()
        one.distinct, one.is_exact = found[0][2], True
    elif one.distinct > one.count * 0.5:
        return
    else:
        likely = f"SELECT unnest(approx_top_k({one.sql}, {_TOP})) FROM {source}"
        found = connection.execute(f"{counted} AND {one.sql} IN ({likely}) GROUP BY 1 ORDER BY n DESC, x").fetchall()
    one.top = [ValueCount(_shown(row[0]), row[1]) for row in found if row[1] > 1 or one.is_exact]


def _histogram(connection: duckdb.DuckDBPyConnection, source: str, one: _Found) -> list[Bin]:
    is_moment = one.family == "moment"
    number = f"epoch({one.sql})" if is_moment else f"CAST({one.sql} AS DOUBLE)"
    finite = f"isfinite({one.sql})" if is_moment else f"isfinite({number})"
    ((low, high),) = connection.execute(f"SELECT min({number}), max({number}) FROM {source} WHERE {finite}").fetchall()
    if low is None:
        return []
    is_whole = not is_moment and not one.column.type.startswith(("DOUBLE", "FLOAT", "DECIMAL"))
    width = 1.0 if is_whole and high - low < _BINS else (high - low) / _BINS
    count = int(high - low) + 1 if width == 1.0 and is_whole and high - low < _BINS else _BINS
    if high == low:
        return [Bin(one.min, one.max, one.count)]
    place = f"least({count - 1}, CAST(floor(({number} - {low!r}) / {width!r}) AS INTEGER))"
    bars = dict(connection.execute(f"SELECT {place}, count(*) FROM {source} WHERE {finite} GROUP BY 1").fetchall())
    edges = [low + index * width for index in range(count)] + [max(high, low + count * width) if is_whole else high]
    shown = [_as_moment(edge, one.column.type) if is_moment else edge for edge in edges]
    return [Bin(shown[index], shown[index + 1], bars.get(index, 0)) for index in range(count)]


def _as_moment(seconds: float, type: str) -> Plain:
    try:
        found = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # years that Python has no date for
        return seconds
    return found.date().isoformat() if type == "DATE" else found.replace(tzinfo=None).isoformat()


def _profile(
    connection: duckdb.DuckDBPyConnection, source: str, one: _Found, rows: int, values: Sequence[object]
) -> ColumnProfile:
    filled = [value for value in values if value is not None]
    samples = list(
        dict.fromkeys(str(_shown(value)) if isinstance(value, list | dict) else _shown(value) for value in filled)
    )
    is_key = _is_key(connection, source, one, rows)
    meaning = meaning_of(
        one.column, filled, rows=rows, filled=one.count, distinct=one.distinct, low=one.min, high=one.max
    )
    return ColumnProfile(
        name=one.column.name,
        type=one.column.type,
        meaning="id" if is_key and meaning == "number" and rows > 20 else meaning,
        rows=rows,
        nulls=rows - one.count,
        distinct=one.distinct,
        is_distinct_exact=one.is_exact,
        min=one.min,
        max=one.max,
        mean=one.mean,
        quantiles=one.quantiles,
        histogram=one.histogram,
        top=one.top,
        samples=samples[:_SAMPLES],
        is_key=is_key,
    )


def _is_key(connection: duckdb.DuckDBPyConnection, source: str, one: _Found, rows: int) -> bool:
    """Whether no value comes twice: of a large table, among the values of a sixteenth of all hashes."""
    if not rows or one.count < rows or one.family in ("other", "flag") or one.column.type in ("DOUBLE", "FLOAT"):
        return False
    if one.is_exact:
        return one.distinct == rows
    if one.distinct < rows * 0.8:
        return False
    some = "" if rows <= 1_000_000 else f" WHERE hash({one.sql}) % 16 = 0"
    ((is_unique,),) = connection.execute(f"SELECT count(*) = count(DISTINCT {one.sql}) FROM {source}{some}").fetchall()
    return bool(is_unique)


def _keys(profiles: Sequence[ColumnProfile]) -> list[str]:
    """Likely keys, the best first: what is called so, numbers before texts, the first columns before later ones."""

    def rank(place: int, one: ColumnProfile) -> tuple[bool, bool, int]:
        return one.meaning != "id", family(one.type) != "number", place

    ranked: Iterator[tuple[tuple[bool, bool, int], str]] = (
        (rank(place, one), one.name) for place, one in enumerate(profiles) if one.is_key
    )
    return [name for _, name in sorted(ranked)]


def values(
    connection: duckdb.DuckDBPyConnection, path: Path, wanted: Sequence[str] | None, most: int, longest: int
) -> dict[str, list[ValueCount]]:
    source = parquet(path)
    columns = columns_of(connection, f"SELECT * FROM {source}")
    found = {}
    for column in columns:
        if column.type != "VARCHAR" or (wanted is not None and column.name not in wanted):
            continue
        name = quoted_name(column.name)
        counted = connection.execute(
            f"SELECT {name}, count(*) FROM {source} WHERE {name} IS NOT NULL AND length({name}) <= {longest} "
            f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {most}"
        ).fetchall()
        found[column.name] = [ValueCount(value, count) for value, count in counted]
    return found
