"""Using patterns: suggested for a task, applied with its details filled in, and rated by the outcome.

An application is a record of its own, reported once; the success rate is computed from all of them, so concurrent
reports cannot overwrite each other. Query patterns work the same way: their template is the query, and one whose tables
have changed since (another fingerprint) is neither suggested nor applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.learning import LEAST_EVIDENCE, PatternUse, UseOutcome
from recollect.domain.memory import TRUSTED, Memory
from recollect.domain.record import Id, QueryText, Text, now
from recollect.domain.text.pattern_templates import filled, read_slots, slots_of
from recollect.errors import Conflict, DuplicateKey, InvalidInput, VersionConflict
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Insert, Require, Update
from recollect.retry import retry
from recollect.services.learning.success_rates import (
    COUNTER,
    PATTERNS,
    SUPPORTED,
    Rate,
    evidence_of,
    judged_steps,
    posteriors,
    rate_of,
    reported,
)
from recollect.services.memories.derived import GENERALIZED
from recollect.services.recall.recall import RecallRequest, find, note_search
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

CONSIDERED = 50
SHOWN_USES = 20


class SuggestRequest(Request):
    """A task, and which patterns to consider."""

    task: QueryText = Field(min_length=1, description="The task, or the question to answer")
    kind: Literal["pattern", "query_pattern"] = Field("pattern", description="Patterns of tasks, or of queries")
    user: Id | None = Field(None, description="Only this user's patterns")
    agent: Id | None = Field(None, description="Only this agent's patterns")
    project: Id | None = Field(None, description="Only this project's patterns")
    purpose: Literal["think", "act"] = Field("think", description="`act` returns only verified and published patterns")
    schema_fingerprint: QueryText | None = Field(
        None, description="The fingerprint of the tables now; query patterns made for another are left out"
    )
    min_evidence: int = Field(LEAST_EVIDENCE, ge=0, description="Only patterns that were tried at least this often")
    min_match: float = Field(
        0.2, ge=0, le=1, description="Only patterns that match the task at least this well, 0 to 1"
    )
    limit: int = Field(5, ge=1, le=CONSIDERED, description="How many at most")


class Suggestion(Reply):
    """A pattern that may help. `score` is `match` times the lower end of its success interval."""

    id: str
    score: float
    match: float
    rate: Rate
    status: str
    problem: str
    template: str
    reasons: list[str]


class SuggestReply(Reply):
    """The best first. `notes` say what was left out and why."""

    suggestions: list[Suggestion] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def __len__(self) -> int:
        return len(self.suggestions)

    def __getitem__(self, index: int) -> Suggestion:
        return self.suggestions[index]


def suggest(tenant: Tenant, request: SuggestRequest) -> SuggestReply:
    """Patterns for a task, ranked by how well they match it and how reliably they work."""
    owners = {name: value for name in ("user", "agent", "project") if (value := getattr(request, name))}
    asked = RecallRequest(
        query=request.task,
        kinds=[request.kind],
        purpose=request.purpose,
        limit=CONSIDERED,
        min_match=request.min_match,
        **owners,
    )
    found = find(tenant, asked)
    match = {hit.id: hit.match for hit in found.hits}
    patterns = tenant.find(Query(Memory, (OneOf("id", tuple(match)),))).records if match else []
    fitting = [one for one in patterns if _has_fingerprint(one, request.schema_fingerprint)]
    standing = posteriors(tenant, fitting)
    proven = [one for one in fitting if standing[one.id].evidence >= request.min_evidence]
    offered = [_suggestion(one, match[one.id], rate_of(standing[one.id])) for one in proven]
    best = sorted(offered, key=lambda one: (-one.score, one.id))[: request.limit]
    notes = list(found.notes)
    if len(fitting) < len(patterns):
        notes.append(f"{len(patterns) - len(fitting)} left out: made for tables that have changed since")
    if len(proven) < len(fitting):
        notes.append(f"{len(fitting) - len(proven)} left out: tried fewer than {request.min_evidence} times")
    note_search(tenant, asked, [one.id for one in best], "suggest")
    return SuggestReply(suggestions=best, notes=notes)


def _has_fingerprint(pattern: Memory, wanted: str | None) -> bool:
    made_for = pattern.content.get("schema_fingerprint", "")
    return pattern.kind != "query_pattern" or wanted is None or not made_for or made_for == wanted


def _suggestion(pattern: Memory, match: float, rate: Rate) -> Suggestion:
    problem, template = _texts(pattern)
    reasons = [f"fits the task to {match:.0%}", f"works in {rate}"]
    reasons.append("its text is verified" if pattern.status in TRUSTED else "a hypothesis: not verified yet")
    return Suggestion(
        id=pattern.id, score=round(match * rate.low, 4), match=match, rate=rate, status=pattern.status,
        problem=problem, template=template, reasons=reasons,
    )  # fmt: skip


def _texts(pattern: Memory) -> tuple[str, str]:
    content = pattern.content
    if pattern.kind == "query_pattern":
        return str(content["question"]), str(content["sql"])
    return str(content["problem_space"]), str(content["solution_template"])


def _pattern(tenant: Tenant, id: str) -> Memory:
    memory = load(tenant, Memory, id)
    if memory.kind not in PATTERNS:
        raise InvalidInput(f"that memory is a {memory.kind}, not a pattern", remedy="see pattern.suggest", id=id)
    return memory


class ApplyRequest(Request):
    """A pattern to apply, and the task to apply it to."""

    id: Id = Field(description="The pattern")
    task: QueryText = Field("", description="The task; if it is worded like the pattern's problem, it fills the slots")
    values: dict[str, str] = Field(default_factory=dict, description="Values of slots, by name")
    agent: Id | None = Field(None, description="The agent that applies it")
    session: Id | None = Field(None, description="The session it is applied in")
    schema_fingerprint: QueryText | None = Field(
        None, description="The fingerprint of the tables now, for a query pattern"
    )
    idempotency_key: Id | None = Field(None, description="The same key again returns the first application")


class ApplyReply(Reply):
    """The pattern with the details of the task filled in. Report its outcome with the id in `application`."""

    application: str
    pattern: str
    text: str
    missing: list[str] = Field(description="Slots without a value; they stay in the text as they are")
    rate: Rate


def apply(tenant: Tenant, request: ApplyRequest) -> ApplyReply:
    """Record the application of a pattern, and return it filled in."""
    pattern = _pattern(tenant, request.id)
    if pattern.status == "archived":
        raise Conflict("that pattern is archived", remedy="see its history, or use another", id=pattern.id)
    if not _has_fingerprint(pattern, request.schema_fingerprint):
        raise Conflict(
            "the tables have changed since that query was learned", remedy="write a new query", id=pattern.id
        )
    problem, template = _texts(pattern)
    values = {**read_slots(problem, request.task), **request.values}
    use: PatternUse = made(
        PatternUse, tenant, pattern_id=pattern.id, pattern_version=pattern.version, agent_id=request.agent,
        session_id=request.session, task=request.task, values=values, idempotency_key=request.idempotency_key,
    )  # fmt: skip
    still = Require(Memory, pattern.id, {"status": pattern.status})
    try:
        commit(tenant, [still, Insert(use), logged(tenant, "update", "apply", pattern, application=use.id)])
    except DuplicateKey:
        use = _first_use(tenant, request, pattern)
        values = dict(use.values)
    text = filled(template, values)
    rate = rate_of(posteriors(tenant, [pattern])[pattern.id])
    missing = [slot for slot in slots_of(template) if slot not in values]
    return ApplyReply(application=use.id, pattern=pattern.id, text=text, missing=missing, rate=rate)


def _first_use(tenant: Tenant, request: ApplyRequest, pattern: Memory) -> PatternUse:
    same = Query(PatternUse, (equal("idempotency_key", request.idempotency_key),))
    first = tenant.find(same).records
    if not first or first[0].pattern_id != pattern.id or first[0].task != request.task:
        raise Conflict("that idempotency key was used for another application", remedy="use a new key")
    return first[0]


class ReportRequest(Request):
    """The outcome of an application."""

    application: Id = Field(description="The id of the application, from `apply`")
    success: bool = Field(description="Whether it worked")
    note: Text = Field("", max_length=10_000, description="Why it worked or did not")


class ReportReply(Reply):
    """The pattern after the report. `repeated`: it was reported before, and nothing changed."""

    application: str
    pattern: str
    rate: Rate
    status: str
    repeated: bool = False
    consequence: str = Field("", description="How the report changed the status of the pattern, if it did")


def report(tenant: Tenant, request: ReportRequest) -> ReportReply:
    """Report once whether an application worked; a pattern that keeps failing is demoted, then archived."""
    # The same may just have been reported, or the pattern changed.
    return retry(lambda: _report(tenant, request), VersionConflict)


def _report(tenant: Tenant, request: ReportRequest) -> ReportReply:
    use = load(tenant, PatternUse, request.application)
    pattern = load(tenant, Memory, use.pattern_id, deleted=True)
    outcome: UseOutcome = "success" if request.success else "failure"
    if use.outcome is not None:
        return _repeated(tenant, use, pattern, outcome)
    done = revised(use, tenant.scope, outcome=outcome, reported_at=now(), note=request.note)
    after = posteriors(tenant, [pattern], [reported(done)])[pattern.id]
    consequences = judged_steps(tenant, pattern, after) if not pattern.is_deleted else []
    entry = logged(tenant, "update", "report", pattern, application=use.id, outcome=outcome)
    commit(tenant, [Update(done), entry, *consequences])
    now_it_is = load(tenant, Memory, pattern.id, deleted=True).status
    fell = f"it is now {now_it_is}" if now_it_is != pattern.status else ""
    return ReportReply(application=use.id, pattern=pattern.id, rate=rate_of(after), status=now_it_is, consequence=fell)


def _repeated(tenant: Tenant, use: PatternUse, pattern: Memory, outcome: str) -> ReportReply:
    if use.outcome != outcome:
        raise Conflict(
            f"that application was already reported as a {use.outcome}",
            remedy="apply the pattern again to report another outcome",
            id=use.id,
        )
    rate = rate_of(posteriors(tenant, [pattern])[pattern.id])
    return ReportReply(application=use.id, pattern=pattern.id, rate=rate, status=pattern.status, repeated=True)


class ShowPatternRequest(Request):
    """Which pattern to show."""

    id: Id = Field(description="The pattern")


class EpisodeLine(Reply):
    id: str
    task: str
    success: bool
    status: str
    at: datetime


class UseLine(Reply):
    application: str
    task: str
    outcome: str | None
    at: datetime
    note: str = ""


class PatternView(Reply):
    """A pattern with all its evidence."""

    id: str
    problem: str
    template: str
    slots: list[str]
    status: str
    version: int
    rate: Rate
    offered: bool = Field(description="Whether it was tried often enough to be suggested, and is not archived")
    usage_count: int = Field(description="How often it was applied")
    episodes: list[EpisodeLine]
    counter_examples: list[EpisodeLine]
    applications: list[UseLine] = Field(description="The latest first")
    made_by: str = ""


def show_pattern(tenant: Tenant, request: ShowPatternRequest) -> PatternView:
    """One pattern: its success rate, what it was learned from, its applications and counter-examples."""
    pattern = _pattern(tenant, request.id)
    tenant.journal.note(
        tenant.scope, "read", "show pattern", [pattern.id], session=pattern.session_id, agent=pattern.agent_id
    )
    problem, template = _texts(pattern)
    found = posteriors(tenant, [pattern])[pattern.id]
    evidence = evidence_of(tenant, [pattern.id])[pattern.id]
    uses = Query(PatternUse, (equal("pattern_id", pattern.id),), (Order("id", descending=True),), limit=SHOWN_USES)
    return PatternView(
        id=pattern.id,
        problem=problem,
        template=template,
        slots=slots_of(template),
        status=pattern.status,
        version=pattern.version,
        rate=rate_of(found),
        offered=pattern.status != "archived" and found.evidence >= LEAST_EVIDENCE,
        usage_count=tenant.count(Query(PatternUse, (equal("pattern_id", pattern.id),))),
        episodes=_lines([*evidence[GENERALIZED], *evidence[SUPPORTED]]),
        counter_examples=_lines(evidence[COUNTER]),
        applications=[
            UseLine(
                application=use.id,
                task=use.task,
                outcome=use.outcome,
                at=use.reported_at or use.created_at,
                note=use.note,
            )
            for use in tenant.find(uses).records
        ],
        made_by=str(pattern.metadata.get("made_by", "")),
    )


def _lines(episodes: Sequence[Memory]) -> list[EpisodeLine]:
    return [
        EpisodeLine(
            id=one.id,
            task=str(one.content.get("task_description", one.text)),
            success=bool(one.content.get("success")),
            status=one.status,
            at=one.occurred_at,
        )
        for one in episodes
    ]
