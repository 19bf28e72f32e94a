"""jarvis_memory_pc2: what an assistant knows of its users, their preferences, and the states of its skills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recollect.domain.agents import Agent, AgentState
from recollect.domain.record import JsonObject, derived_id
from recollect.domain.tenancy import User
from recollect.services.importers.conversation import Turn, turn_entries
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import FieldMap, clean, decoded, words
from recollect.services.importers.objects import fields_at_first, objects
from recollect.services.importers.origin import Origin

PROFILES = FieldMap(
    "profile",
    {
        "user_id": "user.id",
        "preferences": "user.preferences",
        "entity_knowledge": "parts.entities: a memory (entity) each",
        "interaction_history": "parts.interactions: a memory (interaction) each, which cites the messages of it",
        "skill_states": "parts.states: an agent and its state each",
    },
)
ENTITIES = FieldMap(
    "entity",
    {
        "name": "content.name",
        "type": "content.type",
        "attributes": "content.attributes",
        "observations": "content.observations",
        "text": "content.text",
        "description": "content.text",
        "created_at": "memory.created_at",
        "id": "memory.id",
        "tags": "memory.tags",
    },
)
INTERACTIONS = FieldMap(
    "interaction",
    {
        "request": "content.request",
        "user_input": "content.request",
        "query": "content.request",
        "response": "content.response",
        "text": "content.text",
        "timestamp": "memory.created_at",
        "created_at": "memory.created_at",
        "id": "memory.id",
    },
)
STATES = FieldMap(
    "skill state",
    {
        "agent_id": "agent_state.agent: the agent, made if need be",
        "skill": "agent_state.agent: the agent, made if need be",
        "state": "agent_state.state_data",
        "expires_at": "agent_state.expires_at",
    },
)
WRAPPERS = ("users", "profiles")


def recognises(origin: Origin) -> bool:
    found = fields_at_first(origin, WRAPPERS)
    return "user_id" in found and bool({"entity_knowledge", "interaction_history", "skill_states"} & found)


def read(reading: Reading) -> Iterator[Entry]:
    skills: set[str] = set()
    for item in objects(reading, PROFILES, "user_id", WRAPPERS):
        of, rest = PROFILES.read(item, reading.findings)
        user, parts = of.get("user", {}), of.get("parts", {})
        if "id" not in user:
            reading.findings.left_out(PROFILES.what, item.get("user_id"), "its user_id is not an id")
            continue
        yield from reading.once(User, **user, name=user["id"], profile_data=reading.kept({}, rest))
        yield from _entities(reading, user["id"], parts.get("entities"))
        yield from _interactions(reading, user["id"], parts.get("interactions"))
        yield from _states(reading, user["id"], parts.get("states"), skills)


def _entities(reading: Reading, user: str, known: object) -> Iterator[Entry]:
    for number, one in enumerate(_listed(known, "name", "text")):
        of, rest = ENTITIES.read(one, reading.findings)
        content, memory = of.get("content", {}), of.get("memory", {})
        key = content.get("name") or words(one)
        fields = {"id": derived_id("jarvis entity", user, key, "" if content.get("name") else str(number)), **memory}
        content = {name: value if name != "type" else words(value) for name, value in content.items()}
        yield from reading.memory({**fields, "kind": "entity", "user": user, "content": content}, rest)


def _interactions(reading: Reading, user: str, known: object) -> Iterator[Entry]:
    for one in _listed(known, "id", "text"):
        of, rest = INTERACTIONS.read(one, reading.findings)
        content, memory = of.get("content", {}), of.get("memory", {})
        at = memory.get("created_at")
        pairs = (("user", content.get("request")), ("assistant", content.get("response")))
        turns = [Turn(role, words(text), at) for role, text in pairs if text]
        said = [one for one in turn_entries(reading, turns, None, at, user=user) if one.fields.get("role")]
        yield from said  # the messages; the memory of both is the interaction
        cites = [{"type": "log", "log_id": message.fields["id"]} for message in said]
        fields = {"id": derived_id("jarvis interaction", user, str(at), words(content)), **memory, "cites": cites}
        yield from reading.memory({**fields, "kind": "interaction", "user": user, "content": content}, rest)


def _states(reading: Reading, user: str, known: object, skills: set[str]) -> Iterator[Entry]:
    """One agent for each skill; where another user has the same skill, one of their own."""
    for one in _listed(known, "agent_id", "state"):
        of, rest = STATES.read(one, reading.findings)
        state = of.get("agent_state", {})
        if "agent" not in state or rest.keys() & {"agent_id", "skill"}:
            reading.findings.left_out(STATES.what, user, "it has no agent_id")
            continue
        agent = state["agent"] if state["agent"] not in skills else f"{state['agent']}:{user}"[:255]
        skills.add(agent)
        yield from reading.once(Agent, agent, name=agent)
        data = {**state.get("state_data", {}), **rest}
        fields = {"id": derived_id("agent state", agent), "agent_id": agent, "state_data": data}
        yield Entry(AgentState, fields | ({"expires_at": state["expires_at"]} if "expires_at" in state else {}))


def _listed(given: object, key_field: str, text_field: str) -> Iterator[JsonObject]:
    """A list of objects or texts, or an object that has them by their names."""
    found = clean(decoded(given))
    if isinstance(found, Mapping):
        for key, value in found.items():
            inner = value if isinstance(value, dict) and text_field != "state" else {text_field: value}
            yield {key_field: key, **inner}
    elif isinstance(found, list):
        yield from (one if isinstance(one, dict) else {text_field: words(one)} for one in found)
    elif found:
        yield {text_field: words(found)}


SOURCE = Source(
    "jarvis-memory-pc2",
    "jarvis_memory_pc2",
    "JSON, JSON Lines, or a SQLite table with a column user_id",
    (PROFILES, ENTITIES, INTERACTIONS, STATES),
    recognises,
    read,
)
