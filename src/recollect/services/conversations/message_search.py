"""Messages found by their words, or by what they mean."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recollect.domain.conversations import Message, Role, Session
from recollect.domain.memory import message_id
from recollect.domain.record import QueryText
from recollect.domain.text.questions import read_question
from recollect.ports.query import Filter, OneOf, Query, TextQuery, equal
from recollect.services.conversations.messages import MessageSelection, MessageView, said_between, view
from recollect.services.memories.message_vectors import WITH_TEXT
from recollect.services.recall.candidates import gather_near
from recollect.services.recall.message_conditions import MessageConditions
from recollect.services.requests import ListReply
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import refuse_cold

NO_MODEL = "there is no embedding model to compare meanings with: search by words"


class SearchMessagesRequest(MessageSelection):
    """Find messages by their words, or by what they mean."""

    query: QueryText = Field(min_length=1, description="The words to look for, any of them; or what to look for")
    by: Literal["words", "meaning"] = Field("words", description="By the words they share, or by nearness in meaning")
    role: Role | None = Field(None, description="Only by this role")
    since: From | None = Field(None, description="Only said at this time or later")
    until: Through | None = Field(None, description="Only said before this time; a date counts whole")
    limit: int = Field(20, ge=1, le=1000, description="How many at most")

    def facets(self) -> dict[str, tuple[str, ...]]:
        """What both indexes know."""
        given = (("session_id", self.session), ("agent_id", self.agent), ("user_id", self.user))
        return {name: (value,) for name, value in given if value is not None}

    def where(self) -> tuple[Filter, ...]:
        role = (equal("role", self.role),) if self.role is not None else ()
        return (*self.filters(), *role, *said_between(self.since, self.until))


class MessageHit(MessageView):
    """A message that was found. By words: the rarer those it shares, the higher its score; by meaning, how near."""

    score: float


class SearchMessagesReply(ListReply[MessageHit]):
    """Messages that were found, the best first. `notes` says what could not be searched."""

    hits: list[MessageHit]
    notes: list[str] = Field(default_factory=list)


def search(tenant: Tenant, request: SearchMessagesRequest) -> SearchMessagesReply:
    """Messages that have any of the words, or are near in meaning; the best first."""
    notes: list[str] = []
    scores = _by_words(tenant, request) if request.by == "words" else _by_meaning(tenant, request, notes)
    if not scores and request.session is not None:
        refuse_cold(tenant, tenant.get(Session, request.session))
    found = tenant.find(Query(Message, (OneOf("id", tuple(scores)),))).records if scores else []
    by_id = {message.id: message for message in found}
    hits = [MessageHit(**view(by_id[id]).model_dump(), score=score) for id, score in scores.items() if id in by_id]
    return SearchMessagesReply(hits=hits, notes=notes)


def _by_words(tenant: Tenant, request: SearchMessagesRequest) -> dict[str, float]:
    facets = request.facets() | ({"role": (request.role,)} if request.role is not None else {})
    words = TextQuery(Message, read_question(request.query).terms, request.limit, facets, request.where())
    return {hit.id: hit.score for hit in tenant.search_text(words)}


def _by_meaning(tenant: Tenant, request: SearchMessagesRequest, notes: list[str]) -> dict[str, float]:
    is_narrowed = bool(request.role or request.since or request.until)
    conditions = MessageConditions((*WITH_TEXT, *request.where()), (request.facets(),), is_narrowed)
    pool = gather_near(tenant, read_question(request.query), [conditions], None, request.limit)
    notes += pool.notes or ([NO_MODEL] if pool.vectors is None else [])
    return {message_id(hit.id): round(hit.score, 4) for hit in pool.ranked or ()}
