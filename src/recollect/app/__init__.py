"""The composition root: reads settings, builds the adapters they name, and hands the ports to the services.

The only place that imports adapters. `recollect.open(...)` is its `open`; `stores`, `vectors` and `models` know which
adapter a setting means; `store_copies`, `store_restore` and `config_check` work without an open memory. What a single
command may do without is imported where it is used: background work alone knows half of the services.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import recollect.domain  # noqa: F401 - registers the records
from recollect.app.backups import StoreBackups
from recollect.app.cold import ObjectPlaces
from recollect.app.data import EngineOnDemand
from recollect.app.embedded_background import EmbeddedBackground
from recollect.app.keys import key_service
from recollect.app.keys import with_printed_keys as with_printed_keys
from recollect.app.models import embedders_of, language_model_of, query_ranker, question_encoder
from recollect.app.objects import object_store
from recollect.app.on_demand import OnDemand
from recollect.app.stores import Opened, check_store, file_of, record_store, refuse_missing, turn_of
from recollect.app.stores import key_file_of as key_file_of
from recollect.app.stores import refuse_workers as refuse_workers
from recollect.app.vectors import vector_store
from recollect.domain.audit import AccessLog
from recollect.domain.cold import ColdRecord
from recollect.domain.kinds import define_kind
from recollect.domain.memory import Memory
from recollect.domain.provenance import CitationLookup, QueryCitation
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import ApiKey, Organization, User
from recollect.domain.text.secret_formats import FORMATS, IBAN
from recollect.domain.text.secrets import SecretPolicy
from recollect.errors import DuplicateKey, InvalidSettings, NotFound, Unsupported, typed_os_errors
from recollect.ports.keys import KeyService
from recollect.ports.member_indexes import IndexesMembers, MemberIndex
from recollect.ports.models import Embedder, LanguageModel
from recollect.ports.partitions import Distributable, Partitioned
from recollect.ports.protocols import missing
from recollect.ports.query import Compare, OneOf, Query, equal
from recollect.ports.records import KeepsRows, RecordStore, Scope
from recollect.ports.steps import Insert
from recollect.ports.vectors import KeepsSegments
from recollect.services.access_journal import Journal
from recollect.services.erasure import finish_quietly
from recollect.services.keyed_hashes import Keyring
from recollect.services.tenant import Core, SupportsClose, Tenant, WorkspaceLimits
from recollect.settings import EmbedderSettings, LanguageModelSettings, Settings, load, secret_named, wants_traces
from recollect.settings_files import is_service

if TYPE_CHECKING:
    from recollect.app.config_check import check_settings as check_settings
    from recollect.app.config_show import show_settings as show_settings
    from recollect.app.store_copies import copy as copy
    from recollect.app.store_restore import restore as restore
    from recollect.app.store_restore import restore_backup as restore_backup
    from recollect.interfaces.client import Recollect
    from recollect.ports.charts import ChartRenderer
    from recollect.ports.cold import ColdFiles
    from recollect.ports.connections import OutsideDatabases
    from recollect.ports.folders import Folders

Prepare = Callable[[RecordStore, Scope], None]
MOST_NAMED = 10
LOG_TABLES = ("execution", "cycle", "result", "message")
_HOMES = {
    "check_settings": "config_check",
    "show_settings": "config_show",
    "copy": "store_copies",
    "restore": "store_restore",
    "restore_backup": "store_restore",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recollect.app' has no attribute '{name}'")
    return getattr(import_module(f"recollect.app.{_HOMES[name]}"), name)


def open(
    source: str | Path | RecordStore | None = None,
    *,
    create: bool = True,
    readonly: bool | None = None,
    profile: str | None = None,
    embedder: Embedder | EmbedderSettings | dict[str, Any] | str | None = None,
    language_model: LanguageModel | LanguageModelSettings | dict[str, Any] | str | None = None,
    **settings: Any,
) -> Recollect:
    """Open a memory.

    `source` is a file path, a store address such as `postgresql://…`, the address of a service (`https://…`, with the
    key in `RECOLLECT_API_KEY` or as `api_key`), a YAML settings file, or a record store of your own, which you close
    yourself. Without it, the settings say which store to open, and `profile` those of a profile of yours. With
    `create=False`, a store or an organization that does not exist is an error instead of being created; with
    `readonly`, too, and nothing is written.

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
    loaded = load(named, profile=profile, readonly=readonly, **settings)
    if store is None and is_service(loaded.store):
        from recollect.app.services import connected

        given = {name for name, value in settings.items() if value is not None}
        own = {"embedder": own_embedder, "language_model": own_model}
        return connected(loaded, given | {name for name, value in own.items() if value is not None})
    if store is None and (loaded.readonly or not create):
        refuse_missing(loaded.store)
    prepare = ensure_organization if create else require_organization
    with typed_os_errors():
        core = build(loaded, own_embedder, own_model, store, prepare)
    return _client(with_background(core, loaded), loaded, prepare)


def open_for_command(
    source: str | None,
    organization: str | None,
    actor: str | None,
    *,
    create: bool,
    create_organization: bool,
    only_reads: bool = False,
    profile: str | None = None,
    readonly: bool | None = None,
) -> Recollect:
    """A memory for a single command: like `open`, but without background work, which would not get to do anything."""
    loaded = load(source, profile=profile, organization=organization, actor=actor, readonly=readonly)
    if is_service(loaded.store):
        from recollect.app.services import connected

        return connected(loaded, ())
    if loaded.readonly or not create:
        refuse_missing(loaded.store)
    prepare = ensure_organization if create_organization else require_organization
    with typed_os_errors():
        core = build(loaded, prepare=prepare, for_one_answer=only_reads)
    return _client(core, loaded, prepare)


def _client(core: Core, settings: Settings, prepare: Prepare) -> Recollect:
    from recollect.interfaces.client import Recollect

    prepare = look_for_organization if settings.readonly else prepare
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
    *,
    for_one_answer: bool = False,
) -> Core:
    from recollect.adapters.encryption.files import SealedFiles
    from recollect.adapters.local_folders import LocalFolders

    for kind in settings.kinds:
        define_kind(kind)
    keys = key_service(settings)
    store, index_folder, index_key = _opened(settings, own_store, keys)
    try:
        if own_store is not None:
            store.migrate()
        embedders = embedders_of(settings, embedder, store)
        model = language_model if language_model is not None else language_model_of(settings.language_model)
        scope = Scope(settings.organization, settings.actor)
        prepared = look_for_organization if settings.readonly else prepare or ensure_organization
        prepared(store, scope)
        vectors = vector_store(store, index_folder, settings, index_key, for_one_answer=for_one_answer)
        if not settings.readonly:
            _index_members(store, settings)
        if isinstance(store, Partitioned):
            store.months_ahead, store.tools = settings.months_ahead, settings.postgres_tools
        if isinstance(store, KeepsRows):
            store.keep_rows(settings.records_cache_bytes)
        if isinstance(store, Distributable):
            store.shard_count = settings.citus_shards
    except BaseException:
        if own_store is None:
            store.close()
        raise

    keyring = Keyring(store, is_encrypting=keys is not None)
    objects = object_store(settings, keyring.content_key, is_handed_in=own_store is not None)
    if settings.objects is not None and isinstance(store, KeepsSegments):
        store.keep_segments(objects)

    def citation_lookup(scope: Scope, about: str | None) -> CitationLookup:
        return _citation_lookup(core.for_scope(scope), settings, index_folder, about)

    core = Core(
        store,
        vectors,
        embedders,
        citation_lookup,
        Journal(store, readonly=settings.readonly),
        LocalFolders(file_of(settings.store) if own_store is None else None),
        keyring,
        objects,
        EngineOnDemand(settings.data_processes),
        question_encoder(embedders, settings.embedder.threads),
        query_ranker(),
        cast("ChartRenderer", OnDemand(_charts)),
        cast("OutsideDatabases", OnDemand(partial(_databases, settings))),
        SealedFiles(keys),
        cast("ColdFiles", OnDemand(_cold_files)),
        ObjectPlaces(settings, objects, keyring.content_key),
        StoreBackups(settings, partial(build, prepare=lambda store, scope: None)),
        late_interaction=settings.embedder.late_interaction,
        language_model=model,
        stale_seconds=settings.citation_stale_seconds,
        enough_evidence={name: frozenset(kinds) for name, kinds in settings.evidence},
        accepts_unknown_kinds=settings.unknown_kinds == "accept",
        manages_organizations=settings.server.organizations,
        retention=tuple(settings.retention),
        owns_store=own_store is None,
        turn=turn_of(store),
        secrets=_secret_policy(settings),
        workspaces=WorkspaceLimits(settings.workspace_file_bytes, settings.workspace_files, settings.workspace_bytes),
        **{name: getattr(settings, name) for name in _AS_SET},
    )
    if not settings.readonly:
        finish_quietly(core.for_scope(scope))
    return core


def _opened(settings: Settings, own_store: RecordStore | None, keys: KeyService | None) -> Opened:
    if own_store is None:
        return record_store(settings.store, settings.postgres_upkeep, keys, readonly=settings.readonly)
    if settings.readonly:
        raise Unsupported("a store that is handed in cannot be opened read-only", remedy="leave readonly out")
    return Opened(own_store)


_AS_SET = (
    "object_bytes data_file_bytes timezone access_log_days restore_days approval_seconds strict_owners readonly".split()
)
"""Settings that services are given as they are, under the same name."""


def _charts() -> ChartRenderer:
    from recollect.adapters.charts.renderer import VegaChartRenderer

    return VegaChartRenderer()


def _cold_files() -> ColdFiles:
    from recollect.adapters.cold.parquet_files import ParquetFiles

    return ParquetFiles()


def _databases(settings: Settings) -> OutsideDatabases:
    from recollect.adapters.connections.access import ConnectionAccess
    from recollect.adapters.connections.opening import Databases

    opened = settings.connections
    return Databases(ConnectionAccess(opened.hosts, opened.folders, opened.secrets), secret_named)


def _secret_policy(settings: Settings) -> SecretPolicy:
    formats = (*FORMATS, IBAN) if "iban" in settings.secrets_also else FORMATS
    return SecretPolicy(settings.secrets, settings.secrets_in_files, tuple(settings.secrets_allow), formats)


def _index_members(store: RecordStore, settings: Settings) -> None:
    """Only where the settings say which: another process may have declared others."""
    if settings.indexed is not None and isinstance(store, IndexesMembers):
        members = [one.split(".") for one in settings.indexed]
        store.index_members([MemberIndex(Memory, field, tuple(path)) for field, *path in members])


def _citation_lookup(
    tenant: Tenant, settings: Settings, index_folder: Path | None, about: str | None
) -> CitationLookup:
    """What a caller may look up: the log and the data of their organization, and the files the settings allow.

    Requests over the network see files only in folders that the settings name. What the log says about a memory
    is not evidence for that memory.
    """
    from recollect.adapters.citation_lookup import LocalCitationLookup

    store, scope = tenant.store, tenant.scope
    return LocalCitationLookup(
        root=settings.citation_root or (index_folder.parent if index_folder else None),
        roots=tuple(settings.citation_roots) if settings.citation_roots is not None else None,
        repositories=settings.repositories,
        log_exists=lambda id: _is_logged(store, scope, id, about),
        fetch=settings.fetch,
        workspace_file=partial(_workspace_file, store, scope),
        confined=scope.granted is not None,
        keyed=partial(tenant.keyring.keyed, scope),
        account_of=partial(_account_of, store, scope),
        has_users=lambda: bool(store.find(scope, Query(User, limit=1)).records),
        query_run=partial(_query_run, tenant),
        query_result=partial(_query_result, tenant),
    )


def _workspace_file(store: RecordStore, scope: Scope, workspace: str, path: str) -> bytes | None:
    from recollect.services.workspaces.blobs import stored_file

    return stored_file(store, scope, workspace, path)


def _query_run(tenant: Tenant, run: str) -> QueryCitation | None:
    from recollect.services.data.query_citations import cited_run

    return cited_run(tenant, run)


def _query_result(tenant: Tenant, cited: QueryCitation) -> QueryCitation:
    from recollect.services.data.query_citations import result_now

    return result_now(tenant, cited)


def with_background(core: Core, settings: Settings) -> Core:
    """The same core with background work started, unless the settings turn it off. Closing it ends the work."""
    if not settings.background or settings.readonly:
        return core
    background = EmbeddedBackground(core, settings)
    background.start()
    return replace(core, background=background)


def traced(core: Core) -> Core:
    """The same core with traces, where the environment asks for them. Nothing is imported where it does not."""
    if not wants_traces():
        return core
    from importlib.metadata import version

    from recollect.adapters.open_telemetry import OpenTelemetryTracing

    tracing = OpenTelemetryTracing(version("recollect"))
    tracing.watch(core.store)
    return replace(core, tracing=tracing)


def close(core: Core) -> None:
    """End background work, write what is noted, stop the threads, close the files: each, even if another one fails."""
    with ExitStack() as parts:
        own = (core.store,) if core.owns_store else ()
        working = (core.background,) if core.background is not None else ()
        engine = cast(SupportsClose, core.data_engine)
        for part in (
            *own,
            core.cold_places,
            core.objects,
            core.vectors,
            core.journal,
            engine,
            core.databases,
            *working,
        ):  # the last is closed first
            parts.callback(part.close)


def local_folders() -> Folders:
    """The files of this machine, for clients of a service."""
    from recollect.adapters.local_folders import LocalFolders

    return LocalFolders()


def ensure_organization(store: RecordStore, scope: Scope) -> None:
    id = scope.organization_id
    if not _is_there(store, scope):
        try:
            store.transact(scope, [Insert(Organization(organization_id=id, id=id, name=id))])
        except DuplicateKey:
            return  # another process opened the same new store a moment ago


def require_organization(store: RecordStore, scope: Scope) -> None:
    """Raise NotFound if there is no such organization; the default one is created when it is first used."""
    if scope.organization_id == Settings.model_fields["organization"].default:
        ensure_organization(store, scope)
    else:
        look_for_organization(store, scope)


def look_for_organization(store: RecordStore, scope: Scope) -> None:
    """Raise NotFound if there is no such organization, and create none; the default one need not be there."""
    id = scope.organization_id
    if id != Settings.model_fields["organization"].default and not _is_there(store, scope):
        known = store.tenants()
        more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        there = f"it has {', '.join(known[:MOST_NAMED])}{more}" if known else "it has none yet"
        raise NotFound(
            f"this store has no organization '{id}'", remedy=f"{there}; the first memory stored in one creates it"
        )


def _is_there(store: RecordStore, scope: Scope) -> bool:
    """Also where the key is lost that some fields of its record are encrypted with."""
    query = Query(Organization, (equal("id", scope.organization_id),), deleted="yes")
    return bool(store.select(scope, query, ("id",)))


def _account_of(store: RecordStore, scope: Scope, id: str) -> Literal["user", "key"] | None:
    if store.get(scope, User, id) is not None:
        return "user"
    return "key" if store.get(scope, ApiKey, id) is not None else None


def _is_logged(store: RecordStore, scope: Scope, id: str, about: str | None) -> bool:
    access = (equal("id", id), Compare("memory_id", "!=", about)) if about else (equal("id", id),)
    if store.count(scope, Query(AccessLog, access)):
        return True
    if any(store.count(scope, Query(RECORDS[table], (equal("id", id),))) for table in LOG_TABLES):
        return True
    moved = OneOf("record_table", ("access_log", *LOG_TABLES))
    return bool(store.count(scope, Query(ColdRecord, (equal("record_id", id), moved))))
