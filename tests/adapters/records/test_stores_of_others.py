"""A store that somebody else wrote is opened if it has what the port declares, and the kit says what it keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import recollect
from delegating import DelegatingStore
from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.errors import InvalidSettings
from recollect.ports.records import Capabilities


def test_a_store_with_the_verbs_of_the_port_and_no_others_serves_a_memory() -> None:
    store = DelegatingStore()
    with recollect.open(store, embedder="hash") as mem:
        tea = mem.remember("Ann takes her tea at four", tags=["tea"])
        assert mem.recall("when does Ann take her tea").hits[0].id == tea.id
        mem.agent.add("Bot", id="bot")

        def think(task: recollect.Task) -> recollect.Act | recollect.Done:
            return recollect.Done({"tea": "ready"}) if task.history else recollect.Act("brew", {})

        run = recollect.Runner(mem, think, {"brew": lambda: "a pot of tea"}).run("make tea", agent="bot")
        assert (run.status, run.result) == ("succeeded", {"tea": "ready"})
        mem.forget(tea.id)
        assert tea.id not in [hit.id for hit in mem.recall("when does Ann take her tea").hits]
        assert mem.verify().problems == []
    assert store.tenants() == ["default"]
    store.close()


def test_what_a_store_lacks_is_named() -> None:
    class NoVectors(DelegatingStore):
        capabilities = Capabilities("n", durable=False, many_processes=False, sql=True, vectors_by_tenant=True)

    with pytest.raises(InvalidSettings, match=r"NoVectors is not a record store: it has no query_sql, vectors_of"):
        recollect.open(NoVectors(), embedder="hash")
    with pytest.raises(InvalidSettings, match=r"dict is not a record store: it has no backup, .* \(give a path"):
        recollect.open({}, embedder="hash")  # type: ignore[arg-type]


def test_capabilities_say_what_a_store_can_besides(tmp_path: Path) -> None:
    store = DuckdbStore(tmp_path / "m.duckdb")
    with recollect.open(store, embedder="hash") as mem:
        mem.remember("tea is hot")
        assert mem.sql("SELECT count(*) FROM memory").rows == [[1]]
    store.close()


def _report(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recollect.testing.conformance", *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_kit_reports_on_a_store_that_keeps_every_rule() -> None:
    done = _report("delegating:make_store")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["stored_vectors", "yes"] in lines
    assert ["vector_snapshot", "yes"] in lines
    assert ["sql", "no", "query_sql"] in lines
    kept = {line[0]: line[1:] for line in lines if len(line) == 4 and line[1].isdigit()}
    assert kept["references"][1:] == ["0", "0"]
    assert {"transactions", "queries", "paging", "text", "values", "sharing", "snapshots", "capabilities"} <= set(kept)
    assert done.stdout.splitlines()[-1].startswith("The store passes the kit: ")


def test_the_kit_names_the_rules_that_a_store_breaks() -> None:
    done = _report("delegating:make_miscounting", "-k", "CountingRules or snapshot")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "snapshots: several snapshots are of several moments\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The store does not pass the kit: ")


def test_a_factory_that_cannot_be_imported_is_named() -> None:
    done = _report("delegating:nothing")
    assert done.returncode not in (0, 1)
    assert "'delegating:nothing' cannot be imported" in done.stderr
    assert _report().returncode == 2
