"""Hashes shown over the network, and the place of large content, are keyed with a secret of the organization.

Whoever has a list of likely lines can find a line by its plain hash. A caller over HTTP or MCP may have cited a file
that they cannot read, so they get a keyed hash: it can be compared and sent back, but not guessed. The secret is
created when it is first needed, is stored in the record of the organization and never sent over the network.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

from recollect.domain.provenance import HASHES, KEYED_HASH, keyed_hash
from recollect.domain.record import Record
from recollect.domain.tenancy import Organization, OrganizationSecret
from recollect.errors import DuplicateKey, NotFound, VersionConflict
from recollect.ports.query import Query, equal
from recollect.ports.records import RecordStore, Scope, revised
from recollect.ports.steps import Insert, Update

_BELIEVED_SECONDS = 10.0


class Keyring:
    """`is_encrypting`: whether the store has a key, so that large content is sealed."""

    def __init__(self, store: RecordStore, *, is_encrypting: bool = False) -> None:
        self._store = store
        self._is_encrypting = is_encrypting
        self._known: dict[str, tuple[str, float]] = {}
        """Secrets, and until when they are believed: another process may erase an organization and make it anew."""
        self._content_keys: dict[str, tuple[bytes | None, float]] = {}

    def keyed(self, scope: Scope, hash: str) -> str:
        return keyed_hash(self._secret(scope.organization_id), hash)

    def content_place(self, organization: str) -> str:
        """What the large content of an organization lies under: two stores that share a bucket never meet in it, though
        their organizations have the same name.
        """
        return _place(organization, self._secret(organization))

    def known_content_place(self, organization: str) -> str | None:
        """The same, None where there never was any content: nothing is written."""
        secret = self._believed(organization) or self._stored(organization)
        return _place(organization, secret) if secret is not None else None

    def content_key(self, place: str) -> bytes | None:
        """What the content in a place is sealed with; None where it lies as it is. Raises WrongKey.

        What was sealed while the store had a key stays readable without one, if the secret does.
        """
        organization = place.rpartition("@")[0]
        known, until = self._content_keys.get(organization, (None, 0.0))
        if known is None and time.monotonic() >= until:
            scope = Scope(organization)
            if self._is_encrypting:
                known = bytes.fromhex(own_secret(self._store, scope, "content"))
            elif (found := self._store.get(scope, OrganizationSecret, "content")) is not None:
                known = bytes.fromhex(found.value)
            self._content_keys[organization] = known, time.monotonic() + _BELIEVED_SECONDS
        return known

    def forget(self, organization: str) -> None:
        """What is known of an organization that was erased."""
        self._known.pop(organization, None)
        self._content_keys.pop(organization, None)

    def _secret(self, organization: str) -> str:
        secret = self._believed(organization)
        if secret is None:
            secret = self._stored(organization) or self._made(Scope(organization))
            self._known[organization] = secret, time.monotonic() + _BELIEVED_SECONDS
        return secret

    def _believed(self, organization: str) -> str | None:
        secret, until = self._known.get(organization, (None, 0.0))
        return secret if time.monotonic() < until else None

    def _stored(self, organization: str) -> str | None:
        query = Query(Organization, (equal("id", organization),), deleted="yes")
        found = self._store.select(Scope(organization), query, ("secret",))
        return found[0][0] if found else None

    def _made(self, scope: Scope) -> str:
        while True:
            found = self._store.get(scope, Organization, scope.organization_id)
            if found is None:
                raise NotFound("there is no such organization", remedy="check its name")
            if found.secret is not None:
                return found.secret
            made = secrets.token_hex(32)
            try:
                self._store.transact(scope, [Update(revised(found, scope, secret=made))])
                return made
            except VersionConflict:  # another process just made one: use that
                continue


def own_secret(store: RecordStore, scope: Scope, name: str) -> str:
    """A random secret of the organization, 32 bytes in hexadecimal digits; the same from its first use on."""
    found = store.get(scope, OrganizationSecret, name)
    if found is not None:
        return found.value
    made = OrganizationSecret(organization_id=scope.organization_id, id=name, value=secrets.token_hex(32))
    try:
        store.transact(scope, [Insert(made)])
    except DuplicateKey:  # another process just made one: use that
        return own_secret(store, scope, name)
    return made.value


def _place(organization: str, secret: str) -> str:
    return f"{organization}@{hashlib.sha256(f'content {secret}'.encode()).hexdigest()[:16]}"


def shown_evidence(keyring: Keyring, scope: Scope, evidence: dict[str, Any]) -> dict[str, Any]:
    """Evidence as the caller may see it: over the network, with keyed hashes only."""
    if scope.granted is None:
        return evidence
    given = {name: evidence[name] for name in HASHES if evidence.get(name) is not None}
    plain = {name: hash for name, hash in given.items() if not str(hash).startswith(KEYED_HASH)}
    return evidence | {name: keyring.keyed(scope, str(hash)) for name, hash in plain.items()}


def shown_record(keyring: Keyring, scope: Scope, record: Record) -> Record:
    """A record as the caller may export it."""
    evidence = getattr(record, "evidence", None) if record.shape.table == "citation" else None
    if scope.granted is None or not evidence:
        return record
    shown: Record = record.changed(evidence=shown_evidence(keyring, scope, evidence))
    return shown
