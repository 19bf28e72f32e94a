"""The port for the data engine: files become tables, tables are profiled, and SQL by strangers runs over them.

Every verb works on plain files: a table is one Parquet file, and a name for it is given with each call. What comes in
is hostile until proven otherwise (a file that unpacks to a terabyte, a query that never ends), so each call has
`Limits`, and an engine that cannot keep one of them says so (`protections`). A call that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

Plain = object
"""A value as JSON has it. Dates and times are ISO 8601, bytes base64, intervals and decimals of over 15 digits text."""

ExportFormat = Literal["json", "csv", "parquet", "arrow", "xlsx"]
Tables = Mapping[str, Path]
"""The tables a statement may read: name and Parquet file. No other exists for it."""

Progress = Callable[[str, float], None]
"""Called with what is being done and how far it is, from 0 to 1; seldom enough to be shown."""

Meaning = Literal[
    "id", "category", "flag", "money", "percent", "number", "count", "date", "time", "year", "month", "email", "phone",
    "url", "country", "postcode", "coordinate", "name", "text", "json", "nested", "binary", "empty",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may cost. Whoever passes one is ended, with an error that names the limit."""

    seconds: float = 30.0
    cpu_seconds: int = 60
    megabytes: int = 768
    """Memory of the process that does the work."""
    rows: int = 10_000
    """Rows of a result that are returned."""
    reply_megabytes: int = 16
    """Size of the rows that are returned."""
    hashed_rows: int = 1_000_000
    """A result with more rows has no hash and no count of all rows."""
    disk_megabytes: int = 4096
    """Any one file that is written, and what a query that does not fit into memory writes meanwhile."""
    input_megabytes: int = 16_384
    """A file that is read, and what it unpacks to."""
    columns: int = 10_000
    rejected_rows: int = 100_000
    """A file with more rows that cannot be read is refused as a whole."""
    threads: int = 2


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call took from the process that did the work."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row of a file that could not be read: its line (from 1), why, and how it begins."""

    line: int
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """What a database file says of its own tables."""

    column: str
    to_table: str
    to_column: str


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table made from a file. `rejected` lists some of the rows that could not be read, `rejected_count` counts."""

    name: str
    path: Path
    rows: int
    columns: list[Column]
    rejected: list[RejectedRow] = field(default_factory=list)
    rejected_count: int = 0
    notes: list[str] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    cost: Cost | None = None
    """Of reading the whole file."""


@dataclass(frozen=True, slots=True)
class ValueCount:
    value: Plain
    count: int


@dataclass(frozen=True, slots=True)
class Bin:
    """A bar of a histogram: from `low` (inclusive) to `high` (exclusive, but for the last)."""

    low: Plain
    high: Plain
    count: int


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """`distinct` is exact when `is_distinct_exact`, else an estimate within ten per cent."""

    name: str
    type: str
    meaning: Meaning
    rows: int
    nulls: int
    distinct: int
    is_distinct_exact: bool
    min: Plain = None
    max: Plain = None
    mean: float | None = None
    quantiles: list[Plain] = field(default_factory=list)
    """At 5, 25, 50, 75 and 95 per cent (approximate)."""
    histogram: list[Bin] = field(default_factory=list)
    top: list[ValueCount] = field(default_factory=list)
    samples: list[Plain] = field(default_factory=list)
    is_key: bool = False
    """No two rows seem to share a value, and none is empty."""


@dataclass(frozen=True, slots=True)
class TableProfile:
    """`rows` is the number of all rows; `sampled` how many were looked at."""

    rows: int
    sampled: int
    columns: list[ColumnProfile]
    keys: list[str]
    """The columns that are likely keys, the best first."""
    bytes: int
    notes: list[str] = field(default_factory=list)
    cost: Cost | None = None

    @property
    def is_sample(self) -> bool:
        return self.sampled < self.rows


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of two tables that seem to belong together. `containment`: the share of values found in `to_column`."""

    table: str
    column: str
    to_table: str
    to_column: str
    containment: float
    reason: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that may run: as it will run, the tables it reads, what it returns, what was rewritten."""

    sql: str
    tables: list[str]
    columns: list[Column]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The first rows of a result.

    `is_cut` when there are more. `row_count` and `hash` are of the whole result; None when it has more rows than
    `Limits.hashed_rows`. The hash does not depend on the order of the rows, and not on the last digits of a sum.
    `bytes` is the size of the rows that are here.
    """

    columns: list[str]
    types: list[str]
    rows: list[list[Plain]]
    is_cut: bool
    row_count: int | None
    hash: str | None
    bytes: int
    sql: str
    tables: list[str]
    notes: list[str]
    cost: Cost


@dataclass(frozen=True, slots=True)
class Export:
    path: Path
    rows: int
    bytes: int
    notes: list[str]


@runtime_checkable
class ArrowStream(Protocol):
    """A data frame of pandas, polars, pyarrow or another library that speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class DataEngine(Protocol):
    """`job` names a call so that another thread can cancel it; two running calls may not have the same.

    Every verb may raise TooLarge (a limit was passed), Cancelled, Overloaded (too many calls at once), and InvalidInput
    or NotFound with a remedy; unknown names come with the nearest ones.
    """

    def read_file(
        self,
        path: Path,
        into: Path,
        *,
        name: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None,
        job: str | None = None,
    ) -> list[NewTable]:
        """Make tables of a file: one Parquet file each, in the folder `into`, all or none.

        `name` is what the first table is called; without it the file's name is used. A sheet or a table of a database
        has its own. Raises DamagedData where the file is not what its format promises.
        """

    def write_frame(self, frame: ArrowStream, target: Path) -> None:
        """Write a data frame of this process as a Parquet file. It is the caller's own, so it needs no confinement."""

    def profile(
        self,
        table: Path,
        *,
        sample_rows: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None,
        job: str | None = None,
    ) -> TableProfile:
        """Look at a table: a sample of its rows, or all of them."""

    def values(
        self,
        table: Path,
        *,
        columns: Sequence[str] | None = None,
        most: int = 1000,
        longest: int = 200,
        limits: Limits = DEFAULT_LIMITS,
        job: str | None = None,
    ) -> dict[str, list[ValueCount]]:
        """The values of text columns with their counts, the most frequent first, at most `most` of each column.

        Values longer than `longest` characters are left out: they are texts, not words to look for.
        """

    def joins(self, tables: Tables, *, limits: Limits = DEFAULT_LIMITS, job: str | None = None) -> list[Join]:
        """Likely joins between tables, by names and by containment of values; the likeliest first."""

    def tables_read(self, sql: str, names: Sequence[str], *, limits: Limits = DEFAULT_LIMITS) -> list[str]:
        """Which of the tables with these names a statement reads; nothing but its text is looked at."""

    def check(self, sql: str, tables: Tables, *, limits: Limits = DEFAULT_LIMITS, job: str | None = None) -> Statement:
        """Whether a statement may run and would, without running it."""

    def query(
        self, sql: str, tables: Tables, *, limits: Limits = DEFAULT_LIMITS, job: str | None = None
    ) -> QueryResult:
        """Run one SELECT over the listed tables. It is a stranger's: it reads nothing else and writes nothing."""

    def trials(
        self, statements: Sequence[str], tables: Tables, *, limits: Limits = DEFAULT_LIMITS
    ) -> list[list[list[Plain]] | None]:
        """The first rows of several statements, run one after the other under limits for all; None where one fails."""

    def export(
        self,
        sql: str,
        tables: Tables,
        format: ExportFormat,
        target: Path,
        *,
        limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None,
        job: str | None = None,
    ) -> Export:
        """Write the whole result of one SELECT to a file: whole, or not at all."""

    def cancel(self, job: str) -> bool:
        """End a running call now; whether there was one. The call raises Cancelled."""

    def protections(self) -> dict[str, bool]:
        """What the system enforces here: memory, address_space, cpu_time, file_size, no_network, own_folder_only.

        False where it cannot be had: on macOS address_space, no_network and own_folder_only; on Windows all of them, so
        that only the deadline holds. The rules for SQL hold everywhere.
        """

    def close(self) -> None:
        """End all work. What is running raises Closed."""
