"""Sealed files: content of any size, encrypted and authenticated piece by piece.

A sealed file begins with a line that says what it is and a line of JSON: the wrapped data key, where the file carries
its own. Then follow pieces of 64 KiB, each AES-256-GCM. The nonce of a piece is its number and whether it is the last,
so pieces cannot be swapped, repeated or cut off unnoticed; the key is that of this file alone, derived from the data
key and a salt in the header, and the header is authenticated with every piece.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.adapters.encryption import aes_gcm
from recollect.adapters.encryption.master_key import new_data_key
from recollect.errors import DamagedData
from recollect.ports.keys import KeyService, Writable

MAGIC = b"recollect sealed 1\n"
PIECE = 1 << 16
_TAG = 16
_LONGEST_HEADER = 4096
_CONTEXT = "file"
_DAMAGED = "take another copy of it, such as an earlier backup"


class _Header(BaseModel):
    """`key` is empty where the reader knows the data key."""

    model_config = ConfigDict(extra="forbid")

    salt: str = Field(pattern="^[0-9a-f]{32}$")
    key: str = ""


_OWN_HEADER = len(MAGIC) + len(_Header(salt="0" * 32).model_dump_json()) + 1


def is_sealed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class Sealer:
    """Seals the pieces of one file, one after the other, with a data key, or with a new one that the file carries."""

    def __init__(self, key: bytes | KeyService) -> None:
        wrapped, salt = "", os.urandom(16).hex()
        if not isinstance(key, bytes):
            service, key = key, new_data_key()
            wrapped = service.wrap(key, _CONTEXT)
        self.header = MAGIC + _Header(salt=salt, key=wrapped).model_dump_json().encode() + b"\n"
        self._cipher = aes_gcm(_file_key(key, salt))
        self._number = 0

    def piece(self, data: bytes, *, is_last: bool = False) -> bytes:
        sealed = self._cipher.encrypt(_nonce(self._number, is_last), data, self.header)
        self._number += 1
        return sealed


class Opener:
    """Opens the pieces of one file. Raises WrongKey."""

    def __init__(self, header: bytes, key: bytes | KeyService) -> None:
        try:
            fields = _Header.model_validate_json(header[len(MAGIC) :])
        except ValidationError:
            raise DamagedData("the start of an encrypted file is damaged", remedy=_DAMAGED) from None
        if not isinstance(key, bytes):
            key = key.unwrap(fields.key, _CONTEXT)
        self._header, self._cipher = header, aes_gcm(_file_key(key, fields.salt))

    def piece(self, number: int, sealed: bytes, is_last: bool = False) -> bytes:
        """Raises DamagedData where it is not that piece as it was sealed."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(_nonce(number, is_last), sealed, self._header)
        except InvalidTag:
            raise DamagedData("this is not what was encrypted, or with another key", remedy=_DAMAGED) from None


def seal(pieces: Iterable[bytes], key: bytes | KeyService) -> Iterator[bytes]:
    """Content of any size, sealed."""
    sealer = Sealer(key)
    yield sealer.header
    waiting = b""
    for piece in _even(pieces):
        if waiting:
            yield sealer.piece(waiting)
        waiting = piece
    yield sealer.piece(waiting, is_last=True)


def unseal(pieces: Iterable[bytes], key: bytes | KeyService) -> Iterator[bytes]:
    """The content again. Raises WrongKey, and DamagedData before anything that is not as it was sealed."""
    incoming = iter(pieces)
    header, rest = _header(incoming)
    opener, number, waiting = Opener(header, key), 0, b""
    for piece in _even(_chained(rest, incoming), PIECE + _TAG):
        if waiting:
            yield opener.piece(number, waiting)
            number += 1
        waiting = piece
    yield opener.piece(number, waiting, is_last=True)


class SealedWriter:
    """Encrypts what is written piece by piece, for those who write rather than hand over pieces; `end` is needed."""

    def __init__(self, file: Writable, key: bytes | KeyService) -> None:
        self._file, self._sealer, self._waiting = file, Sealer(key), bytearray()
        file.write(self._sealer.header)

    def write(self, data: bytes | memoryview, /) -> None:
        self._waiting += data
        while len(self._waiting) > PIECE:  # the last piece is sealed as such, so one is held back
            self._file.write(self._sealer.piece(bytes(self._waiting[:PIECE])))
            del self._waiting[:PIECE]

    def end(self) -> None:
        self._file.write(self._sealer.piece(bytes(self._waiting), is_last=True))


class Sliceable(Protocol):
    """Bytes of which some are taken: a memory view, or a file that is read where it is needed."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes | memoryview: ...


class SealedPieces:
    """The pieces of a sealed file, in any order."""

    def __init__(self, sealed: Sliceable, key: bytes | KeyService) -> None:
        self._sealed = sealed
        header, _ = _header(iter((bytes(sealed[0:_LONGEST_HEADER]),)))
        self._start, self._opener = len(header), Opener(header, key)
        stored = len(sealed) - self._start
        self.count = max(1, -(-stored // (PIECE + _TAG)))
        self.size = max(0, stored - self.count * _TAG)

    def piece(self, number: int) -> bytes:
        """Raises DamagedData where it is not as it was sealed, or the file was cut."""
        start = self._start + number * (PIECE + _TAG)
        return self._opener.piece(number, bytes(self._sealed[start : start + PIECE + _TAG]), number == self.count - 1)


def content_size(sealed: int) -> int:
    """How large the content is of a file of this size that was sealed with a data key."""
    pieces = max(1, -(-(sealed - _OWN_HEADER) // (PIECE + _TAG)))
    return max(0, sealed - _OWN_HEADER - pieces * _TAG)


def _header(incoming: Iterator[bytes]) -> tuple[bytes, bytes]:
    start = b""
    for piece in incoming:
        start += piece
        if start.count(b"\n") >= 2 or len(start) > _LONGEST_HEADER:
            break
    end = start.find(b"\n", len(MAGIC)) + 1
    if not start.startswith(MAGIC) or not 0 < end <= _LONGEST_HEADER:
        raise DamagedData("the start of an encrypted file is damaged", remedy=_DAMAGED)
    return start[:end], start[end:]


def _fields(header: bytes) -> _Header:
    try:
        return _Header.model_validate_json(header[len(MAGIC) :])
    except ValidationError:
        raise DamagedData("the start of an encrypted file is damaged", remedy=_DAMAGED) from None


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _even(pieces: Iterable[bytes], size: int = PIECE) -> Iterator[bytes]:
    """The same bytes in pieces of one size, except for the last."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        start = 0
        while len(waiting) - start >= size:
            yield bytes(waiting[start : start + size])
            start += size
        del waiting[:start]
    if waiting:
        yield bytes(waiting)


def _file_key(key: bytes, salt: str) -> bytes:
    return hmac.new(key, b"recollect file " + bytes.fromhex(salt), hashlib.sha256).digest()


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if is_last else b"\x00")
