"""An index in a Chroma server beside the store, after kill -9 of who writes and of the server: it equals the truth.

This file is also the other process: `python test_outside_crash.py <database> <url> <seed>`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import recollect


def write_for_ever(database: str, url: str, seed: str) -> None:
    """The victim: remembers, forgets, erases and recalls until it is killed."""
    chance = random.Random(seed)
    with recollect.open(database, embedder="hash", vectors=f"chroma+{url}") as mem:
        print("ready", flush=True)
        while True:
            made = mem.remember_many([{"text": f"fact {chance.random()}"} for _ in range(chance.randrange(1, 20))])
            print(*(one.id for one in made.receipts), flush=True)
            chance.choice([mem.forget, mem.erase])(chance.choice(made.receipts).id)
            mem.recall("fact", by="meaning", limit=3)
            if chance.random() < 0.1:
                mem.reindex(index=True)


def test_after_kill_the_index_in_the_server_equals_the_truth(
    tmp_path: Path, times: Callable[[int], int], chance: random.Random
) -> None:
    from chroma_server import ChromaServer

    started = ChromaServer()
    database = tmp_path / "team.db"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    try:
        for _ in range(times(2)):
            command = [sys.executable, __file__, str(database), started.url, str(chance.random())]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as victim:
                assert victim.stdout is not None
                assert victim.stdout.readline() == "ready\n"
                time.sleep(chance.uniform(0.05, 0.8))
                victim.kill()
                if chance.random() < 0.3:
                    started.halt()
                    started.start()
            with recollect.open(database, embedder="hash", vectors=f"chroma+{started.url}", background=False) as mem:
                nearest = mem.recall("fact", by="meaning", limit=5)
                assert nearest.notes == []
                assert len(nearest) == min(5, mem.stats().memories)
                assert mem.verify().problems == []
                assert mem.stats().behind == 0
    finally:
        started.stop()


if __name__ == "__main__":
    write_for_ever(*sys.argv[1:])
