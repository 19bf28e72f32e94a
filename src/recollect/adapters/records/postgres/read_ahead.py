"""Reading ahead in PostgreSQL: a chain of searches and readings that is one round trip.

All statements go out in one flight, which is one transaction. What one finds, the next ones need, and no client is
asked meanwhile: the ids are handed on in settings of the transaction (`set_config(…, true)`), which leave nothing
behind, so a pooler may stand between. A search by words runs as the upkeep role (see fulltext.py); before anything is
read of what it found, the role is again the one that is bound to the tenant: every record is read behind the wall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from recollect.adapters.postgres.connection import APP, UPKEEP, Database, NearStatement, ReadStatement
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Bind, Columns, Values
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.postgres.dialect import PostgresDialect, placeholders
from recollect.adapters.records.postgres.fulltext import FEW, TextSearch
from recollect.adapters.records.postgres.vectors import VECTORS_OF
from recollect.domain.record import Record, now
from recollect.ports.query import Beside, OneOf, Query, Row, TextHit
from recollect.ports.read_ahead import Neighbours, PoolReading, ReadAhead
from recollect.ports.records import Scope
from recollect.ports.vectors import StoredVector


class _Chained(str):
    """Stands in a query for ids that an earlier statement finds; only itself, not what it reads like."""


_CHAINED = _Chained("chained")
_WORDS = "words"
_ONE_PLAN = "force_generic_plan"
Expression = Callable[[Bind], str]
"""SQL for an array of ids; what it binds is bound where it stands."""


class _ChainedDialect(PostgresDialect):
    """Where the ids of a reading, or the places of a look beside, come from earlier statements."""

    def __init__(self, ids: Expression, places: Expression | None = None) -> None:
        self._ids, self._places = ids, places

    def many(self, column: str, values: Values, bind: Bind) -> str:
        if len(values) == 1 and values[0] is _CHAINED:
            return f"{column} = ANY({self._ids(bind)})"
        return super().many(column, values, bind)

    def places(self, columns: Columns, bind: Bind) -> str:
        assert self._places is not None
        return self._places(bind)


class Chain:
    """The statements of one flight, in order, each with what is done with its answer."""

    def __init__(
        self,
        database: Database,
        codec: Callable[[type[Record]], Codec],
        seals_texts: Callable[[str], bool],
        scope: Scope,
        reading: PoolReading,
    ) -> None:
        self._database, self._codec, self._seals_texts = database, codec, seals_texts
        self._scope, self._reading = scope, reading
        self._questions: list[ReadStatement] = []
        self._then: list[Callable[[list[Row]], None]] = []
        self._role = APP
        self._settings: dict[str, str] = {}
        """What holds from the beginning."""
        self._to_set: dict[str, str] = {}
        """What is to hold from the next statement on."""
        self._is_by_key = False
        self._noted: list[str] = []
        """The settings that hold what was found."""
        self._given: list[str] = []
        """What was found by words before, and has still to be read."""
        self.found = ReadAhead(reading, asked=set())

    def run(self) -> ReadAhead:
        tenant = self._scope.organization_id
        answers = self._database.ask(tenant, *self._questions, role=self._role, settings=self._settings)
        for then, rows in zip(self._then, answers, strict=True):
            then(rows)
        return self.found

    def _add(self, question: ReadStatement, then: Callable[[list[Row]], None]) -> None:
        settings, self._to_set = self._to_set, {}
        if not self._questions:
            self._settings |= settings
        elif settings:
            told = ", ".join(f"set_config('{name}', %s, true)" for name in settings)
            self._questions.append(ReadStatement(f"SELECT {told}", list(settings.values())))
            self._then.append(lambda rows: None)
        self._questions.append(question)
        self._then.append(then)

    # -- searches ----------------------------------------------------------------------------------------------------

    def by_words(self, search: ReadStatement) -> None:
        """First of all, as the upkeep role; all that follows is read as the tenant's."""
        self._role = UPKEEP

        def then(rows: list[Row]) -> None:
            if rows[0][2] <= FEW:
                hits = [TextHit(id, score) for id, score, *_ in rows if id is not None]
                self.found.hits = sorted(hits, key=lambda hit: (-hit.score, hit.id))
                self.found.asked.update(hit.id for hit in hits)

        ids = f"SELECT array_agg(id ORDER BY score DESC, id) FROM found WHERE id IS NOT NULL AND size <= {FEW}"
        text = (
            f"WITH found AS MATERIALIZED ({search.statement}) SELECT f.id, f.score, f.size, {_note(_WORDS, ids)} "
            "FROM found f"
        )
        self._add(ReadStatement(text, search.values), then)
        self._to_set["role"] = APP
        self._noted.append(_WORDS)

    def found_by_words(self, hits: list[TextHit]) -> None:
        """What a search in several steps came to."""
        self.found.hits = hits
        self._given = [hit.id for hit in hits]
        self.found.asked.update(self._given)

    def near(self, searches: Sequence[NearStatement]) -> None:
        if searches and all(search.is_alike for search in searches):
            self.by_key()
        for number, search in enumerate(searches, 1):
            self._one_near(f"near{number}", search, is_last=number == len(searches))

    def _one_near(self, name: str, search: NearStatement, *, is_last: bool) -> None:
        place = len(self.found.near)
        self.found.near.append(None)

        def then(rows: list[Row]) -> None:
            hits = self.found.near[place] = search.read([row[:3] for row in rows])
            self.found.asked.update(hit.memory_id for hit in hits or ())

        self._to_set |= search.settings
        notes = [f", {_note(name, _ids_of_near(search.limit))}"]
        if is_last and not self._is_by_key and not self._database.is_pooled:
            # With the last of them, which saves a statement; where it finds nothing, the rest is planned as ever.
            notes.append(f", (SELECT set_config('plan_cache_mode', '{_ONE_PLAN}', true))")
            self._is_by_key = True
        text = f"WITH found AS MATERIALIZED ({search.statement}) SELECT f.*{''.join(notes)} FROM found f"
        self._add(ReadStatement(text, search.values), then)
        self._noted.append(name)

    # -- what is read of what was found ------------------------------------------------------------------------------

    def by_key(self) -> None:
        """From here on nothing but keys is looked up: one plan does for all, where it can be kept."""
        if not self._database.is_pooled and not self._is_by_key:
            self._to_set["plan_cache_mode"] = _ONE_PLAN
            self._is_by_key = True

    def rows(self, names: Sequence[str] | None = None) -> None:
        """The records of what was found, and pass."""
        noted, given = (names, []) if names is not None else (self._noted, self._given)
        if not noted and not given:
            return
        codec = self._codec(self._reading.record)
        fields = codec.fields_to_read(self._reading.fields)
        compiler = self._compiler(_any_of(noted, given))
        query = Query(self._reading.record, (OneOf("id", (_CHAINED,)), *self._reading.filters))
        text = compiler.select(self._scope, query, fields)

        def then(rows: list[Row]) -> None:
            for row in codec.decoded(self._scope.organization_id, rows, self._reading.fields):
                self.found.rows[row[self._reading.fields.index("id")]] = row

        self._add(ReadStatement(placeholders(text), compiler.values), then)

    def beside(self, neighbours: Neighbours) -> list[str]:
        """What stands beside the best; gives the settings that hold it."""
        return [self._beside(neighbours, within, by) for within, by in neighbours.within.items()]

    def _beside(self, neighbours: Neighbours, within: str, by: str) -> str:
        name = f"beside_{within}"
        without = list(neighbours.within)[: list(neighbours.within).index(within)]
        record = self._reading.record

        def places(bind: Bind) -> str:
            narrowed = "".join(f" AND b.{quoted(field)} IS NULL" for field in without)
            return (
                f"(SELECT b.{quoted(within)}, b.{quoted(by)}, b.id, b.id FROM {quoted(record.shape.table)} b "
                f"WHERE b.organization_id = {bind(self._scope.organization_id)} AND b.is_deleted = FALSE "
                f"AND b.id = ANY({self._best(neighbours.of)(bind)}) AND b.{quoted(within)} IS NOT NULL{narrowed}) "
                "p(a, b, c, n)"
            )

        compiler = self._compiler(_any_of([]), places)
        nowhere = ("", now() if self._codec(record).types[by] == "moment" else "", "")
        query = Beside(record, within, by, (nowhere,), neighbours.reach, neighbours.where)
        ids = "SELECT array_agg(DISTINCT o) FROM found, unnest(found.before || found.after) o"
        text = (
            f"WITH found(id, before, after) AS MATERIALIZED ({compiler.beside(self._scope, query)}) "
            f"SELECT f.*, {_note(name, ids)} FROM found f"
        )

        def then(rows: list[Row]) -> None:
            around = {id: [*reversed(before), *after] for id, before, after, _ in rows}
            self.found.stretches[within] = around
            self.found.asked.update(one for ids in around.values() for one in ids)

        self._add(ReadStatement(placeholders(text), compiler.values), then)
        return name

    def vectors(self, spaces: Sequence[str], names: Sequence[str]) -> None:
        """Of everything that was found, by whichever way."""
        for space in spaces:
            namespace, _, model = space.partition("/")
            of_all = " || ".join(["%s::text[]", *map(_noted_ids, [*self._noted, *names])])
            text = VECTORS_OF.replace("%s::text[]", of_all, 1)
            values = [[*self._reading.known, *self._given], self._scope.organization_id, namespace, model]
            self._add(ReadStatement(text, values, binary=True), self._keep_vectors(space))

    def _keep_vectors(self, space: str) -> Callable[[list[Row]], None]:
        def then(rows: list[Row]) -> None:
            kept: dict[str, list[StoredVector]] = {id: [] for id in self.found.asked.union(self._reading.known)}
            for row in rows:
                kept.setdefault(row[0], []).append(cast(StoredVector, row))
            self.found.vectors[space] = kept

        return then

    def hanging(self) -> None:
        """What names those that are near."""
        for record, fields in self._reading.hanging if self._noted else ():
            codec = self._codec(record)
            text = _hanging_statement(record, tuple(codec.fields_to_read(fields)), tuple(self._noted))
            rows: list[Row] = []
            self.found.hanging.append(rows)

            def then(
                found: list[Row], codec: Codec = codec, fields: tuple[str, ...] = fields, rows: list[Row] = rows
            ) -> None:
                rows += codec.decoded(self._scope.organization_id, found, fields)
                self.found.hung_on = {*self.found.asked}

            self._add(ReadStatement(text, [self._scope.organization_id]), then)

    def besides(self) -> None:
        for query, fields in self._reading.besides:
            codec = self._codec(query.record)
            compiler = self._compiler(_any_of([]))
            text = compiler.select(self._scope, query, codec.fields_to_read(fields))
            rows: list[Row] = []
            self.found.besides.append(rows)

            def then(
                found: list[Row], codec: Codec = codec, fields: Sequence[str] = fields, rows: list[Row] = rows
            ) -> None:
                rows += codec.decoded(self._scope.organization_id, found, fields)

            self._add(ReadStatement(placeholders(text), compiler.values), then)

    def _best(self, most: int) -> Expression:
        def ids(bind: Bind) -> str:
            first = [f"({_noted_ids(name)})[1:{most}]" for name in self._noted]
            known = [*self._reading.known[:most], *self._given[:most]]
            return " || ".join([f"{bind(known)}::text[]", *first])

        return ids

    def _compiler(self, ids: Expression, places: Expression | None = None) -> Compiler:
        return Compiler(self._codec, cast(Any, _ChainedDialect(ids, places)), self._seals_texts)


def _note(name: str, ids: str) -> str:
    return f"(SELECT set_config('recollect.{name}', coalesce(({ids}), '{{}}')::text, true))"


@lru_cache(maxsize=256)
def _hanging_statement(record: type[Record], fields: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Of whichever tenant: its organization is what is bound."""
    columns = ", ".join(f"t.{quoted(name)}" for name in fields)
    among = f"t.memory_id = ANY({' || '.join(map(_noted_ids, names))})"
    return placeholders(
        f"SELECT {columns} FROM {quoted(record.shape.table)} t "
        f"WHERE t.organization_id = ? AND t.is_deleted = FALSE AND {among} ORDER BY t.id"
    )


def _ids_of_near(limit: int) -> str:
    return (
        f"SELECT (array_agg(id ORDER BY distance, id))[1:{limit}] FROM (SELECT memory_id AS id, "
        "min(distance) AS distance FROM found WHERE memory_id IS NOT NULL GROUP BY 1) n"
    )


def _noted_ids(name: str) -> str:
    """What an earlier statement noted; where it found nothing, nothing."""
    return f"nullif(current_setting('recollect.{name}', true), '')::text[]"


def _any_of(names: Sequence[str], given: Sequence[str] = ()) -> Expression:
    def ids(bind: Bind) -> str:
        bound = [f"{bind(list(given))}::text[]"] if given else []
        return " || ".join([*bound, *map(_noted_ids, names)])

    return ids


def read_ahead(
    chain: Chain, text: TextSearch, scope: Scope, reading: PoolReading, near: Sequence[NearStatement]
) -> ReadAhead:
    """The chain of one pool. In a broad scope words are searched in several steps, and before all else."""
    words = text.among_few(scope, reading.words) if reading.words is not None else None
    if words is not None:
        chain.by_words(words)
    elif reading.words is not None:
        chain.found_by_words(text.suggested(scope, reading.words))
    chain.near(near)
    chain.by_key()
    chain.rows()
    chain.hanging()
    names = chain.beside(reading.neighbours) if reading.neighbours is not None else []
    chain.rows(names)
    chain.vectors(reading.spaces, names)
    chain.besides()
    return chain.run()
