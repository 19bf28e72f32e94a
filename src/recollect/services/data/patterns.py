"""Query patterns: questions whose SQL somebody judged, each a memory that cites its run.

A verdict is a use of the pattern, one for each run, written in one transaction with the run: so a run counts once
whoever judges it how often, and another verdict replaces the first. The success rate is read off these uses, as that of
every pattern. A pattern is used while more verdicts speak for it than against it and the tables it reads are there with
the columns they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field as Having

from recollect.domain.learning import PatternUse, Posterior, TrialOutcome
from recollect.domain.memory import TRUSTED, Memory, Status
from recollect.domain.provenance import cite
from recollect.domain.record import Id, Json, JsonObject, QueryText, Text, derived_id, now
from recollect.domain.sources import QueryRun
from recollect.errors import DuplicateKey, InvalidInput, VersionConflict
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, Order, Query, equal
from recollect.ports.steps import Absent, Insert, Put, Require, Step, Touch, Update
from recollect.retry import retry
from recollect.services.data.queries import (
    LONGEST_SQL,
    DataRequest,
    QueryRequest,
    recorded_run,
    statement_over,
)
from recollect.services.data.tables import KnownTable, schema_fingerprint, sources_named, tables_of
from recollect.services.learning.success_rates import Rate, posteriors, rate_of
from recollect.services.memories.draft import RememberRequest, draft_of
from recollect.services.memories.remember import fresh_steps
from recollect.services.memories.revise import change_steps
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten

KIND = "query_pattern"
CONSIDERED = 2000
MOST_VERIFIED = 500
EVEN = 0.5  # the expected rate above which a pattern is used, and below which it is archived


class JudgeRequest(QueryRequest):
    """A verdict on what a query answered."""

    verdict: Literal["right", "wrong"] = Having(description="Whether the answer was right")
    sql: Text | None = Having(
        None, min_length=1, max_length=LONGEST_SQL, description="The right statement, if the answer was wrong"
    )
    question: QueryText = Having("", description="The question it answers, where the run has none")


class JudgeReply(Reply):
    """The query pattern that the verdict made or moved."""

    run: str
    verdict: str
    pattern: str
    status: str = Having(description="The status of the pattern; an archived one is not used")
    rate: Rate
    is_used: bool = Having(description="Whether questions like it are answered from this pattern")
    repeated: bool = Having(False, description="Whether it was judged so before: nothing changed")
    corrected: str | None = Having(None, description="The run of the right statement, which makes its own pattern")


def judge(tenant: Tenant, request: JudgeRequest) -> JudgeReply:
    """Say whether the answer of a run was right: questions like it are then answered from what was right."""
    run = load(tenant, QueryRun, request.run)
    _refuse_unfit(run, request)
    corrected = _corrected(tenant, run, request)
    # The same run, or another of the same question, may be judged at the same time.
    return retry(lambda: _judged(tenant, request, corrected), VersionConflict)


def _refuse_unfit(run: QueryRun, request: JudgeRequest) -> None:
    if request.sql is not None and request.verdict == "right":
        raise InvalidInput("a right answer needs no other statement", remedy="judge it as wrong, or leave out sql")
    if run.status != "done" or not run.metadata.get("tables"):
        raise InvalidInput("that run read no source", remedy="judge a query over your sources", id=run.id)
    if not (run.question.strip() or request.question.strip()):
        raise InvalidInput("that run has no question", remedy="give the question that it answers", id=run.id)


def _corrected(tenant: Tenant, run: QueryRun, request: JudgeRequest) -> str | None:
    """Run the right statement; the same correction of the same run is one run."""
    if request.sql is None:
        return None
    # Lists go by id: it sorts right after the run that it corrects.
    id = f"{run.id[:36]}.{derived_id('corrected', run.id, request.sql.strip())}"
    if tenant.get(QueryRun, id) is None:
        asked = DataRequest(project=run.project_id, user=run.user_id, agent=run.agent_id, session=run.session_id)
        known = tables_of(tenant, sources_named(tenant, (), run.project_id, run.user_id))
        with statement_over(tenant, request.sql, known, asked.limits()) as statement:
            result = statement.run(asked.limits())
        if not statement.read or result.sql.strip() == run.sql.strip():
            raise InvalidInput(
                "that is not another statement over your sources", remedy="give the SELECT that answers the question"
            )
        question = run.question.strip() or request.question
        right = recorded_run(tenant, asked, result, statement.read, question, id=id, previous_id=run.id)
        try:
            commit(tenant, [Insert(right), logged(tenant, "search", "query.judge", None, id=id)])
        except DuplicateKey:
            return id  # another process corrected it in the same way
    return id


def _judged(tenant: Tenant, request: JudgeRequest, corrected: str | None) -> JudgeReply:
    run = load(tenant, QueryRun, request.run)
    judged = _judgement(tenant, run, request.verdict, request.question)
    steps = judged.steps
    if corrected is not None:
        steps = [*steps, *_judgement(tenant, load(tenant, QueryRun, corrected), "right", "").steps]
    if steps:
        commit(tenant, [*steps, logged(tenant, "update", "query.judge", None, id=run.id, verdict=request.verdict)])
    return JudgeReply(
        run=run.id,
        verdict=request.verdict,
        pattern=judged.pattern,
        status=judged.status,
        rate=rate_of(judged.rate),
        is_used=judged.status != "archived" and _is_above_even(judged.rate),
        repeated=not judged.steps,
        corrected=corrected,
    )


@dataclass(frozen=True)
class _Judgement:
    """What a verdict does to the pattern of a run: none of it is written yet."""

    pattern: str
    status: Status
    rate: Posterior
    steps: list[Step]


def _judgement(tenant: Tenant, run: QueryRun, verdict: Literal["right", "wrong"], question: str) -> _Judgement:
    request = _pattern_request(run, question)
    identity = draft_of(tenant, request).memory.identity
    same = (equal("identity", identity), equal("kind", KIND))
    known = tenant.find(Query(Memory, same, (Order("id"),), limit=1)).records
    if known and run.verdict == verdict and run.pattern_id == known[0].id:
        return _Judgement(known[0].id, known[0].status, posteriors(tenant, known)[known[0].id], [])
    use_id = derived_id("verdict", run.id)
    outcome = TrialOutcome(verdict == "right", now())
    if known:
        pattern = known[0]
        rate = posteriors(tenant, known, [outcome], replaced=use_id)[pattern.id]
        steps, status = _moving_steps(tenant, pattern, rate)
    else:
        status = "hypothesis" if verdict == "right" else "archived"
        pattern, steps = fresh_steps(tenant, request, status)
        steps.insert(0, Absent(Memory, same))
        rate = posteriors(tenant, [pattern], [outcome])[pattern.id]
        steps.append(Touch(Memory, pattern.id, put={"score": round(rate.low, 4)}))
    use = _use(tenant, run, pattern, use_id, outcome)
    moved = rewritten(run, tenant, verdict=verdict, pattern_id=pattern.id, question=pattern.content["question"])
    return _Judgement(pattern.id, status, rate, [*steps, Put(use), Update(moved)])


def _pattern_request(run: QueryRun, question: str) -> RememberRequest:
    """The pattern of a run as a memory; the same question with the same statement on the same tables is one."""
    content = {
        "question": " ".join((run.question.strip() or question).split()),
        "sql": run.sql,
        "tables": sorted(run.metadata["tables"]),
        "schema_fingerprint": run.fingerprint,
    }
    return RememberRequest(
        content=content,
        kind=KIND,
        project=run.project_id,
        user=run.user_id,
        cites=[cite.query(run.id)] if run.result_hash is not None else [],
        metadata={"plan": run.plan} if run.plan is not None else {},
    )


def _use(tenant: Tenant, run: QueryRun, pattern: Memory, id: str, outcome: TrialOutcome) -> PatternUse:
    use: PatternUse = made(
        PatternUse,
        tenant,
        id=id,
        pattern_id=pattern.id,
        pattern_version=pattern.version,
        agent_id=run.agent_id,
        session_id=run.session_id,
        task=pattern.content["question"],
        outcome="success" if outcome.success else "failure",
        reported_at=outcome.at,
    )
    return use


def _moving_steps(tenant: Tenant, pattern: Memory, rate: Posterior) -> tuple[list[Step], Status]:
    """Archive a pattern that more verdicts speak against than for, and bring it back when that has changed.

    The score has to be what was read: of two verdicts at the same time, the second sees the first.
    """
    mean, score = round(rate.mean, 3), round(rate.low, 4)
    told = f"{rate.successes:g} of {rate.evidence:g} verdicts say that it is right"
    unchanged = Require(Memory, pattern.id, {"score": pattern.score})
    if mean < EVEN and pattern.status != "archived":
        steps = change_steps(tenant, pattern, "archived", told, status="archived", score=score)
        return [unchanged, *steps], "archived"
    if mean > EVEN and pattern.status == "archived":
        steps = change_steps(tenant, pattern, "restored", told, status="hypothesis", score=score)
        return [unchanged, *steps], "hypothesis"
    if mean <= EVEN and pattern.status in TRUSTED:
        steps = change_steps(tenant, pattern, "demoted", told, status="hypothesis", score=score)
        return [unchanged, *steps], "hypothesis"
    return [unchanged, Touch(Memory, pattern.id, put={"score": score})], pattern.status


def _is_above_even(rate: Posterior) -> bool:
    return round(rate.mean, 3) > EVEN


@dataclass(frozen=True)
class VerifiedQuery:
    """A question that was answered rightly, with its statement and how it was read."""

    pattern: str
    question: str
    sql: str
    plan: Json | None = None


def verified_for(
    tenant: Tenant, tables: Sequence[KnownTable], user: Id | None = None, project: Id | None = None
) -> list[VerifiedQuery]:
    """The verified questions that fit these tables, the best first, at most 500; one statement for each question."""
    where: list[Filter] = [equal("kind", KIND), Compare("status", "!=", "archived")]
    for field, owner in (("user_id", user), ("project_id", project)):
        if owner is not None:
            where.append(AnyOf((equal(field, owner), IsNull(field))))
    newest = Query(Memory, tuple(where), (Order("id", descending=True),), limit=CONSIDERED)
    by_name = {one.sql_name: one for one in tables}
    fitting = [one for one in tenant.find(newest).records if not _misfit(one.content, by_name)]
    rates = posteriors(tenant, fitting)
    used = [one for one in fitting if _is_above_even(rates[one.id])]
    used.sort(key=lambda one: rates[one.id].low, reverse=True)
    best: dict[str, VerifiedQuery] = {}
    for one in used:
        said = VerifiedQuery(one.id, one.content["question"], one.content["sql"], one.metadata.get("plan"))
        best.setdefault(said.question.casefold(), said)
    return list(best.values())[:MOST_VERIFIED]


def _misfit(content: JsonObject, tables: dict[str, KnownTable]) -> str:
    """Why a pattern does not fit the tables that are there; empty if it does."""
    names = content.get("tables", [])
    if not names:
        return "it does not say which tables it reads"
    gone = [name for name in names if name not in tables]
    if gone:
        return f"the table '{gone[0]}' is not there"
    if content.get("schema_fingerprint") != schema_fingerprint(tables[name].table for name in names):
        return f"the columns of {', '.join(names)} have changed since"
    return ""


class ListPatternsRequest(Request):
    """Which query patterns to list."""

    project: Id | None = Having(None, description="Only those of this project")
    user: Id | None = Having(None, description="Only those of this user")
    limit: int = Having(50, ge=1, le=200, description="How many at most")
    after: QueryText | None = Having(None, description="The `next` of the page before")


class QueryPatternView(Reply):
    """A question with its statement, and whether questions like it are answered from it."""

    id: str
    question: str
    sql: str
    tables: list[str]
    status: str
    rate: Rate
    is_used: bool
    reason: str = Having("", description="Why it is not used")


class QueryPatternPage(PageReply[QueryPatternView]):
    """Query patterns, the newest first."""

    patterns: list[QueryPatternView]


def list_patterns(tenant: Tenant, request: ListPatternsRequest) -> QueryPatternPage:
    """The questions that were judged, with their success rates; those that are not used say why."""
    given = {"kind": KIND, "project_id": request.project, "user_id": request.user}
    where = tuple(equal(name, value) for name, value in given.items() if value is not None)
    order = (Order("id", descending=True),)
    page = tenant.find(Query(Memory, where, order, limit=request.limit, after=request.after))
    known = tables_of(tenant, sources_named(tenant, (), request.project, request.user))
    by_name, rates = {one.sql_name: one for one in known}, posteriors(tenant, page.records)
    return QueryPatternPage(
        patterns=[_view(one, rates[one.id], _misfit(one.content, by_name)) for one in page.records], next=page.next
    )


def _view(pattern: Memory, rate: Posterior, misfit: str) -> QueryPatternView:
    reason = misfit
    if pattern.status == "archived":
        reason = "it is archived"
    elif not misfit and not rate.evidence:
        reason = "nobody has judged it yet"
    elif not misfit and not _is_above_even(rate):
        reason = "as many verdicts speak against it as for it"
    return QueryPatternView(
        id=pattern.id,
        question=pattern.content["question"],
        sql=pattern.content["sql"],
        tables=pattern.content.get("tables", []),
        status=pattern.status,
        rate=rate_of(rate),
        is_used=not reason,
        reason=reason,
    )
