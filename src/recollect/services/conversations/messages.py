"""Messages: what was said in a session or to an agent, in the order it was said.

Messages are listed by id, which grows with time; those added together keep their order. A message with an `otid` (the
sender's own id of it) is added once per session: adding it again gives the first one back. What a message refers to
exists when it is written. Taking one back (`pop`) and clearing are for good; removing is not (admin/record_removal.py).
Their text is indexed by words and meaning, so that `recall` finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.conversations import Message, Role, Session
from recollect.domain.kinds import TEXT_LIMIT
from recollect.domain.memory import Memory, canonical
from recollect.domain.record import Id, JsonArray, JsonList, QueryText, Record, Text, id_after
from recollect.domain.sources import Source
from recollect.errors import (
    Conflict,
    DuplicateKey,
    IllegalTransition,
    InvalidInput,
    ReferenceMissing,
    RequirementFailed,
    TooLarge,
)
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Require, Step
from recollect.services.agents.agents import at_work
from recollect.services.erasure import erase_traces, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.memories.derived import erasing_steps
from recollect.services.memories.message_vectors import embedding_steps
from recollect.services.parties import restorable_until, shown
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import commit, load, logged, made, refuse_cold

MOST_AT_ONCE = 5000
REFERABLE: dict[str, type[Record]] = {"memory": Memory, "source": Source}


class MessageReference(Request):
    """Something a message points at."""

    type: Literal["memory", "source"] = Field(description="What it points at")
    id: Id = Field(description="Which one")


class NewMessage(Request):
    """One message."""

    role: Role = Field(description="Who speaks: user, assistant, system or tool")
    text: Text | None = Field(None, description="What is said, as plain text; this is what search finds")
    session: Id | None = Field(None, description="The session it belongs to")
    user: Id | None = Field(None, description="The user it is from or for")
    agent: Id | None = Field(None, description="The agent it is from or for")
    content: JsonList = Field(default_factory=list, description="Content parts: text, images, … as models take them")
    model: Text | None = Field(None, description="The model that wrote it")
    name: Text | None = Field(None, description="The speaker's name")
    tool_calls: JsonList = Field(default_factory=list, description="The tool calls it asks for")
    tool_call_id: Text | None = Field(None, description="The tool call it answers")
    tool_returns: JsonList = Field(default_factory=list, description="What the tools gave back")
    step_id: Text | None = Field(None, description="The step of the agent it was made in")
    otid: Text | None = Field(
        None, description="The sender's own id of it: added again in a session, it is the same message"
    )
    group_id: Text | None = Field(None, description="The group of agents it was said in")
    sender_id: Text | None = Field(None, description="Who sent it, where that is not the user or agent")
    references: list[MessageReference | str] = Field(
        default_factory=list, description="Memories and sources it refers to: {type, id}, or memory:ID, source:ID"
    )


class MessageView(Reply):
    """A message; `duplicate` when it was there already under its otid."""

    id: str
    role: str
    text: str | None = None
    session: str | None = None
    user: str | None = None
    agent: str | None = None
    content: JsonArray = Field(default_factory=list)
    model: str | None = None
    name: str | None = None
    tool_calls: JsonArray = Field(default_factory=list)
    tool_call_id: str | None = None
    tool_returns: JsonArray = Field(default_factory=list)
    step_id: str | None = None
    otid: str | None = None
    group_id: str | None = None
    sender_id: str | None = None
    references: list[dict[str, str]] = Field(default_factory=list)
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `message.restore` until then")
    duplicate: bool = False


def add(tenant: Tenant, request: NewMessage) -> MessageView:
    """Add one message."""
    return add_many(tenant, AddMessagesRequest(messages=[request])).messages[0]


class AddMessagesRequest(Request):
    """Several messages, in order."""

    messages: list[NewMessage] = Field(
        min_length=1, max_length=MOST_AT_ONCE, description="The messages, the first said first"
    )
    session: Id | None = Field(None, description="The session of those that name none")
    user: Id | None = Field(None, description="The user of those that name none")
    agent: Id | None = Field(None, description="The agent of those that name none")


class AddMessagesReply(Reply):
    messages: list[MessageView]


def add_many(tenant: Tenant, request: AddMessagesRequest) -> AddMessagesReply:
    """Add several messages, all or none, in the order given."""
    drafts = _in_order(tenant, [_draft(tenant, one, request) for one in request.messages])
    return AddMessagesReply(messages=_added(tenant, drafts))


def _in_order(tenant: Tenant, drafts: Sequence[Message]) -> list[Message]:
    """With ids after those that are in their sessions already, even if the clock of who spoke last is ahead of ours."""
    last: dict[str | None, str] = {None: ""}
    ordered: list[Message] = []
    for draft in drafts:
        if draft.session_id not in last:
            newest = Query(Message, (equal("session_id", draft.session_id),), (Order("id", descending=True),), limit=1)
            last[draft.session_id] = next((id for (id,) in tenant.select(newest, ("id",))), "")
        late = draft.id <= last[draft.session_id]
        ordered.append(draft.changed(id=id_after(last[draft.session_id])) if late else draft)
        if draft.session_id is not None:
            last[draft.session_id] = ordered[-1].id
    return ordered


def _draft(tenant: Tenant, given: NewMessage, together: AddMessagesRequest) -> Message:
    refuse_empty(given)
    owners = {f"{name}_id": getattr(given, name) or getattr(together, name) for name in ("session", "user", "agent")}
    kept = given.model_dump(exclude={"session", "user", "agent", "references"})
    message: Message = made(Message, tenant, **owners, **kept, references=[_reference(one) for one in given.references])
    return message


def refuse_empty(message: NewMessage | Message) -> None:
    """Refuse a message with nothing in it, and one that is too large."""
    if not (message.text or message.content or message.tool_calls or message.tool_returns):
        raise InvalidInput("there is nothing in that message", remedy="give text, content, tool_calls or tool_returns")
    parts = [message.content, message.tool_calls, message.tool_returns]
    size = len(message.text or "") + len(canonical(parts))
    if size > TEXT_LIMIT:
        raise TooLarge(f"a message of {size} characters", remedy=f"split it: at most {TEXT_LIMIT} fit in one message")


def _reference(given: MessageReference | str) -> dict[str, str]:
    if isinstance(given, str):
        type, _, id = given.partition(":")
        if type not in REFERABLE or not id:
            raise InvalidInput(f"'{given[:80]}' is no reference", remedy="write memory:ID or source:ID")
        return {"type": type, "id": id}
    return {"type": given.type, "id": given.id}


def _guards(tenant: Tenant, drafts: Sequence[Message]) -> list[Step]:
    """Nothing is said in an archived or cold session or to a retired agent, not even in a race with archiving."""
    sessions = dict.fromkeys(draft.session_id for draft in drafts if draft.session_id)
    agents = dict.fromkeys(draft.agent_id for draft in drafts if draft.agent_id)
    return [*(step for id in agents for step in at_work(tenant, id)), *session_guards(tenant, sessions)]


def session_guards(tenant: Tenant, sessions: Iterable[str]) -> list[Step]:
    """Refuses to write what is said in an archived or cold session, now and when it is committed."""
    steps: list[Step] = []
    for id in sessions:
        session = tenant.get(Session, id)
        refuse_cold(tenant, session)
        if session is not None and session.is_archived:
            raise IllegalTransition(
                "that session is archived", remedy=f"unarchive it first: session unarchive {id}", id=id
            )
        steps += [Require(Session, id, {"is_archived": False, "cold_at": None})] if session is not None else []
    return steps


def _references(drafts: Sequence[Message]) -> list[Require]:
    wanted = dict.fromkeys((one["type"], one["id"]) for draft in drafts for one in draft.references)
    return [Require(REFERABLE[type], id) for type, id in wanted]


def _added(tenant: Tenant, drafts: Sequence[Message], looks: int = 3) -> list[MessageView]:
    guards, references = _guards(tenant, drafts), _references(drafts)
    known = _known(tenant, drafts)
    fresh: dict[str, Message] = {}
    for draft in drafts:
        if _key(draft) not in known:
            known[_key(draft)] = fresh[draft.id] = draft
    steps: list[Step] = [step for draft in fresh.values() for step in (*_not_there(draft), Insert(draft))]
    steps += embedding_steps(tenant, list(fresh.values()))
    try:
        if steps:
            entry = logged(tenant, "create", "add messages", None, ids=list(fresh)[:100], count=len(fresh))
            commit(tenant, [*guards, *references, *steps, entry])
    except (RequirementFailed, DuplicateKey):
        _refuse_missing(tenant, references)
        if not looks:
            raise
        return _added(tenant, drafts, looks - 1)  # somebody added the same, or archived, a moment ago: look again
    return [view(known[_key(draft)], duplicate=known[_key(draft)].id != draft.id) for draft in drafts]


def _refuse_missing(tenant: Tenant, references: Sequence[Require]) -> None:
    for step in references:
        if tenant.get(step.record, step.id) is None:
            raise ReferenceMissing(
                f"there is no {step.record.shape.table} '{step.id[:80]}' to refer to",
                remedy="check the id, or leave the reference out",
                id=step.id,
            )


def _key(message: Message) -> tuple[str | None, str]:
    """What makes two messages the same: the otid in a session; without one, each is its own."""
    return (message.session_id, f"otid:{message.otid}") if message.otid else (None, message.id)


def _known(tenant: Tenant, drafts: Sequence[Message]) -> dict[tuple[str | None, str], Message]:
    otids: dict[str | None, list[str]] = {}
    for draft in drafts:
        if draft.otid:
            otids.setdefault(draft.session_id, []).append(draft.otid)
    found = [
        message
        for session, names in otids.items()
        for message in tenant.find(Query(Message, _same_otid(session, *names), deleted="yes")).records
    ]
    removed = next((message for message in found if message.is_deleted and message.session_id is not None), None)
    if removed is not None:
        raise Conflict(
            f"message '{removed.id}' with that otid was removed", remedy="restore it: message.restore", id=removed.id
        )
    return {_key(message): message for message in found if not message.is_deleted}


def _same_otid(session: str | None, *otids: str) -> tuple[Filter, ...]:
    return (equal("session_id", session), OneOf("otid", otids))


def _not_there(draft: Message) -> list[Step]:
    """In a session the unique key watches over otids; among messages without one, nothing else would."""
    return [Absent(Message, _same_otid(None, draft.otid))] if draft.otid and draft.session_id is None else []


class MessageSelection(Request):
    """Messages of a session, an agent or a user."""

    session: Id | None = Field(None, description="Only of this session")
    agent: Id | None = Field(None, description="Only with this agent")
    user: Id | None = Field(None, description="Only with this user")

    def filters(self) -> tuple[Filter, ...]:
        given = (("session_id", self.session), ("agent_id", self.agent), ("user_id", self.user))
        return tuple(equal(name, value) for name, value in given if value is not None)

    def refuse_nobody(self) -> None:
        if not self.filters():
            raise InvalidInput("nothing says whose messages", remedy="give session, agent or user")


class ListMessagesRequest(MessageSelection):
    """Which messages to list, and from which end."""

    since: From | None = Field(None, description="Only said at this time or later")
    until: Through | None = Field(None, description="Only said before this time; a date counts whole")
    role: Role | None = Field(None, description="Only by this role")
    group_id: QueryText | None = Field(None, description="Only of this group")
    step_id: QueryText | None = Field(None, description="Only of this step")
    removed: bool = Field(False, description="List removed ones that can be restored instead")
    first: Literal["oldest", "newest"] = Field("oldest", description="Which end to begin at")
    limit: int = Field(100, ge=1, le=5000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class MessagePage(PageReply[MessageView]):
    """Messages in the order that was asked for, the oldest first if none was."""

    messages: list[MessageView]


def list_messages(tenant: Tenant, request: ListMessagesRequest) -> MessagePage:
    """Messages in order, a page at a time."""
    more = (("role", request.role), ("group_id", request.group_id), ("step_id", request.step_id))
    where = (*request.filters(), *(equal(name, value) for name, value in more if value is not None))
    where += said_between(request.since, request.until)
    order = (Order("id", descending=request.first == "newest"),)
    page = tenant.find(Query(Message, where, order, request.limit, request.after, shown(request.removed)))
    if not page.records and request.session is not None:
        refuse_cold(tenant, tenant.get(Session, request.session))
    shown_ones = [
        view(one).model_copy(update={"restorable_until": restorable_until(tenant, one)}) for one in page.records
    ]
    return MessagePage(messages=shown_ones, next=page.next)


def said_between(since: datetime | None, until: datetime | None) -> tuple[Filter, ...]:
    after: tuple[Filter, ...] = (Compare("created_at", ">=", since),) if since is not None else ()
    return (*after, Compare("created_at", "<", until)) if until is not None else after


class MessageRequest(Request):
    """One message."""

    id: Id = Field(description="The message")


def show(tenant: Tenant, request: MessageRequest) -> MessageView:
    """One message with everything it carries."""
    return view(load(tenant, Message, request.id))


class RemoveMessagesReply(Reply):
    removed: int
    users: dict[str, int] = Field(default_factory=dict, description="How many of them each user said")


class ClearMessagesRequest(MessageSelection):
    """Whose messages to delete. Those of several users are only deleted if you say so."""

    with_others: bool = Field(False, description="Also if several users said them")
    dry_run: bool = Field(False, description="Only say how many, and whose they are")


def clear(tenant: Tenant, request: ClearMessagesRequest) -> RemoveMessagesReply:
    """Delete all messages of a session, an agent or a user for good, traces included."""
    request.refuse_nobody()
    rows = tenant.select(Query(Message, request.filters()), ("id", "user_id"))
    ids, users = [id for id, _ in rows], dict(Counter(user for _, user in rows if user is not None))
    if request.dry_run:
        return RemoveMessagesReply(removed=0, users=users)
    if len(users) > 1 and not request.with_others:
        raise Conflict(
            f"{len(users)} users said them",
            remedy="name the user whose messages go, or say with_others=True; dry_run=True shows whose they are",
            users=sorted(users)[:20],
        )
    refuse_held(tenant, {"message": ids})
    if ids:
        asked = request.model_dump(exclude_none=True, include={"session", "agent", "user"})
        entry = logged(tenant, "delete", "clear messages", None, count=len(ids), **asked)
        these = DeleteWhere(Message, (OneOf("id", tuple(ids)),))  # what is said from now on stays
        commit(tenant, [*erasing_steps(tenant, [], ids), these, owing(tenant, ids[0]), entry])
        erase_traces(tenant)
    return RemoveMessagesReply(removed=len(ids), users=users)


class PopMessagesReply(Reply):
    """The message that was taken; none when there was none."""

    message: MessageView | None = None


def pop(tenant: Tenant, request: MessageSelection) -> PopMessagesReply:
    """Take the last message away and give it back. Of several callers at once, each gets another one.

    Unlike `remove` it does not sweep up the traces on disk, since programs take back messages often.
    """
    request.refuse_nobody()
    last = Query(Message, request.filters(), (Order("id", descending=True),), limit=1)
    while True:
        found = tenant.find(last).records
        if not found:
            return PopMessagesReply()
        message = found[0]
        refuse_held(tenant, {"message": [message.id]})
        still_there = Require(Message, message.id, {"version": message.version})
        try:
            entry = logged(tenant, "delete", "pop message", None, id=message.id)
            copies = erasing_steps(tenant, [], [message.id])
            commit(tenant, [still_there, *copies, Delete(Message, message.id), entry])
        except RequirementFailed:
            continue  # somebody else took it: take the one before
        return PopMessagesReply(message=view(message))


def view(message: Message, duplicate: bool = False) -> MessageView:
    fields = message.model_dump(include=set(MessageView.model_fields))
    owners = {name: getattr(message, f"{name}_id") for name in ("session", "user", "agent")}
    return MessageView(**fields, **owners, duplicate=duplicate)
