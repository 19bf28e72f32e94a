"""Secrets in records of an exported file that is imported: masked or refused as in requests (services/secrets.py).

Ids stay, since others refer to them, and so do bytes, which are named by their hash or compressed, and what is signed
or hashed as a whole: the access log and its seals, certificates, the content of files. A memory whose text changes has
the hash of its new content, and its vectors are made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from recollect.domain.conversations import Message
from recollect.domain.kinds import read_content
from recollect.domain.memory import Embedding, IndexTask, Memory, Revision, content_hash, owner_key
from recollect.domain.record import JsonObject, Record
from recollect.errors import InvalidInput
from recollect.services.memories.revise import identified
from recollect.services.requests import MaskedSecret
from recollect.services.secrets import Masking, refuse_secrets
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

AS_THEY_ARE = frozenset(
    {
        *("access_log", "seal", "erasure", "erasure_certificate"),
        *("organization", "organization_secret", "api_key", "lease"),
        *("blob", "blob_chunk", "tree_node", "snapshot", "changed_bucket", "object"),
        *("embedding", "index_task", "item_vector", "checkpoint_items", "checkpoint_line"),
    }
)
"""Tables without text of users, or whose records are signed or named by their hash."""


class ImportMasking:
    """The secrets of one import: masked, counted, or refused before anything is written."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._masking = Masking.of(tenant)
        self._is_off = tenant.secrets.mode == "keep"

    @property
    def found(self) -> list[MaskedSecret]:
        return self._masking.found

    def refuse(self) -> None:
        refuse_secrets(self._tenant.secrets, "import", self.found)

    def records(self, group: Sequence[Record]) -> list[Record]:
        """A record of an exported file with its parts."""
        if self._is_off:
            return list(group)
        masked = [self._record(one) for one in group]
        before, first = group[0], masked[0]
        if isinstance(before, Memory | Message) and isinstance(first, Memory | Message) and first.text != before.text:
            return _with_vectors_owed(self._tenant, first, masked)
        return masked

    def _record(self, record: Record) -> Record:
        table = record.shape.table
        changed: JsonObject = {}
        for name in _texts(type(record)) if table not in AS_THEY_ARE else ():
            value = getattr(record, name)
            masked = self._masking.value(value, f"{table}.{name}")
            if masked is not value:
                changed[name] = masked
        if not changed:
            return record
        if isinstance(record, Memory) and "content" in changed:
            changed["text"] = _text(record.kind, changed["content"], changed.get("text", record.text))
            changed = identified(record, **changed, content_hash=content_hash(record.kind, changed["content"]))
        if isinstance(record, Revision) and "state" in changed and record.message_id is None:
            state = changed["state"]
            hashed = content_hash(state["kind"], state["content"])
            changed["text"] = _text(state["kind"], state["content"], changed.get("text", record.text))
            changed["state"] = {**state, "content_hash": hashed, "text": changed["text"]}
        return record.changed(**changed)


def _text(kind: str, content: JsonObject, masked: str) -> str:
    try:
        return read_content(kind, content)[1]
    except InvalidInput:  # a kind of somebody else's program
        return masked


def _with_vectors_owed(tenant: Tenant, whole: Memory | Message, group: Sequence[Record]) -> list[Record]:
    """The vectors in the file are of the text with the secret."""
    stale = [one for one in group if isinstance(one, Embedding) and not one.given]
    owed = {(one.namespace, one.model) for one in stale}
    kept = [one for one in group if one not in stale]
    owner = {"memory_id": owner_key(whole), "message_id": whole.id if isinstance(whole, Message) else None}
    tasks = [made(IndexTask, tenant, **owner, namespace=space, model=model) for space, model in sorted(owed)]
    return [*kept, *tasks]


@cache
def _texts(record: type[Record]) -> tuple[str, ...]:
    """The fields that may hold text of users."""
    columns = (column for column in record.columns() if column.type in ("text", "json"))
    return tuple(
        column.name for column in columns if column.name != "id" and not column.name.endswith(("_id", "_ids", "_by"))
    )
