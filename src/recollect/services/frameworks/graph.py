"""Memories as a graph of named entities, with observations about them and relations between them.

These are the operations of the official MCP memory server: an entity is a memory of the kind `entity`, a relation a
link between two. Callers use names instead of ids, so each name is unique, by the idempotency key of the memory. A
relation may name an entity that has not been created: it is then stored as only mentioned, and is not part of the graph
until it is created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ConfigDict, Field

from recollect.domain.memory import Memory, Relationship, entity_key
from recollect.domain.record import JsonObject, Name, QueryText, Text, now
from recollect.errors import InvalidInput, NotFound, VersionConflict
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Insert, Step
from recollect.retry import retry
from recollect.services.legal_holds import refuse_held
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import RememberManyRequest, remember_many
from recollect.services.memories.revise import change_steps, new_content
from recollect.services.memories.supersession import SUPERSEDES, reinstated_steps
from recollect.services.recall.filters import MemoryFilter, search_conditions
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

KIND = "entity"
MENTIONED = "mentioned_only"
MOST_NOTED = 1000  # ids in one log entry, since a graph may have any number
T = TypeVar("T")


class Entity(Request, Reply):
    name: Name = Field(description="The name of the entity; unique")
    entityType: Text = Field(description="What sort of thing it is, such as person or project")
    observations: list[Text] = Field(description="What is known about it, one fact each")


class Relation(Request, Reply):
    model_config = ConfigDict(populate_by_name=True)

    start: Name = Field(alias="from", description="The name of the entity where the relation starts")
    to: Name = Field(description="The name of the entity where it ends")
    relationType: Name = Field(description="The relation, in active voice, such as works_for")


class Graph(Reply):
    entities: list[Entity]
    relations: list[Relation]


class DeleteReply(Reply):
    success: bool = True
    message: str


class CreateEntitiesRequest(Request):
    """Entities to add."""

    entities: list[Entity] = Field(description="The entities to add; an existing one is left as it is")


class CreateEntitiesReply(Reply):
    entities: list[Entity]


class CreateRelationsRequest(Request):
    """Relations to add."""

    relations: list[Relation] = Field(description="The relations to add; an existing one is left as it is")


class CreateRelationsReply(Reply):
    relations: list[Relation]


class ObservationsToAdd(Request):
    entityName: Name = Field(description="The name of the entity to add to")
    contents: list[Text] = Field(description="New facts about it, one each")


class AddObservationsRequest(Request):
    """Facts to add to entities."""

    observations: list[ObservationsToAdd] = Field(description="The observations to add, for each entity")


class AddedObservations(Reply):
    entityName: str
    addedObservations: list[str]


class AddObservationsReply(Reply):
    results: list[AddedObservations]


class DeleteEntitiesRequest(Request):
    """Entities to delete."""

    entityNames: list[Text] = Field(description="The names of the entities to delete")


class ObservationsToDelete(Request):
    entityName: Text = Field(description="The name of the entity")
    observations: list[Text] = Field(description="The observations to delete, word for word")


class DeleteObservationsRequest(Request):
    """Facts to delete from entities."""

    deletions: list[ObservationsToDelete] = Field(description="The observations to delete, for each entity")


class DeleteRelationsRequest(Request):
    """Relations to delete."""

    relations: list[Relation] = Field(description="The relations to delete")


class ReadGraphRequest(Request):
    """The whole graph."""


class SearchNodesRequest(Request):
    """Words to look for."""

    query: QueryText = Field(description="What to look for in names, types and observations")


class OpenNodesRequest(Request):
    """Names to look up."""

    names: list[Text] = Field(description="The names of the entities to show")


@dataclass(frozen=True, slots=True)
class _Node:
    id: str
    version: int
    name: str
    content: JsonObject

    @property
    def is_described(self) -> bool:
        return not self.content.get(MENTIONED)

    @property
    def entity(self) -> Entity:
        known = self.content.get("observations", [])
        lines = [self.content.get("text", ""), *(f"{k}: {v}" for k, v in self.content.get("attributes", {}).items())]
        observations = [*(line for line in lines if line), *known]
        return Entity(name=self.name, entityType=self.content.get("type") or "", observations=observations)


def create_entities(tenant: Tenant, request: CreateEntitiesRequest) -> CreateEntitiesReply:
    """Add entities; existing names are left as they are. Returns the entities that were added."""
    wanted = {one.name: one for one in reversed(request.entities)}

    def create() -> CreateEntitiesReply:
        known = {node.name: node for node in reversed(_nodes(tenant))}
        new = [one for name, one in reversed(wanted.items()) if name not in known or not known[name].is_described]
        described = [one for one in new if one.name in known]
        _change(tenant, [(known[one.name], _content(one)) for one in described])
        _add(tenant, [_content(one) for one in new if one.name not in known])
        return CreateEntitiesReply(entities=new)

    return retry(create, VersionConflict)


def create_relations(tenant: Tenant, request: CreateRelationsRequest) -> CreateRelationsReply:
    """Add relations; existing ones are left as they are. Returns the relations that were added."""
    for one in request.relations:
        if one.relationType == SUPERSEDES:
            raise InvalidInput(
                "a link alone does not replace a memory", remedy="remember the new one with supersedes=ID"
            )
    ids = {node.name: node.id for node in reversed(_nodes(tenant))}
    unknown = dict.fromkeys(name for one in request.relations for name in (one.start, one.to) if name not in ids)
    ids |= _add(tenant, [{"name": name, MENTIONED: True} for name in unknown])
    wanted = {(ids[one.start], ids[one.to], one.relationType): one for one in request.relations}
    there = set(_links(tenant, {source for source, _, _ in wanted}))
    new = {key: one for key, one in wanted.items() if key not in there}
    has = Counter(source for source, _, _ in there)
    for source, more in Counter(source for source, _, _ in new).items():
        refuse_more(Relationship, has[source], more)
    if new:
        links = [made(Relationship, tenant, source_id=a, target_id=b, type=type) for a, b, type in new]
        commit(tenant, [*map(Insert, links), logged(tenant, "update", "create_relations", None, count=len(new))])
    return CreateRelationsReply(relations=list(new.values()))


def add_observations(tenant: Tenant, request: AddObservationsRequest) -> AddObservationsReply:
    """Add facts to entities; those already known are skipped. Nothing is added if an entity does not exist."""

    def add() -> AddObservationsReply:
        nodes = {node.name: node for node in reversed(_nodes(tenant)) if node.is_described}
        known: dict[str, list[str]] = {}
        results = []
        for one in request.observations:
            if one.entityName not in nodes:
                raise NotFound(f"Entity with name {one.entityName[:80]} not found", remedy="create the entity first")
            has = known.setdefault(one.entityName, list(nodes[one.entityName].content.get("observations", [])))
            new = [fact for fact in one.contents if fact not in has]
            has += new
            results.append(AddedObservations(entityName=one.entityName, addedObservations=new))
        _observe(tenant, nodes, known)
        return AddObservationsReply(results=results)

    return retry(add, VersionConflict)


def delete_observations(tenant: Tenant, request: DeleteObservationsRequest) -> DeleteReply:
    """Delete facts from entities; they stay in the history of the memory."""

    def delete() -> DeleteReply:
        nodes = {node.name: node for node in reversed(_nodes(tenant)) if node.is_described}
        known: dict[str, list[str]] = {}
        for one in request.deletions:
            if one.entityName in nodes:
                before: list[str] = nodes[one.entityName].content.get("observations", [])
                has = known.get(one.entityName, before)
                known[one.entityName] = [fact for fact in has if fact not in one.observations]
        _observe(tenant, nodes, known)
        return DeleteReply(message="Observations deleted successfully")

    return retry(delete, VersionConflict)


def delete_entities(tenant: Tenant, request: DeleteEntitiesRequest) -> DeleteReply:
    """Forget entities and their relations; `restore` brings both back."""
    names = set(request.entityNames)

    def delete() -> DeleteReply:
        gone = [load(tenant, Memory, node.id) for node in _nodes(tenant) if node.name in names]
        steps: list[Step] = reinstated_steps(tenant, gone) if gone else []
        refuse_held(tenant, {"memory": [memory.id for memory in gone]})
        for memory in gone:
            steps += change_steps(tenant, memory, "forgotten", "", is_deleted=True, idempotency_key=None)
        if gone:
            commit(tenant, steps)
        return DeleteReply(message="Entities deleted successfully")

    return retry(delete, VersionConflict)


def delete_relations(tenant: Tenant, request: DeleteRelationsRequest) -> DeleteReply:
    """Delete relations; one that does not exist is ignored."""
    ids = {node.name: node.id for node in reversed(_nodes(tenant))}
    steps: list[Step] = []
    for one in request.relations:
        if one.start in ids and one.to in ids and one.relationType != SUPERSEDES:
            ends = (equal("source_id", ids[one.start]), equal("target_id", ids[one.to]))
            steps.append(DeleteWhere(Relationship, (*ends, equal("type", one.relationType))))
    if steps:
        commit(tenant, [*steps, logged(tenant, "delete", "delete_relations", None, count=len(steps))])
    return DeleteReply(message="Relations deleted successfully")


def read_graph(tenant: Tenant, request: ReadGraphRequest) -> Graph:
    """Every entity and every relation between entities."""
    return _shown(tenant, lambda entity: True, whole=True)


def search_nodes(tenant: Tenant, request: SearchNodesRequest) -> Graph:
    """The entities that contain the words, and their relations."""
    wanted = request.query.lower()
    return _shown(
        tenant,
        lambda one: any(wanted in text.lower() for text in (one.name, one.entityType, *one.observations)),
    )


def open_nodes(tenant: Tenant, request: OpenNodesRequest) -> Graph:
    """The entities with these names, and their relations."""
    names = set(request.names)
    return _shown(tenant, lambda entity: entity.name in names)


def _nodes(tenant: Tenant) -> list[_Node]:
    """Every entity with a name that is not forgotten, the oldest first."""
    query = Query(Memory, search_conditions(MemoryFilter(kinds=[KIND]), now()).filters(), (Order("id"),))
    rows = tenant.select(query, ("id", "version", "content"))
    return [_Node(id, version, content["name"], content) for id, version, content in rows if content.get("name")]


def _links(tenant: Tenant, sources: Iterable[str]) -> list[tuple[str, str, str]]:
    query = Query(Relationship, (OneOf("source_id", tuple(sorted(sources))),), (Order("id"),))
    return [tuple(row) for row in tenant.select(query, ("source_id", "target_id", "type"))]


def _shown(tenant: Tenant, wanted: Callable[[Entity], bool], *, whole: bool = False) -> Graph:
    nodes = _nodes(tenant)
    found = {node.id: entity for node in nodes if node.is_described and wanted(entity := node.entity)}
    names = {node.id: node.name for node in nodes}
    relations = [
        Relation(start=names[source], to=names[target], relationType=type)
        for source, target, type in _links(tenant, names)
        if target in names and (whole or source in found or target in found)
    ]
    tenant.journal.note(tenant.scope, "search", "graph", list(found)[:MOST_NOTED], found=len(found))
    return Graph(entities=list(found.values()), relations=relations)


def _content(entity: Entity) -> JsonObject:
    return {"name": entity.name, "type": entity.entityType or None, "observations": list(entity.observations)}


def _add(tenant: Tenant, contents: Sequence[JsonObject]) -> dict[str, str]:
    """Store new entities together; returns their ids by name."""
    if not contents:
        return {}
    owners = sorted(tenant.owners(Memory, {}).items())
    keys = [entity_key(one["name"], *(f"{field}={id}" for field, id in owners)) for one in contents]
    forgotten = Query(Memory, (OneOf("idempotency_key", tuple(keys)),), deleted="only")
    freed: list[Step] = []
    for memory in tenant.find(forgotten).records:
        freed += change_steps(tenant, memory, "moved", "its name was given to a new entity", idempotency_key=None)
    if freed:
        commit(tenant, freed)
    requests = [
        RememberRequest(content=one, kind=KIND, idempotency_key=key) for one, key in zip(contents, keys, strict=True)
    ]
    receipts = remember_many(tenant, RememberManyRequest(memories=requests)).receipts
    return {one["name"]: receipt.id for one, receipt in zip(contents, receipts, strict=True)}


def _observe(tenant: Tenant, nodes: dict[str, _Node], known: dict[str, list[str]]) -> None:
    had = {name: nodes[name].content.get("observations", []) for name in known}
    changed = [(nodes[name], facts) for name, facts in known.items() if facts != had[name]]
    _change(tenant, [(node, node.content | {"observations": facts}) for node, facts in changed])


def _change(tenant: Tenant, contents: Sequence[tuple[_Node, JsonObject]]) -> None:
    """New content for some entities, all in one write; VersionConflict if one changed since it was read."""
    steps: list[Step] = []
    for node, content in contents:
        memory = load(tenant, Memory, node.id, version=node.version)
        steps += change_steps(tenant, memory, "revised", "", **new_content(memory, content))
    if steps:
        commit(tenant, steps)
