"""Makes the golden stores of a release: the same small world in a file of every store, and what must be read in it.

`make golden` runs it, once, from a checkout of the release; it writes tests/golden/VERSION.*

What is written is never made again: later programs open it, and must find what the listing says. See CONTRIBUTING.md.
"""

from __future__ import annotations

import base64
import json
import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recollect
from dynamodb_server import dynamodb
from filling import fill
from postgres_server import BIN, server
from recollect import app
from recollect.app.stores import record_store
from recollect.domain.agents import Lease
from recollect.domain.record import RECORDS
from recollect.ports.query import Order, Query
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Insert
from recollect.services.admin.export import record_line

HERE = Path(__file__).parent
ORGANIZATIONS = ("acme", "globex ' \" % é")
WORDS = {"acme": "harbour", ORGANIZATIONS[1]: "vineyard"}
EMBEDDER = "hash"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for ending, raw in _made(Path(folder)):
            path = HERE / f"{recollect.__version__}.{ending}.xz"
            path.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME))
            print(f"{path.name}: {path.stat().st_size:,} bytes")


def _made(folder: Path) -> Iterator[tuple[str, bytes]]:
    origin = folder / "golden.db"
    with recollect.open(folder / "first.db", embedder=EMBEDDER, citation_root=folder) as mem:
        for name in ORGANIZATIONS:
            fill(mem.within(name, actor="ann"), WORDS[name], folder)
        mem.backup(str(origin))
    yield "sqlite", origin.read_bytes()
    yield "listing.json", json.dumps(listed(str(origin)), ensure_ascii=False, sort_keys=True, indent=0).encode()
    yield "duckdb", _backed_up(str(origin), f"duckdb:///{folder}/golden.duckdb", folder / "copy.duckdb")
    yield "pgdump", _backed_up(str(origin), server().new_store(), folder / "copy.pgdump", postgres_tools=BIN)
    yield "dynamodb.jsonl", _items_of(str(origin))
    with recollect.open(origin, embedder=EMBEDDER, organization=ORGANIZATIONS[0]) as mem:
        mem.export(str(folder / "export.jsonl"), audit=True)
    yield "export.jsonl", (folder / "export.jsonl").read_bytes()


def _backed_up(origin: str, address: str, target: Path, **settings: Any) -> bytes:
    _copied(origin, address)
    with recollect.open(address, embedder=EMBEDDER, **settings) as mem:
        mem.backup(str(target))
    return target.read_bytes()


def _items_of(origin: str) -> bytes:
    """Every item of the table as DynamoDB sends it, a line each; bytes in base64."""
    address = dynamodb().new_store()
    _copied(origin, address)
    table = address.partition("://")[2].partition("?")[0]
    items = [
        item for page in dynamodb().client.get_paginator("scan").paginate(TableName=table) for item in page["Items"]
    ]
    lines = (json.dumps(item, default=lambda raw: base64.b64encode(raw).decode(), sort_keys=True) for item in items)
    return "\n".join(sorted(lines)).encode() + b"\n"


def _copied(origin: str, address: str) -> None:
    """All records; leases too, which a copy leaves out."""
    app.copy(origin, address)
    here, there = record_store(origin)[0], record_store(address)[0]
    try:
        for name in ORGANIZATIONS:
            scope = Scope(name)
            there.transact(scope, [Insert(one) for one in here.find(scope, Query(Lease)).records])
    finally:
        here.close()
        there.close()


def listed(address: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every record of a store, field by field: by organization and table, in order of id."""
    store: RecordStore = record_store(address)[0]
    try:
        return {name: listed_tenant(store, Scope(name)) for name in store.tenants()}
    finally:
        store.close()


def listed_tenant(store: RecordStore, scope: Scope) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [
            json.loads(record_line(one))["record"]
            for one in store.find(scope, Query(record, (), (Order("id"),), deleted="yes")).records
        ]
        for table, record in sorted(RECORDS.items())
    }


if __name__ == "__main__":
    main()
