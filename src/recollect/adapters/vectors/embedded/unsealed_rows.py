"""The unsealed rows of the embedded index: those that no segment covers yet, in memory, in order of seq.

Rows are only appended, and a reader gets slices that end where they ended then: a search goes on undisturbed
while others append. Encoded like a segment (int8 with scale and slack), without 1-bit codes: they are
few enough to be scored row by row (20,000 x 384 in 0.2 ms, measured), so they never cost recall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.embedded import kernels, quantization
from recollect.adapters.vectors.embedded.quantization import (
    Column,
    Estimates,
    FacetHashes,
    Hashes,
    Key,
    Query,
    Selection,
)
from recollect.adapters.vectors.exact import decode, digest
from recollect.ports.vectors import FACETS, VectorRow

_COLUMNS = {
    "tenant": np.uint64,
    "seq": np.int64,
    **dict.fromkeys(FACETS, np.uint64),
    "scale": np.float32,
    "slack": np.float32,
    "coarse": np.int8,
}


@dataclass(frozen=True, eq=False)
class UnsealedSection:
    """The rows of one space as they stood when it was asked for."""

    key: Key
    columns: dict[str, Column]
    centre: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.columns["seq"])

    def column(self, name: str) -> Column:
        return self.columns[name]

    def at(self, name: str, rows: kernels.Rows) -> Column:
        chosen: Column = self.columns[name][rows]
        return chosen

    def tenants_of_rows(self) -> Hashes:
        return self.columns["tenant"]

    def tenants_at(self, rows: kernels.Rows) -> Hashes:
        return self.at("tenant", rows)

    def coarse_at(self, rows: kernels.Rows) -> NDArray[np.int8]:
        return self.at("coarse", rows)

    def select(self, tenant: int, wanted: FacetHashes) -> Selection:
        mine = self.columns["tenant"] == np.uint64(tenant)
        mask = quantization.facet_mask(lambda facet: self.columns[FACETS[facet]], wanted)
        return Selection.passing(0, len(self), mine if mask is None else mine & mask)

    def estimate(self, selection: Selection, query: Query) -> Estimates:
        rows = selection.numbers()
        products = kernels.dots(self.columns["coarse"], query.rounded, rows)
        seq, scale, slack = (
            self.columns[name] if rows is None else self.columns[name][rows] for name in ("seq", "scale", "slack")
        )
        return quantization.estimates(products, seq, scale, slack)


class _GrowingColumns:
    """Columns with room to grow; full arrays are replaced, never resized, because readers hold slices."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.count = 0
        self.total = np.zeros(key[1], np.float64)
        self.columns = {name: self._room(name, 64) for name in _COLUMNS}

    def _room(self, name: str, rows: int) -> Column:
        return np.empty((rows, self.key[1]) if name == "coarse" else rows, _COLUMNS[name])

    def append(self, new: dict[str, Column], total: NDArray[np.float64]) -> None:
        stop = self.count + len(new["seq"])
        for name, column in self.columns.items():
            if stop > len(column):
                self.columns[name] = self._room(name, stop + stop // 2)
                self.columns[name][: self.count] = column[: self.count]
            self.columns[name][self.count : stop] = new[name]
        self.total = self.total + total
        self.count = stop

    def view(self) -> UnsealedSection:
        shown = {name: column[: self.count] for name, column in self.columns.items()}
        return UnsealedSection(self.key, shown, (self.total / max(1, self.count)).astype(np.float32))

    def later_than(self, seq: int) -> _GrowingColumns | None:
        first = int(np.searchsorted(self.columns["seq"][: self.count], seq, "right"))
        if first == self.count:
            return None
        rest = _GrowingColumns(self.key)
        kept = {name: column[first : self.count] for name, column in self.columns.items()}
        shown = kept["coarse"] * kept["scale"][:, None]
        rest.append(kept, shown.sum(axis=0, dtype=np.float64))
        return rest


class UnsealedRows:
    """The rows with seq in (after, upto]; whoever changes or reads it holds the index's lock."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.upto = after
        self._parts: dict[Key, _GrowingColumns] = {}

    def __len__(self) -> int:
        return sum(part.count for part in self._parts.values())

    def add(self, rows: Sequence[VectorRow], upto: int) -> None:
        """Append living rows in order of seq; everything up to `upto` is then covered."""
        groups: dict[Key, list[VectorRow]] = {}
        for row in rows:
            if row.vector and len(row.vector) % 2 == 0:  # anything else is no vector and is never found
                groups.setdefault((row.space, len(row.vector) // 2), []).append(row)
        for key, group in groups.items():
            vectors = decode(group, key[1])
            self._parts.setdefault(key, _GrowingColumns(key)).append(
                columns_of(group, quantization.encode(vectors)), np.nan_to_num(vectors).sum(axis=0, dtype=np.float64)
            )
        self.upto = upto

    def section(self, key: Key) -> UnsealedSection | None:
        part = self._parts.get(key)
        return part.view() if part else None

    def sections(self) -> list[UnsealedSection]:
        return [part.view() for part in self._parts.values()]

    def later_than(self, seq: int) -> UnsealedRows:
        """What is left when a segment covers everything up to `seq`."""
        rest = UnsealedRows(seq)
        rest.upto = max(self.upto, seq)
        for key, part in self._parts.items():
            later = part.later_than(seq)
            if later is not None:
                rest._parts[key] = later
        return rest


def columns_of(rows: Sequence[VectorRow], encoded: quantization.Encoded) -> dict[str, Column]:
    """The columns of rows of one space, as a segment has them too."""
    columns: dict[str, Column] = {
        "tenant": np.array([digest(row.organization_id) for row in rows], np.uint64),
        "seq": np.array([row.seq for row in rows], np.int64),
        "scale": encoded.scale,
        "slack": encoded.slack,
        "coarse": encoded.coarse,
    }
    for number, facet in enumerate(FACETS):
        columns[facet] = np.array([digest(row.facets[number]) for row in rows], np.uint64)
    return columns
