"""Which messages answer a question beside memories: the filters of recall as they apply to messages.

What was said is a message's own user and agent, or those of its session where it names none; its project is that of its
session. Filters that only memories have (kinds, tags, status, …) leave messages out unless they are asked for. System
messages are prompts, not something that was said: `message.search` finds them, recall does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, ClassVar

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import MESSAGES
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Order, Query, Reading, Row, equal
from recollect.services.memories.message_vectors import WITH_TEXT
from recollect.services.recall.filters import Facets, MemoryFilter
from recollect.services.tenant import Tenant

OWNERS = ("user", "agent", "session", "project")
# What narrows messages as well as memories, and what does not narrow.
SHARED = frozenset({*OWNERS, "also_session", "author", "since", "until", "purpose", "include_superseded"})
SAID: tuple[Filter, ...] = (*WITH_TEXT, Compare("role", "!=", "system"))
MOST_SESSIONS = 10_000  # of a user, agent or project; the newest
MOST_AS_FACETS = 200  # sessions that the indexes are asked for by name; of more they are asked for everything


@dataclass(frozen=True, slots=True)
class MessageConditions:
    """`where` is everything, checked on the records; `searches` is how the indexes narrow it, each on its own."""

    record: ClassVar[type[Message]] = Message
    namespaces: ClassVar[tuple[str, ...]] = (MESSAGES,)
    where: tuple[Filter, ...]
    searches: tuple[Facets, ...] = ({},)
    is_narrowed: bool = False
    """Whether there is a filter that the indexes do not know."""

    def filters(self) -> tuple[Filter, ...]:
        return self.where

    def unknown_to_indexes(self) -> tuple[Filter, ...]:
        return self.where

    def text_searches(self) -> tuple[Facets, ...]:
        return self.searches

    def vector_searches(self) -> tuple[Facets, ...]:
        return self.searches


def includes_messages(wanted: MemoryFilter, asked: bool | None) -> bool:
    """Whether messages are searched: as asked, else where it is said whose, and nothing only memories have."""
    if wanted.purpose == "act":
        return False  # to act on, only what was verified counts
    if asked is not None:
        return asked
    if all(getattr(wanted, name) is None for name in OWNERS):
        return False
    return all(getattr(wanted, name) == default for name, default in _only_of_memories())


@cache
def _only_of_memories() -> tuple[tuple[str, Any], ...]:
    """The filters that only memories have, each with what it is where nobody asks for it."""
    fields = MemoryFilter.model_fields
    return tuple((name, fields[name].get_default(call_default_factory=True)) for name in fields.keys() - SHARED)


def message_conditions(tenant: Tenant, wanted: MemoryFilter, notes: list[str]) -> MessageConditions | None:
    """The filters as they apply to messages; None if there are no messages to search."""
    of_session: tuple[Filter, ...] = (equal("session_id", wanted.session),) if wanted.session is not None else ()
    owners = _owners(wanted)
    found = _sessions_searched(tenant, wanted)
    if found is None:
        return None
    if len(found) > MOST_SESSIONS:
        notes.append(f"of messages, only those of the newest {MOST_SESSIONS:,} sessions were searched")
    sessions = {
        name: {row[0] for row in found[:MOST_SESSIONS] if row[1 + ("user", "agent", "project").index(name)] == value}
        for name, value in owners
    }
    where = [*SAID, *of_session, *_said_by(wanted)]
    for name, value in owners:
        where += _owned(name, value, sessions[name])
    return MessageConditions(
        tuple(where),
        tuple(_searches(wanted.session, dict(owners), sessions)),
        is_narrowed=bool(wanted.author or wanted.since or wanted.until),
    )


def _sessions_searched(tenant: Tenant, wanted: MemoryFilter) -> list[Row] | None:
    """None if there is no message: asked first where that is no way to a server, else together."""
    sessions, first_message = message_readings(wanted)
    if not tenant.store.capabilities.row_by_row:
        found, any_message = tenant.select_each([sessions, first_message])
        return found if any_message else None
    return tenant.select(*sessions) if tenant.select(*first_message) else None


def message_readings(wanted: MemoryFilter) -> list[Reading]:
    """The sessions whose messages are meant, and whether there is any message."""
    of_session: tuple[Filter, ...] = (equal("session_id", wanted.session),) if wanted.session is not None else ()
    return [
        (_sessions(_owners(wanted), wanted.session), ("id", "user_id", "agent_id", "project_id")),
        (Query(Message, of_session, limit=1), ("id",)),
    ]


def _owners(wanted: MemoryFilter) -> list[tuple[str, str]]:
    return [(name, value) for name in ("user", "agent", "project") if (value := getattr(wanted, name)) is not None]


def _sessions(owners: Sequence[tuple[str, str]], session: str | None) -> Query[Session]:
    """The sessions of these owners, the newest first; none where no owner is asked for."""
    of_any = AnyOf(tuple(equal(f"{name}_id", value) for name, value in owners)) if owners else OneOf("id", ())
    only = (equal("id", session),) if session is not None else ()
    return Query(Session, (of_any, *only), (Order("id", descending=True),), limit=MOST_SESSIONS + 1)


def _owned(name: str, value: str, sessions: set[str]) -> Iterator[Filter]:
    """Of this owner itself, or of none and in a session of this owner; a project is known by its sessions alone."""
    inside = OneOf("session_id", tuple(sorted(sessions)))
    if name == "project":
        yield inside
        return
    own = equal(f"{name}_id", value)
    if not sessions:
        yield own
        return
    yield AnyOf((own, IsNull(f"{name}_id")))
    yield AnyOf((own, inside))


def _said_by(wanted: MemoryFilter) -> Iterator[Filter]:
    if wanted.author:
        named = equal("name", wanted.author)
        yield AnyOf((named, IsNull("name")))
        yield AnyOf((named, equal("role", wanted.author)))
    if wanted.since:
        yield Compare("created_at", ">=", wanted.since)
    if wanted.until:
        yield Compare("created_at", "<", wanted.until)


def _searches(session: str | None, owners: dict[str, str], sessions: dict[str, set[str]]) -> Iterator[Facets]:
    """What the indexes are asked for: by each owner directly, and through the sessions of each."""
    fixed: set[str] | None = {session} if session is not None else None
    if "project" in owners:
        fixed = sessions["project"] if fixed is None else fixed & sessions["project"]
    direct = [name for name in ("user", "agent") if name in owners]
    for through in product(*(((False, True) if sessions[name] else (False,)) for name in direct)):
        within = fixed
        facets: dict[str, tuple[str, ...]] = {}
        for name, by_session in zip(direct, through, strict=True):
            if by_session:
                within = sessions[name] if within is None else within & sessions[name]
            else:
                facets[f"{name}_id"] = (owners[name],)
        if within is not None and len(within) <= MOST_AS_FACETS:
            facets["session_id"] = tuple(sorted(within))
        if within is None or within:
            yield facets
