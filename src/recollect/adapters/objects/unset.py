"""The storage of a store that has no folder and whose settings name none: it holds nothing, and says what to set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.adapters.objects.folder import missing
from recollect.errors import InvalidSettings
from recollect.ports.objects import ObjectInfo


class UnsetObjects:
    label = "not set"

    def put(self, tenant: str, source: Path | Iterable[bytes]) -> ObjectInfo:
        raise _unset()

    @contextmanager
    def fetch(self, tenant: str, digest: str) -> Iterator[Path]:
        raise missing(digest)
        yield

    def read(self, tenant: str, digest: str) -> Iterator[bytes]:
        raise missing(digest)

    def info(self, tenant: str, digest: str) -> ObjectInfo | None:
        return None

    def list(self, tenant: str) -> Iterator[ObjectInfo]:
        return iter(())

    def delete(self, tenant: str, digests: Iterable[str]) -> None:
        if list(digests):
            raise _unset()  # it is where the setting said when it was put

    def delete_tenant(self, tenant: str) -> None:
        """There is nothing."""

    def copy_to(self, folder: Path) -> int:
        return 0

    def sweep(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is held."""


def _unset() -> InvalidSettings:
    return InvalidSettings(
        "this store has no place for large content",
        remedy="set `objects` (RECOLLECT_OBJECTS) to a folder or an address such as s3://bucket/prefix",
    )
