"""An endpoint that speaks OpenAI's chat format over HTTP, for the tutorials: `with serving() as address`.

Its model is a few lines: a question is answered with the first thing that a person said in the context it was given,
anything else with "Noted.". So an answer shows whether the memory was in the prompt.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOLD = re.compile(r"<(?:message [^>]*role=user|memory )[^>]*>\n(?:  source: [^\n]*\n)*  (.+)\n")


def answered(messages: list[dict[str, str]]) -> str:
    known = next((one["content"] for one in messages if one["role"] == "system"), "")
    told = TOLD.search(known)
    if not messages[-1]["content"].endswith("?"):
        return "Noted."
    return f"You told me: {told[1]}" if told else "I do not know."


class _Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_chat = self.path == "/v1/chat/completions"
        message = {"role": "assistant", "content": answered(asked["messages"])} if is_chat else None
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [choice]}
        body = json.dumps(reply).encode()
        self.send_response(200 if is_chat else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chat)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
