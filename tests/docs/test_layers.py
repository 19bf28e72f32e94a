"""The code keeps to its architecture: imports go one way, the surface is what was promised, functions stay small."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import recollect

PACKAGE = Path(__file__).parents[2] / "src" / "recollect"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each layer may import besides itself and `errors`, which everybody raises.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "retry": set(),
    "background_thread": set(),
    "http_client": set(),  # where adapters and interfaces both find it
    "domain": set(),
    "ports": {"domain"},
    "services": {"ports", "domain", "retry"},
    "catalogue": {"services", "ports", "domain", "retry"},
    "settings_files": set(),
    "settings": {"domain", "settings_files"},
    "adapters": {"ports", "domain", "background_thread", "http_client", "retry"},
    "interfaces": {
        *("catalogue", "services", "ports", "domain", "settings", "settings_files", "app", "http_client", "retry", ""),
        "integrations",  # which know only an open memory
    },
    "app": {"adapters", "interfaces", "services", "ports", "domain", "settings", "settings_files", "background_thread"},
    "testing": {"adapters", "app", "catalogue", "services", "ports", "domain", "settings", ""},
    # Else only the operations of an open memory; the package, to open one, and of the domain what filters mean.
    "integrations": {"retry", "domain", ""},
    "": {"integrations", "interfaces", "app", "domain", "settings"},
    "__main__": {"interfaces"},
}
# What each area of services may import besides itself and the modules that lie directly in services/.
AREAS: dict[str, set[str]] = {
    "access": set(),
    "agents": set(),
    "memories": set(),
    "trust": {"memories"},
    "recall": {"memories", "trust"},
    "conversations": {"agents", "memories", "recall"},
    "workspaces": {"agents"},
    "runs": {"memories"},
    "learning": {"memories", "recall", "runs"},
    "frameworks": {"memories", "recall"},
    "data": {"learning", "memories"},
    "importers": set(),  # they read files and know no store
    "cold": {"memories"},
    "retention": {"cold", "memories", "trust"},
    "admin": {
        "access",
        "agents",
        "conversations",
        "data",
        "frameworks",
        "importers",
        "memories",
        "recall",
        "runs",
        "trust",
        "workspaces",
    },
    "backups": {"admin", "memories", "recall"},
    "privacy": {"access", "admin", "cold", "data", "memories", "runs", "workspaces"},
    "background": {  # a module that calls the areas
        "admin",
        "data",
        "frameworks",
        "learning",
        "memories",
        "retention",
        "trust",
    },
}
# What each room of adapters may import besides itself and the modules that lie directly in adapters/.
ROOMS: dict[str, set[str]] = {
    "cold": set(),
    "connections": set(),
    "data": set(),
    "encryption": set(),
    "charts": {"data"},  # drawn under the same limits as SQL
    "backups": {"encryption", "objects"},
    "postgres": set(),
    "models": set(),
    "objects": {"encryption"},
    "records/common": {"encryption"},
    "records/in_memory": {"records/common"},
    "records/sqlite": {"records/common", "encryption"},
    "records/duckdb": {"records/common", "encryption"},
    "records/postgres": {"records/common", "postgres"},
    "records/dynamodb": {"records/common"},
    "vectors": {"postgres"},
    "vectors/embedded": {"vectors", "encryption"},
    "vectors/external": {"vectors", "postgres"},
}
# A broad except belongs at the edge of a process or thread, or where the error is handed to whoever waits for it.
EDGES = {
    ("interfaces/cli/main.py", "_run_command"),
    ("background_thread.py", "_run"),
    ("interfaces/http/app.py", "_answer_of"),
    ("interfaces/tool_runner.py", "_answer"),
    ("interfaces/runner.py", "_decision"),
    ("interfaces/async_threads.py", "_end"),
    ("interfaces/mcp/server.py", "call_tool"),
    ("integrations/wrapping.py", "_surviving"),
    ("interfaces/hosts/hook.py", "hook"),
    ("adapters/records/common/group_commit.py", "_settle"),
    ("adapters/records/common/group_commit.py", "_tidy"),
    ("adapters/records/common/group_commit.py", "_undo"),
    ("adapters/records/dynamodb/turns.py", "_commit"),
    ("adapters/records/dynamodb/turns.py", "_applied"),
    ("adapters/data/child.py", "_answer"),
}
BROAD = {"Exception", "BaseException"}
FAMILIES = BROAD | {"OSError", "RecollectError", "StoreError", "apsw.Error", "ValueError"}


def _name(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def _layer(module: Path) -> str:
    """The folder under the package, or the name of a module in it; "" is the package itself."""
    first = module.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


@cache
def parsed(module: Path) -> ast.Module:
    """Nobody changes it: many look at it."""
    return ast.parse(module.read_text())


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module of ours that is imported, inside functions too, but not for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for branch in node.orelse:
                yield from imports(ast.Module([branch], []))
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written in full"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        yield from imports(node)


def forbidden(module: Path, tree: ast.AST) -> list[str]:
    layer = _layer(module)
    allowed = MAY_IMPORT.get(layer, set()) | {layer, "errors"}
    found = []
    for line, name in imports(tree):
        if name.split(".")[0] != "recollect":
            continue
        to = _imported_layer(name)
        if to not in allowed:
            found.append(f"{_name(module)}:{line} imports {name}")
    return found


def _imported_layer(name: str) -> str:
    part = name.removeprefix("recollect").removeprefix(".").split(".")[0]
    return part if (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").exists() else ""


def _found(modules: Iterable[Path], look: Callable[[Path], Sequence[str]]) -> dict[str, Sequence[str]]:
    """What is wrong, by module: one test looks at all of them, for thousands of tests are slow by themselves."""
    return {_name(module): wrong for module in modules if (wrong := look(module))}


def test_imports_go_one_way() -> None:
    assert [_name(module) for module in MODULES if _layer(module) not in MAY_IMPORT] == [], "say what it may import"
    assert _found(MODULES, lambda module: forbidden(module, parsed(module))) == {}


@pytest.mark.parametrize(
    ("module", "source", "is_forbidden"),
    [
        ("domain/memory.py", "from recollect.ports.records import Scope", True),
        ("domain/memory.py", "def late():\n    import recollect.services.tenant", True),
        ("domain/memory.py", "if TYPE_CHECKING:\n    from recollect.ports.records import Scope", False),
        ("services/recall/recall.py", "from recollect.adapters.public_fetch import fetch", True),
        ("services/recall/recall.py", "from recollect.catalogue import OPERATIONS", True),
        ("adapters/public_fetch.py", "from recollect.services.tenant import Core", True),
        ("interfaces/cli/main.py", "from recollect import adapters", True),
        ("testing/fakes.py", "from recollect.interfaces.client import Recollect", True),
        ("app.py", "from recollect.adapters.citation_lookup import LocalCitationLookup", False),
        ("app/models.py", "from recollect.testing.fakes import HashEmbedder", True),
        ("services/recall/recall.py", "from recollect.errors import NotFound", False),
    ],
)
def test_a_wrong_import_is_noticed(module: str, source: str, is_forbidden: bool) -> None:
    assert bool(forbidden(PACKAGE / module, ast.parse(source))) is is_forbidden


def _area(dotted: list[str]) -> str:
    """The area of services that a module lies in; "" for those that lie directly in services/."""
    first = dotted[2] if len(dotted) > 2 else ""
    return first if first in AREAS or (PACKAGE / "services" / first).is_dir() else ""


def across_areas(module: Path, tree: ast.AST) -> list[str]:
    area = _area(["recollect", *module.relative_to(PACKAGE).with_suffix("").parts])
    allowed = {"", area} | AREAS.get(area, set())
    found = []
    for line, name in imports(tree):
        if name.startswith("recollect.services.") and (to := _area(name.split("."))) not in allowed:
            found.append(f"{_name(module)}:{line} imports {name} of {to}")
    return found


def test_areas_of_services_import_one_way() -> None:
    modules = sorted((PACKAGE / "services").rglob("*.py"))
    areas = {_area(["recollect", *module.relative_to(PACKAGE).parts]) for module in modules}
    assert areas - {"", *AREAS} == set(), "a new area: say what it may import"
    assert _found(modules, lambda module: across_areas(module, parsed(module))) == {}


@pytest.mark.parametrize(
    ("module", "source", "is_forbidden"),
    [
        ("services/memories/revise.py", "from recollect.services.recall.filters import search_conditions", True),
        ("services/memories/revise.py", "from recollect.services import recall", True),
        ("services/tenant.py", "from recollect.services.memories.revise import revise", True),
        ("services/admin/expiry.py", "from recollect.services.background import tasks_of", True),
        ("services/recall/recall.py", "from recollect.services.trust.citations import CitationView", False),
        ("services/recall/recall.py", "from recollect.services.times import zone_for", False),
    ],
)
def test_an_import_across_areas_is_noticed(module: str, source: str, is_forbidden: bool) -> None:
    assert bool(across_areas(PACKAGE / module, ast.parse(source))) is is_forbidden


def test_no_area_stands_on_itself_through_others() -> None:
    """Taking away, again and again, the areas that need none of those left takes them all."""
    left, height = dict(AREAS), 0
    while left:
        free = {area for area, needs in left.items() if not needs & left.keys()}
        assert free, f"these need each other: {sorted(left)}"
        left, height = {area: needs for area, needs in left.items() if area not in free}, height + 1
    assert height <= 7


def _room(dotted: str) -> str:
    """The room of adapters that a module lies in: the longest that fits; "" for those directly in adapters/."""
    path = dotted.removeprefix("recollect.adapters").removeprefix(".").replace(".", "/")
    return max((room for room in ROOMS if f"{path}/".startswith(f"{room}/")), key=len, default="")


def _dotted(module: Path) -> str:
    return ".".join(["recollect", *module.relative_to(PACKAGE).with_suffix("").parts])


def across_rooms(module: Path, tree: ast.AST) -> list[str]:
    room = _room(_dotted(module))
    allowed = {"", room} | ROOMS.get(room, set())
    return [
        f"{_name(module)}:{line} imports {name}"
        for line, name in imports(tree)
        if name.startswith("recollect.adapters.") and _room(name) not in allowed
    ]


def test_rooms_of_adapters_import_one_way() -> None:
    modules = sorted((PACKAGE / "adapters").rglob("*.py"))
    inner = [one for one in modules if one.name != "__init__.py" and one.parent != PACKAGE / "adapters"]
    assert [_name(module) for module in inner if not _room(_dotted(module))] == [], "a new room: say what it may import"
    assert _found(modules, lambda module: across_rooms(module, parsed(module))) == {}


@pytest.mark.parametrize(
    ("module", "source", "is_forbidden"),
    [
        ("adapters/records/sqlite/store.py", "from recollect.adapters.records.duckdb.file import File", True),
        ("adapters/records/common/ddl.py", "from recollect.adapters.records.sqlite import dialect", True),
        ("adapters/vectors/pgvector.py", "from recollect.adapters.records.postgres.store import PostgresStore", True),
        ("adapters/vectors/exact.py", "from recollect.adapters.vectors.embedded import kernels", True),
        ("adapters/vectors/external/index.py", "from recollect.adapters.vectors.embedded.search import Search", True),
        ("adapters/postgres/errors.py", "from recollect.adapters.records.common.checks import check_text", True),
        ("adapters/atomic_file.py", "from recollect.adapters.records.sqlite.store import SqliteStore", True),
        ("adapters/records/in_memory.py", "from recollect.adapters.records.common import checks", False),
        ("adapters/records/sqlite/store.py", "from recollect.adapters.atomic_file import publish", False),
        ("adapters/vectors/external/pgvector.py", "from recollect.adapters.postgres.halfvec import half", False),
    ],
)
def test_an_import_across_rooms_is_noticed(module: str, source: str, is_forbidden: bool) -> None:
    assert bool(across_rooms(PACKAGE / module, ast.parse(source))) is is_forbidden


COMPILED = {
    "recollect.adapters.records.sqlite._log_writes",
    "recollect.adapters.vectors.embedded._scan",
    "recollect.domain.text.pool_words._words",
}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def borrowed(tree: ast.AST) -> list[str]:
    """The private names of other modules of ours that are used: imported, or reached through an imported module."""
    found, modules = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recollect"):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if _is_private(alias.name) and full not in COMPILED:
                    found.append(f"line {node.lineno}: {full}")
                modules.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("recollect.")]
            found += [f"line {node.lineno}: {name}" for name in names if "._" in name and name not in COMPILED]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found += [f"line {node.lineno}: {node.value.id}.{node.attr}"] if _is_private(node.attr) else []
    return found


def test_no_module_uses_the_private_names_of_another() -> None:
    assert _found(MODULES, lambda module: borrowed(parsed(module))) == {}


@pytest.mark.parametrize(
    ("source", "is_borrowed"),
    [
        ("from recollect.adapters.models.endpoint import _post", True),
        ("from recollect.adapters.models import endpoint\nendpoint._post()", True),
        ("import recollect.adapters._hidden", True),
        ("from recollect.adapters.models import endpoint as _endpoint\n_endpoint.post()", False),
        ("from recollect.adapters.vectors.embedded import _scan", False),
        ("class A:\n    def f(self):\n        return self._own", False),
    ],
)
def test_a_borrowed_name_is_noticed(source: str, is_borrowed: bool) -> None:
    assert bool(borrowed(ast.parse(source))) is is_borrowed


def test_the_public_surface_is_frozen() -> None:
    runs = ["Act", "Done", "GiveUp", "Runner", "Task", "tool", "wrap"]
    awaited = ["AsyncRecollect", "aconnect", "aopen"]
    expected = sorted(
        [*runs, *awaited, "Recollect", "RecollectError", "Settings", "cite", "connect", "define_kind", "errors", "open"]
    )
    assert sorted(recollect.__all__) == expected
    assert all(getattr(recollect, name) is not None for name in expected)


HEAVY = ("numpy", "httpx2", "pydantic", "onnxruntime", "apsw", "typer", "rich", "yaml")


@pytest.mark.parametrize(
    "script",
    [
        "import recollect",
        "import recollect; recollect.aopen('x.db'), recollect.aconnect('http://x', 'k')",  # the rest in their thread
        "from recollect.interfaces.cli import main; main.run(['--help'])",
        "from recollect.interfaces.cli import main; main.run(['--version'])",
    ],
)
def test_starting_is_light(script: str) -> None:
    check = f"import sys; {script}; print('loaded', [name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_functions_stay_small() -> None:
    lengths = {
        f"{_name(module)}:{function.name}": _lines(function)
        for module in MODULES
        for function in _functions(parsed(module))
    }
    assert statistics.quantiles(lengths.values(), n=10)[-1] <= 35
    assert {name: lines for name, lines in lengths.items() if lines > 80} == {}


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(one) for one in types}


def _does_nothing(handler: ast.ExceptHandler) -> bool:
    return all(
        isinstance(node, ast.Pass | ast.Continue)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in handler.body
    )


def swallowed(source: str, name: str) -> list[str]:
    """Handlers that lose an error: broad ones that do not raise, silent ones for a whole family without a reason."""
    lines, tree, found = source.splitlines(), ast.parse(source), []
    edges = {
        id(handler)
        for function in _functions(tree)
        if (name, function.name) in EDGES
        for handler in ast.walk(function)
        if isinstance(handler, ast.ExceptHandler)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            explained = any("#" in line for line in lines[node.lineno - 1 : node.body[-1].end_lineno])
            raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            if _caught(node) & BROAD and not raises and id(node) not in edges:
                found.append(f"{name}:{node.lineno} catches everything and does not raise")
            elif _caught(node) & FAMILIES and _does_nothing(node) and not explained:
                found.append(f"{name}:{node.lineno} drops an error without saying why")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            dropped = {ast.unparse(one) for one in node.args}
            if dropped & BROAD or (dropped & FAMILIES and "#" not in lines[node.lineno - 1]):
                found.append(f"{name}:{node.lineno} suppresses errors without saying why")
    return found


def test_no_error_is_swallowed() -> None:
    assert _found(MODULES, lambda module: swallowed(module.read_text(), _name(module))) == {}


@pytest.mark.parametrize(
    ("source", "is_swallowed"),
    [
        ("try:\n    f()\nexcept Exception:\n    log()", True),
        ("try:\n    f()\nexcept:\n    pass", True),
        ("try:\n    f()\nexcept Exception:\n    undo()\n    raise", False),
        ("try:\n    f()\nexcept OSError:\n    pass", True),
        ("try:\n    f()\nexcept OSError:\n    pass  # it is gone already", False),
        ("try:\n    f()\nexcept KeyError:\n    pass", False),
        ("with contextlib.suppress(Exception):  # why not\n    f()", True),
        ("with suppress(OSError):\n    f()", True),
    ],
)
def test_a_swallowed_error_is_noticed(source: str, is_swallowed: bool) -> None:
    assert bool(swallowed(source, "somewhere.py")) is is_swallowed


def test_the_edges_exist() -> None:
    there = {(_name(module), function.name) for module in MODULES for function in _functions(parsed(module))}
    assert there >= EDGES
