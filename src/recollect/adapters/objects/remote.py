"""Content in S3, Google Cloud Storage or Azure Blob Storage, through obstore.

An object is uploaded whole or not at all: large ones in parts, which become one object when the last is there. Of a
killed process unfinished parts may remain in the bucket, where nobody can read them; a lifecycle rule of the bucket
deletes them. Credentials, endpoint and region come from the environment variables that obstore knows (AWS_*, GOOGLE_*,
AZURE_*). Who needs a file gets a local copy (adapters/objects/cache.py). (tests/adapters/objects)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.adapters.objects.cache import ObjectCache, Wanted
from recollect.adapters.objects.folder import missing
from recollect.adapters.objects.hashing import HashedPieces, damaged, hash_of, pieces_of, source_pieces
from recollect.adapters.objects.names import folder_name
from recollect.adapters.objects.sealing import Sealing, is_name, is_sealed_name, opened_file
from recollect.errors import Conflict, DamagedData, InvalidSettings, MissingExtra, Unavailable
from recollect.ports.objects import ObjectInfo

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

log = logging.getLogger("recollect.objects")
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 4
DELETED_AT_ONCE = 1000


class RemoteObjects:
    """`url` such as s3://bucket/prefix; nothing is imported or reached before it is used."""

    def __init__(self, url: str, cache: ObjectCache, sealing: Sealing | None = None) -> None:
        self._url = url
        self._cache = cache
        self._sealing = sealing or Sealing()

    @property
    def label(self) -> str:
        return self._url

    @cached_property
    def _bucket(self) -> Bucket:
        return opened_bucket(self._url)

    def put(self, tenant: str, source: Path | Iterable[bytes]) -> ObjectInfo:
        if isinstance(source, Path):
            digest = hash_of(source_pieces(source))
            pieces = self._sealing.stored(tenant, _unchanged(source, digest))
            return self._uploaded(tenant, pieces, digest, source.stat().st_size)
        given = HashedPieces(source)
        with self._cache.written(self._sealing.stored(tenant, given)) as temporary:
            return self._uploaded(tenant, pieces_of(temporary), given.digest, given.size)

    def _uploaded(self, tenant: str, pieces: Iterable[bytes], digest: str, size: int) -> ObjectInfo:
        name = self._sealing.names(tenant, digest)[0]
        there = self._described(tenant, name, digest)
        if there is not None and there.size == size:
            return there
        with typed_storage_errors():
            try:
                self._bucket.put(
                    _key(tenant, name),
                    iter(pieces),
                    chunk_size=PART_BYTES,
                    max_concurrency=PARTS_AT_ONCE,
                )
            except FileNotFoundError as error:
                raise InvalidSettings(
                    f"there is no bucket for '{self._url}'", remedy="create it, or change the setting `objects`"
                ) from error
        return self._known(tenant, digest)[1]

    def _known(self, tenant: str, digest: str) -> tuple[str, ObjectInfo]:
        for name in self._sealing.names(tenant, digest):
            if (info := self._described(tenant, name, digest)) is not None:
                return name, info
        raise missing(digest)

    def _described(self, tenant: str, name: str, digest: str) -> ObjectInfo | None:
        with typed_storage_errors():
            try:
                found = self._bucket.head(_key(tenant, name))
            except FileNotFoundError:
                return None
        return ObjectInfo(digest, self._sealing.size(name, found["size"]), found["last_modified"])

    @contextmanager
    def fetch(self, tenant: str, digest: str) -> Iterator[Path]:
        name, info = self._known(tenant, digest)  # what is deleted is not served from a copy
        content = partial(self._sealing.content, tenant, name)
        remedy = self._remedy(tenant, name)
        wanted = Wanted(tenant, name, digest, info.size, lambda path: content(pieces_of(path)), remedy)
        with self._cache.fetch(wanted, lambda: self._downloaded(tenant, name, digest)) as path:
            if not is_sealed_name(name):
                yield path
                return
            with opened_file(content(pieces_of(path))) as opened:
                yield opened

    def read(self, tenant: str, digest: str) -> Iterator[bytes]:
        name, _ = self._known(tenant, digest)
        downloaded = self._downloaded(tenant, name, digest)
        pieces, held_back = HashedPieces(self._sealing.content(tenant, name, downloaded)), b""
        remedy = self._remedy(tenant, name)
        try:
            for piece in pieces:
                if held_back:
                    yield held_back
                held_back = piece
        except DamagedData:
            raise damaged(digest, remedy) from None
        if pieces.digest != digest:
            raise damaged(digest, remedy)
        if held_back:
            yield held_back

    def _remedy(self, tenant: str, name: str) -> str:
        return f"delete '{_key(tenant, name)}' from {self._url} and upload the file again, or restore a backup"

    def _downloaded(self, tenant: str, name: str, digest: str) -> Iterator[bytes]:
        with typed_storage_errors():
            try:
                stream = self._bucket.get(_key(tenant, name)).stream(min_chunk_size=1 << 20)
            except FileNotFoundError:
                raise missing(digest) from None
        while True:
            with typed_storage_errors():
                piece = next(stream, None)
            if piece is None:
                return
            yield bytes(piece)

    def info(self, tenant: str, digest: str) -> ObjectInfo | None:
        found = (self._described(tenant, name, digest) for name in self._sealing.names(tenant, digest))
        return next((info for info in found if info is not None), None)

    def list(self, tenant: str) -> Iterator[ObjectInfo]:
        seen: set[str] = set()
        for name, size, modified in self._names(tenant):
            digest = self._sealing.digest_of(tenant, name)
            if digest is not None and digest not in seen:
                seen.add(digest)
                yield ObjectInfo(digest, self._sealing.size(name, size), modified)

    def _names(self, tenant: str) -> Iterator[tuple[str, int, datetime]]:
        with typed_storage_errors():
            pages = self._bucket.list(folder_name(tenant), chunk_size=DELETED_AT_ONCE)
        while True:
            with typed_storage_errors():
                page = next(pages, None)
            if page is None:
                return
            for found in page:
                name = found["path"].rpartition("/")[2]
                if is_name(name):
                    yield name, found["size"], found["last_modified"]

    def delete(self, tenant: str, digests: Iterable[str]) -> None:
        self._delete_names(tenant, [name for digest in digests for name in self._sealing.names(tenant, digest)])

    def _delete_names(self, tenant: str, names: Sequence[str]) -> None:
        for start in range(0, len(names), DELETED_AT_ONCE):
            keys = [_key(tenant, name) for name in names[start : start + DELETED_AT_ONCE]]
            with typed_storage_errors():
                try:
                    self._bucket.delete(keys)
                except FileNotFoundError:  # Google and Azure stop at the first that is missing
                    for key in keys:
                        with suppress(FileNotFoundError):
                            self._bucket.delete(key)
        self._cache.forget(tenant, names)

    def delete_tenant(self, tenant: str) -> None:
        self._delete_names(tenant, [name for name, *_ in self._names(tenant)])
        self._cache.forget_tenant(tenant)

    def copy_to(self, folder: Path) -> None:
        """It stays in the bucket."""

    def sweep(self) -> int:
        return self._cache.sweep()

    def close(self) -> None:
        """Nothing is held between two calls."""


def opened_bucket(url: str) -> Bucket:
    """The client of a bucket; nothing is reached yet."""
    with typed_storage_errors():
        from obstore.store import from_url

        return from_url(
            url,
            client_options={
                "allow_http": True,  # who gives an http:// endpoint means it; the clouds' own are https
                "connect_timeout": timedelta(seconds=10),
                "read_timeout": timedelta(seconds=60),
                "timeout": timedelta(hours=1),
            },
            retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=60)},
        )


def _key(tenant: str, name: str) -> str:
    return f"{folder_name(tenant)}/{name}"


def _unchanged(path: Path, digest: str) -> Iterator[bytes]:
    """The pieces of a file; an error at the end, which discards the upload, if it is not the file that was hashed."""
    pieces = HashedPieces(source_pieces(path))
    yield from pieces
    if pieces.digest != digest:
        raise Conflict("the file changed while it was uploaded", remedy="upload it again when nobody writes to it")


@contextmanager
def typed_storage_errors() -> Iterator[None]:
    """Errors of the storage in our words. What it said is logged: it may name hosts that callers need not know."""
    try:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
    except ImportError:
        raise MissingExtra(
            "the package for object storage is not installed", remedy="pip install 'recollect[data]'"
        ) from None
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        log.warning("the object storage refused: %s", _first_line(error))
        raise Unavailable(
            "the object storage refused access",
            remedy="check the credentials in the environment (such as AWS_ACCESS_KEY_ID) and what they may do",
        ) from error
    except BaseError as error:
        log.warning("the object storage failed: %s", _first_line(error))
        raise Unavailable(
            "the object storage cannot be used now",
            remedy="check the address and the credentials, or try again; the log has the reason",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
