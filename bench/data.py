"""The data engine beside polars: reading a CSV, profiling it, and what a child process adds to a query.

A table of orders is drawn and written as CSV, then read, profiled from a sample and as a whole, each in a child process
of the engine. Polars does the same work in a process of its own: the same counts, extremes, quantiles, histograms and
frequent values. Processor time and the peak of memory are those of the process that did the work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from recollect.adapters.data.engine import DuckDBEngine
from recollect.ports.data import Cost, Limits
from shared import console, machine, table

LIMITS = Limits(seconds=3000, cpu_seconds=3000)
PROFILE_LIMITS = Limits(seconds=3000, cpu_seconds=3000, megabytes=250)
Figures = dict[str, float]

ORDERS = """
SELECT i AS id, DATE '2020-01-01' + (hash(i) % 1500)::INT AS day,
    ['North', 'South', 'East', 'West', 'Centre'][(1 + hash(i * 7) % 5)::INT] AS region,
    round((hash(i * 3) % 1000000) / 100.0, 2) AS amount, (hash(i * 11) % 50)::INT AS quantity,
    'customer' || (hash(i * 13) % 500000) || '@example.com' AS email, 'product ' || (hash(i * 17) % 2000) AS product,
    hash(i * 19) % 2 = 0 AS is_paid
FROM range({rows}) t(i)
"""

POLARS = """
import sys, time
import polars as pl
begun = time.process_time()
verb, path, target = sys.argv[1:]
if verb == "read":
    pl.scan_csv(path, try_parse_dates=True).sink_parquet(target)
else:
    lazy = pl.scan_parquet(path)
    schema = lazy.collect_schema()
    some = pl.all()
    lazy.select(some.count().name.suffix(" n"), some.min().name.suffix(" min"), some.max().name.suffix(" max"),
                some.approx_n_unique().name.suffix(" distinct")).collect(engine="streaming")
    for name, kind in schema.items():
        column = lazy.select(name)
        if kind.is_numeric():
            shares = [pl.col(name).quantile(share).alias(str(share)) for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
            column.select(pl.col(name).mean().alias("mean"), *shares).collect(engine="streaming")
            column.collect()[name].hist(bin_count=20)
        column.group_by(name).len().top_k(10, by="len").collect(engine="streaming")
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time() - begun, peak / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder), given.rows, given.queries)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "data.json").write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def measure(folder: Path, rows: int, queries: int) -> dict[str, object]:
    source = folder / "orders.csv"
    duckdb.execute(f"COPY ({ORDERS.format(rows=rows)}) TO '{source}' (HEADER)")
    engine = DuckDBEngine(scratch=folder)
    try:
        engine.query("SELECT 1", {})
        (made,) = engine.read_file(source, folder / "tables", limits=LIMITS)
        sample = engine.profile(made.path, sample_rows=20_000, limits=PROFILE_LIMITS)
        whole = engine.profile(made.path, limits=PROFILE_LIMITS)
        tables = {"orders": folder / "small.parquet"}
        duckdb.execute(f"COPY ({ORDERS.format(rows=1000)}) TO '{tables['orders']}'")
        sql = "SELECT region, sum(amount) FROM orders GROUP BY 1"
        return {
            "machine": machine(),
            "rows": rows,
            "csv_megabytes": round(source.stat().st_size / 2**20, 1),
            "parquet_megabytes": round(made.path.stat().st_size / 2**20, 1),
            "read": _figures(made.cost),
            "profile_sample": _figures(sample.cost),
            "profile_whole": _figures(whole.cost),
            "polars_read": _polars("read", source, folder / "polars.parquet"),
            "polars_profile": _polars("profile", made.path, folder / "none"),
            "query_ms": _median(lambda: engine.query(sql, tables), queries),
            "query_in_process_ms": _median(lambda: _in_process(sql, tables["orders"]), queries),
        }
    finally:
        engine.close()


def _figures(cost: Cost | None) -> Figures:
    assert cost is not None
    return {
        "seconds": round(cost.seconds, 2),
        "cpu_seconds": round(cost.cpu_seconds, 2),
        "peak_megabytes": round(cost.peak_bytes / 2**20),
    }


def _polars(verb: str, source: Path, target: Path) -> Figures | None:
    command = [sys.executable, "-c", POLARS, verb, str(source), str(target)]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        console.print(f"polars is left out: {done.stderr.strip().splitlines()[-1:]}")
        return None
    cpu, peak = map(float, done.stdout.split())
    return {
        "seconds": round(time.perf_counter() - begun, 2),
        "cpu_seconds": round(cpu, 2),
        "peak_megabytes": round(peak),
    }


def _median(work: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        took.append((time.perf_counter() - begun) * 1000)
    return round(statistics.median(took), 2)


def _in_process(sql: str, path: Path) -> None:
    """The same, with nothing between us and DuckDB: a fresh database, as each query has in a child."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"CREATE VIEW orders AS SELECT * FROM read_parquet('{path}')")
        connection.execute(sql).fetchall()


def show(report: dict[str, object]) -> None:
    rows = []
    for name in ("read", "polars_read", "profile_sample", "profile_whole", "polars_profile"):
        found = report[name]
        if isinstance(found, dict):
            rows.append([name.replace("_", " "), *(f"{value:g}" for value in found.values())])
    title = f"{report['rows']:,} rows, {report['csv_megabytes']} MB of CSV"
    console.print(table(title, ["", "seconds", "CPU seconds", "peak MB"], rows))
    console.print(f"one small query: {report['query_ms']} ms in a child, {report['query_in_process_ms']} ms in process")


if __name__ == "__main__":
    main()
