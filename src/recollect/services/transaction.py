"""Records of a tenant: loaded or not found, made and changed with readable errors, logged, committed whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from recollect.domain.audit import AccessLog, AccessOperation
from recollect.domain.kinds import describe
from recollect.domain.memory import Memory, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import Record
from recollect.errors import InvalidInput, NotFound, VersionConflict
from recollect.ports.query import Page, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Insert, Step
from recollect.services.access_journal import named
from recollect.services.tenant import Tenant

R = TypeVar("R", bound=Record)

_SPOKEN = {"execution": "run"}


def load(tenant: Tenant, record: type[R], id: str, *, deleted: bool = False, version: int | None = None) -> R:
    """The record, or NotFound; another tenant's looks exactly like one that is absent.

    With `version`, only if it still has that version: VersionConflict otherwise.
    """
    found = tenant.get(record, id, deleted=deleted)
    spoken = _SPOKEN.get(record.shape.table, record.shape.table.replace("_", " "))
    if found is None:
        raise NotFound(
            f"there is no {spoken} '{id[:80]}'",
            remedy="check the id; a forgotten one can be restored" if record is Memory else "check the id",
            id=id[:255],
        )
    if version is not None and version != found.version:
        raise VersionConflict(
            f"{spoken} '{id[:80]}' was changed by someone else",
            remedy="read it again and repeat the change",
            id=id[:255],
            expected=version,
        )
    return found


def logged(
    tenant: Tenant, operation: AccessOperation, action: str, memory: Memory | None = None, **request: Any
) -> Insert:
    """The audit entry of a change, to be written in the same transaction as the change itself.

    It is called by the operation that makes the change; `action` says what exactly was done (see journal.named).
    """
    about = named(action)
    told = {name: value for name, value in request.items() if value not in (None, "", [])}
    return Insert(
        AccessLog(
            organization_id=tenant.scope.organization_id,
            memory_id=memory.id if memory else None,
            session_id=(memory.session_id if memory else None) or about.get("session_id"),
            agent_id=(memory.agent_id if memory else None) or about.get("agent_id"),
            actor_id=tenant.scope.actor,
            operation=operation,
            action=about["action"],
            request_data={**about.get("request_data", {}), **told},
            ip_address=tenant.scope.address,
        )
    )


def commit(tenant: Tenant, steps: Sequence[Step]) -> int:
    """Commit the steps. A record to be changed that no longer exists was deleted meanwhile: VersionConflict."""
    try:
        seq = tenant.transact(steps).seq
    except NotFound as gone:
        raise VersionConflict("it was deleted meanwhile", remedy="read it again", **gone.details) from None
    tenant.vectors.hint(seq)
    return seq


def made(record: type[R], tenant: Tenant, /, **fields: Any) -> R:
    """A validated record of the tenant, with a readable error instead of pydantic's."""
    audit = {"created_by": tenant.scope.actor, "updated_by": tenant.scope.actor}
    try:
        return record(organization_id=tenant.scope.organization_id, **{**audit, **fields})
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


def counted_page(tenant: Tenant, query: Query[R]) -> tuple[Page[R], int]:
    """A page, and the total: counted for the first page, and passed on in the cursor."""
    after, _, carried = (query.after or "").partition("~")
    page = tenant.find(replace(query, after=after or None))
    if re.fullmatch("[0-9]{1,18}", carried):
        total = int(carried)
    elif page.next is None and not after:
        total = len(page.records)
    else:
        total = tenant.count(query)
    return replace(page, next=page.next and f"{page.next}~{total}"), total


def citations_of(tenant: Tenant, memory_id: str) -> list[Citation]:
    return tenant.find(Query(Citation, (equal("memory_id", memory_id),))).records


def tags_of(tenant: Tenant, memory_id: str) -> list[str]:
    return sorted(tag for (tag,) in tenant.select(Query(Tag, (equal("memory_id", memory_id),)), ("tag",)))
