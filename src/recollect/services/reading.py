"""Reading a file of a workspace, as it is or as it was in a snapshot."""

from __future__ import annotations

import base64
from typing import Any

from pydantic import Field

from recollect.domain.record import Id
from recollect.domain.trees import Entry
from recollect.domain.workspaces import Workspace
from recollect.ports.records import Scope
from recollect.services.blobs import read_blob, steadily
from recollect.services.core import Core, Reply, load
from recollect.services.snapshots import entry_of
from recollect.services.workspaces import FileRequest, find_file, no_file


class ReadFileRequest(FileRequest):
    """A file, now or in a snapshot."""

    snapshot: Id | None = Field(None, description="As it was in this snapshot")


class FileContent(Reply):
    """A file with its content: `text` where it is text, or else `base64`."""

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


def read(core: Core, scope: Scope, request: ReadFileRequest) -> FileContent:
    """A file with its content, proven by its hash."""
    return steadily(lambda: _read(core, scope, request))


def _read(core: Core, scope: Scope, request: ReadFileRequest) -> FileContent:
    load(core, scope, Workspace, request.id)
    if request.snapshot is not None:
        return _shown(core, scope, entry_of(core, scope, request.id, request.snapshot, request.path), None)
    file = find_file(core, scope, request.id, request.path)
    if file is None:
        raise no_file(request.path)
    return _shown(core, scope, Entry(file.path, file.content_hash, file.size, file.media_type), file.file_version)


def _shown(core: Core, scope: Scope, entry: Entry, version: int | None) -> FileContent:
    data = read_blob(core.store, scope, entry.content_hash)
    about = {"path": entry.path, "bytes": entry.size, "hash": entry.content_hash, "media_type": entry.media_type}
    try:
        return FileContent(**about, version=version, text=data.decode())
    except UnicodeDecodeError:
        return FileContent(**about, version=version, base64=base64.b64encode(data).decode())
