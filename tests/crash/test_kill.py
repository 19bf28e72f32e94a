"""An acknowledged write survives kill -9, whole; and so do making a store, upgrading it and copying it.

A child process writes through the public client from several threads and logs each acknowledgement; it is killed, the
file reopened and compared with the log. The bar: 200 kills, 0 lost, 0 half written. Beside the random instants, a child
is killed just before each SQL statement of one write of every kind, of the opening of a new file and of an upgrade.
"""

from __future__ import annotations

import random
import select
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.records.common import migrations
from recollect.adapters.records.sqlite.connection import connect
from recollect.errors import NewerStore

LIVES = 5
UPGRADE: dict[str, Any] = {
    "number": len(migrations.migrations()) + 1,
    "name": "the_next_one",
    "checksum": "of the next one",
    "steps": [
        {"do": "add_column", "table": "memory", "column": ["mood", "text", True]},
        {"do": "add_column", "table": "tag", "column": ["weight", "integer", False]},
        {"do": "add_index", "table": "memory", "fields": ["author"]},
        {"do": "add_index", "table": "tag", "fields": ["created_at"]},
        {"do": "drop_index", "table": "memory", "fields": ["created_at"]},
    ],
}


def lines_of(log: Path) -> list[str]:
    """What the child wrote; a line cut in two by the kill was never acknowledged."""
    return log.read_text().split("\n")[:-1] if log.exists() else []


def every_kill(children: Any, log: Path, act: str, start: int, step: int, **given: Any) -> Iterator[int]:
    """Has a child do something, killed just before a statement, then before a later one, and so on until it is done."""
    for statement in range(1 + start, 10_000, step):
        log.unlink(missing_ok=True)
        child = children.start("until_statement", log=log, act=act, statement=statement, **given)
        code = child.wait()
        yield statement
        if code == 0:
            return
        assert code == -9, child.errors.read_text()


@pytest.mark.parametrize("file", range(4))
def test_no_acknowledged_write_is_lost_and_none_is_half_there_after_kill_9(
    file: int, tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any, chance: Any, times: Any
) -> None:
    path, ledger, acknowledged = tmp_path / "killed.db", compare.Ledger(), 0
    for life in range(times(LIVES)):
        log, ticks, seed, states = tmp_path / f"{life}.log", new_ticks(), str(chance.random()), ledger.living()
        child = children.start("write", path=path, log=log, ticks=ticks.path, life=life, seed=seed, states=states)
        ticks.wait(0 if life % 2 else chance.randrange(10, 80))  # every other one is hit while it opens, or just after
        select.select([], [], [], chance.uniform(0.0, 0.1))  # a random instant, not the one just after a commit
        child.kill()
        ledger = compare.Ledger.read(lines_of(log), ledger)
        acknowledged += ledger.acknowledged
        mem = opened(path)
        compare.assert_whole(mem, ledger, chance)
        mem.close()
    print(f"{acknowledged} acknowledged writes in {times(LIVES)} lives")
    assert acknowledged > 5 * times(LIVES)


def test_a_kill_before_any_statement_of_any_write_leaves_it_done_or_undone(
    tmp_path: Path, children: Any, compare: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    template, path, log = tmp_path / "template.db", tmp_path / "killed.db", tmp_path / "log"
    opened(template).close()
    shutil.copy(template, path)
    step, acknowledged = 1 if times(1) > 1 else 20, 0
    start, seed = chance.randrange(step), str(chance.random())
    for statement in every_kill(children, log, "write", start, step, path=path, seed=seed):
        ledger = compare.Ledger.read(lines_of(log))
        mem = opened(path)
        compare.assert_whole(mem, ledger, chance, recalls=1)
        mem.close()
        assert ledger.acknowledged >= acknowledged, f"statement {statement}"
        acknowledged = ledger.acknowledged
        shutil.rmtree(f"{path}.index", ignore_errors=True)
        shutil.copy(template, path)
    assert acknowledged == 10


def test_a_kill_while_a_new_store_is_made_leaves_one_that_opens(
    tmp_path: Path, children: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    path, step = tmp_path / "new.db", 2 if times(1) > 1 else 40
    for statement in every_kill(children, tmp_path / "log", "open", chance.randrange(step), step, path=path):
        mem = opened(path)
        mem.remember("anchor it works")
        assert [hit.text for hit in mem.recall("works?")] == ["anchor it works"], f"statement {statement}"
        assert mem.doctor().well
        mem.close()
        for file in tmp_path.glob("new.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()


def test_a_killed_upgrade_finishes_on_reopening_and_keeps_every_byte(
    tmp_path: Path, children: Any, opened: Any, monkeypatch: pytest.MonkeyPatch, chance: random.Random, times: Any
) -> None:
    old, path, export = tmp_path / "old.db", tmp_path / "upgraded.db", tmp_path / "export.jsonl"
    mem = opened(old)
    mem.remember_many([{"content": f"anchor {n}", "tags": ["a", "b"]} for n in range(50)])
    before = mem.export(str(export)).hash
    mem.close()
    known = (*migrations.migrations(), migrations.Migration(**{**UPGRADE, "steps": tuple(UPGRADE["steps"])}))
    step, log = 1 if times(1) > 1 else 20, tmp_path / "log"
    shutil.copy(old, path)
    for statement in every_kill(children, log, "open", chance.randrange(step), step, path=path, migration=UPGRADE):
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "migrations", lambda: known)
            mem = opened(path)
            assert mem.export(str(export)).hash == before, f"statement {statement}"
            assert mem.verify().sound
            mem.close()
        with pytest.raises(NewerStore):
            opened(path)
        assert columns(path) == {"mood", "weight"}
        shutil.copy(old, path)


def columns(path: Path) -> set[str]:
    connection = connect(path, writable=False)
    text = "SELECT name FROM pragma_table_info('memory') UNION SELECT name FROM pragma_table_info('tag')"
    names = {name for (name,) in connection.execute(text)}
    connection.close()
    return names & {"mood", "weight"}


def test_a_killed_backup_is_never_taken_for_a_whole_one(
    tmp_path: Path, children: Any, new_ticks: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    path, target = tmp_path / "store.db", tmp_path / "copy.db"
    mem = opened(path)
    mem.remember_many([f"anchor {n} " + "word " * 200 for n in range(300)])
    for _ in range(times(8)):
        ticks = new_ticks()
        child = children.start("back_up", path=path, log=tmp_path / "log", ticks=ticks.path, target=target)
        ticks.wait(1)
        select.select([], [], [], chance.uniform(0.0, 0.1))
        child.kill()
        assert not target.exists() or memories_of(target) == 300
        target.unlink(missing_ok=True)
    mem.backup(str(target))
    assert memories_of(target) == 300


def memories_of(path: Path) -> int:
    """How many memories a sound store holds."""
    with recollect.open(path, embedder="hash") as mem:
        report = mem.verify()
    assert report.sound, report.problems
    shutil.rmtree(f"{path}.index", ignore_errors=True)
    return int(report.memories)
