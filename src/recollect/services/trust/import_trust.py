"""Trust in imported memories: only what can be checked here.

A file may claim that its memories are verified and that its citations hold. That is not relied on: the citations of
every trusted memory are checked here, and a memory of which none holds is imported as a hypothesis, with its former
status in its history. Over HTTP, the importing user counts as the one who entered every citation, since whoever the
file names was not authenticated here. (Copying a whole store and restoring a backup take everything as it is.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from recollect.domain.memory import TRUSTED, Embedding, Memory, Revision
from recollect.domain.provenance import Citation, CitationLookup, entered
from recollect.domain.record import Record, now
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.revise import fallen_steps
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, made
from recollect.services.trust.governance import supports

AT_ONCE = 500
WHY = "imported without a citation that holds here"


@dataclass(slots=True)
class ImportCheck:
    """Checks every imported memory; `fallen` are those that were demoted, as they were before."""

    tenant: Tenant
    comes_later: Callable[[str], bool]
    """Whether the file contains a log entry with this id, which may be imported after what cites it."""
    replaces: bool = False
    """Whether an existing memory is replaced by the one in the file."""
    fallen: list[Memory] = field(default_factory=list)

    def taken(self, group: Sequence[Record]) -> list[Record]:
        """A memory and its parts, or another record, as they are to be written."""
        records = [self._entered(one) if isinstance(one, Citation) else one for one in group]
        memory = records[0]
        if not isinstance(memory, Memory) or memory.status not in TRUSTED:
            return records
        here = self.tenant.citation_lookup(self.tenant.scope, memory.id)
        lookup = cast(CitationLookup, _LookupWithFile(here, self.comes_later))
        looked = [one.changed(**one.looked_up(lookup)) if isinstance(one, Citation) else one for one in records]
        seen = [one for one in looked if isinstance(one, Citation) and one.is_just_seen]
        found = [one.state for one in seen]
        if any(supports(self.tenant, one, memory.status) for one in seen) and "broken" not in found:
            # In process the dates and results in the file are accepted where the check here gives the same.
            same = [one.state for one in records if isinstance(one, Citation)] == found
            return _with_facets(memory, records if same and self.tenant.scope.granted is None else looked)
        if self.replaces or self.tenant.get(Memory, memory.id, deleted=True) is None:
            self.fallen.append(memory)
        after, *former = self._demoted(memory)
        return _with_facets(after, [after, *former, *looked[1:]])

    def _entered(self, citation: Citation) -> Citation:
        if self.tenant.scope.granted is None:
            return citation
        cited = citation.cited()
        fields: dict[str, Any] = entered(cited, cited, self.tenant.scope.actor, "door")
        cleared = dict.fromkeys(("confirmed_by", "confirmed_at", "checked_at", "tried_at"))
        anew: Citation = citation.changed(**fields, **cleared, note="")
        return anew

    def _demoted(self, memory: Memory) -> tuple[Memory, Record]:
        after = memory.changed(
            status="hypothesis", version=memory.version + 1, updated_at=max(now(), memory.updated_at)
        )
        former = made(
            Revision, self.tenant, memory_id=memory.id, number=memory.version, change="demoted", why=WHY,
            state=memory.model_dump(mode="json"), text=memory.text, held_from=memory.updated_at,
            held_to=after.updated_at,
        )  # fmt: skip
        return after, former

    def settle(self) -> list[str]:
        """Also demote what was derived from demoted memories; returns a note with their number."""
        for start in range(0, len(self.fallen), AT_ONCE):
            steps = fallen_steps(self.tenant, self.fallen[start : start + AT_ONCE], "could not be verified here")
            if steps:
                commit(self.tenant, steps)
        if not self.fallen:
            return []
        count = len(self.fallen)
        what = "1 memory has" if count == 1 else f"{count} memories have"
        return [f"{what} no citation that holds here: hypotheses now, such as {self.fallen[0].id}"]


def _with_facets(memory: Memory, records: Sequence[Record]) -> list[Record]:
    """Vectors carry the status of their memory, too."""
    facets = embedded_memory(memory).facets
    return [one.changed(facets=facets) if isinstance(one, Embedding) else one for one in records]


class _LookupWithFile:
    """A citation lookup that also knows the log entries of the file, written or not."""

    def __init__(self, lookup: CitationLookup, comes_later: Callable[[str], bool]) -> None:
        self._lookup = lookup
        self._comes_later = comes_later

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lookup, name)

    def log_exists(self, log_id: str) -> bool:
        return self._lookup.log_exists(log_id) or self._comes_later(log_id)
