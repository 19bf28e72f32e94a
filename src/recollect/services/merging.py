"""Several memories say the same: one stays, with the evidence of all, and the others give way to it.

All of it is one transaction: the citations and tags that go over, the links, the others put aside, the promotion of the
one that stays, and the entries of the access log. Nothing is deleted: an archived memory can be brought back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from recollect.domain.memory import TRUSTED, Memory, Relationship, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import Id, Text
from recollect.errors import IllegalTransition, InvalidInput, RequirementFailed, VersionConflict
from recollect.ports.records import Insert, Query, Require, Scope, Step, Update, equal
from recollect.services.core import Core, Request, citations_of, commit, load, logged, made, tags_of
from recollect.services.governance import Standing, looked_up, promotion_steps, refuse_promotion, standing
from recollect.services.remember import citation_record
from recollect.services.revise import change_steps, fallen_steps

MERGED_INTO = "merged_into"
MOST = 100


class MergeRequest(Request):
    """Several memories that say the same, and which of them stays."""

    id: Id = Field(description="The memory that stays")
    others: list[Id] = Field(min_length=1, max_length=MOST, description="Those that give way to it; they are archived")
    promote: Literal["verified", "published"] | None = Field(
        None, description="Also raise the status of the one that stays, if the evidence of all supports it"
    )
    why: Text = Field("", description="Why; kept in their histories")
    version: int | None = Field(None, ge=1, description="Only if the one that stays still has this version")


class Merged(Standing):
    """Where the one that stays stands now, which ones gave way, and how much of theirs it took over."""

    merged: list[str]
    citations_added: int = 0
    tags_added: int = 0


def merge(core: Core, scope: Scope, request: MergeRequest) -> Merged:
    """Let one memory stand for several: it takes over their citations and tags, they are archived with a link to it."""
    if request.id in request.others:
        raise InvalidInput("a memory cannot be merged into itself", remedy="leave it out of `others`")
    kept = load(core, scope, Memory, request.id, version=request.version)
    others = [load(core, scope, Memory, id) for id in dict.fromkeys(request.others)]
    if request.promote is not None:
        refuse_promotion(kept, request.promote)
    _refuse_loss(kept, others, request.promote or kept.status)
    own = citations_of(core, scope, kept.id)
    fresh = _evidence(core, scope, kept, own, others)
    tags = _tags(core, scope, kept, others)
    steps: list[Step] = [Require(Memory, kept.id, {"version": kept.version})]
    if request.promote is not None:
        own = [looked_up(core, scope, citation) for citation in own]
        steps += [Update(citation) for citation in own]
        steps += promotion_steps(core, scope, kept, request.promote, request.why, [*own, *fresh])
    steps += [Insert(record) for record in (*fresh, *tags)]
    steps += [step for other in others for step in _giving_way(core, scope, other, kept, request.why)]
    steps += fallen_steps(core, scope, others, "was archived")
    entry = logged(scope, "update", "merge", kept, others=[other.id for other in others])
    try:
        commit(core, scope, [*steps, entry])
    except RequirementFailed:
        raise VersionConflict(
            f"memory '{kept.id}' was changed by someone else", remedy="read it again and repeat the merge", id=kept.id
        ) from None
    return Merged(
        merged=[other.id for other in others], citations_added=len(fresh), tags_added=len(tags),
        **standing(core, scope, kept.id).model_dump(),
    )  # fmt: skip


def _refuse_loss(kept: Memory, others: Sequence[Memory], status: str) -> None:
    """What is trusted gives way only to what is; and nothing to what was put aside itself."""
    if kept.status == "archived":
        raise IllegalTransition(
            "that memory is archived",
            remedy="merge into one that is not, or demote it first",
            id=kept.id,
        )
    trusted = [other for other in others if other.status in TRUSTED]
    if trusted and status not in TRUSTED:
        raise IllegalTransition(
            f"memory '{trusted[0].id}' is {trusted[0].status} and cannot give way to a {status}",
            remedy="merge the other way round, or say promote='verified'",
            id=trusted[0].id,
        )


def _evidence(
    core: Core, scope: Scope, kept: Memory, own: Sequence[Citation], others: Sequence[Memory]
) -> list[Citation]:
    """What the others cite and the one that stays does not, each looked up; what does not hold stays behind."""
    known = {citation.cited().model_dump_json() for citation in own}
    found: dict[str, Citation] = {}
    for other in others:
        for citation in citations_of(core, scope, other.id):
            cited = citation.cited()
            if (told := cited.model_dump_json()) not in known and told not in found:
                found[told] = looked_up(core, scope, citation_record(scope, kept.id, cited))
    return [citation for citation in found.values() if citation.state != "broken"]


def _tags(core: Core, scope: Scope, kept: Memory, others: Sequence[Memory]) -> list[Tag]:
    had = set(tags_of(core, scope, kept.id))
    theirs = {tag for other in others for tag in tags_of(core, scope, other.id)}
    return [made(Tag, scope, memory_id=kept.id, tag=tag) for tag in sorted(theirs - had)]


def _giving_way(core: Core, scope: Scope, other: Memory, kept: Memory, why: str) -> Iterator[Step]:
    same = (equal("source_id", other.id), equal("target_id", kept.id), equal("type", MERGED_INTO))
    if not core.store.count(scope, Query(Relationship, same)):
        yield Insert(made(Relationship, scope, source_id=other.id, target_id=kept.id, type=MERGED_INTO))
    if other.status != "archived":
        said = f"merged into {kept.id}" + (f": {why}" if why else "")
        yield from change_steps(core, scope, other, "archived", said, status="archived")
