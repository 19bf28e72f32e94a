"""Queries to SQL, shared by the stores that speak it.

Identifiers come only from the records' declarations and are always quoted; values are always bound. A dialect says
only what differs: how a JSON member, a JSON list and a long list of values are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from recollect.adapters.records.common.checks import check_filters, check_ordering, column, sealed_text
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Dialect, Values, same
from recollect.domain.record import RECORDS, Record
from recollect.ports.query import (
    AllOf,
    AnyOf,
    Beside,
    Compare,
    Filter,
    Has,
    Holds,
    IsNull,
    Linked,
    OneOf,
    Query,
    Spans,
)
from recollect.ports.records import Scope


@lru_cache(maxsize=4096)
def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@lru_cache(maxsize=4096)
def _columns(alias: str, fields: tuple[str, ...]) -> str:
    return ", ".join(f"{alias}.{quoted(name)}" for name in fields)


@cache
def changes_statement() -> tuple[str, int]:
    """What changed after a seq, and how often (after, tenant, limit) are bound in it before the last limit."""
    sources = [(quoted(table), "_seq", f"'{table}'", 0) for table in sorted(RECORDS)]
    sources.append(("recollect_gone", "seq", "table_name", 1))
    parts = [
        f"SELECT * FROM (SELECT {seq} AS seq, {name} AS table_name, id, {gone} AS gone FROM {source} "
        f"WHERE {seq} > ? AND organization_id = ? ORDER BY {seq} LIMIT ?) c"
        for source, seq, name, gone in sources
    ]
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) d ORDER BY seq LIMIT ?", len(parts)


def dangling_statement(record: type[Record], field: str) -> str:
    """The tenants and ids of records whose field points at nothing."""
    reference = record.shape.references[field]
    refers = "".join(f"AND t.{quoted(other)} IS NULL " for other in reference.unless)
    return (
        f"SELECT t.organization_id, t.id FROM {quoted(record.shape.table)} t "
        f"WHERE t.{quoted(field)} IS NOT NULL {refers}"
        f"AND NOT EXISTS (SELECT 1 FROM {quoted(reference.to)} r WHERE r.organization_id = t.organization_id "
        f"AND r.id = t.{quoted(field)}) LIMIT 100"
    )


def _may_be_sorted(query: Query[Record]) -> bool:
    """Whether a page of it may have to be picked out of all rows; those in order of their ids are found in order."""
    return query.limit is not None and not query.any_order and bool(query.order) and query.order[0].field != "id"


class Compiler:
    """Builds one statement: collects bound values while it writes the text."""

    def __init__(
        self, codec_of: Callable[[type[Record]], Codec], dialect: Dialect, seals_texts: Callable[[str], bool]
    ) -> None:
        """`seals_texts` says whether the texts of an organization are encrypted: then nothing is found by them."""
        self._codec_of = codec_of
        self._dialect = dialect
        self._seals_texts = seals_texts
        self.values: list[object] = []
        self._aliases = 0

    def bind(self, value: object) -> str:
        self.values.append(value)
        return "?"

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> str:
        check_ordering(query, fields)
        for order in query.order:
            self._refuse_sealed(scope, query.record, order.field)
        alias = self._alias()
        wanted, table = _columns(alias, tuple(fields)), quoted(query.record.shape.table)
        if not (self._dialect.sorts_whole_rows and _may_be_sorted(query)):
            return f"SELECT {wanted} FROM {table} {alias} WHERE {self._some(scope, query, alias)}"
        inner, row = self._alias(), self._dialect.row
        chosen = f"SELECT {inner}.{row} FROM {table} {inner} WHERE {self._some(scope, query, inner)}"
        return f"SELECT {wanted} FROM {table} {alias} WHERE {alias}.{row} IN ({chosen}){self._ordered(query, alias)}"

    def _some(self, scope: Scope, query: Query[Record], alias: str) -> str:
        """Which rows, in which order, and how many."""
        text, start = self.where(scope, query, alias), query.start()
        if start is not None:
            text += f" AND {self._beyond(query, alias, start)}"
        text += self._ordered(query, alias)
        return text if query.limit is None else f"{text} LIMIT {int(query.limit)}"

    def _ordered(self, query: Query[Record], alias: str) -> str:
        if query.any_order:
            return ""
        return " ORDER BY " + ", ".join(
            self._order(query.record, order.field, order.descending, alias) for order in query.ordering()
        )

    def beside(self, scope: Scope, query: Beside[Record]) -> str:
        """For each place, what stands before it (nearest first) and from it on: two short readings of one index."""
        codec = self._codec_of(query.record)
        keys = (query.within, query.by, "id")
        columns = [
            (codec.types[name], [codec.bound(name, value) for value in values])
            for name, values in zip(keys, zip(*query.places, strict=True), strict=True)
        ]
        sides = [
            self._dialect.listed("id", self._side(scope, query, operator, order, limit))
            for operator, order, limit in (("<", " DESC", query.reach), (">=", "", query.reach + 1))
        ]
        return f"SELECT p.n, {', '.join(sides)} FROM {self._dialect.places(columns, self.bind)} ORDER BY p.n"

    def _side(self, scope: Scope, query: Beside[Record], operator: str, order: str, limit: int) -> str:
        alias = self._alias()
        within, by, id = (f"{alias}.{quoted(name)}" for name in (query.within, query.by, "id"))
        condition = self.where(scope, Query(query.record, query.where), alias)
        # In the order of ids an id is named once: SQLite would sort what has the same id.
        place, ordered = f"{id} {operator} p.c", f"{id}{order}"
        if query.by != "id":
            place, ordered = f"({by}, {id}) {operator} (p.b, p.c)", f"{by}{order}, {ordered}"
        return (
            f"SELECT {id} AS id FROM {quoted(query.record.shape.table)} {alias} WHERE {condition} "
            f"AND {within} = p.a AND {place} ORDER BY {ordered} LIMIT {int(limit)}"
        )

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> str:
        for one in by:
            self._refuse_sealed(scope, query.record, one.field if isinstance(one, Spans) else one)
        groups = [self._span(query.record, one) if isinstance(one, Spans) else f"t.{quoted(one)}" for one in by]
        places = ", ".join(str(place) for place in range(1, len(groups) + 1))
        table = quoted(query.record.shape.table)
        condition = self.where(scope, query, "t")
        return f"SELECT {', '.join(groups)}, count(*) FROM {table} t WHERE {condition} GROUP BY {places}"

    def _span(self, record: type[Record], given: Spans) -> str:
        """The number of the stretch, found by halves: of the days of a year, nine are looked at for each record."""
        codec, place = self._codec_of(record), f"t.{quoted(given.field)}"

        def between(low: int, high: int) -> str:
            if low == high:
                return str(low)
            middle = (low + high + 1) // 2
            edge = self.bind(codec.bound(given.field, given.edges[middle - 1]))
            upper = between(middle, high)  # before the other: values are bound in the order they stand in
            return f"CASE WHEN {place} >= {edge} THEN {upper} ELSE {between(low, middle - 1)} END"

        return between(0, len(given.edges)) if given.edges else "CASE WHEN TRUE THEN 0 END"

    def where(self, scope: Scope, query: Query[Record], alias: str) -> str:
        check_filters(query.record, query.where)
        parts = [f"{alias}.{quoted('organization_id')} = {self.bind(scope.organization_id)}"]
        if query.deleted != "yes":
            parts.append(f"{alias}.{quoted('is_deleted')} = {'TRUE' if query.deleted == 'only' else 'FALSE'}")
        parts.extend(self.filter(scope, query.record, one, alias) for one in query.where)
        return " AND ".join(parts)

    def filter(self, scope: Scope, record: type[Record], given: Filter, alias: str) -> str:
        if isinstance(given, AnyOf):
            if not given.filters:
                return "FALSE"
            return "(" + " OR ".join(self.filter(scope, record, one, alias) for one in given.filters) + ")"
        if isinstance(given, AllOf):
            return (
                "(" + " AND ".join(["TRUE", *(self.filter(scope, record, one, alias) for one in given.filters)]) + ")"
            )
        if isinstance(given, Linked):
            return self._linked(scope, given, alias)
        codec = self._codec_of(record)
        place = f"{alias}.{quoted(given.field)}"
        if isinstance(given, IsNull):
            return f"{place} IS {'' if given.wanted else 'NOT '}NULL"
        self._refuse_sealed(scope, record, given.field)
        if isinstance(given, Has):
            found = self._dialect.has(place, given.path, self.bind)
            return found if given.wanted else f"NOT {found}"
        if isinstance(given, Holds):
            return self._dialect.holds(place, given, self.bind)
        if given.field in record.shape.encrypted_hashes:
            given = self._any_form(scope, given, codec)
        return self._compare(given, codec, place) if isinstance(given, Compare) else self._one_of(given, codec, place)

    def _refuse_sealed(self, scope: Scope, record: type[Record], field: str) -> None:
        if field in record.shape.encrypted_texts and self._seals_texts(scope.organization_id):
            raise sealed_text(record, field)

    def _any_form(self, scope: Scope, given: Compare | OneOf, codec: Codec) -> Compare | OneOf:
        """Hashes are found by all that they may be stored as; then they are equal or not, and in no order."""
        values = (given.value,) if isinstance(given, Compare) else given.values
        forms = tuple(form for value in values for form in codec.forms(scope.organization_id, given.field, value))
        if forms == values:
            return given
        if isinstance(given, OneOf):
            return OneOf(given.field, forms, given.wanted)
        if given.operator not in ("=", "!="):
            raise sealed_text(codec.record_type, given.field)
        return OneOf(given.field, forms, given.operator == "=")

    def _compare(self, given: Compare, codec: Codec, column: str) -> str:
        if given.key is not None:
            return self._member(given, column)
        bound = self.bind(codec.bound(given.field, given.value))
        if given.operator == "!=":
            return f"{column} IS DISTINCT FROM {bound}"
        return f"{column} {given.operator} {bound}"

    def _member(self, given: Compare, column: str) -> str:
        found = self._dialect.member(column, given, self.bind)
        return f"NOT {found}" if given.operator == "!=" else found

    def _one_of(self, given: OneOf, codec: Codec, column: str) -> str:
        plain = [value for value in given.values if value is not None]
        if self._dialect.encode[codec.types[given.field]] is not same:  # thousands of ids are as they are
            plain = [codec.bound(given.field, value) for value in plain]
        parts = [self._dialect.many(column, plain, self.bind)] if plain else []
        if len(plain) < len(given.values):
            parts.append(f"{column} IS NULL")
        any_of_them = "(" + " OR ".join(parts) + ")" if parts else "FALSE"
        return any_of_them if given.wanted else f"({any_of_them} IS NOT TRUE)"

    def _linked(self, scope: Scope, given: Linked, alias: str) -> str:
        inner = self._alias()
        query = Query(given.record, given.where, deleted="yes" if given.deleted else "no")
        condition = self.where(scope, query, inner)
        return (
            f"{'' if given.wanted else 'NOT '}EXISTS (SELECT 1 FROM {quoted(given.record.shape.table)} {inner} "
            f"WHERE {condition} AND {inner}.{quoted(given.field)} = {alias}.{quoted(given.by)})"
        )

    def _order(self, record: type[Record], field: str, descending: bool, alias: str) -> str:
        # Only where there can be empty ones: the words would keep PostgreSQL from reading an index in order.
        empty = (" NULLS LAST" if descending else " NULLS FIRST") if column(record, field).nullable else ""
        return f"{alias}.{quoted(field)}{' DESC' if descending else ''}{empty}"

    def _beyond(self, query: Query[Record], alias: str, start: Values) -> str:
        """Rows that come after `start` in the ordering, written out field by field because fields may be null."""
        codec = self._codec_of(query.record)
        marks = [
            (f"{alias}.{quoted(order.field)}", order.descending, codec.bound(order.field, value))
            for order, value in zip(query.ordering(), start, strict=True)
        ]
        if len({order.descending for order in query.ordering()}) == 1 and not any(
            column(query.record, order.field).nullable for order in query.ordering()
        ):  # so that an index in this order is begun where the page begins
            places, values = ", ".join(place for place, _, _ in marks), ", ".join(self.bind(one) for *_, one in marks)
            return f"({places}) {'<' if marks[0][1] else '>'} ({values})"
        branches = []
        for position, (place, descending, stored) in enumerate(marks):
            same = [f"{before} IS NOT DISTINCT FROM {self.bind(value)}" for before, _, value in marks[:position]]
            branches.append(" AND ".join([*same, self._further(place, descending, stored)]))
        return "(" + " OR ".join(branches) + ")"

    def _further(self, column: str, descending: bool, stored: object) -> str:
        if stored is None:
            return "FALSE" if descending else f"{column} IS NOT NULL"
        if descending:
            return f"({column} < {self.bind(stored)} OR {column} IS NULL)"
        return f"{column} > {self.bind(stored)}"

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"
