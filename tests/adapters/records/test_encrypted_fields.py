"""Fields that are declared encrypted: sealed in every store, bound to their place, and never lost to another key."""

from __future__ import annotations

import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from every_store import EVERY_STORE, store_with_keys
from postgres_server import server
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common.field_cipher import DataKey, FieldCipher
from recollect.adapters.records.common.field_cipher import Place as FieldPlace
from recollect.adapters.records.dynamodb.client import DynamoClient
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.agents import Agent
from recollect.domain.checkpoints import Checkpoint, CheckpointLine
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import Organization, Project, User
from recollect.errors import DamagedData, InvalidInput, WrongKey
from recollect.ports.query import Compare, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Insert, Put, Step, Touch, Update

KEY, OTHER = MasterKey("a key for the tests of fields"), MasterKey("another key for the same tests")
MARKER = "Zanzibar-7719"
SCOPE = Scope("default", "tester")
Place = tuple[str, str, Path]
"""The kind of a store, its address, and the folder of its files."""


@pytest.fixture(params=EVERY_STORE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return request.param, EVERY_STORE[request.param](tmp_path), tmp_path


def opened(place: Place, key: MasterKey | None = KEY) -> RecordStore:
    store = store_with_keys(place[1], key)
    if store.get(SCOPE, Organization, "default") is None:
        store.transact(SCOPE, [Insert(Organization(organization_id="default", id="default", name="default"))])
    return store


def everything(id: str = "one") -> list[Insert]:
    """A record with text, JSON and bytes that are encrypted."""
    own: dict[str, Any] = {"organization_id": "default"}
    return [
        Insert(
            Agent(**own, id=id, name="agent", system=f"say {MARKER}", directives=[MARKER], llm_config={"a": MARKER})
        ),
        Insert(CheckpointLine(**own, id=f"line-{id}", thread=f"thread {id}")),
        Insert(
            Checkpoint(
                **own, id=f"cp-{id}", line_id=f"line-{id}", checkpoint_id=id, body=b"\x00\xff" + MARKER.encode() * 3
            )
        ),
        Insert(User(**own, id=id, name="person", profile_data={"likes": MARKER}, preferences={})),
    ]


def stored_bytes(place: Place) -> bytes:
    """Everything that whoever reads the disk, or is an administrator of the database, sees."""
    kind, address, folder = place
    if kind == "postgres":
        tables = [f'SELECT t::text FROM "{table}" t' for table in RECORDS]
        return repr([server().admin(one, address.rpartition("/")[2]) for one in tables]).encode()
    if kind == "dynamodb":
        with closing(DynamoClient(address)) as client:
            items = list(client.everything())
        packed = [bytes(item["b"]) for item in items if "b" in item]
        return repr(items).encode() + b"".join(
            zlib.decompress(one[1:-4]) if one[:1] == b"\x01" else one for one in packed
        )
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_no_byte_of_an_encrypted_field_is_stored_in_the_clear(place: Place) -> None:
    with closing(opened(place)) as store:
        store.transact(SCOPE, everything())
        agent = store.get(SCOPE, Agent, "one")
        assert agent is not None
        assert (agent.system, agent.directives, agent.llm_config) == (f"say {MARKER}", [MARKER], {"a": MARKER})
        store.transact(SCOPE, [Update(agent.changed(system=f"now {MARKER}"))])
        store.transact(SCOPE, [Touch(User, "one", put={"preferences": {"also": MARKER}})])
    assert MARKER.encode() not in stored_bytes(place)
    with closing(opened(place)) as store:
        reading = Query(Agent, (equal("name", "agent"),))
        assert store.select(SCOPE, reading, ("system", "name")) == [(f"now {MARKER}", "agent")]
        assert store.find(SCOPE, Query(Checkpoint)).records[0].body == b"\x00\xff" + MARKER.encode() * 3
        person = store.get(SCOPE, User, "one")
        assert person is not None
        assert (person.profile_data, person.preferences) == ({"likes": MARKER}, {"also": MARKER})
        with store.snapshot(SCOPE) as moment:
            assert moment.select(SCOPE, Query(User), ("preferences",)) == [({"also": MARKER},)]
        assert store.verify() == []


def test_without_a_key_the_same_bytes_are_found(place: Place) -> None:
    """Else the test above would prove nothing."""
    with closing(opened(place, None)) as store:
        store.transact(SCOPE, everything())
    assert MARKER.encode() in stored_bytes(place)


def test_a_store_that_gets_a_key_later_stays_readable(place: Place) -> None:
    with closing(opened(place, None)) as store:
        store.transact(SCOPE, everything("before"))
        agent = store.get(SCOPE, Agent, "before")
        assert agent is not None
        looks_sealed = "sealed:1:0123456789abcdef:and what follows"
        store.transact(SCOPE, [Insert(agent.changed(id="odd", system=looks_sealed)), *everything("too")[1:3]])
        assert store.select(SCOPE, Query(Agent, (equal("id", "odd"),)), ("system",)) == [(looks_sealed,)]
    with closing(opened(place)) as store:
        store.transact(SCOPE, everything("after"))
        assert sorted(store.select(SCOPE, Query(Agent), ("id", "system"))) == [
            ("after", f"say {MARKER}"),
            ("before", f"say {MARKER}"),
            ("odd", looks_sealed),
        ]


@pytest.mark.parametrize("key", [None, OTHER], ids=["lost", "other"])
def test_with_a_lost_or_another_key_nothing_encrypted_is_read_or_overwritten(
    place: Place, key: MasterKey | None
) -> None:
    with closing(opened(place)) as store:
        store.transact(SCOPE, everything())
        before = store.get(SCOPE, Agent, "one")
        assert before is not None
    with closing(store_with_keys(place[1], key)) as store:
        assert store.select(SCOPE, Query(Agent), ("id", "name")) == [("one", "agent")]
        for read in (
            lambda: store.get(SCOPE, Agent, "one"),
            lambda: store.find(SCOPE, Query(User)),
            lambda: store.select(SCOPE, Query(Checkpoint), ("body",)),
        ):
            with pytest.raises(WrongKey) as failure:
                read()
            assert "key" in failure.value.remedy
        steps: list[Step] = [
            Put(before.changed(system="overwritten")),
            Update(before.changed(system="overwritten")),
            Touch(Agent, "one", put={"system": "overwritten"}),
            *everything("two")[:1],
        ]
        for step in steps:
            with pytest.raises(WrongKey):
                store.transact(SCOPE, [step])
        assert {problem.what for problem in store.verify()} == {"cannot be read: WrongKey"}
        if key is None:
            store.transact(SCOPE, [Insert(Project(organization_id="default", id="plain", name="plain"))])
    with closing(opened(place)) as store:
        assert store.get(SCOPE, Agent, "one") == before
        assert store.verify() == []


def test_what_others_write_about_an_organization_leaves_its_keys_alone(place: Place) -> None:
    with closing(opened(place)) as store:
        store.transact(SCOPE, everything())
        own = store.get(SCOPE, Organization, "default")
        assert own is not None
        assert own.data_key is not None
        store.transact(SCOPE, [Put(own.changed(name="renamed", data_key=None), restoring=True)])
        there = store.get(SCOPE, Organization, "default")
        assert there is not None
        assert (there.name, there.data_key) == ("renamed", own.data_key)
        assert store.get(SCOPE, Agent, "one") is not None


def test_two_processes_that_need_the_first_key_at_once_agree_on_it(place: Place) -> None:
    if place[0] == "duckdb":
        pytest.skip("one process at a time")
    with closing(opened(place, None)) as plain:
        plain.transact(SCOPE, everything("plain"))
        stores = [store_with_keys(place[1], KEY) for _ in range(2)]
        ready = threading.Barrier(2)

        def write(number: int) -> None:
            ready.wait(60)
            for count in range(5):
                stores[number].transact(SCOPE, everything(f"{number}-{count}"))

        try:
            with ThreadPoolExecutor(2) as threads:
                for done in [threads.submit(write, number) for number in range(2)]:
                    done.result(120)
            for store in stores:
                assert len(store.find(SCOPE, Query(Agent)).records) == 11
        finally:
            for store in stores:
                store.close()
        with pytest.raises(WrongKey):  # it saw a store without keys a moment ago
            plain.transact(SCOPE, everything("late")[:1])


def test_organizations_have_keys_of_their_own(place: Place) -> None:
    with closing(opened(place)) as store:
        scope = Scope("second")
        store.transact(scope, [Insert(Organization(organization_id="second", id="second", name="second"))])
        store.transact(scope, [Insert(Agent(organization_id="second", id="one", name="agent", system=MARKER))])
        store.transact(SCOPE, everything())
        keys = {store.select(one, Query(Organization), ("data_key",))[0][0] for one in (SCOPE, scope)}
    assert len(keys) == 2
    assert None not in keys


def test_encrypted_fields_are_not_compared_or_put_in_order(place: Place) -> None:
    with closing(opened(place)) as store:
        for query in (
            Query(Agent, (equal("system", "x"),)),
            Query(Agent, (OneOf("system", ("x",)),)),
            Query(User, (Compare("profile_data", "=", "x", key="likes"),)),
            Query(Agent, order=(Order("system"),)),
        ):
            with pytest.raises(InvalidInput, match="is encrypted"):
                store.find(SCOPE, query)
        assert store.find(SCOPE, Query(Agent, (IsNull("system"),))).records == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_value_moved_to_another_record_or_field_is_noticed(kind: str, tmp_path: Path) -> None:
    place = (kind, EVERY_STORE[kind](tmp_path), tmp_path)
    moves = (
        "UPDATE agent SET system = (SELECT system FROM agent WHERE id = 'one') WHERE id = 'two'",
        "UPDATE agent SET directives = llm_config WHERE id = 'one'",
    )
    with closing(opened(place)) as store:
        store.transact(SCOPE, everything("one"))
        store.transact(SCOPE, everything("two"))
        for move in moves:
            if kind == "sqlite":
                assert isinstance(store, SqliteStore)
                store._writer.run(lambda move=move: store._tables.run(move))  # type: ignore[misc]
            else:
                server().admin(move, place[1].rpartition("/")[2])
        for id in ("one", "two"):
            with pytest.raises(DamagedData, match="was changed, or moved there"):
                store.get(SCOPE, Agent, id)
        assert len([one for one in store.verify() if one.table == "agent"]) == 2


@given(
    value=st.one_of(st.text(), st.from_regex(r"sealed:[012]:[0-9a-f]{0,17}:?.*", fullmatch=True)),
    is_keyed=st.booleans(),
)
def test_a_text_is_opened_as_it_was_sealed(value: str, is_keyed: bool) -> None:
    key = DataKey(b"k" * 32)

    class Keys:
        def current(self, organization_id: str) -> DataKey | None:
            return key if is_keyed else None

        def named(self, organization_id: str, key_id: str) -> DataKey:
            assert key_id == key.id
            return key

        def seals_texts(self, organization_id: str) -> bool:
            return is_keyed

        def has_sealed_texts(self, organization_id: str, key_id: str | None = None) -> bool:
            return True

        def text_keys(self, organization_id: str, *, fresh: bool = False) -> list[DataKey | None]:
            return [key, None]

    cipher, at = FieldCipher(Keys()), FieldPlace("o", "t", "i", "f")
    for type, plain in (("text", value), ("bytes", value.encode()), ("json", {value: [value]})):
        assert cipher.open(at, type, cipher.seal(at, type, plain)) == plain  # type: ignore[arg-type]
        if type != "bytes":
            assert cipher.open_text(at, type, cipher.seal_text(at, type, plain)) == plain  # type: ignore[arg-type]
    if not value.startswith("sealed:"):  # a hash never does
        sealed = cipher.seal_hash(at, "text", value)
        assert cipher.open_text(at._replace(id="another record"), "text", sealed) == value
        assert sealed in cipher.hash_forms(at, value)
        if is_keyed:
            with pytest.raises(DamagedData):
                cipher.open_text(at._replace(field="another field"), "text", sealed)


def test_a_term_is_told_by_its_key_alone() -> None:
    one, other = DataKey(b"k" * 32), DataKey(b"o" * 32)
    assert one.term("pytest") == DataKey(b"k" * 32).term("pytest") != other.term("pytest")
    assert len({one.term(f"word {number}") for number in range(5000)}) == 5000
    assert all(len(one.term(term)) == 16 for term in ("a", "打印", "x" * 64))


def test_only_fields_that_nothing_rests_on_are_declared_encrypted() -> None:
    for record in RECORDS.values():
        shape = record.shape
        types = {column.name: column.type for column in record.columns()}
        keys = {name for one in (*(key.fields for key in shape.unique), *shape.indexes) for name in one}
        text = {*shape.text.fields, *shape.text.facets} if shape.text else set()
        assert not shape.encrypted & (keys | text | shape.references.keys()), shape.table
        assert {types[name] for name in shape.encrypted} <= {"text", "json", "bytes"}, shape.table
        unique = {name for key in shape.unique for name in key.fields}
        assert not shape.encrypted_texts & (keys | shape.references.keys()), shape.table
        assert not shape.encrypted_hashes & (unique | shape.references.keys()), shape.table
        assert {types[name] for name in shape.encrypted_texts} <= {"text", "json"}, shape.table
        assert {types[name] for name in shape.encrypted_hashes} <= {"text"}, shape.table
