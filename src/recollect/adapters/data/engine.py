"""The data engine that fills the port: every verb is a job for a child process, checked before and after."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from recollect.adapters.atomic_file import publish, sync_file, temporary_path
from recollect.adapters.data.database import quoted_text
from recollect.adapters.data.messages import Message
from recollect.adapters.data.pool import ChildPool
from recollect.domain.record import clipped
from recollect.errors import InvalidInput, NotFound, StoreError
from recollect.ports.data import (
    DEFAULT_LIMITS,
    ArrowStream,
    Cost,
    Export,
    ExportFormat,
    Join,
    Limits,
    NewTable,
    Plain,
    Progress,
    QueryResult,
    Statement,
    TableProfile,
    Tables,
    ValueCount,
)


class DuckDBEngine:
    """A `DataEngine` on DuckDB. Cheap to make; its processes start with the first call, or with `warm`.

    `scratch` is the folder for what children write meanwhile (default: the system's temporary folder).
    """

    def __init__(self, *, size: int = 2, scratch: Path | None = None, wait_seconds: float = 30.0) -> None:
        self.pool = ChildPool(size, scratch=scratch, wait_seconds=wait_seconds)

    def warm(self) -> None:
        """Start a process now, so that the first call does not wait for it."""
        self.pool.warm()

    def read_file(
        self, path: Path, into: Path, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None, job: str | None = None,
    ) -> list[NewTable]:  # fmt: skip
        asked: Message = {"path": os.path.abspath(path), "name": name}
        with self._run("read_file", asked, limits, progress, job) as answer:
            tables = _NEW_TABLES.validate_python(answer.result["tables"])
            into.mkdir(parents=True, exist_ok=True)
            run = secrets.token_hex(8)
            targets = {answer.file(table.path): into / f"{run}-{index}.parquet" for index, table in enumerate(tables)}
            _move(targets)
            return [
                replace(table, path=path, cost=answer.cost)
                for table, path in zip(tables, targets.values(), strict=True)
            ]

    def write_frame(self, frame: ArrowStream, target: Path) -> None:
        import duckdb

        try:
            with duckdb.connect(config={"enable_external_access": True}) as connection:
                connection.register("frame", frame)
                connection.execute(f"COPY frame TO {quoted_text(str(target))} (FORMAT parquet, COMPRESSION zstd)")
        except duckdb.Error as error:
            raise InvalidInput(
                f"this data frame cannot be stored: {clipped(str(error), 300)}",
                remedy="give columns simple types: numbers, text, dates, lists and structs of them",
            ) from None

    def profile(
        self, table: Path, *, sample_rows: int | None = None, limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None, job: str | None = None,
    ) -> TableProfile:  # fmt: skip
        asked: Message = {"path": _file(table), "sample_rows": sample_rows}
        with self._run("profile", asked, limits, progress, job) as answer:
            return _PROFILE.validate_python(answer.result | {"cost": answer.cost})

    def values(
        self, table: Path, *, columns: Sequence[str] | None = None, most: int = 1000, longest: int = 200,
        limits: Limits = DEFAULT_LIMITS, job: str | None = None,
    ) -> dict[str, list[ValueCount]]:  # fmt: skip
        wanted = None if columns is None else list(columns)
        asked: Message = {"path": _file(table), "columns": wanted, "most": int(most), "longest": int(longest)}
        with self._run("values", asked, limits, job=job) as answer:
            found = _VALUES.validate_python(answer.result["values"])
            return {name: [ValueCount(value, count) for value, count in pairs] for name, pairs in found.items()}

    def joins(self, tables: Tables, *, limits: Limits = DEFAULT_LIMITS, job: str | None = None) -> list[Join]:
        with self._run("joins", _over("", tables), limits, job=job) as answer:
            return _JOINS.validate_python(answer.result["joins"])

    def tables_read(self, sql: str, names: Sequence[str], *, limits: Limits = DEFAULT_LIMITS) -> list[str]:
        with self._run("tables_read", {"sql": sql, "names": list(names)}, limits) as answer:
            return _NAMES.validate_python(answer.result["tables"])

    def check(self, sql: str, tables: Tables, *, limits: Limits = DEFAULT_LIMITS, job: str | None = None) -> Statement:
        with self._run("check", _over(sql, tables), limits, job=job) as answer:
            return _STATEMENT.validate_python(answer.result)

    def query(
        self, sql: str, tables: Tables, *, limits: Limits = DEFAULT_LIMITS, job: str | None = None
    ) -> QueryResult:
        with self._run("query", _over(sql, tables), limits, job=job) as answer:
            return _QUERY_RESULT.validate_python(answer.result | {"cost": answer.cost})

    def trials(
        self, statements: Sequence[str], tables: Tables, *, limits: Limits = DEFAULT_LIMITS
    ) -> list[list[list[Plain]] | None]:
        with self._run("trials", _over("", tables) | {"statements": list(statements)}, limits) as answer:
            return _TRIALS.validate_python(answer.result["rows"])

    def export(
        self, sql: str, tables: Tables, format: ExportFormat, target: Path, *, limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None, job: str | None = None,
    ) -> Export:  # fmt: skip
        asked = _over(sql, tables) | {"format": format}
        with self._run("export", asked, limits, progress, job) as answer:
            made = answer.file(answer.result.pop("file"))
            _move({made: target})
            return _EXPORT.validate_python(answer.result | {"path": target})

    def cancel(self, job: str) -> bool:
        return self.pool.cancel(job)

    def protections(self) -> dict[str, bool]:
        if not self.pool.last_protections:
            self.check("SELECT 1", {})
        return dict(self.pool.last_protections)

    def close(self) -> None:
        self.pool.close()

    @contextmanager
    def _run(
        self, verb: str, asked: Message, limits: Limits, progress: Progress | None = None, job: str | None = None
    ) -> Iterator[Answer]:
        with self.pool.run(verb, asked, limits, progress, job) as message:
            yield _ANSWER.validate_python(message)


@dataclass
class Answer:
    """What a child has sent, and the folder with the files that it made."""

    result: Message
    cost: Cost
    folder: Path

    def file(self, name: object) -> Path:
        """A file of that folder, and of no other; not a link."""
        path = self.folder / Path(str(name)).name
        if path.is_symlink() or not path.is_file():
            raise StoreError("the data engine made no file", remedy="report this as a bug")
        return path


_ANSWER = TypeAdapter(Answer)
_STATEMENT = TypeAdapter(Statement)
_QUERY_RESULT = TypeAdapter(QueryResult)
_EXPORT = TypeAdapter(Export)
_NEW_TABLES = TypeAdapter(list[NewTable])
_PROFILE = TypeAdapter(TableProfile)
_VALUES = TypeAdapter(dict[str, list[tuple[str, int]]])
_JOINS = TypeAdapter(list[Join])
_NAMES = TypeAdapter(list[str])
_TRIALS = TypeAdapter(list[list[list[Plain]] | None])


def _file(path: Path, name: str = "the table") -> str:
    if not path.is_file():
        raise NotFound(f"the file of {name} is gone", remedy="add the source again")
    return str(path.resolve())


def _over(sql: str, tables: Tables) -> Message:
    """The tables of a statement, each a regular file: what a link points to might be exchanged meanwhile."""
    for name in tables:
        if not name or "\0" in name:
            raise InvalidInput("a table has no name", remedy="give each table a name")
    if len({name.lower() for name in tables}) < len(tables):
        raise InvalidInput("two tables have the same name", remedy="give each another name; case makes no difference")
    files = {name: _file(path, f"the table '{name[:80]}'") for name, path in tables.items()}
    return {"sql": sql, "tables": files}


def _move(files: Mapping[Path, Path]) -> None:
    """Give finished files their names, all or none; they may come from another disk."""
    copies = {source: temporary_path(target) for source, target in files.items()}
    done: list[Path] = []
    try:
        for source, copy in copies.items():
            shutil.move(source, copy)
            sync_file(copy)
        for source, target in files.items():
            publish(copies[source], target)
            done.append(target)
    except BaseException:
        for path in [*copies.values(), *done]:
            path.unlink(missing_ok=True)
        raise
