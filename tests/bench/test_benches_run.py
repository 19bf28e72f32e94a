"""The benchmarks run through at a tiny size: they are promises' evidence, so they must not rot.

Six of the thirteen each day, others with each seed; all in a soak.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import recollect
from seeds import SOAK, some

BENCH = Path(__file__).resolve().parents[2] / "bench"


BENCHES = (
    *("peers", "service", "scale", "postgres", "stores", "checkpoints", "workspaces", "data", "secret_masking"),
    *("runtime", "langgraph", "sessions", "year"),
)
TODAY = some(6, BENCHES, "benchmarks")


def in_turn(bench: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(bench not in TODAY, reason="its turn is with another seed, or with RECOLLECT_SOAK=1")


def run(script: str, *options: str) -> str:
    done = subprocess.run([sys.executable, str(BENCH / script), *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module(name)


def peers_here(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def run_peers(out: Path, *products: str) -> dict[str, Any]:
    sizes = ("--sizes", "100", "200", "--adds", "5", "--recalls", "10", "--cell-seconds", "1")
    run("peers.py", *sizes, "--out", str(out), "--products", *products)
    report: dict[str, Any] = json.loads((out / "peers.json").read_text())
    return report


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run without peers."""
    folder = tmp_path_factory.mktemp("alone")
    run_peers(folder, "recollect")
    return folder


@in_turn("peers")
def test_recollect_alone_is_measured_and_drawn(alone: Path) -> None:
    report = json.loads((alone / "peers.json").read_text())
    assert list(report["sizes"]) == ["100", "200"]
    assert report["sizes"]["200"]["recall"]["recollect-vectors"]["recall_at_10"] == 1.0
    assert ElementTree.parse(alone / "peers.svg").getroot().tag.endswith("svg")


@pytest.mark.skipif(not SOAK, reason="takes half a minute: runs with RECOLLECT_SOAK=1")
def test_chroma_runs_beside_it(tmp_path: Path) -> None:
    assert "chroma" in run_peers(tmp_path, "recollect", "chroma")["ratios"]["200"]


@pytest.mark.skipif(not peers_here("sqlite_vec", "pysqlite3"), reason="langgraph-checkpoint-sqlite is not installed")
@in_turn("langgraph")
def test_sqlite_store_runs_beside_it(tmp_path: Path) -> None:
    assert "langgraph" in run_peers(tmp_path, "recollect", "langgraph")["ratios"]["200"]


@in_turn("peers")
def test_a_report_names_neither_the_host_nor_a_path(alone: Path) -> None:
    written = (alone / "peers.json").read_text()
    assert platform.node() not in written
    assert str(Path.home()) not in written
    assert str(alone.parent) not in written


def run_service(out: Path, *products: str) -> dict[str, Any]:
    run(
        "service.py",
        "--rows",
        "50",
        "--seconds",
        "0.2",
        "--clients",
        "1",
        "3",
        "--out",
        str(out),
        "--products",
        *products,
    )
    report: dict[str, Any] = json.loads((out / "service.json").read_text())
    return report


@in_turn("service")
def test_the_service_alone_is_measured_and_drawn(tmp_path: Path) -> None:
    report = run_service(tmp_path, "recollect")
    assert report["cells"]["recall"]["3"]["recollect"]["per_second"] > 0
    assert report["ratios"]["remember"]["1"] == {}
    assert ElementTree.parse(tmp_path / "service.svg").getroot().tag.endswith("svg")
    assert platform.node() not in (tmp_path / "service.json").read_text()


@in_turn("service")
def test_two_workers_are_measured_beside_one(tmp_path: Path) -> None:
    report = run_service(tmp_path, "recollect", "workers")
    assert set(report["ratios"]["recall"]["3"]) == {"workers"}
    assert report["cells"]["recall"]["3"]["workers"]["cpu_ms"] > 0


@pytest.mark.skipif(not peers_here("fastapi", "chromadb"), reason="fastapi and chromadb are not installed")
@in_turn("service")
def test_other_services_run_beside_it(tmp_path: Path) -> None:
    assert set(run_service(tmp_path, "recollect", "bare", "chroma")["ratios"]["recall"]["1"]) == {"bare", "chroma"}


@in_turn("scale")
def test_scale_measures_every_scope(tmp_path: Path) -> None:
    run("scale.py", "--rows", "12000", "--dimensions", "32", "--queries", "10", "--out", str(tmp_path))
    (report,) = json.loads((tmp_path / "scale.json").read_text())
    assert len(report["scopes"]) == 3
    assert report["scopes"]["user with 1%"]["recall_at_10"] == 1.0
    assert report["memory"]["anonymous_mb"] > 0


def test_the_corpus_is_the_same_every_time_and_no_text_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = load("shared", monkeypatch)
    one, two = shared.corpus(500, questions=20), shared.corpus(500, questions=20)
    assert one.texts == two.texts
    assert np.array_equal(one.vectors, two.vectors)
    assert len(set(one.texts)) == 500
    assert all(8 <= len(text.split()) <= 30 for text in one.texts)
    assert np.allclose(np.linalg.norm(one.vectors, axis=1), 1.0, atol=1e-5)


def test_a_chart_escapes_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    plots = load("plots", monkeypatch)
    drawn = plots.bar_chart("a < b", {"speed & size": {"10": {"<one>": 1.0, "two": 2000.0}}})
    ElementTree.fromstring(drawn)
    assert "2,000" in drawn


@in_turn("postgres")
def test_postgres_is_measured_and_drawn(tmp_path: Path) -> None:
    run("postgres.py", "--rows", "200", "--adds", "5", "--recalls", "5", "--cell-seconds", "2", "--out", str(tmp_path))
    report = json.loads((tmp_path / "postgres.json").read_text())
    assert all(cells["Recollect, by meaning"]["recall_at_10"] == 1.0 for cells in report["recall"].values())
    assert ElementTree.parse(tmp_path / "postgres.svg").getroot().tag.endswith("svg")
    assert platform.node() not in json.dumps(report)


@in_turn("stores")
def test_every_store_is_measured(tmp_path: Path) -> None:
    stores = ("sqlite", "memory", "dynamodb")
    run("stores.py", "--stores", *stores, "--rows", "100", "--times", "5", "--out", str(tmp_path))
    report = json.loads((tmp_path / "stores.json").read_text())
    assert tuple(report["stores"]) == stores
    assert ElementTree.parse(tmp_path / "stores.svg").getroot().tag.endswith("svg")


@pytest.mark.skipif(
    not peers_here("langgraph.checkpoint.sqlite"), reason="langgraph-checkpoint-sqlite is not installed"
)
@in_turn("checkpoints")
def test_checkpoints_are_measured_beside_the_sqlite_saver(tmp_path: Path) -> None:
    run("checkpoints.py", "--steps", "30", "--out", str(tmp_path))
    savers = json.loads((tmp_path / "checkpoints.json").read_text())["savers"]
    assert savers["recollect"]["bytes_per_step"] < savers["langgraph SqliteSaver"]["bytes_per_step"] / 2
    assert all(saver["steps_per_second"] > 0 for saver in savers.values())


@in_turn("workspaces")
def test_the_cost_of_a_snapshot_is_measured(tmp_path: Path) -> None:
    run("workspaces.py", "--files", "300", "--changes", "3", "--rounds", "3", "--out", str(tmp_path))
    report = json.loads((tmp_path / "workspaces.json").read_text())
    assert report["snapshot_nodes_median"] <= 12
    assert report["snapshot_bytes_median"] < report["first_snapshot_bytes"] / 10


@in_turn("data")
def test_the_data_engine_is_measured(tmp_path: Path) -> None:
    run("data.py", "--rows", "20000", "--queries", "3", "--out", str(tmp_path))
    report = json.loads((tmp_path / "data.json").read_text())
    assert report["profile_whole"]["cpu_seconds"] > 0
    assert report["query_ms"] > 0


@in_turn("secret_masking")
def test_secrets_are_found_and_ordinary_text_is_not_taken_for_them(tmp_path: Path) -> None:
    sizes = ("--each", "3", "--package-files", "20", "--remembers", "3")
    run("secret_masking.py", *sizes, "--chats", str(tmp_path), "--out", str(tmp_path))
    report = json.loads((tmp_path / "secrets.json").read_text())
    assert min(report["found"].values()) > 0.6
    assert report["corpora"]["ids, hashes and images"]["found"] == 0
    assert report["corpora"]["memories"]["found"] == 0
    assert report["remember"]["mask"]["p50_ms"] > 0


@in_turn("runtime")
def test_runs_are_measured(tmp_path: Path) -> None:
    run("runtime.py", "--steps", "16", "--cycles", "30", "--resumes", "3", "--out", str(tmp_path))
    report = json.loads((tmp_path / "runtime.json").read_text())
    assert report["step"]["per_second"] > 0
    assert report["long_run"]["claim"]["count"] == 3
    assert str(tmp_path.parent) not in json.dumps(report)


@in_turn("sessions")
def test_every_operation_is_measured_at_every_size_beside_its_floor(tmp_path: Path) -> None:
    sizes = ("--sizes", "100", "300", "--times", "3", "--seconds", "1", "--processes", "1", "2")
    run("sessions.py", *sizes, "--out", str(tmp_path))
    report = json.loads((tmp_path / "sessions.json").read_text())
    small, large = (report["sizes"][size] for size in ("100", "300"))
    assert list(small["operations"]) == list(large["operations"])
    assert all(one["cpu_ms"] > 0 for one in large["operations"].values())
    assert large["floors"]["codes, all"] > 2 * small["floors"]["codes, all"] > 0
    assert large["cold"]["open and first recall"]["cpu_ms"] > 0
    assert set(report["processes"]) == {"1", "2"}
    assert report["floors"]["bare HTTP"]["p50_ms"] > 0
    drawn = ElementTree.parse(tmp_path / "sessions.svg").getroot()
    assert len(drawn.findall("{*}path[@stroke-width]")) >= 2 * len(large["operations"])
    assert platform.node() not in json.dumps(report)
    assert str(tmp_path.parent) not in json.dumps(report)


def year_command(folder: Path, *options: str) -> list[str]:
    """Three batches."""
    sizes = ("--share", "0.0008", "--dimensions", "32", "--folder", str(folder), "--out", str(folder / "out"))
    return [sys.executable, str(BENCH / "year.py"), *sizes, *options]


def loaded(folder: Path, store: str) -> int:
    progress = folder / store / "progress.json"
    return int(json.loads(progress.read_text())["loaded"]) if progress.exists() else 0


def kill_once_stored(folder: Path, store: str) -> None:
    """Start, and kill without a word as soon as a batch is stored."""
    command = year_command(folder, "--stores", store)
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while not loaded(folder, store):
        assert started.poll() is None
        time.sleep(0.01)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()


@in_turn("year")
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    kill_once_stored(tmp_path, "sqlite")
    assert loaded(tmp_path, "sqlite") < 3000
    done = subprocess.run(year_command(tmp_path, "--stores", "sqlite"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (report,) = json.loads((tmp_path / "out" / "year.json").read_text())
    assert (report["memories"], report["vectors"], report["reads"]) == (3000, 1500, 300)
    found = report["measured"]
    assert 250 <= found["prune of a month"]["memories"] < 260  # time goes on while it is measured
    assert found["backup"]["gb"] > 0
    assert found["recall, one user's"]["cpu_ms"] > 0
    with recollect.open(tmp_path / "sqlite" / "year.db", embedder="none") as mem:
        # Nothing twice and nothing lost: all but the month, and those that were forgotten, erased and added meanwhile.
        assert abs(mem.list(limit=1).total - 2750) < 160


@pytest.fixture
def folder_of_a_server() -> Iterator[Path]:
    """PostgreSQL runs as another user, who may not look into the folders of the tests."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(not SOAK, reason="takes a minute: runs with RECOLLECT_SOAK=1")
def test_a_killed_run_on_postgres_goes_on_with_the_data_of_the_server_that_was_left(folder_of_a_server: Path) -> None:
    kill_once_stored(folder_of_a_server, "postgres")
    asked = year_command(folder_of_a_server, "--stores", "postgres")
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (report,) = json.loads((folder_of_a_server / "out" / "year.json").read_text())
    assert report["measured"]["recall, one user's"]["server_cpu_ms"] > 0
    assert report["measured"]["disk"]["store_gb"] > 0
