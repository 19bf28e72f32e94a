"""The port for large content: files that are too big for a record, such as uploads and the tables made from them.

Content is addressed by its hash, so the same bytes are stored once per tenant and can be checked whenever they are
read. Nothing is ever changed in place. Which content is still needed is not known here: records name it by its digest
(services/data/contents.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

OBJECT_HASH = "o1:"
_DIGEST = re.compile(OBJECT_HASH + "[0-9a-f]{64}")


def object_hash(data: bytes) -> str:
    """The digest of content that is in memory; `put` returns the same for a file."""
    return OBJECT_HASH + hashlib.sha256(data).hexdigest()


def is_object_hash(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def file_digest(path: Path) -> str:
    """The digest of a file, which is read piece by piece."""
    with path.open("rb") as file:
        return OBJECT_HASH + hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """`modified` is when the bytes were written, by the clock of where they are stored."""

    digest: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Every verb may raise Unavailable or one of its kinds when the storage cannot be reached, is full or read-only."""

    @property
    def label(self) -> str:
        """Where content is stored, for people: a folder or an address without secrets."""

    def put(self, tenant: str, source: Path | Iterable[bytes]) -> ObjectInfo:
        """Store content, piece by piece; it is never in memory as a whole.

        On disk when it returns. Content is readable under its digest whole or not at all, whenever the process is
        killed. What is there already is not written again, unless it is damaged. The source is read once or twice; if
        it changes meanwhile, what is stored has the digest that is returned.
        """

    def fetch(self, tenant: str, digest: str) -> AbstractContextManager[Path]:
        """A local file with the content, to be read within the block and never written to.

        The hash is checked when this process reads the file for the first time, and again when the file has changed.
        Raises NotFound, and DamagedData if the bytes are not those that were stored.
        """

    def read(self, tenant: str, digest: str) -> Iterator[bytes]:
        """The content in pieces. Raises NotFound, and DamagedData before the last piece of content that is damaged."""

    def info(self, tenant: str, digest: str) -> ObjectInfo | None:
        """Size and age of stored content; None if there is none. Does not check the hash."""

    def list(self, tenant: str) -> Iterator[ObjectInfo]:
        """Everything stored for a tenant, in no order. What comes or goes meanwhile may be missed."""

    def delete(self, tenant: str, digests: Iterable[str]) -> None:
        """Delete content for good. Deleting what is not there is no error."""

    def delete_tenant(self, tenant: str) -> None:
        """Delete all content of a tenant."""

    def copy_to(self, folder: Path) -> int | None:
        """Copy all content of all tenants to a folder, from which it can be used as it is; how many bytes.

        What is there already is not copied again. None where content is stored elsewhere and stays there.
        """

    def sweep(self) -> int:
        """Delete temporary files that killed processes left; how many. Those of running processes stay."""

    def close(self) -> None:
        """Release what is held. Content that was stored stays, except for a store that lives in memory."""
