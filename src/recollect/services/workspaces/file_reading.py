"""Reading a file of a workspace, as it is or as it was in a snapshot."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from pydantic import Field

from recollect.domain.hash_tree import Entry
from recollect.domain.record import Id
from recollect.domain.workspaces import Workspace
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import load
from recollect.services.workspaces.blobs import PARTS, read_blob, read_parts, steadily
from recollect.services.workspaces.files import FileRequest, find_file, no_file
from recollect.services.workspaces.snapshots import entry_of


class ReadFileRequest(FileRequest):
    """A file, now or in a snapshot."""

    snapshot: Id | None = Field(None, description="From this snapshot")


class FileContent(Reply):
    """A file with its content: `text` if it is text, else `base64`."""

    path: str
    bytes: int
    hash: str
    media_type: str
    version: int | None = None
    text: str | None = None
    base64: str | None = None

    @property
    def data(self) -> Any:
        return base64.b64decode(self.base64) if self.base64 is not None else (self.text or "").encode()


def read(tenant: Tenant, request: ReadFileRequest) -> FileContent:
    """A file with its content, checked against its hash."""
    return steadily(lambda: _read(tenant, request))


def _read(tenant: Tenant, request: ReadFileRequest) -> FileContent:
    entry, version = _found(tenant, request)
    return shown(entry, version, read_blob(tenant.store, tenant.scope, entry.content_hash))


def _found(tenant: Tenant, request: ReadFileRequest) -> tuple[Entry, int | None]:
    load(tenant, Workspace, request.id)
    if request.snapshot is not None:
        return entry_of(tenant, request.id, request.snapshot, request.path), None
    file = find_file(tenant, request.id, request.path)
    if file is None:
        raise no_file(request.path)
    return Entry(file.path, file.content_hash, file.size, file.media_type), file.file_version


def shown(entry: Entry, version: int | None, data: bytes) -> FileContent:
    """A file with its content as text, or as base64 if it is not text."""
    about = {"path": entry.path, "bytes": entry.size, "hash": entry.content_hash, "media_type": entry.media_type}
    try:
        return FileContent(**about, version=version, text=data.decode())
    except UnicodeDecodeError:
        return FileContent(**about, version=version, base64=base64.b64encode(data).decode())


class OpenFile(NamedTuple):
    """A file that is read piece by piece; damaged content raises an error."""

    entry: Entry
    version: int | None
    parts: Iterator[bytes]


def open_file(tenant: Tenant, request: ReadFileRequest) -> OpenFile:
    """Open a file of any size. Its first pieces are read here, to retry if it is replaced concurrently."""

    def look() -> OpenFile:
        entry, version = _found(tenant, request)
        parts = read_parts(tenant.store, tenant.scope, entry.content_hash)
        first = list(islice(parts, PARTS))
        return OpenFile(entry, version, chain(first, parts))

    return steadily(look)
