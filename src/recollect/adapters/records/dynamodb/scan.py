"""Looking through a DynamoDB table: every attribute of every item that a tenant has."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

from recollect.adapters.records.dynamodb.client import DynamoClient
from recollect.adapters.records.dynamodb.codec import Item
from recollect.adapters.records.dynamodb.keys import SEPARATOR
from recollect.ports.records import Scope
from recollect.ports.traces import ByteSearch, ScannedPlace

_KINDS = {
    "h": "head",
    "r": "records",
    "p": "parts",
    "i": "index",
    "c": "counts",
    "u": "unique keys",
    "l": "log",
    "x": "staged writes",
    "g": "segment",
}
LOG = "log"
"""The log has the ids of what was deleted, by which other processes learn of it; no text."""


def scan_items(dynamo: DynamoClient, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
    search = ByteSearch(needles)
    sizes: dict[str, int] = defaultdict(int)
    hits: dict[str, set[int]] = defaultdict(set)
    for item in dynamo.everything():
        tenant, _, rest = item["p"].partition(SEPARATOR)
        if tenant == scope.organization_id:
            name = _KINDS.get(rest[:1], rest)
            size, found = search.found_in(_values(item))
            sizes[name] += size
            hits[name] |= found
    for name, size in sorted(sizes.items()):
        yield ScannedPlace(f"items: {name}", size, frozenset(hits[name]))


def _values(item: Item) -> Iterator[bytes]:
    for value in item.values():
        if isinstance(value, bytes):
            yield value
            yield _inflated(value)
        else:
            yield str(value).encode()


def _inflated(value: bytes) -> bytes:
    """What is compressed in it: the log from its first byte, a record from its second."""
    for start in (0, 1):
        try:
            return zlib.decompressobj().decompress(value[start:])
        except zlib.error:
            continue
    return b""
