"""The rules of an organization: those of the settings and those that are stored, and which of them counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field, ValidationError

from recollect.domain.kinds import describe
from recollect.domain.record import Id, Name, Text
from recollect.domain.retention import LONGEST_KEEP_DAYS, RetentionAction, RetentionRule, RetentionTerms
from recollect.domain.tenancy import Project
from recollect.errors import InvalidInput, NotFound
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, Insert, Update
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

MOST_RULES = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and where it is from: `settings` or `stored`."""

    terms: RetentionTerms
    origin: str
    stored_at: datetime | None = None

    @property
    def id(self) -> str:
        return self.terms.id

    def cutoff(self, moment: datetime) -> datetime:
        return moment - timedelta(days=self.terms.keep_days)

    def filters(self, rules: Sequence[Rule], moment: datetime) -> tuple[Filter, ...]:
        """What memories must pass for this rule to be the one that counts, and to be due.

        A memory with an expiry of its own is left to it: a rule neither shortens nor lengthens it.
        """
        where: list[Filter] = [equal(name, value) for name, value in self.terms.conditions.items()]
        for other in rules:
            if other is not self and self._yields_to(other):
                where.append(AnyOf(tuple(Compare(name, "!=", one) for name, one in other.terms.conditions.items())))
        return (*where, Compare("created_at", "<", self.cutoff(moment)), IsNull("expires_at"))

    def _yields_to(self, other: Rule) -> bool:
        return (other.terms.then == "cold") == (self.terms.then == "cold") and other.terms.counts_before(self.terms)

    def counts_for(self, fields: dict[str, object], rules: Sequence[Rule]) -> bool:
        """The same for one memory, by the fields that rules ask for; whatever its age."""
        if not _applies(self, fields):
            return False
        return not any(_applies(one, fields) and self._yields_to(one) for one in rules if one is not self)


def _applies(rule: Rule, fields: dict[str, object]) -> bool:
    return all(fields.get(name) == value for name, value in rule.terms.conditions.items())


def rules_of(tenant: Tenant) -> list[Rule]:
    """All rules, those that move sessions last: before, others take what they find in cold storage out of it.

    Of two about the same the one that keeps longer counts, and of equals the stored one.
    """
    stored = tenant.find(Query(RetentionRule, limit=MOST_RULES)).records
    found: dict[str, Rule] = {}
    given = [Rule(one, "settings") for one in tenant.retention]
    for rule in (*given, *(Rule(one.terms, "stored", one.updated_at) for one in stored)):
        known = found.get(rule.id)
        if known is None or rule.terms.keep_days >= known.terms.keep_days:
            found[rule.id] = rule
    return sorted(found.values(), key=lambda rule: rule.terms.then == "cold")


class RuleView(Reply):
    """A rule."""

    id: str
    kind: str | None = None
    project: str | None = None
    level: str | None = None
    keep_days: float
    then: str
    reason: str = ""
    origin: str = Field(description="settings, or stored with `retention.set`")


def rule_view(rule: Rule) -> RuleView:
    return RuleView(id=rule.id, **rule.terms.model_dump(), origin=rule.origin)


class SetRuleRequest(Request):
    """What to keep, for how long, and what happens then."""

    kind: Name | None = Field(None, description="Only memories of this kind")
    project: Id | None = Field(None, description="Only memories, or sessions, of this project")
    level: Name | None = Field(None, description="Only memories of this level, such as item or session")
    keep_days: float = Field(gt=0, le=LONGEST_KEEP_DAYS, description="For how many days they are kept")
    then: RetentionAction = Field(
        description="What happens then: archive, forget (can be restored), erase (for good) or cold (whole sessions)"
    )
    reason: Text = Field("", max_length=2000, description="Why, for those who read the log")


def set_rule(tenant: Tenant, request: SetRuleRequest) -> RuleView:
    """Store a rule; it replaces the one about the same kind, project and level. See `retention.preview`."""
    try:
        terms = RetentionTerms.model_validate(request.model_dump())
    except ValidationError as error:
        raise InvalidInput(f"retention.set: {describe(error)}") from None
    if request.project is not None:
        load(tenant, Project, request.project)
    fields = {**terms.model_dump(exclude={"project"}), "project_id": terms.project}
    known = tenant.get(RetentionRule, terms.id)
    if known is None and tenant.count(Query(RetentionRule)) >= MOST_RULES:
        raise InvalidInput(f"there are {MOST_RULES} rules already", remedy="remove some first")
    step = Update(revised(known, tenant.scope, **fields)) if known else Insert(
        made(RetentionRule, tenant, id=terms.id, **fields)
    )  # fmt: skip
    entry = logged(tenant, "update", "retention.set", None, id=terms.id, keep_days=terms.keep_days, then=terms.then)
    commit(tenant, [step, entry])
    return rule_view(Rule(terms, "stored"))


class RuleList(PageReply[RuleView]):
    """The rules, the most specific first."""

    rules: list[RuleView]


class ListRulesRequest(Request):
    """List the rules."""


def list_rules(tenant: Tenant, request: ListRulesRequest) -> RuleList:
    """All rules, of the settings and stored, the most specific first."""
    ordered = sorted(rules_of(tenant), key=lambda rule: (-len(rule.terms.conditions), rule.terms.keep_days, rule.id))
    return RuleList(rules=[rule_view(rule) for rule in ordered])


class RuleRequest(Request):
    """One rule."""

    id: Id = Field(description="The rule")


def remove_rule(tenant: Tenant, request: RuleRequest) -> RuleView:
    """Remove a stored rule. What it has done already stays done."""
    known = tenant.get(RetentionRule, request.id)
    if known is None:
        in_settings = any(one.id == request.id for one in tenant.retention)
        raise NotFound(
            "that rule is in the settings" if in_settings else f"there is no rule '{request.id[:80]}'",
            remedy="remove it from `retention` in the settings" if in_settings else "see retention.list",
            id=request.id,
        )
    commit(tenant, [Delete(RetentionRule, known.id), logged(tenant, "delete", "retention.remove", None, id=known.id)])
    return rule_view(Rule(known.terms, "stored"))
