"""What the requests and replies of model APIs say: the question in them, what is new in them, and the answer.

One class for each of OpenAI's chat completions, OpenAI's responses and Anthropic's messages. They read the bodies that
the SDKs are about to send and the objects they give back, and know nothing of a memory. Recalled text goes in front of
the last thing the user said, in the user's own message: it is data, so it gets no more authority than that; a model
whose template takes one system message at most can be asked; and what stands before is cached as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from recollect.integrations.storable_text import clipped

Body = dict[str, Any]
Said = dict[str, Any]
"""A message as `message.add_many` takes it."""


class Gathering(Protocol):
    """The answer, out of the events of a stream."""

    def take(self, event: Any) -> None: ...

    def answer(self) -> Said | None: ...


class WireFormat(Protocol):
    """One API. `turns` names the member of a body that holds the conversation."""

    turns: str

    def question(self, body: Body) -> str:
        """The last thing the user said; empty where there is none."""

    def with_context(self, body: Body, text: str) -> Body:
        """The same request, with this text in front of the question. The body itself stays as it is."""

    def said(self, body: Body) -> list[Said]:
        """What was said since the last answer: earlier turns were new in an earlier request."""

    def answer(self, reply: Any) -> Said | None: ...

    def gathering(self) -> Gathering: ...


def plain(value: Any) -> Any:
    """A part of a request as JSON: the SDKs also take the objects of earlier replies."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def texts_in(content: Any) -> str:
    """The words of a message's content: a text, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def message(role: str, text: str, **more: Any) -> Said | None:
    """None where there is nothing to keep."""
    kept = {name: value for name, value in more.items() if value}
    return {"role": role, "text": clipped(text) or None, **kept} if text.strip() or kept.get("tool_calls") else None


def _in_front(content: Any, text: str, type: str) -> Any:
    """The content with a text before its first words; what must stand first, such as results of tools, does."""
    if isinstance(content, str):
        return f"{text}\n\n{content}"
    parts = list(content)
    place = next((at for at, part in enumerate(parts) if texts_in([plain(part)])), 0)
    return [*parts[:place], {"type": type, "text": text}, *parts[place:]]


class _Turns:
    """What the formats share: a list of turns in the body."""

    turns = "messages"
    text_type = "text"

    def question(self, body: Body) -> str:
        at = self._asking(body)
        return texts_in(plain(body[self.turns][at]).get("content")) if at is not None else ""

    def with_context(self, body: Body, text: str) -> Body:
        at = self._asking(body)
        if at is None:
            return body
        turns = list(body[self.turns])
        turn = turns[at] if isinstance(turns[at], dict) else plain(turns[at])
        turns[at] = {**turn, "content": _in_front(turn["content"], text, self.text_type)}
        return {**body, self.turns: turns}

    def said(self, body: Body) -> list[Said]:
        turns = [plain(turn) for turn in _listed(body, self.turns)]
        answered = max((at for at, turn in enumerate(turns) if self._is_answer(turn)), default=-1)
        return [one for turn in turns[answered + 1 :] for one in self._messages(turn) if one is not None]

    def _asking(self, body: Body) -> int | None:
        turns = [plain(turn) for turn in _listed(body, self.turns)]
        asking = [at for at, turn in enumerate(turns) if turn.get("role") == "user" and texts_in(turn.get("content"))]
        return asking[-1] if asking else None

    def _is_answer(self, turn: Any) -> bool:
        return bool(turn.get("role") == "assistant")

    def _messages(self, turn: Any) -> Iterable[Said | None]:
        raise NotImplementedError


def _listed(body: Body, name: str) -> list[Any]:
    turns = body.get(name)
    return turns if isinstance(turns, list) else []


class ChatCompletions(_Turns):
    """OpenAI's chat completions, and all that speak like them."""

    def _messages(self, turn: Any) -> Iterable[Said | None]:
        text = texts_in(turn.get("content"))
        if turn.get("role") == "user":
            yield message("user", text, name=turn.get("name"))
        elif turn.get("role") == "tool":
            yield message("tool", text, tool_call_id=turn.get("tool_call_id"))

    def answer(self, reply: Any) -> Said | None:
        choices = getattr(reply, "choices", None)
        if not choices:
            return None
        said = choices[0].message
        return message(
            "assistant", said.content or "", model=reply.model, tool_calls=[plain(one) for one in said.tool_calls or ()]
        )

    def gathering(self) -> Gathering:
        return _ChatGathering()


class _ChatGathering:
    def __init__(self) -> None:
        self._text, self._model = "", ""
        self._calls: dict[int, Said] = {}

    def take(self, event: Any) -> None:
        self._model = getattr(event, "model", "") or self._model
        for choice in getattr(event, "choices", None) or ():
            if choice.index != 0 or choice.delta is None:
                continue
            self._text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                call = self._calls.setdefault(part.index, {"id": part.id, "name": "", "arguments": ""})
                if part.function is not None:
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""

    def answer(self) -> Said | None:
        return message("assistant", self._text, model=self._model, tool_calls=list(self._calls.values()))


class Responses(_Turns):
    """OpenAI's responses. The input may be one text."""

    turns = "input"
    text_type = "input_text"

    def question(self, body: Body) -> str:
        given = body.get("input")
        return given if isinstance(given, str) else super().question(body)

    def with_context(self, body: Body, text: str) -> Body:
        if isinstance(body.get("input"), str):
            return {**body, "input": f"{text}\n\n{body['input']}"}
        return super().with_context(body, text)

    def said(self, body: Body) -> list[Said]:
        given = body.get("input")
        alone = message("user", given) if isinstance(given, str) else None
        return [alone] if alone is not None else super().said(body)

    def _is_answer(self, turn: Any) -> bool:
        made = turn.get("type") not in (None, "message") and not str(turn.get("type")).endswith("_output")
        return made or turn.get("role") == "assistant"

    def _messages(self, turn: Any) -> Iterable[Said | None]:
        if turn.get("role") == "user":
            yield message("user", texts_in(turn.get("content")))
        elif str(turn.get("type")).endswith("_output"):
            yield message("tool", texts_in(turn.get("output")), tool_call_id=turn.get("call_id"))

    def answer(self, reply: Any) -> Said | None:
        if not hasattr(reply, "output"):
            return None
        calls = [plain(one) for one in reply.output if one.type == "function_call"]
        return message("assistant", reply.output_text, model=str(reply.model), tool_calls=calls)

    def gathering(self) -> Gathering:
        return _ResponseGathering(self)


class _ResponseGathering:
    """The last event carries the whole response."""

    def __init__(self, format: Responses) -> None:
        self._format = format
        self._response: Any = None

    def take(self, event: Any) -> None:
        if event.type in ("response.completed", "response.incomplete"):
            self._response = event.response

    def answer(self) -> Said | None:
        return self._format.answer(self._response)


class Messages(_Turns):
    """Anthropic's messages. What a tool gave back is said by the user, in parts of their own."""

    def _messages(self, turn: Any) -> Iterable[Said | None]:
        content = turn.get("content")
        if turn.get("role") == "user":
            for part in content if isinstance(content, list) else ():
                if isinstance(part, dict) and part.get("type") == "tool_result":
                    yield message("tool", texts_in(part.get("content")), tool_call_id=part.get("tool_use_id"))
            yield message("user", texts_in(content))

    def answer(self, reply: Any) -> Said | None:
        blocks = [plain(block) for block in getattr(reply, "content", None) or ()]
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        text = texts_in([block for block in blocks if block.get("type") == "text"])
        return message("assistant", text, model=str(getattr(reply, "model", "")), tool_calls=calls)

    def gathering(self) -> Gathering:
        return _MessageGathering()


class _MessageGathering:
    def __init__(self) -> None:
        self._blocks: dict[int, Said] = {}
        self._model = ""

    def take(self, event: Any) -> None:
        if event.type == "message_start":
            self._model = str(event.message.model)
        elif event.type == "content_block_start":
            self._blocks[event.index] = {**plain(event.content_block), "json": ""}
        elif event.type == "content_block_delta" and event.index in self._blocks:
            block = self._blocks[event.index]
            if event.delta.type == "text_delta":
                block["text"] = (block.get("text") or "") + event.delta.text
            elif event.delta.type == "input_json_delta":
                block["json"] += event.delta.partial_json

    def answer(self) -> Said | None:
        texts = [block for block in self._blocks.values() if block.get("type") == "text"]
        calls = [
            {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "arguments": block["json"]}
            for block in self._blocks.values()
            if block.get("type") == "tool_use"
        ]
        return message("assistant", texts_in(texts), model=self._model, tool_calls=calls)
