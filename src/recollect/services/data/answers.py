"""The answer of a query as a memory: a fact in words that cites the query, and is demoted when the data change it."""

from __future__ import annotations

from pydantic import Field as Having

from recollect.domain.answers import answer_text
from recollect.domain.provenance import cite
from recollect.domain.record import Name, Text
from recollect.domain.sources import QueryRun
from recollect.errors import InvalidInput
from recollect.services.data.queries import QueryRequest
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import remember
from recollect.services.memories.revise import Receipt
from recollect.services.request_limits import MOST_TAGS
from recollect.services.tenant import Tenant
from recollect.services.transaction import load


class RememberAnswerRequest(QueryRequest):
    """A run whose answer is worth keeping."""

    content: Text = Having("", description="What to remember; made of the question and the result if left out")
    kind: Name = Having("fact", description="What it is: fact, observation, …")
    tags: list[str] = Having(default_factory=list, max_length=MOST_TAGS, description="Words to find it by")


class AnswerReceipt(Receipt):
    """What became of the memory, and what it says."""

    text: str


def remember_answer(tenant: Tenant, request: RememberAnswerRequest) -> AnswerReceipt:
    """Remember the answer of a run as a memory that cites the query; the same answer again is one memory."""
    run = load(tenant, QueryRun, request.run)
    if run.status != "done":
        raise InvalidInput("that run has no result", remedy="remember a query that has run", id=run.id)
    text = request.content.strip() or _told(run)
    receipt = remember(
        tenant,
        RememberRequest(
            content=text,
            kind=request.kind,
            tags=request.tags,
            cites=[cite.query(run.id)],
            user=run.user_id,
            agent=run.agent_id,
            session=run.session_id,
            project=run.project_id,
        ),
    )
    return AnswerReceipt(**receipt.model_dump(), text=text)


def _told(run: QueryRun) -> str:
    columns = [name for name, _ in run.result_columns]
    return answer_text(run.question.strip() or run.sql, columns, run.rows, run.row_count)
