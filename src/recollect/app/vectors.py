"""The vector stores: the one the settings name, beside whichever record store there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.errors import InvalidSettings, MissingExtra
from recollect.ports.vectors import VectorStore
from recollect.settings import Settings, VectorSettings, secret_of

if TYPE_CHECKING:
    from recollect.adapters.vectors.external.port import ExternalSystem


def vector_store(store: Any, index_folder: Path | None, settings: Settings) -> VectorStore:
    """What the settings name; else the database's own vectors where it has some, or else the embedded index."""
    vectors = settings.vectors
    _check_vectors(vectors)
    own = getattr(store, "has_vectors", False)
    if vectors.provider == "chroma":
        return _external(store, settings, _chroma(vectors))
    if vectors.provider == "pgvector" and vectors.url:
        return _external(store, settings, _pgvector(vectors, vectors.url))
    if vectors.provider == "pgvector" and not own:
        raise _no_pgvector()
    if own and vectors.provider != "embedded":
        from recollect.adapters.vectors.pgvector import PgVectorStore

        return PgVectorStore(store, background=settings.background)
    from recollect.adapters.vectors.embedded.index import EmbeddedIndex

    if hasattr(store, "vectors_of"):
        from recollect.adapters.vectors.per_tenant import PerTenant

        return PerTenant(store, lambda truth: EmbeddedIndex(truth, None, background=settings.background))
    return EmbeddedIndex(store, index_folder, background=settings.background)


def _no_pgvector() -> InvalidSettings:
    return InvalidSettings(
        "the record store has no pgvector of its own",
        remedy="install pgvector there and let an administrator run CREATE EXTENSION vector, "
        "or set vectors.url to a PostgreSQL database that has it",
    )


def examine_vectors(settings: Settings) -> str:
    """Try the vector store that the settings name, without making anything; what is there, in a sentence."""
    vectors = settings.vectors
    _check_vectors(vectors)
    if vectors.path is not None and not vectors.path.exists():
        return f"{vectors.path} will be made when it is first used"
    system = _chroma(vectors) if vectors.provider == "chroma" else None
    if vectors.provider == "pgvector":
        if not vectors.url and not settings.store.startswith(("postgresql://", "postgres://")):
            raise _no_pgvector()
        system = _pgvector(vectors, vectors.url or settings.store)
    if system is None:
        return "the store's own, or the embedded index" if vectors.provider == "auto" else vectors.provider
    try:
        return system.examine()
    finally:
        system.close()


def _check_vectors(vectors: VectorSettings) -> None:
    """Settings that only another provider would heed are a mistake, not something to overlook."""
    takes = {"chroma": {"url", "path"}, "pgvector": {"url"}}.get(vectors.provider, set())
    given = {name for name in ("url", "path") if getattr(vectors, name) is not None}
    secrets = {name for name in ("secret_env", "secret_file") if getattr(vectors, name) is not None}
    stray = (given - takes) | (secrets if "url" not in given else set())
    if stray:
        raise InvalidSettings(
            f"vectors.{min(stray)} means nothing to the vector store '{vectors.provider}'",
            remedy=f"remove vectors.{min(stray)}, or set vectors.provider and vectors.url to what it is for",
        )
    if vectors.provider == "chroma" and len(given) != 1:
        raise InvalidSettings(
            "Chroma needs a server or a folder, and not both",
            remedy="set vectors.url to http://host:8000, or vectors.path to a folder",
        )


def _external(store: Any, settings: Settings, system: ExternalSystem) -> VectorStore:
    from recollect.adapters.vectors.external.index import ExternalIndex
    from recollect.adapters.vectors.per_tenant import PerTenant

    if hasattr(store, "vectors_of"):
        return PerTenant(store, lambda truth: ExternalIndex(truth, system, background=settings.background))
    return ExternalIndex(store, system, background=settings.background)


def _chroma(vectors: VectorSettings) -> ExternalSystem:
    try:
        from recollect.adapters.vectors.external.chroma import Chroma
    except ImportError:
        raise MissingExtra("Chroma needs its client", remedy="pip install 'recollect[chroma]'") from None
    return Chroma(url=vectors.url, path=vectors.path, token=secret_of(vectors))


def _pgvector(vectors: VectorSettings, url: str) -> ExternalSystem:
    try:
        from recollect.adapters.vectors.external.pgvector import PgVector
    except ImportError:
        raise MissingExtra("pgvector needs the driver", remedy="pip install 'recollect[postgres]'") from None
    return PgVector(url, password=secret_of(vectors))
