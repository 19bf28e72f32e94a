"""Where files of cold storage may go: the store's own large content, or an address that is given or set."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from recollect.app.objects import remote_objects
from recollect.errors import Denied, InvalidInput
from recollect.ports.objects import ObjectStore
from recollect.ports.records import Scope
from recollect.settings import Settings, checked_storage

LONGEST_ADDRESS = 2000


class ObjectPlaces:
    """Fills `ports/cold.py:ColdPlaces`. Each place is opened once; nothing is reached before it is used."""

    def __init__(self, settings: Settings, own: ObjectStore, key_of: Callable[[str], bytes | None]) -> None:
        self._settings, self._key_of = settings, key_of
        self._own = own
        self._opened = [normalized(one) for one in settings.cold.addresses]
        self.default = None if settings.cold.to is None else normalized(settings.cold.to)
        self._lock = threading.Lock()
        self._stores: dict[str, ObjectStore] = {}

    def __call__(self, address: str | None, scope: Scope) -> ObjectStore:
        if address is None:
            return self._own
        address = normalized(address)
        if scope.granted is not None and address != self.default and not any(map(address.startswith, self._within())):
            raise Denied(
                "that address is not open for cold storage over the network",
                remedy="leave it out to use the default, or have the operator add it to `cold.addresses`",
            )
        with self._lock:
            if address not in self._stores:
                self._stores[address] = self._store(address)
            return self._stores[address]

    def spelt(self, address: str) -> str:
        return normalized(address)

    def _within(self) -> list[str]:
        """With the slash that ends a folder, so that s3://a/bc is not within s3://a/b."""
        return [one.rstrip("/") + "/" for one in self._opened]

    def _store(self, address: str) -> ObjectStore:
        from recollect.adapters.objects.folder import FolderObjects
        from recollect.adapters.objects.sealing import Sealing

        sealing = Sealing(self._key_of)
        if urlsplit(address).scheme == "file":
            return FolderObjects(Path(unquote(urlsplit(address).path)), sealing)
        return remote_objects(address, self._settings, sealing, is_cold=True)

    def close(self) -> None:
        with self._lock:
            for store in self._stores.values():
                store.close()


def normalized(address: str) -> str:
    """One spelling of an address, which ends in a slash; a folder is written as file:///…, without links or dots."""
    if len(address) > LONGEST_ADDRESS:
        raise InvalidInput("that address is too long", remedy=f"give at most {LONGEST_ADDRESS} characters")
    try:
        checked_storage(address)
    except ValueError as error:
        raise InvalidInput(f"the address {error}", remedy="give a folder or s3://bucket/prefix") from None
    parts = urlsplit(address) if "://" in address else None
    if parts is None or parts.scheme == "file":
        folder = Path(unquote(parts.path) if parts is not None else address).expanduser().resolve()
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"'{folder}' is not a folder", remedy="give a folder, which need not exist yet")
        return folder.as_uri().rstrip("/") + "/"
    if "@" in parts.netloc or parts.query or parts.fragment or ".." in parts.path.split("/"):
        raise InvalidInput(
            "an address of cold storage is a bucket and a path, such as s3://bucket/path",
            remedy="leave out credentials and options; they come from the environment",
        )
    return f"{parts.scheme}://{parts.netloc}/{parts.path.strip('/')}".rstrip("/") + "/"
