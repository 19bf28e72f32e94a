"""Citations as they are shown with memories: what each points at, who entered it, and what the last look found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from recollect.domain.provenance import Citation
from recollect.ports.records import Scope
from recollect.services.context import Core, Reply
from recollect.services.keyed_hashes import shown_evidence


class CitationView(Reply):
    """A citation as shown with a memory: what it points at, and what the last check found, and when."""

    id: str
    type: str
    source: str
    state: str
    note: str = ""
    evidence: dict[str, Any] = Field(default_factory=dict)
    checked_at: datetime | None = None
    entered_by: str | None = None
    confirmed_at: datetime | None = None

    def __str__(self) -> str:
        return f"{self.source} ({self.state})"


SHOWN = tuple(CitationView.model_fields)


def trust_in_words(status: str, cited: Sequence[CitationView]) -> str:
    """How far a memory is trusted, how much of what it rests on held, and when that was last looked at."""
    if not cited:
        return f"{status}, uncited"
    held = [one for one in cited if one.state == "holds"]
    said = f"{status}, {len(held)} of {len(cited)} citations hold"
    times = [one.checked_at for one in held]
    known = [at for at in times if at is not None]
    return f"{said}, checked {min(known):%Y-%m-%d}" if known and len(known) == len(times) else said


def citation_view(core: Core, scope: Scope, citation: Citation) -> CitationView:
    return CitationView(**shown_fields(core, scope, {name: getattr(citation, name) for name in SHOWN}))


def shown_fields(core: Core, scope: Scope, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "evidence": shown_evidence(core.keyring, scope, fields["evidence"])}


def by_memory(core: Core, scope: Scope, rows: Sequence[tuple[Any, ...]]) -> dict[str, list[CitationView]]:
    """Rows of a memory's id and the shown fields, as views by memory."""
    found: dict[str, list[CitationView]] = {}
    for row in rows:
        fields = shown_fields(core, scope, dict(zip(SHOWN, row[1:], strict=True)))
        found.setdefault(row[0], []).append(CitationView(**fields))
    return found
