"""What the crash tests share: counts, seeds, other processes, and the comparison of a store with its acknowledgements.

`RECOLLECT_SOAK=1` runs the whole bar of each promise, ten times the default, with other choices each time. Every test
prints its seed when it fails; `RECOLLECT_SEED=<seed>` makes the same choices again (the instants of a kill are the
machine's own).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Embedding, IndexTask, Memory, Relationship, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import Record
from recollect.ports.query import Query, TextQuery
from recollect.services.memories.embedded_records import embedded_memory
from recollect.testing.fakes import HashEmbedder
from seeds import SEED, SOAK

State = dict[str, Any]


@pytest.fixture(scope="session")
def times() -> Callable[[int], int]:
    """How often to do something: a tenth of the bar, or in a soak run the whole."""
    factor = 10 if SOAK else 1
    return lambda count: count * factor


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    print(f"RECOLLECT_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")


# -- other processes ---------------------------------------------------------------------------------------------------


@dataclass
class Child:
    """A process that does one job of worker.py."""

    server: ChildServer
    id: int
    errors: Path

    def kill(self) -> None:
        """At this very instant, whatever it is doing; returns when it is gone."""
        os.kill(self.id, signal.SIGKILL)
        self.server.ended(self)

    def wait(self) -> int:
        """Its exit code; minus nine when it was killed."""
        return self.server.ended(self)

    def done(self) -> None:
        assert self.wait() == 0, self.errors.read_text()


class ChildServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Child] = []
        self._started = 0
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **one_thread},
        )

    def start(self, do: str, **given: Any) -> Child:
        self._started += 1
        errors = self._folder / f"{do}-{self._started}.txt"
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
        child = Child(self, self._ask({"do": do, "with": plain, "errors": str(errors)}), errors)
        self._running.append(child)
        return child

    def ended(self, child: Child) -> int:
        self._running.remove(child)
        return self._ask({"wait": child.id})

    def end_all(self) -> None:
        for child in list(self._running):
            child.kill()

    def close(self) -> None:
        self.end_all()
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)

    def _ask(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class Ticks:
    """A pipe on which a child gives a sign of life, for each acknowledgement or when it is ready."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def wait(self, count: int) -> bytes:
        """Until there were so many, or the child has ended."""
        seen = b""
        while len(seen) < count:
            tick = self._read(count - len(seen))
            if not tick:
                break
            seen += tick
        return seen

    def line(self) -> str:
        """What the child says next."""
        said = b""
        while not said.endswith(b"\n"):
            tick = self._read(1)
            assert tick, "the child has ended"
            said += tick
        return said.decode()

    def _read(self, count: int) -> bytes:
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        assert poll.poll(60_000), "the child gives no sign of life"
        return os.read(self._end, count)

    def close(self) -> None:
        os.close(self._end)
        self.path.unlink()


@pytest.fixture
def new_ticks(tmp_path: Path) -> Iterator[Callable[[], Ticks]]:
    """Makes pipes, one for each child."""
    made: list[Ticks] = []

    def make() -> Ticks:
        made.append(Ticks(tmp_path / f"ticks-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Gate:
    """A pipe at which children wait to do something at the same moment."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end: int | None = os.open(path, os.O_RDWR)  # so that neither side waits for the other to open it

    def write(self, text: str) -> None:
        assert self._end is not None
        os.write(self._end, text.encode())

    def open(self) -> None:
        if self._end is not None:
            os.close(self._end)
            self._end = None


@pytest.fixture
def new_gate(tmp_path: Path) -> Iterator[Callable[[], Gate]]:
    made: list[Gate] = []

    def make() -> Gate:
        made.append(Gate(tmp_path / f"gate-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.open()
        one.path.unlink()


@pytest.fixture(scope="session")
def child_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildServer]:
    server = ChildServer(tmp_path_factory.mktemp("children"))
    yield server
    server.close()


@pytest.fixture
def children(child_server: ChildServer) -> Iterator[ChildServer]:
    """Starts processes: `children.start(job, **arguments)`; whatever still runs at the end of the test is killed."""
    yield child_server
    child_server.end_all()


# -- what was acknowledged, and what is there --------------------------------------------------------------------------


@dataclass
class Ledger:
    """How every memory must read (None: erased), and the writes that were announced but not acknowledged."""

    states: dict[str, State | None] = field(default_factory=dict)
    pending: dict[str, dict[str, State | None]] = field(default_factory=dict)
    acknowledged: int = 0

    @staticmethod
    def read(lines: list[str], before: Ledger | None = None) -> Ledger:
        ledger = Ledger(dict(before.states) if before else {})
        for line in lines:
            ledger.enter(json.loads(line))
        return ledger

    def enter(self, entry: dict[str, Any]) -> None:
        assert "problem" not in entry, entry["problem"]
        if "after" in entry:
            self.pending[entry["by"]] = entry["after"]
        elif "done" in entry:
            self.states |= self.pending.pop(entry["by"])
            self.acknowledged += 1

    def living(self) -> dict[str, State]:
        return {id: state for id, state in self.states.items() if state is not None}

    def settle(self, seen: dict[str, State], erased: set[str]) -> None:
        """Each pending write happened whole or not at all; from now on it is known which."""
        for after in self.pending.values():
            before = {id: self.states.get(id) for id in after}
            found = {id: seen.get(id) for id in after}
            assert found in (before, after), f"half written: {found}, before {before}, after {after}"
            if found == after:
                self.states |= after
        self.pending = {}
        assert erased == {id for id, state in self.states.items() if state is None}


def _all(mem: Any, record: type[Record]) -> list[Any]:
    return mem._core.store.find(mem._scope, Query(record, deleted="yes")).records


def _grouped(records: list[Any], field: str) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for one in records:
        groups.setdefault(getattr(one, field), []).append(one)
    return groups


def witnessed(mem: Any) -> tuple[dict[str, State], set[str]]:
    """Every memory with all that hangs on it, each found whole; and what was erased."""
    tags, citations, links, revisions, vectors = (
        _grouped(_all(mem, record), field)
        for record, field in (
            (Tag, "memory_id"),
            (Citation, "memory_id"),
            (Relationship, "source_id"),
            (Revision, "memory_id"),
            (Embedding, "memory_id"),
        )
    )
    log = [entry for entry in _all(mem, AccessLog) if entry.operation in ("create", "update", "delete")]
    audit = Counter(entry.memory_id for entry in log)
    assert _all(mem, IndexTask) == []
    seen = {}
    for memory in _all(mem, Memory):
        numbers = sorted(revision.number for revision in revisions.pop(memory.id, []))
        assert numbers == list(range(1, memory.version)), f"{memory.id} lacks a former state"
        _assert_vectors(memory, vectors.pop(memory.id, []))
        seen[memory.id] = {
            "text": memory.text,
            "version": memory.version,
            "status": memory.status,
            "deleted": memory.is_deleted,
            "tags": sorted(tag.tag for tag in tags.pop(memory.id, [])),
            "citations": len(citations.pop(memory.id, [])),
            "links": sorted([database.target_id, database.type] for database in links.pop(memory.id, [])),
            "audit": audit[memory.id],
        }
    assert [tags, citations, links, revisions, vectors] == [{}] * 5, "something hangs on a memory that is not there"
    return seen, {entry.request_data["id"] for entry in log if entry.action == "erase"}


def _assert_vectors(memory: Memory, vectors: list[Embedding]) -> None:
    wanted = [] if memory.is_deleted else [("long_term", "hash-64")]
    assert [(one.namespace, one.model) for one in vectors] == wanted, f"{memory.id} lacks its vector"
    for one in vectors:
        text = embedded_memory(memory).text
        assert one.text_hash == hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        assert one.vector == HashEmbedder().embed_query(text).astype("<f2").tobytes()
        assert one.facets == embedded_memory(memory).facets


def assert_whole(mem: Any, ledger: Ledger, chance: random.Random, *, recalls: int = 5) -> None:
    """The store holds exactly what was acknowledged, every memory whole, every index equal to the records."""
    seen, erased = witnessed(mem)
    ledger.settle(seen, erased)
    assert seen == ledger.living()
    assert_indexes_equal_records(mem, {id for id, state in seen.items() if not state["deleted"]})
    recallable = [id for id, state in seen.items() if not state["deleted"]]
    for id in chance.sample(recallable, min(recalls, len(recallable))):
        hits = mem.recall(f"what about {id.replace('-', '')}?", limit=1000).hits  # found, wherever it ranks
        assert (id, seen[id]["text"]) in [(hit.id, hit.text) for hit in hits]


def assert_indexes_equal_records(mem: Any, living: set[str]) -> None:
    report = mem.verify()
    assert report.sound, report.problems
    core, scope = mem._core, mem._scope
    by_words = core.store.search_text(scope, TextQuery(Memory, ("anchor",), 1_000_000))
    assert sorted(hit.id for hit in by_words) == sorted(living)
    direction = np.ones(64, np.float32) / 8
    near = core.vectors.search(scope.organization_id, "long_term/hash-64", direction, 1_000_000)
    assert sorted(hit.memory_id for hit in near) == sorted(living)


@pytest.fixture(scope="session")
def compare() -> SimpleNamespace:
    """The comparison of a store with its log, and its parts."""
    return SimpleNamespace(
        Ledger=Ledger,
        witnessed=witnessed,
        assert_whole=assert_whole,
        assert_indexes_equal_records=assert_indexes_equal_records,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For tests that need no real disk: in memory where the machine has such a place."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="recollect-crash-", dir=memory))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def new_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes small disks: `new_disk("8m")`."""
    made: list[Path] = []

    def make(size: str) -> Path:
        folder = tmp_path / f"disk-{len(made)}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
        if done.returncode:
            pytest.skip(f"cannot mount a small disk here: {done.stderr.decode().strip()}")
        made.append(folder)
        return folder

    yield make
    for folder in made:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def fill() -> Callable[[Path, int], Path]:
    """Fills a disk up to so many bytes that are left; gives the file to delete when there shall be room again."""

    def full(disk: Path, leave: int) -> Path:
        ballast, usage = disk / "ballast", os.statvfs(disk)
        ballast.write_bytes(bytes(usage.f_bavail * usage.f_frsize - leave))
        return ballast

    return full


@pytest.fixture
def opened() -> Iterator[Callable[..., Any]]:
    """Opens stores with the instant embedder; closes them after the test."""
    mems: list[Any] = []

    def open(path: Path, **settings: Any) -> Any:
        mems.append(recollect.open(path, **{"embedder": "hash", **settings}))
        return mems[-1]

    yield open
    for mem in mems:
        mem.close()
