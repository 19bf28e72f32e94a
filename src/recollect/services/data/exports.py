"""Whole results as files: JSON, CSV, Parquet, Arrow or Excel.

In one's own process a file is written where the caller says. Over the network there is no path: the interface streams
the file of `exported`, and where it cannot, a small file comes in the reply.
"""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field as Having

from recollect.domain.record import Id, Name, Text
from recollect.domain.sources import QueryRun
from recollect.errors import InvalidInput, TooLarge
from recollect.ports.data import DEFAULT_LIMITS, ExportFormat, Limits
from recollect.services.data.queries import LONGEST_SQL, statement_of, statement_over
from recollect.services.data.tables import sources_named, tables_of
from recollect.services.requests import AS_GIVEN, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

MOST_IN_A_REPLY = 8_000_000
LONGEST_PATH = 4096
MEDIA_TYPES: dict[ExportFormat, str] = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


class ExportQueryRequest(Request):
    """A result to write as a file: of a run, or of a statement."""

    run: Id | None = Having(None, description="The run; its statement is run again on the sources as they are now")
    sql: Text | None = Having(None, min_length=1, max_length=LONGEST_SQL, description="A SELECT, instead of a run")
    format: ExportFormat | None = Having(None, description="The format; by the end of the path, else CSV")
    path: Annotated[str | None, AS_GIVEN] = Having(
        None, max_length=LONGEST_PATH, description="The file to write, on your own machine"
    )
    sources: list[Name] = Having(
        default_factory=list, max_length=100, description="The sources to read, by id or name; all by default"
    )
    project: Id | None = Having(None, description="Only the sources of this project")
    user: Id | None = Having(None, description="Only the sources of this user")
    seconds: float = Having(120.0, gt=0, le=600, description="How long it may take")

    def limits(self) -> Limits:
        return replace(DEFAULT_LIMITS, seconds=self.seconds, cpu_seconds=int(self.seconds * 2) + 1)

    def chosen_format(self) -> ExportFormat:
        if self.format is not None:
            return self.format
        suffix = Path(self.path or "").suffix.lstrip(".").lower()
        found: ExportFormat | None = next((one for one in MEDIA_TYPES if one == suffix), None)
        if self.path and found is None:
            raise InvalidInput(
                f"'{suffix[:20]}' is not a format of results", remedy=f"give format: {', '.join(MEDIA_TYPES)}"
            )
        return found or "csv"


class ExportQueryReply(Reply):
    """The file that was written; without a path, its content."""

    rows: int
    bytes: int
    format: str
    path: str | None = None
    base64: str | None = Having(None, description="The content, where no path was given")
    notes: list[str] = Having(default_factory=list)


@dataclass(frozen=True)
class ExportedFile:
    """A local file with a whole result; it is there as long as the context that made it."""

    path: Path
    rows: int
    format: ExportFormat

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.format]


@contextmanager
def exported(tenant: Tenant, request: ExportQueryRequest) -> Iterator[ExportedFile]:
    """The whole result in a temporary file, to stream from."""
    with tempfile.TemporaryDirectory(prefix="recollect-export-") as folder:
        yield _written(tenant, request, Path(folder) / f"result.{request.chosen_format()}")


def export_query(tenant: Tenant, request: ExportQueryRequest) -> ExportQueryReply:
    """Write the whole result of a query to a file."""
    if request.path is not None:
        made = _written(tenant, request, own_target(tenant, request.path))
        size = made.path.stat().st_size
        return ExportQueryReply(rows=made.rows, bytes=size, format=made.format, path=str(made.path))
    with exported(tenant, request) as made:
        size = made.path.stat().st_size
        if size > MOST_IN_A_REPLY:
            raise TooLarge(
                f"the result has {size:,} bytes as {made.format}; a reply holds {MOST_IN_A_REPLY:,}",
                remedy="download it over HTTP, give a path, or ask for fewer rows",
            )
        content = base64.b64encode(made.path.read_bytes()).decode()
    return ExportQueryReply(rows=made.rows, bytes=size, format=made.format, base64=content)


def _written(tenant: Tenant, request: ExportQueryRequest, target: Path) -> ExportedFile:
    if (request.run is None) == (request.sql is None):
        raise InvalidInput("give a run or a statement", remedy="give run, as `query.run` returned it, or sql")
    format, limits = request.chosen_format(), request.limits()
    if request.run is not None:
        opened = statement_of(tenant, load(tenant, QueryRun, request.run), limits)
    else:
        known = tables_of(tenant, sources_named(tenant, request.sources, request.project, request.user))
        opened = statement_over(tenant, request.sql or "", known, limits)
    with opened as statement:
        rows = statement.export(format, target, limits)
    return ExportedFile(target, rows, format)


def own_target(tenant: Tenant, path: str) -> Path:
    """The file to write, for callers on this machine only."""
    if tenant.scope.granted is not None:
        raise InvalidInput("a path names a file on the machine of the service", remedy="leave it out, and download it")
    target = Path(path).expanduser().absolute()
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise InvalidInput(f"cannot write '{path[:200]}'", remedy="give a file in a folder that you may write to")
    return target
