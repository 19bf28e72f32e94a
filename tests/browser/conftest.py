"""A real service before a filled store, and a real Chromium that visits it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import recollect

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
    " --disable-sync --disable-dev-shm-usage"
).split()
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if CHROMIUM is None:
        pytest.skip(f"NOT RUN, there is no Chromium (Debian: apt-get install chromium-headless-shell): {item.nodeid}")


@pytest.fixture(scope="session")
def once_filled(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Filling takes seconds: what was filled is kept, to begin with again."""
    from seed_console import fill

    folder, kept = tmp_path_factory.mktemp("console"), tmp_path_factory.mktemp("kept") / "console"
    with recollect.open(folder / "team.db", embedder="hash", citation_root=folder) as mem:
        ids = fill(mem, memories=80, notes=folder / "pool.yaml", hostile=True)
    shutil.copytree(folder, kept)
    return SimpleNamespace(folder=folder, kept=kept, ids=ids)


@pytest.fixture(scope="module")
def filled(once_filled: SimpleNamespace) -> SimpleNamespace:
    """As it was filled, for each file; at the same place, since what it holds names the place."""
    from seed_console import PASSWORD

    shutil.rmtree(once_filled.folder)
    shutil.copytree(once_filled.kept, once_filled.folder)
    enter = partial(_enter, password=PASSWORD)
    return SimpleNamespace(folder=once_filled.folder, ids=once_filled.ids, password=PASSWORD, enter=enter)


@pytest.fixture(scope="module")
def address(filled: SimpleNamespace) -> Iterator[str]:
    # Over a door files are looked at only in folders that the operator names; the console is one.
    environment = {
        **os.environ,
        "RECOLLECT_EMBEDDER__PROVIDER": "hash",
        "RECOLLECT_CITATION_ROOTS": str(filled.folder),
        "RECOLLECT_CONNECTIONS__FOLDERS": str(filled.folder),
    }
    command = [
        sys.executable,
        "-m",
        "recollect",
        "serve",
        str(filled.folder / "team.db"),
        "--port",
        "0",
    ]
    with (filled.folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stderr=log, stdout=log, env=environment, cwd=filled.folder)
    try:
        yield _listening(server, filled.folder / "log")
    finally:
        server.terminate()
        server.wait(30)


def _listening(server: subprocess.Popen[bytes], log: Path) -> str:
    while True:
        found = re.search(r"listens on (\S+)", log.read_text())
        if found:
            return found[1]
        try:
            server.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the service ended: {log.read_text()}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For this module only: the driver keeps an event loop running, in which nobody else could start one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def signed_in(browser: Any, address: str, filled: SimpleNamespace) -> Any:
    """The cookies of somebody who signed in: once each, since guessing is limited."""

    @cache
    def cookies(name: str) -> Any:
        context = browser.new_context(base_url=address)
        page = context.new_page()
        page.goto("/console/sign-in")
        filled.enter(page, name)
        page.wait_for_url("**/console")
        state = context.storage_state()
        context.close()
        return state

    return cookies


@pytest.fixture
def visit(browser: Any, address: str, signed_in: Any) -> Iterator[Any]:
    """Open a signed-in page; whatever the page complains of, or asks of another place, fails the test."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(path: str = "", who: str | None = "maya", **options: Any) -> Any:
        state = signed_in(who) if who else None
        context = browser.new_context(base_url=address, storage_state=state, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: complaints.append(asked.url) if not asked.url.startswith(address) else None)
        page.goto(f"/console{path}")
        return page

    opened.expected = ()  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    expected = opened.expected  # type: ignore[attr-defined]
    assert [one for one in complaints if not any(part in one for part in expected)] == []


def _enter(page: Any, name: str, password: str) -> None:
    page.get_by_label("Email").fill(f"{name}@example.com")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
