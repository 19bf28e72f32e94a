"""Erasing all that is stored about a person, and certifying it.

An erasure begins with one transaction: everything that belongs to the person is deleted, and a certificate that is
`running` is written with it. What follows can be repeated at any point, by this process or another one: the name is
taken out of what stays (masking.py) and of the access log (log_pseudonyms.py), content and traces are deleted, all
that is kept is looked through (scan.py), and the certificate is signed. Erasing the same person again continues an
erasure that was interrupted; of two at once, both do the same work and one writes the certificate.
"""

from __future__ import annotations

import secrets
from functools import partial
from importlib.metadata import version

from pydantic import Field

from recollect.domain.audit import Erasure
from recollect.domain.privacy import CERTIFICATE_FORMAT, ErasureCertificate
from recollect.domain.record import RECORDS, Id, JsonObject, Text, now
from recollect.errors import Conflict, DuplicateKey, OnLegalHold, RequirementFailed, VersionConflict
from recollect.ports.query import Query, equal
from recollect.ports.steps import Insert, Update
from recollect.ports.traces import RenamesDeleted
from recollect.retry import retry
from recollect.services.access.authorize import refuse_higher
from recollect.services.erasure import erase_traces, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.memories.indexing import Progress
from recollect.services.privacy.certificate import ERASE, subject_hash
from recollect.services.privacy.cold_sessions import restore_cold_sessions, traces_of
from recollect.services.privacy.deletion import Authored, Deletion, ErasureChoices, Mentions, deletion_of
from recollect.services.privacy.find import (
    SubjectCount,
    SubjectRequest,
    counts_of,
    kind_of,
    nothing_stored,
    records_of,
)
from recollect.services.privacy.log_pseudonyms import LogChange, pseudonymise_log
from recollect.services.privacy.masking import mask_others
from recollect.services.privacy.remains import known_backups, remains
from recollect.services.privacy.scan import MOST_OF_A_KIND, MOST_SAMPLES, samples_of, scan
from recollect.services.privacy.signing import signed, signing_key
from recollect.services.privacy.subject import Ids, Subject, SubjectData, collect, subject_of
from recollect.services.privacy.work import ErasureWork, new_pseudonym
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import load, logged, made
from recollect.services.workspaces.blobs import collect as collect_blobs

MOST_ROUNDS = 3
"""How often it is looked again: another process may write down, meanwhile, that it was asked about the person."""


class EraseSubjectRequest(SubjectRequest):
    """Whom to erase, on whose request, and what becomes of the records of others that name them."""

    mentions: Mentions = Field(
        "mask",
        description="What to do where others name the person: keep the text, mask the name, or delete the record",
    )
    authored: Authored = Field(
        "delete", description="What to do with what they wrote and belongs to no one: delete it, or keep it unnamed"
    )
    hand_over_to: Id | None = Field(
        None, description="The user who gets what others use, such as a shared project; otherwise no one owns it"
    )
    requested_by: Text = Field("", max_length=1000, description="Who asked for it; stands in the certificate")
    reason: Text = Field("", max_length=10_000, description="Why; stands in the certificate")
    dry_run: bool = Field(False, description="Only report what would be erased")


class ErasureReply(Reply):
    """What was or would be erased, and the certificate."""

    user: str
    dry_run: bool = False
    refused: str = Field("", description="With dry_run: the reason why it would be refused")
    counts: list[SubjectCount] = Field(default_factory=list, description="With dry_run: what was found")
    deleted: dict[str, int] = Field(default_factory=dict, description="How many records of which kind are deleted")
    derived: dict[str, int] = Field(
        default_factory=dict, description="Patterns and summaries that repeated it: deleted, or rebuilt without it"
    )
    handed_over: dict[str, int] = Field(default_factory=dict, description="What others use and has another owner now")
    unnamed: dict[str, int] = Field(default_factory=dict, description="Records of others that name them no longer")
    log_entries: int = Field(0, description="Entries of the access log that name a pseudonym instead")
    clean: bool | None = Field(None, description="Whether nothing of it was found in all that is stored")
    certificate: JsonObject = Field(default_factory=dict, description="The signed certificate; keep a copy of it")


def erase(
    tenant: Tenant, request: EraseSubjectRequest, progress: Progress = lambda done, total: None
) -> ErasureReply:  # fmt: skip
    """Delete everything about a person for good, take their name out of the rest, and certify it.

    Interrupted at any point, it is finished by asking again.
    """
    subject = subject_of(tenant, request.user, request.also)
    hashed = subject_hash(tenant, subject.id)
    running = _running(tenant, hashed)
    _refuse(tenant, subject)
    if request.dry_run:
        return _preview(tenant, subject, request, progress)
    signing_key(tenant)  # before anything is deleted: without one there is no certificate
    if running is None:
        restore_cold_sessions(tenant, subject.id)
        begin = partial(_begun, tenant, subject, request, hashed, progress)
        running = retry(begin, VersionConflict, RequirementFailed)
    return _reply(request, _finished(tenant, running.id, progress))


def _refuse(tenant: Tenant, subject: Subject) -> None:
    """Whoever erases must be there afterwards to answer for it, and may not erase those who may do more."""
    if tenant.scope.actor == subject.id:
        raise Conflict("you cannot erase yourself", remedy="ask another administrator", id=subject.id)
    if subject.user is not None:
        refuse_higher(tenant.scope, subject.user)


def _running(tenant: Tenant, hashed: str) -> ErasureCertificate | None:
    return next(iter(tenant.find(Query(ErasureCertificate, (equal("running_for", hashed),))).records), None)


def _found(tenant: Tenant, subject: Subject, progress: Progress) -> SubjectData:
    data = collect(tenant, subject, progress)
    if data.is_empty:
        raise nothing_stored(subject)
    return data


def _choices(request: EraseSubjectRequest) -> ErasureChoices:
    return ErasureChoices(request.mentions, request.authored, request.hand_over_to)


def _preview(tenant: Tenant, subject: Subject, request: EraseSubjectRequest, progress: Progress) -> ErasureReply:
    data = _found(tenant, subject, progress)
    tenant.journal.note(tenant.scope, "read", ERASE, (), dry_run=True)
    deletion = deletion_of(tenant, data, _choices(request))
    try:
        refuse_held(tenant, deletion.going)
        refused = ""
    except OnLegalHold as held:
        refused = str(held)
    named = {table: ids - deletion.ids.get(table, set()) for table, ids in data.about.items()}
    masked = {table: len(ids) for table, ids in named.items() if ids and request.mentions != "keep"}
    return ErasureReply(
        user=subject.id,
        dry_run=True,
        refused=refused,
        counts=counts_of(data),
        deleted=_by_kind(deletion.counts),
        derived=deletion.derived,
        handed_over=_by_kind(deletion.handed_over),
        unnamed=_by_kind(masked),
        log_entries=data.log_entries,
    )


def _by_kind(counts: dict[str, int]) -> dict[str, int]:
    return {kind_of(table): count for table, count in sorted(counts.items())}


def _begun(
    tenant: Tenant, subject: Subject, request: EraseSubjectRequest, hashed: str, progress: Progress
) -> ErasureCertificate:
    """Delete everything, and write the certificate with it; what another process has begun meanwhile is continued."""
    if (known := _running(tenant, hashed)) is not None:
        return known
    data = _found(tenant, subject, progress)
    deletion = deletion_of(tenant, data, _choices(request))
    refuse_held(tenant, deletion.going)
    work = _work(tenant, subject, request, deletion)
    certificate: ErasureCertificate = made(
        ErasureCertificate,
        tenant,
        subject=hashed,
        running_for=hashed,
        work=work.packed(),
        document=_document(tenant, request, data, deletion, work),
    )
    entry = logged(tenant, "delete", ERASE, None, erasure=certificate.id)
    steps = [Insert(certificate), *deletion.steps, owing(tenant, certificate.id), entry]
    try:
        done = tenant.transact(steps)
    except DuplicateKey:
        if (known := _running(tenant, hashed)) is not None:
            return known
        raise
    tenant.vectors.hint(done.seq)
    return certificate


def _work(tenant: Tenant, subject: Subject, request: EraseSubjectRequest, deletion: Deletion) -> ErasureWork:
    return ErasureWork(
        names=list(subject.names),
        mentions=request.mentions,
        pseudonym=new_pseudonym(),
        key=secrets.token_hex(16),
        ids=[(table, id) for table, ids in sorted(deletion.ids.items()) for id in sorted(ids)],
        texts=_samples(tenant, deletion.ids),
    )


def _samples(tenant: Tenant, ids: Ids) -> list[str]:
    found: list[str] = []
    for table, some in sorted(ids.items()):
        found += samples_of(list(records_of(tenant, table, sorted(some)[:MOST_OF_A_KIND]).values()))
    return found[:MOST_SAMPLES]


def _document(
    tenant: Tenant, request: EraseSubjectRequest, data: SubjectData, deletion: Deletion, work: ErasureWork
) -> JsonObject:
    """What is known when it begins. Who asked and why may name the person, whom the certificate must not name."""
    masked = work.redaction()
    about = {table: len(ids) for table, ids in data.about.items()} if request.mentions == "keep" else {}
    return {
        "format": CERTIFICATE_FORMAT,
        "organization": tenant.scope.organization_id,
        "subject": {"type": "user", "hash": subject_hash(tenant, request.user), "pseudonym": work.pseudonym},
        "requested_by": masked.replaced(request.requested_by),
        "reason": masked.replaced(request.reason),
        "carried_out_by": tenant.scope.actor,
        "choices": {"mentions": request.mentions, "authored": request.authored},
        "started_at": now().isoformat(),
        "recollect": version("recollect"),
        "store": tenant.store.capabilities.name,
        "deleted": deletion.counts,
        "derived": deletion.derived,
        "handed_over": deletion.handed_over,
        "kept": about,
        "backups": masked.replaced(known_backups(tenant, deletion.going)),
    }


def _finished(tenant: Tenant, id: str, progress: Progress) -> JsonObject:
    """Everything that follows the deletion; each part finds what the others have left to do."""
    running = load(tenant, ErasureCertificate, id)
    if running.work is None:
        return running.document  # another process was quicker
    work = ErasureWork.unpacked(running.work)
    changed, told, notes = "", JsonObject(), list[str]()
    for _ in range(MOST_ROUNDS):
        tenant.transact(
            [owing(tenant, id)]
        )  # what is masked leaves traces, too, even if those of the deletion are gone
        log = _without_name(tenant, id, work, progress)
        before, changed = changed, _changed_so_far(tenant, id, log)
        if changed == before:
            break  # what the scan found was not written meanwhile
        notes = erase_traces(tenant)
        told = {
            "log": {"entries": log.entries, "seals": log.seals, "anchor": log.anchor},
            "scan": scan(tenant, work.terms()),
        }
        if told["scan"]["clean"]:
            break
    return retry(lambda: _certified(tenant, id, told, notes), VersionConflict)


def _without_name(tenant: Tenant, id: str, work: ErasureWork, progress: Progress) -> LogChange:
    mask_others(tenant, id, work.redaction(in_texts=work.mentions != "keep"), progress)
    log = pseudonymise_log(tenant, work.redaction(), id, progress)
    if isinstance(tenant.store, RenamesDeleted):
        tenant.store.rename_deleted(tenant.scope, _hashed_ids(tenant, work))
    tenant.zones.pop((tenant.scope.organization_id, work.names[0]), None)
    collect_blobs(tenant)
    return log


def _changed_so_far(tenant: Tenant, id: str, log: LogChange) -> str:
    return f"{log.entries} {load(tenant, ErasureCertificate, id).document.get('masked')}"


def _hashed_ids(tenant: Tenant, work: ErasureWork) -> dict[tuple[str, str], str]:
    """Other names for what was deleted, and for what was called after it: notes that its traces were to be erased, what
    a session had while it was in cold storage, and whatever had the id of the person and was deleted before."""
    named = {(table, id) for table, id in work.ids} | {(Erasure.shape.table, id) for _, id in work.ids}
    named |= {(table, work.names[0]) for table in RECORDS}
    named |= {trace for table, id in work.ids if table == "session" for trace in traces_of(id)}
    return {(table, id): tenant.keyring.keyed(tenant.scope, id) for table, id in named}


def _certified(tenant: Tenant, id: str, told: JsonObject, notes: list[str]) -> JsonObject:
    running = load(tenant, ErasureCertificate, id)
    if running.status == "done":
        return running.document
    masked = running.document.get("masked", {})
    skipped = [told["scan"]["left_out"]] if told["scan"]["left_out"] else []
    left = [*running.document["backups"], *remains(tenant, running.document["kept"], [*notes, *skipped])]
    known = {name: value for name, value in running.document.items() if name not in ("kept", "backups")}
    whole = {**known, "id": id, "finished_at": now().isoformat(), "masked": masked, **told, "remains": left}
    document = signed(whole, signing_key(tenant))
    done = running.changed(status="done", running_for=None, work=None, document=document, updated_at=now())
    tenant.transact([Update(done), owing(tenant, id)])
    erase_traces(tenant)  # of the work that was stored with it
    return document


def _reply(request: EraseSubjectRequest, document: JsonObject) -> ErasureReply:
    return ErasureReply(
        user=request.user,
        deleted=_by_kind(document["deleted"]),
        derived=document["derived"],
        handed_over=_by_kind(document["handed_over"]),
        unnamed=_by_kind(document["masked"]),
        log_entries=document["log"]["entries"],
        clean=document["scan"]["clean"],
        certificate=document,
    )
