"""From what a caller asks for to what the stores are asked: the filters of recall.

Facets are in both indexes and cost nothing; the rest (`where`) is checked on the records. `alive` is what every
recall checks besides: not expired, not replaced, not archived unless asked for. Every condition carries the words
for a memory that fails it, which is what `why_not` answers with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field

from recollect.domain.memory import LONG_TERM, SHORT_TERM, TRUSTED, MemoryScope, Status, Tag, standing_for
from recollect.domain.provenance import Citation
from recollect.domain.record import Id, Json, Name, QueryText
from recollect.errors import InvalidInput
from recollect.ports.query import AnyOf, Compare, Filter, Holds, IsNull, Linked, OneOf, equal
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import Request
from recollect.services.times import From, Through

# Of what was said and noted: a summary written by hand, without a level, is one of those.
NO_SUMMARY = AnyOf((Compare("kind", "!=", "summary"), Compare("level", "=", "item")))
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
    since: From | None = Field(None, description="Only said or happened at this time or later")
    until: Through | None = Field(None, description="Only said or happened before this time; a date counts whole")
    metadata: Json = Field(
        default_factory=dict, max_length=MOST_CONDITIONS, description="Only with these members in their metadata"
    )
    min_confidence: float | None = Field(None, ge=0, le=1, description="Only at least so sure")
    min_priority: int | None = Field(None, ge=1, le=10, description="Only of at least this priority")
    namespaces: list[Name] = Field(default_factory=list, description="Where to look; long_term by default")
    purpose: Literal["think", "act"] = Field(
        "think", description="To act on what is recalled, only verified and published memories are admitted"
    )
    include_superseded: bool = Field(False, description="Also what was replaced or is no longer valid")


class Condition(NamedTuple):
    """A filter, and what to say of a memory that does not pass it."""

    otherwise: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """`facets` are known to the indexes; `where` and `alive` are checked on the records."""

    facets: dict[str, tuple[str, ...]]
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

    def vector_facets(self) -> dict[str, tuple[str, ...]]:
        return {name: values for name, values in self.facets.items() if name != "namespaces"}


def search_conditions(wanted: MemoryFilter, moment: datetime, *, evidence_only: bool = False) -> SearchConditions:
    """With `evidence_only`, summaries that were rolled up answer only when they are asked for by kind or level.

    A summary repeats what it covers: beside its own evidence it would take a place in the answer without adding to it,
    and as a neighbour in the session it would lend its words to everything.
    """
    both = wanted.session or wanted.also_session
    namespaces = tuple(wanted.namespaces) or ((LONG_TERM, SHORT_TERM) if both else (LONG_TERM,))
    facets: dict[str, tuple[str, ...]] = {
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
    if wanted.since:
        yield Condition(f"it is from before {wanted.since.isoformat()}", Compare("occurred_at", ">=", wanted.since))
    if wanted.until:
        yield Condition(f"it is not from before {wanted.until.isoformat()}", Compare("occurred_at", "<", wanted.until))
    for key, value in wanted.metadata.items():
        if isinstance(value, dict | list):
            raise InvalidInput(f"metadata '{key}' is compared with a single value", remedy="give text, a number, …")
        yield Condition(f"its metadata '{key}' is different", Compare("metadata", "=", value, key=key))
    if wanted.min_confidence is not None:
        yield Condition("its confidence is too low", Compare("confidence", ">=", wanted.min_confidence))
    if wanted.min_priority is not None:
        yield Condition("its priority is too low", Compare("priority", ">=", wanted.min_priority))


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
