"""A model behind HTTP that says what it is told to: OpenAI's chat completions and responses, Anthropic's messages.

Whole or streamed, as the real services send it. What it was asked is kept, so that a test can see what arrived.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class ModelEndpoint:
    """Answers each request with the next of `answers`, the last again and again. An int is a status to fail with; a
    dict {"name", "arguments"} a call of a tool.
    """

    def __init__(self) -> None:
        self.answers: list[str | int | Json] = ["Noted."]
        self.asked: list[Json] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append(body)
                answer = endpoint.answers.pop(0) if len(endpoint.answers) > 1 else endpoint.answers[0]
                if isinstance(answer, int):
                    self._send(answer, b'{"error": {"message": "the model is away", "type": "server_error"}}')
                elif body.get("stream"):
                    self._send(200, _events(self.path, answer), "text/event-stream")
                else:
                    self._send(200, json.dumps(_whole(self.path, answer)).encode())

            def _send(self, status: int, body: bytes, type: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("content-type", type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *given: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def scripted_model() -> Iterator[ModelEndpoint]:
    endpoint = ModelEndpoint()
    try:
        yield endpoint
    finally:
        endpoint.close()


def _whole(path: str, answer: str | Json) -> Json:
    if path.endswith("/chat/completions"):
        return _completion(answer)
    return _response(answer) if path.endswith("/responses") else _message(answer)


def _completion(answer: str | Json) -> Json:
    said: Json = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
    if isinstance(answer, dict):
        said["tool_calls"] = [{"id": "call-1", "type": "function", "function": answer}]
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}


def _response(answer: str | Json) -> Json:
    if isinstance(answer, dict):
        output: Json = {"type": "function_call", "id": "f1", "call_id": "call-1", "status": "completed", **answer}
    else:
        part = {"type": "output_text", "text": answer, "annotations": []}
        output = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "scripted",
        "status": "completed",
        "output": [output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message(answer: str | Json) -> Json:
    if isinstance(answer, dict):
        block: Json = {"type": "tool_use", "id": "call-1", "name": answer["name"], "input": {"given": "x"}}
    else:
        block = {"type": "text", "text": answer}
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [block],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(path: str, answer: str | Json) -> bytes:
    if path.endswith("/chat/completions"):
        lines = [f"data: {json.dumps(one)}\n\n" for one in _chunks(answer)]
        return "".join([*lines, "data: [DONE]\n\n"]).encode()
    events = _response_events(answer) if path.endswith("/responses") else _message_events(answer)
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()


def _chunks(answer: str | Json) -> Iterator[Json]:
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    if isinstance(answer, dict):
        calls = [
            {"index": 0, "id": "call-1", "type": "function", "function": {"name": answer["name"], "arguments": ""}},
            {"index": 0, "function": {"arguments": answer["arguments"]}},
        ]
        parts: list[Json] = [{"tool_calls": [one]} for one in calls]
    else:
        parts = [{"content": letter} for letter in answer]
    for part in [{"role": "assistant"}, *parts]:
        yield {**about, "choices": [{"index": 0, "delta": part, "finish_reason": None}]}
    yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def _response_events(answer: str | Json) -> Iterator[Json]:
    whole = _response(answer)
    begun = {**whole, "output": [], "status": "in_progress"}
    yield {"type": "response.created", "response": begun, "sequence_number": 0}
    item = whole["output"][0]
    yield {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**item, "content": []},
        "sequence_number": 1,
    }
    if isinstance(answer, str):
        at = {"item_id": "m1", "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **at, "part": part, "sequence_number": 2}
        for number, letter in enumerate(answer):
            text = {"delta": letter, "logprobs": [], "sequence_number": 3 + number}
            yield {"type": "response.output_text.delta", **at, **text}
    yield {"type": "response.completed", "response": whole, "sequence_number": 1000}


def _message_events(answer: str | Json) -> Iterator[Json]:
    whole = _message(answer)
    block = whole["content"][0]
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    empty: Json = {"text": ""} if isinstance(answer, str) else {"input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": {**block, **empty}}
    if isinstance(answer, str):
        deltas: list[Json] = [{"type": "text_delta", "text": letter} for letter in answer]
    else:
        deltas = [{"type": "input_json_delta", "partial_json": answer["arguments"]}]
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}
