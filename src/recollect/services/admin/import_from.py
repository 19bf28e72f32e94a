"""Import from other products: everything is read and checked once, then read again and written in batches.

An importer yields entries (services/importers); here they become records. A memory goes through the same reading as
one that is remembered, so its content, citations and tags are checked; it stays a hypothesis, whatever the source says
of it. Each batch is one transaction, and what exists is skipped: a killed import is finished by running it again, and
a second run writes nothing. A dry run stops after the first reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from recollect.domain.agents import Agent, AgentState, Tool, ToolLink
from recollect.domain.checkpoints import CheckpointLine
from recollect.domain.conversations import Message, Session
from recollect.domain.key_value import Item
from recollect.domain.kinds import describe
from recollect.domain.memory import Embedding, IndexTask, Memory, Relationship
from recollect.domain.provenance import CitationLookup
from recollect.domain.record import JsonObject, Record
from recollect.domain.tenancy import User
from recollect.errors import InvalidInput
from recollect.ports.query import OneOf, Query, equal
from recollect.ports.steps import Insert
from recollect.services.admin.import_batches import write_batch
from recollect.services.frameworks.checkpoint_streams import pack, squeezed
from recollect.services.frameworks.key_value import PutItemRequest, item_vectors
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.findings import Findings, ImportSample, UnmappedField
from recollect.services.importers.origin import Origin, same_file
from recollect.services.importers.registry import AUTO, recognised, source_named
from recollect.services.memories import message_vectors
from recollect.services.memories.draft import RememberRequest, draft_of
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.embeddings import GivenVectors, check_lengths, index_steps
from recollect.services.memories.indexing import Progress, refreshed
from recollect.services.requests import MaskedSecret
from recollect.services.secrets import Masking, refuse_secrets
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

BATCH = 200
BATCH_SIZE = 4 << 20
DIFFERS = "there is one with this id and other content, which stays as it is; replace it with --existing replace"
_TIMES = ("created_at", "updated_at")
_LARGE = ("text", "body", "data")
"""The fields that a record is large by."""
_LINKS: dict[type[Record], tuple[str, ...]] = {
    Tool: ("id",),
    Memory: ("id",),
    ToolLink: ("tool_id",),
    Relationship: ("source_id", "target_id"),
}
"""The fields that name a tool or a memory which may exist under another id."""
_AS_GIVEN = frozenset({"id", "user", "agent", "session", "project", "idempotency_key", "vector", "otid"})
_SAID = {Memory: "content_hash", AgentState: "state_data"}
"""What tells two records with the same id apart."""


@dataclass(slots=True)
class ImportResult:
    """What was found and written."""

    source: Source
    guessed: bool
    written: int = 0
    skipped: int = 0
    found: dict[str, int] = field(default_factory=dict)
    samples: list[ImportSample] = field(default_factory=list)
    unmapped: list[UnmappedField] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    masked: list[MaskedSecret] = field(default_factory=list)


@dataclass(slots=True)
class _Prepared:
    """A record with the parts that are written with it."""

    record: Record
    parts: list[Record] = field(default_factory=list)
    given: GivenVectors = field(default_factory=dict)
    text: str | None = None
    """The text that an item is found by."""


def import_from(
    tenant: Tenant, path: Path, name: str, existing: str, dry_run: bool, vector_model: str | None, progress: Progress
) -> ImportResult:
    store = getattr(tenant.store, "path", None)
    if isinstance(store, Path) and same_file(path, store):
        raise InvalidInput("that is the store itself", remedy="give the file to import")
    origin = Origin(path, tenant.folders, tenant.data_file_bytes, is_here=tenant.scope.granted is None)
    source = recognised(origin) if name == AUTO else source_named(name)
    total, first = 0, Reading(origin, source.name, Findings(), vector_model)
    masking = Masking.of(tenant)
    for total, _ in enumerate(_prepared(tenant, source, first, masking), 1):
        progress(total, 2 * total)
    refuse_secrets(tenant.secrets, "import", masking.found)
    result = ImportResult(source, name == AUTO, found=dict(sorted(first.findings.counts.items())), masked=masking.found)
    findings = first.findings
    if not dry_run:
        findings = Findings()
        _write(tenant, source, Reading(origin, source.name, findings, vector_model), existing, result, total, progress)
        result.notes += refreshed(tenant)
    result.samples, result.unmapped = findings.samples, findings.report()
    return result


def _write(
    tenant: Tenant,
    source: Source,
    reading: Reading,
    existing: str,
    result: ImportResult,
    total: int,
    progress: Progress,
) -> None:
    done = 0
    for batch in _batches(_prepared(tenant, source, reading, Masking.of(tenant))):
        present = _present(tenant, batch, reading.findings if existing == "skip" else Findings())
        once = {_key(one.record): one for one in reversed(batch)}  # a source may have the same thing twice
        fresh = [one for key, one in once.items() if key not in present or _is_replaced(one.record, existing)][::-1]
        _add_vectors(tenant, fresh)
        records = [record for one in fresh for record in (one.record, *one.parts)]
        if records:
            write_batch(tenant, records, existing, result.written)
        result.written += len(fresh)
        result.skipped += len(batch) - len(fresh)
        done += len(batch)
        progress(total + done, 2 * total)


def _batches(prepared: Iterator[_Prepared]) -> Iterator[list[_Prepared]]:
    batch: list[_Prepared] = []
    size = 0
    for one in prepared:
        length = sum(len(getattr(one.record, name, None) or "") for name in _LARGE) + len(one.text or "")
        if batch and (len(batch) >= BATCH or size + length > BATCH_SIZE):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


# -- from entries to records -------------------------------------------------------------------------------------------


def _prepared(tenant: Tenant, source: Source, reading: Reading, masking: Masking) -> Iterator[_Prepared]:
    """Every entry as a record; what is not valid here is reported and left out."""
    lookup = tenant.citation_lookup(tenant.scope, None)
    lengths: dict[str, int] = {}
    known = _KnownRecords(tenant)
    for found in source.read(reading):
        entry = known.applied(found)
        try:
            entry = _masked(entry, masking) if tenant.secrets.mode != "keep" else entry
            if entry.record is Memory:
                one = _memory(tenant, _checked_vector(tenant, entry, reading, lengths), lookup)
            else:
                one = _Prepared(made(entry.record, tenant, **_packed(_with_updated(entry.fields))), text=entry.text)
        except InvalidInput as error:
            reading.findings.left_out(entry.what, entry.fields.get("id"), error.message)
            continue
        reading.findings.count(entry.what, one.record.id, entry.text)
        yield one


def _masked(entry: Entry, masking: Masking) -> Entry:
    """Without secrets of known formats; ids stay as they are, since others refer to them."""
    told = {
        name: value if name in _AS_GIVEN or name.endswith("_id") else masking.value(value, f"{entry.what}.{name}")
        for name, value in entry.fields.items()
    }
    return Entry(entry.record, told)


def _packed(fields: JsonObject) -> JsonObject:
    """Checkpoints and their writes in the form in which they are stored."""
    if "body" in fields:
        return {**fields, "body": squeezed(fields["body"])}
    return {**fields, "data": pack(fields["data"])} if "data" in fields else fields


def _with_updated(fields: JsonObject) -> JsonObject:
    return {"updated_at": fields["created_at"], **fields} if "created_at" in fields else fields


def _memory(tenant: Tenant, fields: JsonObject, lookup: CitationLookup) -> _Prepared:
    times = {name: value for name, value in _with_updated(fields).items() if name in _TIMES}
    try:
        request = RememberRequest(**{name: value for name, value in fields.items() if name not in _TIMES})
    except ValidationError as error:
        raise InvalidInput(describe(error)) from None
    draft = draft_of(tenant, request, lookup)
    return _Prepared(draft.memory.changed(**times), [*draft.tags, *draft.citations], draft.given)


def _checked_vector(tenant: Tenant, entry: Entry, reading: Reading, lengths: dict[str, int]) -> JsonObject:
    """The fields of a memory, without a vector that is not as long as the others of its model."""
    fields = entry.fields
    if "vector" not in fields:
        return fields
    model, length = fields["vector_model"], len(fields["vector"])
    try:
        if lengths.setdefault(model, length) != length:
            raise InvalidInput(f"others of '{model}' have {lengths[model]} dimensions, not {length}")
        check_lengths(tenant, [({model: fields["vector"]}, fields.get("namespaces", ["long_term"]))])
    except InvalidInput as error:
        reading.findings.unmapped(entry.what, "vector", f"{error.message}; it is embedded anew", fields.get("id"))
        return {name: value for name, value in fields.items() if name not in ("vector", "vector_model")}
    return fields


class _KnownRecords:
    """Records that exist under another id, since their names are unique: tools, and entities by their key.

    They are taken for those of the source, and what is linked to those is linked to them.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._ids: dict[str, str] = {}

    def applied(self, entry: Entry) -> Entry:
        fields = entry.fields
        if entry.record is Tool or fields.get("idempotency_key"):
            name = "name" if entry.record is Tool else "idempotency_key"
            same = Query(entry.record, (equal(name, fields[name]),), deleted="yes")
            for (id,) in self._tenant.select(same, ("id",)):
                if id != fields["id"]:
                    self._ids[fields["id"]] = id
        names = [name for name in _LINKS.get(entry.record, ()) if fields.get(name) in self._ids]
        known = {name: self._ids[fields[name]] for name in names}
        return Entry(entry.record, {**fields, **known}) if known else entry


# -- writing -----------------------------------------------------------------------------------------------------------


def _key(record: Record) -> tuple[str, str]:
    return record.shape.table, record.id


def _is_replaced(record: Record, existing: str) -> bool:
    """Owners that exist stay as they are: a source may know only their ids, not their roles or prompts."""
    return existing == "replace" and not isinstance(record, User | Agent | Session | Tool | CheckpointLine)


def _present(tenant: Tenant, batch: Sequence[_Prepared], findings: Findings) -> set[tuple[str, str]]:
    """Which of the records exist; one that says something else is reported."""
    present: set[tuple[str, str]] = set()
    for record in {type(one.record) for one in batch}:
        given = {one.record.id: one.record for one in batch if type(one.record) is record}
        said = _SAID.get(record, "version")
        rows = tenant.select(Query(record, (OneOf("id", tuple(given)),), deleted="yes"), ("id", said))
        for id, value in rows:
            present.add((record.shape.table, id))
            if record in _SAID and value != getattr(given[id], said):
                findings.left_out(record.shape.table, id, DIFFERS)
    return present


def _add_vectors(tenant: Tenant, fresh: Sequence[_Prepared]) -> None:
    """The vectors of memories, messages and items, or the notes that they are owed, as further parts."""
    memories = {one.record.id: one for one in fresh if isinstance(one.record, Memory)}
    embedded = [embedded_memory(one.record) for one in memories.values() if isinstance(one.record, Memory)]
    for step in index_steps(tenant, embedded, [one.given for one in memories.values()])[0]:
        if isinstance(step, Insert) and isinstance(step.record, Embedding | IndexTask):
            memories[step.record.memory_id].parts.append(step.record)
    said = {one.record.id: one for one in fresh if isinstance(one.record, Message)}
    messages = [one.record for one in said.values() if isinstance(one.record, Message)]
    for step in message_vectors.embedding_steps(tenant, messages):
        if isinstance(step, Insert) and isinstance(step.record, Embedding | IndexTask):
            said[str(step.record.message_id)].parts.append(step.record)
    items = {one.record.id: one for one in fresh if isinstance(one.record, Item)}
    texts = {
        id: PutItemRequest(namespace=one.record.namespace, key=one.record.key, value={}, texts={"$": one.text or ""})
        for id, one in items.items()
        if isinstance(one.record, Item)
    }
    together = [texts] if tenant.passages_at_once is None else [{id: one} for id, one in texts.items()]
    for some in together:
        for vector in item_vectors(tenant, some)[0]:
            items[vector.item_id].parts.append(vector)
