"""Learning patterns from episodes: what worked several times in similar tasks becomes a pattern.

Learning reads the episodes that belong to no pattern yet. A success joins the pattern it resembles; enough successes
that resemble each other become a new one; a failure that resembles a pattern becomes its counter-example. All of this
is stored as links, so learning again without new episodes changes nothing. A trusted pattern keeps its text: episodes
that join it are counted (`supported_by`), but do not change it. Episodes of different users are not mixed unless the
request says so, since a pattern would show one user what another did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import BaseModel, Field

from recollect.domain.learning import posterior
from recollect.domain.memory import TRUSTED, Memory, Relationship, Tag
from recollect.domain.record import Id, JsonObject, Text, clipped, clipped_within, now
from recollect.domain.text.pattern_templates import generalized
from recollect.domain.text.similarity import Matrix, grouped, likeness
from recollect.errors import Conflict, EmbedderFailed
from recollect.ports.models import Prompt, Vectors
from recollect.ports.query import Compare, Filter, Linked, OneOf, Order, Query, equal
from recollect.ports.steps import Absent, Insert, Require, Step
from recollect.services.learning.generation import GeneratedText, generated
from recollect.services.learning.success_rates import (
    COUNTER,
    EVIDENCE,
    SUPPORTED,
    evidence_of,
    judged_steps,
    of_episodes,
    posteriors,
)
from recollect.services.memories.derived import GENERALIZED, tried
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.embeddings import whole_vectors
from recollect.services.memories.indexing import Progress
from recollect.services.memories.remember import fresh_steps
from recollect.services.memories.revise import change_steps, new_content
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, Tenant
from recollect.services.transaction import commit, logged, made

# Measured on 8 families of tasks. 200 tasks worded from templates come out as 8 pure patterns at 0.25 (hash embedder:
# up to 0.40); of 32 free paraphrases purity is 1.0 from 0.20 on (hash embedder: 0.30), and about 25 find their family.
ALIKE = 0.28
REPRESENTATIVES = 20  # episodes of a pattern that a new one is compared with
MOST_AT_ONCE = 1000
SHOWN_TO_THE_MODEL = 12
SHOWN_OF_A_TEXT = 2000
INSTRUCTIONS = """\
You are given several tasks of one sort that were done with success, each with the steps that were taken.
Write the know-how they share. problem_space: one sentence that says what sort of task this is. solution_template: the
steps that work, one per line, numbered. Put {slots_like_this} where the tasks differ, the same name in both texts.
Use only what the tasks say."""


MOST_OF_A_PROBLEM, MOST_OF_A_SOLUTION = 2_000, 10_000


class PatternWording(BaseModel):
    """The answer expected of a language model about a pattern."""

    problem_space: Text = Field(max_length=MOST_OF_A_PROBLEM)
    solution_template: Text = Field(max_length=MOST_OF_A_SOLUTION)


class LearnRequest(Request):
    """Which episodes to learn from, and how similar they must be."""

    user: Id | None = Field(None, description="Only from this user's episodes")
    agent: Id | None = Field(None, description="Only from this agent's episodes")
    project: Id | None = Field(None, description="Only from this project's episodes")
    across_users: bool = Field(False, description="Learn from the episodes of different users together")
    min_episodes: int = Field(3, ge=2, le=1000, description="How many similar successes make a pattern")
    alike: float = Field(ALIKE, ge=0, le=1, description="How similar tasks must be to belong together, 0 to 1")
    limit: int = Field(MOST_AT_ONCE, ge=1, le=MOST_AT_ONCE, description="How many new episodes to read, newest first")


class LearnReply(Reply):
    """What learning changed."""

    episodes: int = Field(0, description="How many episodes without a pattern were read")
    founded: list[str] = Field(default_factory=list, description="New patterns")
    grown: list[str] = Field(default_factory=list, description="Patterns that episodes joined")
    counter_examples: int = Field(0, description="Failures linked to a pattern")
    demoted: list[str] = Field(default_factory=list, description="Patterns that were demoted or archived")
    left: int = Field(0, description="How many episodes still belong to no pattern")
    notes: list[str] = Field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """An existing or new pattern: its rows in the similarity matrix, and the episodes that join it."""

    pattern: Memory | None
    rows: list[int]
    joined: list[Memory] = field(default_factory=list)
    failed: list[Memory] = field(default_factory=list)


def learn(tenant: Tenant, request: LearnRequest, progress: Progress = lambda done, of: None) -> LearnReply:
    """Generalise the episodes that belong to no pattern yet; each pattern is a transaction of its own."""
    report = LearnReply()
    episodes = _unassigned(tenant, request)
    report.episodes = len(episodes)
    by_owner: dict[str | None, list[Memory]] = {}
    for episode in episodes:
        by_owner.setdefault(None if request.across_users else episode.user_id, []).append(episode)
    work = [
        group
        for owner, theirs in sorted(by_owner.items(), key=lambda item: item[0] or "")
        for group in _groups(tenant, request, owner, theirs, report)
    ]
    for done, group in enumerate(work, 1):
        _settle(tenant, group, report)
        progress(done, len(work))
    report.left = len(_unassigned(tenant, request)) if episodes else 0
    return report


def _unassigned(tenant: Tenant, request: LearnRequest) -> list[Memory]:
    moment = now()
    where: list[Filter] = [
        equal("kind", "episode"),
        Compare("status", "!=", "archived"),
        Linked(Relationship, "target_id", (OneOf("type", EVIDENCE),), wanted=False),
    ]
    where += [equal(f"{name}_id", value) for name in ("user", "agent", "project") if (value := getattr(request, name))]
    query = Query(Memory, tuple(where), (Order("id", descending=True),), limit=request.limit)
    living = [one for one in tenant.find(query).records if not one.expires_at or one.expires_at > moment]
    return living[::-1]


def _groups(
    tenant: Tenant, request: LearnRequest, owner: str | None, episodes: list[Memory], report: LearnReply
) -> list[_Group]:
    """The patterns that episodes join, and the new ones, in a fixed order."""
    known, members = _known(tenant, request, owner)
    texts = [str(episode.content["task_description"]) for episode in [*episodes, *members]]
    alike = likeness(texts, _vectors(tenant, texts, report))
    groups = []
    for pattern, first, last in known:
        groups.append(_Group(pattern, list(range(len(episodes) + first, len(episodes) + last))))
    worked = [row for row, episode in enumerate(episodes) if episode.content.get("success")]
    loose = [row for row in worked if not _joined(alike, row, groups, request.alike, episodes)]
    for rows in grouped(alike[np.ix_(loose, loose)], request.alike) if loose else []:
        if len(rows) >= request.min_episodes:
            place = [loose[row] for row in rows]
            groups.append(_Group(None, place, [episodes[row] for row in place]))
    for row, episode in enumerate(episodes):
        if not episode.content.get("success"):
            nearest = _nearest(alike, row, groups, request.alike)
            if nearest is not None:
                nearest.failed.append(episode)
    return [group for group in groups if group.joined or group.failed]


def _known(
    tenant: Tenant, request: LearnRequest, owner: str | None
) -> tuple[list[tuple[Memory, int, int]], list[Memory]]:
    """The patterns that are not archived with the rows of their representative episodes, and those episodes."""
    theirs: tuple[Filter, ...] = () if request.across_users else (equal("user_id", owner),)
    living = (equal("kind", "pattern"), Compare("status", "!=", "archived"), *theirs)
    patterns = tenant.find(Query(Memory, living, (Order("id"),))).records
    evidence = evidence_of(tenant, [pattern.id for pattern in patterns])
    known: list[tuple[Memory, int, int]] = []
    members: list[Memory] = []
    for pattern in patterns:
        found = evidence[pattern.id]
        chosen = [*found[GENERALIZED], *found[SUPPORTED]][:REPRESENTATIVES]
        if chosen:
            known.append((pattern, len(members), len(members) + len(chosen)))
            members += chosen
    return known, members


def _vectors(core: Core, texts: Sequence[str], report: LearnReply) -> Vectors | None:
    if core.likeness_embedder is None or not texts:
        return None
    try:
        return whole_vectors(core.likeness_embedder, texts)
    except EmbedderFailed as failure:
        report.notes.append(f"compared by words only: {failure.message}")
        return None


def _joined(alike: Matrix, row: int, groups: list[_Group], threshold: float, episodes: list[Memory]) -> bool:
    nearest = _nearest(alike, row, groups, threshold)
    if nearest is None:
        return False
    nearest.joined.append(episodes[row])
    return True


def _nearest(alike: Matrix, row: int, groups: list[_Group], threshold: float) -> _Group | None:
    """The group whose members are on average most similar to this row, if they are similar enough."""
    scores = [float(alike[row, group.rows].mean()) for group in groups]
    best = int(np.argmax(scores)) if scores else -1
    return groups[best] if best >= 0 and scores[best] >= threshold else None


def _settle(tenant: Tenant, group: _Group, report: LearnReply) -> None:
    """Commit the changes of one pattern. One that was changed concurrently is left for the next run."""
    try:
        notes = _grow(tenant, group.pattern, group, report) if group.pattern else _found(tenant, group, report)
    except Conflict as conflict:
        report.notes.append(f"changed meanwhile, learn again: {conflict.message}")
        return
    report.counter_examples += len(group.failed)
    report.notes += [note for note in notes if note not in report.notes]


def _found(tenant: Tenant, group: _Group, report: LearnReply) -> tuple[str, ...]:
    wording = _worded(tenant, group.joined)
    ids = [episode.id for episode in group.joined]
    request = RememberRequest(
        content={**wording.value.model_dump(), GENERALIZED: ids},
        kind="pattern",
        metadata=wording.metadata,
        relates={episode.id: COUNTER for episode in group.failed},
        tags=_shared_tags(tenant, ids),
        scope="project" if _common(group.joined, "project_id") else "global",
        on_duplicate="keep",
        **{name: _common(group.joined, f"{name}_id") for name in ("user", "agent", "project")},
    )
    memory, steps = fresh_steps(tenant, request)
    # A concurrent learner may have used the same episodes.
    unclaimed = Absent(Relationship, (OneOf("target_id", tuple(ids)), OneOf("type", EVIDENCE)))
    found = posterior(of_episodes({GENERALIZED: group.joined, COUNTER: group.failed}), now())
    commit(tenant, [unclaimed, *_still(group), *steps, *judged_steps(tenant, memory, found)])
    report.founded.append(memory.id)
    return wording.notes


def _still(group: _Group) -> list[Step]:
    return [Require(Memory, one.id, {"content_hash": one.content_hash}) for one in (*group.joined, *group.failed)]


def _grow(tenant: Tenant, pattern: Memory, group: _Group, report: LearnReply) -> tuple[str, ...]:
    """Link the episodes that join a pattern; while its text is not verified, write it again."""
    keeps_wording = pattern.status in TRUSTED or not group.joined
    evidence = evidence_of(tenant, [pattern.id])[pattern.id]
    link = SUPPORTED if keeps_wording else GENERALIZED
    pairs = [(episode, link) for episode in group.joined] + [(episode, COUNTER) for episode in group.failed]
    steps: list[Step] = [
        Absent(Relationship, (OneOf("target_id", tuple(one.id for one, _ in pairs)), OneOf("type", EVIDENCE))),
        *_still(group),
        *(Insert(_link(tenant, pattern, episode, type)) for episode, type in pairs),
        logged(tenant, "update", "learn", pattern, joined=len(group.joined), failed=len(group.failed)),
    ]
    notes, after = tuple[str, ...](), pattern
    if not keeps_wording:
        wording = _worded(tenant, [*evidence[GENERALIZED], *group.joined])
        notes = wording.notes
        fields = _revised(pattern, wording, [*evidence[GENERALIZED], *group.joined])
        steps += change_steps(tenant, pattern, "revised", f"{len(group.joined)} episodes joined", **fields)
        after = pattern.changed(**fields, version=pattern.version + 1)
    joining = of_episodes({link: group.joined, COUNTER: group.failed})
    judged = judged_steps(tenant, after, posteriors(tenant, [pattern], joining)[pattern.id])
    commit(tenant, [*steps, *judged])
    if group.joined:
        report.grown.append(pattern.id)
    if len(judged) > 1:
        report.demoted.append(pattern.id)
    return notes


def _link(tenant: Tenant, pattern: Memory, episode: Memory, type: str) -> Relationship:
    link: Relationship = made(Relationship, tenant, source_id=pattern.id, target_id=episode.id, type=type)
    return link


def _revised(pattern: Memory, wording: GeneratedText[PatternWording], members: Sequence[Memory]) -> JsonObject:
    content = {**pattern.content, **wording.value.model_dump(), GENERALIZED: [one.id for one in members]}
    return {**new_content(pattern, content), "metadata": {**pattern.metadata, **wording.metadata}}


def _worded(core: Core, episodes: Sequence[Memory]) -> GeneratedText[PatternWording]:
    template = generalized([tried(episode) for episode in episodes])
    offline = PatternWording(
        problem_space=clipped(template.problem, MOST_OF_A_PROBLEM),
        solution_template=clipped(template.solution, MOST_OF_A_SOLUTION),
    )
    shown = episodes[:SHOWN_TO_THE_MODEL]
    material = "\n\n".join(_material(number, one.content) for number, one in enumerate(shown, 1))
    return generated(core, Prompt(INSTRUCTIONS, material), offline, _objection)


def _material(number: int, content: JsonObject) -> str:
    parts = {"Task": "task_description", "Steps": "action_plan", "Why it worked": "critique"}
    shown = {title: clipped_within(content.get(name, ""), SHOWN_OF_A_TEXT) for title, name in parts.items()}
    return f"{number}.\n" + "\n".join(f"{title}: {text}" for title, text in shown.items())


def _objection(wording: PatternWording) -> str | None:
    blank = not wording.problem_space.strip() or not wording.solution_template.strip()
    return "a text is empty" if blank else None


def _common(episodes: Sequence[Memory], field: str) -> str | None:
    """The owner that all of them share, if any."""
    owners = {getattr(episode, field) for episode in episodes}
    return owners.pop() if len(owners) == 1 else None


def _shared_tags(tenant: Tenant, ids: Sequence[str]) -> list[str]:
    """Tags that most of the episodes have."""
    rows = tenant.select(Query(Tag, (OneOf("memory_id", tuple(ids)),)), ("tag",))
    counts: dict[str, int] = {}
    for (tag,) in rows:
        counts[tag] = counts.get(tag, 0) + 1
    return sorted(tag for tag, count in counts.items() if 2 * count > len(ids))
