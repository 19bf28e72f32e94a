"""The access log shows tampering: whatever is changed, deleted, put in, exchanged or cut off is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.audit import AccessLog, Seal, entry_hash, seal_digest
from recollect.domain.record import new_id, now
from recollect.errors import InvalidInput
from recollect.ports.query import Order, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Touch
from recollect.services.admin import audit


@pytest.fixture
def sealed(mem: Any) -> Any:
    for round in range(3):
        for number in range(4):
            mem.remember(f"fact {round} {number}")
        mem.audit.seal()
    assert mem.audit.verify().sound
    return mem


def entries(mem: Any) -> list[AccessLog]:
    found: list[AccessLog] = mem._core.store.find(mem._scope, Query(AccessLog, (), (Order("id"),))).records
    return [one for one in found if one.seal is not None]


def put_in(mem: Any) -> None:
    old = entries(mem)[0]
    mem._core.store.transact(mem._scope, [Insert(old.changed(id=new_id(), seal=old.seal))])


def put_in_late(mem: Any) -> None:
    forged = entries(mem)[0].changed(id=new_id(), seal=None, timestamp=now() - timedelta(days=2))
    mem._core.store.transact(mem._scope, [Insert(forged)])


def exchanged(mem: Any) -> None:
    one, other = entries(mem)[0], entries(mem)[-1]
    steps = [Touch(AccessLog, one.id, put={"seal": other.seal}), Touch(AccessLog, other.id, put={"seal": one.seal})]
    mem._core.store.transact(mem._scope, steps)


def without_a_seal(mem: Any) -> None:
    seals = mem._core.store.find(mem._scope, Query(Seal, (), (Order("number"),))).records
    mem._core.store.transact(mem._scope, [Delete(Seal, seals[1].id)])


def resealed(mem: Any, *numbers: int) -> None:
    """An entry changed, and these seals made anew as if nothing had happened: each is right taken by itself."""
    store, scope = mem._core.store, mem._scope
    store.transact(scope, [Touch(AccessLog, entries(mem)[1].id, put={"actor_id": "somebody"})])
    digest = ""
    for one in store.find(scope, Query(Seal, (), (Order("number"),))).records:
        if one.number in numbers:
            covered = [entry_hash(entry) for entry in entries(mem) if entry.seal == one.number]
            made = seal_digest(one.number, digest, covered)
            store.transact(scope, [Touch(Seal, one.id, put={"previous": digest, "digest": made})])
        digest = made if one.number in numbers else one.digest


def without_the_last_seal(mem: Any) -> None:
    seals = mem._core.store.find(mem._scope, Query(Seal, (), (Order("number"),))).records
    mem._core.store.transact(mem._scope, [Delete(Seal, seals[-1].id)])


TAMPERINGS: dict[str, Callable[[Any], Any]] = {
    "changed": lambda mem: mem._core.store.transact(
        mem._scope, [Touch(AccessLog, entries(mem)[1].id, put={"actor_id": "somebody"})]
    ),
    "deleted": lambda mem: mem._core.store.transact(mem._scope, [Delete(AccessLog, entries(mem)[1].id)]),
    "put in": put_in,
    "put in late": put_in_late,
    "exchanged": exchanged,
    "seal taken away": without_a_seal,
    "last seal taken away": without_the_last_seal,
    "sealed anew": lambda mem: resealed(mem, 1),
}
SAID = {
    "changed": "an entry under seal 1 was changed or replaced",
    "deleted": "seal 1 covers",
    "put in": "seal 1 covers",
    "put in late": "inserted later",
    "exchanged": "an entry under seal",
    "seal taken away": "seal 2 is missing",
    "last seal taken away": "refer to a seal that does not exist",
    "sealed anew": "seal 2 does not follow the one before it",
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_tampering_is_named(how: str, sealed: Any) -> None:
    TAMPERINGS[how](sealed)
    found = sealed.audit.verify()
    assert not found.sound
    assert any(SAID[how] in one for one in found.problems), found.problems


def test_a_chain_made_anew_from_end_to_end_is_seen_by_who_kept_the_anchor(sealed: Any) -> None:
    anchor = sealed.audit.verify().anchor
    resealed(sealed, 1, 2, 3)
    assert sealed.audit.verify().sound  # it is a whole chain, and another one
    assert sealed.audit.verify(anchor).problems == ["seal 3 does not match the anchor"]


def test_a_log_cut_off_at_its_end_is_seen_by_who_kept_the_anchor(sealed: Any) -> None:
    anchor = sealed.audit.seal().anchor
    seals = sealed._core.store.find(sealed._scope, Query(Seal, (), (Order("number"),))).records
    gone = [Delete(AccessLog, one.id) for one in entries(sealed) if one.seal == seals[-1].number]
    sealed._core.store.transact(sealed._scope, [Delete(Seal, seals[-1].id), *gone])
    assert sealed.audit.verify().sound  # nothing left shows it
    found = sealed.audit.verify(anchor)
    assert "cut off" in found.problems[0]


def test_an_anchor_must_be_one(sealed: Any) -> None:
    with pytest.raises(InvalidInput, match="not an anchor"):
        sealed.audit.verify("soon")


def test_what_retention_let_go_is_not_taken_for_tampering(tmp_path: Path) -> None:
    def entry(id: str, day: int) -> Insert:
        moment = datetime(2021, 3, day, tzinfo=UTC)
        return Insert(AccessLog(organization_id="default", id=id, operation="read", timestamp=moment))

    with recollect.open(tmp_path / "x.db", embedder="hash", access_log_days=400) as mem:
        store = mem._core.store
        store.transact(Scope("default"), [entry("old", 1), entry("older", 2)])
        mem.audit.seal()
        mem.remember("young")
        anchor = mem.audit.seal().anchor
        assert mem.sweep().log_entries == 2
        mem.audit.seal()
        found = mem.audit.verify(anchor)
        assert (found.sound, found.let_go, found.seals) == (True, 1, 3)
        young = mem.log(action="remember").entries[0].id
        store.transact(Scope("default"), [Delete(AccessLog, young)])
        assert mem.audit.verify().problems == ["seal 2 covers 2 entries, 1 are there"]


def test_entries_that_another_process_just_sealed_are_not_sealed_again(mem: Any, meanwhile: Any) -> None:
    """Who reads the last seal after the entries would take one that covers them for the one before them."""
    mem.remember("one fact")
    mem._core.journal.flush()
    meanwhile(mem, "find", Seal, lambda: mem.within(mem._scope.organization_id).audit.seal())
    mem.audit.seal()
    verdict = mem.audit.verify()
    assert verdict.sound, verdict.problems


def test_what_is_sealed_while_the_log_is_verified_is_not_taken_for_tampering(
    sealed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed.remember("written after the last seal")
    all_seals, left = audit.all_seals, [1]

    def sealing(tenant: Any) -> Iterator[Any]:
        yield from all_seals(tenant)
        if left.pop() if left else 0:
            sealed.audit.seal()

    monkeypatch.setattr(audit, "all_seals", sealing)
    verdict = sealed.audit.verify()
    assert verdict.sound, verdict.problems
