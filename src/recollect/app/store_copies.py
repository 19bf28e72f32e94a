"""Copy one store into another, of any kind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from recollect.app.keys import key_service
from recollect.app.objects import copy_objects, object_store
from recollect.app.stores import file_of, record_store, refuse_missing
from recollect.errors import InvalidInput, NotFound
from recollect.ports.records import RecordStore
from recollect.services.admin import copy as copying
from recollect.services.admin.copy import CopyReply
from recollect.services.keyed_hashes import Keyring
from recollect.services.memories.indexing import Progress
from recollect.settings import LanguageModelSettings, Settings, VectorSettings, load


def copy(
    source: str | Path, target: str | Path, organizations: Sequence[str] = (), progress: Progress | None = None
) -> CopyReply:
    """Copy everything from one store to another, of any kind; run it again to continue where it stopped."""
    origin, destination = load(source), load(target)
    if origin.store == destination.store:
        raise InvalidInput("source and target are the same store", remedy="give two different stores")
    path = file_of(origin.store)
    if path is not None and not path.is_file():
        raise NotFound(f"there is no store '{origin.store}'", remedy="check the path")
    here, there = (
        record_store(one.store, one.postgres_upkeep, key_service(one)).store for one in (origin, destination)
    )
    with closing(here), closing(there):
        reply = copying.copy(here, there, organizations, progress or (lambda done, total: None))
        own, others = keyring_of(here, origin), keyring_of(there, destination)
        with (
            closing(object_store(origin, own.content_key)) as files,
            closing(object_store(destination, others.content_key)) as copies,
        ):
            notes = copy_objects(files, copies, content_places(own, others, organizations or here.tenants()))
        return reply.model_copy(update={"notes": notes})


def keyring_of(store: RecordStore, settings: Settings) -> Keyring:
    return Keyring(store, is_encrypting=key_service(settings) is not None)


def content_places(own: Keyring, others: Keyring, organizations: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Where the large content of organizations lies in two stores; those that never had any are left out."""
    for organization in organizations:
        if (place := own.known_content_place(organization)) is not None:
            yield place, others.content_place(organization)


@contextmanager
def temporary_copy(settings: Settings, progress: Progress | None = None, **changes: object) -> Iterator[Settings]:
    """The settings of a copy of a store in a temporary folder, which is deleted after the block.

    The copy has all records and no large content. It is a DuckDB file for a DuckDB store and else an SQLite file, with
    the same key where the store has one, and reaches nothing outside: no index, no model, no files, no pages.
    """
    refuse_missing(settings.store)
    with tempfile.TemporaryDirectory(prefix="recollect-copy-") as folder:
        here = record_store(settings.store, settings.postgres_upkeep, key_service(settings)).store
        with closing(here):
            is_duckdb = here.capabilities.name == "duckdb"
            place = f"duckdb:///{folder}/copy.duckdb" if is_duckdb else str(Path(folder) / "copy.db")
            alone = {
                "store": place,
                "objects": None,
                "vectors": VectorSettings(),
                "language_model": LanguageModelSettings(),
            }
            quiet = {"citation_roots": [], "citation_root": Path(folder), "fetch": False, "background": False}
            target = settings.model_copy(update={**alone, **quiet, **changes})
            with closing(record_store(place, target.postgres_upkeep, key_service(target)).store) as there:
                copying.copy(here, there, (), progress or (lambda done, total: None))
        yield target
