"""Confirmation of citations: what a user is cited with is a claim until that user entered or confirmed it.

Over HTTP and MCP the caller is authenticated. Whoever opens the store in their own process is responsible for what they
enter, and may confirm for others; a caller that acts for a user can confirm for that user only, in process as well.
"""

from __future__ import annotations

from pydantic import Field

from recollect.domain.memory import Memory
from recollect.domain.provenance import Citation, UserCitation
from recollect.domain.record import Id, now
from recollect.errors import Denied, InvalidInput, NotFound
from recollect.ports.records import revised
from recollect.ports.steps import Require, Update
from recollect.retry import retry_unless_pinned
from recollect.services.requests import Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import citations_of, commit, load, logged
from recollect.services.trust.governance import StatusReply, status_of


class ConfirmRequest(Request):
    """A citation of you that someone else entered."""

    id: Id = Field(description="The memory")
    citation: Id = Field(description="The citation's id")


def confirm(tenant: Tenant, request: ConfirmRequest) -> StatusReply:
    """Confirm that you said what a memory cites you with: the claim then holds and can support a promotion."""
    return retry_unless_pinned(None, lambda: _confirmed(tenant, request))


def _confirmed(tenant: Tenant, request: ConfirmRequest) -> StatusReply:
    memory = load(tenant, Memory, request.id)
    found = [one for one in citations_of(tenant, memory.id) if one.id == request.citation]
    if not found:
        raise NotFound(f"memory has no citation '{request.citation[:80]}'", remedy="list its citations")
    citation = found[0]
    _refuse_others(tenant, citation)
    if citation.confirmed_at is None:
        said = revised(citation, tenant.scope, confirmed_by=tenant.scope.actor, confirmed_at=now())
        seen = said.changed(**said.looked_up(tenant.citation_lookup(tenant.scope, memory.id)))
        unchanged = Require(Memory, memory.id, {"content_hash": memory.content_hash})
        entry = logged(tenant, "update", "confirm", memory, citation=citation.id)
        commit(tenant, [unchanged, Update(seen), entry])
    return status_of(tenant, memory.id)


def _refuse_others(tenant: Tenant, citation: Citation) -> None:
    cited = citation.cited()
    if not isinstance(cited, UserCitation):
        raise InvalidInput(
            f"a {cited.type} citation cannot be confirmed",
            remedy="check it instead; only citations of users are confirmed",
        )
    if not cited.comment.strip():
        raise InvalidInput("the citation has no comment to confirm", remedy="cite the user with what they said")
    speaks_for_all = tenant.scope.granted is None and tenant.scope.actor is None
    if tenant.scope.actor != cited.user_id and not speaks_for_all:
        raise Denied(
            f"only {cited.user_id} can confirm what {cited.user_id} said",
            remedy="ask them to sign in and confirm it, or give them their own key",
        )
