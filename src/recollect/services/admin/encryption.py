"""Keys of encrypted fields: wrapped by another master key, replaced by new ones, and what they seal.

A new data key seals what is written from then on; what is there is sealed anew in batches, by this command or in the
background, and only then the former key is forgotten. Stopped at any point, each value opens with one of the two, and
the next run goes on with what is left. The same work seals what was stored before there was a key, and the texts of an
organization, or opens them, when their encryption is turned on or off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from recollect.domain.record import RECORDS, Record
from recollect.errors import InvalidSettings, NotFound, Unsupported, VersionConflict
from recollect.ports.keys import DataKeyring, EncryptsFields, TextEncryption
from recollect.ports.query import Order, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Update
from recollect.services.erasure import erase_traces, owing
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, GoOn, Tenant
from recollect.services.transaction import commit, logged

BATCH = 200
TRACES = "texts in the clear"
"""What is to be erased once the texts that were in the clear are sealed."""


class RewrapKeysRequest(Request):
    """Wrap the data keys of all organizations with the master key of today."""


class RewrapKeysReply(Reply):
    organizations: int
    keys: int


def rewrap_keys(
    tenant: Tenant, request: RewrapKeysRequest, progress: Progress = lambda done, total: None
) -> RewrapKeysReply:
    """Wrap every data key with the master key that is set now; what it was before is the setting `previous_key`.

    The data stays as it is. Stopped at any point, every data key opens with one of the two.
    """
    keyring, names = _keyring(tenant), tenant.store.tenants()
    count = 0
    for number, name in enumerate(names, 1):
        count += keyring.rewrap(Scope(name, tenant.scope.actor))
        progress(number, len(names))
    commit(tenant, [logged(tenant, "update", "encryption.rewrap", None, organizations=len(names))])
    return RewrapKeysReply(organizations=len(names), keys=count)


class RotateKeyRequest(Request):
    """Give the organization a new data key."""


class ResealRequest(Request):
    """Seal what is in the clear, or sealed with a former key."""


class ResealReply(Reply):
    sealed: int = Field(description="How many records were sealed anew")
    is_complete: bool = Field(description="Whether everything is sealed with the current key, and former ones are gone")


def rotate_key(tenant: Tenant, request: RotateKeyRequest, progress: Progress = lambda done, total: None) -> ResealReply:
    """Make a new data key, seal everything with it, then forget the former one."""
    _keyring(tenant).rotate(tenant.scope)
    commit(tenant, [logged(tenant, "update", "encryption.rotate")])
    return reseal(tenant, ResealRequest(), progress)


def reseal(tenant: Tenant, request: ResealRequest, progress: Progress = lambda done, total: None) -> ResealReply:
    """Seal every encrypted field with the current data key, in batches, while others write."""
    keyring = _keyring(tenant)
    if not keyring.key_ids(tenant.scope):
        keyring.rotate(tenant.scope)
    key_ids, texts = keyring.key_ids(tenant.scope), keyring.texts_of(tenant.scope)
    sealed = _seal_all(tenant, keyring, texts != "clear", progress)
    if texts == "sealing" and isinstance(tenant.store, EncryptsFields):
        tenant.transact([owing(tenant, TRACES)])  # all of this before it is forgotten that there were any
        tenant.store.erase_words()
    is_complete = keyring.retire(tenant.scope, key_ids)
    if texts == "sealing":
        erase_traces(tenant)
    return ResealReply(sealed=sealed, is_complete=is_complete)


def _seal_all(tenant: Tenant, keyring: DataKeyring, texts: bool, progress: Progress) -> int:
    types = [record for record in RECORDS.values() if (record.shape.sealable if texts else record.shape.encrypted)]
    total = sum(tenant.count(Query(record, deleted="yes")) for record in types)
    sealed = done = 0
    for record in types:
        after: str | None = None
        while True:
            with keyring.stale() as stale:
                page = tenant.find(Query(record, (), (Order("id"),), BATCH, after, "yes"))
            sealed += _write_anew(tenant, [one for one in page.records if (one.shape.table, one.id) in stale])
            done += len(page.records)
            progress(min(done, total), total)
            after = page.next
            if after is None:
                break
    return sealed


class EncryptTextsRequest(Request):
    """Whether the texts of the organization are encrypted."""

    switch: Literal["on", "off"] = Field(description="on: encrypt texts, and index keyed terms; off: decrypt them")


class EncryptTextsReply(Reply):
    text_encrypted: bool = Field(description="Whether texts are encrypted")
    stored: TextEncryption = Field(description="How they are stored: sealed one by one, or in an encrypted file, …")
    rewritten: int = Field(description="How many records were sealed, or opened")
    is_complete: bool = Field(description="Whether nothing is left to be done; if not, run it again")
    notes: list[str] = Field(default_factory=list)


def encrypt_texts(
    tenant: Tenant, request: EncryptTextsRequest, progress: Progress = lambda done, total: None
) -> EncryptTextsReply:
    """Encrypt the texts of memories and messages with the organization's data key, or decrypt them.

    What is there is rewritten in batches while others work. Stopped at any point, every text can be read and found,
    and the next call, or background work, does the rest.
    """
    wanted = request.switch == "on"
    if not isinstance(tenant.store, EncryptsFields):
        raise InvalidSettings(
            "this store keeps nothing on disk, so there is nothing to encrypt", remedy="use a store that has a key"
        )
    keyring = tenant.store.data_keys
    keyring.encrypt_texts(tenant.scope, wanted)
    commit(tenant, [logged(tenant, "update", "encryption.text", None, switch=request.switch)])
    done, notes = ResealReply(sealed=0, is_complete=True), []
    if keyring.texts_of(tenant.scope) == "file":
        notes.append("the file of this store is encrypted as a whole, and its texts with it; nothing else changes")
    elif not keyring.is_complete(tenant.scope):
        done = reseal(tenant, ResealRequest(), progress)
    return EncryptTextsReply(
        text_encrypted=wanted,
        stored=keyring.texts_of(tenant.scope),
        rewritten=done.sealed,
        is_complete=done.is_complete,
        notes=notes,
    )


def texts_of(tenant: Tenant) -> TextEncryption:
    """How the texts of the organization are stored."""
    return tenant.store.data_keys.texts_of(tenant.scope) if isinstance(tenant.store, EncryptsFields) else "clear"


def is_incomplete(tenant: Tenant) -> bool:
    """Whether something waits to be sealed."""
    return isinstance(tenant.store, EncryptsFields) and not tenant.store.data_keys.is_complete(tenant.scope)


def reseal_in_background(tenant: Tenant, go_on: GoOn) -> None:
    reseal(tenant, ResealRequest(), lambda done, total: go_on())


def _write_anew(tenant: Tenant, records: Sequence[Record]) -> int:
    """The same content under the same version; whatever another wrote meanwhile is sealed already."""
    if not records:
        return 0
    try:
        tenant.transact([Update(one, same_version=True) for one in records])
        return len(records)
    except (VersionConflict, NotFound):
        if len(records) == 1:
            return 0
    return sum(_write_anew(tenant, [one]) for one in records)


def _keyring(core: Core) -> DataKeyring:
    if not isinstance(core.store, EncryptsFields):
        raise Unsupported("this store does not encrypt fields", remedy="use another kind of store; see docs/stores.md")
    return core.store.data_keys
