"""Changing keys while a store is in use: stopped at any point, everything opens with the old or the new key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE, store_with_keys
from recollect.adapters.encryption.master_key import KeyAndPrevious, MasterKey
from recollect.domain.agents import Agent
from recollect.domain.tenancy import Organization
from recollect.errors import InvalidSettings, WrongKey
from recollect.ports.keys import KeyService
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Step
from recollect.services.admin.encryption import ResealRequest, is_incomplete, reseal
from seeds import some

OLD, NEW = "the first key of these tests", "the second key of these tests"
SECRET = "a marker that nobody may read"


@pytest.fixture(params=EVERY_STORE)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return EVERY_STORE[request.param](tmp_path)


@contextmanager
def opened(address: str, key: str | None = None, previous_key: str | None = None) -> Iterator[Any]:
    """A memory on a store whose fields are encrypted, and nothing else: files of stores have a key of their own."""
    service: KeyService | None = MasterKey(key) if key else None
    if service is not None and previous_key is not None:
        service = KeyAndPrevious(service, MasterKey(previous_key))
    with (
        closing(store_with_keys(address, service)) as store,
        recollect.open(store, embedder="none", background=False) as mem,
    ):
        yield mem


def filled(mem: Any, count: int = 3) -> None:
    for number in range(count):
        mem.agent.add(f"agent {number}", id=f"agent-{number}", system=SECRET)
    mem.block.add("persona", SECRET, id="block")


def systems(mem: Any) -> set[str]:
    return {mem.agent.show(agent.id).system for agent in mem.agent.list().agents}


def keys_of(mem: Any) -> list[str]:
    keys: list[str] = mem._core.store.data_keys.key_ids(Scope("default"))
    return keys


def test_what_was_stored_before_there_was_a_key_is_sealed_by_background_work(address: str) -> None:
    with opened(address) as mem:
        filled(mem)
        before = mem._core.store.get(Scope("default"), Agent, "agent-1")
    with opened(address, key=OLD) as mem:
        tenant = mem._core.for_scope(Scope("default"))
        assert is_incomplete(tenant)
        assert reseal(tenant, ResealRequest()).sealed == 4
        assert not is_incomplete(tenant)
        assert mem.encryption.reseal().sealed == 0
        assert mem._core.store.get(Scope("default"), Agent, "agent-1") == before  # under the version that it had
    with opened(address) as mem, pytest.raises(WrongKey):
        systems(mem)


def test_a_new_data_key_replaces_the_former_one_once_everything_is_sealed_with_it(address: str) -> None:
    with opened(address, key=OLD) as mem:
        filled(mem)
        (former,) = keys_of(mem)
        assert mem.encryption.rotate().model_dump() == {"sealed": 4, "is_complete": True}
        (current,) = keys_of(mem)
        assert current != former
        assert systems(mem) == {SECRET}
    with opened(address, key=OLD) as mem:
        assert systems(mem) == {SECRET}
        assert mem.verify().problems == []


class _Killed(BaseException):
    """What a process that is killed never gets to handle."""


@pytest.mark.parametrize("at", some(2, range(1, 6), "transactions of a rotation"))
def test_rotation_stopped_at_any_transaction_goes_on_later(
    address: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.services.admin.encryption.BATCH", 2)
    with opened(address, key=OLD) as mem:
        filled(mem)
        keys, count = mem._core.store.data_keys, 0
        write = keys._write

        def dying(scope: Scope, steps: Sequence[Step]) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise _Killed
            return write(scope, steps)

        keys._write = dying
        with suppress(_Killed):
            mem.encryption.rotate()
        keys._write = write
    with opened(address, key=OLD) as mem:
        assert systems(mem) == {SECRET}
        assert mem.encryption.reseal().is_complete
        assert len(keys_of(mem)) == 1
        assert systems(mem) == {SECRET}
        assert mem.verify().problems == []


def test_the_master_key_is_changed_while_another_process_writes_with_the_former(address: str) -> None:
    if address.startswith("duckdb"):
        pytest.skip("one process at a time")
    with opened(address, key=OLD) as writer:
        filled(writer)
        with opened(address, key=NEW, previous_key=OLD) as mem:
            assert systems(mem) == {SECRET}
            assert mem.encryption.rewrap().model_dump() == {"organizations": 1, "keys": 1}
            writer.agent.add("after", id="after", system=SECRET)  # it holds the data key, which is the same
            assert systems(mem) == {SECRET}
    with opened(address, key=NEW) as mem:
        assert systems(mem) == {SECRET}
    with opened(address, key=OLD) as mem:
        with pytest.raises(WrongKey, match="another key"):
            systems(mem)
        with pytest.raises(WrongKey):
            mem.remember("nothing is written with another key")


def test_a_process_with_another_key_writes_nothing_at_all(address: str) -> None:
    with opened(address, key=OLD) as mem:
        filled(mem)
    with opened(address, key=NEW) as mem:
        with pytest.raises(WrongKey) as failure:
            mem.remember("even what is not encrypted")
        assert "key" in failure.value.remedy
    with opened(address, key=OLD) as mem:
        assert mem.stats().memories == 0
        assert systems(mem) == {SECRET}


def test_without_the_key_everything_that_is_not_encrypted_works(address: str) -> None:
    with opened(address, key=OLD) as mem:
        filled(mem)
        mem.remember("Alice prefers pytest", id="plain")
    with opened(address) as mem:
        assert mem.recall("pytest").hits[0].id == "plain"
        mem.remember("written without the key")
        with pytest.raises(WrongKey):
            mem.agent.show("agent-1")
        with pytest.raises(WrongKey):
            mem.agent.add("new", system="in the clear")
    with opened(address, key=OLD) as mem:
        assert systems(mem) == {SECRET}


def test_keys_are_changed_only_where_there_is_one(mem: Any) -> None:
    for change in (mem.encryption.rotate, mem.encryption.rewrap, mem.encryption.reseal):
        with pytest.raises(InvalidSettings, match="no key is set for fields"):
            change()
    with pytest.raises(InvalidSettings, match="previous_key"):
        recollect.open("memory://", previous_key=OLD)


@pytest.mark.parametrize("kind", some(1, ["dynamodb", "postgres"], "stores whose keys are changed under kill -9"))
def test_rewrapping_and_rotating_killed_by_the_system_loses_nothing(kind: str, tmp_path: Path) -> None:
    """Each time a process that changes keys all the time is killed, at an instant of the system's choosing."""
    address = EVERY_STORE[kind](tmp_path)
    with opened(address, key=OLD) as mem:
        filled(mem, 20)
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", _CHANGING, address, OLD, NEW], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(3):
            assert child.stdout.readline() == "changed\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
        child.stdout.close()
    with opened(address, key=NEW, previous_key=OLD) as mem:
        assert systems(mem) == {SECRET}
        mem.encryption.rewrap()
    with opened(address, key=NEW) as mem:
        assert systems(mem) == {SECRET}
        assert mem.encryption.reseal().is_complete
        assert mem.verify().problems == []


_CHANGING = """
import sys, recollect
address, old, new = sys.argv[1:]
while True:
    for current, previous in ((old, new), (new, old)):
        with recollect.open(address, embedder="none", background=False, key=current, previous_key=previous) as mem:
            mem.encryption.rewrap()
            mem.encryption.rotate()
            mem.agent.add("one more", system="a marker that nobody may read")
        print("changed", flush=True)
"""


def test_a_copy_is_sealed_with_the_keys_of_its_own_store(address: str, tmp_path: Path) -> None:
    with opened(address, key=OLD) as mem:
        filled(mem)
    plain = str(tmp_path / "plain.db")
    with closing(store_with_keys(address, MasterKey(OLD))) as here:
        with closing(store_with_keys(plain, None)) as there:
            _copied(here, there)
            assert there.select(Scope("default"), Query(Organization), ("data_key",)) == [(None,)]
        with closing(store_with_keys(str(tmp_path / "sealed.db"), MasterKey(NEW))) as there:
            _copied(here, there)
            _copied(here, there)
            assert there.get(Scope("default"), Agent, "agent-1") == here.get(Scope("default"), Agent, "agent-1")
    assert SECRET.encode() in (tmp_path / "plain.db").read_bytes()
    assert SECRET.encode() not in (tmp_path / "sealed.db").read_bytes()


def _copied(here: Any, there: Any) -> None:
    from recollect.services.admin.copy import copy

    copy(here, there)


def test_two_key_services_open_what_either_has_wrapped() -> None:
    both = KeyAndPrevious(MasterKey(NEW), MasterKey(OLD))
    for wrapped in (MasterKey(OLD).wrap(b"k" * 32, "context"), MasterKey(NEW).wrap(b"k" * 32, "context")):
        assert both.unwrap(wrapped, "context") == b"k" * 32
    assert MasterKey(NEW).unwrap(both.wrap(b"k" * 32, "context"), "context") == b"k" * 32
    with pytest.raises(WrongKey):
        both.unwrap(MasterKey("neither of the two keys").wrap(b"k" * 32, "context"), "context")
