"""Erasure of all that is stored about a person, and the certificate that says what was erased."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Json, Record, Reference, Shape, Text, Unique

CertificateStatus = Literal["running", "done"]
CERTIFICATE_FORMAT = "recollect-erasure-1"


class ErasureCertificate(Record):
    """What was erased about a person, when, by whom and why; it names nobody who was erased.

    It is written with the deletion itself and finished when the log, the files and the copies were dealt with. As long
    as it is `running`, `running_for` keeps a second erasure of the same person from starting beside it, and `work`
    holds, masked, what a process needs that continues after the first was killed.
    """

    shape: ClassVar[Shape] = Shape(
        "erasure_certificate",
        references={"organization_id": Reference("organization")},
        unique=(Unique(("running_for",)),),
        indexes=(("subject",),),
    )

    subject: Text
    """The keyed hash of whom it is about."""
    status: CertificateStatus = "running"
    running_for: Text | None = None
    work: bytes | None = None
    document: Json = Field(default_factory=dict)
