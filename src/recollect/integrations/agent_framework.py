"""Microsoft Agent Framework on Recollect: the history of conversations, and what is known about the user.

    agent = Agent(client=client, context_providers=[
        RecollectHistoryProvider(mem, user="ann"), RecollectContextProvider(mem, user="ann")])

The history provider keeps each conversation as a session of ours and gives it back as it was. The context provider
shows the model, beside the question, what is known about it from all of the user's conversations, and has tools to
remember, recall and forget. `user` may be a function of the framework's session, for an agent that serves many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from recollect.errors import InvalidInput, MissingExtra
from recollect.integrations.kept_items import given_back, kept_if_it_fits, searchable
from recollect.integrations.memory_tools import TOKENS, TOOLS, MemoryTools
from recollect.integrations.scoped_memory import ScopedMemory, in_thread
from recollect.integrations.storable_text import storable

try:
    from agent_framework import AgentSession, ContextProvider, FunctionTool, HistoryProvider, Message
except ImportError:
    raise MissingExtra(
        "Microsoft Agent Framework is not installed", remedy="pip install 'recollect[agent-framework]'"
    ) from None

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect

MESSAGE = "agent_framework_message"
ROLES = ("user", "assistant", "system", "tool")
User = str | Callable[[AgentSession], str]


class RecollectHistoryProvider(HistoryProvider):
    """The messages of conversations; `options` are those of the framework's own history providers."""

    def __init__(
        self,
        mem: Recollect | AsyncRecollect,
        *,
        user: User,
        project: str | None = None,
        source_id: str = "recollect_history",
        newest: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self._mem, self._user, self._project, self._newest = mem, user, project, newest

    async def before_run(self, *, session: AgentSession, state: dict[str, Any], **given: Any) -> None:
        state["user"] = _name(self._user, session)
        await super().before_run(session=session, state=state, **given)

    async def after_run(self, *, session: AgentSession, state: dict[str, Any], **given: Any) -> None:
        state["user"] = _name(self._user, session)
        await super().after_run(session=session, state=state, **given)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **given: Any
    ) -> list[Message]:
        """The conversation, the oldest message first; only the `newest`, if so many were asked for."""
        if session_id is None:
            return []
        said = await in_thread(self._mem, lambda mem: self._theirs(mem, state).said(session_id, self._newest))
        items = [given_back(message, MESSAGE) for message in said]
        return [Message.from_dict(item) for item in items if item is not None]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **given: Any,
    ) -> None:
        """Add messages at the end, all or none. One with an id that is there already is not added again."""
        if session_id is not None and messages:
            ours = [_message(message) for message in messages]
            await in_thread(self._mem, lambda mem: self._theirs(mem, state).say(session_id, ours))

    def _theirs(self, mem: Recollect, state: dict[str, Any] | None) -> ScopedMemory:
        user = self._user if isinstance(self._user, str) else (state or {}).get("user")
        if user is None:
            raise InvalidInput("nothing says whose conversation it is", remedy='give state={"user": …}')
        return ScopedMemory(mem, user, self._project)


class RecollectContextProvider(ContextProvider):
    """What is known about a question, up to `tokens` of it, and tools to remember, recall and forget."""

    def __init__(
        self,
        mem: Recollect | AsyncRecollect,
        *,
        user: User,
        project: str | None = None,
        source_id: str = "recollect",
        tokens: int = TOKENS,
        tools: bool = True,
    ) -> None:
        super().__init__(source_id)
        self._mem, self._user, self._project = mem, user, project
        self._tokens, self._tools = tokens, tools

    async def before_run(self, *, agent: Any, session: AgentSession, context: Any, state: dict[str, Any]) -> None:
        user = _name(self._user, session)
        question = "\n".join(message.text for message in context.input_messages if message.role == "user")
        known = await in_thread(
            self._mem, lambda mem: ScopedMemory(mem, user, self._project).context(question, self._tokens)
        )
        if known:
            context.extend_messages(self, [Message("user", [known])])
        if self._tools:
            context.extend_tools(self.source_id, [self._tool(name, user, agent) for name in TOOLS])

    def _tool(self, name: str, user: str, agent: Any) -> FunctionTool:
        description, argument, meaning = TOOLS[name]
        schema = {
            "type": "object",
            "properties": {argument: {"type": "string", "description": meaning}},
            "required": [argument],
        }
        use = _user_of_tool(self._mem, name, argument, user, self._project, getattr(agent, "name", None))
        return FunctionTool(name=name, description=description, func=use, input_model=schema)


def _user_of_tool(
    mem: Recollect | AsyncRecollect, name: str, argument: str, user: str, project: str | None, agent: str | None
) -> Callable[..., Awaitable[str]]:
    async def use(**given: str) -> str:
        return await in_thread(
            mem, lambda open: MemoryTools(ScopedMemory(open, user, project), agent).use(name, given[argument])
        )

    return use


def _name(user: User, session: AgentSession) -> str:
    return user if isinstance(user, str) else user(session)


def _message(message: Message) -> Json:
    item = {name: value for name, value in message.to_dict().items() if name != "raw_representation"}
    written = json.dumps(item, sort_keys=True, default=str)
    # The id alone does not do: some clients give that of a response to each of its messages.
    otid = f"{message.message_id}:{hashlib.sha256(written.encode()).hexdigest()}" if message.message_id else None
    return {
        "role": message.role if message.role in ROLES else "assistant",
        "text": searchable(message.text),
        "name": storable(message.author_name) if message.author_name else None,
        "content": [kept_if_it_fits(json.loads(written), MESSAGE)],
        "otid": storable(otid) if otid else None,
    }
