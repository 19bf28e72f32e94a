"""A store gets another key while another process writes to it, and the one who changes it is killed at every step.

It opens with the old key or with the new one, everything that was acknowledged is there, and once it opens with the new
key no byte of the old plain file is left.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import recollect
from recollect.domain.memory import Memory
from recollect.errors import WrongKey
from recollect.ports.query import Query
from recollect.ports.records import Scope
from seeds import some
from without_openssl import WITHOUT_OPENSSL

FIRST, SECOND = "the first key of these tests", "the second key of these tests"
STEPS = [
    f"{when} {step}"
    for step in (
        "key_change:_write_copy",
        "key_change:sync_file",
        "key_change:_move_log",
        "replaced_file:publish",
        "replaced_file:take_logs_away",
        "replaced_file:overwrite",
        "replaced_file:wipe_replaced",
    )
    for when in ("before", "after")
] + ["during key_change:_write_copy"]
CHANGE = """
    import os, sys
    from pathlib import Path
    from recollect.adapters.encryption.master_key import MasterKey
    from recollect.adapters.records.common import replaced_file
    from recollect.adapters.records.sqlite import key_change

    path, old, new, when, step = sys.argv[1:]
    module, name = step.split(":")
    module = {"key_change": key_change, "replaced_file": replaced_file}[module]
    real = getattr(module, name)

    def kill(*given):
        os.kill(os.getpid(), 9)

    def killed(*given):
        if when == "after":
            real(*given)
        kill()

    if when != "during":
        setattr(module, name, killed)
    keys = [MasterKey(text) if text else None for text in (old, new)]
    key_change.change_key(Path(path), *keys, kill if when == "during" else lambda done, total: None)
"""
WRITE = """
    import sys, recollect
    from recollect.errors import FileReplaced
    with recollect.open(sys.argv[1], embedder="none", background=False, key=sys.argv[2] or None) as mem:
        print("ready", flush=True)
        for number in range(100_000):
            try:
                print(mem.remember(f"quagga {number}").id, flush=True)
            except FileReplaced:
                print("replaced", flush=True)
                break
"""


def script(body: str, *arguments: object) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", textwrap.dedent(body), *map(str, arguments)]


def ids_with(store: str | Path, key: str) -> set[str] | None:
    """The memories; None where the store has another key."""
    try:
        with recollect.open(store, embedder="none", background=False, key=key or None) as mem:
            assert mem.verify().problems == []
            return {str(id) for (id,) in mem._core.store.select(Scope("default"), Query(Memory), ("id",))}
    except WrongKey:
        return None


@pytest.mark.parametrize(
    ("old", "new", "step"),
    some(4, [(*keys, step) for keys in (("", FIRST), (FIRST, SECOND)) for step in STEPS], "kills in a change of key"),
)
def test_killed_at_any_step_while_another_process_writes(tmp_path: Path, old: str, new: str, step: str) -> None:
    """Both changes at every step in a soak; else four of these kills, others with each seed."""
    path = tmp_path / "team.db"
    writer = subprocess.Popen(script(WRITE, path, old), stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged: list[str] = []
    try:
        assert writer.stdout.readline() == "ready\n"
        acknowledged += [writer.stdout.readline().strip() for _ in range(5)]
        when, _, name = step.partition(" ")
        changed = subprocess.run(
            script(CHANGE, path, old, new, when, name), timeout=120, check=False, capture_output=True, text=True
        )
        assert changed.returncode == -9, changed.stderr[-2000:]
        # Whoever opens it next finishes; the writer goes on, or is told.
        opened = [ids_with(path, key) for key in (old, new)]
        assert [one is None for one in opened].count(False) == 1
        acknowledged += [writer.stdout.readline().strip() for _ in range(5)]
    finally:
        writer.kill()
        writer.wait(30)
    acknowledged += [line.strip() for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    writer.stdout.close()
    is_new = opened[1] is not None
    kept = ids_with(path, new if is_new else old)
    assert kept is not None
    assert {id for id in acknowledged if id not in ("", "replaced")} <= kept
    assert ("replaced" in acknowledged) is is_new
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    if is_new:
        assert not [file.name for file in left if b"quagga" in file.read_bytes()]
    assert {file.name for file in left} <= {"team.db"}


DUCKDB_STEPS = ["publish", "after publish", "overwrite", "after overwrite"]
CHANGES = [("", FIRST), (FIRST, SECOND), (FIRST, "")]
DUCKDB = """
    import os, sys
    from pathlib import Path
    from recollect.adapters.encryption.master_key import MasterKey
    from recollect.adapters.records.common import replaced_file
    from recollect.adapters.records.duckdb import file
    from without_openssl import WITHOUT_OPENSSL

    file.CRYPTOGRAPHY = WITHOUT_OPENSSL
    path, old, new, step = sys.argv[1:]
    real = getattr(replaced_file, step.removeprefix("after "))

    def killed(*given):
        if step.startswith("after "):
            real(*given)
        os.kill(os.getpid(), 9)

    keys = [MasterKey(text) if text else None for text in (old, new)]
    opened = file.DuckdbFile(Path(path), keys[0], to_encrypt=True)
    setattr(replaced_file, step.removeprefix("after "), killed)
    opened.change_key(keys[1])
"""


@pytest.mark.parametrize(
    ("old", "new", "step"),
    some(2, [(*keys, step) for keys in CHANGES for step in DUCKDB_STEPS], "kills in a change of key in DuckDB"),
)
def test_a_duckdb_store_opens_with_one_of_the_keys(
    tmp_path: Path, old: str, new: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change at every step in a soak; else two of these kills, others with each seed."""
    from recollect.adapters.records.duckdb import file

    monkeypatch.setattr(file, "CRYPTOGRAPHY", WITHOUT_OPENSSL)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    address = f"duckdb:///{tmp_path}/team.duckdb"
    with recollect.open(address, embedder="none", background=False, key=old or None) as mem:
        kept = mem.remember("quagga").id
    path = tmp_path / "team.duckdb"
    changed = subprocess.run(script(DUCKDB, path, old, new, step), timeout=120, check=False, capture_output=True)
    assert changed.returncode == -9, changed.stderr.decode()[-2000:]
    opened = [ids_with(address, key) for key in (old, new)]
    assert opened.count(None) == 1
    assert {kept} in opened
    if opened[1] is not None and new:
        assert not [one.name for one in tmp_path.rglob("*") if one.is_file() and b"quagga" in one.read_bytes()]
    assert {one.name for one in tmp_path.iterdir()} == {"team.duckdb"}
