"""Stores that released versions made are opened, brought up to date, and mean what they meant."""

from __future__ import annotations

import base64
import json
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import recollect
from dynamodb_server import dynamodb
from golden.make import EMBEDDER, HERE, ORGANIZATIONS, WORDS, listed
from postgres_server import BIN, server
from recollect.app import restore_backup
from recollect.domain.record import RECORDS
from recollect.services.admin.export import AUDIT, LEFT_OUT
from seeds import some

VERSIONS = sorted(path.name.removesuffix(".listing.json.xz") for path in HERE.glob("*.listing.json.xz"))
PINS = Path(__file__).parent / "released_migrations.txt"
# What is written whenever somebody looks, and may be more than it was.
GROWING = frozenset({"access_log", "seal"})
# What is owed is done when a store is opened, and no copy or export takes it along.
PASSING = frozenset({"erasure"})
COUNTED = frozenset({"access_count", "last_accessed", "score"})


def golden(version: str, ending: str) -> bytes:
    return lzma.decompress((HERE / f"{version}.{ending}.xz").read_bytes())


def sqlite(version: str, folder: Path) -> str:
    (folder / "store.db").write_bytes(golden(version, "sqlite"))
    return str(folder / "store.db")


def duckdb(version: str, folder: Path) -> str:
    (folder / "store.duckdb").write_bytes(golden(version, "duckdb"))
    return f"duckdb:///{folder}/store.duckdb"


def postgres(version: str, folder: Path) -> str:
    (folder / "store.pgdump").write_bytes(golden(version, "pgdump"))
    address = server().new_database()
    restore_backup(folder / "store.pgdump", address, postgres_tools=BIN)
    return address


def dynamo(version: str, folder: Path) -> str:
    address = dynamodb().new_store()
    table = address.partition("://")[2].partition("?")[0]
    keys = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}]
    kinds = [{"AttributeName": name, "AttributeType": "S"} for name in "ps"]
    dynamodb().client.create_table(
        TableName=table, KeySchema=keys, AttributeDefinitions=kinds, BillingMode="PAY_PER_REQUEST"
    )
    items = [
        {
            name: {"B": base64.b64decode(typed["B"])} if "B" in typed else typed
            for name, typed in json.loads(line).items()
        }
        for line in golden(version, "dynamodb.jsonl").splitlines()
    ]
    for begin in range(0, len(items), 25):  # as many as one request takes
        puts = [{"PutRequest": {"Item": item}} for item in items[begin : begin + 25]]
        left = dynamodb().client.batch_write_item(RequestItems={table: puts})["UnprocessedItems"]
        assert left == {}
    return address


STORES: dict[str, Callable[[str, Path], str]] = {
    "sqlite": sqlite,
    "duckdb": duckdb,
    "postgres": postgres,
    "dynamodb": dynamo,
}


def test_there_are_golden_stores_of_every_released_version() -> None:
    released = {line.split()[2] for line in PINS.read_text().splitlines() if line and not line.startswith("#")}
    assert released == set(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_store_holds_every_table_that_its_version_had(version: str) -> None:
    known = json.loads(golden(version, "listing.json"))
    for name in ORGANIZATIONS:
        assert [table for table, records in known[name].items() if not records] == []
        assert set(known[name]) <= set(RECORDS), "a table that was released has gone"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_store_was_made_by_the_pinned_migrations(version: str, tmp_path: Path) -> None:
    pins = {}
    for line in PINS.read_text().splitlines():
        if line and not line.startswith("#"):
            number, checksum, _ = line.split()
            pins[int(number)] = checksum
    with closing(sqlite3.connect(sqlite(version, tmp_path))) as connection:
        recorded = dict(connection.execute("SELECT number, checksum FROM recollect_migrations"))
    assert recorded == {number: pins[number] for number in recorded}


def versions_and_kinds() -> list[tuple[str, str]]:
    """Every version in SQLite; of each other store the newest and an older one, all of them in a soak."""
    return [
        (version, kind)
        for kind in STORES
        for version in (VERSIONS if kind == "sqlite" else [*some(1, VERSIONS[:-1], f"golden {kind}"), VERSIONS[-1]])
    ]


@pytest.mark.parametrize(("version", "kind"), versions_and_kinds())
def test_a_golden_store_means_what_it_meant(version: str, kind: str, tmp_path: Path) -> None:
    address = STORES[kind](version, tmp_path)
    known = json.loads(golden(version, "listing.json"))
    assert differences(known, listed(address), exact=True) == []
    for name in ORGANIZATIONS:
        with recollect.open(address, embedder=EMBEDDER, organization=name, citation_root=tmp_path) as mem:
            # a golden store has its records alone, without the large content that they name
            assert [one for one in mem.verify().problems if one.table != "object"] == []
            assert mem.audit.verify().sound
            found_again(mem, known[name], WORDS[name])
    assert differences(known, listed(address), exact=False) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_export_is_imported_and_means_what_it_meant(version: str, tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").write_bytes(golden(version, "export.jsonl"))
    known = json.loads(golden(version, "listing.json"))[ORGANIZATIONS[0]]
    brought = {table: records for table, records in known.items() if table not in GROWING | (LEFT_OUT - AUDIT)}
    address = str(tmp_path / "store.db")
    with recollect.open(address, embedder=EMBEDDER, organization=ORGANIZATIONS[0]) as mem:
        mem.import_(str(tmp_path / "export.jsonl"))
        assert [one for one in mem.verify().problems if one.table != "object"] == []
        found_again(mem, known, WORDS[ORGANIZATIONS[0]])
    assert differences({"": brought}, {"": listed(address)[ORGANIZATIONS[0]]}, exact=False) == []


def found_again(mem: Any, known: dict[str, list[dict[str, Any]]], word: str) -> None:
    """A memory that was not forgotten is shown with all that hung on it, and recalled by what it says.

    Every one in a soak, else ten of some thirty, others with each seed; all were compared field by field.
    """
    living = [one for one in known["memory"] if not one["is_deleted"]]
    for memory in some(10, living, word):
        shown = mem.show(memory["id"])
        assert shown.text == memory["text"]
        assert len(shown.citations) == sum(one["memory_id"] == memory["id"] for one in known["citation"])
        assert sorted(shown.tags) == sorted(one["tag"] for one in known["tag"] if one["memory_id"] == memory["id"])
        by = {"statuses": [memory["status"]], "kinds": [memory["kind"]], "include_superseded": True, "limit": 100}
        for way in ("words", "meaning"):
            found = mem.recall(memory["text"], by=way, namespaces=memory["namespaces"], **by)
            assert memory["id"] in [hit.id for hit in found], (way, memory["text"])
    for message in known["message"]:
        assert message["id"] in [hit.id for hit in mem.message.search(word, limit=100).hits]


def differences(known: Any, found: Any, *, exact: bool) -> list[tuple[str, str, str, Any, Any]]:
    """Fields that read otherwise than they were listed. What a later version added may have any value."""
    left_out = frozenset() if exact else COUNTED
    wrong: list[tuple[str, str, str, Any, Any]] = []
    for name, tables in known.items():
        for table, records in ((table, rows) for table, rows in tables.items() if table not in PASSING):
            there = {one["id"]: one for one in found[name][table]}
            for one in records:
                read = there.pop(one["id"], {})
                wrong += [
                    (table, one["id"], field, value, read.get(field))
                    for field, value in one.items()
                    if field not in left_out and (field not in read or read[field] != value)
                ]
            if there and (exact or table not in GROWING):
                wrong.append((table, "", "more than there were", None, sorted(there)))
    return wrong
