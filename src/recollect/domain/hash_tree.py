"""The hash tree over the paths of a workspace: what did not change is shared, and comparing costs what differs.

A path falls into one of 4,096 buckets by its hash. A leaf holds the entries of one bucket, sorted by path; above it are
three levels of up to sixteen children each. A node is named by the hash of its entries, so the same files always
make the same root. Nodes are loaded a level at a time, through `load`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from recollect.domain.memory import canonical
from recollect.domain.record import JsonList
from recollect.errors import DamagedData

DEPTH = 3  # hexadecimal digits of a bucket
NODE_HASH = "t1:"
Entries = JsonList
Load = Callable[[Sequence[str]], Mapping[str, Entries]]


class Entry(NamedTuple):
    """One file in a leaf."""

    path: str
    content_hash: str
    size: int
    media_type: str


class Difference(NamedTuple):
    """A path whose entry is not the same before and after; none where there is no such file."""

    path: str
    before: Entry | None
    after: Entry | None


def bucket_of(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:DEPTH]


def node_id(entries: Entries) -> str:
    return NODE_HASH + hashlib.sha256(canonical(entries)).hexdigest()


def grown(root: str | None, leaves: Mapping[str, Iterable[Entry]], load: Load) -> tuple[str | None, dict[str, Entries]]:
    """The root after some buckets have other entries, and the nodes that makes; None for no files at all."""
    inner = _inner_nodes(root, leaves, load)
    made: dict[str, Entries] = {}

    def place(prefix: str, entries: Entries) -> None:
        children = inner[prefix[:-1]]
        if entries:
            id = node_id(entries)
            children[prefix[-1]], made[id] = id, entries
        else:
            children.pop(prefix[-1], None)

    for bucket, entries in leaves.items():
        place(bucket, [list(entry) for entry in sorted(entries)])
    for prefix in sorted(inner, key=len, reverse=True)[:-1]:
        place(prefix, _as_entries(inner[prefix]))
    top = _as_entries(inner[""])
    if not top:
        return None, {}
    return node_id(top), {**made, node_id(top): top}


def _inner_nodes(root: str | None, buckets: Iterable[str], load: Load) -> dict[str, dict[str, str]]:
    """The nodes above some buckets by prefix, each as digit to child; empty ones where there are none yet."""
    wanted = list(buckets)
    inner: dict[str, dict[str, str]] = {"": dict(loaded([root], load)[root]) if root else {}}
    for depth in range(1, DEPTH):
        prefixes = sorted({bucket[:depth] for bucket in wanted})
        ids = {prefix: inner[prefix[:-1]].get(prefix[-1]) for prefix in prefixes}
        nodes = loaded([id for id in ids.values() if id], load)
        for prefix, id in ids.items():
            inner[prefix] = dict(nodes[id]) if id else {}
    return inner


def _as_entries(children: Mapping[str, str]) -> Entries:
    return [[digit, id] for digit, id in sorted(children.items())]


def differences(before: str | None, after: str | None, load: Load) -> list[Difference]:
    """Every path that differs between two trees, sorted; costs what differs, not what is there."""
    pairs = [(before, after)] if before != after else []
    for _ in range(DEPTH):
        nodes = loaded([id for pair in pairs for id in pair if id], load)
        pairs = [child for one, other in pairs for child in _unlike(nodes, one, other)]
    leaves = loaded([id for pair in pairs for id in pair if id], load)
    found: list[Difference] = []
    for one, other in pairs:
        old, new = ({entry[0]: Entry(*entry) for entry in leaves[id]} if id else {} for id in (one, other))
        found += [Difference(p, old.get(p), new.get(p)) for p in {*old, *new} if old.get(p) != new.get(p)]
    return sorted(found)


def _unlike(
    nodes: Mapping[str, Entries], one: str | None, other: str | None
) -> Iterator[tuple[str | None, str | None]]:
    old, new = (dict(nodes[id]) if id else {} for id in (one, other))
    for digit in {*old, *new}:
        if old.get(digit) != new.get(digit):
            yield old.get(digit), new.get(digit)


def levels(roots: Iterable[str], load: Load) -> Iterator[Mapping[str, Entries]]:
    """All nodes below some roots, a level at a time, each node once; the last level are the leaves."""
    ids = sorted(set(roots))
    for _ in range(DEPTH + 1):
        nodes = loaded(ids, load)
        yield nodes
        ids = sorted({id for entries in nodes.values() for _, id in (entry[:2] for entry in entries)})


def loaded(ids: Sequence[str], load: Load) -> Mapping[str, Entries]:
    """These nodes, each proven by its hash."""
    nodes = load(ids) if ids else {}
    for id in ids:
        if id not in nodes:
            raise DamagedData("a node of a snapshot's tree is missing", remedy="restore a backup", id=id)
        if node_id(nodes[id]) != id:
            raise DamagedData("a node of a snapshot's tree does not match its hash", remedy="restore a backup", id=id)
    return nodes
