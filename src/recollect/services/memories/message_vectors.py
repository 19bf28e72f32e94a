"""Vectors of messages: made with them, deleted with them, made anew when their text changes.

They are made by the same models as those of memories, and `reindex` and the background make those that are owed. A
message without text, such as one that only calls tools, has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.domain.conversations import Message
from recollect.domain.memory import Embedding, IndexTask
from recollect.ports.query import Compare, Filter, IsNull, Linked, OneOf, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Put, Step
from recollect.services.memories.embedded_records import embedded_message
from recollect.services.memories.embeddings import index_steps, task_steps
from recollect.services.tenant import Tenant

MESSAGES_AT_ONCE = 64
"""Messages that are embedded while whoever adds them waits; of more, all vectors are owed."""
LATER = "many messages get their vectors in the background or by `reindex`; their words find them at once"
WITH_TEXT: tuple[Filter, ...] = (IsNull("text", wanted=False), Compare("text", "!=", ""))


def embedding_steps(tenant: Tenant, messages: Sequence[Message]) -> list[Step]:
    """The steps that give new messages their vectors, or note that they are owed."""
    wanted = [embedded_message(one) for one in messages if one.text]
    if len(wanted) <= MESSAGES_AT_ONCE:
        return index_steps(tenant, wanted)[0]
    return [step for embedder in tenant.embedders for one in wanted for step in task_steps(one, embedder.model, LATER)]


def changed_steps(tenant: Tenant, before: Message, after: Message) -> list[Step]:
    """The steps that bring the vectors of a changed message up to date."""
    of_it = (equal("message_id", after.id),)
    if (before.text or "") != (after.text or ""):
        return [DeleteWhere(Embedding, of_it), DeleteWhere(IndexTask, of_it), *embedding_steps(tenant, [after])]
    facets = embedded_message(after).facets
    if embedded_message(before).facets == facets:
        return []
    return [Put(one.changed(facets=facets), restoring=True) for one in tenant.find(Query(Embedding, of_it)).records]


def restored_steps(tenant: Tenant, messages: Sequence[Message]) -> list[Step]:
    """The steps that give removed messages that are restored the vectors that they lack: those that were owed."""
    if not messages:
        return []
    of_these = (OneOf("message_id", tuple(one.id for one in messages)),)
    rows = tenant.select_each([(Query(record, of_these), ("message_id",)) for record in (Embedding, IndexTask)])
    known = {id for some in rows for (id,) in some}
    return embedding_steps(tenant, [one for one in messages if one.id not in known])


def messages_without_vector(model: str) -> Query[Message]:
    """Messages that have none by this model."""
    none = Linked(Embedding, "message_id", (equal("model", model),), wanted=False)
    return Query(Message, (*WITH_TEXT, none), (Order("id"),))
