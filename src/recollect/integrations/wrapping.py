"""`recollect.wrap(client)`: the clients of the OpenAI and Anthropic SDKs, with a memory.

    client = recollect.wrap(OpenAI(), mem, user="alice")
    client.chat.completions.create(model=…, messages=…)

Before a call, what is recalled for the user's question goes in front of it, framed as data and within a budget of
tokens. After it, what was said and answered is stored in a session, and read for what is worth remembering. Nothing
else changes: the client is a copy of the same class, sharing its connections, and what it returns and raises is the
SDK's. A memory that fails is logged and left out, unless `strict`.

Shape: every method that asks a model (create, parse, stream, and their raw forms) sends its body by `_post` of its
resource; that one method is replaced, on the copy alone. `wire_formats` reads the bodies and replies.
Proof: `tests/integrations/test_wrapping.py`, with the real SDKs against a real endpoint.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from recollect.errors import InvalidInput
from recollect.integrations.storable_text import clipped
from recollect.integrations.wire_formats import ChatCompletions, Gathering, Messages, Responses, Said, WireFormat

if TYPE_CHECKING:
    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect

C = TypeVar("C")
T = TypeVar("T")
log = logging.getLogger("recollect.wrap")
PER_CALL = "recollect"  # the member of extra_body that changes the scope of one call
LONGEST_QUESTION = 2_000  # of a long message the end, where people ask
MOST_SESSIONS_KNOWN = 10_000
RAW = "x-stainless-raw-response"
FORMATS: dict[str, WireFormat] = {
    "/chat/completions": ChatCompletions(),
    "/responses": Responses(),
    "/v1/messages": Messages(),
}
RESOURCES = (("chat", "completions"), ("responses",), ("messages",), ("beta", "messages"))


@dataclass(frozen=True)
class MemoryScope:
    """Whose memory a call uses, and how. `recall` may hold fields of `context`, such as {"statuses": ["verified"]}."""

    user: str | None = None
    session: str | None = None
    project: str | None = None
    agent: str | None = None
    tokens: int = 1000
    recall: bool | Mapping[str, Any] = True
    store: bool = True
    extract: bool = True
    strict: bool = False

    def changed(self, given: Mapping[str, Any]) -> MemoryScope:
        known = [one.name for one in fields(self)]
        if unknown := sorted(set(given) - set(known)):
            raise InvalidInput(f"wrap knows no {', '.join(unknown)}", remedy=f"give {', '.join(known)}")
        another = {"user": given.get("user", self.user), "agent": given.get("agent", self.agent)}
        is_another = any(getattr(self, name) != value for name, value in another.items())
        fresh = {"session": f"chat-{uuid4()}"} if is_another else {}
        return replace(self, **{**fresh, **given})


class _Unset:
    """Tells what was not given from None."""


UNSET: Any = _Unset()


def wrap(
    client: C,
    mem: Recollect | AsyncRecollect | None = None,
    *,
    user: str | None = UNSET,
    session: str | None = UNSET,
    project: str | None = UNSET,
    agent: str | None = UNSET,
    tokens: int = UNSET,
    recall: bool | Mapping[str, Any] = UNSET,
    store: bool = UNSET,
    extract: bool = UNSET,
    strict: bool = UNSET,
) -> C:
    """A client that remembers: `OpenAI`, `AsyncOpenAI`, `Anthropic`, `AsyncAnthropic` and their subclasses.

    Without `mem`, the memory that the settings name is opened. Without `session`, the client gets one of its own. A
    wrapped client can be wrapped again for another user or session: what is not given stays, and another user or agent
    gets a session of their own. For one call, `extra_body={"recollect": {"user": "bob"}}` does the same, and
    `extra_body={"recollect": False}` leaves the memory out.
    """
    given = {
        "user": user,
        "session": session,
        "project": project,
        "agent": agent,
        "tokens": tokens,
        "recall": recall,
        "store": store,
        "extract": extract,
        "strict": strict,
    }
    chosen = {name: value for name, value in given.items() if value is not UNSET}
    former: ClientMemory | None = getattr(client, "_recollect", None)
    if former is not None and mem is None:
        return _remembering(client, replace(former, scope=former.scope.changed(chosen)))
    scope = MemoryScope(session=f"chat-{uuid4()}").changed(chosen)
    return _remembering(client, ClientMemory(mem if mem is not None else _opened(), scope))


def _opened() -> Recollect:
    import recollect

    return recollect.open()


def _remembering(client: C, memory: ClientMemory) -> C:
    """A copy of the client whose calls go through the memory; what it is copied to does, too."""
    if not callable(getattr(client, "copy", None)) or not callable(getattr(client, "post", None)):
        raise InvalidInput(
            f"{type(client).__name__} is no client of the OpenAI or Anthropic SDK",
            remedy="give OpenAI(), AsyncOpenAI(), Anthropic() or AsyncAnthropic()",
        )
    if hasattr(memory.mem, "aclose") and not inspect.iscoroutinefunction(getattr(client, "post", None)):
        raise InvalidInput("a client that is not awaited needs a memory that is not", remedy="use recollect.open")
    copied: Any = type(client).copy(client)  # type: ignore[attr-defined]
    for path in RESOURCES:
        resource = copied
        for name in path:
            resource = getattr(resource, name, None)
        if resource is not None and hasattr(resource, "_post"):
            resource._post = memory.posting(resource._post)
    copied._recollect = memory
    copied.copy = copied.with_options = lambda **options: _remembering(type(client).copy(copied, **options), memory)  # type: ignore[attr-defined]
    return copied  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ClientMemory:
    """The memory of one wrapped client; `made` are the sessions of projects that are known to exist."""

    mem: Recollect | AsyncRecollect
    scope: MemoryScope
    made: set[str] = field(default_factory=set)

    def posting(self, post: Callable[..., Any]) -> Callable[..., Any]:
        """The same request, with the memory around it. What asks no model is passed on."""
        is_async = inspect.iscoroutinefunction(post)

        def posted(path: str, **sent: Any) -> Any:
            format = FORMATS.get(path.partition("?")[0])
            if format is None or not isinstance(sent.get("body"), dict):
                return post(path, **sent)
            call = _Call(self, format, *self._asked(sent))
            return call.awaited(post, path) if is_async else call.run(post, path)

        return posted

    def _asked(self, sent: dict[str, Any]) -> tuple[MemoryScope | None, dict[str, Any]]:
        """The scope of this call, None for no memory, and the request without what was said about it."""
        options = sent.get("options") or {}
        extra = options.get("extra_json")
        if not isinstance(extra, Mapping) or PER_CALL not in extra:
            return self.scope, sent
        left = {name: value for name, value in extra.items() if name != PER_CALL}
        sent = {**sent, "options": {**options, "extra_json": left}}
        given = extra[PER_CALL]
        if isinstance(given, Mapping):
            return self.scope.changed(given), sent
        return (None if given is False else self.scope), sent

    def context(self, mem: Recollect, scope: MemoryScope, question: str) -> str:
        owners = {"user": scope.user, "project": scope.project, "agent": scope.agent}
        chosen = {name: value for name, value in owners.items() if value is not None}
        more = scope.recall if isinstance(scope.recall, Mapping) else {}
        asked: dict[str, Any] = {"also_session": scope.session, "tokens": scope.tokens, **chosen, **more}
        found = mem.context(clipped(question[-LONGEST_QUESTION:]), **asked)
        return found.text if found.used else ""

    def keep(self, mem: Recollect, scope: MemoryScope, messages: list[Said], *, is_whole: bool) -> None:
        """Into the session, which is made if need be; the end of a turn is read for memories."""
        session = scope.session or f"chat-{uuid4()}"
        if scope.project is not None and session not in self.made:  # else it is made with its first message
            user, agent, project = scope.user, scope.agent, scope.project
            mem.session.add(session, id=session, on_existing="return", user=user, agent=agent, project=project)
            if len(self.made) < MOST_SESSIONS_KNOWN:
                self.made.add(session)
        mem.message.add_many([*messages], session=session, user=scope.user, agent=scope.agent)
        if is_whole and scope.extract:
            mem.session.extract(session)


class _Call:
    """One request to a model."""

    def __init__(
        self, memory: ClientMemory, format: WireFormat, scope: MemoryScope | None, sent: dict[str, Any]
    ) -> None:
        self._memory, self._format = memory, format
        self._scope, self._sent = scope, sent
        body = sent["body"]
        turns = body.get(format.turns)
        if not isinstance(turns, str | list) and hasattr(turns, "__iter__"):
            self._sent = {**sent, "body": {**body, format.turns: list(turns)}}  # it can be read only once
        self._body: dict[str, Any] = self._sent["body"]
        self._raw = str({k.lower(): v for k, v in ((sent.get("options") or {}).get("headers") or {}).items()}.get(RAW))

    # -- synchronous -------------------------------------------------------------------------------------------------

    def run(self, post: Callable[..., Any], path: str) -> Any:
        if self._scope is None:
            return post(path, **self._sent)
        reply = post(path, **(self._tried(self._recalled) or self._sent))
        parsed = reply.parse() if self._is_read() else reply
        if self._is_stream(parsed):
            parsed._iterator = self._watched(parsed._iterator)
        else:
            self._tried(lambda mem: self._store(mem, self._turn(parsed), is_whole=True))
        return reply

    def _watched(self, events: Iterator[Any]) -> Iterator[Any]:
        """What was asked is stored when the answer begins: who breaks it off has still said it."""
        gathering, has_begun = self._format.gathering(), False
        for event in events:
            if not has_begun:
                self._tried(lambda mem: self._store(mem, self._format.said(self._body), is_whole=False))
                has_begun = True
            self._take(gathering, event)
            yield event
        self._tried(lambda mem: self._store(mem, _answers(gathering), is_whole=True))

    def _tried(self, work: Callable[[Any], T]) -> T | None:
        with self._surviving():
            return work(self._memory.mem)
        return None

    # -- asynchronous: the same, the memory in a thread --------------------------------------------------------------

    async def awaited(self, post: Callable[..., Any], path: str) -> Any:
        if self._scope is None:
            return await post(path, **self._sent)
        reply = await post(path, **(await self._tried_in_thread(self._recalled) or self._sent))
        parsed = reply.parse() if self._is_read() else reply
        parsed = await parsed if inspect.isawaitable(parsed) else parsed
        if self._is_stream(parsed):
            parsed._iterator = self._watched_in_thread(parsed._iterator)
        else:
            await self._tried_in_thread(lambda mem: self._store(mem, self._turn(parsed), is_whole=True))
        return reply

    async def _watched_in_thread(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        gathering, has_begun = self._format.gathering(), False
        async for event in events:
            if not has_begun:
                await self._tried_in_thread(lambda mem: self._store(mem, self._format.said(self._body), is_whole=False))
                has_begun = True
            self._take(gathering, event)
            yield event
        await self._tried_in_thread(lambda mem: self._store(mem, _answers(gathering), is_whole=True))

    async def _tried_in_thread(self, work: Callable[[Any], T]) -> T | None:
        mem: Any = self._memory.mem
        with self._surviving():
            return await (mem._run(work) if hasattr(mem, "aclose") else asyncio.to_thread(work, mem))
        return None

    # -- what both do ------------------------------------------------------------------------------------------------

    def _recalled(self, mem: Any) -> dict[str, Any] | None:
        """The request with what was recalled for it; None where nothing was."""
        question = self._format.question(self._body)
        if self._scope is None or self._scope.recall is False or not question.strip():
            return None
        context = self._memory.context(mem, self._scope, question)
        return {**self._sent, "body": self._format.with_context(self._body, context)} if context else None

    def _is_read(self) -> bool:
        """Asked for as a raw response whose body was read: what is parsed of it is kept for the caller."""
        return self._raw in ("true", "raw")

    def _is_stream(self, reply: Any) -> bool:
        return bool(self._sent.get("stream")) and hasattr(reply, "_iterator")

    def _turn(self, reply: Any) -> list[Said]:
        answer = self._format.answer(reply)
        return [*self._format.said(self._body), *([answer] if answer is not None else [])]

    def _store(self, mem: Any, messages: list[Said], *, is_whole: bool) -> None:
        if self._scope is not None and self._scope.store and messages:
            self._memory.keep(mem, self._scope, messages, is_whole=is_whole)

    def _take(self, gathering: Gathering, event: Any) -> None:
        with self._surviving():
            gathering.take(event)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """The model is asked and its answer given back whatever the memory says, unless the caller wants to know."""
        try:
            yield
        except Exception as problem:
            if self._scope is None or self._scope.strict:
                raise
            log.warning("the memory failed, and the call went on without it: %s", problem)


def _answers(gathering: Gathering) -> list[Said]:
    answer = gathering.answer()
    return [answer] if answer is not None else []
