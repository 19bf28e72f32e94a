"""The vectors of a PostgreSQL store: as snapshots for a derived index, and as pgvector's own type beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from recollect.adapters.postgres.connection import Connection, Database, ReadStatement
from recollect.adapters.postgres.halfvec import CREATE, OLDEST, found, offered
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.postgres.cluster import is_distributed
from recollect.domain.memory import space_name
from recollect.ports.records import Remark, Scope
from recollect.ports.vectors import FACETS, StoredVector, VectorRow

FACET_COLUMNS = {name: f"_{name}" for name in ("user_id", "agent_id", "session_id", "project_id")}
_COLUMNS = "_seq, organization_id, memory_id, namespace, model, facets, vector"
# A store restored from a dump has other tables, so it is another incarnation.
_MOMENT = (
    "SELECT (SELECT last_value FROM recollect_seq), "
    "(SELECT value FROM recollect_store WHERE key = 'incarnation') || '.' || 'recollect_store'::regclass::oid"
)
_IN_MEMORY = "each process keeps the index in its own memory"


def no_vectors(connection: Connection) -> Remark:
    """Why each process keeps an index of its own."""
    version, is_created = found(connection)
    if version is not None and not is_created:
        says = f"{version} is on the server, but this user may not create it: {_IN_MEMORY}"
        return Remark("pgvector", says, CREATE)
    oldest = ".".join(map(str, OLDEST))
    return Remark("pgvector", f"the server has none that is new enough: {_IN_MEMORY}", f"install pgvector {oldest}")


def prepare(connection: Connection) -> tuple[bool, bool]:
    """Give the embeddings a column for pgvector where the server has it: whether it is there, and whether it is new."""
    if not offered(connection):
        return False, False
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = 'embedding'::regclass AND NOT attisdropped"
    known = {name for (name,) in connection.execute(columns)}
    if not known.issuperset(FACET_COLUMNS.values()):
        _add_facets(connection)
    if "_halfvec" in known:
        return True, False
    # Inside the row, where a scan needs no second look; what is seldom read may go elsewhere. A cluster refuses that of
    # tables that it has spread already.
    connection.execute("ALTER TABLE embedding ADD COLUMN _halfvec halfvec")
    if not is_distributed(connection):
        connection.execute("ALTER TABLE embedding ALTER COLUMN _halfvec SET STORAGE MAIN")
    return True, True


def _add_facets(connection: Connection) -> None:
    """The facets that narrow most, as columns: behind row-level security no index of an expression can be used."""
    added = ", ".join(
        f"ADD COLUMN IF NOT EXISTS {column} text GENERATED ALWAYS AS (facets ->> {FACETS.index(name)}) STORED"
        for name, column in FACET_COLUMNS.items()
    )
    connection.execute(f"ALTER TABLE embedding {added}")
    for column in FACET_COLUMNS.values():
        connection.execute(
            f"CREATE INDEX IF NOT EXISTS embedding_by{column} ON embedding (organization_id, {column}) "
            f"WHERE {column} IS NOT NULL"
        )


class PostgresVectors:
    """The stored vectors as one transaction sees them.

    A snapshot for an index must be of a moment at which no writer is under way, so that no lower seq can turn up after
    a higher one was seen. The lock waits for the writers that have begun and is given back at once: undoing to the
    savepoint frees it and keeps the moment. (An advisory lock would not do: asking for it would already fix the
    moment.) Reading the vectors of known memories needs no such care.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._moment: tuple[int, str] | None = None

    def _still(self) -> tuple[int, str]:
        if self._moment is None:
            self._connection.execute("SAVEPOINT still; LOCK TABLE recollect_order IN SHARE MODE")
            last, incarnation = self._connection.execute(_MOMENT).fetchall()[0]
            self._connection.execute("ROLLBACK TO still")
            self._moment = last, incarnation
        return self._moment

    @property
    def incarnation(self) -> str:
        return self._still()[1]

    def last_seq(self) -> int:
        return self._still()[0]

    def rows_after(self, seq: int, limit: int) -> list[VectorRow]:
        self._still()
        return self._rows("_seq > %s ORDER BY _seq LIMIT %s", (seq, limit))

    def rows_at(self, seqs: Sequence[int]) -> list[VectorRow]:
        return self._rows("_seq = ANY(%s)", ([int(seq) for seq in seqs],))

    def living_seqs(self, after: int, upto: int) -> list[int]:
        self._still()
        text = "SELECT _seq FROM embedding WHERE _seq > %s AND _seq <= %s ORDER BY _seq"
        return [seq for (seq,) in self._connection.execute(text, (after, upto))]

    def _rows(self, where: str, values: Values) -> list[VectorRow]:
        found = self._connection.execute(f"SELECT {_COLUMNS} FROM embedding WHERE {where}", values, binary=True)
        return [
            VectorRow(seq, organization_id, memory_id, space_name(namespace, model), tuple(facets), vector)
            for seq, organization_id, memory_id, namespace, model, facets, vector in found
        ]


# One look-up by the whole key for each: asked for all at once, a planner may walk through the whole space instead.
VECTORS_OF = (
    'SELECT e.memory_id, e.vector, e.tokens, e.start, e."end" '
    "FROM (SELECT DISTINCT id FROM unnest(%s::text[]) u(id)) w CROSS JOIN LATERAL (SELECT * FROM embedding "
    "WHERE organization_id = %s AND memory_id = w.id AND namespace = %s AND model = %s) e"
)


def stored_vectors(database: Database, scope: Scope, space: str, ids: Sequence[str]) -> list[StoredVector]:
    namespace, _, model = space.partition("/")
    values = (list(ids), scope.organization_id, namespace, model)
    (rows,) = database.ask(scope.organization_id, ReadStatement(VECTORS_OF, values, binary=True))
    return cast(list[StoredVector], rows)
