"""Fields that are declared `encrypted`, sealed with the data key of their organization.

A sealed value is AES-256-GCM with a random nonce. Organization, table, record and field are authenticated with it, so
a value that somebody moved to another place does not open there. It says by which data key it was sealed: after a
change of keys both kinds stand beside each other until everything is sealed anew. Values from before there was a key
stay as they are; a plain value that looks sealed is written with a mark of its own.

`encrypted_texts` are sealed the same way where the organization has its texts encrypted. `encrypted_hashes` go with
them, by AES-SIV: the same hash in the same field is always the same sealed value, so the store finds equal ones. And
the text index then holds, in place of each term, a keyed hash of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic_core import from_json

from recollect.adapters.encryption import aes_gcm, aes_siv
from recollect.adapters.records.common.dialect import json_text
from recollect.domain.record import ColumnType
from recollect.errors import DamagedData

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_NONCE = 12
_TERM = 12  # bytes of a keyed term: two of an organization are the same by chance once in 10^14 terms
_SEALED = re.compile(rb"sealed:(?:0:|1:([0-9a-f]{16}):)")
_SEALED_TEXT = re.compile("sealed:(?:0:|[12]:([0-9a-f]{16}):)")
_HASH = "sealed:2:"
_MARK, _PLAIN = "sealed:", "sealed:0:"
_stale: ContextVar[set[tuple[str, str]] | None] = ContextVar("stale", default=None)


class Place(NamedTuple):
    """What a sealed value belongs to."""

    organization_id: str
    table: str
    id: str
    field: str


class DataKey:
    """A key of one organization, named by a hash of itself; its repr, which ends up in logs, shows no key."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.id = hashlib.sha256(b"recollect data key " + raw).hexdigest()[:16]
        self._cipher = aes_gcm(raw)

    def __repr__(self) -> str:
        return f"DataKey({self.id})"

    def seal(self, plain: bytes, place: Place) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, json_text(place).encode())

    def open(self, sealed: bytes, place: Place) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], json_text(place).encode())
        except (InvalidTag, ValueError):
            raise _altered(place) from None

    def seal_hash(self, plain: bytes, place: Place) -> bytes:
        """The same in every record."""
        return self._siv.encrypt(plain, [json_text(place._replace(id="")).encode()])

    def open_hash(self, sealed: bytes, place: Place) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._siv.decrypt(sealed, [json_text(place._replace(id="")).encode()])
        except (InvalidTag, ValueError):
            raise _altered(place) from None

    def term(self, term: str) -> str:
        """What stands for a term in the text index: it can be compared, but not guessed without the key."""
        digest = hmac.digest(self._term_key, term.encode(), "sha256")
        return base64.urlsafe_b64encode(digest[:_TERM]).decode()

    @cached_property
    def _siv(self) -> AESSIV:
        return aes_siv(hmac.digest(self.raw, b"recollect hashes", "sha512"))

    @cached_property
    def _term_key(self) -> bytes:
        return hmac.digest(self.raw, b"recollect terms of the text index", "sha256")


class DataKeySource(Protocol):
    """Where a cipher finds data keys; see data_keys.py."""

    def current(self, organization_id: str) -> DataKey | None:
        """What is sealed with now; None where nothing is."""

    def named(self, organization_id: str, key_id: str) -> DataKey:
        """Raises WrongKey where it cannot be opened."""

    def seals_texts(self, organization_id: str) -> bool:
        """Whether texts are sealed that are written now."""

    def has_sealed_texts(self, organization_id: str, key_id: str | None = None) -> bool:
        """Whether a text that looks sealed, by the key of this id or by none, may be; or just happens to begin so."""

    def text_keys(self, organization_id: str, *, fresh: bool = False) -> Sequence[DataKey | None]:
        """All that stored texts may be sealed with at the moment; None where some may be in the clear. `fresh` for
        those who only search: whoever writes is told when the keys have changed.
        """


class FieldCipher:
    """`texts`: whether the store encrypts texts one by one; a store in a file is encrypted as a whole or not at all."""

    def __init__(self, keys: DataKeySource, *, texts: bool = True) -> None:
        self._keys = keys
        self.texts = texts

    def seal(self, place: Place, type: ColumnType, value: Any) -> object:
        """The value to store in a column of the same type; the value itself where there is no key."""
        key = self._keys.current(place.organization_id)
        if type == "bytes":
            if key is not None:
                return b"%s1:%s:" % (_MARK.encode(), key.id.encode()) + key.seal(value, place)
            return _PLAIN.encode() + value if _SEALED.match(value) else value
        if key is not None:
            text = json_text(value) if type == "json" else value
            return f"{_MARK}1:{key.id}:{base64.urlsafe_b64encode(key.seal(text.encode(), place)).decode()}"
        return _PLAIN + value if type == "text" and _looks_sealed(value) else value

    def seal_text(self, place: Place, type: ColumnType, value: Any) -> object:
        """The same for a field that is encrypted where the texts of its organization are."""
        if self._keys.seals_texts(place.organization_id):
            return self.seal(place, type, value)
        is_odd = type == "text" and _looks_sealed(value) and self._keys.has_sealed_texts(place.organization_id)
        return _PLAIN + value if is_odd else value

    def seal_hash(self, place: Place, type: ColumnType, value: Any) -> object:
        if not self._keys.seals_texts(place.organization_id):
            return value
        key = self._keys.current(place.organization_id)
        return value if key is None else _sealed_hash(key, place, value)

    def seals_texts(self, organization_id: str) -> bool:
        return self.texts and self._keys.seals_texts(organization_id)

    def hash_forms(self, place: Place, value: str) -> list[str]:
        """All that a hash may be stored as at the moment."""
        keys = self._keys.text_keys(place.organization_id)
        return [value if key is None else _sealed_hash(key, place, value) for key in keys]

    def term_keys(self, organization_id: str) -> Sequence[DataKey | None]:
        """What terms of the text index may be keyed with at the moment; None where some are as they are."""
        return self._keys.text_keys(organization_id, fresh=True)

    def term_key(self, organization_id: str) -> DataKey | None:
        """What terms are keyed with that are written now; None where they are written as they are."""
        return self._keys.current(organization_id) if self.seals_texts(organization_id) else None

    def open_text(self, place: Place, type: ColumnType, value: Any) -> object:
        """For texts and their hashes. Nearly all are in the clear, and recognised without a look at the keys."""
        mark = _SEALED_TEXT.match(value) if isinstance(value, str) else None
        key_id = mark[1] if mark is not None else None
        if mark is None or not self._keys.has_sealed_texts(place.organization_id, key_id):
            self._note_stale_text(place, None)
            return value
        self._note_stale_text(place, key_id)
        if key_id is None:
            return value[mark.end() :]
        sealed, key = _unpacked(value[mark.end() :], place), self._keys.named(place.organization_id, key_id)
        opened = key.open_hash(sealed, place) if value.startswith(_HASH) else key.open(sealed, place)
        return from_json(opened) if type == "json" else opened.decode()

    def open(self, place: Place, type: ColumnType, value: Any) -> object:
        if type == "json" and not isinstance(value, str):  # plain JSON here is an object or a list
            self._note_stale(place, None)
            return value
        raw = value if type == "bytes" else value.encode()
        mark = _SEALED.match(raw)
        if mark is None or mark[1] is None:
            self._note_stale(place, None)
            return value[mark.end() :] if mark else value
        if type == "bytes":
            return self._opened(place, mark[1].decode(), raw[mark.end() :])
        opened = self._opened(place, mark[1].decode(), _unpacked(raw[mark.end() :], place))
        return from_json(opened) if type == "json" else opened.decode()

    def _opened(self, place: Place, key_id: str, sealed: bytes) -> bytes:
        self._note_stale(place, key_id)
        return self._keys.named(place.organization_id, key_id).open(sealed, place)

    def _note_stale(self, place: Place, key_id: str | None) -> None:
        stale = _stale.get()
        if stale is not None:
            current = self._keys.current(place.organization_id)
            if current is not None and current.id != key_id:
                stale.add((place.table, place.id))

    def _note_stale_text(self, place: Place, key_id: str | None) -> None:
        stale = _stale.get()
        if stale is not None:
            wanted = self.term_key(place.organization_id)
            if key_id != (None if wanted is None else wanted.id):
                stale.add((place.table, place.id))


@contextmanager
def noting_stale() -> Iterator[set[tuple[str, str]]]:
    """The tables and ids of records that this thread reads meanwhile and that the current key has not sealed."""
    found: set[tuple[str, str]] = set()
    token = _stale.set(found)
    try:
        yield found
    finally:
        _stale.reset(token)


def _sealed_hash(key: DataKey, place: Place, value: str) -> str:
    sealed = base64.urlsafe_b64encode(key.seal_hash(value.encode(), place)).decode()
    return f"{_HASH}{key.id}:{sealed}"


def _unpacked(encoded: str | bytes, place: Place) -> bytes:
    try:
        return base64.b64decode(encoded, altchars=b"-_", validate=True)
    except ValueError:
        raise _altered(place) from None


def _looks_sealed(text: str) -> bool:
    return _SEALED_TEXT.match(text) is not None


def _altered(place: Place) -> DamagedData:
    return DamagedData(
        f"the {place.field} of the {place.table} '{place.id}' was changed, or moved there from another record",
        remedy="run `recollect verify` to see what is affected, then restore a backup",
        id=place.id,
    )
