"""Every vector store in the tree keeps every rule of the socket, beside the record stores it may stand beside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chroma_server import chroma
from postgres_server import server
from recollect.adapters.records.in_memory import MemoryStore
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.adapters.vectors.external.chroma import Chroma
from recollect.adapters.vectors.external.index import ExternalIndex
from recollect.adapters.vectors.external.pgvector import PgVector
from recollect.adapters.vectors.pgvector import PgVectorStore
from recollect.errors import StoreBusy
from recollect.ports.records import RecordStore
from recollect.ports.vectors import VectorStore
from recollect.testing.conformance import VectorStoreContract
from recollect.testing.vector_truths import RecordTruth

_WRITER = """
import json, sys
import numpy as np
from pathlib import Path
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.testing.vector_truths import RecordTruth
path, tenant, id, vector = json.loads(sys.argv[1])
store = SqliteStore(Path(path))
RecordTruth(store).put(tenant, id, np.array(vector))
store.close()
"""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path_factory.mktemp("empty") / "records.db")) as store:
        yield store


class _OnSqlite(VectorStoreContract):
    @pytest.fixture
    def truth(self, tmp_path: Path, empty: SqliteStore) -> Iterator[RecordTruth]:
        empty.backup(tmp_path / "records.db")  # an incarnation of its own, in less time than making the tables
        with closing(SqliteStore(tmp_path / "records.db")) as store:
            yield RecordTruth(store)

    @pytest.fixture
    def elsewhere(self, tmp_path: Path) -> Callable[[str, str, list[float]], None]:
        def write(*row: Any) -> None:
            given = json.dumps([str(tmp_path / "records.db"), *row])
            subprocess.run([sys.executable, "-c", _WRITER, given], check=True, timeout=60)

        return write

    @pytest.fixture
    def restored(self, truth: RecordTruth, tmp_path: Path) -> Iterator[Callable[[], RecordTruth]]:
        with ExitStack() as stack:

            def restore() -> RecordTruth:
                truth.store.backup(tmp_path / "copy.db")
                return RecordTruth(stack.enter_context(closing(SqliteStore(tmp_path / "copy.db"))))

            yield restore


class TestEmbedded(_OnSqlite):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> Callable[..., VectorStore]:
        return lambda truth: EmbeddedIndex(truth, tmp_path / "index", background=False, seal_rows=25)

    @pytest.fixture
    def plant(self, tmp_path: Path) -> Callable[[VectorStore], None]:
        def flip(index: VectorStore) -> None:
            path = next((tmp_path / "index").glob("*.seg"))
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)

        return flip


class TestEmbeddedInMemory(VectorStoreContract):
    @pytest.fixture(params=["memory", "postgres"])
    def truth(self, request: pytest.FixtureRequest) -> Iterator[RecordTruth]:
        store: RecordStore = MemoryStore() if request.param == "memory" else PostgresStore(server().emptied_store())
        with closing(store):
            yield RecordTruth(store)

    @pytest.fixture
    def open_index(self) -> Callable[..., VectorStore]:
        return lambda truth: EmbeddedIndex(truth, None, background=False)


class TestPgVectorOfTheStore(VectorStoreContract):
    @pytest.fixture
    def truth(self) -> Iterator[RecordTruth]:
        with closing(PostgresStore(server().emptied_store())) as store:
            yield RecordTruth(store)

    @pytest.fixture
    def open_index(self) -> Callable[..., VectorStore]:
        return lambda truth: PgVectorStore(truth.store)

    @pytest.fixture
    def plant(self, truth: RecordTruth) -> Callable[[VectorStore], None]:
        def empty(index: VectorStore) -> None:
            with truth.store.as_owner() as connection:  # type: ignore[attr-defined]
                connection.execute("UPDATE embedding SET _halfvec = NULL WHERE memory_id = 'm00001'")

        return empty


class _Outside(_OnSqlite):
    @pytest.fixture(params=["missing", "changed", "invented", "misplaced"])
    def plant(self, request: pytest.FixtureRequest) -> Callable[[VectorStore], None]:
        def damage(index: VectorStore) -> None:
            assert isinstance(index, ExternalIndex)
            system, generation = index._system, index._state
            assert generation is not None
            here, there = sorted(system.places(generation))
            entry = next(system.entries(generation, here))[0]
            if request.param == "invented":
                system.add(generation, here, [replace(entry, seq=1 << 40)])
                return
            system.remove(generation, here, [entry.seq])
            if request.param == "changed":
                system.add(generation, here, [replace(entry, vector=np.flip(entry.vector))])
            if request.param == "misplaced":
                system.add(generation, there, [entry])

        return damage


class TestPgVectorBeside(_Outside):
    @pytest.fixture(params=["exact", "walk"])
    def open_index(self, request: pytest.FixtureRequest) -> Callable[..., VectorStore]:
        address = server().address()
        few: dict[str, Any] = {"exact_limit": 5, "index_rows": 20} if request.param == "walk" else {}
        return lambda truth: ExternalIndex(truth, PgVector(address, **few), background=False)


class TestChromaServer(_Outside):
    @pytest.fixture
    def open_index(self) -> Callable[..., VectorStore]:
        return lambda truth: ExternalIndex(truth, Chroma(url=chroma().url), background=True)


class TestChromaFolder(_Outside):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> Callable[..., VectorStore]:
        return lambda truth: ExternalIndex(truth, Chroma(path=tmp_path / "chroma"), background=False)

    @pytest.fixture
    def another_handle(self) -> bool:
        return False

    def test_a_folder_in_use_is_refused(self, truth: RecordTruth, open_index: Any, tmp_path: Path) -> None:
        with closing(open_index(truth)):
            code = (
                "from pathlib import Path; from recollect.adapters.vectors.external.chroma import Chroma; "
                f"Chroma(path=Path({str(tmp_path / 'chroma')!r}))"
            )
            other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            assert "StoreBusy" in other.stderr
            with pytest.raises(StoreBusy, match="another process"):
                Chroma(path=tmp_path / "chroma")
        open_index(truth).close()
