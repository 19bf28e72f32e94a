"""Repeated checks: citations are checked again when memories are shown, and in the background.

A recall checks the few memories that it shows, and uses no network unless the request says so: lines of files are
hashed, commits, log entries and users looked up; of a web page only its age is reported. A broken citation demotes its
memory immediately, as `check` does. In the background those not checked for the longest come first, a limited number
each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from recollect.domain.memory import Memory
from recollect.domain.provenance import Citation
from recollect.domain.record import now
from recollect.errors import VersionConflict
from recollect.ports.query import Compare, IsNull, OneOf, Order, Query
from recollect.ports.records import revised
from recollect.ports.steps import Update
from recollect.services.tenant import Tenant
from recollect.services.transaction import citations_of
from recollect.services.trust.citations import CitationView, citation_view

if TYPE_CHECKING:  # a recall imports it when it has something to check
    from recollect.services.trust.governance import CheckReply

When = Literal["none", "stale", "always"]
NOTED_SECONDS = 3600.0  # how often an unchanged result is written: a recall should mostly only read


@dataclass(slots=True)
class Recheck:
    """Checks memories before they are shown, each once; `notes` report the results."""

    tenant: Tenant
    when: Literal["stale", "always", "act"]
    views: dict[str, list[CitationView]] = field(default_factory=dict)
    fallen: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def look(self, ids: Sequence[str]) -> bool:
        """Check those of these memories that were not checked before; returns whether one was demoted."""
        wanted = tuple(id for id in ids if id not in self.views)
        if not wanted:
            return False
        found: dict[str, list[Citation]] = {id: [] for id in wanted}
        for citation in self.tenant.find(Query(Citation, (OneOf("memory_id", wanted),))).records:
            found[citation.memory_id].append(citation)
        for id, citations in found.items():
            seen = self._looked(id, citations) if citations else []
            self.views[id] = [citation_view(self.tenant, citation) for citation in seen]
        return any(id in self.fallen for id in wanted)

    def _looked(self, id: str, citations: Sequence[Citation]) -> list[Citation]:
        from recollect.services.trust.governance import looked_up

        for _ in range(3):
            memory = self.tenant.get(Memory, id)
            if memory is None:
                return list(citations)
            checked = [looked_up(self.tenant, one) for one in citations if self._is_wanted(one)]
            try:
                self._write(memory, citations, checked)
            except VersionConflict:  # checked concurrently: read their result
                citations = citations_of(self.tenant, id)
                continue
            anew = {one.id: one for one in checked}
            return [anew.get(one.id, one) for one in citations]
        return list(citations)

    def _write(self, memory: Memory, before: Sequence[Citation], checked: Sequence[Citation]) -> None:
        from recollect.services.trust.governance import record_checked

        were = {one.id: one for one in before}
        worth = [one for one in checked if _is_news(were[one.id], one)]
        if worth and record_checked(self.tenant, memory, worth):
            broken = next(one for one in worth if one.state in ("broken", "claimed"))
            self.fallen[memory.id] = broken.note
            self.notes.append(f"memory {memory.id} is a hypothesis now: {broken.note}")
        unseen = sum(not one.is_just_seen for one in checked)
        if unseen:
            self.notes.append(f"{unseen} of the citations of memory {memory.id} cannot be checked from here")

    def _is_wanted(self, citation: Citation) -> bool:
        is_due = citation.checked_at is None or citation.tried_at is None  # what it names has changed since
        is_stale = is_due or _age(citation.checked_at or now()) > self.tenant.stale_seconds
        if citation.type == "url" and self.when != "always":
            if is_stale and citation.state == "holds":
                when = f"{citation.checked_at:%Y-%m-%d}" if citation.checked_at else "never"
                self.notes.append(f"{citation.source} was last checked: {when}")
            return False
        return is_stale or self.when != "stale"


def _is_news(before: Citation, after: Citation) -> bool:
    return after.state != before.state or before.tried_at is None or _age(before.tried_at) > NOTED_SECONDS


def _age(moment: datetime) -> float:
    return (now() - moment).total_seconds()


def check_oldest(tenant: Tenant, most: int) -> CheckReply:
    """Check the citations that were not tried for the longest, up to a limit; recently tried ones are skipped."""
    from recollect.services.trust.governance import CheckReply, check_memory

    report = CheckReply()
    grouped: dict[str, list[Citation]] = {}
    for citation in _due(tenant, most):
        grouped.setdefault(citation.memory_id, []).append(citation)
    for memory_id, citations in grouped.items():
        if tenant.get(Memory, memory_id) is not None:
            check_memory(tenant, memory_id, citations, report)
        else:  # forgotten: it is checked when it is restored; until then it is skipped
            _put_off(tenant, citations)
    return report


def _due(tenant: Tenant, most: int) -> list[Citation]:
    """Asked for apart: an index has those that were never tried, and another all others."""
    untried = tenant.find(Query(Citation, (IsNull("tried_at"),), (Order("id"),), most)).records
    if len(untried) == most:
        return untried
    before = now() - timedelta(seconds=tenant.stale_seconds)
    tried = Query(Citation, (Compare("tried_at", "<", before),), (Order("tried_at"),), most - len(untried))
    return [*untried, *tenant.find(tried).records]


def _put_off(tenant: Tenant, citations: Sequence[Citation]) -> None:
    try:
        tenant.transact([Update(revised(one, tenant.scope, tried_at=now())) for one in citations])
    except VersionConflict:
        return  # whoever changed them has checked them
