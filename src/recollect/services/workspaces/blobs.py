"""File content by its hash: stored once per tenant, checked against the hash when read, deleted when unused.

Small content is written in the transaction of the file that uses it. Large content is written before that in
several transactions, invisible until the last one; what a crash leaves of it is unused and gets collected.

Collecting is safe while others write: what seems unused is first marked `doomed`, then checked once more, and only
deleted if the mark is still there. Whoever starts to use a blob or node removes the mark in the same transaction, so a
use is either older than the second check, which finds it, or prevents the deletion.

A reader needs several reads to get from a file or snapshot to its content, which may be replaced and collected in
between: then it seems damaged, and `steadily` starts again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from recollect.domain.hash_tree import Entries, levels
from recollect.domain.record import Record, new_id
from recollect.domain.workspaces import (
    BLOB_HASH,
    CHUNK_BYTES,
    Blob,
    BlobChunk,
    Content,
    Snapshot,
    TreeNode,
    Workspace,
    WorkspaceFile,
    blob_hash,
)
from recollect.errors import DamagedData, DuplicateKey, RequirementFailed
from recollect.ports.query import Compare, OneOf, Order, Query, equal
from recollect.ports.records import Problem, RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Put, Require, Step, Touch
from recollect.retry import retry
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

T = TypeVar("T")
BATCH_BYTES = 2_500_000
PAGE = 500
PARTS = 16
LOOKS = 5


def steadily(look: Callable[[], T]) -> T:
    """Read files, snapshots or their content; repeat the read if content is missing, which is damage only if it
    stays so.
    """
    return retry(look, DamagedData, tries=LOOKS)


def use_steps(tenant: Tenant, contents: Mapping[str, Content]) -> list[Step]:
    """Steps that make these contents available to the same transaction; large ones are written ahead."""
    there = _complete(tenant, list(contents))
    steps: list[Step] = reuse_steps(Blob, [id for id in contents if id in there])
    for id, data in contents.items():
        if id not in there and len(data) <= BATCH_BYTES:
            steps += [Put(_blob(tenant, id, data)), *_chunks(tenant, id, data, 0, len(data))]
        elif id not in there:
            _write_ahead(tenant, id, data)
            steps += reuse_steps(Blob, [id])
    return steps


def reuse_steps(record: type[Record], ids: Sequence[str]) -> list[Step]:
    """Remove the marks, and require that the content is complete."""
    match = {"complete": True} if record is Blob else {}
    return [step for id in ids for step in (Touch(record, id, put={"doomed": None}), Require(record, id, match))]


def _complete(tenant: Tenant, ids: Sequence[str]) -> set[str]:
    query = Query(Blob, (OneOf("id", tuple(ids)), equal("complete", True)))
    return {id for (id,) in tenant.select(query, ("id",))} if ids else set()


def _blob(tenant: Tenant, id: str, data: Content, complete: bool = True) -> Blob:
    blob: Blob = made(Blob, tenant, id=id, size=len(data), complete=complete)
    return blob


def _chunks(tenant: Tenant, blob: str, data: Content, start: int, end: int) -> Iterator[Step]:
    """The id of a chunk is derived from its blob, so writing it twice has no effect."""
    for position in range(start, end, CHUNK_BYTES):
        index = position // CHUNK_BYTES
        piece = data[position : min(position + CHUNK_BYTES, end)]
        yield Put(made(BlobChunk, tenant, id=f"{blob}:{index}", blob_id=blob, index=index, data=piece))


def _write_ahead(tenant: Tenant, id: str, data: Content, tries: int = 5) -> None:
    """Write large content in several transactions. It is complete only if every chunk exists at the end: it may have
    been collected meanwhile as unused, and started again by another writer.
    """
    width = BATCH_BYTES // CHUNK_BYTES * CHUNK_BYTES
    head: list[Step] = [Insert(_blob(tenant, id, data, complete=False))]
    if tenant.get(Blob, id) is not None:
        head = _stored_steps(id)
    try:
        for start in range(0, len(data), width):
            tenant.transact([*head, *_chunks(tenant, id, data, start, min(start + width, len(data)))])
            head = _stored_steps(id)
        all_there = [Require(BlobChunk, f"{id}:{index}") for index in range(-(-len(data) // CHUNK_BYTES))]
        tenant.transact([*head, *all_there, Put(_blob(tenant, id, data))])
    except (DuplicateKey, RequirementFailed):
        if not tries:
            raise
        _write_ahead(tenant, id, data, tries - 1)


def _stored_steps(id: str) -> list[Step]:
    return [Touch(Blob, id, put={"doomed": None}), Require(Blob, id)]


def read_blob(store: RecordStore, scope: Scope, id: str) -> bytes:
    """The content of a hash, checked against it."""
    chunks = store.select(scope, Query(BlobChunk, (equal("blob_id", id),), (Order("index"),)), ("data",))
    data = b"".join(bytes(piece) for (piece,) in chunks)
    if blob_hash(data) != id:
        raise DamagedData("the content of a file does not match its hash", remedy="restore a backup", id=id)
    return data


def read_parts(store: RecordStore, scope: Scope, id: str) -> Iterator[bytes]:
    """The content of a hash, a few chunks at a time, so that a large file need not fit into memory.

    If it does not match its hash, an error is raised at the end.
    """
    digest, after = hashlib.sha256(), -1
    while True:
        more = (equal("blob_id", id), Compare("index", ">", after))
        rows = store.select(scope, Query(BlobChunk, more, (Order("index"),), limit=PARTS), ("index", "data"))
        for index, data in rows:
            digest.update(data)
            after = index
            yield bytes(data)
        if not rows:
            break
    if BLOB_HASH + digest.hexdigest() != id:
        raise DamagedData("the content of a file does not match its hash", remedy="restore a backup", id=id)


def stored_file(store: RecordStore, scope: Scope, workspace: str, path: str) -> bytes | None:
    """A file of a workspace as it is now; None if there is none."""
    query = Query(WorkspaceFile, (equal("workspace_id", workspace), equal("path", path)), limit=1)

    def look() -> bytes | None:
        rows = store.select(scope, query, ("content_hash",))
        return read_blob(store, scope, rows[0][0]) if rows else None

    return steadily(look)


def load_nodes(store: RecordStore, scope: Scope, ids: Sequence[str]) -> dict[str, Entries]:
    found: dict[str, Entries] = {}
    for start in range(0, len(ids), PAGE):
        some = Query(TreeNode, (OneOf("id", tuple(ids[start : start + PAGE])),))
        found.update(store.select(scope, some, ("id", "entries")))
    return found


def collect(tenant: Tenant) -> tuple[int, int]:
    """Delete every blob and node that no file and no snapshot uses, whoever asks; how many of each."""
    tenant = tenant.unrestricted
    if not tenant.count(Query(Blob)) and not tenant.count(Query(TreeNode)):
        return 0, 0
    mark = new_id()
    for record, ids in steadily(lambda: _unused(tenant)).items():
        for start in range(0, len(ids), PAGE):
            tenant.transact([Touch(record, id, put={"doomed": mark}) for id in ids[start : start + PAGE]])
    unused = steadily(lambda: _unused(tenant))
    gone = {record: _delete_marked(tenant, record, ids, mark) for record, ids in unused.items()}
    return gone[Blob], gone[TreeNode]


def _unused(tenant: Tenant) -> dict[type[Record], list[str]]:
    """What nothing refers to. Files are read before snapshots, because content moves from files to snapshots."""
    files = {hash for (hash,) in tenant.select(Query(WorkspaceFile), ("content_hash",))}
    current = {root for (root,) in tenant.select(Query(Workspace), ("root",)) if root}
    kept = {root for (root,) in tenant.select(Query(Snapshot), ("manifest_hash",)) if root}
    nodes: set[str] = set()
    for roots, counts in ((current, False), (kept, True)):
        below = list(levels(roots, lambda ids: load_nodes(tenant.store, tenant.scope, ids)))
        nodes.update(id for level in below for id in level)
        if counts:
            files.update(entry[1] for entries in below[-1].values() for entry in entries)
    blobs = [id for (id,) in tenant.select(Query(Blob), ("id",))]
    trees = [id for (id,) in tenant.select(Query(TreeNode), ("id",))]
    return {Blob: [id for id in blobs if id not in files], TreeNode: [id for id in trees if id not in nodes]}


def _delete_marked(tenant: Tenant, record: type[Record], unused: Sequence[str], mark: str) -> int:
    deleted = 0
    for start in range(0, len(unused), PAGE):
        some = OneOf("id", tuple(unused[start : start + PAGE]))
        while ids := [id for (id,) in tenant.select(Query(record, (some, equal("doomed", mark))), ("id",))]:
            still = [step for id in ids for step in (Require(record, id, {"doomed": mark}), Delete(record, id))]
            try:
                tenant.transact(still)
            except RequirementFailed:
                continue  # one of them is used again: find those that are still unused
            deleted += len(ids)
    return deleted


def check_content(tenant: Tenant) -> Iterator[Problem]:
    """Check that every blob matches its hash, and that files and snapshots are complete."""
    whole = set()
    after: str | None = None
    while True:
        page = tenant.find(Query(Blob, (equal("complete", True),), (Order("id"),), PAGE, after))
        for blob in page.records:
            if _is_whole(tenant.store, tenant.scope, blob):
                whole.add(blob.id)
            else:
                yield Problem("its content does not match its hash", "blob", blob.id)
        after = page.next
        if after is None:
            break
    for id, content in tenant.select(Query(WorkspaceFile), ("id", "content_hash")):
        if content not in whole:
            yield Problem("its content is missing or damaged", "workspace_file", id)
    yield from _check_trees(tenant, whole)


def _is_whole(store: RecordStore, scope: Scope, blob: Blob) -> bool:
    try:
        for _ in read_parts(store, scope, blob.id):
            pass
    except DamagedData:
        return False
    return True


def _check_trees(tenant: Tenant, whole: set[str]) -> Iterator[Problem]:
    for id, root in tenant.select(Query(Snapshot), ("id", "manifest_hash")):
        try:
            below = list(levels([root] if root else [], lambda ids: load_nodes(tenant.store, tenant.scope, ids)))
        except DamagedData as error:
            yield Problem(error.message, "snapshot", id)
            continue
        if any(entry[1] not in whole for entries in below[-1].values() for entry in entries):
            yield Problem("the content of one of its files is missing or damaged", "snapshot", id)


def insert_nodes(tenant: Tenant, nodes: dict[str, Entries]) -> list[Step]:
    """Write new nodes, and reuse those that exist."""
    there = load_nodes(tenant.store, tenant.scope, list(nodes))
    fresh: list[Step] = [
        Put(made(TreeNode, tenant, id=id, entries=entries)) for id, entries in nodes.items() if id not in there
    ]
    return [*fresh, *reuse_steps(TreeNode, list(there))]
