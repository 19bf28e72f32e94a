"""What was made from memories keeps to them: in trust, and when they go.

A pattern or summary is never trusted further than what it was made from. A summary lives only while all that it covers
is there: when one of those is forgotten or erased, it and all summaries above it are deleted, and rolling up makes
them again from what is left. A pattern is worded anew without an erased episode, its former wordings go too; so
erasing leaves no word behind. Links are what is followed: `summarizes` and `generalized_from` among memories, log
citations for messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.domain.conversations import Message
from recollect.domain.memory import EXTRACTED, TRUSTED, Memory, Relationship, Revision
from recollect.domain.provenance import Citation, cite
from recollect.domain.text.pattern_templates import TaskExample, generalized
from recollect.errors import IllegalTransition
from recollect.ports.query import Compare, Linked, OneOf, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Absent, Delete, DeleteWhere, Require, Step, Update
from recollect.services.memories.embeddings import reindex_steps
from recollect.services.memories.revise import MADE_FROM_OTHERS, dependants, new_content
from recollect.services.tenant import Tenant
from recollect.services.transaction import logged

GENERALIZED, SUMMARIZES = "generalized_from", "summarizes"


def made_from(tenant: Tenant, id: str) -> list[Memory]:
    """The memories that a pattern or summary was made from, in the order of their ids."""
    links = Query(Relationship, (equal("source_id", id), OneOf("type", (GENERALIZED, SUMMARIZES))))
    ids = tuple(target for (target,) in tenant.select(links, ("target_id",)))
    return tenant.find(Query(Memory, (OneOf("id", ids),))).records if ids else []


def supported_steps(tenant: Tenant, memory: Memory) -> list[Step]:
    """Promoting what was made from others needs those to be trusted, now and when it is committed."""
    origins = made_from(tenant, memory.id) if memory.kind in MADE_FROM_OTHERS else []
    doubtful = [origin for origin in origins if origin.status not in TRUSTED]
    if doubtful:
        raise IllegalTransition(
            f"{len(doubtful)} of the {len(origins)} memories it was made from are not verified",
            remedy=f"promote them first, such as {doubtful[0].id}",
            id=memory.id,
        )
    return [Require(Memory, origin.id, {"status": origin.status}) for origin in origins]


def forgetting_steps(tenant: Tenant, ids: Sequence[str], messages: Sequence[str] = ()) -> list[Step]:
    """Delete every summary, on every level, that repeats what is forgotten or erased.

    Stands before what is deleted, whose links go with it: one that was made since we looked fails the transaction.
    """
    steps: list[Step] = []
    over: set[str] = set()
    if messages:
        sources = OneOf("source", tuple(cite.log(message).source() for message in messages))
        cited = {id for (id,) in tenant.select(Query(Citation, (sources,)), ("memory_id",))}
        over |= {*cited, *dependants(tenant, sorted(cited))} if cited else set()
        steps.append(Absent(Citation, (sources, OneOf("memory_id", tuple(sorted(cited)), wanted=False))))
    if ids:
        over |= set(dependants(tenant, ids))
    if ids or over:
        steps.append(_no_other_from((*ids, *sorted(over)), (*ids, *sorted(over)), SUMMARIZES))
    if not over:
        return steps
    found = Query(Memory, (OneOf("id", tuple(sorted(over))), equal("kind", "summary")), deleted="yes")
    summaries = sorted(id for (id,) in tenant.select(found, ("id",)))
    return [*steps, *(Delete(Memory, summary) for summary in summaries if summary not in ids)]


def _no_other_from(origins: tuple[str, ...], known: tuple[str, ...], link: str) -> Step:
    """Nothing but what is known was made from these."""
    others = OneOf("source_id", known, wanted=False)
    return Absent(Relationship, (OneOf("target_id", origins), equal("type", link), others))


def erasing_steps(tenant: Tenant, ids: Sequence[str], messages: Sequence[str] = ()) -> list[Step]:
    """Delete what repeats what is erased: summaries whole, patterns as far as they are worded after it, and what was
    extracted from messages and nobody has confirmed.
    """
    extracted = _extracted_from(tenant, messages) if messages else []
    return [
        *forgetting_steps(tenant, ids, messages),
        *(Delete(Memory, id) for id in extracted if id not in ids),
        *_reworded_steps(tenant, ids),
    ]


def _extracted_from(tenant: Tenant, messages: Sequence[str]) -> list[str]:
    """The hypotheses that were extracted from these messages and cite none that is left."""
    sources = OneOf("source", tuple(cite.log(message).source() for message in messages))
    unconfirmed = (equal("status", "hypothesis"), Compare("metadata", "=", True, key=EXTRACTED))
    found = Query(Memory, (*unconfirmed, Linked(Citation, "memory_id", (sources,))), deleted="yes")
    ids = tuple(id for (id,) in tenant.select(found, ("id",)))
    if not ids:
        return []
    others = tenant.select(Query(Citation, (OneOf("memory_id", ids),)), ("memory_id", "source"))
    named = {source.removeprefix("log:") for _, source in others} - set(messages)
    left = {id for (id,) in tenant.select(Query(Message, (OneOf("id", tuple(sorted(named))),)), ("id",))}
    resting = {memory for memory, source in others if source.removeprefix("log:") in left}
    return sorted(set(ids) - resting)


def _reworded_steps(tenant: Tenant, gone: Sequence[str]) -> list[Step]:
    if not gone:
        return []
    links = Query(Relationship, (OneOf("target_id", tuple(gone)), equal("type", GENERALIZED)))
    ids = {id for (id,) in tenant.select(links, ("source_id",))} - set(gone)
    found = tenant.find(Query(Memory, (OneOf("id", tuple(sorted(ids))),), deleted="yes")) if ids else None
    reworded = [
        step
        for pattern in (found.records if found else [])
        if pattern.kind == "pattern"
        for step in _without(tenant, pattern, set(gone))
    ]
    return [_no_other_from(tuple(gone), (*gone, *sorted(ids)), GENERALIZED), *reworded]


def _without(tenant: Tenant, pattern: Memory, gone: set[str]) -> list[Step]:
    """A pattern as its other episodes word it, its history dropped; without any, the pattern goes as well."""
    left = [episode for episode in made_from(tenant, pattern.id) if episode.id not in gone]
    if not left:
        return [Delete(Memory, pattern.id), logged(tenant, "delete", "erase", None, id=pattern.id)]
    template = generalized([tried(episode) for episode in left])
    wording = {"problem_space": template.problem, "solution_template": template.solution, "text": ""}
    content = {**pattern.content, **wording, GENERALIZED: [episode.id for episode in left]}
    metadata = {**{name: value for name, value in pattern.metadata.items() if name != "usage"}, "made_by": "extract"}
    after = revised(pattern, tenant.scope, **new_content(pattern, content), metadata=metadata)
    return [
        Update(after),
        DeleteWhere(Revision, (equal("memory_id", pattern.id),)),
        *reindex_steps(tenant, pattern, after),
        logged(tenant, "update", "reword", pattern),
    ]


def tried(episode: Memory) -> TaskExample:
    return TaskExample(str(episode.content.get("task_description", "")), str(episode.content.get("action_plan", "")))
