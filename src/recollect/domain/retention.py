"""How long memories and sessions are kept, what happens then, and legal holds, which stop all of it.

A rule is about memories of a kind, of a project or of a level, or any of these together; `cold` is about the sessions
of a project. The rule with the most conditions counts; of several such rules the one that keeps longest.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from recollect.domain.record import Id, Moment, Name, Record, Reference, Shape, Text

RetentionAction = Literal["archive", "forget", "erase", "cold"]
HeldType = Literal["user", "agent", "session", "project"]
LONGEST_KEEP_DAYS = 36_500

_TENANT = Reference("organization")


class RetentionTerms(BaseModel):
    """What a rule is about, how long that is kept, and what happens then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Name | None = Field(None, description="Only memories of this kind")
    project: Id | None = Field(None, description="Only memories, or sessions, of this project")
    level: Name | None = Field(None, description="Only memories of this level, such as item or session")
    keep_days: float = Field(gt=0, le=LONGEST_KEEP_DAYS, description="For how many days they are kept")
    then: RetentionAction = Field(
        description="What happens then: archive, forget (can be restored), erase (for good), or cold: sessions in "
        "which nothing happened for so long are moved to cold storage"
    )
    reason: Text = Field("", max_length=2000, description="Why, for those who read the log")

    @model_validator(mode="after")
    def _cold_is_for_sessions(self) -> Self:
        if self.then == "cold" and (self.kind is not None or self.level is not None):
            raise ValueError("cold moves whole sessions: give a project or nothing, but no kind and no level")
        return self

    @property
    def id(self) -> str:
        """Made of what it is about: there is one rule for each combination."""
        about = "sessions" if self.then == "cold" else "memories"
        parts = (about, self.kind or "", self.project or "", self.level or "")
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    @property
    def conditions(self) -> dict[str, str]:
        """By field of a memory, or of a session."""
        named = {"kind": self.kind, "project_id": self.project, "level": self.level}
        return {name: value for name, value in named.items() if value is not None}

    def counts_before(self, other: RetentionTerms) -> bool:
        """Whether this one counts where both apply: it says more, or it says as much and keeps longer."""
        return (len(self.conditions), self.keep_days) > (len(other.conditions), other.keep_days)


class RetentionRule(Record):
    """Its id is made of its conditions, so there is one rule for each combination."""

    shape: ClassVar[Shape] = Shape(
        "retention_rule", references={"organization_id": _TENANT, "project_id": Reference("project")}
    )

    kind: Name | None = None
    project_id: Id | None = None
    level: Name | None = None
    keep_days: float = Field(gt=0, le=LONGEST_KEEP_DAYS)
    then: RetentionAction
    reason: Text = ""

    @property
    def terms(self) -> RetentionTerms:
        return RetentionTerms(
            kind=self.kind, project=self.project_id, level=self.level, keep_days=self.keep_days, then=self.then,
            reason=self.reason,
        )  # fmt: skip


class RetentionClock(Record):
    """What time it was when rules were last applied, and since when the clock is in doubt, if it is."""

    shape: ClassVar[Shape] = Shape("retention_clock", references={"organization_id": _TENANT}, leaves_trace=False)

    applied_at: Moment | None = None
    doubted_at: Moment | None = None


class LegalHold(Record):
    """Nothing of a user, agent, session or project may be deleted until it is released. It stays on record afterwards.

    The subject is not a reference: the hold outlives it once it was released.
    """

    shape: ClassVar[Shape] = Shape(
        "legal_hold", references={"organization_id": _TENANT}, indexes=(("released_at",), ("subject_id",))
    )

    subject_type: HeldType
    subject_id: Id
    reason: Text
    released_at: Moment | None = None
    released_by: Id | None = None
    release_reason: Text = ""
