"""Keyed hashes: hashes shown over the network are keyed with a secret of the organization.

Whoever has a list of likely lines can find a line by its plain hash. A caller over HTTP or MCP may have cited a file
that they cannot read, so they get a keyed hash: it can be compared and sent back, but not guessed. The secret is
created when it is first needed, is stored in the record of the organization and never sent over the network.
"""

from __future__ import annotations

import secrets
from typing import Any

from recollect.domain.provenance import HASHES, KEYED_HASH, keyed_hash
from recollect.domain.record import Record
from recollect.domain.tenancy import Organization
from recollect.errors import NotFound, VersionConflict
from recollect.ports.records import RecordStore, Scope, revised
from recollect.ports.steps import Update


class Keyring:
    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._known: dict[str, str] = {}

    def keyed(self, scope: Scope, hash: str) -> str:
        return keyed_hash(self._secret(scope.organization_id), hash)

    def _secret(self, organization: str) -> str:
        if organization not in self._known:
            self._known[organization] = self._stored(Scope(organization))
        return self._known[organization]

    def _stored(self, scope: Scope) -> str:
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
