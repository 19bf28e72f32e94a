"""Rows of an outside database become a Parquet file: counted, cut at the limits, written whole or not at all.

What Parquet or DuckDB cannot hold is made plain first: dates beyond the year 9999 are empty, and exact numbers without
a declared size, which come as text, become decimals as wide as the widest of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recollect.adapters.atomic_file import publish, temporary_path
from recollect.errors import InvalidInput, TooLarge
from recollect.ports.connections import Fetched, FetchLimits, OutsideTable
from recollect.ports.data import Column

EXACT = b"recollect:exact"
"""In the metadata of a text field: it holds exact numbers, whose widest is not known yet."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days from 1970
_DAY_MICROSECONDS = 86_400_000_000


@dataclass
class Digits:
    """The widest exact number of a column."""

    whole: int = 1
    fraction: int = 0
    is_finite: bool = True

    def look(self, texts: pa.ChunkedArray | pa.Array) -> None:
        plain = pc.utf8_ltrim(texts, characters="-+")
        self.is_finite &= not bool(pc.any(pc.match_substring_regex(plain, "[^0-9.]")).as_py())
        point = pc.find_substring(plain, ".")
        length = pc.utf8_length(plain)
        whole = pc.max(pc.if_else(pc.less(point, 0), length, point)).as_py()
        fraction = pc.max(pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))).as_py()
        self.whole, self.fraction = max(self.whole, whole or 0), max(self.fraction, fraction or 0)

    @property
    def type(self) -> pa.DataType:
        if not self.is_finite or self.whole + self.fraction > 38:
            return pa.float64()
        if self.fraction == 0 and self.whole <= 18:
            return pa.int64()
        return pa.decimal128(max(self.whole + self.fraction, 4), self.fraction)


@dataclass
class Writing:
    """What was written so far, and what was noticed on the way."""

    limits: FetchLimits
    rows: int = 0
    is_cut: bool = False
    emptied: dict[str, int] = field(default_factory=dict)
    exact: dict[str, Digits] = field(default_factory=dict)


def write(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path, limits: FetchLimits, sql: str, tables: list[str]
) -> Fetched:
    """Stream batches into a file. The caller stops giving batches when `limits.rows` are passed (`is_cut`)."""
    if len(schema) > limits.columns:
        raise TooLarge(f"the result has more than {limits.columns:,} columns", remedy="select fewer columns")
    begun = time.monotonic()
    names = _unique(schema.names)
    fields = [pa.field(name, one.type, metadata=one.metadata) for name, one in zip(names, schema, strict=True)]
    exact = {one.name: Digits() for one in fields if one.metadata and EXACT in one.metadata}
    writing = Writing(limits, exact=exact)
    part, final = temporary_path(target), temporary_path(target)
    try:
        _write(part, pa.schema(fields), _counted(batches, fields, writing), limits)
        if exact:
            part, final = _with_numbers(part, final, writing), part
        size = part.stat().st_size
        types = pq.read_schema(part)
        publish(part, target)
    finally:
        for path in (part, final):
            path.unlink(missing_ok=True)
    notes = [
        f"{name}: {count:,} dates outside the years 1 to 9999 were read as empty"
        for name, count in writing.emptied.items()
    ]
    if writing.is_cut:
        notes.append(f"the database has more rows: only {limits.rows:,} were read")
    columns = [Column(one.name, str(one.type)) for one in types]
    seconds = time.monotonic() - begun
    return Fetched(target, writing.rows, columns, size, writing.is_cut, sql, tables, seconds, notes)


def all_rows(found: Fetched, table: OutsideTable, limits: FetchLimits) -> Fetched:
    """Rows for a join must be all there are: with some of them the answer would be wrong."""
    if found.is_cut:
        found.path.unlink(missing_ok=True)
        raise TooLarge(
            f"more than {limits.rows:,} rows of '{table.name}' would have to be fetched for this",
            remedy="filter that table more narrowly, or ask only of the tables of its connection",
        )
    return found


def _counted(batches: Iterable[pa.RecordBatch], fields: list[pa.Field], writing: Writing) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        left = writing.limits.rows - writing.rows
        if batch.num_rows > left:
            batch, writing.is_cut = batch.slice(0, left), True
        columns = [_plain(column, one, writing) for column, one in zip(batch.columns, fields, strict=True)]
        writing.rows += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        if writing.is_cut:
            return


def _plain(column: pa.Array, named: pa.Field, writing: Writing) -> pa.Array:
    """A column without what Parquet, DuckDB or Python cannot hold."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if named.name in writing.exact:
        writing.exact[named.name].look(column)
    if pa.types.is_timestamp(column.type):
        return _within(column, pa.int64(), _DAY_MICROSECONDS, named.name, writing)
    if pa.types.is_date32(column.type):
        return _within(column, pa.int32(), 1, named.name, writing)
    return column if column.type == named.type else column.cast(named.type)


def _within(column: pa.Array, number: pa.DataType, day: int, name: str, writing: Writing) -> pa.Array:
    """Also PostgreSQL's infinity, which is the largest number there is."""
    numbers = column.cast(number)
    is_far = pc.or_(pc.less(numbers, _FIRST_DAY * day), pc.greater_equal(numbers, (_LAST_DAY + 1) * day))
    count = pc.sum(is_far).as_py() or 0
    if not count:
        return column
    writing.emptied[name] = writing.emptied.get(name, 0) + count
    return pc.if_else(pc.fill_null(is_far, False), pa.scalar(None, column.type), column)


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], limits: FetchLimits) -> None:
    try:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            path.chmod(0o600)
            for batch in batches:
                writer.write_batch(batch, row_group_size=100_000)
                if path.stat().st_size > limits.megabytes << 20:
                    raise TooLarge(
                        f"the rows take more than {limits.megabytes:,} MB",
                        remedy="select fewer columns or rows, or filter them",
                    )
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidInput(
            f"a column has a type that cannot be read: {str(error)[:120]}", remedy="cast it to text in the statement"
        ) from None


def _with_numbers(part: Path, target: Path, writing: Writing) -> Path:
    """The file again, with decimals where there were numbers as text: only now it is known how wide they are."""
    with pq.ParquetFile(part) as file:
        old = file.schema_arrow
        fields = [pa.field(one.name, writing.exact[one.name].type) if one.name in writing.exact else one for one in old]

        def converted() -> Iterator[pa.RecordBatch]:
            for batch in file.iter_batches(batch_size=100_000):
                columns = [
                    _number(column, one.type) if one.name in writing.exact else column
                    for column, one in zip(batch.columns, fields, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

        _write(target, pa.schema(fields), converted(), writing.limits)
    return target


def _number(texts: pa.Array, type: pa.DataType) -> pa.Array:
    if not pa.types.is_floating(type):
        return texts.cast(type)
    return pc.if_else(pc.match_substring_regex(texts, "^[Nn]a[Nn]$"), pa.scalar(None, pa.string()), texts).cast(type)


def _unique(names: list[str]) -> list[str]:
    """Two columns of one name become `id` and `id_2`; case makes no difference, as in DuckDB."""
    taken: set[str] = set()
    found = []
    for index, name in enumerate(names, 1):
        base = name if name and name != "?column?" else f"column_{index}"
        name, number = base, 2
        while name.lower() in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name.lower())
        found.append(name)
    return found
