"""Tokens as a language model counts them: with the tokenizer of the small model of the tests, in llama.cpp.

SmolLM2 has 49,152 tokens and splits numbers into digits, so ids and JSON cost more with it than with the tokenizers of
large models: what is small here is small everywhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def token_counter() -> Iterator[Callable[[str], int]]:
    """Counts the tokens of a text, as long as the model's server runs."""
    command = [sys.executable, str(Path(__file__).with_name("small_model.py"))]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    assert server.stdin is not None
    address = next(line.split()[1] for line in server.stdout if line.startswith("address"))

    def counted(text: str) -> int:
        body = json.dumps({"content": text}).encode()
        request = urllib.request.Request(f"{address}/tokenize", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return len(json.load(answer)["tokens"])

    try:
        yield counted
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(60)
