"""The composition root: reads settings, builds the adapters they name, and hands the ports to the services.

The only file that imports adapters. `recollect.open(...)` is its `open`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import recollect.domain  # noqa: F401 - registers the records
from recollect.domain.audit import AccessLog
from recollect.domain.kinds import define_kind
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import Organization
from recollect.errors import DamagedData, DuplicateKey, InvalidSettings, MissingExtra
from recollect.ports.models import Embedder
from recollect.ports.records import Compare, Insert, Query, RecordStore, Scope, equal
from recollect.ports.vectors import VectorStore
from recollect.services.core import Core
from recollect.services.journal import Journal
from recollect.settings import EmbedderSettings, Settings, load, secret

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect

LOG_TABLES = ("execution", "cycle", "result", "message")


def open(source: str | Path | None = None, *, embedder: Embedder | Any = None, **settings: Any) -> Recollect:
    """Open a memory: a file path, an address, or a YAML settings file.

    Keyword arguments are settings (see docs/reference/settings.md); `embedder` also takes an object of your own
    that follows `recollect.ports.models.Embedder`.
    """
    from recollect.interfaces.client import Recollect

    own = embedder if embedder is not None and not isinstance(embedder, dict | str | EmbedderSettings) else None
    if own is not None and not hasattr(own, "embed_query"):
        raise InvalidSettings(
            f"{type(own).__name__} is not an embedder",
            remedy="give a name, settings, or an object with embed and embed_query",
        )
    if embedder is not None and own is None:
        settings["embedder"] = {"provider": embedder} if isinstance(embedder, str) else embedder
    loaded = load(source, **settings)
    core = build(loaded, own)
    return Recollect(core, Scope(loaded.organization, loaded.actor), ensure_organization)


def build(settings: Settings, embedder: Embedder | None = None) -> Core:
    from recollect.adapters.world import LocalWorld

    for kind in settings.kinds:
        define_kind(kind)
    store, index_folder = _record_store(settings.store)
    try:
        embedders = _embedders(settings, embedder)
        scope = Scope(settings.organization, settings.actor)
        ensure_organization(store, scope)
        vectors = _vector_store(store, index_folder, settings)
    except BaseException:
        store.close()
        raise

    def world(scope: Scope, about: str | None) -> LocalWorld:
        """The world as one tenant may see it: its own log, and the files the settings allow.

        What the log says about a memory is no evidence for that memory.
        """
        return LocalWorld(
            root=settings.citation_root or (index_folder.parent if index_folder else None),
            roots=tuple(settings.citation_roots) if settings.citation_roots is not None else None,
            repositories=settings.repositories,
            log_exists=lambda id: _is_logged(store, scope, id, about),
            fetch=settings.fetch,
        )

    late = settings.embedder.late_interaction
    return Core(store, vectors, embedders, world, Journal(store), settings.timezone, late)


def close(core: Core) -> None:
    """Write what is noted, stop the threads, let go of the files."""
    core.journal.close()
    core.vectors.close()
    core.store.close()


def ensure_organization(store: RecordStore, scope: Scope) -> None:
    id = scope.organization_id
    if store.get(scope, Organization, id, deleted=True) is None:
        try:
            store.transact(scope, [Insert(Organization(organization_id=id, id=id, name=id))])
        except DuplicateKey:
            return  # another process opened the same new store a moment ago


def _is_logged(store: RecordStore, scope: Scope, id: str, about: str | None) -> bool:
    access = (equal("id", id), Compare("memory_id", "!=", about)) if about else (equal("id", id),)
    if store.count(scope, Query(AccessLog, access)):
        return True
    return any(store.count(scope, Query(RECORDS[table], (equal("id", id),))) for table in LOG_TABLES)


def _record_store(address: str) -> tuple[Any, Path | None]:
    """The store that an address means, and the folder beside it for the vector index."""
    scheme = urlsplit(address).scheme if "://" in address else ""
    maker = _STORES.get(scheme)
    if maker is None:
        raise InvalidSettings(
            f"no store is known for '{scheme}://'",
            remedy="give a file path, sqlite:///path, postgresql://user@host/database, dynamodb://table or memory://",
        )
    return maker(address)


def _vector_store(store: Any, index_folder: Path | None, settings: Settings) -> VectorStore:
    """The database's own vectors where it has some, or else the embedded index."""
    if getattr(store, "has_vectors", False):
        from recollect.adapters.vectors.pgvector import PgVectorStore

        return PgVectorStore(store)
    from recollect.adapters.vectors.embedded import EmbeddedIndex

    if hasattr(store, "vectors_of"):
        from recollect.adapters.vectors.per_tenant import PerTenant

        return PerTenant(store, lambda truth: EmbeddedIndex(truth, None, background=settings.background))
    return EmbeddedIndex(store, index_folder, background=settings.background)


def _sqlite(address: str) -> tuple[Any, Path | None]:
    from recollect.adapters.records.sqlite import SqliteStore

    path = Path(unquote(address.removeprefix("sqlite://").removeprefix("/")) if "://" in address else address)
    if address.startswith("sqlite:////"):
        path = Path("/") / path
    path = path.expanduser()
    index = path.with_name(path.name + ".index")
    if path.is_file() and path.stat().st_size == 0 and index.is_dir() and any(index.iterdir()):
        raise DamagedData(
            f"'{path.name}' is empty, but its index is not: it was cut off",
            remedy=f"put a backup in its place, or delete it and '{index.name}' to begin anew",
        )
    return SqliteStore(path), index


def _memory(address: str) -> tuple[Any, Path | None]:
    from recollect.adapters.records.memory import MemoryStore

    return MemoryStore(), None


def _postgres(address: str) -> tuple[Any, Path | None]:
    try:
        from recollect.adapters.records.postgres import PostgresStore
    except ImportError:
        raise MissingExtra("PostgreSQL needs its driver", remedy="pip install 'recollect[postgres]'") from None
    return PostgresStore(address), None


def _dynamodb(address: str) -> tuple[Any, Path | None]:
    try:
        from recollect.adapters.records.dynamodb import DynamoStore
    except ImportError:
        raise MissingExtra("DynamoDB needs its driver", remedy="pip install 'recollect[dynamodb]'") from None
    return DynamoStore(address), None


_STORES: dict[str, Callable[[str], tuple[Any, Path | None]]] = {
    "": _sqlite,
    "sqlite": _sqlite,
    "memory": _memory,
    "postgresql": _postgres,
    "postgres": _postgres,
    "dynamodb": _dynamodb,
}


def _embedders(settings: Settings, own: Embedder | None) -> tuple[Embedder, ...]:
    serving = own if own is not None else _embedder(settings.embedder)
    incoming = _embedder(settings.incoming_embedder) if settings.incoming_embedder else None
    chosen = [one for one in (serving, incoming) if one is not None]
    if len(chosen) == 2 and chosen[0].model == chosen[1].model:
        raise InvalidSettings("both embedders are the same model", remedy="remove incoming_embedder")
    return tuple(chosen)


def _embedder(settings: EmbedderSettings) -> Embedder | None:
    if settings.provider == "none":
        return None
    if settings.provider == "hash":
        from recollect.testing.fakes import HashEmbedder

        return HashEmbedder(settings.dimensions or 64)
    if settings.provider == "openai":
        return _endpoint(settings)
    try:
        from recollect.adapters.models.minilm import MiniLM
    except ImportError:  # pragma: no cover - part of the base install
        raise MissingExtra("the built-in embedder is missing", remedy="pip install recollect") from None
    return MiniLM(threads=settings.threads)


def _endpoint(settings: EmbedderSettings) -> Embedder:
    from recollect.adapters.models.openai_compatible import OpenAICompatibleEmbedder

    if not settings.base_url or not settings.model:
        raise InvalidSettings("an endpoint needs base_url and model", remedy="set embedder.base_url and embedder.model")
    return OpenAICompatibleEmbedder(
        base_url=settings.base_url,
        model=settings.model,
        api_key=secret(settings.api_key_env),
        dimensions=settings.dimensions,
    )
