"""Whether all that the settings name is there and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

from pydantic import BaseModel, Field

from recollect.app.models import embedder_of, language_model_of
from recollect.app.stores import examine_store
from recollect.app.vectors import examine_vectors
from recollect.errors import InvalidSettings, RecollectError
from recollect.ports.models import Prompt
from recollect.services.upkeep import Finding
from recollect.settings import EmbedderSettings, LanguageModelSettings, Settings, load, shown


def check_settings(source: str | Path | None = None) -> Iterator[Finding]:
    """Try everything the settings name, one after another, without writing or creating anything."""
    try:
        settings = load(source)
    except InvalidSettings as error:
        yield Finding(name="settings", well=False, says=error.message, remedy=error.remedy)
        return
    named = ", ".join(sorted(settings.model_fields_set)) or "nothing"
    yield Finding(name="settings", well=True, says=f"read; other than the default: {named}")
    yield _tried("store", shown(settings.store), lambda: examine_store(settings.store, settings.postgres_upkeep))
    yield _tried("vectors", settings.vectors.provider, lambda: examine_vectors(settings))
    yield _tried("embedder", _title(settings.embedder), lambda: _try_embedder(settings.embedder))
    incoming, model = settings.incoming_embedder, settings.language_model
    if incoming is not None:
        yield _tried("incoming_embedder", _title(incoming), lambda: _try_embedder(incoming))
    if model.provider != "none":
        yield _tried("language_model", _title(model), lambda: _try_model(model))
    yield from _folders(settings)
    if settings.server.hosts and not settings.server.proxies:
        says = "hosts are named and no proxies: behind one, all clients look like one; name it in server.proxies"
        yield Finding(name="server", well=True, says=says)


def _folders(settings: Settings) -> Iterator[Finding]:
    root = (settings.citation_root,) if settings.citation_root else ()
    for folder in (*settings.repositories.values(), *(settings.citation_roots or ()), *root):
        if not folder.is_dir():
            yield Finding(name="citations", well=False, says=f"'{folder}' is no folder", remedy="correct the path")
    tools = settings.postgres_tools
    missing = [name for name in ("pg_dump", "pg_restore") if tools and which(name, path=str(tools)) is None]
    if missing:
        says = f"'{tools}' has no {missing[0]}"
        yield Finding(name="postgres_tools", well=False, says=says, remedy="name the folder of the client programs")


def _title(model: EmbedderSettings | LanguageModelSettings) -> str:
    return f"{model.provider} {model.model or ''}".strip()


def _try_embedder(settings: EmbedderSettings) -> str:
    embedder = embedder_of(settings)
    if embedder is None:
        return "recall goes by words only"
    return f"answers with {len(embedder.embed_query('hello'))} dimensions"


class _Ready(BaseModel):
    """The shortest answer that shows whether a model can follow a shape."""

    ready: bool = Field(description="true")


def _try_model(settings: LanguageModelSettings) -> str:
    model = language_model_of(settings, retries=0)
    assert model is not None, "only asked where one is named"
    answer = model.ask(Prompt("Say that you are ready.", "Are you ready?", 200), _Ready)
    return f"answers in the asked form ({answer.usage.milliseconds} ms)"


def _tried(name: str, what: str, attempt: Callable[[], str]) -> Finding:
    try:
        said = attempt()
    except RecollectError as error:
        return Finding(name=name, well=False, says=f"{what}: {error.message}", remedy=error.remedy)
    return Finding(name=name, well=True, says=f"{what}: {said}")
