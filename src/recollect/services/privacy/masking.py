"""What stays after an erasure no longer names the person: texts, ids and who made it get a pseudonym.

Every record is read once and changed in small transactions. Each also counts, in the certificate, what it changed: so
after a killed process the count is right, and what was changed is not found again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from recollect.domain.agents import BlockRevision
from recollect.domain.conversations import Message
from recollect.domain.key_value import Item, ItemVector
from recollect.domain.memory import Memory, Revision, content_hash
from recollect.domain.privacy import ErasureCertificate
from recollect.domain.record import RECORDS, Record
from recollect.errors import VersionConflict
from recollect.ports.query import OneOf, Query, equal
from recollect.ports.steps import Delete, DeleteWhere, Step, Touch, Update
from recollect.retry import retry
from recollect.services.legal_holds import active_holds, held_ids
from recollect.services.memories.embeddings import reindex_steps
from recollect.services.memories.indexing import Progress
from recollect.services.memories.message_vectors import changed_steps
from recollect.services.memories.revise import identified
from recollect.services.privacy.redaction import Redaction
from recollect.services.privacy.subject import UNREAD, pages
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

AT_ONCE = 100


def mask_others(tenant: Tenant, certificate: str, redaction: Redaction, progress: Progress) -> None:
    """Put pseudonyms into every record that names the person."""
    read = [record for table, record in sorted(RECORDS.items()) if table not in UNREAD]
    total = sum(tenant.count(Query(record, deleted="yes")) for record in read)
    done = 0
    for record in read:
        for page in pages(tenant.store, tenant, record):
            found = [one.id for one in page if _is_named(one, redaction)]
            for start in range(0, len(found), AT_ONCE):
                some = found[start : start + AT_ONCE]
                retry(partial(_mask, tenant, certificate, record, some, redaction), VersionConflict)
            done += len(page)
            progress(done, max(done, total))


def _is_named(record: Record, redaction: Redaction) -> bool:
    return bool(redaction.fields_found(record) or _makers(record, redaction))


def _makers(record: Record, redaction: Redaction) -> dict[str, object]:
    values = record.__dict__
    return {name: redaction.ids[values[name]] for name in ("created_by", "updated_by") if values[name] in redaction.ids}


def _mask(
    tenant: Tenant, certificate: str, record: type[Record], ids: Sequence[str], redaction: Redaction
) -> None:  # fmt: skip
    """Change some records, and count them."""
    found = tenant.find(Query(record, (OneOf("id", tuple(ids)),), deleted="yes")).records
    held = held_ids(tenant, active_holds(tenant), record, ids)  # they stay as they are, and the certificate says so
    named = [one for one in found if _is_named(one, redaction) and one.id not in held]
    if not named:
        return
    running = load(tenant, ErasureCertificate, certificate)
    told: Counter[str] = Counter(running.document.get("masked", {}))
    told[record.shape.table] += len(named)
    counted = running.changed(document={**running.document, "masked": dict(told)})
    counting = [Update(counted)] if running.status != "done" else []  # by another process: it is signed
    tenant.transact([*counting, *_steps(tenant, named, redaction)])


def _steps(tenant: Tenant, records: Iterable[Record], redaction: Redaction) -> list[Step]:
    steps: list[Step] = []
    for one in records:
        fields = redaction.changed_fields(one, redaction.fields_found(one))
        if fields:
            steps += _changing_steps(tenant, one, fields, redaction)
        if makers := _makers(one, redaction):
            steps.append(Touch(type(one), one.id, put=makers))  # no error where it was just deleted
    return steps


def _changing_steps(tenant: Tenant, record: Record, fields: dict[str, object], redaction: Redaction) -> list[Step]:
    if isinstance(record, Memory):
        return _memory_steps(tenant, record, fields)
    if isinstance(record, Message):
        masked = record.changed(**fields)
        return [Update(masked), *changed_steps(tenant, record, masked)]
    if isinstance(record, BlockRevision) or (isinstance(record, Revision) and _says(record, redaction)):
        return [Delete(type(record), record.id)]  # a former state is what was, or it is nothing
    steps: list[Step] = [Update(record.changed(**fields))]
    if isinstance(record, Item):  # its vectors are of the words it had
        steps.append(DeleteWhere(ItemVector, (equal("item_id", record.id),)))
    return steps


def _says(revision: Revision, redaction: Redaction) -> bool:
    return redaction.finds(revision.text) or redaction.finds(revision.state.get("content"))


def _memory_steps(tenant: Tenant, memory: Memory, fields: dict[str, object]) -> list[Step]:
    """Its status stays: it claims no more than before."""
    content = fields.get("content", memory.content)
    assert isinstance(content, dict)
    after = memory.changed(**identified(memory, **fields, content_hash=content_hash(memory.kind, content)))
    return [Update(after), *reindex_steps(tenant, memory, after)]
