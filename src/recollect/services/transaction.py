"""Records of a tenant: loaded or not found, made and changed with readable errors, logged, committed whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError

from recollect.domain.audit import AccessLog, AccessOperation
from recollect.domain.cold import ColdArchive, ColdRecord
from recollect.domain.conversations import Message, Session
from recollect.domain.kinds import describe
from recollect.domain.memory import Memory, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import Record, now
from recollect.errors import (
    DuplicateKey,
    InColdStorage,
    InvalidInput,
    NotFound,
    ReferenceMissing,
    VersionConflict,
)
from recollect.ports.query import Page, Query, equal
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Committed, Insert, Step
from recollect.services.access_journal import named, new_salt
from recollect.services.named_owners import unknown_owners
from recollect.services.requests import CreatedOwner
from recollect.services.tenant import Tenant

R = TypeVar("R", bound=Record)

_SPOKEN = {"execution": "run"}


def spoken(record: type[Record]) -> str:
    """What users call such a record."""
    return _SPOKEN.get(record.shape.table, record.shape.table.replace("_", " "))


def load(tenant: Tenant, record: type[R], id: str, *, deleted: bool = False, version: int | None = None) -> R:
    """The record, or NotFound; another tenant's looks exactly like one that is absent. InColdStorage if it was moved.

    With `version`, only if it still has that version: VersionConflict otherwise.
    """
    found = tenant.get(record, id, deleted=deleted)
    if found is None:
        refuse_moved(tenant, record, id)
        is_message = record is Memory and tenant.get(Message, id) is not None  # recall finds messages, too
        raise NotFound(
            f"there is no {spoken(record)} '{id[:80]}'",
            remedy="that is a message: message.remember makes a memory of it, which can be promoted"
            if is_message
            else "check the id; a forgotten one can be restored"
            if record is Memory
            else "check the id",
            id=id[:255],
        )
    if version is not None and version != found.version:
        raise VersionConflict(
            f"{spoken(record)} '{id[:80]}' was changed by someone else",
            remedy="read it again and repeat the change",
            id=id[:255],
            expected=version,
        )
    return found


def load_named(tenant: Tenant, owner: type[R], id: str) -> R | None:
    """The owner; None if it is not there, but will be made by the commit that names it."""
    return tenant.get(owner, id) if tenant.makes_owners else load(tenant, owner, id)


def refuse_moved(tenant: Tenant, record: type[Record], id: str) -> None:
    """Raise InColdStorage if this record was moved there."""
    table = record.shape.table
    moved = Query(ColdRecord, (equal("record_id", id), equal("record_table", table)), limit=1)
    for (archive,) in tenant.select(moved, ("archive_id",)):
        raise in_cold_storage(tenant, spoken(record), archive)


def in_cold_storage(tenant: Tenant, what: str, archive_id: str) -> InColdStorage:
    """The error that says where it is and how to get it back."""
    archive = tenant.get(ColdArchive, archive_id)
    where = tenant.objects.label if archive is None or archive.address is None else archive.address
    at = where if tenant.scope.granted is None else "the cold storage of this organization"
    return InColdStorage(
        f"that {what} is in cold storage, at {at}",
        remedy=f"restore its session first: recollect cold restore {archive_id[:80]}",
        id=archive_id,
    )


def refuse_cold(tenant: Tenant, session: Session | None) -> None:
    """Raise InColdStorage if what was said in this session was moved there."""
    if session is not None and session.cold_at is not None:
        raise in_cold_storage(tenant, "session", session.id)


def logged(
    tenant: Tenant, operation: AccessOperation, action: str, memory: Memory | None = None, **request: Any
) -> Insert:
    """The audit entry of a change, to be written in the same transaction as the change itself.

    It is called by the operation that makes the change; `action` says what exactly was done (see journal.named).
    """
    return AuditEntries(tenant, operation, action).of(memory, **request)


class AuditEntries:
    """The audit entries of a change to each of many memories: what they have in common is found out once."""

    def __init__(self, tenant: Tenant, operation: AccessOperation, action: str) -> None:
        about = named(action)
        self._is_valid = valid_scope(tenant.scope)
        self._session, self._agent = about.get("session_id"), about.get("agent_id")
        self._told: dict[str, Any] = about.get("request_data", {})
        self._fields = {
            "organization_id": tenant.scope.organization_id,
            "actor_id": tenant.scope.actor,
            "operation": operation,
            "action": about["action"],
            "ip_address": tenant.scope.address,
        }

    def of(self, memory: Memory | None = None, **request: Any) -> Insert:
        told = {name: value for name, value in request.items() if value is not None and value != "" and value != []}
        moment = now()
        fields = {
            **self._fields,
            "created_at": moment,
            "updated_at": moment,
            "timestamp": moment,
            "memory_id": memory.id if memory else None,
            "session_id": (memory.session_id if memory else None) or self._session,
            "agent_id": (memory.agent_id if memory else None) or self._agent,
            "request_data": {**self._told, **told},
            "salt": new_salt(),
        }
        # Of a memory only valid ids are told, and in most calls nothing but texts: see `valid_scope`.
        if memory is None or not self._is_valid or not _PLAIN.issuperset(map(type, told.values())):
            return Insert(AccessLog(**fields))
        return Insert(AccessLog.of_valid(fields))


def valid_scope(scope: Scope) -> bool:
    """Whether what a scope says of the caller may stand in records as it is; known for each caller once."""
    told = (scope.organization_id, scope.actor, scope.address)
    # Texts of other types, such as `mem.organization`, are made plain ones by validation.
    return _PLAIN.issuperset(map(type, told)) and _is_valid_caller(*told)


_PLAIN = frozenset({str, type(None)})


@lru_cache(maxsize=1000)
def _is_valid_caller(organization_id: str, actor: str | None, address: str | None) -> bool:
    try:
        AccessLog(organization_id=organization_id, actor_id=actor, ip_address=address, operation="read")
    except ValidationError:
        return False
    return True


def commit(tenant: Tenant, steps: Sequence[Step]) -> int:
    """Commit the steps. A record to be changed that no longer exists was deleted meanwhile: VersionConflict.

    Owners that the steps name and that nobody has added are made along with them, where the operation may.
    """
    try:
        seq = _with_named_owners(tenant, steps).seq
    except NotFound as gone:
        raise VersionConflict("it was deleted meanwhile", remedy="read it again", **gone.details) from None
    tenant.vectors.hint(seq)
    return seq


def _with_named_owners(tenant: Tenant, steps: Sequence[Step]) -> Committed:
    new: list[Record] = []
    while True:
        entries = [logged(tenant, "create", f"{one.shape.table}.add", None, id=one.id) for one in new]
        try:
            done = tenant.transact([*(Insert(one) for one in new), *steps, *entries])
        except (ReferenceMissing, DuplicateKey) as error:
            if isinstance(error, DuplicateKey) and not new:
                raise
            unknown = unknown_owners(tenant, steps)
            if not tenant.makes_owners or [one.id for one in unknown] == [one.id for one in new]:
                raise  # it is about something else
            new = unknown
            continue
        tenant.created.extend(CreatedOwner(type=one.shape.table, id=one.id) for one in new)
        return done


def made(record: type[R], tenant: Tenant, /, **fields: Any) -> R:
    """A validated record of the tenant, with a readable error instead of pydantic's."""
    audit = {"created_by": tenant.scope.actor, "updated_by": tenant.scope.actor}
    fields = {**audit, **fields, **tenant.owners(record, fields)}
    try:
        return record(organization_id=tenant.scope.organization_id, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that {record.shape.table} is not valid: {describe(error)}") from None


def as_of_version(record: R, version: int | None) -> R:
    """The record with the version that the caller has read: the store refuses the update if it has another."""
    known: R = record if version is None else record.changed(version=version)
    return known


def rewritten(record: R, tenant: Tenant, **fields: Any) -> R:
    """A changed copy to be written, with a readable error instead of pydantic's."""
    try:
        return revised(record, tenant.scope, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that {record.shape.table} is not valid: {describe(error)}") from None


def counted_page(tenant: Tenant, query: Query[R], most: int | None = None) -> tuple[Page[R], int]:
    """A page, and the total: counted for the first page, up to `most`, and passed on in the cursor."""
    after, _, carried = (query.after or "").partition("~")
    page = tenant.find(replace(query, after=after or None))
    if re.fullmatch("[0-9]{1,18}", carried):
        total = int(carried)
    elif page.next is None and not after:
        total = len(page.records)
    else:
        total = tenant.count(query, most)
    return replace(page, next=page.next and f"{page.next}~{total}"), total


def citations_of(tenant: Tenant, memory_id: str) -> list[Citation]:
    return tenant.find(Query(Citation, (equal("memory_id", memory_id),))).records


def tags_of(tenant: Tenant, memory_id: str) -> list[str]:
    return sorted(tag for (tag,) in tenant.select(Query(Tag, (equal("memory_id", memory_id),)), ("tag",)))
