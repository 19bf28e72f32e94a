"""The main loop of a child process: one job after another, each under its limits, with a database of its own.

Run as `python -m recollect.adapters.data.child FOLDER` by the pool. A thread reads what the parent sends; when the
parent is gone, even killed, the pipe ends and so does the child, in the middle of a job too.
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb

from recollect.adapters.data import confinement, database, exports, joins, profiles, results, sql_rules
from recollect.adapters.data.files import reading
from recollect.adapters.data.messages import Message, error_message, read_message, write_message
from recollect.errors import InvalidInput, NotFound, RecollectError, StoreError, TooLarge
from recollect.ports.data import Limits, Progress, Statement

_IDLE_SECONDS = 600.0
_MOST_LEFT = 64 << 20
"""A child that keeps so much more memory after a job than it began with is replaced."""


@dataclass(frozen=True)
class Job:
    """What a verb works with. `folder` is the job's own; the parent takes the files it wants from it and deletes it."""

    connection: duckdb.DuckDBPyConnection
    catalog: database.Catalog
    folder: Path
    limits: Limits
    asked: Message
    progress: Progress

    @property
    def tables(self) -> dict[str, Path]:
        found = self.asked["tables"]
        assert isinstance(found, dict)
        return {str(name): Path(str(path)) for name, path in found.items()}

    def text(self, name: str) -> str:
        return str(self.asked[name])


def query(job: Job) -> Message:
    statement = _prepared(job)
    return results.run(job.connection, statement, job.limits)


def trials(job: Job) -> Message:
    """Several statements, one after the other; those that fail have no rows."""
    given, tables = job.asked["statements"], job.tables
    assert isinstance(given, list)
    database.lock(job.connection, job.folder, job.limits, list(tables.values()))
    tried: list[object] = []
    for sql in given:
        try:
            statement = results.prepare(job.connection, sql_rules.parse(str(sql), tables), tables, job.catalog)
            tried.append(results.run(job.connection, statement, job.limits)["rows"])
        except (InvalidInput, NotFound):
            tried.append(None)
    return {"rows": tried}


def check(job: Job) -> Message:
    return asdict(_prepared(job))


def export(job: Job) -> Message:
    statement = _prepared(job, writable=job.folder)
    return exports.write(job.connection, statement, job.text("format"), job.folder, job.limits)


def read_file(job: Job) -> Message:
    path, name = Path(job.text("path")), job.asked["name"]
    database.lock(job.connection, job.folder, job.limits, [path], job.folder)
    made = reading.read_file(
        job.connection, path, str(name) if name is not None else None, job.folder, job.limits, job.progress
    )
    return {"tables": [asdict(table) | {"path": table.path.name} for table in made]}


def profile(job: Job) -> Message:
    path, sample = Path(job.text("path")), job.asked["sample_rows"]
    database.lock(job.connection, job.folder, job.limits, [path])
    return asdict(profiles.profile(job.connection, path, sample if isinstance(sample, int) else None, job.progress))


def values(job: Job) -> Message:
    path, wanted = Path(job.text("path")), job.asked["columns"]
    database.lock(job.connection, job.folder, job.limits, [path])
    most, longest = int(job.text("most")), int(job.text("longest"))
    found = profiles.values(job.connection, path, wanted if isinstance(wanted, list) else None, most, longest)
    return {"values": {name: [[one.value, one.count] for one in counted] for name, counted in found.items()}}


def find_joins(job: Job) -> Message:
    tables = job.tables
    database.lock(job.connection, job.folder, job.limits, list(tables.values()))
    return {"joins": [asdict(join) for join in joins.joins(job.connection, tables)]}


def tables_read(job: Job) -> Message:
    names = job.asked["names"]
    assert isinstance(names, list)
    return {"tables": sql_rules.parse(job.text("sql"), dict.fromkeys(map(str, names))).tables}


def _prepared(job: Job, writable: Path | None = None) -> Statement:
    tables = job.tables
    parsed = sql_rules.parse(job.text("sql"), tables)
    database.lock(job.connection, job.folder, job.limits, [tables[name] for name in parsed.tables], writable)
    return results.prepare(job.connection, parsed, tables, job.catalog)


VERBS: dict[str, Callable[[Job], Message]] = {
    "query": query,
    "trials": trials,
    "check": check,
    "export": export,
    "read_file": read_file,
    "profile": profile,
    "values": values,
    "joins": find_joins,
    "tables_read": tables_read,
}


def main() -> None:
    folder = Path(sys.argv[1])
    meter = confinement.PeakMeter()
    protections = confinement.confine(folder)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 1)  # whatever prints must not be taken for a message
    jobs: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, jobs, folder), daemon=True).start()
    connection = database.fresh()
    catalog = database.Catalog.by(connection)
    connection.close()
    connection = database.fresh()
    meter.restart()
    before = confinement.memory()
    write_message(output, {"ready": protections})
    while True:
        try:
            asked = jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            break
        begun, cpu = time.monotonic(), time.process_time()
        answer = _answer(asked, connection, catalog, output)
        cost = {
            "seconds": time.monotonic() - begun,
            "cpu_seconds": time.process_time() - cpu,
            "peak_bytes": meter.peak(),
        }
        connection.close()
        meter.restart()
        is_worn = confinement.memory() > before + _MOST_LEFT
        write_message(output, {**answer, "cost": cost, "is_last": is_worn})
        if is_worn:
            break
        connection = database.fresh()


def _listen(source: BinaryIO, jobs: queue.SimpleQueue[Message], folder: Path) -> None:
    while (message := read_message(source)) is not None:
        jobs.put(message)
    shutil.rmtree(folder, ignore_errors=True)  # the parent is gone, and with it who would do it
    os._exit(0)


def _answer(
    asked: Message, connection: duckdb.DuckDBPyConnection, catalog: database.Catalog, output: BinaryIO
) -> Message:
    given = asked["limits"]
    assert isinstance(given, dict)
    limits = Limits(**given)

    def progress(what: str, share: float) -> None:
        write_message(output, {"progress": [what, share]})

    job = Job(connection, catalog, Path(str(asked["folder"])), limits, asked, progress)
    try:
        with confinement.held_to(
            megabytes=limits.megabytes, cpu_seconds=limits.cpu_seconds, disk_megabytes=limits.disk_megabytes
        ):
            return {"result": VERBS[str(asked["verb"])](job)}
    except RecollectError as error:
        return error_message(error)
    except duckdb.Error as error:
        return error_message(results.explained(error, {}))
    except MemoryError:
        return error_message(TooLarge("more memory is needed than may be used", remedy="ask for less, or allow more"))
    except RecursionError:
        return error_message(InvalidInput("this is nested too deeply", remedy="make it flatter"))
    except Exception as error:  # noqa: BLE001 - the edge of the process: whoever waits must hear of it
        return error_message(
            StoreError(f"the data engine failed: {type(error).__name__}", remedy="report this as a bug")
        )


if __name__ == "__main__":
    main()
