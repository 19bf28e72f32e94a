"""The composition root: reads settings, builds the adapters they name, and hands the ports to the services.

The only place that imports adapters. `recollect.open(...)` is its `open`; `stores`, `vectors` and `models` know which
adapter a setting means; `store_copies` and `config_check` work without an open memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import recollect.domain  # noqa: F401 - registers the records
from recollect.app.background import Background, embedded_schedule
from recollect.app.config_check import check_settings as check_settings
from recollect.app.models import embedders_of, language_model_of
from recollect.app.store_copies import copy as copy
from recollect.app.store_copies import restore_backup as restore_backup
from recollect.app.stores import check_store, file_of, record_store, refuse_missing
from recollect.app.stores import key_file_of as key_file_of
from recollect.app.vectors import vector_store
from recollect.domain.audit import AccessLog
from recollect.domain.kinds import define_kind
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import ApiKey, Organization, User
from recollect.errors import DuplicateKey, InvalidSettings, NotFound, typed_os_errors
from recollect.ports.folders import Folders
from recollect.ports.models import Embedder, LanguageModel
from recollect.ports.partitions import Partitioned
from recollect.ports.protocols import missing
from recollect.ports.query import Compare, Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Insert
from recollect.services.access_journal import Journal
from recollect.services.erasure import finish_quietly
from recollect.services.keyed_hashes import Keyring
from recollect.services.tenant import Core, WorkspaceLimits
from recollect.services.workspaces.blobs import stored_file
from recollect.settings import EmbedderSettings, LanguageModelSettings, Settings, load

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect

Prepare = Callable[[RecordStore, Scope], None]
MOST_NAMED = 10
LOG_TABLES = ("execution", "cycle", "result", "message")


def open(
    source: str | Path | RecordStore | None = None,
    *,
    create: bool = True,
    embedder: Embedder | EmbedderSettings | dict[str, Any] | str | None = None,
    language_model: LanguageModel | LanguageModelSettings | dict[str, Any] | str | None = None,
    **settings: Any,
) -> Recollect:
    """Open a memory.

    `source` is a file path, a store address such as `postgresql://…`, a YAML settings file, or a record store of your
    own, which you close yourself. Without it, the settings say which store to open. With `create=False`, a store or an
    organization that does not exist is an error instead of being created.

    All other keyword arguments are settings (see docs/reference/settings.md). `embedder` and `language_model` also
    take an object of your own that implements `recollect.ports.models.Embedder` or `LanguageModel`.
    """
    own_embedder = cast("Embedder | None", _own(embedder, Embedder, "an embedder"))
    own_model = cast("LanguageModel | None", _own(language_model, LanguageModel, "a language model"))
    if own_embedder is None:
        settings["embedder"] = embedder
    if own_model is None:
        settings["language_model"] = language_model
    named, store = (source, None) if source is None or isinstance(source, str | Path) else (None, check_store(source))
    loaded = load(named, **settings)
    if store is None and not create:
        refuse_missing(loaded.store)
    prepare = ensure_organization if create else require_organization
    with typed_os_errors():
        core = build(loaded, own_embedder, own_model, store, prepare)
    return _client(with_background(core, loaded), loaded, prepare)


def open_for_command(
    source: str | None, organization: str | None, actor: str | None, *, create: bool, create_organization: bool
) -> Recollect:
    """A memory for a single command: like `open`, but without background work, which would not get to do anything."""
    loaded = load(source, organization=organization, actor=actor)
    if not create:
        refuse_missing(loaded.store)
    prepare = ensure_organization if create_organization else require_organization
    with typed_os_errors():
        core = build(loaded, prepare=prepare)
    return _client(core, loaded, prepare)


def _client(core: Core, settings: Settings, prepare: Prepare) -> Recollect:
    from recollect.interfaces.client import Recollect

    return Recollect(core, Scope(settings.organization, settings.actor), prepare)


def _own(given: object, port: type, what: str) -> object:
    """The caller's own object; None if settings or nothing were given."""
    if given is None or isinstance(given, dict | str | EmbedderSettings | LanguageModelSettings):
        return None
    lacking = missing(given, port)
    if lacking:
        raise InvalidSettings(
            f"{type(given).__name__} is not {what}: it has no {', '.join(lacking)}",
            remedy=f"give a name, settings, or an object that implements recollect.ports.models.{port.__name__}",
        )
    return given


def build(
    settings: Settings,
    embedder: Embedder | None = None,
    language_model: LanguageModel | None = None,
    own_store: RecordStore | None = None,
    prepare: Prepare | None = None,
) -> Core:
    from recollect.adapters.citation_lookup import LocalCitationLookup
    from recollect.adapters.local_folders import LocalFolders

    for kind in settings.kinds:
        define_kind(kind)
    if own_store is not None:
        store, index_folder = own_store, None
    else:
        store, index_folder = record_store(settings.store, settings.postgres_upkeep)
    try:
        if own_store is not None:
            store.migrate()
        embedders = embedders_of(settings, embedder)
        model = language_model if language_model is not None else language_model_of(settings.language_model)
        scope = Scope(settings.organization, settings.actor)
        (prepare or ensure_organization)(store, scope)
        vectors = vector_store(store, index_folder, settings)
        if isinstance(store, Partitioned):
            store.months_ahead, store.tools = settings.months_ahead, settings.postgres_tools
    except BaseException:
        if own_store is None:
            store.close()
        raise

    keyring = Keyring(store)

    def citation_lookup(scope: Scope, about: str | None) -> LocalCitationLookup:
        """What a caller may look up: the log of their organization, and the files the settings allow.

        Requests over the network see files only in folders that the settings name. What the log says about a memory
        is not evidence for that memory.
        """
        return LocalCitationLookup(
            root=settings.citation_root or (index_folder.parent if index_folder else None),
            roots=tuple(settings.citation_roots) if settings.citation_roots is not None else None,
            repositories=settings.repositories,
            log_exists=lambda id: _is_logged(store, scope, id, about),
            fetch=settings.fetch,
            workspace_file=lambda workspace, path: stored_file(store, scope, workspace, path),
            confined=scope.granted is not None,
            keyed=partial(keyring.keyed, scope),
            account_of=partial(_account_of, store, scope),
            has_users=lambda: bool(store.find(scope, Query(User, limit=1)).records),
        )

    core = Core(
        store,
        vectors,
        embedders,
        citation_lookup,
        Journal(store),
        LocalFolders(file_of(settings.store) if own_store is None else None),
        keyring,
        timezone=settings.timezone,
        late_interaction=settings.embedder.late_interaction,
        language_model=model,
        access_log_days=settings.access_log_days,
        stale_seconds=settings.citation_stale_seconds,
        restore_days=settings.restore_days,
        owns_store=own_store is None,
        turn=threading.Lock() if store.capabilities.row_by_row else nullcontext(),
        workspaces=WorkspaceLimits(settings.workspace_file_bytes, settings.workspace_files, settings.workspace_bytes),
    )
    finish_quietly(core.for_scope(scope))
    return core


def with_background(core: Core, settings: Settings) -> Core:
    """The same core with background work started, unless the settings turn it off. Closing it ends the work."""
    if not settings.background:
        return core
    background = Background(core, embedded_schedule(settings))
    background.start()
    return replace(core, background=background)


def close(core: Core) -> None:
    """End background work, write what is noted, stop the threads, close the files: each, even if another one fails."""
    with ExitStack() as parts:
        own = (core.store,) if core.owns_store else ()
        working = (core.background,) if core.background is not None else ()
        for part in (*own, core.vectors, core.journal, *working):  # the last is closed first
            parts.callback(part.close)


def local_folders() -> Folders:
    """The files of this machine, for clients of a service."""
    from recollect.adapters.local_folders import LocalFolders

    return LocalFolders()


def ensure_organization(store: RecordStore, scope: Scope) -> None:
    id = scope.organization_id
    if store.get(scope, Organization, id, deleted=True) is None:
        try:
            store.transact(scope, [Insert(Organization(organization_id=id, id=id, name=id))])
        except DuplicateKey:
            return  # another process opened the same new store a moment ago


def require_organization(store: RecordStore, scope: Scope) -> None:
    """Raise NotFound if there is no such organization; the default one is created when it is first used."""
    id = scope.organization_id
    if id == Settings.model_fields["organization"].default:
        ensure_organization(store, scope)
    elif store.get(scope, Organization, id, deleted=True) is None:
        known = store.tenants()
        more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        there = f"it has {', '.join(known[:MOST_NAMED])}{more}" if known else "it has none yet"
        raise NotFound(
            f"this store has no organization '{id}'", remedy=f"{there}; the first memory stored in one creates it"
        )


def _account_of(store: RecordStore, scope: Scope, id: str) -> Literal["user", "key"] | None:
    if store.get(scope, User, id) is not None:
        return "user"
    return "key" if store.get(scope, ApiKey, id) is not None else None


def _is_logged(store: RecordStore, scope: Scope, id: str, about: str | None) -> bool:
    access = (equal("id", id), Compare("memory_id", "!=", about)) if about else (equal("id", id),)
    if store.count(scope, Query(AccessLog, access)):
        return True
    return any(store.count(scope, Query(RECORDS[table], (equal("id", id),))) for table in LOG_TABLES)
