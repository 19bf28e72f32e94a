"""Facts out of talk: `session.extract` proposes memories from what people said in a session.

Each is a hypothesis that cites its messages, so it waits in the review inbox until somebody judges it. What is known
already is not proposed again; what contradicts a known memory is proposed with a link `may_supersede`, and takes its
place when it is promoted (services/memories/supersession.py). A session notes up to which message it was read, so the
next call goes on there.

Offline, the rules of domain/text/personal_statements.py find what is stated plainly in English, in the speaker's own
words. A configured language model reads any language and words it anew (extraction_by_model.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import EXTRACTED
from recollect.domain.provenance import cite
from recollect.domain.record import Id, JsonObject, clipped
from recollect.domain.text.personal_statements import Category, Statement, contradict, says_the_same, statements
from recollect.errors import RequirementFailed, VersionConflict
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.ports.steps import Require, Step, Update
from recollect.retry import retry
from recollect.services.learning.extraction_by_model import Found, Reading, read_by_model
from recollect.services.learning.generation import OFFLINE
from recollect.services.learning.known_statements import KnownStatement, KnownStatements, vectors_of
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.message_vectors import WITH_TEXT
from recollect.services.memories.remember import fresh_steps
from recollect.services.memories.supersession import MAY_SUPERSEDE
from recollect.services.requests import ListReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import zone_for
from recollect.services.transaction import commit, load, logged, refuse_cold, rewritten

KINDS: dict[Category, str] = {
    "preference": "user_preference",
    "fact": "fact",
    "decision": "fact",
    "plan": "plan",
    "instruction": "user_preference",
}
LONGEST_QUOTE = 500
Finding = Literal["new", "contradiction", "duplicate", "outdated"]


class ExtractRequest(Request):
    """A session to read for what is worth remembering."""

    id: Id = Field(description="The session")
    again: bool = Field(False, description="Read it from the beginning, not only what was said since the last time")
    dry_run: bool = Field(False, description="Only show what would be proposed; nothing is stored")
    limit: int = Field(200, ge=1, le=1000, description="How many messages to read at most; the next call goes on")


class ExtractedMemory(Reply):
    """Something that was stated, and what became of it.

    `new` and `contradiction` are stored as hypotheses; a `duplicate` is known already, and something newer is known of
    what is `outdated`.
    """

    id: str | None = Field(None, description="The memory that was made; none in a dry run and of what is known")
    text: str
    category: Category
    kind: str
    finding: Finding
    messages: list[str] = Field(description="The messages that it cites")
    quote: str = Field(description="The words that say it")
    when: date | None = Field(None, description="The day that a plan names, where that is certain")
    known: list[str] = Field(default_factory=list, description="The memories that it repeats or contradicts")
    known_text: str = Field("", description="What the first of them says")


class ExtractReply(ListReply[ExtractedMemory]):
    """What was found. A contradiction replaces what it contradicts when it is promoted, not before."""

    session: str
    proposals: list[ExtractedMemory]
    read: int = Field(description="How many messages were read")
    remaining: int = Field(0, description="How many are left for the next call")
    made_by: str = Field(OFFLINE, description="The language model that read them, or extract: the rules")
    usage: JsonObject = Field(default_factory=dict, description="What the language model used, added up")
    dry_run: bool = False
    notes: list[str] = Field(default_factory=list)


@dataclass(slots=True)
class _Proposal:
    """A statement with all messages that make it, and who worded it."""

    statement: Statement
    quote: str
    messages: list[Message]
    made_by: str
    finding: Finding = "new"
    known: list[KnownStatement] = field(default_factory=list)

    @property
    def at(self) -> datetime:
        return self.messages[-1].created_at


def extract(tenant: Tenant, request: ExtractRequest) -> ExtractReply:
    """Propose memories from what was said in a session, since the last time."""
    return retry(lambda: _extract(tenant, request), VersionConflict, RequirementFailed, tries=3)


def _extract(tenant: Tenant, request: ExtractRequest) -> ExtractReply:
    session = load(tenant, Session, request.id)
    refuse_cold(tenant, session)
    unread: tuple[Filter, ...] = (equal("session_id", session.id), *WITH_TEXT, OneOf("role", ("user", "assistant")))
    if session.extracted_to is not None and not request.again:
        unread = (*unread, Compare("id", ">", session.extracted_to))
    messages = tenant.find(Query(Message, unread, (Order("id"),), limit=request.limit)).records
    total = tenant.count(Query(Message, unread)) if len(messages) == request.limit else len(messages)
    readings = list(_readings(tenant, session, messages))
    proposals = _compared(tenant, session, _joined(readings))
    made: dict[int, str] = {}
    if messages and not request.dry_run:
        made = _store(tenant, session, messages[-1], proposals)
    return ExtractReply(
        session=session.id,
        proposals=[_view(one, made.get(place)) for place, one in enumerate(proposals)],
        read=len(messages),
        remaining=total - len(messages),
        made_by=str(readings[0].metadata.get("made_by", OFFLINE)) if readings else OFFLINE,
        usage=_usage(readings),
        dry_run=request.dry_run,
        notes=list(dict.fromkeys(note for reading in readings for note in reading.notes)),
    )


def _readings(tenant: Tenant, session: Session, messages: Sequence[Message]) -> Iterator[Reading]:
    by_rules = [found for one in messages if one.role == "user" for found in _by_rules(tenant, session, one)]
    if tenant.language_model is None:
        yield Reading(by_rules, {"made_by": OFFLINE})
    elif any(one.role == "user" for one in messages):
        yield from read_by_model(tenant, messages, by_rules)


def _by_rules(tenant: Tenant, session: Session, message: Message) -> Iterator[Found]:
    zone = ZoneInfo(zone_for(tenant, message.user_id or session.user_id))
    for statement in statements(message.text or "", message.created_at.astimezone(zone).date()):
        yield Found(statement, message, statement.text)


def _joined(readings: Sequence[Reading]) -> list[_Proposal]:
    """One proposal for each thing that was said, however often, with all messages that say it, in their order.

    Of two that contradict each other, what was said later counts.
    """
    joined: list[_Proposal] = []
    for reading in readings:
        made_by = str(reading.metadata.get("made_by", OFFLINE))
        for statement, message, quote in sorted(reading.found, key=lambda one: one.message.id):
            known = next((one for one in joined if says_the_same(one.statement.text, statement.text)), None)
            if known is None:
                joined.append(_Proposal(statement, quote, [message], made_by))
            elif message.id not in [one.id for one in known.messages]:
                known.messages.append(message)
    for place, one in enumerate(joined):
        if any(contradict(one.statement, later.statement) for later in joined[place + 1 :]):
            one.finding = "outdated"
    return joined


def _compared(tenant: Tenant, session: Session, proposals: list[_Proposal]) -> list[_Proposal]:
    """The same proposals, with what is known about each."""
    fresh = [one for one in proposals if one.finding == "new"]
    for owner in dict.fromkeys(_owner(session, one.messages[-1]) for one in fresh):
        mine = [one for one in fresh if _owner(session, one.messages[-1]) == owner]
        known = KnownStatements.of(tenant, [equal(*owner)])
        for one, vector in zip(mine, vectors_of(tenant, [one.statement.text for one in mine]), strict=True):
            contradicted = known.contradicted(one.statement)
            same = known.same(one.statement, vector) if not contradicted else None
            if same is not None:
                one.finding, one.known = "duplicate", [same]
            elif contradicted:
                is_newer = all(one.at > other.occurred_at for other in contradicted)
                one.finding, one.known = "contradiction" if is_newer else "outdated", contradicted
    return proposals


def _owner(session: Session, message: Message) -> tuple[str, str]:
    """Whose memories a statement is compared with: the user's, else the agent's, else those of the session."""
    owners = _owners(session, message)
    for name in ("user", "agent"):
        if (id := owners[name]) is not None:
            return f"{name}_id", id
    return "session_id", session.id


def _owners(session: Session, message: Message) -> dict[str, str | None]:
    return {
        "user": message.user_id or session.user_id,
        "agent": message.agent_id or session.agent_id,
        "session": session.id,
        "project": session.project_id,
    }


def _store(tenant: Tenant, session: Session, last: Message, proposals: Sequence[_Proposal]) -> dict[int, str]:
    """All of them and how far the session was read, or nothing; the ids of the memories by place."""
    steps: list[Step] = []
    made: dict[int, str] = {}
    for place, one in enumerate(proposals):
        if one.finding not in ("new", "contradiction"):
            continue
        memory, stored = fresh_steps(tenant, _request(session, one))
        made[place] = memory.id
        steps += [*(Require(Message, said.id, {"version": said.version}) for said in one.messages), *stored]
    if session.extracted_to is None or last.id > session.extracted_to:
        steps.append(Update(rewritten(session, tenant, extracted_to=last.id)))
    if steps:
        commit(tenant, [*steps, logged(tenant, "create", "extract", None, id=session.id, count=len(made))])
    return made


def _request(session: Session, one: _Proposal) -> RememberRequest:
    message, statement = one.messages[-1], one.statement
    metadata: JsonObject = {EXTRACTED: True, "category": statement.category, "made_by": one.made_by}
    metadata |= {"when": statement.when.isoformat()} if statement.when is not None else {}
    quote = clipped(one.quote, LONGEST_QUOTE)
    return RememberRequest(
        content=statement.text,
        kind=KINDS[statement.category],
        tags=[statement.category],
        cites=[cite.log(said.id, timestamp=said.created_at, context=quote) for said in one.messages],
        author=message.name or message.role,
        at=message.created_at,
        metadata=metadata,
        relates={known.id: MAY_SUPERSEDE for known in one.known} if one.finding == "contradiction" else {},
        **_owners(session, message),
    )


def _view(one: _Proposal, id: str | None) -> ExtractedMemory:
    return ExtractedMemory(
        id=id,
        text=one.statement.text,
        category=one.statement.category,
        kind=KINDS[one.statement.category],
        finding=one.finding,
        messages=[said.id for said in one.messages],
        quote=one.quote,
        when=one.statement.when,
        known=[known.id for known in one.known],
        known_text=one.known[0].text if one.known else "",
    )


def _usage(readings: Sequence[Reading]) -> JsonObject:
    """What all answers together took."""
    total: JsonObject = {}
    for used in (reading.metadata.get("usage", {}) for reading in readings):
        for name, value in used.items():
            total[name] = total.get(name, 0) + value if isinstance(value, int) else value
    return total
