"""The data keys of the organizations of a store: made when they are first needed, and kept wrapped in their record.

`Organization.data_key` has the current key first, then those that some values may still be sealed with, each as
`id=wrapped`, `texts` once texts were ever sealed, and `complete` once nothing is left that is not sealed as it should
be. A process opens each key once. Whoever writes encrypted fields, or fields that are where the texts are, makes sure
in the same transaction that the keys and `text_encrypted` are still as it knows them: so nobody seals with a key that
was replaced or destroyed meanwhile, or writes in the clear what another process has begun to encrypt. Who only searches
looks again after a while. Only this module changes the two: whatever a record of an organization says that others
write, what is stored stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache

from recollect.adapters.encryption.master_key import new_data_key
from recollect.adapters.records.common.field_cipher import DataKey, noting_stale
from recollect.adapters.records.common.transaction import referrers
from recollect.domain.agents import Lease
from recollect.domain.record import Record, now
from recollect.domain.tenancy import Organization
from recollect.errors import InvalidSettings, RequirementFailed, StoreBusy, WrongKey
from recollect.ports.keys import KeyService, TextEncryption
from recollect.ports.query import AnyOf, Compare, IsNull, Query, equal
from recollect.ports.records import Reads, Scope
from recollect.ports.steps import Absent, Committed, Delete, DeleteWhere, Insert, Put, Step, Touch, Update

DESTROYED, _COMPLETE, _TEXTS = "destroyed", "complete", "texts"
_TRIES = 20
_BELIEVED_SECONDS = 5.0
_DESTROYED = "restore a backup from before its key was destroyed"
_NO_KEY = "set the key it was encrypted with: see `key`, `key_file` and `key_command` in docs/reference/settings.md"
_NO_FILE_KEY = "encrypt the file with `recollect encryption set`; then its texts are encrypted with everything else"
Write = Callable[[Scope, Sequence[Step]], Committed]


@dataclass(slots=True)
class _Ring:
    """What is known of the keys of an organization: their stored text, and those that were opened."""

    text: str | None
    is_there: bool = True
    opened: dict[str, DataKey] = field(default_factory=dict)
    text_encrypted: bool = False
    read_at: float = field(default_factory=time.monotonic)

    @property
    def entries(self) -> dict[str, str]:
        """The stored keys by their ids, the current one first."""
        return {one.partition("=")[0]: one for one in (self.text or "").split() if "=" in one}

    @property
    def current_id(self) -> str:
        return next(iter(self.entries), DESTROYED)

    @property
    def marks(self) -> list[str]:
        return [one for one in (self.text or "").split() if "=" not in one]

    @property
    def is_complete(self) -> bool:
        return _COMPLETE in self.marks

    @property
    def has_sealed_texts(self) -> bool:
        return _TEXTS in self.marks or self.text == DESTROYED

    def with_keys(self, *entries: str, texts: bool = False, complete: bool = False) -> str:
        """The text to store, with these keys in place of those that are there."""
        texts = texts or _TEXTS in self.marks
        return " ".join([*entries, *([_TEXTS] if texts else []), *([_COMPLETE] if complete else [])])


class _Here(threading.local):
    is_loading = False


class DataKeys:
    """See `ports.keys.DataKeyring`; and what the codecs and `transact` of a store need.

    A store in a file says whether the file is encrypted: there texts are not sealed one by one.
    """

    def __init__(
        self, store: Reads, service: KeyService | None, write: Write, *, file_is_encrypted: bool | None = None
    ) -> None:
        self._store, self._service, self._write = store, service, write
        self._file_is_encrypted = file_is_encrypted
        self._rings: dict[str, _Ring] = {}
        self._making = threading.Lock()
        self._here = _Here()

    # -- for the cipher ----------------------------------------------------------------------------------------------

    def current(self, organization_id: str) -> DataKey | None:
        ring = self._ring(organization_id)
        return None if ring.text is None else self._opened(organization_id, ring, ring.current_id)

    def named(self, organization_id: str, key_id: str) -> DataKey:
        ring = self._ring(organization_id)
        if key_id not in ring.entries:  # the keys were changed since they were read
            ring = self._loaded(organization_id)
        return self._opened(organization_id, ring, key_id)

    def seals_texts(self, organization_id: str) -> bool:
        return self._file_is_encrypted is None and self._ring(organization_id).text_encrypted

    def has_sealed_texts(self, organization_id: str, key_id: str | None = None) -> bool:
        ring = self._ring(organization_id)
        if not ring.has_sealed_texts or (key_id is not None and key_id not in ring.entries):
            ring = self._loaded(organization_id)
        is_known = ring.is_complete or ring.text == DESTROYED or key_id is None or key_id in ring.entries
        return ring.has_sealed_texts and is_known

    def text_keys(self, organization_id: str, *, fresh: bool = False) -> Sequence[DataKey | None]:
        ring = self._ring(organization_id)
        if fresh and time.monotonic() > ring.read_at + _BELIEVED_SECONDS:
            ring = self._loaded(organization_id)
        if not ring.has_sealed_texts or (ring.is_complete and not ring.text_encrypted):
            return (None,)
        keys = [self._opened(organization_id, ring, id) for id in ring.entries or (DESTROYED,)]
        return keys if ring.is_complete else (*keys, None)

    def _opened(self, organization_id: str, ring: _Ring, key_id: str) -> DataKey:
        if key_id not in ring.opened:
            ring.opened[key_id] = self._unwrapped(organization_id, ring, key_id)
        return ring.opened[key_id]

    def _unwrapped(self, organization_id: str, ring: _Ring, key_id: str) -> DataKey:
        entry = ring.entries.get(key_id)
        if entry is None:
            raise WrongKey(f"this is encrypted with a key that '{organization_id}' no longer has", remedy=_DESTROYED)
        if self._service is None:
            raise WrongKey("this is encrypted, and no key is set", remedy=_NO_KEY)
        return DataKey(self._service.unwrap(entry.partition("=")[2], _context(organization_id)))

    def _ring(self, organization_id: str) -> _Ring:
        return self._rings.get(organization_id) or self._loaded(organization_id)

    def _loaded(self, organization_id: str) -> _Ring:
        if self._here.is_loading:  # fields of the very record that the keys are read from
            raise WrongKey("the keys are not known yet", remedy=_NO_KEY)
        query = Query(Organization, (equal("id", organization_id),), deleted="yes")
        self._here.is_loading = True
        try:
            found = self._store.select(Scope(organization_id), query, ("data_key", "text_encrypted"))
        finally:
            self._here.is_loading = False
        if found:
            return self.learn(organization_id, *found[0])
        self._rings.pop(organization_id, None)
        return _Ring(None, is_there=False)

    def learn(self, organization_id: str, text: str | None, text_encrypted: bool) -> _Ring:
        """What is stored of an organization, for those that have read it by themselves."""
        known = self._rings.get(organization_id)
        ring = _Ring(text, opened=known.opened if known else {}, text_encrypted=text_encrypted)
        self._rings[organization_id] = ring
        return ring

    # -- for whoever writes ------------------------------------------------------------------------------------------

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        """Writes the steps; again, if the keys of the organization were changed under them."""
        alike = _one_of_each(steps)
        fields, organization = any(map(_writes_encrypted, alike)), any(map(_writes_organization, alike))
        texts = self._file_is_encrypted is None and any(map(_writes_texts, alike))
        is_guarded = fields or organization or texts or any(map(_writes_referrers, alike))
        if self._service is None and not is_guarded:
            return self._write(scope, steps)
        for _ in range(_TRIES):
            ring = self._ready(scope, needed=fields, texts=texts)
            if not is_guarded:
                return self._write(scope, steps)
            try:
                if organization:
                    return self._write_organization(scope, ring, steps)
                return self._write(scope, [_unchanged(scope, ring), *steps])
            except RequirementFailed:
                there = self._loaded(scope.organization_id)
                if (there.text, there.text_encrypted) == (ring.text, ring.text_encrypted):
                    raise
        raise StoreBusy("the keys of this organization are being changed", remedy="try again in a moment")

    def _ready(self, scope: Scope, *, needed: bool, texts: bool = False) -> _Ring:
        """The keys, as far as they are needed, for fields or for texts; raises WrongKey before anything is written with
        another master key.
        """
        ring = self._ring(scope.organization_id)
        needed = needed or (texts and ring.text_encrypted)
        while needed and self._service is not None and ring.text is None and ring.is_there:
            ring = self._add_key(scope)
        if ring.text is not None and (needed or self._service is not None) and ring.text != DESTROYED:
            self._opened(scope.organization_id, ring, ring.current_id)
        return ring

    def _write_organization(self, scope: Scope, ring: _Ring, steps: Sequence[Step]) -> Committed:
        """With the keys that are stored, or made now, in place of those that the record names."""
        with self._making:  # what is sealed in this transaction is sealed with the key that it stores
            text, text_encrypted = ring.text, ring.text_encrypted
            if not ring.is_there:
                text_encrypted = any(_says_text_encrypted(step) for step in steps)
                if text_encrypted and self._file_is_encrypted is None:
                    self._require_service()
                if self._service is not None:
                    key, entry = self._new_key(scope.organization_id)
                    text = ring.with_keys(entry, texts=text_encrypted, complete=True)
                    self._rings[scope.organization_id] = _Ring(text, True, {key.id: key}, text_encrypted)
            stored = {"data_key": text, "text_encrypted": text_encrypted}
            given = [
                replace(step, record=step.record.model_copy(update=stored))
                if isinstance(step, Insert | Update | Put) and isinstance(step.record, Organization)
                else step
                for step in steps
            ]
            try:
                return self._write(scope, [_unchanged(scope, ring), *given])
            finally:
                if text != ring.text or any(isinstance(step, Delete) for step in steps):
                    self._rings.pop(scope.organization_id, None)

    def _add_key(self, scope: Scope) -> _Ring:
        """A new current key, if nobody else has just made one."""
        ring = self._loaded(scope.organization_id)
        key, entry = self._new_key(scope.organization_id)
        if self._change(scope, ring, ring.with_keys(entry, *ring.entries.values())):
            ring.opened[key.id] = key
        return self._ring(scope.organization_id)

    def _new_key(self, organization_id: str) -> tuple[DataKey, str]:
        service, key = self._require_service(), DataKey(new_data_key())
        return key, f"{key.id}={service.wrap(key.raw, _context(organization_id))}"

    def _require_service(self) -> KeyService:
        if self._service is None:
            raise InvalidSettings(
                "no key is set for fields",
                remedy="make one with `recollect encryption new-key` and set `key_file`; a store in a file has a key "
                "for all of it, which `recollect encryption set` changes",
            )
        return self._service

    def _require_key_for_texts(self) -> None:
        if self._file_is_encrypted is None:
            self._require_service()
        elif not self._file_is_encrypted:
            raise InvalidSettings("texts are to be encrypted, and this file is not", remedy=_NO_FILE_KEY)

    def _change(self, scope: Scope, ring: _Ring, text: str | None, *, text_encrypted: bool | None = None) -> bool:
        """Stores other keys in place of those of a ring; False if these are no longer the stored ones.

        The rest of the record is left alone: fields of it may be sealed with a key that is not at hand. The lease is
        there because a touch alone does not stop those who write at the same time.
        """
        id = scope.organization_id
        lease = Lease(organization_id=id, id="data_keys", holder="data keys", fence=1, expires_at=now())
        texts = ring.text_encrypted if text_encrypted is None else text_encrypted
        touch = Touch(Organization, id, put={"data_key": text, "text_encrypted": texts})
        try:
            self._write(scope, [_unchanged(scope, ring), touch, Put(lease)])
        except RequirementFailed:
            self._loaded(id)
            return False
        self._rings[id] = _Ring(text, True, ring.opened, texts)
        return True

    # -- changing keys -----------------------------------------------------------------------------------------------

    def key_ids(self, scope: Scope) -> list[str]:
        return list(self._loaded(scope.organization_id).entries)

    def is_complete(self, scope: Scope) -> bool:
        ring = self._loaded(scope.organization_id)
        return self._service is None or ring.text == DESTROYED or ring.is_complete

    def rotate(self, scope: Scope) -> None:
        self._require_service()
        before = self.key_ids(scope)
        for _ in range(_TRIES):
            ring = self._ready(scope, needed=True)
            if ring.text == DESTROYED:
                raise WrongKey(f"the key of '{scope.organization_id}' was destroyed", remedy=_DESTROYED)
            if list(ring.entries) != before:  # also where there was no key before
                return
            self._add_key(scope)
        raise StoreBusy("this organization is written to all the time", remedy="try again in a moment")

    def rewrap(self, scope: Scope) -> int:
        service = self._require_service()
        for _ in range(_TRIES):
            ring = self._loaded(scope.organization_id)
            keys = [self._unwrapped(scope.organization_id, ring, id) for id in ring.entries]
            wrapped = [f"{key.id}={service.wrap(key.raw, _context(scope.organization_id))}" for key in keys]
            if not keys or self._change(scope, ring, ring.with_keys(*wrapped, complete=ring.is_complete)):
                return len(keys)
        raise StoreBusy("this organization is written to all the time", remedy="try again in a moment")

    def retire(self, scope: Scope, key_ids: Sequence[str]) -> bool:
        ring = self._loaded(scope.organization_id)
        if list(ring.entries) != list(key_ids):
            return False
        return self._change(scope, ring, ring.with_keys(ring.entries[key_ids[0]], complete=True))

    def destroy(self, scope: Scope) -> bool:
        for _ in range(_TRIES):
            ring = self._loaded(scope.organization_id)
            if ring.text in (None, DESTROYED):
                return ring.text == DESTROYED
            if self._change(scope, ring, DESTROYED):
                self._rings[scope.organization_id].opened.clear()
                return True
        raise StoreBusy("this organization is written to all the time", remedy="try again in a moment")

    def encrypt_texts(self, scope: Scope, wanted: bool) -> None:
        if wanted:
            self._require_key_for_texts()
        one_by_one = self._file_is_encrypted is None
        for _ in range(_TRIES):
            self._ready(scope, needed=one_by_one)
            ring = self._loaded(scope.organization_id)
            if ring.text == DESTROYED:
                raise WrongKey(f"the key of '{scope.organization_id}' was destroyed", remedy=_DESTROYED)
            if ring.text_encrypted == wanted:
                return
            text = ring.with_keys(*ring.entries.values(), texts=True) if one_by_one else ring.text
            if self._change(scope, ring, text, text_encrypted=wanted):
                return
        raise StoreBusy("this organization is written to all the time", remedy="try again in a moment")

    def texts_of(self, scope: Scope) -> TextEncryption:
        if self._file_is_encrypted is not None:
            return "file" if self._file_is_encrypted else "clear"
        ring = self._loaded(scope.organization_id)
        if not ring.has_sealed_texts or (ring.is_complete and not ring.text_encrypted):
            return "clear"
        if ring.is_complete:
            return "sealed"
        return "sealing" if ring.text_encrypted else "opening"

    def stale(self) -> AbstractContextManager[set[tuple[str, str]]]:
        return noting_stale()


def _context(organization_id: str) -> str:
    return f"organization {organization_id}"


def _unchanged(scope: Scope, ring: _Ring) -> Absent:
    other = IsNull("data_key", wanted=False) if ring.text is None else Compare("data_key", "!=", ring.text)
    either = AnyOf((other, Compare("text_encrypted", "!=", ring.text_encrypted)))
    return Absent(Organization, (equal("id", scope.organization_id), either))


def _one_of_each(steps: Sequence[Step]) -> list[Step]:
    """Inserts of one type of record write the same fields: one of them says it for a run of thousands."""
    kept: dict[type[Record], Step] = {}
    others: list[Step] = []
    for step in steps:
        if type(step) is Insert:
            kept.setdefault(type(step.record), step)
        elif type(step) is not Absent:
            others.append(step)
    return [*kept.values(), *others]


def _says_text_encrypted(step: Step) -> bool:
    record = step.record if isinstance(step, Insert | Update | Put) else None
    return isinstance(record, Organization) and record.text_encrypted


def _writes_organization(step: Step) -> bool:
    if isinstance(step, Insert | Update | Put):
        return isinstance(step.record, Organization)
    return isinstance(step, Delete | DeleteWhere) and step.record is Organization


def _writes_encrypted(step: Step) -> bool:
    if isinstance(step, Insert | Update | Put):
        return bool(step.record.shape.encrypted)
    return isinstance(step, Touch) and not step.record.shape.encrypted.isdisjoint(step.put)


def _writes_texts(step: Step) -> bool:
    """Also where a record is written because it refers to what is deleted: its terms are made anew."""
    if isinstance(step, Insert | Update | Put):
        shape = step.record.shape
        return bool(shape.encrypted_texts or shape.encrypted_hashes)
    if isinstance(step, Touch):
        return not (step.record.shape.encrypted_texts | step.record.shape.encrypted_hashes).isdisjoint(step.put)
    return isinstance(step, Delete | DeleteWhere) and _clears(step.record, texts=True)


def _writes_referrers(step: Step) -> bool:
    """Whether records with encrypted fields may be written because they refer to what is deleted.

    What cannot be opened then is written as it is, so no key is needed.
    """
    return isinstance(step, Delete | DeleteWhere) and _clears(step.record, texts=False)


@cache
def _clears(record: type[Record], *, texts: bool) -> bool:
    waiting, seen = [record.shape.table], {record.shape.table}
    while waiting:
        for referrer, _, on_delete in referrers(waiting.pop()):
            shape = referrer.shape
            if on_delete == "clear" and (shape.encrypted_texts if texts else shape.encrypted):
                return True
            if on_delete == "cascade" and referrer.shape.table not in seen:
                seen.add(referrer.shape.table)
                waiting.append(referrer.shape.table)
    return False
