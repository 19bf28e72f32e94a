"""Who owns what: organizations, their users, keys and projects."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field, model_validator

from recollect.domain.access import Role
from recollect.domain.record import Id, Json, Moment, Name, Record, Reference, Shape, Text, Unique

UserStatus = Literal["active", "invited", "suspended"]


def _known_zone(zone: str) -> str:
    if zone != "UTC" and zone not in available_timezones():
        raise ValueError(f"'{zone}' is not an IANA time zone such as UTC or Asia/Bangkok")
    ZoneInfo(zone)
    return zone


def _looks_like_email(email: str) -> str:
    name, _, host = email.partition("@")
    if not name or not host or any(character.isspace() for character in email):
        raise ValueError(f"'{email}' is not an email address")
    return email


TimeZone = Annotated[str, AfterValidator(_known_zone)]
Email = Annotated[Text, AfterValidator(_looks_like_email)]


class Organization(Record):
    """A tenant. Its organization_id is its own id, so that it lives under the same key as all it owns."""

    shape: ClassVar[Shape] = Shape("organization", store_only=frozenset({"data_key"}))

    name: Name
    suspended_at: Moment | None = None
    """Since when its keys and users are refused, if they are; its data are kept."""
    secret: Text | None = None
    """What hashes are keyed with before strangers are shown them; made when it is first needed, and never shown."""
    data_key: Text | None = None
    """The keys that its encrypted fields are sealed with, themselves wrapped by the master key; only the store sets it.
    """
    text_encrypted: bool = False
    """Whether the texts of memories and messages are encrypted, too (`Shape.encrypted_texts`)."""

    @model_validator(mode="after")
    def _is_its_own_tenant(self) -> Self:
        if self.organization_id != self.id:
            raise ValueError("an organization's organization_id is its own id")
        return self


class OrganizationSecret(Record):
    """A random secret of an organization, made when it is first needed and never shown; its id says what it is for.

    It is a record of its own because its value is encrypted: the record of the organization holds the keys for that.
    """

    shape: ClassVar[Shape] = Shape(
        "organization_secret",
        references={"organization_id": Reference("organization")},
        encrypted=frozenset({"value"}),
    )

    value: Text


class User(Record):
    shape: ClassVar[Shape] = Shape(
        "user",
        references={"organization_id": Reference("organization")},
        unique=(Unique(("email",)),),
        indexes=(("is_active",),),
        encrypted=frozenset({"profile_data", "preferences"}),
    )

    name: Name
    email: Email | None = None
    password_hash: Text | None = None
    status: UserStatus = "active"
    timezone: TimeZone = "UTC"
    profile_data: Json = Field(default_factory=dict)
    preferences: Json = Field(default_factory=dict)
    is_active: bool = True
    role: Role | None = None
    """What they may do through the service; without a role they are only somebody that memories are about."""
    own_only: bool = False
    """Whether they reach only what is theirs and what is shared with their projects (services/restrictions.py)."""


class ApiKey(Record):
    """Only a hash of the key is kept; the key itself is shown once, when it is made."""

    shape: ClassVar[Shape] = Shape(
        "api_key",
        references={
            "organization_id": Reference("organization"),
            "user_id": Reference("user"),
            "agent_id": Reference("agent"),
            "project_id": Reference("project"),
        },
        unique=(Unique(("key_hash",)),),
        indexes=(("user_id",), ("agent_id",), ("project_id",)),
    )

    user_id: Id | None = None
    """On whose behalf it is used; with `own_only` it reaches only what is theirs and shared with their projects."""
    own_only: bool = False
    agent_id: Id | None = None
    """It reaches only what belongs to this agent, project or namespace. The key goes with them: without, it would reach
    everything."""
    project_id: Id | None = None
    namespace: Name | None = None
    name: Name
    key_hash: Text
    scopes: list[Text] = Field(default_factory=list)
    expires_at: Moment | None = None
    last_used_at: Moment | None = None
    revoked_at: Moment | None = None
    is_console: bool = False
    """Made by signing in: the console's, for as long as somebody is signed in."""
    rate_per_minute: int | None = Field(default=None, ge=1)
    requests_per_day: int | None = Field(default=None, ge=1)
    counted_on: Text | None = None
    counted: int = 0


class Project(Record):
    shape: ClassVar[Shape] = Shape(
        "project",
        references={"organization_id": Reference("organization"), "owner_id": Reference("user")},
        indexes=(("owner_id",),),
    )

    owner_id: Id | None = None
    name: Name
    description: Text = ""


class Membership(Record):
    """A user in a project, with what they may do there."""

    shape: ClassVar[Shape] = Shape(
        "membership",
        references={
            "organization_id": Reference("organization"),
            "project_id": Reference("project"),
            "user_id": Reference("user"),
        },
        unique=(Unique(("project_id", "user_id")),),
        indexes=(("user_id",),),
    )

    project_id: Id
    user_id: Id
    role: Role = "writer"
