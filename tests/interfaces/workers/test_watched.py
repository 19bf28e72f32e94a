"""Workers that die, that are replaced and that stop, and services that cannot have several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import recollect
from recollect.app import check_settings
from recollect.app.background import Background
from recollect.errors import RecollectError, Unsupported
from recollect.interfaces.serve import ServeRequest, core_count, serve
from recollect.interfaces.workers.serving import environment_of, shared_out
from recollect.services.background import Schedule
from recollect.settings import Settings, handed_on, load, received
from serving import Running, SlowModel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks the workers up in /proc")


def workers_of(running: Running) -> set[int]:
    pid = running.process.pid
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts services in the test's folder; what a failed test leaves is killed, and its workers end by themselves."""
    begun: list[Running] = []

    def service(*given: Any, **settings: Any) -> Running:
        begun.append(Running(tmp_path, *given, **settings))
        return begun[-1]

    yield service
    for one in begun:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def wait_until(claim: Callable[[], object]) -> None:
    """Until it is so; a claim that never comes true ends with the time limit of the tests."""
    while not claim():
        time.sleep(0.1)


def asked(running: Running, path: str, **headers: str) -> httpx.Response:
    # Without TLS: reading the certificates of all the world takes longer than the answer.
    return httpx.get(f"{running.url}/{path}", headers=headers, timeout=60, verify=False)


def figure(running: Running, name: str) -> float:
    lines = [line.split() for line in asked(running, "metrics").text.splitlines()]
    return next(float(line[1]) for line in lines if line[0] == name)


def all_serve(running: Running, workers: int = 2) -> bool:
    return figure(running, "recollect_workers") == workers and len(workers_of(running)) == workers


def write(running: Running, writer: int, acknowledged: dict[str, str], enough: threading.Event) -> None:
    """Until it is enough; a connection that breaks under way is opened again, and the write repeated by its key."""
    with recollect.connect(running.url, running.key) as mem:
        for number in range(10_000):
            name = f"{writer}-{number}"
            while not enough.is_set():
                try:
                    acknowledged[name] = mem.remember(f"fact {name}", idempotency_key=name, on_duplicate="keep").id
                    break
                except RecollectError:
                    continue
            if enough.is_set():
                return


def test_a_worker_that_is_killed_is_replaced_and_no_acknowledged_write_is_lost(start: Start) -> None:
    running = start(workers=2)
    acknowledged, enough = dict[str, str](), threading.Event()
    before = workers_of(running)
    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, running, writer, acknowledged, enough) for writer in range(6)]
        for killed, writes in zip(sorted(before), (30, 60), strict=True):
            wait_until(lambda writes=writes: len(acknowledged) >= writes)  # type: ignore[misc]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda killed=killed: killed not in workers_of(running))  # type: ignore[misc]
            wait_until(lambda: all_serve(running))
        wait_until(lambda: len(acknowledged) >= 90)
        enough.set()
        for one in writers:
            one.result()
    assert not before & workers_of(running)
    assert figure(running, "recollect_worker_restarts_total") == 2
    with recollect.connect(running.url, running.key) as mem:
        assert {name: mem.show(id).text for name, id in acknowledged.items()} == {
            name: f"fact {name}" for name in acknowledged
        }
        assert mem.audit.verify().sound
    assert running.end(signal.SIGTERM) == 0
    assert running.said.count("SIGKILL; another takes its place") == 2


def test_workers_are_replaced_one_by_one_with_new_settings_and_nobody_is_refused(tmp_path: Path, start: Start) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("store: s.db\nserver: {workers: 2}\n")
    running = start(source="settings.yaml")
    before = workers_of(running)
    refused: list[int] = []
    settings.write_text("store: s.db\nserver: {workers: 2, hosts: [memory.example.com]}\n")
    running.process.send_signal(signal.SIGHUP)
    while before & workers_of(running):
        status = asked(running, "health").status_code
        refused += [status] if status != 200 else []
    assert not refused
    new = asked(running, "openapi.json", host="memory.example.com")
    assert new.status_code == 200  # the host is known to the new ones
    now = workers_of(running)
    settings.write_text("store: s.db\nserver: {workers: 2, port: 1}\nnonsense: 1\n")
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "go on with the settings they have" in running.said)
    assert workers_of(running) == now
    assert running.end(signal.SIGTERM) == 0


def test_all_finish_what_they_began_and_are_not_ready_when_asked_to_stop(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SlowModel()) as model:
        monkeypatch.setenv("RECOLLECT_EMBEDDER__BASE_URL", f"http://127.0.0.1:{model.server.server_port}/v1")
        monkeypatch.setenv("RECOLLECT_EMBEDDER__MODEL", "slow")
        monkeypatch.setenv("RECOLLECT_EMBEDDER__DIMENSIONS", "3")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        running = start(embedder="openai", workers=2, server__drain_seconds="120")
        workers = workers_of(running)
        with recollect.connect(running.url, running.key) as mem, ThreadPoolExecutor(1) as pool:
            begun = pool.submit(mem.remember, "in flight when it was asked to stop")
            assert model.asked.wait(60)
            for worker in workers:  # as a service manager does that signals every process
                os.kill(worker, signal.SIGTERM)
            wait_until(lambda: {asked(running, "ready").status_code for _ in range(6)} == {503})
            running.process.send_signal(signal.SIGTERM)
            for _ in range(10):  # until those who balance load have noticed
                time.sleep(0.1)
                assert asked(running, "health").status_code == 200
            model.is_let_go.set()
            assert begun.result(60).id
        assert running.end(signal.SIGTERM) == 0  # a second time: nobody waits any longer
    with recollect.open(tmp_path / "s.db", embedder="hash") as mem:
        assert mem.list(limit=1).total == 1


def test_workers_do_not_outlive_who_watches_over_them(start: Start) -> None:
    running = start(workers=2)
    workers = workers_of(running)
    running.end(signal.SIGKILL)
    wait_until(lambda: not any(is_alive(worker) for worker in workers))
    again = start(running.port)  # the port is free again
    assert again.end(signal.SIGTERM) == 0


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_key_of_an_encrypted_store_is_asked_for_once_and_is_on_no_command_line(
    tmp_path: Path, start: Start
) -> None:
    key = subprocess.run(
        [sys.executable, "-m", "recollect", "encryption", "new-key"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (tmp_path / "key").write_text(key)
    program = tmp_path / "ask.sh"
    program.write_text("#!/bin/sh\necho asked >> asked\ncat key\n")
    program.chmod(0o700)
    running = start(workers=2, key_command=str(program))
    processes = [running.process.pid, *workers_of(running)]
    shown = [Path(f"/proc/{one}/{what}").read_bytes() for one in processes for what in ("cmdline", "environ")]
    assert not any(key.encode() in one for one in shown)
    assert (tmp_path / "asked").read_text().split() == ["asked"]
    with recollect.connect(running.url, running.key) as mem:
        made = mem.remember("Nobody reads this in the file")
        assert mem.recall("nobody reads")[0].id == made.id
    assert running.end(signal.SIGTERM) == 0
    assert b"Nobody reads this" not in (tmp_path / "s.db").read_bytes()


def started(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash"}
    environment |= {f"RECOLLECT_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "recollect", "serve", *arguments, "--port", "0", "--workers", "2"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_a_service_whose_workers_cannot_start_says_why_and_ends(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("no store at all, but a text of some length")
    done = started(tmp_path, "s.db")
    assert done.returncode in (1, 2)
    assert "not a Recollect store" in done.stderr or "not_a_recollect_store" in done.stderr
    assert "listens on" not in done.stderr
    public = started(tmp_path, "new.db", server__host="0.0.0.0")
    assert public.returncode == 2
    assert "without keys" in public.stderr


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"store": "memory://"}, "a store in memory"),
        ({"store": "duckdb:///x.duckdb"}, "a DuckDB file"),
        ({"store": "x.db", "vectors": "chroma:folder"}, "the folder in vectors.path"),
    ],
)
def test_what_only_one_process_can_have_open_is_refused(
    settings: dict[str, str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(f"RECOLLECT_{name.upper()}", value)
    with pytest.raises(Unsupported, match=what) as refusal:
        serve(ServeRequest(port=0, workers=2))
    assert "server.workers to 1" in refusal.value.remedy
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("RECOLLECT_SERVER__WORKERS", "2")
    found = {finding.name: finding for finding in check_settings()}
    assert (found["workers"].well, found["workers"].remedy) == (False, refusal.value.remedy)


def test_windows_is_told_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unsupported, match="need Unix"):
        serve(ServeRequest(port=0, workers=2))


def test_the_processor_is_divided_among_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    settings = Settings(embedder={"threads": 4}, data_processes=6)
    of_four = shared_out(settings, 4)
    assert (of_four.embedder.threads, of_four.data_processes) == (2, 1)
    assert shared_out(settings, 16).embedder.threads == 1
    assert environment_of(4, "folder")["OMP_NUM_THREADS"] == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment_of(4, "folder")["OMP_NUM_THREADS"] == "7"


def test_cores_are_those_that_the_process_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    limit = tmp_path / "cpu.max"
    assert core_count(limit) == 8
    for text, cores in {"max 100000": 8, "200000 100000": 2, "50000 100000": 1, "9900000 100000": 8}.items():
        limit.write_text(text)
        assert core_count(limit) == cores


def test_settings_are_the_same_for_whom_they_are_handed_on_to(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        "store: postgresql://u:p@host/db\nkey: secret\nserver: {proxies: [10.0.0.0/8], key_file: k}\n"
        "embedder: {provider: hash}\nrepositories: {app: /srv/git}\nevidence: {verified: [file]}\n"
    )
    settings = load(file)
    again = received(handed_on(settings))
    assert again == settings
    assert again.key is not None
    assert again.key.get_secret_value() == "secret"


def test_who_takes_the_place_of_a_worker_that_died_goes_on_with_its_background_work(mem: Any) -> None:
    """Another would wait until the lease of the dead one runs out."""
    dead = Background(mem._core, Schedule(look_seconds=1e6), holder="service-0")
    dead.once()
    mem.remember("soon gone", ttl_seconds=0.001)
    with closing(Background(mem._core, Schedule(look_seconds=1e6), holder="service-1")) as other:
        other.once()
        assert mem.sweep(dry_run=True).expired == 1
    with closing(Background(mem._core, Schedule(look_seconds=1e6), holder="service-0")) as next_one:
        next_one.once()
        assert mem.sweep(dry_run=True).expired == 0
