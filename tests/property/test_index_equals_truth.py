"""Every index equals brute force over the truth, whatever happens to rows, files and processes in between."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chroma_server import chroma
from postgres_server import server
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.adapters.vectors.external.chroma import Chroma
from recollect.adapters.vectors.external.index import ExternalIndex
from recollect.adapters.vectors.external.pgvector import PgVector
from recollect.ports.vectors import FACETS, VectorHit, VectorStore
from recollect.testing.vector_truths import MemoryTruth, nearest
from seeds import SOAK

DIMENSIONS = 5
TENANTS = st.sampled_from(["a", "b"])
SPACES = st.sampled_from(["x", "y"])
PARTS = st.integers(0, 2)
IDS = st.integers(0, 25).map(lambda number: f"m{number:02d}")
VALUES = st.sampled_from([None, "1", "2"])
# Few distinct numbers, so that equal and opposite vectors and exact ties are common.
VECTORS = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=DIMENSIONS, max_size=DIMENSIONS).map(np.array)
WHERE = st.none() | st.dictionaries(st.sampled_from(["user_id", "kind", "status"]), st.sets(VALUES, max_size=3))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here, and slow
TIMES = 10 if SOAK else 1


class IndexEqualsTruth(RuleBasedStateMachine):
    """Two indexes, as two processes would have, on one truth and one folder."""

    @initialize(in_memory=st.booleans(), exact=st.booleans())
    def start(self, in_memory: bool, exact: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.truth = MemoryTruth()
        self.in_memory = in_memory
        # With exact_values=0 the codes are used; every distance is reached, so that the answer is still the exact one.
        self.options: dict[str, Any] = {
            "seal_rows": 4,
            "background": False,
            "candidates": 1000,
            "exact_values": 1 << 20 if exact else 0,
        }
        self.left: list[VectorStore] = []
        self.begin()
        self.indexes = [self._open(), self._open()]

    def begin(self) -> None:
        """What another kind of index needs."""

    def _open(self) -> VectorStore:
        return EmbeddedIndex(self.truth, None if self.in_memory else self.folder / "index", **self.options)

    def teardown(self) -> None:
        if hasattr(self, "indexes"):
            for index in (*self.indexes, *self.left):
                index.close()
            shutil.rmtree(self.folder)

    @rule(tenant=TENANTS, id=IDS, vector=VECTORS, space=SPACES, part=PARTS, user=VALUES, kind=VALUES, status=VALUES)
    def put(self, tenant, id, vector, space, part, user, kind, status) -> None:  # type: ignore[no-untyped-def]
        self.truth.put(tenant, id, vector, space=space, part=part, user_id=user, kind=kind, status=status)

    @rule(tenant=TENANTS, ids=st.lists(IDS, max_size=8), space=SPACES)
    def delete(self, tenant: str, ids: list[str], space: str) -> None:
        for id in ids:
            self.truth.delete(tenant, id, space=space)

    @rule(seed=st.integers(0, 1 << 30), count=st.integers(5, 40))
    def load(self, seed: int, count: int) -> None:
        chance = np.random.default_rng(seed)
        for _ in range(count):
            facets = {facet: [None, "1", "2"][chance.integers(3)] for facet in FACETS}
            vector = chance.standard_normal(DIMENSIONS)
            tenant, space = "ab"[chance.integers(2)], "xy"[chance.integers(2)]
            part = int(chance.integers(3))
            self.truth.put(tenant, f"m{chance.integers(60):02d}", vector, space=space, part=part, **facets)

    @rule(
        which=st.integers(0, 1),
        tenant=TENANTS,
        space=SPACES,
        vector=VECTORS,
        limit=st.integers(1, 12),
        where=WHERE,
    )
    def search(
        self,
        which: int,
        tenant: str,
        space: str,
        vector: np.ndarray,
        limit: int,
        where: dict[str, Collection[str | None]] | None,
    ) -> None:
        query = vector.astype(np.float32)
        found = self.indexes[which].search(tenant, space, query, limit, where)
        self.compare(found, nearest(self.truth, tenant, space, query, 1 << 30, where), limit)

    def compare(self, found: list[VectorHit], every: list[VectorHit], limit: int) -> None:
        assert found == every[:limit]

    @rule(which=st.integers(0, 1))
    def refresh(self, which: int) -> None:
        self.indexes[which].refresh()

    @rule(which=st.integers(0, 1))
    def purge(self, which: int) -> None:
        self.indexes[which].purge()

    @rule(which=st.integers(0, 1))
    def rebuild(self, which: int) -> None:
        assert self.indexes[which].rebuild() == len(self.truth.rows)

    @rule(which=st.integers(0, 1), politely=st.booleans())
    def reopen(self, which: int, politely: bool) -> None:
        if politely:
            self.indexes[which].close()
        else:
            self.left.append(self.indexes[which])
        self.indexes[which] = self._open()

    @rule()
    def replace_the_store(self) -> None:
        self.truth.incarnation += "'"

    @precondition(lambda self: self._files())
    @rule(seed=st.integers(0, 1 << 30))
    def lose_a_file(self, seed: int) -> None:
        random.Random(seed).choice(self._files()).unlink()

    @precondition(lambda self: self._files())
    @rule(seed=st.integers(0, 1 << 30), which=st.integers(0, 1))
    def damage_a_file(self, seed: int, which: int) -> None:
        chance = random.Random(seed)
        path = chance.choice(self._files())
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.unlink()  # a new file, as after a crash: the running index keeps the one it has mapped
        path.write_bytes(data)
        self.indexes[which] = self._open()

    @precondition(lambda self: self._files())
    @rule(seed=st.integers(0, 1 << 30))
    def cut_a_file(self, seed: int) -> None:
        chance = random.Random(seed)
        path = chance.choice(self._files())
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[: chance.randrange(len(data))])

    def _files(self) -> list[Path]:
        return sorted((self.folder / "index").glob("*.seg")) if hasattr(self, "folder") else []

    @invariant()
    def nothing_is_left_over(self) -> None:
        if hasattr(self, "folder"):
            assert not list(self.folder.glob("index/*.tmp"))


class OutsideEqualsTruth(IndexEqualsTruth):
    """An index in another system suggests any of those that are equally near."""

    def begin(self) -> None:
        self.truth.incarnation = uuid.uuid4().hex  # the server is shared with other examples

    def compare(self, found: list[VectorHit], every: list[VectorHit], limit: int) -> None:
        assert [hit.similarity for hit in found] == [hit.similarity for hit in every[:limit]]
        assert set(found) <= set(every)
        assert len(set(found)) == len(found)

    @invariant()
    def it_agrees(self) -> None:
        if hasattr(self, "indexes") and self.truth.last % 7 == 0:
            assert self.indexes[0].verify() == []


class ChromaEqualsTruth(OutsideEqualsTruth):
    def _open(self) -> VectorStore:
        return ExternalIndex(self.truth, Chroma(url=chroma().url), background=False)


class PgVectorEqualsTruth(OutsideEqualsTruth):
    def _open(self) -> VectorStore:
        return ExternalIndex(self.truth, PgVector(server().address()), background=False)


@pytest.mark.parametrize(
    ("machine", "examples"), [(IndexEqualsTruth, 100), (ChromaEqualsTruth, 3), (PgVectorEqualsTruth, 8)]
)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
def test_the_index_equals_the_truth(machine: type[IndexEqualsTruth], examples: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * TIMES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
