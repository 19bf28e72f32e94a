"""Applying the rules: what is due is archived, forgotten, erased or moved, in batches that each commit with the log.

Each memory is dealt with by the one rule that counts for it; what is on legal hold stays. Memories in cold storage are
not out of reach: when a rule that forgets or erases is due for one, its session is restored, and moved again later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from pydantic import Field

from recollect.domain.cold import ColdArchive
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory
from recollect.domain.record import Id, clipped, now
from recollect.domain.retention import RetentionRule
from recollect.errors import Conflict, NotFound, Unavailable, VersionConflict
from recollect.ports.query import Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.steps import Require, Step
from recollect.retry import retry
from recollect.services.cold.archives import ColdRequest
from recollect.services.cold.restore_sessions import restore
from recollect.services.cold.store_sessions import idle_sessions, move
from recollect.services.erasure import finish
from recollect.services.legal_holds import ActiveHolds, active_holds, held_ids
from recollect.services.log_seals import seal_entries
from recollect.services.memories.lifecycle import erase_all, forget_all
from recollect.services.requests import Reply, Request
from recollect.services.retention.clock import doubt, trust
from recollect.services.retention.rules import Rule, RuleView, rule_view, rules_of
from recollect.services.tenant import GoOn, Tenant
from recollect.services.transaction import commit, logged
from recollect.services.trust.governance import moving_steps

BATCH = 100
EXAMPLES = 5
COLD_AT_ONCE = 20


class RuleOutcome(RuleView):
    """What a rule did or would do."""

    before: datetime = Field(description="What is older than this is due")
    due: int = Field(0, description="How many memories, or sessions, are due; held ones do not count")
    done: int = 0
    held: int = Field(0, description="How many more would be due, but are on legal hold")
    examples: list[str] = Field(default_factory=list, description="Some of them, with how they begin")


class RetentionReply(Reply):
    """What each rule did or would do."""

    rules: list[RuleOutcome]
    at: datetime = Field(description="The time that it was decided by")
    more: bool = Field(False, description="Whether there is more than was done in one call")
    notes: list[str] = Field(default_factory=list)


class PreviewRequest(Request):
    """Ask what the rules would do now."""

    rule: Id | None = Field(None, description="Only this rule")


def preview(tenant: Tenant, request: PreviewRequest) -> RetentionReply:
    """What each rule would do now: how many memories or sessions, which, and how many are held. Changes nothing."""
    moment, rules, holds = now(), rules_of(tenant), active_holds(tenant)
    outcomes = [_outcome(tenant, rule, rules, holds, moment) for rule in _asked(rules, request.rule)]
    return RetentionReply(rules=outcomes, at=moment)


def _asked(rules: Sequence[Rule], id: str | None) -> list[Rule]:
    found = [rule for rule in rules if id is None or rule.id == id]
    if id is not None and not found:
        raise NotFound(f"there is no rule '{id[:80]}'", remedy="see retention.list", id=id)
    return found


def _outcome(
    tenant: Tenant, rule: Rule, rules: Sequence[Rule], holds: ActiveHolds, moment: datetime
) -> RuleOutcome:  # fmt: skip
    told = {**rule_view(rule).model_dump(), "before": rule.cutoff(moment)}
    if rule.terms.then == "cold":
        sessions = list(_idle(tenant, rule, rules, moment))
        free = [one for one in sessions if holds.over(one) is None]
        examples = [f"{one.id} {clipped(one.title, 80)}".rstrip() for one in free[:EXAMPLES]]
        return RuleOutcome(**told, due=len(free), held=len(sessions) - len(free), examples=examples)
    query = _due(rule, rules, moment)
    held = sum(len(held_ids(tenant, holds, Memory, ids)) for ids in _pages(tenant, query)) if holds else 0
    some = tenant.select(replace(query, order=(Order("id"),), limit=EXAMPLES), ("id", "text"))
    examples = [f"{id} {clipped(text, 80)}" for id, text in some]
    return RuleOutcome(**told, due=tenant.count(query) - held, held=held, examples=examples)


def _due(rule: Rule, rules: Sequence[Rule], moment: datetime) -> Query[Memory]:
    where = rule.filters(rules, moment)
    if rule.terms.then == "archive":
        where = (*where, Compare("status", "!=", "archived"))
    return Query(Memory, where, deleted="yes" if rule.terms.then == "erase" else "no")


def _pages(tenant: Tenant, query: Query[Memory]) -> Iterator[list[str]]:
    """The ids, page by page; what goes meanwhile is not missed, since each page begins after the last id."""
    last = ""
    while True:
        after: tuple[Filter, ...] = (Compare("id", ">", last),) if last else ()
        page = replace(query, where=(*query.where, *after), order=(Order("id"),), limit=BATCH)
        ids = [id for (id,) in tenant.select(page, ("id",))]
        if not ids:
            return
        yield ids
        last = ids[-1]


def _idle(tenant: Tenant, rule: Rule, rules: Sequence[Rule], moment: datetime) -> Iterator[Session]:
    """The sessions that a rule moves to cold storage."""
    where: list[Filter] = [Compare("created_at", "<", rule.cutoff(moment)), IsNull("cold_at")]
    where += [equal(name, value) for name, value in rule.terms.conditions.items()]
    closer = [one.terms.project for one in rules if one.terms.then == "cold" and one.terms.project is not None]
    if rule.terms.project is None and closer:
        where.append(OneOf("project_id", tuple(sorted(closer)), wanted=False))
    yield from idle_sessions(tenant, tuple(where), rule.cutoff(moment))


class ApplyRequest(Request):
    """Apply the rules now."""

    rule: Id | None = Field(None, description="Only this rule")
    limit: int = Field(1000, ge=1, le=100_000, description="How many memories and sessions at most, for each rule")
    trust_clock: bool = Field(False, description="The clock is right, although it is far ahead of the last known time")


def apply(tenant: Tenant, request: ApplyRequest) -> RetentionReply:
    """Do what the rules say, as far as it is due: the background work does the same, an hour after a rule was stored.

    Every entry of the access log names the rule. Nothing is done if the clock is suddenly far ahead.
    """
    return apply_rules(tenant, request, lambda: None)


def apply_rules(
    tenant: Tenant, request: ApplyRequest, go_on: GoOn, *, grace: timedelta = timedelta()
) -> RetentionReply:
    """`grace` is how long a stored rule waits: whoever stored it by mistake can preview and remove it."""
    moment, rules = now(), rules_of(tenant)
    asked = [one for one in _asked(rules, request.rule) if one.stored_at is None or one.stored_at <= moment - grace]
    reply = RetentionReply(rules=[], at=moment)
    if request.trust_clock:
        trust(tenant)
    if asked and (why_not := doubt(tenant, moment)):
        reply.notes.append(why_not)
        return reply
    for rule in asked:
        outcome = RuleOutcome(**rule_view(rule).model_dump(), before=rule.cutoff(moment))
        reply.rules.append(outcome)
        if rule.terms.then == "cold":
            _move_sessions(tenant, rule, rules, outcome, reply, request.limit, go_on)
        else:
            reply.notes += _restore_due(tenant, rule, rules, moment)
            _settle_memories(tenant, rule, rules, outcome, reply, request.limit, go_on)
        outcome.due = outcome.done
    if any(one.done for one in reply.rules):
        finish(tenant)
    return reply


def _settle_memories(
    tenant: Tenant, rule: Rule, rules: Sequence[Rule], outcome: RuleOutcome, reply: RetentionReply, most: int,
    go_on: GoOn,
) -> None:  # fmt: skip
    for page in _pages(tenant, _due(rule, rules, reply.at)):
        go_on()
        held = held_ids(tenant, active_holds(tenant), Memory, page)
        free = [id for id in page if id not in held]
        outcome.held += len(held)
        if outcome.done + len(free) > most:
            reply.more = True
            free = free[: most - outcome.done]
        retry(partial(_settle, tenant, rule, free), VersionConflict)
        outcome.done += len(free)
        outcome.examples += free[: EXAMPLES - len(outcome.examples)]
        if reply.more:
            return


def _settle(tenant: Tenant, rule: Rule, ids: Sequence[str]) -> None:
    """Archive, forget or erase these in one transaction, with an entry for each that names the rule."""
    if not ids:
        return
    why = f"retention rule {rule.id}" + (f": {rule.terms.reason}" if rule.terms.reason else "")
    entries: list[Step] = [
        logged(tenant, "delete", "retention.apply", None, id=id, rule=rule.id, then=rule.terms.then) for id in ids
    ]
    guard = _still_there(tenant, rule)
    if rule.terms.then == "erase":
        erase_all(tenant, ids, *guard, *entries)
    elif rule.terms.then == "forget":
        forget_all(tenant, ids, why, "was forgotten by a retention rule", *guard, *entries)
    else:
        memories = tenant.find(Query(Memory, (OneOf("id", tuple(ids)),))).records
        steps = [
            step
            for memory in memories
            if memory.status != "archived"
            for step in moving_steps(tenant, memory, "archived", "archived", why, "was archived")
        ]
        commit(tenant, [*steps, *guard, *entries])


def _still_there(tenant: Tenant, rule: Rule) -> list[Step]:
    """A stored rule that was changed or removed meanwhile does nothing more."""
    if rule.origin != "stored":
        return []
    return [Require(RetentionRule, rule.id, {"keep_days": rule.terms.keep_days, "then": rule.terms.then})]


def _move_sessions(
    tenant: Tenant, rule: Rule, rules: Sequence[Rule], outcome: RuleOutcome, reply: RetentionReply, most: int,
    go_on: GoOn,
) -> None:  # fmt: skip
    seal_entries(tenant)
    for session in _idle(tenant, rule, rules, reply.at):
        go_on()
        if outcome.done == most:
            reply.more = True
            return
        moved = move(tenant, session, tenant.cold_places.default, rule=rule.id)
        if moved.stays_because.startswith("it is on legal hold"):
            outcome.held += 1
        elif not moved.stays_because:
            outcome.done += 1
            outcome.examples += [session.id] if len(outcome.examples) < EXAMPLES else []


def _restore_due(tenant: Tenant, rule: Rule, rules: Sequence[Rule], moment: datetime) -> list[str]:
    """Bring sessions back from cold storage that have memories this rule forgets or erases."""
    if rule.terms.then == "archive":
        return []
    old = Compare("first_at", "<", rule.cutoff(moment))
    stored = Query(ColdArchive, (equal("status", "stored"), IsNull("session_id", wanted=False), old))
    due = [one for one in tenant.find(stored).records if _is_due(one, rule, rules, moment)]
    notes: list[str] = []
    for archive in due[:COLD_AT_ONCE]:
        try:
            restore(tenant, ColdRequest(id=archive.id))
        except (Conflict, NotFound, Unavailable) as error:
            notes.append(f"session {archive.id} in cold storage could not be looked at: {error.message}")
    return notes


def _is_due(archive: ColdArchive, rule: Rule, rules: Sequence[Rule], moment: datetime) -> bool:
    for kind, level, project, is_forgotten, oldest in archive.memory_groups:
        fields = {"kind": kind, "level": level, "project_id": project}
        wanted = rule.terms.then == "erase" or not is_forgotten
        if wanted and datetime.fromisoformat(oldest) < rule.cutoff(moment) and rule.counts_for(fields, rules):
            return True
    return False
