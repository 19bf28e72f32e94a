"""From what a caller asks for to what the stores are asked: the filters of recall.

Facets are in both indexes and cost nothing; the rest (`where`) is checked on the records. `alive` is what every
recall checks besides: not expired, not replaced, not archived unless asked for. Every condition carries the words
for a memory that fails it, which is what `why_not` answers with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, Field

from recollect.domain.memory import (
    LONG_TERM,
    SHORT_TERM,
    TRUSTED,
    Memory,
    MemoryScope,
    Status,
    Tag,
    for_memories,
    standing_for,
)
from recollect.domain.provenance import Citation
from recollect.domain.record import Id, Json, Name, QueryText
from recollect.errors import InvalidInput
from recollect.ports.query import AnyOf, Compare, Filter, Holds, IsNull, Linked, OneOf, equal
from recollect.services.json_filters import member_conditions
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import Request
from recollect.services.times import From, Through

# Of what was said and noted: a summary written by hand, without a level, is one of those.
NO_SUMMARY = AnyOf((Compare("kind", "!=", "summary"), Compare("level", "=", "item")))
Facets = dict[str, tuple[str, ...]]
LIVE_STATUSES: tuple[str, ...] = ("hypothesis", "verified", "published")


class MemoryFilter(Request):
    """Which memories may answer. What is left out does not narrow."""

    user: Id | None = Field(None, description="Only this user's")
    agent: Id | None = Field(None, description="Only this agent's")
    session: Id | None = Field(None, description="Only of this session; also looks into short-term memory")
    also_session: Id | None = Field(
        None, description="Beside long-term memory also the short-term memory of this session"
    )
    project: Id | None = Field(None, description="Only of this project")
    kinds: list[Name] = Field(default_factory=list, description="Only of these kinds")
    scopes: list[MemoryScope] = Field(default_factory=list, description="Only with these scopes")
    statuses: list[Status] = Field(default_factory=list, description="Only with these statuses")
    levels: list[Name] = Field(default_factory=list, description="Only of these levels")
    tags: list[QueryText] = Field(
        default_factory=list, max_length=MOST_CONDITIONS, description="Only with all of these tags"
    )
    any_tags: list[QueryText] = Field(default_factory=list, description="Only with one of these tags")
    author: QueryText | None = Field(None, description="Only said by this author")
    source_agent: QueryText | None = Field(None, description="Only made by the agent of this name")
    source: QueryText | None = Field(None, description="Only citing this source, such as file:notes.md")
    cycle: Id | None = Field(None, description="Only made in this cycle of a run")
    since: From | None = Field(None, description="Only said or happened at this time or later")
    until: Through | None = Field(None, description="Only said or happened before this time; a date counts whole")
    created_since: From | None = Field(None, description="Only stored at this time or later")
    created_until: Through | None = Field(None, description="Only stored before this time")
    changed_since: From | None = Field(None, description="Only last changed at this time or later")
    changed_until: Through | None = Field(None, description="Only last changed before this time")
    expires_since: From | None = Field(None, description="Only what expires at this time or later")
    expires_until: Through | None = Field(None, description="Only what expires before this time")
    content: Json = Field(
        default_factory=dict,
        max_length=MOST_CONDITIONS,
        description='Only with these members in their typed content, such as {"success": false}',
    )
    metadata: Json = Field(
        default_factory=dict,
        max_length=MOST_CONDITIONS,
        description='Only with these members in their metadata: a value, several, or operators such as {"gte": 3}',
    )
    min_confidence: float | None = Field(None, ge=0, le=1, description="Only at least so sure")
    max_confidence: float | None = Field(None, ge=0, le=1, description="Only at most so sure")
    min_priority: int | None = Field(None, ge=1, le=10, description="Only of at least this priority")
    max_priority: int | None = Field(None, ge=1, le=10, description="Only of at most this priority")
    min_importance: float | None = Field(None, ge=0, description="Only of at least this importance")
    max_importance: float | None = Field(None, ge=0, description="Only of at most this importance")
    namespaces: list[Annotated[Name, AfterValidator(for_memories)]] = Field(
        default_factory=list, description="Where to look; long_term by default"
    )
    purpose: Literal["think", "act"] = Field(
        "think", description="To act on what is recalled, only verified and published memories are admitted"
    )
    include_superseded: bool = Field(False, description="Also what was replaced or is no longer valid")


# What says how to look, not which memories: alone, they are no filter.
_NOT_NARROWING = frozenset({"purpose", "include_superseded", "also_session", "namespaces"})


def is_filtered(request: MemoryFilter) -> bool:
    """Whether a request says which memories it means."""
    named = request.model_fields_set & (MemoryFilter.model_fields.keys() - _NOT_NARROWING)
    return any(getattr(request, name) not in (None, [], {}) for name in named)


class Condition(NamedTuple):
    """A filter, and what to say of a memory that does not pass it."""

    otherwise: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """`facets` are known to the indexes; `where` and `alive` are checked on the records."""

    record: ClassVar[type[Memory]] = Memory
    facets: Facets
    where: tuple[Condition, ...]
    alive: tuple[Condition, ...]
    namespaces: tuple[str, ...]

    def conditions(self) -> list[Condition]:
        """Everything again as conditions on the records, so that no index is ever believed."""
        facets = [
            Condition(f"its {name.removesuffix('_id')} is not {' or '.join(values)}", OneOf(name, values))
            for name, values in self.vector_facets().items()
        ]
        return [*facets, *self.where, *self.alive]

    def filters(self) -> tuple[Filter, ...]:
        return tuple(condition.filter for condition in self.conditions())

    def unknown_to_indexes(self) -> tuple[Filter, ...]:
        return tuple(condition.filter for condition in (*self.where, *self.alive))

    @property
    def is_narrowed(self) -> bool:
        """Whether there is a filter that the indexes do not know, besides those of every recall."""
        return bool(self.where)

    def text_searches(self) -> tuple[Facets, ...]:
        return (self.facets,)

    def vector_searches(self) -> tuple[Facets, ...]:
        return (self.vector_facets(),)

    def vector_facets(self) -> Facets:
        return {name: values for name, values in self.facets.items() if name != "namespaces"}


def search_conditions(wanted: MemoryFilter, moment: datetime, *, evidence_only: bool = False) -> SearchConditions:
    """With `evidence_only`, summaries that were rolled up answer only when they are asked for by kind or level.

    A summary repeats what it covers: beside its own evidence it would take a place in the answer without adding to it,
    and as a neighbour in the session it would lend its words to everything.
    """
    both = wanted.session or wanted.also_session
    namespaces = tuple(wanted.namespaces) or ((LONG_TERM, SHORT_TERM) if both else (LONG_TERM,))
    facets: Facets = {
        f"{name}_id": (value,)
        for name in ("user", "agent", "session", "project")
        if (value := getattr(wanted, name)) is not None
    }
    if wanted.kinds:
        facets["kind"] = tuple(wanted.kinds)
    if wanted.scopes:
        facets["scope"] = tuple(wanted.scopes)
    statuses = _statuses(wanted)
    if statuses != LIVE_STATUSES:
        facets["status"] = statuses
    if namespaces != (LONG_TERM,):
        facets["namespaces"] = namespaces
    alive = [*_alive(wanted, moment, namespaces)]
    if evidence_only and not wanted.kinds and not wanted.levels:
        alive.append(Condition("it is a summary of others: ask for kinds=['summary']", NO_SUMMARY))
    return SearchConditions(facets, tuple(_where(wanted)), tuple(alive), namespaces)


def _statuses(wanted: MemoryFilter) -> tuple[str, ...]:
    statuses = tuple(wanted.statuses) or LIVE_STATUSES
    if wanted.purpose == "act":
        statuses = tuple(status for status in statuses if status in TRUSTED)
        if not statuses:
            raise InvalidInput(
                "to act, only verified and published memories are admitted",
                remedy="leave statuses out, or recall with purpose='think'",
            )
    return statuses


def _where(wanted: MemoryFilter) -> Iterator[Condition]:
    for tag in (tag.strip() for tag in wanted.tags):
        yield Condition(f"it has no tag '{tag}'", Linked(Tag, "memory_id", (equal("tag", tag),)))
    if wanted.any_tags:
        any_tag = Linked(Tag, "memory_id", (OneOf("tag", tuple(wanted.any_tags)),))
        yield Condition(f"it has none of the tags {', '.join(wanted.any_tags)}", any_tag)
    if wanted.source:
        cites = Linked(Citation, "memory_id", (equal("source", wanted.source),))
        yield Condition(f"it does not cite {wanted.source}", cites)
    if wanted.levels:
        alone = tuple(Compare("metadata", "=", True, standing_for(level)) for level in wanted.levels)
        yield Condition("its level is not asked for", AnyOf((OneOf("level", tuple(wanted.levels)), *alone)))
    if wanted.author:
        yield Condition(f"it was not said by {wanted.author}", equal("author", wanted.author))
    if wanted.source_agent:
        yield Condition(f"it was not made by {wanted.source_agent}", equal("source_agent", wanted.source_agent))
    if wanted.cycle:
        yield Condition(f"it was not made in cycle {wanted.cycle}", equal("cycle_id", wanted.cycle))
    for field, prefix, is_from, is_not_from in _TIMES:
        since: datetime | None = getattr(wanted, f"{prefix}since")
        until: datetime | None = getattr(wanted, f"{prefix}until")
        if since:
            yield Condition(f"{is_from} before {since.isoformat()}", Compare(field, ">=", since))
        if until:
            yield Condition(f"{is_not_from} before {until.isoformat()}", Compare(field, "<", until))
    for field in ("content", "metadata"):
        for name, condition in member_conditions(field, getattr(wanted, field)):
            yield Condition(f"its {field} '{name}' is different", condition)
    for field in ("confidence", "priority", "importance"):
        least, most = getattr(wanted, f"min_{field}"), getattr(wanted, f"max_{field}")
        if least is not None:
            yield Condition(f"its {field} is too low", Compare(field, ">=", least))
        if most is not None:
            yield Condition(f"its {field} is too high", Compare(field, "<=", most))


_TIMES = (
    ("occurred_at", "", "it is from", "it is not from"),
    ("created_at", "created_", "it was created", "it was not created"),
    ("updated_at", "changed_", "it was last changed", "it was not last changed"),
    ("expires_at", "expires_", "it does not expire, or does", "it does not expire"),
)
"""A field, how its filters begin, and the words for what lies before and not before a time."""


def _alive(wanted: MemoryFilter, moment: datetime, namespaces: tuple[str, ...]) -> Iterator[Condition]:
    yield Condition("it has expired", AnyOf((IsNull("expires_at"), Compare("expires_at", ">", moment))))
    if not wanted.include_superseded:
        current = AnyOf((IsNull("valid_to"), Compare("valid_to", ">", moment)))
        yield Condition("it is no longer valid: something replaced it, or its time is over", current)
        begun = AnyOf((IsNull("valid_from"), Compare("valid_from", "<=", moment)))
        yield Condition("it is not valid yet", begun)
    if not wanted.statuses:
        yield Condition("it is archived", Compare("status", "!=", "archived"))
    searched = AnyOf(tuple(Holds("namespaces", name) for name in namespaces))
    yield Condition(f"it is not searched in {' or '.join(namespaces)}", searched)
    if wanted.also_session is not None:
        known_here = AnyOf((Holds("namespaces", LONG_TERM), equal("session_id", wanted.also_session)))
        yield Condition(f"it is short-term memory of another session than {wanted.also_session}", known_here)
