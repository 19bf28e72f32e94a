"""A message changes, and keeps what it said; and a message becomes a memory that cites it.

A trusted memory that cites a message is a hypothesis again when the words it rests on are no longer in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import TRUSTED, Memory, Revision, owner_key
from recollect.domain.provenance import Citation, cite
from recollect.domain.record import JsonList, Name, Text
from recollect.errors import InvalidInput
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.steps import Insert, Step, Update
from recollect.retry import retry_unless_pinned
from recollect.services.conversations.messages import (
    MessageRequest,
    MessageView,
    refuse_empty,
    session_guards,
    view,
)
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.message_vectors import changed_steps
from recollect.services.memories.remember import remember
from recollect.services.memories.revise import Receipt, change_steps, fallen_steps
from recollect.services.request_limits import MOST_TAGS
from recollect.services.requests import ListReply, Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, logged, made, rewritten


class ReviseMessageRequest(MessageRequest):
    """Change what a message says; what is left out stays. What it said before is kept."""

    text: Text | None = Field(None, description="What is said, from now on")
    content: JsonList | None = Field(None, description="Its content parts from now on")
    why: Text = Field("", max_length=10_000, description="Why it changed")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


class RevisedMessage(MessageView):
    """The message as it is now, and which memories cite it: they may rest on what it said before."""

    cited_by: list[str] = Field(default_factory=list, description="Memories that cite it; look at them again")
    demoted: list[str] = Field(
        default_factory=list, description="Those of them that were trusted and whose words are no longer in it"
    )


def revise(tenant: Tenant, request: ReviseMessageRequest) -> RevisedMessage:
    """Change a message; `message.history` shows what it said before."""
    fields = {name: value for name in ("text", "content") if (value := getattr(request, name)) is not None}
    if not fields:
        raise InvalidInput("nothing to change was given", remedy="give text or content")

    def attempt() -> RevisedMessage:
        message = as_of_version(load(tenant, Message, request.id), request.version)
        after = rewritten(message, tenant, **fields)
        refuse_empty(after)
        guards = session_guards(tenant, [message.session_id] if message.session_id else [])
        entry = logged(tenant, "update", "revise message", None, id=message.id, fields=sorted(fields))
        kept = Insert(_former(tenant, message, after, request.why), restoring=True)
        citing = Query(Citation, (equal("source", cite.log(message.id).source()),))
        citations = tenant.find(citing).records
        fallen = _no_longer_told(tenant, citations, after)
        commit(
            tenant,
            [
                *guards,
                Update(after),
                kept,
                *changed_steps(tenant, message, after),
                *_demoting_steps(tenant, fallen, message),
                entry,
            ],
        )
        return RevisedMessage(
            **view(after.changed(version=message.version + 1)).model_dump(),
            cited_by=sorted({one.memory_id for one in citations}),
            demoted=[memory.id for memory in fallen],
        )

    return retry_unless_pinned(request.version, attempt)


def _former(tenant: Tenant, message: Message, after: Message, why: str) -> Revision:
    return made(
        Revision,
        tenant,
        memory_id=owner_key(message),
        message_id=message.id,
        number=message.version,
        change="revised",
        why=why,
        state=message.model_dump(mode="json"),
        text=message.text or "",
        held_from=message.updated_at,
        held_to=after.updated_at,
    )


def _no_longer_told(tenant: Tenant, citations: Sequence[Citation], message: Message) -> list[Memory]:
    """The trusted memories whose words, or the words they quote, are not in the message any more."""
    quoted = {one.memory_id: str(one.evidence.get("context", "")) for one in citations}
    trusted = (OneOf("id", tuple(quoted)), OneOf("status", tuple(sorted(TRUSTED))))
    resting = tenant.find(Query(Memory, trusted)).records if quoted else []
    said = (message.text or "").casefold()
    return [
        one for one in resting if not any(words.casefold() in said for words in (quoted[one.id], one.text) if words)
    ]


def _demoting_steps(tenant: Tenant, fallen: Sequence[Memory], message: Message) -> list[Step]:
    why = f"message {message.id}, which it cites, was revised"
    steps = [step for memory in fallen for step in change_steps(tenant, memory, "demoted", why, status="hypothesis")]
    return [*steps, *fallen_steps(tenant, fallen, "was demoted")]


class MessageState(Reply):
    """What a message said for a time, and the change that ended it."""

    number: int
    text: str | None = None
    held_from: datetime
    held_to: datetime | None = None
    why: str = ""
    by: str | None = None


class MessageHistory(ListReply[MessageState]):
    """The states of a message, the oldest first; the last is how it is now."""

    id: str
    entries: list[MessageState]


def history(tenant: Tenant, request: MessageRequest) -> MessageHistory:
    """Everything a message has said, oldest first; the last is what it says now."""
    message = load(tenant, Message, request.id)
    former = tenant.find(Query(Revision, (equal("message_id", message.id),), (Order("number"),))).records
    entries = [
        MessageState(
            number=one.number, text=one.text, held_from=one.held_from, held_to=one.held_to, why=one.why,
            by=one.created_by,
        )
        for one in former
    ]  # fmt: skip
    current = MessageState(number=message.version, text=message.text, held_from=message.updated_at)
    return MessageHistory(id=message.id, entries=[*entries, current])


class RememberMessageRequest(MessageRequest):
    """A message that is worth keeping as a memory."""

    content: Text = Field("", description="What to remember; the text of the message if left out")
    kind: Name = Field("fact", description="What it is: fact, preference, observation, …")
    tags: list[str] = Field(default_factory=list, max_length=MOST_TAGS, description="Words to find it by")


class RememberedMessage(Receipt):
    """What became of the memory, and what it says."""

    text: str


def remember_message(tenant: Tenant, request: RememberMessageRequest) -> RememberedMessage:
    """Remember a message as a memory that cites it; the same message again is one memory."""
    message = load(tenant, Message, request.id)
    text = request.content.strip() or (message.text or "").strip()
    if not text:
        raise InvalidInput("that message has no text", remedy="give `content`: what to remember of it", id=message.id)
    session = tenant.get(Session, message.session_id) if message.session_id else None
    receipt = remember(
        tenant,
        RememberRequest(
            content=text,
            kind=request.kind,
            tags=request.tags,
            cites=[cite.log(message.id, timestamp=message.created_at, context="message")],
            author=message.name or message.role,
            at=message.created_at,
            user=message.user_id or (session.user_id if session else None),
            agent=message.agent_id or (session.agent_id if session else None),
            session=message.session_id,
            project=session.project_id if session else None,
            on_duplicate="return",
        ),
    )
    return RememberedMessage(**receipt.model_dump(), text=text)
