"""Whether all that the settings name is there and answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from recollect.app.models import embedder_of
from recollect.app.stores import file_of, record_store
from recollect.errors import InvalidSettings, RecollectError
from recollect.services.upkeep import Finding
from recollect.settings import EmbedderSettings, Settings, load, shown


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
    path = file_of(settings.store)
    if path is None or path.exists():
        return _tried("store", shown(settings.store), lambda: record_store(settings.store)[0].close())
    if path.parent.is_dir() and os.access(path.parent, os.W_OK):
        return Finding(name="store", well=True, says=f"{path} will be made when it is first used")
    return Finding(name="store", well=False, says=f"{path} cannot be made", remedy=f"make '{path.parent}' writable")


def _try_embedder(settings: EmbedderSettings) -> None:
    embedder = embedder_of(settings)
    if embedder is not None:
        embedder.embed_query("hello")


def _tried(name: str, what: str, attempt: Callable[[], object]) -> Finding:
    try:
        attempt()
    except RecollectError as error:
        return Finding(name=name, well=False, says=f"{what}: {error.message}", remedy=error.remedy)
    return Finding(name=name, well=True, says=f"{what} answers")
