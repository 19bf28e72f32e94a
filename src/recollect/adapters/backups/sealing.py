"""How chunks and lists of backups are stored: compressed, and encrypted where there is a key.

A chunk is named by the hash of its content; with a key, by a keyed hash, so that nobody can tell from its name what it
holds. Each data key belongs to one place, lies there in wrapped form, and has a folder of chunks of its own: a place
that was begun without a key, or with another, goes on with both.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import zlib
from collections.abc import Iterator
from typing import Protocol

from recollect.adapters.backups.place import Place
from recollect.adapters.encryption import aes_gcm
from recollect.adapters.encryption.master_key import new_data_key
from recollect.errors import DamagedData, WrongKey
from recollect.ports.keys import KeyService

PLAIN = "plain"
_CONTEXT = "backups"
_NONCE = 12
_DAMAGED = "take another backup, such as an earlier one; the next backup stores this part again"
_MOST_INFLATED = 1 << 30


class Sealing(Protocol):
    """`id` names the folder of chunks; the name of what is sealed is authenticated with it."""

    id: str

    def name(self, data: bytes) -> str: ...

    def seal(self, data: bytes, name: str) -> bytes: ...

    def open(self, stored: bytes, name: str) -> bytes:
        """Raises DamagedData where it is not what was sealed under this name."""


class Plain:
    id = PLAIN

    def name(self, data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    def seal(self, data: bytes, name: str) -> bytes:
        return zlib.compress(data, 1)

    def open(self, stored: bytes, name: str) -> bytes:
        return _inflated(stored, name)


class Keyed:
    def __init__(self, id: str, key: bytes) -> None:
        self.id = id
        self._naming = hmac.digest(key, b"names of chunks", "sha256")
        self._cipher = aes_gcm(hmac.digest(key, b"content of chunks", "sha256"))

    def name(self, data: bytes) -> str:
        return hmac.digest(self._naming, data, "sha256").hex()

    def seal(self, data: bytes, name: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, zlib.compress(data, 1), name.encode())

    def open(self, stored: bytes, name: str) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return _inflated(self._cipher.decrypt(stored[:_NONCE], stored[_NONCE:], name.encode()), name)
        except (InvalidTag, ValueError):
            raise _damaged(name) from None


def _inflated(stored: bytes, name: str) -> bytes:
    inflating = zlib.decompressobj()
    try:
        data = inflating.decompress(stored, _MOST_INFLATED)
    except zlib.error:
        raise _damaged(name) from None
    if not inflating.eof or inflating.unconsumed_tail:
        raise _damaged(name)
    return data


def _damaged(name: str) -> DamagedData:
    return DamagedData(f"the part '{name[:80]}' of the backup is damaged", remedy=_DAMAGED)


class Sealings:
    """The ways in which things are sealed at a place. `keys` is what the settings name; without it, nothing is."""

    def __init__(self, place: Place, keys: KeyService | None) -> None:
        self._place, self._keys = place, keys
        self._known: dict[str, Sealing] = {PLAIN: Plain()}

    def of(self, id: str) -> Sealing:
        """How something that is there is sealed. Raises WrongKey where our key does not open it."""
        if id not in self._known:
            if self._keys is None:
                raise WrongKey(
                    f"the backups in {self._place.label} are encrypted",
                    remedy="give the key they were made with: see `key`, `key_file` and `key_command` in the settings",
                )
            wrapped = json.loads(self._place.get(f"keys/{id}"))["key"]
            self._known[id] = Keyed(id, self._keys.unwrap(wrapped, _CONTEXT))
        return self._known[id]

    def for_writing(self) -> Sealing:
        """With our key; a place that has no data key that it opens gets one."""
        if self._keys is None:
            return self._known[PLAIN]
        for id in self._ids():
            try:
                return self.of(id)
            except WrongKey:
                continue  # of an earlier master key
        id, key = os.urandom(8).hex(), new_data_key()
        self._place.put(f"keys/{id}", json.dumps({"key": self._keys.wrap(key, _CONTEXT)}).encode())
        self._known[id] = Keyed(id, key)
        return self._known[id]

    def _ids(self) -> Iterator[str]:
        yield from sorted(name.rpartition("/")[2] for name in self._place.names("keys"))
