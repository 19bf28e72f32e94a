"""Claude's memory tool on Recollect: its files lie in a workspace, with snapshots to go back to.

Runs offline: the service is played by a small script. `pip install 'recollect[anthropic]'`, then run this file. With a
key of your own, leave `http_client` out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import httpx2
from anthropic import Anthropic

import recollect
from recollect.integrations.anthropic_memory import RecollectMemoryTool

TURNS = iter(
    [
        {"command": "create", "path": "/memories/alice.md", "file_text": "Alice likes pytest.\n"},
        {"command": "insert", "path": "/memories/alice.md", "insert_line": 1, "insert_text": "Her cat is Mimi.\n"},
        {"command": "view", "path": "/memories/../etc/passwd"},
        {"command": "view", "path": "/memories/alice.md"},
    ]
)


def service(request: httpx2.Request) -> httpx2.Response:
    """Asks for one command after the other, then ends."""
    command = next(TURNS, None)
    content: dict[str, Any] = {"type": "text", "text": "Done."}
    if command is not None:
        content = {"type": "tool_use", "id": "t", "name": "memory", "input": command}
    reason = "tool_use" if command else "end_turn"
    reply = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [content]}
    usage = {"input_tokens": 0, "output_tokens": 0}
    return httpx2.Response(200, json={**reply, "stop_reason": reason, "stop_sequence": None, "usage": usage})


with (
    tempfile.TemporaryDirectory() as folder,
    recollect.open(Path(folder) / "claude.db", embedder="none") as mem,
    httpx2.Client(transport=httpx2.MockTransport(service)) as line,
):
    tool = RecollectMemoryTool(mem, agent="claude")
    runner = Anthropic(api_key="offline", http_client=line).beta.messages.tool_runner(
        model="scripted",
        max_tokens=1000,
        messages=[{"role": "user", "content": "Remember what I tell you about Alice."}],
        tools=[tool],
    )
    for message in runner:
        for block in message.content:
            if block.type == "tool_use":
                given = block.input
                print(f"{given['command']} {given['path']}")
                answer = runner.generate_tool_call_response()
                print(f"    {answer['content'][0]['content'] if answer else ''}")
    mem.workspace.snapshot(tool.workspace, "after the talk")
    print("files:", ", ".join(file.path for file in mem.workspace.files(tool.workspace).files))
