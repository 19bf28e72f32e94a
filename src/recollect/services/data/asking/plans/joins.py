"""How tables hang together: joins that names and values suggest, and the cheapest way to join some tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from heapq import heappop, heappush

from recollect.services.data.asking.plans.schema import Field, Join, Scalar, Schema

_KEY_ENDING = re.compile(r"(_?(id|code|no|num|number|key|nr))$", re.IGNORECASE)
_GUESSED = 1.6  # a declared key costs 1; one that only names and values suggest is taken where no other way is short


def likely_joins(schema: Schema, declared: Iterable[Join], distinct: Callable[[int], frozenset[Scalar]]) -> list[Join]:
    """Those declared, and for fields without one: the same name as a key elsewhere, and values contained in it."""
    joins = list(declared)
    known = {frozenset((join.left, join.right)) for join in joins}
    bound = {join.left for join in joins}
    for left, field in enumerate(schema.fields):
        if left in bound or not _key_like(field):
            continue
        for right, other in enumerate(schema.fields):
            if schema.table_of[left] == schema.table_of[right] or not other.is_unique:
                continue
            if frozenset((left, right)) in known or field.kind != other.kind or not _names_agree(field, other):
                continue
            mine, theirs = distinct(left), distinct(right)
            if mine and len(mine & theirs) >= 0.9 * len(mine):
                known.add(frozenset((left, right)))
                joins.append(Join(left, right, _GUESSED))
    return joins


def _key_like(field: Field) -> bool:
    return bool(_KEY_ENDING.search(field.name)) or field.meaning == "id"


def _names_agree(field: Field, other: Field) -> bool:
    mine, theirs = field.name.lower(), other.name.lower()
    if mine == theirs:
        return mine != "id"
    stem = _KEY_ENDING.sub("", mine).replace("_", "")
    table = other.table.lower().replace("_", "")
    of_its_table = bool(_KEY_ENDING.search(theirs)) and len(_KEY_ENDING.sub("", theirs)) == 0
    return len(stem) > 2 and (table.rstrip("s") == stem.rstrip("s")) and (of_its_table or other.is_key)


class JoinGraph:
    """The joins of a schema, and the cheapest tree over some of its tables."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._edges: dict[int, list[tuple[int, Join]]] = defaultdict(list)
        for join in schema.joins:
            left, right = schema.table_of[join.left], schema.table_of[join.right]
            if left != right:
                self._edges[left].append((right, join))
                self._edges[right].append((left, join))
        self.tree = lru_cache(maxsize=4096)(self._tree)

    def neighbours(self, table: int) -> Sequence[tuple[int, Join]]:
        return self._edges[table]

    def joins_between(self, left: int, right: int) -> list[Join]:
        return [join for other, join in self._edges[left] if other == right]

    @cached_property
    def parallel(self) -> list[list[Join]]:
        """Joins between two tables that can be joined in several ways."""
        pairs: dict[frozenset[int], list[Join]] = defaultdict(list)
        for join in self.schema.joins:
            pairs[frozenset((self.schema.table_of[join.left], self.schema.table_of[join.right]))].append(join)
        return [joins for pair, joins in pairs.items() if len(joins) > 1 and len(pair) > 1]

    def _tree(
        self, tables: frozenset[int], via: frozenset[int] = frozenset()
    ) -> tuple[tuple[int, Join | None], ...] | None:
        """Tables in the order of joining, each with its join to one before; None where they do not hang together."""
        if not tables:
            return ()
        best: tuple[float, tuple[tuple[int, Join | None], ...]] | None = None
        for start in sorted(tables)[:4]:
            grown = self._grown(start, tables, via)
            if grown is not None and (best is None or grown[0] < best[0]):
                best = grown
        return best[1] if best else None

    def _grown(
        self, start: int, wanted: frozenset[int], via: frozenset[int]
    ) -> tuple[float, tuple[tuple[int, Join | None], ...]] | None:
        """Grow from one table, always by the shortest way to the nearest that is wanted."""
        order: list[tuple[int, Join | None]] = [(start, None)]
        inside, cost = {start}, 0.0
        while wanted - inside:
            found = self._nearest(inside, wanted - inside, via)
            if found is None:
                return None
            length, steps = found
            cost += length
            for table, join in steps:
                order.append((table, join))
                inside.add(table)
        return cost, tuple(order)

    def _nearest(
        self, inside: set[int], wanted: frozenset[int], via: frozenset[int]
    ) -> tuple[float, list[tuple[int, Join]]] | None:
        heap: list[tuple[float, int, int, tuple[tuple[int, Join], ...]]] = []
        serial = 0
        for table in sorted(inside):
            heappush(heap, (0.0, serial, table, ()))
            serial += 1
        seen: set[int] = set()
        while heap:
            cost, _, table, steps = heappop(heap)
            if table in wanted:
                return cost, list(steps)
            if table in seen:
                continue
            seen.add(table)
            for other, join in self._edges[table]:
                if other not in inside and other not in seen:
                    weight = join.weight - 0.3 * (join.left in via or join.right in via)
                    heappush(heap, (cost + weight, serial, other, (*steps, (other, join))))
                    serial += 1
        return None
