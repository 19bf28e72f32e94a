"""Merging memories that say the same: one stays, with the evidence of all, and the others are archived.

All of it is one transaction: the citations and tags that are copied, the links, the archiving of the others, the
promotion of the one that stays, and the entries of the access log. Nothing is deleted, and each link records what was
copied: `unmerge` restores a memory that was merged by mistake, and removes its evidence from the one that stayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from recollect.domain.memory import TRUSTED, Memory, Relationship, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import Id, Text
from recollect.errors import IllegalTransition, InvalidInput, NotFound, RequirementFailed, VersionConflict
from recollect.ports.query import Filter, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, DeleteWhere, Insert, Require, Step, Update
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.relations import MERGED_INTO
from recollect.services.memories.revise import change_steps, fallen_steps
from recollect.services.requests import Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import citations_of, commit, load, logged, made, tags_of
from recollect.services.trust.governance import (
    MoveRequest,
    StatusReply,
    looked_up,
    promotion_steps,
    refuse_promotion,
    status_of,
    unsupported_steps,
)

MOST = 100
_TAKEN_OVER = set("type source evidence entered_by entered_through seen_at confirmed_by confirmed_at".split())


class MergeRequest(Request):
    """Several memories that say the same, and which of them stays."""

    id: Id = Field(description="The memory that stays")
    others: list[Id] = Field(
        min_length=1, max_length=MOST, description="The memories merged into it; they are archived"
    )
    promote: Literal["verified", "published"] | None = Field(
        None, description="Also raise the status of the one that stays, if the evidence of all supports it"
    )
    why: Text = Field("", max_length=10_000, description="The reason; stored in their histories")
    version: int | None = Field(None, ge=1, description="Only if the one that stays still has this version")


class MergeReply(StatusReply):
    """The status of the memory that stays, the ones merged into it, and how much it took over."""

    merged: list[str]
    citations_added: int = 0
    tags_added: int = 0


def merge(tenant: Tenant, request: MergeRequest) -> MergeReply:
    """Merge memories into one: it takes over their citations and tags; they are archived with a link to it."""
    if request.id in request.others:
        raise InvalidInput("a memory cannot be merged into itself", remedy="remove it from `others`")
    kept = load(tenant, Memory, request.id, version=request.version)
    others = [load(tenant, Memory, id) for id in dict.fromkeys(request.others)]
    if request.promote is not None:
        refuse_promotion(kept, request.promote)
    _refuse_loss(kept, others, request.promote or kept.status)
    own = citations_of(tenant, kept.id)
    fresh = _evidence(tenant, kept, own, others)
    tags = _tags(tenant, kept, others)
    refuse_more(Citation, len(own), len(fresh))
    refuse_more(Tag, len(tags_of(tenant, kept.id)), len(tags))
    steps: list[Step] = [Require(Memory, kept.id, {"version": kept.version})]
    if request.promote is not None:
        own = [looked_up(tenant, citation) for citation in own]
        steps += [Update(citation) for citation in own]
        steps += promotion_steps(tenant, kept, request.promote, request.why, [*own, *fresh])
    steps += [Insert(record) for record in (*fresh, *tags)]
    lent = _merged_evidence(tenant, kept, [*own, *fresh], fresh, tags)
    steps += [step for other in others for step in _giving_way(tenant, other, kept, request.why, lent)]
    steps += fallen_steps(tenant, others, "was archived")
    entry = logged(tenant, "update", "merge", kept, others=[other.id for other in others])
    try:
        commit(tenant, [*steps, entry])
    except RequirementFailed:
        raise VersionConflict(
            f"memory '{kept.id}' was changed by someone else", remedy="read it again and repeat the merge", id=kept.id
        ) from None
    return MergeReply(
        merged=[other.id for other in others], citations_added=len(fresh), tags_added=len(tags),
        **status_of(tenant, kept.id).model_dump(),
    )  # fmt: skip


def _refuse_loss(kept: Memory, others: Sequence[Memory], status: str) -> None:
    """A trusted memory can only be merged into a trusted one, and none into an archived one."""
    if kept.status == "archived":
        raise IllegalTransition(
            "that memory is archived",
            remedy="merge into one that is not archived, or demote it first",
            id=kept.id,
        )
    trusted = [other for other in others if other.status in TRUSTED]
    if trusted and status not in TRUSTED:
        raise IllegalTransition(
            f"memory '{trusted[0].id}' is {trusted[0].status} and cannot be merged into a {status}",
            remedy="merge the other way round, or give promote='verified'",
            id=trusted[0].id,
        )


def _evidence(tenant: Tenant, kept: Memory, own: Sequence[Citation], others: Sequence[Memory]) -> list[Citation]:
    """The citations that only the others have, each checked; those that do not hold are not copied."""
    known = {citation.cited().model_dump_json() for citation in own}
    found: dict[str, Citation] = {}
    for other in others:
        for citation in citations_of(tenant, other.id):
            cited = citation.cited()
            if (told := cited.model_dump_json()) not in known and told not in found:
                taken_over = made(Citation, tenant, **citation.model_dump(include=_TAKEN_OVER), memory_id=kept.id)
                found[told] = looked_up(tenant, taken_over)
    return [citation for citation in found.values() if citation.state != "broken"]


def _tags(tenant: Tenant, kept: Memory, others: Sequence[Memory]) -> list[Tag]:
    had = set(tags_of(tenant, kept.id))
    theirs = {tag for other in others for tag in tags_of(tenant, other.id)}
    return [made(Tag, tenant, memory_id=kept.id, tag=tag) for tag in sorted(theirs - had)]


class _MergedEvidence(NamedTuple):
    """What a memory has only from a merge: the ids of its citations by content, and its tags."""

    citations: Mapping[str, str]
    tags: frozenset[str]


def _merged_evidence(
    tenant: Tenant, kept: Memory, cited: Sequence[Citation], fresh: Iterable[Citation], tags: Iterable[Tag]
) -> _MergedEvidence:
    before = _links(tenant, equal("target_id", kept.id))
    came = {citation.id for citation in fresh}.union(*(link.metadata.get("citations", ()) for link in before))
    known = frozenset(tag.tag for tag in tags).union(*(link.metadata.get("tags", ()) for link in before))
    return _MergedEvidence({one.cited().model_dump_json(): one.id for one in cited if one.id in came}, known)


def _links(tenant: Tenant, *where: Filter) -> list[Relationship]:
    query = Query(Relationship, (*where, equal("type", MERGED_INTO)), (Order("id", descending=True),))
    return tenant.find(query).records


def _giving_way(tenant: Tenant, other: Memory, kept: Memory, why: str, lent: _MergedEvidence) -> Iterator[Step]:
    """Archive the other; the link records what it gave and what it was, enough to undo the merge."""
    cited = (citation.cited().model_dump_json() for citation in citations_of(tenant, other.id))
    given: dict[str, Any] = {
        "status": other.status,
        "citations": sorted({lent.citations[told] for told in cited if told in lent.citations}),
        "tags": sorted(lent.tags.intersection(tags_of(tenant, other.id))),
    }
    same = _links(tenant, equal("source_id", other.id), equal("target_id", kept.id))
    if not same:
        yield Insert(
            made(Relationship, tenant, source_id=other.id, target_id=kept.id, type=MERGED_INTO, metadata=given)
        )
    elif other.status != "archived":  # it was restored otherwise, and is merged again
        yield Update(revised(same[0], tenant.scope, metadata=same[0].metadata | given))
    if other.status != "archived":
        said = f"merged into {kept.id}" + (f": {why}" if why else "")
        yield from change_steps(tenant, other, "archived", said, because_of=kept.id, status="archived")


class UnmergeReply(StatusReply):
    """The status of the restored memory, and what was removed from the one that stayed."""

    into: str
    citations_removed: int = 0
    tags_removed: int = 0


def unmerge(tenant: Tenant, request: MoveRequest) -> UnmergeReply:
    """Undo a merge: the memory becomes a hypothesis again, and what the other had only from it is removed.

    What was trusted must be verified again, as must what is derived from it; a promotion of the other stays as long as
    its own evidence holds.
    """
    memory = load(tenant, Memory, request.id, version=request.version)
    links = _links(tenant, equal("source_id", memory.id))
    if not links:
        raise NotFound("that memory was not merged", remedy="look at its links for `merged_into`", id=memory.id)
    link, kept = links[0], load(tenant, Memory, links[0].target_id, deleted=True)
    rest = [one for one in _links(tenant, equal("target_id", kept.id)) if one.id != link.id]
    gone = {
        name: set(link.metadata.get(name, ())).difference(*(one.metadata.get(name, ()) for one in rest))
        for name in ("citations", "tags")
    }
    held = citations_of(tenant, kept.id)
    left = [citation for citation in held if citation.id not in gone["citations"]]
    tags = gone["tags"].intersection(tags_of(tenant, kept.id))
    steps: list[Step] = [Delete(Relationship, link.id)]
    steps += [] if kept.is_deleted else [Require(Memory, kept.id, {"version": kept.version})]
    steps += [Delete(Citation, citation.id) for citation in held if citation.id in gone["citations"]]
    steps += [DeleteWhere(Tag, (equal("memory_id", kept.id), OneOf("tag", tuple(sorted(tags)))))] if tags else []
    steps += unsupported_steps(tenant, kept, left)
    if memory.status == "archived" and link.metadata.get("status") != "archived":
        said = f"no longer merged into {kept.id}" + (f": {request.why}" if request.why else "")
        steps += change_steps(tenant, memory, "restored", said, status="hypothesis")
    commit(tenant, [*steps, logged(tenant, "update", "unmerge", memory, into=kept.id)])
    return UnmergeReply(
        into=kept.id, citations_removed=len(held) - len(left), tags_removed=len(tags),
        **status_of(tenant, memory.id).model_dump(),
    )  # fmt: skip
