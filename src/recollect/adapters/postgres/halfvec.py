"""pgvector: vectors as its type `halfvec`, and whether a database has it or may be given it."""

from __future__ import annotations

import struct

import numpy as np
import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from recollect.adapters.postgres.connection import Connection

MOST_DIMENSIONS = 16_000
OLDEST = (0, 8)  # the first pgvector whose HNSW walks on until the filters are satisfied
CREATE = "ask an administrator to run in this database: CREATE EXTENSION vector"


class HalfVector:
    """A vector in the binary form of pgvector's halfvec."""

    def __init__(self, little_endian: bytes) -> None:
        self._vector = np.frombuffer(little_endian, dtype="<f2")

    def wire(self) -> bytes:
        return struct.pack(">HH", len(self._vector), 0) + self._vector.astype(">f2").tobytes()


class _HalfDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: HalfVector) -> Buffer | None:
        return obj.wire()


psycopg.adapters.register_dumper(HalfVector, _HalfDumper)


def half(vector: bytes) -> HalfVector | None:
    """None for what pgvector cannot hold."""
    dimensions, odd = divmod(len(vector), 2)
    if odd or not 0 < dimensions <= MOST_DIMENSIONS or not np.isfinite(np.frombuffer(vector, dtype="<f2")).all():
        return None
    return HalfVector(vector)


def found(connection: Connection) -> tuple[str | None, bool]:
    """The version of pgvector that the server has, if it is new enough, and whether it is created in the database."""
    text = "SELECT coalesce(installed_version, default_version), installed_version IS NOT NULL "
    for version, is_created in connection.execute(f"{text} FROM pg_available_extensions WHERE name = 'vector'"):
        is_new_enough = tuple(int(part) for part in str(version).split(".")[:2]) >= OLDEST
        return (str(version) if is_new_enough else None), bool(is_created)
    return None, False


def may_create(connection: Connection) -> bool:
    """Whether this user may create pgvector in the database, where it is not yet."""
    text = (
        "SELECT u.rolsuper OR NOT v.superuser OR v.trusted AND has_database_privilege(current_database(), 'CREATE') "
        "FROM pg_available_extension_versions v, pg_roles u "
        "WHERE v.name = 'vector' AND u.rolname = current_user ORDER BY 1 DESC LIMIT 1"
    )
    return any(may for (may,) in connection.execute(text).fetchall())


def offered(connection: Connection) -> bool:
    """Whether the database has a pgvector that is new enough; installs it where that is all it takes."""
    version, is_created = found(connection)
    if version is not None and not is_created:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.errors.InsufficientPrivilege:
            return False
    return version is not None
