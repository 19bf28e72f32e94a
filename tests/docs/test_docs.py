"""The documentation is true: its examples run, its links lead somewhere, what is generated is up to date."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from model_endpoint import scripted_model
from recollect import errors
from recollect.catalogue import FORMER_NAMES, OPERATIONS
from recollect.domain.kinds import KINDS
from recollect.domain.record import RECORDS
from recollect.interfaces.async_client import AsyncRecollect
from recollect.interfaces.cli import commands, main
from recollect.interfaces.client import Recollect
from recollect.settings import Settings
from seeds import SOAK

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
# What a new user reads first runs with the real embedding model, the rest with the instant one.
REAL_MODEL = {"README.md", "chat-agent.md", "coding-agent.md"}
STEP = re.compile(r"`((?:\w+/)*\w+\.py):(\w+)`")


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


runner = _loaded(Path(__file__).with_name("run_page.py"))


def _name(page: Path) -> str:
    return page.relative_to(CHECKOUT).as_posix()


def _has_examples(page: Path) -> bool:
    return any(language in ("python", "console") for _, language, _ in runner.blocks(page.read_text()))


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[str, str]]:
    """Two language models: one that answers from the context it is given, as in the tutorials, and one that says what
    it was told to, for the clients of all providers."""
    with _loaded(Path(__file__).with_name("chat_endpoint.py")).serving() as chat, scripted_model() as scripted:
        yield chat, f"{scripted.url}/v1"


Runs = Callable[[Path, Path, dict[str, str]], tuple[int, str]]


@pytest.fixture(scope="module")
def run_in_a_process() -> Iterator[Runs]:
    """Runs a page in a folder: how its process ended and what it printed."""
    command = [sys.executable, "-W", "error", str(runner.__file__)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        asking, answers = server.stdin, server.stdout

        def run(page: Path, folder: Path, surroundings: dict[str, str]) -> tuple[int, str]:
            said = folder.with_name(f"{folder.name} said")
            asked = {"page": str(page), "folder": str(folder), "surroundings": surroundings, "said": str(said)}
            print(json.dumps(asked), file=asking, flush=True)
            ended = int(answers.readline())
            return ended, said.read_text()

        yield run
        asking.close()
        assert server.wait(60) == 0


def _surroundings(page: Path, models: tuple[str, str]) -> dict[str, str]:
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    address = models[0 if page.parent.name == "tutorials" else 1]
    surroundings |= {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "none", "CHAT_MODEL": "scripted"}
    if page.name not in REAL_MODEL:
        surroundings["RECOLLECT_EMBEDDER__PROVIDER"] = "hash"
    return surroundings


@pytest.mark.parametrize("page", [page for page in PAGES if _has_examples(page)], ids=_name)
def test_the_examples_of_a_page_run_as_shown(
    page: Path, tmp_path: Path, models: tuple[str, str], run_in_a_process: Runs
) -> None:
    ended, said = run_in_a_process(page, tmp_path, _surroundings(page, models))
    assert ended == 0, said


def test_a_page_that_fails_is_told_with_what_it_printed(
    tmp_path: Path, models: tuple[str, str], run_in_a_process: Runs
) -> None:
    page = tmp_path / "page.md"
    page.write_text('```python\nprint("so far")\nassert not "good"\n```\n')
    ended, said = run_in_a_process(page, tmp_path, _surroundings(page, models))
    assert ended == 1
    assert "so far" in said
    assert "AssertionError" in said


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        (["sound: 1 memories"], ["sound:  1 memories "], True),
        (["sound: 1 memories"], ["sound: 2 memories"], False),
        ([" 1   0.52  pytest"], [" 1  -1.20  pytest"], True),
        (["first", "…"], ["first", "second", "third"], True),
        (["…", "third"], ["first", "second"], False),
        (["bytes  …"], ["bytes  4096"], True),
        (["one"], ["one", "two"], False),
    ],
)
def test_shown_output_is_compared_in_substance(shown: list[str], printed: list[str], agree: bool) -> None:
    assert runner.agrees(shown, printed) is agree


def test_a_command_with_other_output_than_shown_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```console\n$ recollect --version\nrecollect 99\n```\n")
    with pytest.raises(AssertionError, match="but the page shows"):
        runner.run(page)


def test_generated_pages_are_up_to_date() -> None:
    """And the same bytes every time: these were written by another process, with other hashes of strings."""
    assert [_name(path) for path in generator().stale()] == [], "run `make docs`"


def test_a_stale_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "errors.md"
    old.write_text("old")
    made = generator()
    monkeypatch.setattr(made, "pages", lambda: {old: "new"})
    monkeypatch.setattr(made, "ROOT", tmp_path)
    assert made.stale() == [old]
    assert made.main(["--check"]) == 1


def test_figures_come_from_the_results_and_only_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = generator()
    monkeypatch.setattr(made, "RESULTS", tmp_path)
    readme = f"before\n{made.BEGIN}\n## Measured by hand: 12 ms\n{made.END}\nafter\n"
    empty = made.with_figures(readme)
    assert "12 ms" not in empty
    assert "Measured" not in empty
    scopes = {"1% tenant": {"p50_ms": 1.9, "recall_at_10": 1.0}}
    report = [{"rows": 1000, "dimensions": 8, "scopes": scopes}, {"rows": 9, "dimensions": 8, "skipped": "no disk"}]
    (tmp_path / "scale.json").write_text(json.dumps(report))
    row = "| vector search, 1,000 x 8, 1% tenant | median 1.9 ms, recall@10 1.0 | `make bench-scale` |"
    assert row in made.with_figures(empty)
    assert made.with_figures(made.with_figures(empty)) == made.with_figures(empty)


def test_figures_are_told_with_three_digits() -> None:
    said = "p50 0.5573 ms, 34.592 ms, R@10 76.6, recall@10 0.9995, 1,933 bytes, 179,830 bytes, 1.0, 242/s"
    short = "p50 0.557 ms, 34.6 ms, R@10 76.6, recall@10 0.999, 1,930 bytes, 180,000 bytes, 1.0, 242/s"
    assert generator()._NUMBER.sub(generator()._in_short, said) == short


def test_the_reports_of_the_benchmarks_are_understood() -> None:
    recall = {"questions": 3, "turns": 5, "recall": {"R@5": 70.1}, "latency_ms": {"median": 4, "p95": 9}}
    add = {"recollect": {"p50_ms": 1}, "chroma": {"p50_ms": 2}}
    peers = {"sizes": {"10": {"recall": add, "add": add}}}
    read = generator()._figures
    assert next(read("recall_quality", recall))[1] == "R@5 70.1"
    assert next(read("peers", peers)) == (
        "one user's ten nearest of 10 memories, median", "full recall 1 ms; Chroma 2 ms", "`make bench`"
    )  # fmt: skip
    assert list(read("unknown", {})) == []


def test_the_readme_has_a_place_for_figures() -> None:
    readme = (CHECKOUT / "README.md").read_text()
    assert generator().BEGIN in readme
    assert generator().END in readme


@cache
def generator() -> Any:
    return _loaded(DOCS / "generate.py")


def _without_code(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The headings of a page as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.+)$", _without_code(page.read_text()), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings)


def _broken_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(_without_code(page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(_broken_links(page)) == []


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(index.read_text())}
    assert [_name(page) for page in sorted(DOCS.rglob("*.md")) if page != index and page not in linked] == []


def test_every_operation_is_documented_with_all_its_fields() -> None:
    page = (REFERENCE / "operations.md").read_text()
    for operation in OPERATIONS.values():
        section = page.partition(f"\n## {operation.name}\n")[2].partition("\n## ")[0]
        assert section, operation.name
        assert [field for field in operation.request.model_fields if f"| `{field}` |" not in section] == []


def test_every_command_is_in_the_help_and_in_the_reference() -> None:
    grouped = {name for names in commands.HEADINGS.values() for name in names.split()}
    assert grouped == {operation.group or name for name, operation in commands.COMMANDS.items()}
    page = (REFERENCE / "cli.md").read_text()
    assert [name for name in commands.COMMANDS if f"\n### {name}\n" not in page] == []


@pytest.mark.parametrize("command", sorted(commands.COMMANDS))
def test_the_options_of_a_command_are_those_of_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*command.split(), "--help"]) == 0
    helped = set(re.findall(r"^ +(?:-v, )?(--[a-z0-9-]+)", capsys.readouterr().out, re.MULTILINE))
    head, _, rest = (REFERENCE / "cli.md").read_text().partition("\n## ")
    section = rest.partition(f"\n### {command}\n")[2].partition("\n##")[0]
    documented = set(re.findall(r"^\| `(--[\w-]+)", head + section, re.MULTILINE))
    program = commands.COMMANDS[command]
    if isinstance(program, commands.Program):
        common = {"--organization", "--actor", "--profile", "--readonly", "--verbose"} | (
            {"--store"} if "settings" not in program.request.model_fields else set()
        )
        documented -= common - set(re.findall(r"`(--[\w-]+)", section))
    assert documented | {"--help"} == helped


def test_every_setting_is_documented() -> None:
    page = (REFERENCE / "settings.md").read_text()
    names = [*Settings.model_fields]
    for outer in ("embedder", "language_model"):
        inner = Settings.model_fields[outer].annotation
        assert inner is not None
        names += [f"{outer}.{name}" for name in inner.model_fields]
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_example_settings_are_valid() -> None:
    found = [
        text
        for page in PAGES
        for _, language, text in runner.blocks(page.read_text())
        if language == "yaml" and "store:" in text
    ]
    assert found
    for text in found:
        values = yaml.safe_load(text)
        values.pop("profile", None)  # of the user's own file, and of a project's
        for some in (values, *values.pop("profiles", {}).values()):
            Settings.model_validate(some)


def _all_errors(error: type[errors.RecollectError] = errors.RecollectError) -> Iterator[type[errors.RecollectError]]:
    yield error
    for inner in error.__subclasses__():
        if inner.__module__ == "recollect.errors":
            yield from _all_errors(inner)


def test_every_error_is_documented_with_its_code_and_status() -> None:
    page = (REFERENCE / "errors.md").read_text()
    rows = [f"| [`{e.__name__}`](#{e.__name__.lower()}) | `{e.code}` | {e.http_status} |" for e in _all_errors()]
    assert [row for row in rows if row not in page] == []


def test_the_tree_at_the_top_of_errors_is_the_tree() -> None:
    drawn = re.findall(r"(\w+) +([a-z_]+) +(\d{3})", errors.__doc__ or "")
    assert drawn == [(e.__name__, e.code, str(e.http_status)) for e in _all_errors() if e is not errors.RecollectError]


def test_error_codes_are_unique() -> None:
    codes = [error.code for error in _all_errors()]
    assert len(codes) == len(set(codes))


def test_every_record_and_every_kind_is_documented() -> None:
    records, kinds = (REFERENCE / "records.md").read_text(), (REFERENCE / "kinds.md").read_text()
    assert [table for table in RECORDS if f"\n## {table}\n" not in records] == []
    built_in = [name for name, content in KINDS.items() if content.__module__ == "recollect.domain.kinds"]
    assert [name for name in built_in if f"\n## {name}\n" not in kinds and not _is_users_own(name)] == []


def _is_users_own(kind: str) -> bool:
    """Other tests of the same process may have defined kinds."""
    return "defined by a user" in (KINDS[kind].__doc__ or "")


def test_the_steps_of_the_architecture_page_exist() -> None:
    steps = STEP.findall((DOCS / "architecture.md").read_text())
    assert len(steps) > 20
    assert [f"{path}:{name}" for path, name in steps if name not in _defined(path)] == []


@cache
def _defined(path: str) -> frozenset[str]:
    file = CHECKOUT / "src" / "recollect" / path
    if not file.exists():
        return frozenset()
    tree = ast.parse(file.read_text())
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


@pytest.mark.parametrize(("client", "file"), [(Recollect, "client.pyi"), (AsyncRecollect, "async_client.pyi")])
def test_every_method_of_the_client_is_in_its_stubs(client: type, file: str) -> None:
    tree = ast.parse((CHECKOUT / "src/recollect/interfaces" / file).read_text())
    stubbed = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == client.__name__)
    names = {node.name for node in stubbed.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    public = {name for name in vars(client) if not name.startswith("_")}
    assert public - set(FORMER_NAMES) == {name for name in names if not name.startswith("_")}


def test_the_stubs_are_checked_by_the_strict_rules_of_the_one_run_over_all_tests() -> None:
    mypy = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["strict"]
    assert "tests" in mypy["files"]
    assert "exclude" not in mypy
    loosened = [
        one for more in mypy["overrides"] for one in more["module"] if one.startswith(("docs", "typed_use", "*"))
    ]
    assert loosened == []


@pytest.mark.skipif(not SOAK, reason="a second run of mypy: runs with RECOLLECT_SOAK=1")
def test_the_stubs_hold_for_whoever_has_installed_them(tmp_path: Path) -> None:
    """Outside of the checkout and its settings; every day `typed_use.py` is checked with all other tests."""
    used, ignored = Path(__file__).with_name("typed_use.py").read_text(), re.compile(r"  # type: ignore\[([\w-]+)\]")
    script = tmp_path / "use.py"
    script.write_text(ignored.sub("", used))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    wrong = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [line.rpartition("[")[2].rstrip("]") for line in wrong] == ignored.findall(used), done.stdout
