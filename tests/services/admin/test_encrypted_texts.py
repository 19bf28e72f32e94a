"""An organization whose texts are encrypted: no word of them is stored in the clear, and everything is found as before.

On stores that encrypt field by field; tests/adapters/records/test_encrypted_fields.py has what each field goes through.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE, store_with_keys
from filling import fill
from postgres_server import server
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common import data_keys
from recollect.adapters.records.dynamodb.client import DynamoClient
from recollect.domain.conversations import Message
from recollect.domain.memory import Memory, Revision
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import Organization
from recollect.errors import InvalidInput, InvalidSettings, WrongKey
from recollect.ports.keys import KeyService
from recollect.ports.query import Compare, Order, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Insert, Step
from recollect.services.admin.copy import copy
from seeds import some

ONE_BY_ONE = ("postgres", "dynamodb")
KEY, OTHER = "a key for the tests of texts", "another key for these tests"
MARK = "zanzibar"
SCOPE = Scope("default")
CORPUS = (
    "Alice prefers pytest and runs it before every commit",
    "The deploy of Friday failed with err-4012 in the billing service",
    "Bob restarted the billing service after the deploy",
    "上海办公室的会议室在三楼",
    "北京办公室的打印机坏了",
    "Die Lieferung nach Köln kommt am Dienstag",
    "Running the tests takes twelve minutes on two cores",
    "The printer in Beijing was repaired on Monday",
    "Customers in Cologne asked for invoices in German",
    "Alice deployed the fix for err-4012 on Saturday",
    "A retry of the payment needs the same idempotency key",
    "The meeting room in Shanghai has no projector",
)
QUESTIONS = (
    "who deployed the billing service?",
    "err 4012",
    "办公室 打印机",
    "test minutes",
    "Köln",
    "会议室",
    "invoice",
)


@pytest.fixture(params=ONE_BY_ONE)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return EVERY_STORE[request.param](tmp_path)


@pytest.fixture(params=some(1, ONE_BY_ONE, "a store with encrypted texts"))
def some_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return EVERY_STORE[request.param](tmp_path)


@contextmanager
def opened(address: str, key: str | None = KEY) -> Iterator[Any]:
    service: KeyService | None = MasterKey(key) if key else None
    with (
        closing(store_with_keys(address, service)) as store,
        recollect.open(store, embedder="hash", background=False) as mem,
    ):
        yield mem


def stored_columns(address: str) -> dict[str, str]:
    """All that a raw connection sees, by table and column; statistics of the database and names of items, too."""
    found: dict[str, list[str]] = {}
    if address.startswith("postgres"):
        name = address.rpartition("/")[2]
        tables = (*RECORDS, "recollect_gone", "recollect_store")
        rows = " UNION ALL ".join(f"SELECT '{table}', to_jsonb(t) FROM \"{table}\" t" for table in tables)
        for table, row in server().admin(rows, name):
            for column, value in row.items():
                found.setdefault(f"{table}.{column}", []).append(json.dumps(value, ensure_ascii=False))
        for table, column, *told in server().admin(
            "SELECT tablename, attname, most_common_vals::text, histogram_bounds::text, most_common_elems::text "
            "FROM pg_stats WHERE schemaname = current_schema()",
            name,
        ):
            of = next((one for one in sorted(RECORDS, key=len, reverse=True) if table.startswith(one)), table)
            found.setdefault(f"{of}.{column}", []).append(repr(told))
    else:
        with closing(DynamoClient(address)) as client:
            for item in client.everything():
                kind, *words = item["p"].split("\x1f")[1:]
                kind = kind[:1]  # without the number of a shard
                if kind == "r" and "b" in item:
                    found.setdefault(f"{words[0]}.id", []).append(item["s"])
                    body = bytes(item["b"])[:-4]
                    whole = zlib.decompress(body[1:]) if body[:1] == b"\x01" else body[1:]
                    start = 4 + int.from_bytes(whole[:4], "big")
                    for column, value in json.loads(whole[4:start]).items():
                        found.setdefault(f"{words[0]}.{column}", []).append(json.dumps(value, ensure_ascii=False))
                else:
                    found.setdefault(f"items {kind} {item['s'].split(chr(31))[:2]}", []).append(repr(item))
    return {place: "\n".join(values).lower() for place, values in found.items()}


def places_of(address: str, word: str = MARK) -> set[str]:
    return {place for place, stored in stored_columns(address).items() if word.lower() in stored}


# What stays visible: names, labels, ids and paths that records are found by, and data that is not a text of a memory.
VISIBLE = {
    "user": {"name", "email", "timezone", "password_hash"},
    "project": {"name", "description"},
    "kind": {"description", "json_schema"},
    "organization": {"name", "secret", "data_key"},
    "api_key": {"name", "key_hash", "scopes", "counted_on", "namespace"},
    "agent": {"type", "name", "description", "topic", "message_ids", "metadata", "tool_rules"},
    "block": {"label", "description", "template_name", "metadata"},
    "block_link": {"block_label"},
    "tool": {"name", "description", "json_schema", "source_type", "source_code", "tags", "metadata"},
    "execution": {"queue", "worker", "past", "rewinds", "metadata"},
    "lease": {"holder"},
    "memory": {"kind", "metadata", "level", "author", "moment", "namespaces", "source_agent"},
    "tag": {"tag"},
    "relationship": {"type", "metadata"},
    "embedding": {"namespace", "model", "vector", "tokens", "facets"},
    "index_task": {"namespace", "model"},
    "citation": {"type", "source"},
    "session": {"type", "metadata", "extracted_to"},
    "message": {"model", "name", "tool_call_id", "step_id", "otid", "group_id", "sender_id", "references"},
    "access_log": {"action", "error_message", "ip_address", "salt"},
    "seal": {"previous", "digest"},
    "item": {"path", "namespace", "key"},
    "item_vector": {"path", "place", "model", "vector"},
    "checkpoint_line": {"thread", "namespace", "ends", "small", "last_spans"},
    "checkpoint": {"run_id", "metadata", "spans", "starts", "lacks"},
    "checkpoint_items": {"stream"},
    "checkpoint_writes": {"task_id", "task_path", "slots"},
    "workspace": {"name", "metadata", "root"},
    "workspace_file": {"path", "content_hash", "media_type", "metadata", "bucket"},
    "changed_bucket": {"bucket"},
    "blob": {"doomed"},
    "tree_node": {"entries", "doomed"},
    "snapshot": {"label", "manifest_hash", "manifest"},
    "source": {"name", "description", "path", "media_type", "content_hash", "metadata", "format"},
    "source_version": {"content_hash", "media_type", "format", "path", "tables", "changes"},
    "object": {"digest", "media_type"},
    "table": {"name", "description", "metadata", "digest", "values_digest", "rejected", "fingerprint", "joins"},
    "field": {"name", "description", "type", "statistics", "sample_values", "sample_text", "meaning"},
    "connection": {"name", "engine", "secret_name", "facts", "problem"},
    "query_run": {"source_ids", "metadata", "states", "result_hash", "fingerprint"},
    "cold_archive": {
        "address", "place", "digest", "manifest", "counts", "memory_groups", "user_ids", "agent_ids", "project_ids",
        "cycle_marks",
    },
    "cold_record": {"record_table", "digest"},
    "cold_link": {"link"},
    "erasure_certificate": {"subject", "running_for", "work", "document"},
    "retention_rule": {"kind", "level", "reason"},
    "legal_hold": {"reason", "release_reason"},
    "backup": {"place", "digest", "drill", "error"},
}  # fmt: skip


def test_every_field_that_can_hold_a_text_is_encrypted_or_listed_as_visible() -> None:
    """Whoever adds a field decides; docs/guides/encryption.md says the same in words."""
    for table, record in RECORDS.items():
        ids = {name for name, info in record.model_fields.items() if name == "id" or name.endswith(("_id", "_by"))}
        ids |= {"idempotency_key", "because_of", "claim_key", "extracted_to"} - VISIBLE.get(table, set())
        free = {
            column.name
            for column in record.columns()
            if column.type in ("text", "json", "bytes")
            and not (column.type == "text" and "Literal" in str(record.model_fields[column.name].annotation))
        }
        sealable = record.shape.sealable
        assert free - ids - sealable == VISIBLE.get(table, set()) - ids, table
        assert not sealable & ids, table
        assert not (record.shape.encrypted_texts & record.shape.encrypted), table


def test_no_word_of_a_text_is_stored_in_the_clear(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something of every record, written in the clear and then encrypted, beside what is written afterwards."""
    monkeypatch.chdir(tmp_path)
    with opened(address) as mem:
        fill(mem, MARK, tmp_path)
        if address.startswith("postgres"):
            server().admin("ANALYZE", address.rpartition("/")[2])  # its statistics quote texts
        before = places_of(address)
        done = mem.encryption.text("on")
        assert (done.text_encrypted, done.stored, done.is_complete) == (True, "sealed", True)
        assert done.rewritten > 20
        mem.remember(f"Later news of {MARK}", id="later")
        mem.message.add("user", f"{MARK} was mentioned", session="talk")
        mem.recall(MARK)
        with suppress(InvalidInput):
            mem.remember("", kind=MARK)
        assert mem.stats().texts == "sealed"
        assert mem.stats().erasures_owed == 0
        assert mem._core.store.verify() == []
    texts = {f"{table}.{name}" for table, record in RECORDS.items() for name in record.shape.sealable}
    assert {"memory.text", "memory.content", "message.text", "revision.state"} <= before
    left = places_of(address)
    assert not left & texts
    assert {place for place in left if place.endswith("._text")} <= {"source._text", "table._text", "field._text"}
    visible = {f"{table}.{name}" for table, names in VISIBLE.items() for name in names}
    assert {place for place in left - visible if not place.endswith(("._text", ".id", "_id", "_by"))} <= {
        place
        for place in left
        if place.startswith("items i ")  # index entries of tags and names
    }
    for place in left:
        assert not any(field in place for field in ("identity", "content_hash")), place
    with opened(address) as mem:
        assert mem.recall(f"later news of {MARK}").hits[0].id == "later"
        assert {hit.text for hit in mem.message.search("mentioned").hits} == {f"{MARK} was mentioned"}


def answers(mem: Any) -> list[list[tuple[str, str]]]:
    return [[(hit.id, hit.text) for hit in mem.recall(question, limit=10).hits] for question in QUESTIONS]


class _Killed(BaseException):
    """What a process that is killed never gets to handle."""


@contextmanager
def dying(mem: Any, at: int) -> Iterator[None]:
    """The store is dead from its nth transaction on."""
    keys, count = mem._core.store.data_keys, 0
    write = keys._write

    def writing(scope: Scope, steps: Sequence[Step]) -> Any:
        nonlocal count
        count += 1
        if count >= at:
            raise _Killed
        return write(scope, steps)

    keys._write = writing
    with suppress(_Killed):
        yield
    keys._write = write


@pytest.mark.parametrize("at", some(1, [2, 5, 12], "where encrypting texts is killed"))
def test_texts_are_encrypted_and_decrypted_in_pieces_and_found_all_the_while(
    address: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.services.admin.encryption.BATCH", 4)
    with opened(address) as mem:
        for number, text in enumerate(CORPUS):
            mem.remember(text, id=f"m{number:02}")
        mem.revise("m00", f"{CORPUS[0]}, says {MARK}", why=f"{MARK} told her")
        before = answers(mem)
        assert sum(map(len, before)) > 30
        with dying(mem, at):
            mem.encryption.text("on")
    with opened(address) as mem:
        assert mem.stats().texts == "sealing"
        assert answers(mem) == before
        assert mem.remember(CORPUS[3]).id == "m03"  # the same text again, sealed or not
        assert mem.remember(CORPUS[11]).id == "m11"
        assert mem.verify().problems == []
        assert mem.encryption.text("on").is_complete
        assert answers(mem) == before
        assert mem.remember(CORPUS[3]).duplicate
        assert mem.stats().texts == "sealed"
        assert not places_of(address)
        assert not places_of(address, "办公室")
        with dying(mem, at):
            mem.encryption.text("off")
    with opened(address) as mem:
        assert mem.stats().texts == "opening"
        assert answers(mem) == before
        assert mem.encryption.text("off").is_complete
        assert (mem.stats().texts, mem.verify().problems) == ("clear", [])
        assert answers(mem) == before
        assert "memory.text" in places_of(address)
        assert mem.remember(CORPUS[3]).id == "m03"


def test_keys_are_changed_and_texts_are_found_all_the_while(address: str) -> None:
    with opened(address) as mem:
        mem.encryption.text("on")
        for number, text in enumerate(CORPUS):
            mem.remember(text, id=f"m{number:02}")
        before = answers(mem)
        mem._core.store.data_keys.rotate(SCOPE)
        assert answers(mem) == before
        assert mem.remember("written with the new key", id="new").id == "new"
        assert mem.remember(CORPUS[1]).duplicate
        assert mem.verify().problems == []
        assert mem.encryption.rotate().is_complete
        assert len(mem._core.store.data_keys.key_ids(SCOPE)) == 1
        assert mem.encryption.rewrap().keys == 1
        assert mem.recall("written with the new key").hits[0].id == "new"
        assert mem.doctor(fix=True).findings
        assert mem.verify().problems == []
        store, alike = mem._core.store, Query(Memory, (equal("text", CORPUS[3]),))
        if address.startswith("postgres"):
            for query in (
                alike,
                Query(Memory, (Compare("content", "=", "x", key="text"),)),
                Query(Memory, order=(Order("text"),)),
                Query(Memory, (Compare("identity", ">", "a"),)),
                Query(Revision, (equal("text", "x"),)),
            ):
                with pytest.raises(InvalidInput) as refused:
                    store.find(SCOPE, query)
                assert "encryption text off" in refused.value.remedy
        else:
            assert [one.id for one in store.find(SCOPE, alike).records] == ["m03"]
    with opened(address) as mem:
        assert [one[:3] for one in answers(mem)] == [one[:3] for one in before]


@pytest.mark.parametrize("key", [None, OTHER], ids=["lost", "other"])
def test_with_a_lost_or_another_key_no_text_is_read_found_or_written(address: str, key: str | None) -> None:
    with opened(address) as mem:
        mem.remember(CORPUS[0], id="kept", tags=["tools"])
        mem.encryption.text("on")
    with opened(address, key) as mem:
        for use in (
            lambda: mem.show("kept"),
            lambda: mem.recall("pytest"),
            lambda: mem.remember("in the clear"),
            lambda: mem.revise("kept", "overwritten"),
            lambda: mem.encryption.text("off"),
        ):
            with pytest.raises((WrongKey, InvalidSettings)) as failure:
                use()
            assert "key" in failure.value.remedy
        assert mem._core.store.select(SCOPE, Query(Memory), ("id", "kind")) == [("kept", "fact")]
        assert any("WrongKey" in one.what for one in mem._core.store.verify())
    with opened(address) as mem:
        assert mem.show("kept").text == CORPUS[0]
        assert mem.stats().memories == 1
        assert mem.verify().problems == []


def test_a_process_that_knows_nothing_of_it_yet_writes_no_text_in_the_clear(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(address) as one, opened(address) as other:
        monkeypatch.setattr(data_keys, "_BELIEVED_SECONDS", 3600.0)
        other.remember(CORPUS[1], id="before")
        one.encryption.text("on")
        told = Message(organization_id="default", id="told", role="user", text=f"{MARK} was told")
        other._core.store.transact(SCOPE, [Insert(told)])
        assert other.remember(f"a word about {MARK}", id="after").id == "after"
        monkeypatch.setattr(data_keys, "_BELIEVED_SECONDS", 0.0)
        assert [hit.id for hit in other.recall("err-4012").hits[:1]] == ["before"]
        assert [hit.id for hit in one.recall(MARK).hits[:1]] == ["after"]
        assert not places_of(address)
        one.encryption.text("off")
        assert [hit.id for hit in other.recall(MARK).hits[:1]] == ["after"]


def test_what_else_reads_texts_works_on_encrypted_ones(some_address: str, tmp_path: Path) -> None:
    with opened(some_address) as mem:
        mem.encryption.text("on")
        mem.user.add("Ann", id="ann")
        talk = mem.session.add("about the harbour", user="ann").id
        for text in CORPUS[:4]:
            mem.remember(text, session=talk, user="ann")
        note = mem.remember("Ann keeps the harbour key", id="harbour", user="ann")
        assert mem.context("harbour").text.count("harbour")
        assert mem.why_not("harbour", note.id).reasons is not None
        assert mem.summary.roll_up().model_dump()
        mem.item.put(["a"], "k", value={"colour": "red"})
        assert [one.key for one in mem.item.search(["a"], filter={"colour": "red"}).items] == ["k"]
        mem.revise(note.id, "Ann keeps both harbour keys")
        assert "Ann keeps the harbour key" in str(mem.history(note.id).model_dump())
        mem.export(str(tmp_path / "all.jsonl"))
        mem.message.add("user", "the harbour is shut", session=talk, user="ann")
        assert [hit.text for hit in mem.message.search("harbour").hits] == ["the harbour is shut"]
        assert {"message", "session"} <= {one.kind for one in mem.privacy.find(user="ann").records}
        mem.privacy.erase(user="ann", reason="she asked")
        assert mem.recall("harbour").hits == []
        assert mem.verify().problems == []
    with recollect.open(str(tmp_path / "plain.db"), embedder="hash", background=False) as plain:
        plain.import_(str(tmp_path / "all.jsonl"))
        assert plain.show(note.id).text == "Ann keeps both harbour keys"
        assert plain.stats().texts == "clear"


def test_a_copy_keeps_texts_encrypted_where_it_can_and_says_where_it_cannot(some_address: str, tmp_path: Path) -> None:
    with opened(some_address) as mem:
        mem.encryption.text("on")
        mem.remember(f"All about {MARK}", id="one")
        here = mem._core.store
        copied = EVERY_STORE["postgres" if some_address.startswith("dynamodb") else "dynamodb"](tmp_path)
        with closing(store_with_keys(copied, None)) as there, pytest.raises(InvalidSettings) as refused:
            copy(here, there)
        assert "encryption new-key" in refused.value.remedy
        with closing(store_with_keys(copied, MasterKey(OTHER))) as there:
            for _ in range(2):
                copy(here, there)
        assert not places_of(copied)
        with opened(copied, OTHER) as other:
            assert (other.stats().texts, other.recall(MARK).hits[0].id) == ("sealed", "one")
        mem.organization.remove("default")
    assert not places_of(some_address)


def test_in_a_file_texts_are_encrypted_with_everything_else_or_not_at_all(tmp_path: Path) -> None:
    memory: Any = recollect.open(str(tmp_path / "keyed.db"), key=KEY, embedder="hash", background=False)
    with memory as mem:
        mem.remember(CORPUS[0])
        done = mem.encryption.text("on")
        assert (done.stored, done.rewritten, done.is_complete) == ("file", 0, True)
        assert "encrypted as a whole" in done.notes[0]
        assert mem._core.store.get(SCOPE, Organization, "default").text_encrypted
        assert mem.recall("pytest").hits[0].text == CORPUS[0]
        assert not mem.encryption.text("off").text_encrypted
    for address, remedy in (
        (str(tmp_path / "plain.db"), "recollect encryption set"),
        (f"duckdb:///{tmp_path}/plain.duckdb", "recollect encryption set"),
        ("memory://", "a store that has a key"),
    ):
        memory = recollect.open(address, embedder="hash", background=False)
        with memory as mem:
            mem.remember(CORPUS[0])
            with pytest.raises(InvalidSettings) as refused:
                mem.encryption.text("on")
            assert remedy in refused.value.remedy
            assert mem.stats().texts == "clear"


def test_without_a_key_texts_cannot_be_encrypted(address: str) -> None:
    with opened(address, None) as mem:
        with pytest.raises(InvalidSettings) as refused:
            mem.encryption.text("on")
        assert "encryption new-key" in refused.value.remedy
        assert mem.remember(CORPUS[0]).id
