"""Erasures that a restored backup undoes: it was made before them, so the people are stored again.

A certificate names nobody, but whom it is about can be told by whoever has the ids and the secret of the organization;
the restored store has both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from recollect.domain.privacy import ErasureCertificate
from recollect.domain.tenancy import Organization, User
from recollect.ports.query import Order, Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.services.keyed_hashes import Keyring
from recollect.services.privacy.certificate import person_hash

PAGE = 1000
Certificates = Mapping[str, Sequence[ErasureCertificate]]
"""By organization."""


def certificates_in(store: RecordStore) -> Certificates:
    """All certificates of a store, before another takes its place."""
    return {name: store.find(Scope(name), Query(ErasureCertificate)).records for name in store.tenants()}


def undone_notes(store: RecordStore, before: Certificates) -> list[str]:
    """What to say of the certificates that a restored store does not have: who is to be erased again."""
    notes = []
    for organization, certificates in before.items():
        scope = Scope(organization)
        known = {id for (id,) in store.select(scope, Query(ErasureCertificate), ("id",))}
        lost = [one for one in certificates if one.id not in known]
        people = _people(store, scope, {one.subject for one in lost}) if lost else {}
        for one in lost:
            of = f"erased on {one.created_at.date().isoformat()}, after this backup was made (certificate {one.id})"
            if one.subject in people:
                user = people[one.subject]
                notes.append(
                    f"user '{user}' of '{organization}' was {of}, and is back: `recollect privacy erase --user {user}`"
                )
            else:
                notes.append(f"a person of '{organization}' was {of}; nobody in the backup has the id they had")
    return notes


def _people(store: RecordStore, scope: Scope, subjects: set[str]) -> dict[str, str]:
    """The users whom certificates are about, by the hash of their id."""
    secret = store.select(scope, Query(Organization, (equal("id", scope.organization_id),)), ("secret",))
    if not secret or secret[0][0] is None:  # there was none yet, so nobody had been erased
        return {}
    keyring = Keyring(store)
    hashes = ((person_hash(keyring, scope, user), user) for user in _users(store, scope))
    return {hashed: user for hashed, user in hashes if hashed in subjects}


def _users(store: RecordStore, scope: Scope) -> Iterator[str]:
    after: str | None = None
    while True:
        page = store.find(scope, Query(User, (), (Order("id"),), PAGE, after, "yes"))
        yield from (user.id for user in page.records)
        after = page.next
        if after is None:
            return
