"""`recollect config check`: try everything the settings name, and say what is wrong or unsafe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from recollect.app.keys import file_key
from recollect.app.models import embedder_of, language_model_of
from recollect.app.objects import examine_objects, folder_of
from recollect.app.services import connected
from recollect.app.stores import examine_store, file_of, refuse_workers
from recollect.app.unsafe_settings import unsafe_settings
from recollect.app.vectors import examine_vectors
from recollect.errors import InvalidSettings, RecollectError
from recollect.ports.models import Prompt
from recollect.services.admin.maintenance import DoctorFinding
from recollect.settings import EmbedderSettings, LanguageModelSettings, Settings, load, shown
from recollect.settings_files import is_service


def check_settings(source: str | Path | None = None, profile: str | None = None) -> Iterator[DoctorFinding]:
    """Try everything the settings name, one after another, without writing or creating anything."""
    try:
        settings = load(source, profile=profile)
    except InvalidSettings as error:
        yield DoctorFinding(name="settings", well=False, says=error.message, remedy=error.remedy)
        return
    named = ", ".join(sorted(settings.model_fields_set))
    yield DoctorFinding(name="settings", well=True, says=f"valid; set: {named}" if named else "valid; all defaults")
    if is_service(settings.store):
        yield from _service(settings)
        return
    yield _tried("store", shown(settings.store), lambda: _examined(settings))
    yield _tried("vectors", settings.vectors.provider, lambda: examine_vectors(settings))
    if settings.objects is not None:
        yield _tried("objects", shown(settings.objects), lambda: examine_objects(settings))
    yield _tried("embedder", _title(settings.embedder), lambda: _try_embedder(settings.embedder))
    incoming, model = settings.incoming_embedder, settings.language_model
    if incoming is not None:
        yield _tried("incoming_embedder", _title(incoming), lambda: _try_embedder(incoming))
    if model.provider != "none":
        yield _tried("language_model", _title(model), lambda: _try_model(model))
    if settings.server.workers != 1:
        yield _tried("workers", _count(settings), lambda: _workers(settings))
    yield from _folders(settings)
    yield from unsafe_settings(settings, source)
    if settings.server.hosts and not settings.server.proxies:
        says = (
            "server.hosts is set but not server.proxies: behind a proxy, all clients share one address and its limits"
        )
        yield DoctorFinding(
            name="server", well=True, says=says, remedy="name the proxy in server.proxies, if there is one"
        )


def _examined(settings: Settings) -> str:
    return examine_store(settings.store, settings.postgres_upkeep, file_key(settings))


def _service(settings: Settings) -> Iterator[DoctorFinding]:
    """The service that the settings name, and whether it knows the key."""
    yield _tried("service", shown(settings.store), lambda: _reached(settings))
    parts = urlsplit(settings.store)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        says = "the key and all texts travel in the clear"
        yield DoctorFinding(name="https", well=False, says=says, remedy="use an address that begins with https://")


def _reached(settings: Settings) -> str:
    with connected(settings, ()) as mem:
        count = len(mem.call("kind.list").kinds)
    return f"answers, and knows the key; {count} kinds of memory"


def _count(settings: Settings) -> str:
    return str(settings.server.workers or "one per CPU core")


def _workers(settings: Settings) -> str:
    refuse_workers(settings)
    return "processes can serve this store at once"


def _folders(settings: Settings) -> Iterator[DoctorFinding]:
    root = (settings.citation_root,) if settings.citation_root else ()
    for folder in (*settings.repositories.values(), *(settings.citation_roots or ()), *root):
        if not folder.is_dir():
            yield DoctorFinding(
                name="citations", well=False, says=f"'{folder}' is not a folder", remedy="correct the path"
            )
    if settings.citation_roots:
        yield _roots(settings)
    tools = settings.postgres_tools
    missing = [name for name in ("pg_dump", "pg_restore") if tools and which(name, path=str(tools)) is None]
    if missing:
        says = f"there is no {missing[0]} in '{tools}'"
        yield DoctorFinding(
            name="postgres_tools", well=False, says=says, remedy="name the folder of the PostgreSQL client programs"
        )


def _roots(settings: Settings) -> DoctorFinding:
    """Whoever may write to the service can guess lines of files in the roots: they must not hold secrets."""
    roots = [(root, root.expanduser().resolve()) for root in settings.citation_roots or ()]
    for root, place in roots:
        inside = next((what for what, at in _private(settings) if at.resolve().is_relative_to(place)), None)
        if place == Path(place.anchor) or any(place.is_relative_to(one) for one in ("/proc", "/sys", "/dev", "/etc")):
            inside = "system files"
        if inside is not None:
            says = f"'{root}' contains {inside}: anyone who may write to the service can cite it"
            remedy = "list only folders whose files everybody may cite, such as a clone of a repository"
            return DoctorFinding(name="citation_roots", well=False, says=says, remedy=remedy)
    says = f"files in {', '.join(str(root) for root, _ in roots)} can be cited over the service"
    return DoctorFinding(name="citation_roots", well=True, says=says)


def _private(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Files of the store itself, and files with keys: nobody may cite them."""
    store = file_of(settings.store)
    if store is not None:
        yield "the store", store
    if (folder := folder_of(settings)) is not None:
        yield "stored files", folder
    if settings.vectors.path is not None:
        yield "the vector index", settings.vectors.path
    models = (settings.embedder, settings.incoming_embedder, settings.language_model)
    keys = [model.api_key_file for model in models if model is not None]
    for key in (*keys, settings.vectors.secret_file, settings.key_file):
        if key is not None:
            yield "a file with a key", key.expanduser()


def _title(model: EmbedderSettings | LanguageModelSettings) -> str:
    return f"{model.provider} {model.model or ''}".strip()


def _try_embedder(settings: EmbedderSettings) -> str:
    embedder = embedder_of(settings)
    if embedder is None:
        return "no embedder; recall searches by words only"
    return f"works, with {len(embedder.embed_query('hello'))} dimensions"


class _Ready(BaseModel):
    """The shortest answer that shows whether a model follows a JSON schema."""

    ready: bool = Field(description="true")


def _try_model(settings: LanguageModelSettings) -> str:
    model = language_model_of(settings, retries=0)
    assert model is not None, "only asked where one is named"
    answer = model.ask(Prompt("Say that you are ready.", "Are you ready?", 200), _Ready)
    return f"works; answered with valid JSON in {answer.usage.milliseconds} ms"


def _tried(name: str, what: str, attempt: Callable[[], str]) -> DoctorFinding:
    try:
        said = attempt()
    except RecollectError as error:
        return DoctorFinding(name=name, well=False, says=f"{what}: {error.message}", remedy=error.remedy)
    return DoctorFinding(name=name, well=True, says=f"{what}: {said}")
