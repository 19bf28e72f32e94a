"""The composition root: reads settings, builds the adapters they name, and hands the ports to the services.

The only file that imports adapters. `recollect.open(...)` is its `open`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import recollect.domain  # noqa: F401 - registers the records
from recollect.domain.audit import AccessLog
from recollect.domain.kinds import define_kind
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import Organization
from recollect.errors import (
    DamagedData,
    DuplicateKey,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NotARecollectStore,
    NotFound,
    RecollectError,
    StoreError,
)
from recollect.ports.layout import Partitioned
from recollect.ports.models import Embedder, LanguageModel
from recollect.ports.records import Compare, Insert, Query, RecordStore, Scope, equal
from recollect.ports.vectors import VectorStore
from recollect.services.blobs import stored_file
from recollect.services.core import Core, WorkspaceLimits
from recollect.services.journal import Journal
from recollect.services.transfer import Restored
from recollect.services.upkeep import Finding
from recollect.settings import (
    EmbedderSettings,
    LanguageModelSettings,
    Settings,
    VectorSettings,
    load,
    secret,
    secret_of,
    shown,
)

if TYPE_CHECKING:
    from recollect.adapters.vectors.annex import Annex
    from recollect.interfaces.client import Recollect
    from recollect.services.copying import Copied
    from recollect.services.indexing import Progress

LOG_TABLES = ("execution", "cycle", "result", "message")


def open(
    source: str | Path | None = None,
    *,
    embedder: Embedder | Any = None,
    language_model: LanguageModel | Any = None,
    **settings: Any,
) -> Recollect:
    """Open a memory: a file path, an address, or a YAML settings file.

    Keyword arguments are settings (see docs/reference/settings.md); `embedder` and `language_model` also take an object
    of your own that follows `recollect.ports.models.Embedder` or `LanguageModel`.
    """
    from recollect.interfaces.client import Recollect

    own = _own(embedder, "embed_query", "an embedder")
    own_model = _own(language_model, "ask", "a language model")
    if own is None:
        settings["embedder"] = embedder
    if own_model is None:
        settings["language_model"] = language_model
    loaded = load(source, **settings)
    core = build(loaded, own, own_model)
    return Recollect(core, Scope(loaded.organization, loaded.actor), ensure_organization)


def _own(given: Any, verb: str, what: str) -> Any:
    """The caller's own object; None if settings or nothing were given."""
    if given is None or isinstance(given, dict | str | EmbedderSettings | LanguageModelSettings):
        return None
    if not hasattr(given, verb):
        raise InvalidSettings(
            f"{type(given).__name__} is not {what}", remedy=f"give a name, settings, or an object with {verb}"
        )
    return given


def build(settings: Settings, embedder: Embedder | None = None, language_model: LanguageModel | None = None) -> Core:
    from recollect.adapters.folders import LocalFolders
    from recollect.adapters.world import LocalWorld

    for kind in settings.kinds:
        define_kind(kind)
    store, index_folder = _record_store(settings.store)
    try:
        embedders = _embedders(settings, embedder)
        model = language_model if language_model is not None else _language_model(settings.language_model)
        scope = Scope(settings.organization, settings.actor)
        ensure_organization(store, scope)
        vectors = _vector_store(store, index_folder, settings)
        if isinstance(store, Partitioned):
            store.months_ahead, store.tools = settings.months_ahead, settings.postgres_tools
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
            workspace_file=lambda workspace, path: stored_file(store, scope, workspace, path),
        )

    return Core(
        store,
        vectors,
        embedders,
        world,
        Journal(store),
        LocalFolders(),
        timezone=settings.timezone,
        late_interaction=settings.embedder.late_interaction,
        language_model=model,
        access_log_days=settings.access_log_days,
        workspaces=WorkspaceLimits(settings.workspace_file_bytes, settings.workspace_files, settings.workspace_bytes),
    )


def opened(settings: Settings) -> Core:
    """The core alone, for a program that puts its own doors before it."""
    return build(settings)


def close(core: Core) -> None:
    """Write what is noted, stop the threads, let go of the files."""
    core.journal.close()
    core.vectors.close()
    core.store.close()


def copy(
    source: str | Path, target: str | Path, organizations: Sequence[str] = (), progress: Progress | None = None
) -> Copied:
    """Bring all that one store holds into another, of any kind; run it again to go on where it stopped."""
    from recollect.services.copying import copy

    origin, destination = load(source), load(target)
    if origin.store == destination.store:
        raise InvalidInput("that is one and the same store", remedy="name two")
    path = _file(origin.store)
    if path is not None and not path.is_file():
        raise NotFound(f"there is no store '{origin.store}'", remedy="check the path")
    with closing(_record_store(origin.store)[0]) as here, closing(_record_store(destination.store)[0]) as there:
        return copy(here, there, organizations, progress or (lambda done, total: None))


def check_settings(source: str | Path | None = None) -> Iterator[Finding]:
    """Try everything the settings name, one after another, without writing or creating anything."""
    try:
        settings = load(source)
    except InvalidSettings as error:
        yield Finding(name="settings", well=False, says=error.message, remedy=error.remedy)
        return
    named = ", ".join(sorted(settings.model_fields_set)) or "nothing"
    yield Finding(name="settings", well=True, says=f"read; other than the default: {named}")
    yield _check_store(settings)
    for part, chosen in (("embedder", settings.embedder), ("incoming_embedder", settings.incoming_embedder)):
        if chosen is not None:
            yield _tried(part, f"{chosen.provider} {chosen.model or ''}".strip(), partial(_try_embedder, chosen))
    for folder in (*settings.repositories.values(), *(settings.citation_roots or ())):
        if not folder.is_dir():
            yield Finding(name="citations", well=False, says=f"'{folder}' is no folder", remedy="correct the path")


def _check_store(settings: Settings) -> Finding:
    path = _file(settings.store)
    if path is None or path.exists():
        return _tried("store", shown(settings.store), lambda: _record_store(settings.store)[0].close())
    if path.parent.is_dir() and os.access(path.parent, os.W_OK):
        return Finding(name="store", well=True, says=f"{path} will be made when it is first used")
    return Finding(name="store", well=False, says=f"{path} cannot be made", remedy=f"make '{path.parent}' writable")


def _try_embedder(settings: EmbedderSettings) -> None:
    embedder = _embedder(settings)
    if embedder is not None:
        embedder.embed_query("hello")


def _tried(name: str, what: str, attempt: Callable[[], object]) -> Finding:
    try:
        attempt()
    except RecollectError as error:
        return Finding(name=name, well=False, says=f"{what}: {error.message}", remedy=error.remedy)
    return Finding(name=name, well=True, says=f"{what} answers")


def restore_backup(source: str | Path, target: str | Path, **settings: Any) -> Restored:
    """Make a store from what `backup` wrote: in an empty place, checked record by record before it counts.

    The backup is left as it is. What is made is another incarnation of the store, so no index takes it for the old one.
    """
    loaded, path = load(target, **settings), Path(source)
    try:
        with path.open("rb") as file:
            beginning = file.read(16)
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give the file of a backup") from None
    scheme = urlsplit(loaded.store).scheme if "://" in loaded.store else "sqlite"
    for magic, schemes, restore in _RESTORERS:
        if beginning.startswith(magic):
            if scheme not in schemes:
                raise InvalidInput(
                    f"that is a backup of another kind of store than '{scheme}://'",
                    remedy="restore it where it came from, then use export and import",
                )
            return Restored(store=shown(loaded.store), memories=restore(path, loaded))
    raise NotARecollectStore(f"'{path.name}' is no backup", remedy="give a file that `recollect backup` wrote")


def _restore_sqlite(source: Path, settings: Settings) -> int:
    from recollect.adapters.records.sqlite import SqliteStore
    from recollect.adapters.records.sqlite_file import discard

    target = _path(settings.store)
    if target.exists():
        raise InvalidInput(f"'{target}' exists already", remedy="give a path that is not taken, or move it away first")
    copy = target.with_name(target.name + ".restoring")
    discard(copy)
    try:
        shutil.copyfile(source, copy)
        store = SqliteStore(copy)
        try:
            _refuse_damage(store, source)
            store.backup(target)
            return _memories(store)
        finally:
            store.close()
    except OSError as error:
        raise StoreError(
            f"cannot write '{target}': {error.strerror}", remedy="free some space, or choose another place"
        ) from None
    finally:
        discard(copy)


def _restore_postgres(source: Path, settings: Settings) -> int:
    try:
        from recollect.adapters.records import postgres_tools
        from recollect.adapters.records.postgres_link import Link
    except ImportError:
        raise MissingExtra("PostgreSQL needs its driver", remedy="pip install 'recollect[postgres]'") from None
    link = Link(settings.store)
    try:
        postgres_tools.restore(link, source, settings.postgres_tools)
    finally:
        link.close()
    store = _postgres_store(settings.store)
    try:
        _refuse_damage(store, source)
        return _memories(store)
    finally:
        store.close()


def _refuse_damage(store: RecordStore, source: Path) -> None:
    problems = store.verify()
    if problems:
        raise DamagedData(
            f"'{source.name}' is damaged: {len(problems)} problems, the first: {problems[0].what}",
            remedy="restore an earlier backup",
        )


def _memories(store: RecordStore) -> int:
    return sum(store.count(Scope(tenant), Query(Memory, deleted="yes")) for tenant in store.tenants())


_RESTORERS: tuple[tuple[bytes, tuple[str, ...], Callable[[Path, Settings], int]], ...] = (
    (b"SQLite format 3", ("", "sqlite"), _restore_sqlite),
    (b"PGDMP", ("postgresql", "postgres"), _restore_postgres),
)


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
            remedy="give a path, sqlite:///path, duckdb:///path, postgresql://…, dynamodb://table or memory://",
        )
    return maker(address)


def _vector_store(store: Any, index_folder: Path | None, settings: Settings) -> VectorStore:
    """What the settings name; else the database's own vectors where it has some, or else the embedded index."""
    vectors = settings.vectors
    _check_vectors(vectors)
    own = getattr(store, "has_vectors", False)
    if vectors.provider == "chroma":
        return _outside(store, settings, _chroma(vectors))
    if vectors.provider == "pgvector" and vectors.url:
        return _outside(store, settings, _pgvector_beside(vectors, vectors.url))
    if vectors.provider == "pgvector" and not own:
        raise InvalidSettings(
            "the record store has no pgvector of its own",
            remedy="set vectors.url to a PostgreSQL database that has it, or install it there",
        )
    if own and vectors.provider != "embedded":
        from recollect.adapters.vectors.pgvector import PgVectorStore

        return PgVectorStore(store, background=settings.background)
    from recollect.adapters.vectors.embedded import EmbeddedIndex

    if hasattr(store, "vectors_of"):
        from recollect.adapters.vectors.per_tenant import PerTenant

        return PerTenant(store, lambda truth: EmbeddedIndex(truth, None, background=settings.background))
    return EmbeddedIndex(store, index_folder, background=settings.background)


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


def _outside(store: Any, settings: Settings, annex: Annex) -> VectorStore:
    from recollect.adapters.vectors.outside import OutsideIndex
    from recollect.adapters.vectors.per_tenant import PerTenant

    if hasattr(store, "vectors_of"):
        return PerTenant(store, lambda truth: OutsideIndex(truth, annex, background=settings.background))
    return OutsideIndex(store, annex, background=settings.background)


def _chroma(vectors: VectorSettings) -> Annex:
    try:
        from recollect.adapters.vectors.chroma import ChromaAnnex
    except ImportError:
        raise MissingExtra("Chroma needs its client", remedy="pip install 'recollect[chroma]'") from None
    return ChromaAnnex(url=vectors.url, path=vectors.path, token=secret_of(vectors))


def _pgvector_beside(vectors: VectorSettings, url: str) -> Annex:
    try:
        from recollect.adapters.vectors.pgvector_beside import PgVectorAnnex
    except ImportError:
        raise MissingExtra("pgvector needs the driver", remedy="pip install 'recollect[postgres]'") from None
    return PgVectorAnnex(url, password=secret_of(vectors))


def _file(address: str) -> Path | None:
    """The file an address means, if it means one."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme not in _FILES:
        return None
    path = address if not separator else unquote(rest.removeprefix("/") if not rest.startswith("//") else rest[1:])
    return Path(path).expanduser()


def _sqlite(address: str) -> tuple[Any, Path | None]:
    from recollect.adapters.records.sqlite import SqliteStore

    path, index = _file_and_index(address)
    return SqliteStore(path), index


def _duckdb(address: str) -> tuple[Any, Path | None]:
    try:
        from recollect.adapters.records.duckdb import DuckdbStore
    except ImportError:
        raise MissingExtra("DuckDB needs its package", remedy="pip install 'recollect[duckdb]'") from None
    path, index = _file_and_index(address)
    return DuckdbStore(path), index


def _file_and_index(address: str) -> tuple[Path, Path]:
    """The file that an address names, and the folder of its index."""
    path = _path(address)
    index = path.with_name(path.name + ".index")
    if path.is_file() and path.stat().st_size == 0 and index.is_dir() and any(index.iterdir()):
        raise DamagedData(
            f"'{path.name}' is empty, but its index is not: it was cut off",
            remedy=f"put a backup in its place, or delete it and '{index.name}' to begin anew",
        )
    return path, index


def _path(address: str) -> Path:
    path = _file(address)
    assert path is not None, "only asked for addresses of files"
    return path


def _memory(address: str) -> tuple[Any, Path | None]:
    from recollect.adapters.records.memory import MemoryStore

    return MemoryStore(), None


def _postgres(address: str) -> tuple[Any, Path | None]:
    return _postgres_store(address), None


def _postgres_store(address: str) -> Any:
    try:
        from recollect.adapters.records.postgres import PostgresStore
    except ImportError:
        raise MissingExtra("PostgreSQL needs its driver", remedy="pip install 'recollect[postgres]'") from None
    return PostgresStore(address)


def _dynamodb(address: str) -> tuple[Any, Path | None]:
    try:
        from recollect.adapters.records.dynamodb import DynamoStore
    except ImportError:
        raise MissingExtra("DynamoDB needs its driver", remedy="pip install 'recollect[dynamodb]'") from None
    return DynamoStore(address), None


_FILES = frozenset({"sqlite", "duckdb"})
_STORES: dict[str, Callable[[str], tuple[Any, Path | None]]] = {
    "": _sqlite,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
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


def _language_model(settings: LanguageModelSettings) -> LanguageModel | None:
    if settings.provider == "none":
        return None
    from recollect.adapters.models.language import OpenAICompatibleModel

    if not settings.base_url or not settings.model:
        raise InvalidSettings(
            "an endpoint needs base_url and model", remedy="set language_model.base_url and language_model.model"
        )
    return OpenAICompatibleModel(
        base_url=settings.base_url,
        model=settings.model,
        api_key=secret(settings.api_key_env, settings.api_key_file),
        timeout_seconds=settings.timeout_seconds,
        temperature=settings.temperature,
    )
