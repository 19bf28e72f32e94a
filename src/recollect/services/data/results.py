"""The reply of a query: its rows with their types, as a table of other libraries, and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field as Having

from recollect.domain.record import Json, JsonList
from recollect.errors import MissingExtra
from recollect.services import notebook
from recollect.services.requests import Reply

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class ResultColumn(Reply):
    """A column of a result."""

    name: str
    type: str = ""


class SourceState(Reply):
    """A source as it was when a query read it."""

    id: str
    name: str
    version: int
    hash: str


class QueryReply(Reply):
    """What a query returned, and what it rests on."""

    run: str | None = Having(description="The id of this run: judge it, chart it, remember or export it")
    question: str = ""
    sql: str = Having(description="The statement as it ran")
    columns: list[ResultColumn] = Having(default_factory=list)
    rows: JsonList = Having(default_factory=list, description="The rows, each a list in the order of the columns")
    row_count: int | None = Having(None, description="How many rows the whole result has; empty if over a million")
    is_cut: bool = Having(False, description="Whether there are more rows than are returned here")
    hash: str | None = Having(None, description="The hash of the whole result, whatever the order of its rows")
    sources: list[SourceState] = Having(default_factory=list)
    notes: list[str] = Having(default_factory=list, description="What was rewritten, cut or left out")
    chart: Json | None = Having(None, description="A Vega-Lite specification with its values, if a chart fits")
    seconds: float = 0.0

    def to_arrow(self) -> pyarrow.Table:
        """The rows as an Arrow table."""
        return arrow_table(self.columns, self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas data frame."""
        _require("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars data frame."""
        _require("polars")
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        columns = [(column.name, column.type) for column in self.columns]
        return notebook.result(columns, self.rows) + notebook.facts(self._told()) + notebook.statement(self.sql)

    def _told(self) -> list[str]:
        """How much there is, how much of it a notebook shows, and the notes."""
        count = len(self.rows) if self.row_count is None else self.row_count
        rows = "over a million rows" if self.row_count is None and self.is_cut else f"{count:,} rows"
        shown = min(len(self.rows), notebook.SHOWN_ROWS)
        told = [rows if shown == count else f"the first {shown} of {rows}"]
        if len(self.columns) > notebook.SHOWN_COLUMNS:
            told.append(f"the first {notebook.SHOWN_COLUMNS} of {len(self.columns)} columns")
        return [*told, *self.notes]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """A notebook draws the chart below the table."""
        shown: dict[str, object] = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        if self.chart is not None:
            shown |= dict.fromkeys(("application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json"), self.chart)
        return shown


_ARROW_TYPES = {
    "BOOLEAN": "bool_", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64",
    "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64",
    "FLOAT": "float32", "DOUBLE": "float64", "VARCHAR": "string",
}  # fmt: skip


def arrow_table(columns: Sequence[ResultColumn], rows: Sequence[Sequence[object]]) -> pyarrow.Table:
    """Rows as an Arrow table; dates, times and decimals, which are text in JSON, have their types again."""
    _require("pyarrow")
    import pyarrow
    from pyarrow import compute

    names = [column.name for column in columns]
    arrays = []
    for at, column in enumerate(columns):
        values = [row[at] for row in rows]
        plain = _ARROW_TYPES.get(column.type)
        if plain is not None:
            arrays.append(pyarrow.array(values, getattr(pyarrow, plain)()))
        elif column.type == "DATE":
            arrays.append(compute.cast(pyarrow.array(values, pyarrow.string()), pyarrow.date32()))
        elif column.type.startswith("TIMESTAMP"):
            zone = "UTC" if "TIME ZONE" in column.type else None
            arrays.append(compute.cast(pyarrow.array(values, pyarrow.string()), pyarrow.timestamp("us", zone)))
        elif column.type.startswith("DECIMAL"):
            arrays.append(pyarrow.array([None if value is None else float(str(value)) for value in values]))
        else:
            arrays.append(pyarrow.array(values))
    return pyarrow.Table.from_arrays(arrays, names)


def _require(package: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingExtra(f"{package} is not installed", remedy=f"pip install {package}")
