"""A command loads what it uses and nothing else: modules are counted, not seconds."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.app import vectors as app_vectors
from recollect.interfaces.cli import arguments
from recollect.interfaces.cli import main as cli
from recollect.interfaces.cli.commands import COMMANDS
from recollect.interfaces.cli.render import replies

NEVER = (
    "recollect.adapters.backups", "recollect.adapters.charts", "recollect.adapters.cold",
    "recollect.adapters.connections", "recollect.adapters.data",
    "recollect.app.background", "recollect.app.store_restore", "recollect.domain.charts",
    "recollect.interfaces.http", "recollect.ports.data", "recollect.services.admin", "recollect.services.agents",
    "recollect.services.background", "recollect.services.backups", "recollect.services.cold", "recollect.services.data",
    "recollect.services.frameworks", "recollect.services.importers", "recollect.services.learning",
    "recollect.services.privacy", "recollect.services.retention", "recollect.services.runs",
    "recollect.services.trust.governance", "recollect.services.workspaces",
    "asyncio", "duckdb", "httpx2", "pyarrow", "rich.progress", "sqlglot", "starlette", "yaml",
)  # fmt: skip
"""What no command needs that stores, finds or lists memories."""

_SCRIPT = """
import gc, json, os, sys
from recollect.interfaces.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
try:  # not ru_maxrss: in that a process has what its parent had
    with open("/proc/self/status") as status:
        most = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
except FileNotFoundError:
    most = None
seen = {"code": code, "modules": sorted(sys.modules), "megabytes": most}
seen["blas"] = os.environ["OPENBLAS_NUM_THREADS"]
print("\\n" + json.dumps({**seen, "gc": gc.isenabled(), "frozen": gc.get_freeze_count()}))
"""


def _seen(*command: str, given: str = "") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *command], input=given, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert seen["code"] == 0, done.stderr
    return seen


def _loaded(seen: dict[str, Any]) -> list[str]:
    return [one for one in seen["modules"] if f"{one}.".startswith(tuple(f"{name}." for name in NEVER))]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("light") / "a.db"
    with recollect.open(path, background=False) as mem:
        mem.remember("the key hangs behind the boiler")
        mem.remember("pytest is the test framework")
    return str(path)


def test_recall_loads_what_finds_memories_and_nothing_else(store: str) -> None:
    seen = _seen("recall", "where is the key?", "--store", store)
    assert _loaded(seen) == []
    assert "onnxruntime" in seen["modules"]
    ours = [one for one in seen["modules"] if one.startswith("recollect.")]
    assert len(ours) < 221, "a module that recall imports has become one too many: import it where it is used"


@pytest.mark.parametrize(
    "command", [("list",), ("remember", "Alice prefers tea"), ("recall", "tea", "--json"), ("context", "tea")]
)
def test_the_everyday_commands_are_as_light(store: str, command: tuple[str, ...]) -> None:
    seen = _seen(*command, "--store", store)
    assert _loaded(seen) == []
    assert ("onnxruntime" in seen["modules"]) is (command != ("list",))


def test_a_hook_that_runs_at_every_prompt_is_as_light(store: str) -> None:
    given = json.dumps({"prompt": "where is the key?"})
    assert _loaded(_seen("hook", "prompt", "--store", store, given=given)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_recall_takes_little_memory(store: str) -> None:
    """140 MB were seen, 335 before; the bound leaves room for other versions of what it loads."""
    assert _seen("recall", "where is the key?", "--store", store)["megabytes"] < 200


def test_garbage_is_looked_for_while_a_command_works_and_no_longer_at_its_end(store: str) -> None:
    seen = _seen("list", "--store", store)
    assert (seen["gc"], seen["frozen"] > 10_000) == (True, True)
    assert gc.isenabled()


def test_no_thread_spins_for_what_takes_microseconds_unless_somebody_wants_it_to(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert _seen("list", "--store", store)["blas"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert _seen("list", "--store", store)["blas"] == "3"


def test_every_renderer_is_found_by_the_type_of_the_reply() -> None:
    for name, render in replies.OWN.items():
        module, _, type = name.partition(":")
        assert replies.renderer_of(getattr(import_module(f"recollect.{module}"), type)) is render
    for area in set(replies.AREAS.values()):
        for type, render in import_module(f"recollect.interfaces.cli.render.{area}").RENDERERS.items():
            assert replies.renderer_of(type) is render, type


def test_all_renderers_are_in_a_table() -> None:
    folder = Path(str(replies.__file__)).parent
    with_table = {file.stem for file in folder.glob("*.py") if "RENDERERS: dict" in file.read_text(encoding="utf-8")}
    assert with_table == set(replies.AREAS.values())


def test_what_refines_a_reply_is_shown_by_its_own_renderer() -> None:
    from recollect.interfaces.cli.render import queries
    from recollect.services.data.answers import AnswerReceipt
    from recollect.services.memories.revise import Receipt

    class Refined(Receipt):
        pass

    assert replies.renderer_of(AnswerReceipt) is queries.RENDERERS[AnswerReceipt]
    assert replies.renderer_of(Refined) is replies.Renderer.receipt


def _names(*given: str) -> set[str]:
    function = arguments.command_function(COMMANDS["recall"], given)
    return set(function.__annotations__)


def test_of_the_options_only_those_are_built_that_were_given() -> None:
    assert _names("tea") == {"query"}
    assert _names("tea", "--limit", "3", "--store=a.db", "--json") == {"query", "limit", "store", "as_json"}
    assert len(_names("tea", "--help")) > 40
    assert len(_names("tea", "--limt", "3")) > 40
    assert _names("tea", "-1") == _names("tea", "--help")  # it may be a value, which the parser knows


def test_a_misspelt_option_is_still_told_what_may_have_been_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["recall", "tea", "--limt", "3"]) == 2
    assert "--limit" in capsys.readouterr().err


def test_what_a_command_read_of_the_vectors_the_next_need_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from recollect.adapters.vectors.embedded import state

    (tmp_path / "s.yaml").write_text(f"store: {tmp_path / 'a.db'}\nembedder: {{provider: hash}}\n", encoding="utf-8")
    with recollect.open(tmp_path / "s.yaml", background=False) as mem:
        mem.remember_many([{"content": f"the gravel of lot {number}"} for number in range(50)])
    monkeypatch.setattr(app_vectors, "ONE_ANSWER_SEAL_ROWS", 10)
    read: list[int] = []
    extend = state.extend

    def counted(unsealed: Any, *given: Any) -> None:
        before = len(unsealed)
        extend(unsealed, *given)
        read.append(len(unsealed) - before)

    monkeypatch.setattr(state, "extend", counted)
    for _ in range(2):
        assert cli.run(["recall", "gravel of lot 7", "--store", str(tmp_path / "s.yaml")]) == 0
        assert "lot 7" in capsys.readouterr().out
        read.append(-1)
    assert read == [50, -1, 0, -1]
