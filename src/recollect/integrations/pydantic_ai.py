"""A capability of Pydantic AI: the memory of the user who talks to an agent.

    agent = Agent(model, capabilities=[RecollectMemory(mem, user=lambda ctx: ctx.deps.user)])

Before a run the model is shown what is known about the question, as data beside the prompt and not as instruction; in
the history of the run it does not appear. The model has tools to remember, recall and forget. What was said in a run
that ended well is stored, once, as messages of a session of the user; `history` gives it back as the framework had it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from recollect.errors import MissingExtra
from recollect.integrations.kept_items import given_back, kept_if_it_fits, searchable
from recollect.integrations.memory_tools import TOKENS, TOOLS, MemoryTools
from recollect.integrations.scoped_memory import ScopedMemory, in_thread

try:
    from pydantic_ai import FunctionToolset, ModelMessagesTypeAdapter, RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
except ImportError:
    raise MissingExtra("Pydantic AI is not installed", remedy="pip install 'recollect[pydantic-ai]'") from None

if TYPE_CHECKING:
    from pydantic_ai import AgentRunResult
    from pydantic_ai.models import ModelRequestContext

    from recollect.domain.record import Json
    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect

MESSAGE = "pydantic_ai_message"


@dataclass
class RecollectMemory(AbstractCapability[Any]):
    """The memory of one user, or of the one that `user` names for a run, in a project if one is named.

    `tokens` is how much is recalled for a question, 0 for nothing; without `tools` the model has none, and without
    `store` nothing of what is said is stored.
    """

    mem: Recollect | AsyncRecollect
    _: KW_ONLY
    user: str | Callable[[RunContext[Any]], str]
    project: str | None = None
    tokens: int = TOKENS
    tools: bool = True
    store: bool = True
    _known: str | None = field(default=None, init=False, repr=False)

    async def for_run(self, ctx: RunContext[Any]) -> RecollectMemory:
        """Each run has its own, which recalls once."""
        return replace(self)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        return FunctionToolset([self._tool(name) for name in TOOLS]) if self.tools else None

    async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        if self._known is None:
            question = _said(ctx.prompt) if self.tokens else ""
            self._known = await self._ask(ctx, lambda theirs: theirs.context(question, self.tokens))
        messages = _with_context(request_context.messages, self._known)
        return replace(request_context, messages=messages) if self._known else request_context

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        session = ctx.conversation_id or ctx.run_id
        if self.store and session is not None:
            written = ModelMessagesTypeAdapter.dump_python(result.new_messages(), mode="json")
            said = zip(result.new_messages(), written, strict=True)
            messages = [_message(one, item, f"{ctx.run_id}:{n}") for n, (one, item) in enumerate(said)]
            await self._ask(ctx, lambda theirs: theirs.say(session, messages))
        return result

    async def history(
        self, conversation_id: str, *, user: str | None = None, newest: int | None = None
    ) -> list[ModelMessage]:
        """What was said in a conversation, for `message_history`; messages that came another way are left out."""
        whose = user if user is not None else self.user
        if not isinstance(whose, str):
            raise TypeError("name the user whose conversation it is: history(…, user=…)")
        said = await in_thread(
            self.mem, lambda mem: ScopedMemory(mem, whose, self.project).said(conversation_id, newest)
        )
        items = [given_back(message, MESSAGE) for message in said]
        return ModelMessagesTypeAdapter.validate_python([item for item in items if item is not None])

    async def _ask(self, ctx: RunContext[Any], work: Callable[[ScopedMemory], Any]) -> Any:
        user = self.user if isinstance(self.user, str) else self.user(ctx)
        return await in_thread(self.mem, lambda mem: work(ScopedMemory(mem, user, self.project)))

    def _tool(self, name: str) -> Tool[Any]:
        description, argument, meaning = TOOLS[name]

        async def use(ctx: RunContext[Any], **given: str) -> str:
            agent = ctx.agent.name if ctx.agent is not None else None
            tokens = self.tokens or TOKENS
            return await self._ask(ctx, lambda theirs: MemoryTools(theirs, agent, tokens).use(name, given[argument]))

        schema = {
            "type": "object",
            "properties": {argument: {"type": "string", "description": meaning}},
            "required": [argument],
            "additionalProperties": False,
        }
        return Tool.from_schema(use, name, description, schema, takes_ctx=True)


def _with_context(messages: Sequence[ModelMessage], known: str) -> list[ModelMessage]:
    """The messages, with what is known before the last prompt of the user."""
    for place in reversed(range(len(messages))):
        one = messages[place]
        if isinstance(one, ModelRequest) and any(isinstance(part, UserPromptPart) for part in one.parts):
            shown = replace(one, parts=[UserPromptPart(known), *one.parts])
            return [*messages[:place], shown, *messages[place + 1 :]]
    return [*messages]


def _message(message: ModelMessage, item: Json, otid: str) -> Json:
    """A message of theirs as one of ours: what the user and the model said is found, the rest only kept."""
    if isinstance(message, ModelResponse):
        role, texts = "assistant", [part.content for part in message.parts if isinstance(part, TextPart)]
    else:
        asked = [part for part in message.parts if isinstance(part, UserPromptPart)]
        role, texts = ("user" if asked else "tool"), [_said(part.content) for part in asked]
    text = searchable("\n".join(text for text in texts if text))
    return {"role": role, "text": text, "content": [kept_if_it_fits(item, MESSAGE)], "otid": otid}


def _said(prompt: Any) -> str:
    """The words in a prompt, which may have images between them."""
    parts = [prompt] if isinstance(prompt, str) else prompt or []
    texts = [part if isinstance(part, str) else getattr(part, "content", "") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)
