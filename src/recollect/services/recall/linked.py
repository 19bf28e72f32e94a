"""What is linked to memories: it comes along with the hits of a recall, or is drawn as a graph.

A walk goes link by link, each memory once, so circles end by themselves. Each hop is one reading of the links and one
of the memories, both bounded; a memory that may not be seen is neither shown nor passed through. tests/services/recall
counts the statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from pydantic import Field

from recollect.domain.memory import Memory
from recollect.domain.record import Id, Name, now
from recollect.domain.text.questions import Question
from recollect.domain.text.relevance import Ranked
from recollect.ports.query import AnyOf, Compare, IsNull
from recollect.services.memories.content_hashes import left_out_note
from recollect.services.memories.relations import BEGINNING, Link, links_at
from recollect.services.recall.candidates import Pool
from recollect.services.recall.filters import MemoryFilter, search_conditions
from recollect.services.recall.hits import Hit, ViaLink, hits_of
from recollect.services.recall.memory_rows import MemoryRow, MemoryRows
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

MOST_HOPS = 3
DECAY = 0.5  # of the score, with each hop
MOST_REACHED = 100  # memories that come along with the hits of one recall
SPARE = 100  # more are read than there is room for: some may not be seen
ANY_TYPE = "*"
# The filters of a recall that what comes along must pass, too: whose it is, and how far it is trusted.
_HELD_TO = ("user", "agent", "session", "also_session", "project", "statuses", "namespaces", "purpose")


@dataclass(frozen=True, slots=True)
class Reached:
    """A memory that a walk came to, and the last link it came by."""

    row: MemoryRow
    link: Link
    origin: str
    hops: int

    def via(self) -> ViaLink:
        direction = "to" if self.link.target_id == self.row.id else "from"
        return ViaLink(id=self.origin, type=self.link.type, direction=direction, hops=self.hops)


@dataclass(slots=True)
class Walk:
    """From some memories along their links, nearest first; `links` are all that were read on the way."""

    rows: MemoryRows
    types: tuple[str, ...] = ()
    most: int = MOST_REACHED
    reached: dict[str, Reached] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    is_cut: bool = False
    """Whether more could have been reached."""

    def go(self, starts: Sequence[str], hops: int) -> None:
        seen, frontier = set(starts), list(starts)
        for hop in range(1, hops + 1):
            if not frontier:
                return
            steps = [(link, origin, other) for link, origin, other in self._steps(frontier) if other not in seen]
            others = list(dict.fromkeys(other for _, _, other in steps))
            seen.update(others)
            room = self.most - len(self.reached)
            seen_by_caller = self.rows.passing(others[: room + SPARE])
            passing = dict(islice(seen_by_caller.items(), room))
            self.is_cut |= len(others) > room + SPARE or len(seen_by_caller) > room
            for link, origin, other in steps:
                if other in passing and other not in self.reached:
                    self.reached[other] = Reached(passing[other], link, origin, hop)
            frontier = list(passing)

    def _steps(self, frontier: Sequence[str]) -> list[tuple[Link, str, str]]:
        """The links at these memories, as steps away from them; those of the first come first."""
        place = {id: number for number, id in enumerate(frontier)}
        links = links_at(self.rows.tenant, frontier, () if ANY_TYPE in self.types else self.types)
        self.links |= {link.id: link for link in links}
        steps = [
            (link, origin, other)
            for link in links
            for origin, other in ((link.source_id, link.target_id), (link.target_id, link.source_id))
            if origin in place
        ]
        return sorted(steps, key=lambda step: place[step[1]])


class Follow(NamedTuple):
    """Which links to follow from the hits, how far, and how many hits there may be in all."""

    types: tuple[str, ...]
    hops: int
    limit: int


def with_linked(
    tenant: Tenant, wanted: MemoryFilter, follow: Follow, hits: Sequence[Hit], question: Question, notes: list[str]
) -> list[Hit]:
    """The hits and what is linked to them, best first; what comes along has a share of the score it was led by."""
    given = {name: getattr(wanted, name) for name in _HELD_TO if name in wanted.model_fields_set}
    conditions = search_conditions(MemoryFilter(**given), now())
    walk = Walk(MemoryRows(tenant, conditions.filters(), notes), follow.types)
    walk.go([hit.id for hit in hits if hit.type == "memory"], follow.hops)
    scores = {hit.id: (hit.score, hit.match) for hit in hits}
    ranked = []
    for id, reached in walk.reached.items():
        score, match = scores[reached.origin]
        # A score may lie below 0: then a share of it would be more.
        scores[id] = score, match = score * DECAY if score > 0 else score / DECAY, match * DECAY
        ranked.append(Ranked(id, score, match, {"link": score}))
    rows = {id: reached.row for id, reached in walk.reached.items()}
    linked = [
        _told(hit, walk.reached[hit.id]) for hit in hits_of(tenant, ranked, Pool(rows=rows, notes=notes), question)
    ]
    return sorted([*hits, *linked], key=lambda hit: -hit.score)[: follow.limit]


def _told(hit: Hit, reached: Reached) -> Hit:
    via = reached.via()
    _, _, trust = hit.why.rpartition(" [")
    word = "is linked from" if via.direction == "to" else "links to"
    return hit.model_copy(update={"via": via, "why": f"{word} {via.id} ({via.type}) [{trust}"})


class GraphRequest(Request):
    """A memory, and how much of what is linked to it to show."""

    of: Id = Field(description="The memory to begin with")
    hops: int = Field(1, ge=1, le=MOST_HOPS, description="Over how many links")
    types: list[Name] = Field(
        default_factory=list, max_length=MOST_CONDITIONS, description="Only along links of these types; all if omitted"
    )
    limit: int = Field(100, ge=1, le=500, description="How many memories at most")


class GraphNode(Reply):
    id: str
    text: str = Field(description="The beginning of what it says")
    kind: str
    status: str
    hops: int = Field(description="How many links away from the first it is")
    occurred_at: datetime


class GraphEdge(Reply):
    id: str
    source: str
    target: str
    type: str
    created_at: datetime


class RelationGraph(Reply):
    """Memories and the links between them."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    more: bool = Field(False, description="Whether there are more than the limit allows")
    notes: list[str] = Field(default_factory=list)


def graph(tenant: Tenant, request: GraphRequest) -> RelationGraph:
    """The memories around one, with the links between them; forgotten, archived and expired ones are left out."""
    first = load(tenant, Memory, request.of)
    moment, notes = now(), list[str]()
    alive = (AnyOf((IsNull("expires_at"), Compare("expires_at", ">", moment))), Compare("status", "!=", "archived"))
    walk = Walk(MemoryRows(tenant, alive, notes), tuple(request.types), request.limit - 1)
    walk.go([first.id], request.hops)
    last = [id for id, reached in walk.reached.items() if reached.hops == request.hops]
    links = {**walk.links, **{link.id: link for link in links_at(tenant, last, request.types)}} if last else walk.links
    nodes = {node.id: node for node in _nodes(first, walk, notes)}
    edges = [
        GraphEdge(id=link.id, source=link.source_id, target=link.target_id, type=link.type, created_at=link.created_at)
        for link in links.values()
        if link.source_id in nodes and link.target_id in nodes
    ]
    return RelationGraph(nodes=list(nodes.values()), edges=edges, more=walk.is_cut, notes=notes)


def _nodes(first: Memory, walk: Walk, notes: list[str]) -> Iterator[GraphNode]:
    yield _node(first, 0)
    for reached in walk.reached.values():
        damage = left_out_note(reached.row)
        if damage is not None:
            notes.append(damage)
            continue
        yield _node(reached.row, reached.hops)


def _node(memory: Memory | MemoryRow, hops: int) -> GraphNode:
    return GraphNode(
        id=memory.id,
        text=memory.text[:BEGINNING],
        kind=memory.kind,
        status=memory.status,
        hops=hops,
        occurred_at=memory.occurred_at,
    )
