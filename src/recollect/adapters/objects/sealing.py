"""How content lies in its storage: as it is, or sealed with the data key of its tenant.

The digest in records is that of the content, whichever way it lies. The name of a sealed object is its digest, sealed
too: the same content has the same name, so it is stored once, but nobody learns from a name what a file contains. What
was stored before there was a key lies under its plain name and is still read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.adapters.encryption.sealed import content_size, seal, unseal
from recollect.adapters.objects.names import FILE_NAME, digest_of, file_name
from recollect.errors import DamagedData, MissingExtra
from recollect.ports.folders import private_opener
from recollect.ports.objects import OBJECT_HASH

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KeyOf = Callable[[str], bytes | None]
"""The data key of a tenant; None where its content is stored as it is."""
_SEALED_NAME = re.compile("[0-9a-f]{96}")


def is_name(name: str) -> bool:
    return FILE_NAME.fullmatch(name) is not None or _SEALED_NAME.fullmatch(name) is not None


def is_sealed_name(name: str) -> bool:
    return _SEALED_NAME.fullmatch(name) is not None


class Sealing:
    """Without `key_of` nothing is sealed."""

    def __init__(self, key_of: KeyOf | None = None) -> None:
        self._key_of = key_of or (lambda tenant: None)

    def names(self, tenant: str, digest: str) -> list[str]:
        """Where content may lie: first as it would be stored now, then as it was before there was a key."""
        plain = file_name(digest)
        key = self._key_of(tenant)
        return [plain] if key is None else [_sealed_name(key, plain), plain]

    def digest_of(self, tenant: str, name: str) -> str | None:
        """What lies under a name; None if it is sealed with a key that is not this tenant's now."""
        if FILE_NAME.fullmatch(name):
            return digest_of(name)
        key = self._key_of(tenant)
        return _opened_name(key, name) if key is not None and is_sealed_name(name) else None

    def stored(self, tenant: str, pieces: Iterable[bytes]) -> Iterable[bytes]:
        """Content as it is to be stored now."""
        key = self._key_of(tenant)
        return pieces if key is None else seal(pieces, _purpose(key, b"content"))

    def content(self, tenant: str, name: str, pieces: Iterable[bytes]) -> Iterable[bytes]:
        """The content of what lies under a name."""
        if not is_sealed_name(name):
            return pieces
        key = self._key_of(tenant)
        if key is None:
            raise DamagedData("stored content is encrypted", remedy="set the key that it was encrypted with")
        return unseal(pieces, _purpose(key, b"content"))

    def size(self, name: str, stored: int) -> int:
        """The size of the content of what takes so many bytes."""
        return content_size(stored) if is_sealed_name(name) else stored


@contextmanager
def opened_file(pieces: Iterable[bytes]) -> Iterator[Path]:
    """A private file with these bytes for as long as the block runs, in memory where the system has such a folder."""
    folder = Path(tempfile.mkdtemp(prefix="recollect-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        path = folder / secrets.token_hex(8)
        with open(path, "xb", opener=private_opener) as file:
            file.writelines(pieces)
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _purpose(key: bytes, purpose: bytes) -> bytes:
    return hmac.new(key, b"recollect objects " + purpose, hashlib.sha256).digest()


def _siv(key: bytes) -> AESSIV:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError:
        raise MissingExtra("encryption is not installed", remedy="pip install 'recollect[encryption]'") from None
    return AESSIV(hmac.new(key, b"recollect objects names", hashlib.sha512).digest())


def _sealed_name(key: bytes, plain: str) -> str:
    return _siv(key).encrypt(bytes.fromhex(plain), None).hex()


def _opened_name(key: bytes, name: str) -> str | None:
    from cryptography.exceptions import InvalidTag

    try:
        return OBJECT_HASH + _siv(key).decrypt(bytes.fromhex(name), None).hex()
    except InvalidTag:
        return None
