"""The vector stores: the one the settings name, beside whichever record store there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from recollect.app.plugins import made, package_of
from recollect.errors import InvalidSettings, MissingExtra
from recollect.ports.records import RecordStore
from recollect.ports.vectors import TenantVectors, VectorStore, VectorTruth
from recollect.settings import Settings, VectorSettings, secret_of

if TYPE_CHECKING:
    from recollect.adapters.vectors.external.port import ExternalSystem

ONE_ANSWER_SEAL_ROWS = 1024
BUILT_IN = ("auto", "embedded", "pgvector", "chroma")


def vector_store(
    store: RecordStore,
    index_folder: Path | None,
    settings: Settings,
    index_key: bytes | None = None,
    *,
    for_one_answer: bool = False,
) -> VectorStore:
    """What the settings name; else the database's own vectors where it has some, or else the embedded index.

    A command that only reads starts no thread for upkeep, which would be stopped half way. It writes what it had to
    read of the vectors to a segment much sooner, so that the next command need not: 10,000 took a tenth of its time.
    """
    vectors = settings.vectors
    _check_vectors(vectors)
    if vectors.provider == "pgvector" and not vectors.url and not store.capabilities.pgvector:
        raise _no_pgvector()
    if vectors.provider not in BUILT_IN:
        return _each_truth(store, lambda truth: _added(truth, vectors))
    if vectors.provider != "embedded" and not vectors.url and store.capabilities.pgvector:
        return _own_pgvector(store, settings)
    if vectors.provider in ("auto", "embedded"):
        from recollect.adapters.vectors.embedded.index import EmbeddedIndex

        sealing = {"background": False, "seal_rows": ONE_ANSWER_SEAL_ROWS} if for_one_answer else {}
        how: dict[str, Any] = {"key": index_key, "background": settings.background, **sealing}
        how["readonly"] = settings.readonly
        return _each_truth(store, lambda truth: EmbeddedIndex(truth, index_folder, **how))
    from recollect.adapters.vectors.external.index import ExternalIndex

    system = _chroma(vectors) if vectors.provider == "chroma" else _pgvector(vectors, vectors.url or "")
    return _each_truth(store, lambda truth: ExternalIndex(truth, system, background=settings.background))


def _each_truth(store: RecordStore, make: Callable[[VectorTruth], VectorStore]) -> VectorStore:
    """One index of all the store's vectors, or one for each tenant where the store counts by tenant."""
    if isinstance(store, TenantVectors):
        from recollect.adapters.vectors.per_tenant import PerTenant

        return PerTenant(store, make)
    assert isinstance(store, VectorTruth), "app/stores.py opens no other"
    return make(store)


def _added(truth: VectorTruth, vectors: VectorSettings) -> VectorStore:
    return cast(VectorStore, made("recollect.vectors", vectors.provider, VectorStore, truth, vectors))


def _own_pgvector(store: RecordStore, settings: Settings) -> VectorStore:
    from recollect.adapters.records.postgres.store import PostgresStore
    from recollect.adapters.vectors.pgvector import PgVectorStore

    assert isinstance(store, PostgresStore), "no other store has pgvector"
    return PgVectorStore(store, background=settings.background and not settings.readonly)


def _no_pgvector() -> InvalidSettings:
    return InvalidSettings(
        "the record store does not have pgvector",
        remedy="install pgvector there and run CREATE EXTENSION vector as an administrator, "
        "or set vectors.url to a PostgreSQL database that has it",
    )


def examine_vectors(settings: Settings) -> str:
    """Try the vector store that the settings name, without making anything; what is there, in a sentence."""
    vectors = settings.vectors
    _check_vectors(vectors)
    if vectors.provider not in BUILT_IN:
        return f"added by {package_of('recollect.vectors', vectors.provider)}"
    if vectors.path is not None and not vectors.path.exists():
        return f"{vectors.path} will be created when it is first used"
    system = _chroma(vectors) if vectors.provider == "chroma" else None
    if vectors.provider == "pgvector":
        if not vectors.url and not settings.store.startswith(("postgresql://", "postgres://")):
            raise _no_pgvector()
        system = _pgvector(vectors, vectors.url or settings.store)
    if system is None:
        return "pgvector if the database has it, else embedded" if vectors.provider == "auto" else vectors.provider
    try:
        return system.examine()
    finally:
        system.close()


def _check_vectors(vectors: VectorSettings) -> None:
    """Settings that only another provider would heed are a mistake, not something to overlook."""
    if vectors.provider not in BUILT_IN:
        return
    takes = {"chroma": {"url", "path"}, "pgvector": {"url"}}.get(vectors.provider, set())
    given = {name for name in ("url", "path") if getattr(vectors, name) is not None}
    secrets = {name for name in ("secret_env", "secret_file") if getattr(vectors, name) is not None}
    stray = (given - takes) | (secrets if "url" not in given else set())
    if stray:
        raise InvalidSettings(
            f"vectors.{min(stray)} does not apply to the vector store '{vectors.provider}'",
            remedy=f"remove vectors.{min(stray)}, or set vectors.provider and vectors.url to what it is for",
        )
    if vectors.provider == "chroma" and len(given) != 1:
        raise InvalidSettings(
            "Chroma needs either a server or a folder, not both",
            remedy="set vectors.url to http://host:8000, or vectors.path to a folder",
        )


def _chroma(vectors: VectorSettings) -> ExternalSystem:
    try:
        from recollect.adapters.vectors.external.chroma import Chroma
    except ImportError:
        raise MissingExtra("the Chroma client is not installed", remedy="pip install 'recollect[chroma]'") from None
    return Chroma(url=vectors.url, path=vectors.path, token=secret_of(vectors))


def _pgvector(vectors: VectorSettings, url: str) -> ExternalSystem:
    try:
        from recollect.adapters.vectors.external.pgvector import PgVector
    except ImportError:
        raise MissingExtra(
            "the PostgreSQL driver for pgvector is not installed", remedy="pip install 'recollect[postgres]'"
        ) from None
    return PgVector(url, password=secret_of(vectors))
