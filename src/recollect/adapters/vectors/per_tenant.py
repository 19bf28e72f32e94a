"""An index for each tenant, for stores that count their seqs per tenant: made when the tenant is first searched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from recollect.errors import Closed
from recollect.ports.vectors import HasKernel, TenantVectors, VectorHit, VectorStore, VectorTruth


class PerTenant:
    label = "an index for each tenant"

    def __init__(self, truth: TenantVectors, make: Callable[[VectorTruth], VectorStore]) -> None:
        self._truth = truth
        self._make = make
        self._lock = threading.Lock()
        self._indexes: dict[str, VectorStore] = {}
        self._closed = False

    def search(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None = None,
    ) -> list[VectorHit]:
        return self._index(organization_id).search(organization_id, space, query, limit, where)

    def hint(self, seq: int) -> None:
        """Nothing tells whose seq it is; each index catches up when it is searched."""

    def purge(self) -> None:
        for index in self._made():
            index.purge()

    def refresh(self) -> None:
        for index in self._made():
            index.refresh()

    def rebuild(self) -> int:
        return sum(self._index(id).rebuild() for id in self._truth.tenants())

    def kernel(self) -> str:
        return next((index.kernel() for index in self._made() if isinstance(index, HasKernel)), "")

    def behind(self) -> int:
        return sum(index.behind() for index in self._made())

    def verify(self) -> list[str]:
        return [problem for id in self._truth.tenants() for problem in self._index(id).verify()]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            made, self._indexes = list(self._indexes.values()), {}
        for index in made:
            index.close()

    def _index(self, organization_id: str) -> VectorStore:
        with self._lock:
            if self._closed:
                raise Closed("the vector index is closed")
            if organization_id not in self._indexes:
                self._indexes[organization_id] = self._make(self._truth.vectors_of(organization_id))
            return self._indexes[organization_id]

    def _made(self) -> list[VectorStore]:
        with self._lock:
            return list(self._indexes.values())
