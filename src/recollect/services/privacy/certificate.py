"""Certificates of erasures: listed, shown, and verified.

A certificate is a JSON document that is signed. It names nobody: whom it is about stands in it as a hash that is keyed
with the secret of the organization, so only this organization can tell, from the id, which certificate is whose.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field

from recollect.domain.audit import AccessLog, Seal
from recollect.domain.privacy import CERTIFICATE_FORMAT, CertificateStatus, ErasureCertificate
from recollect.domain.record import Id, JsonObject, QueryText
from recollect.errors import InvalidInput
from recollect.ports.query import Filter, Order, Query, equal
from recollect.ports.records import Scope
from recollect.services.keyed_hashes import Keyring
from recollect.services.privacy.signing import is_signed, known_public_key
from recollect.services.requests import AS_GIVEN, PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

ERASE = "privacy.erase"
MOST_LISTED = 100


def subject_hash(tenant: Tenant, user: str) -> str:
    """Whom a certificate is about, for those who know the id and the secret of the organization."""
    return person_hash(tenant.keyring, tenant.scope, user)


def person_hash(keyring: Keyring, scope: Scope, user: str) -> str:
    return keyring.keyed(scope, f"user:{user}")


class CertificateView(Reply):
    """A certificate; `running` means that the erasure was interrupted: erase the person again to finish it."""

    id: str
    status: CertificateStatus
    subject: str
    started_at: datetime
    finished_at: datetime | None = None
    deleted: int = Field(0, description="How many records were deleted")
    certificate: JsonObject = Field(default_factory=dict, description="The signed document; empty while it is running")


class CertificatesRequest(Request):
    """Which certificates to list."""

    id: Id | None = Field(None, description="Only this one")
    user: Id | None = Field(None, description="Only of the person who had this id")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class CertificatePage(PageReply[CertificateView]):
    """Certificates of erasures, the newest first."""

    certificates: list[CertificateView]
    public_key: str | None = Field(None, description="The key that they are signed with, for those who check them")


def certificates(tenant: Tenant, request: CertificatesRequest) -> CertificatePage:
    """The certificates of this organization, the newest first, with the public key that they are signed with."""
    if request.id is not None:
        found = certificate_view(load(tenant, ErasureCertificate, request.id))
        return CertificatePage(certificates=[found], public_key=known_public_key(tenant))
    if request.user is not None and not tenant.count(Query(ErasureCertificate)):
        return CertificatePage(certificates=[])
    where: tuple[Filter, ...] = ()
    if request.user is not None:  # the log must not name again who was erased
        hashed = subject_hash(tenant, request.user)
        tenant.journal.note(tenant.scope, "read", "privacy.certificates", (), subject=hashed)
        where = (equal("subject", hashed),)
    newest = (Order("id", descending=True),)
    page = tenant.find(Query(ErasureCertificate, where, newest, request.limit, request.after))
    shown = [certificate_view(one) for one in page.records]
    return CertificatePage(certificates=shown, next=page.next, public_key=known_public_key(tenant))


def certificates_of(tenant: Tenant, user: str) -> list[CertificateView]:
    if not tenant.count(Query(ErasureCertificate)):
        return []
    newest, of_this = (Order("id", descending=True),), equal("subject", subject_hash(tenant, user))
    found = tenant.find(Query(ErasureCertificate, (of_this,), newest, MOST_LISTED))
    return [certificate_view(one) for one in found.records]


def certificate_view(one: ErasureCertificate) -> CertificateView:
    document = one.document
    finished = document.get("finished_at")
    return CertificateView(
        id=one.id,
        status=one.status,
        subject=one.subject,
        started_at=one.created_at,
        finished_at=datetime.fromisoformat(finished) if finished else None,
        deleted=sum(document.get("deleted", {}).values()),
        certificate=document if one.status == "done" else {},
    )


class VerifyCertificateRequest(Request):
    """A certificate to verify: by its id, or the document itself."""

    id: Id | None = Field(None, description="The id of a certificate in this store")
    certificate: Annotated[JsonObject | None, AS_GIVEN] = Field(
        None, description="A certificate that was stored elsewhere"
    )


class CertificateCheck(Reply):
    """One thing that was checked, and what was found."""

    name: str
    sound: bool
    says: str


class CertificateVerdict(Reply):
    """Whether a certificate is genuine, and whether the store still agrees with it."""

    id: str
    sound: bool
    checks: list[CertificateCheck]


def verify(tenant: Tenant, request: VerifyCertificateRequest) -> CertificateVerdict:
    """Verify a certificate: its signature, that this organization made it, and what the access log says of it."""
    if (request.id is None) == (request.certificate is None):
        remedy = "`recollect privacy certificates` lists the ids"
        raise InvalidInput("give either an id or a certificate", remedy=remedy)
    document = request.certificate
    if document is None:
        document = load(tenant, ErasureCertificate, request.id or "").document
    if document.get("format") != CERTIFICATE_FORMAT or not isinstance(document.get("id"), str):
        raise InvalidInput(
            "that is not a certificate of an erasure",
            remedy="give the whole document; one that is still running has none, finish it with `privacy erase`",
        )
    checks = list(_checks(tenant, document))
    return CertificateVerdict(id=document["id"], sound=all(one.sound for one in checks), checks=checks)


def _checks(tenant: Tenant, document: JsonObject) -> Iterator[CertificateCheck]:
    ours = known_public_key(tenant)
    yield _check("signature", is_signed(document), "it is as it was signed", "it was changed after it was signed")
    yield _check(
        "issuer", document.get("public_key") == ours, "this organization signed it", "another organization signed it"
    )
    stored = tenant.get(ErasureCertificate, document["id"][:255] or "-")
    same = stored is not None and stored.document == document
    yield _check("store", same, "the store has the same certificate", "the store has no such certificate")
    entries = tenant.find(Query(AccessLog, (equal("action", ERASE),), (Order("id"),))).records
    logged = any(one.request_data.get("erasure") == document["id"] for one in entries)
    yield _check("log", logged, "the access log has the erasure", "the access log does not have the erasure")
    told = document.get("log")
    number, _, digest = str(told.get("anchor") if isinstance(told, dict) else "").partition(":")
    if number.isdecimal() and len(number) < 18:
        seals = tenant.find(Query(Seal, (equal("number", int(number)),))).records
        held = bool(seals) and seals[0].digest == digest
        yield _check("anchor", held, f"the log still has seal {number}", f"seal {number} of the log is another now")


def _check(name: str, sound: bool, well: str, ill: str) -> CertificateCheck:
    return CertificateCheck(name=name, sound=sound, says=well if sound else ill)
