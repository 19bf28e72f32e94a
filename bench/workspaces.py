"""What a snapshot costs when ten files of ten thousand changed: time, records and bytes. `python bench/workspaces.py`.

The files are written to a folder, pulled, and snapshotted; then ten are changed and another snapshot is taken, several
times. Bytes are those of the records written, as JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import recollect
from recollect.domain.workspaces import Snapshot, TreeNode
from recollect.ports.query import Query
from shared import console


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder), given.files, given.changes, given.rounds)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "workspaces.json").write_text(json.dumps(report, indent=1) + "\n")
    for name, value in report.items():
        console.print(f"{name:28} {value}")


def measure(folder: Path, files: int, changes: int, rounds: int) -> dict[str, Any]:
    source = folder / "source"
    for number in range(files):
        path = source / f"d{number % 100}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}\n" * 5)
    with recollect.open(folder / "bench.db", embedder="none") as mem:
        mem.agent.add("Bench", id="agent")
        mem.workspace.add("agent", id="w")
        pull, _ = timed(lambda: mem.workspace.pull("w", str(source)))
        first, whole = timed(lambda: mem.workspace.snapshot("w"))
        whole_bytes = written_bytes(mem)
        times, nodes, sizes = [], [], []
        for turn in range(rounds):
            for number in range(changes):
                file = (turn * changes + number) % files
                mem.workspace.write("w", f"d{file % 100}/f{file}.txt", f"turn {turn} of {file}")
            before = written_bytes(mem)
            took, taken = timed(lambda: mem.workspace.snapshot("w"))
            times.append(took)
            nodes.append(taken.written)
            sizes.append(written_bytes(mem) - before)
        again, _ = timed(lambda: mem.workspace.restore("w", whole.id))
    return {
        "files": files,
        "changes": changes,
        "pull_s": round(pull / 1000, 2),
        "first_snapshot_ms": round(first, 1),
        "first_snapshot_bytes": whole_bytes,
        "snapshot_ms_median": round(sorted(times)[len(times) // 2], 2),
        "snapshot_nodes_median": sorted(nodes)[len(nodes) // 2],
        "snapshot_bytes_median": sorted(sizes)[len(sizes) // 2],
        "restore_ms": round(again, 1),
    }


def timed(work: Any) -> tuple[float, Any]:
    begun = time.perf_counter()
    done = work()
    return (time.perf_counter() - begun) * 1000, done


def written_bytes(mem: Any) -> int:
    """Of all snapshots and their trees, as JSON."""
    store, scope = mem._core.store, mem._scope
    return sum(
        len(record.model_dump_json())
        for kind in (TreeNode, Snapshot)
        for record in store.find(scope, Query(kind)).records
    )


if __name__ == "__main__":
    main()
