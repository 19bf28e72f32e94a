"""The health of a store: verify all records, compare indexes with them, repair what is derived, and statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any, Literal, NamedTuple

from pydantic import Field

from recollect.domain.backups import Backup
from recollect.domain.conversations import Message
from recollect.domain.key_value import Item, ItemVector
from recollect.domain.kinds import KINDS, read_content
from recollect.domain.memory import Embedding, IndexTask, Memory, content_hash
from recollect.domain.provenance import Citation
from recollect.domain.record import Record, now
from recollect.domain.tenancy import Organization
from recollect.errors import DamagedData, EmbedderFailed, IndexFailed, RecollectError, Unavailable
from recollect.ports.keys import TextEncryption
from recollect.ports.models import Embedder
from recollect.ports.partitions import Distributable
from recollect.ports.query import Compare, IsNull, Linked, OneOf, Order, Query, equal
from recollect.ports.records import Part, Problem
from recollect.ports.vectors import HasKernel
from recollect.services.admin.encryption import texts_of
from recollect.services.admin.salvage import UNREADABLE, LostRecords, readable
from recollect.services.data.contents import ContentCheck, check_contents
from recollect.services.erasure import finish, owed
from recollect.services.frameworks.checkpoint_streams import check_items
from recollect.services.memories.data_vectors import orphans
from recollect.services.memories.embedded_records import (
    DATA_RECORDS,
    EmbeddedRecord,
    embedded_data,
    embedded_memory,
    embedded_message,
)
from recollect.services.memories.indexing import ReindexRequest, reindex
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, Tenant
from recollect.services.workspaces.blobs import check_content

PAGE = 1000
RESTORE = "restore a backup (see docs/guides), or save the rest with `export FILE --damaged skip`"


class VerifyRequest(Request):
    """Verify the store."""

    deep: bool = Field(False, description="Also read all stored files, such as uploads, and check their hashes")


class ProblemView(Reply):
    """A problem. `part` says whether it is in the records or in what is derived from them."""

    what: str
    part: Part = "records"
    table: str | None = None
    id: str | None = Field(None, description="The record, or the first of several")
    count: int = Field(1, description="How many records it affects")


class VerifyReply(Reply):
    """What was read, and every problem; `sound` if there is none."""

    sound: bool
    memories: int
    vectors: int
    partly: int = Field(0, description="Long memories with a vector of their beginning only; `reindex` makes the rest")
    objects: int = Field(0, description="Stored files that records name")
    unneeded: int = Field(0, description="Stored files that no record names; `sweep` deletes them when they are old")
    problems: list[ProblemView] = Field(default_factory=list)


def verify(tenant: Tenant, request: VerifyRequest) -> VerifyReply:
    """Re-read every record, re-derive every hash, and compare the indexes with the records."""
    mine = (None, tenant.scope.organization_id)
    problems = [_viewed(problem) for problem in tenant.store.verify() if problem.organization_id in mine]
    partly: set[str] = set()
    stored = ContentCheck(0, 0, [])
    for found in _to_the_end(tenant, request.deep):
        if isinstance(found, PartialVectors):
            partly.add(found.id)
        elif isinstance(found, ContentCheck):
            stored = found
            problems += map(_viewed, found.problems)
        elif not _is_told(found, problems):
            problems.append(found)
    memories, vectors = _counted(tenant, Memory), _counted(tenant, Embedding)
    return VerifyReply(
        sound=not problems,
        memories=memories,
        vectors=vectors,
        partly=len(partly),
        objects=stored.named,
        unneeded=stored.unneeded,
        problems=problems,
    )


def _to_the_end(tenant: Tenant, deep: bool) -> Iterator[ProblemView | PartialVectors | ContentCheck]:
    """Run each check by itself: what one of them cannot read does not stop the others."""
    parts: list[Callable[[], Iterable[ProblemView | PartialVectors | ContentCheck]]] = [
        lambda: _check_memories(tenant),
        lambda: _check_messages(tenant),
        lambda: _check_data(tenant),
        lambda: map(_viewed, check_content(tenant)),
        lambda: map(_viewed, check_items(tenant)),
        lambda: [check_contents(tenant, deep=deep)],
        lambda: _index_problems(tenant),
    ]
    for part in parts:
        try:
            yield from part()
        except RecollectError as error:
            yield ProblemView(what=error.message)


def _viewed(problem: Problem) -> ProblemView:
    return ProblemView(what=problem.what, table=problem.table, id=problem.id, part=problem.part)


def _is_told(found: ProblemView, problems: list[ProblemView]) -> bool:
    """Whether the store already reported the record, so that it is not reported twice."""
    if found == ProblemView(what=found.what):
        return found in problems
    if found.what not in UNREADABLE:
        return False
    return any((one.table, one.id) == (found.table, found.id) and one.part == "records" for one in problems)


def _counted(tenant: Tenant, record: type[Record]) -> int:
    try:
        return tenant.count(Query(record))
    except RecollectError:
        return 0  # the reason is among the problems


def _index_problems(core: Core) -> list[ProblemView]:
    """The index contains all tenants, so only the number of differences may be reported, not which."""
    try:
        said = Counter(core.vectors.verify())
    except IndexFailed as failure:
        said = Counter([f"the vector index cannot be compared: {failure.message}"])
    return [
        ProblemView(what=sentence, table="embedding", count=count, part="vectors") for sentence, count in said.items()
    ]


def _check_memories(tenant: Tenant) -> Iterator[ProblemView | PartialVectors]:
    lacking: dict[str, ProblemView] = {}
    every = readable(tenant.store, tenant.scope, Memory, deleted="no", page=PAGE)
    while page := list(islice(every, PAGE)):
        for one in page:
            yield from _check_memory(one) if isinstance(one, Memory) else [_unread(one)]
        memories = [embedded_memory(one) for one in page if isinstance(one, Memory)]
        for problem in _vectors_checked(tenant, memories):
            if isinstance(problem, PartialVectors):
                yield problem
            else:
                _count(lacking, problem)
    yield from lacking.values()  # with another embedder all of them are missing


def _count(problems: dict[str, ProblemView], found: ProblemView) -> None:
    first = problems.get(found.what)
    problems[found.what] = first.model_copy(update={"count": first.count + 1}) if first else found


def _check_messages(tenant: Tenant) -> Iterator[ProblemView]:
    """The vectors of messages; those that cannot be read are reported by the store."""
    wrong: dict[str, ProblemView] = {}
    every = readable(tenant.store, tenant.scope, Message, deleted="no", page=PAGE)
    while page := list(islice(every, PAGE)):
        said = [embedded_message(one) for one in page if isinstance(one, Message) and one.text]
        for problem in _vectors_checked(tenant, said):
            if isinstance(problem, ProblemView):
                _count(wrong, problem)
    yield from wrong.values()


def _check_data(tenant: Tenant) -> Iterator[ProblemView]:
    """The vectors of tables and fields; those that cannot be read are reported by the store."""
    wrong: dict[str, ProblemView] = {}
    for record in DATA_RECORDS:
        every = readable(tenant.store, tenant.scope, record, deleted="no", page=PAGE)
        while page := list(islice(every, PAGE)):
            stored = embedded_data(tenant, [one for one in page if not isinstance(one, LostRecords)])
            for problem in _vectors_checked(tenant, stored):
                if isinstance(problem, ProblemView):
                    _count(wrong, problem)
    yield from wrong.values()
    gone = orphans(tenant)
    if gone:
        what = "has a vector, and is gone"
        yield ProblemView(what=what, table="embedding", id=gone[0], count=len(gone), part="vectors")


def _unread(lost: LostRecords) -> ProblemView:
    what = lost.why
    if lost.between is not None:
        first, last = lost.between
        what += f": those after {first or 'the beginning'} and before {last or 'the end'}"
    return ProblemView(what=what, table=lost.table, id=lost.id)


def _vectors_checked(tenant: Tenant, records: list[EmbeddedRecord]) -> Iterator[ProblemView | PartialVectors]:
    try:
        yield from _check_vectors(tenant, records)
    except DamagedData as error:
        yield ProblemView(what=f"their vectors cannot be read: {error.message}", table="embedding")


def _check_memory(memory: Memory) -> Iterator[ProblemView]:
    if content_hash(memory.kind, memory.content) != memory.content_hash:
        yield ProblemView(what="its content does not match its hash", table="memory", id=memory.id)
    if memory.kind in KINDS and read_content(memory.kind, memory.content)[1] != memory.text:
        yield ProblemView(what="its text does not match its content", table="memory", id=memory.id)


def _check_vectors(tenant: Tenant, records: list[EmbeddedRecord]) -> Iterator[ProblemView | PartialVectors]:
    """Check that each record has the vectors of its text by each configured model, with its filter fields."""
    if not records:
        return
    of_these = OneOf("memory_id", tuple(one.key for one in records))
    stored: dict[tuple[str, ...], list[_StoredVector]] = {}
    for row in tenant.select(Query(Embedding, (of_these,)), ("memory_id", "model", "namespace", *_VECTOR)):
        stored.setdefault(row[:3], []).append(_StoredVector(*row[3:]))
    queued = {tuple(row) for row in tenant.select(Query(IndexTask, (of_these,)), ("memory_id", "model", "namespace"))}
    own = {embedder.model: embedder for embedder in tenant.embedders}
    others: dict[str, dict[str, None]] = {}
    for owner, model, _ in stored:
        if model not in own:
            others.setdefault(owner, {})[model] = None
    for one in records:
        for model, namespace in product((*own, *others.get(one.key, ())), one.namespaces):
            key = (one.key, model, namespace)
            found = _check_kept(one, stored.get(key, []), own.get(model), key in queued)
            if found is not None:
                what = found.replace("MODEL", f"{model} in {namespace}")
                problem = ProblemView(what=what, table=one.record.shape.table, id=one.record.id, part="vectors")
                yield PartialVectors(one.record.id) if found == _PARTLY else problem


class PartialVectors(NamedTuple):
    """A long memory whose vectors are from before passages: they are of its beginning only."""

    id: str


class _StoredVector(NamedTuple):
    facets: list[str | None]
    text_hash: str
    given: bool
    start: int | None


_VECTOR = ("facets", "text_hash", "given", "start")
_PARTLY = "has a vector of its beginning only"


def _check_kept(
    record: EmbeddedRecord, kept: list[_StoredVector], embedder: Embedder | None, is_owed: bool
) -> str | None:
    """The problem with the vectors of a record by one model in one namespace."""
    if not kept:
        # Messages, tables and fields of stores from before had none.
        is_memory = isinstance(record.record, Memory)
        return "has no vector by MODEL" if is_memory and embedder is not None and not is_owed else None
    if any((one.facets, one.text_hash) != (record.facets, record.text_hash) for one in kept):
        return "its vector belongs to another version of it"
    if embedder is None or any(one.given for one in kept):
        return None
    wanted = len(record.passages(embedder).passages)
    if len(kept) == wanted or is_owed:
        return None
    return _PARTLY if kept[0].start is None else f"has {len(kept)} of {wanted} vectors by MODEL"


DoctorPart = Literal["presence", "index", "health", "kernel", "pending", "backups"]


class DoctorRequest(Request):
    """Examine the store; with `fix`, repair what is derived."""

    fix: bool = Field(False, description="Rebuild indexes that have problems, and do pending work")
    parts: list[DoctorPart] = Field(
        default_factory=list, description="Examine only these parts; pending and backups are quick in any store"
    )


class DoctorFinding(Reply):
    name: str
    well: bool
    says: str
    remedy: str = ""


class Diagnosis(Reply):
    well: bool
    findings: list[DoctorFinding]
    mended: list[str] = Field(default_factory=list)


def doctor(tenant: Tenant, request: DoctorRequest) -> Diagnosis:
    """Find problems in the store and say what to do about each; with `fix`, do it."""
    findings = _examined(tenant, request.parts)
    mended: list[str] = []
    if request.fix and not all(finding.well for finding in findings):
        try:
            mended = _repair(tenant, findings)
        except DamagedData as error:
            mended = [f"cannot be repaired: {error.message}"]
        findings = _examined(tenant, request.parts)
    return Diagnosis(well=all(finding.well for finding in findings), findings=findings, mended=mended)


def _examined(tenant: Tenant, parts: Sequence[DoctorPart]) -> list[DoctorFinding]:
    """Every finding of these parts, or of all; a store too damaged to be queried is one, too."""
    findings = list(_machines(tenant))
    ailing = [finding for finding in findings if not finding.well]
    examined: dict[DoctorPart, Callable[[Tenant], Iterable[DoctorFinding]]] = {
        "presence": _presence, "index": _index_state, "health": _health, "kernel": _kernel, "pending": _pending,
        "backups": _backups,
    }  # fmt: skip
    for examine in [examined[part] for part in parts or examined]:
        try:
            findings += examine(tenant)
        except DamagedData as error:
            findings.append(DoctorFinding(name="damage", well=False, says=error.message, remedy=RESTORE))
        except Unavailable:
            if not ailing:
                raise
            return findings  # without that machine nothing more can be told
    return findings


def _machines(tenant: Tenant) -> Iterator[DoctorFinding]:
    """Of a cluster, each is asked."""
    for machine in tenant.store.machines() if isinstance(tenant.store, Distributable) else ():
        yield DoctorFinding(
            name=f"machine {machine.name}", well=not machine.remedy, says=machine.says, remedy=machine.remedy
        )


def _index_state(tenant: Tenant) -> Iterator[DoctorFinding]:
    """How far the vector index is behind: a little is normal, being unavailable is a problem."""
    try:
        says, remedy = f"{tenant.vectors.label}, {tenant.vectors.behind()} behind", ""
    except IndexFailed as failure:
        says, remedy = f"{failure.message}; it is too far behind, so recall does not use it", failure.remedy
    yield DoctorFinding(name="vectors", well=not remedy, says=says, remedy=remedy)


def _health(tenant: Tenant) -> Iterator[DoctorFinding]:
    verified = verify(tenant, VerifyRequest())
    derived = [problem for problem in verified.problems if problem.part != "records"]
    truth = [problem for problem in verified.problems if problem not in derived]
    yield DoctorFinding(
        name="records",
        well=not truth,
        says=f"{verified.memories} memories, {_listed(truth)}",
        remedy=RESTORE if truth else "",
    )
    yield DoctorFinding(
        name="indexes",
        well=not derived,
        says=f"{verified.vectors} vectors, {_listed(derived)}",
        remedy="recollect doctor --fix" if derived else "",
    )
    if verified.objects or verified.unneeded:
        yield DoctorFinding(
            name="objects",
            well=True,
            says=f"{verified.objects} stored files, and {verified.unneeded} that nothing needs, which `recollect "
            "sweep` deletes when they are an hour old",
        )
    yield DoctorFinding(
        name="passages",
        well=not verified.partly,
        says=f"{verified.partly} long memories have a vector of their beginning only",
        remedy="recollect doctor --fix" if verified.partly else "",
    )


def _kernel(tenant: Tenant) -> Iterator[DoctorFinding]:
    """What compares vectors. Without the compiled kernel searches are slower, not wrong; so it is no problem."""
    if isinstance(tenant.vectors, HasKernel) and (says := tenant.vectors.kernel()):
        yield DoctorFinding(name="kernel", well=True, says=says)


def _pending(tenant: Tenant) -> Iterator[DoctorFinding]:
    vectors = tenant.count(Query(IndexTask))
    yield DoctorFinding(
        name="queue",
        well=vectors == 0,
        says=f"{vectors} vectors owed",
        remedy="recollect doctor --fix" if vectors else "",
    )
    traces = owed(tenant)
    yield DoctorFinding(
        name="erasure",
        well=traces == 0,
        says=f"{traces} deletions whose traces are still on disk",
        remedy="recollect doctor --fix" if traces else "",
    )
    due = tenant.count(Query(Memory, (Compare("expires_at", "<=", now()),), deleted="yes"))
    yield DoctorFinding(name="expiry", well=True, says=f"{due} expired memories to delete with `recollect sweep`")
    yield from _items_behind(tenant)
    broken = tenant.count(Query(Citation, (equal("state", "broken"),)))
    yield DoctorFinding(name="citations", well=True, says=f"{broken} citations are broken")


def _backups(tenant: Tenant) -> Iterator[DoctorFinding]:
    """When the last good backup was made, and that it is too long ago; nothing where none is wanted."""
    policy, good = tenant.backups.policy, Query(Backup, (IsNull("error"),), (Order("made_at", True),), 1)
    last = next(iter(tenant.find(good).records), None)
    if last is None and policy.every_hours is None:
        return
    founded = tenant.get(Organization, tenant.scope.organization_id)
    since = last.made_at if last is not None else founded.created_at if founded is not None else now()
    hours = (now() - since).total_seconds() / 3600
    says = "no backup was made yet" if last is None else f"the last backup was made {hours:.0f} hours ago"
    if last is not None and last.verified_at is None:
        says += ", and not read back"
    late = policy.every_hours is not None and hours > 2 * policy.every_hours
    failed = next(iter(tenant.find(Query(Backup, (IsNull("error", False),), (), 1)).records), None)
    if failed is not None and (last is None or failed.made_at > last.made_at):
        says, late = f"{says}; the last attempt failed: {failed.error}", True
    remedy = "`recollect backup` makes one; check `backups` in the settings, and that the service runs" if late else ""
    yield DoctorFinding(name="backups", well=not late, says=says, remedy=remedy)


def _items_behind(tenant: Tenant) -> Iterator[DoctorFinding]:
    """The texts of items are not stored, so only whoever put them can have their vectors made again."""
    if tenant.embedder is None:
        return
    current = equal("model", tenant.embedder.model)
    another = (Linked(ItemVector, "item_id"), Linked(ItemVector, "item_id", (current,), wanted=False))
    before = (Linked(ItemVector, "item_id", (current, IsNull("start"))),)
    for where, says in (
        (another, "items have vectors by another model only, and are not found by meaning"),
        (before, "items have vectors from before passages, which are of the beginning of a long text"),
    ):
        count = tenant.count(Query(Item, where))
        if count:
            yield DoctorFinding(name="items", well=True, says=f"{count} {says}", remedy="put them again")


def _presence(tenant: Tenant) -> Iterator[DoctorFinding]:
    """An emptied store looks healthy to checks that read what is left, so its change counter is compared."""
    changes = tenant.store.changes(tenant.scope, 0, 1)
    present = tenant.scope.organization_id in tenant.store.tenants()
    well = present or not changes
    yield DoctorFinding(
        name="store",
        well=well,
        says=f"{tenant.store.capabilities.name}, organization '{tenant.scope.organization_id}'"
        + ("" if well else " is gone")
        + (", encrypted" if tenant.store.capabilities.encrypted else ", not encrypted as a whole"),
        remedy="" if well else RESTORE,
    )
    for remark in tenant.store.capabilities.remarks:
        yield DoctorFinding(name=remark.name, well=True, says=remark.says, remedy=remark.remedy)


def _listed(problems: list[ProblemView]) -> str:
    if not problems:
        return "all in order"
    first = problems[0]
    where = f" ({first.table} {first.id})" if first.id else ""
    return f"{sum(problem.count for problem in problems)} problems, the first: {first.what}{where}"


def _repair(tenant: Tenant, findings: list[DoctorFinding]) -> list[str]:
    ailing = {finding.name for finding in findings if not finding.well}
    done: list[str] = []
    if "erasure" in ailing:
        try:
            done.append(f"traces of {finish(tenant)} deletions overwritten")
        except Unavailable as failure:
            done.append(f"traces not overwritten: {failure.message}")
    if ailing & {"records", "indexes", "queue", "passages"}:
        done += tenant.store.mend()
    if ailing & {"indexes", "queue", "passages"}:
        try:
            made = reindex(tenant, ReindexRequest()).made
            checked = (*_check_memories(tenant), *_check_data(tenant))
            if any(isinstance(one, ProblemView) and one.part == "vectors" for one in checked):
                made += reindex(tenant, ReindexRequest(everything=True)).made
            done += [f"{made} vectors made"] if made else []
        except EmbedderFailed as failure:
            done.append(f"no vectors made: {failure.message}")
        try:
            done.append(f"{tenant.vectors.rebuild()} vectors in the index")
        except IndexFailed as failure:
            done.append(f"the vector index was not made again: {failure.message}")
    return done


STATUSES = ("hypothesis", "verified", "published", "archived")


class StatsRequest(Request):
    """Statistics of the store."""


class Stats(Reply):
    memories: int
    forgotten: int
    kinds: dict[str, int]
    statuses: dict[str, int]
    vectors: int
    queued: int
    behind: int | None = None
    citations: int
    uncited: int
    broken: int = 0
    erasures_owed: int = Field(0, description="Deletions for good whose traces are still on disk")
    encrypted: bool = Field(False, description="All of the store is encrypted at rest")
    texts: TextEncryption = Field("clear", description="How texts are stored: in the clear, sealed, …")


def _behind(core: Core) -> int | None:
    """How many vectors the index does not have yet; None while it is unavailable."""
    try:
        return core.vectors.behind()
    except IndexFailed:
        return None


def stats(tenant: Tenant, request: StatsRequest) -> Stats:
    """How much is remembered, of which kind and how well supported."""
    store = tenant.store
    memories = store.count_by(tenant.scope, Query(Memory, deleted="yes"), ["is_deleted", "kind", "status"])
    living = {key[1:]: number for key, number in memories.items() if not key[0]}
    citations = store.count_by(tenant.scope, Query(Citation), ["state"])
    return Stats(
        memories=sum(living.values()),
        forgotten=sum(memories.values()) - sum(living.values()),
        kinds=_summed(living, 0),
        statuses={**dict.fromkeys(STATUSES, 0), **_summed(living, 1)},
        # They are deleted for good alone: where that need not be looked up, an index is counted, not every vector read.
        vectors=store.count(tenant.scope, Query(Embedding, deleted="yes")),
        queued=store.count(tenant.scope, Query(IndexTask)),
        behind=_behind(tenant),
        citations=sum(citations.values()),
        uncited=store.count(tenant.scope, Query(Memory, (Linked(Citation, "memory_id", wanted=False),))),
        broken=citations.get(("broken",), 0),
        erasures_owed=owed(tenant),
        encrypted=store.capabilities.encrypted,
        texts=texts_of(tenant),
    )


def _summed(counted: dict[tuple[Any, ...], int], place: int) -> dict[str, int]:
    """Counts by one of the fields, the most frequent first."""
    sums: dict[str, int] = {}
    for key, number in counted.items():
        sums[key[place]] = sums.get(key[place], 0) + number
    return dict(sorted(sums.items(), key=lambda one: (-one[1], one[0])))
