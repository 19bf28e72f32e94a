"""The Python client, the settings and the catalogue behind them."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.records.in_memory import MemoryStore
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.catalogue import GROUPS, OPERATIONS, Operation
from recollect.errors import Closed, DamagedData, InvalidInput, InvalidSettings, NotFound, RecollectError
from recollect.interfaces.client import Recollect, attach, signature
from recollect.settings import load


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_resolves_and_is_a_method(name: str) -> None:
    operation = OPERATIONS[name]
    assert callable(operation.function)
    assert set(operation.positional) <= set(operation.request.model_fields)
    assert operation.request.__doc__
    assert operation.summary.endswith(".")
    assert operation.group in ("", *GROUPS)
    home = Recollect if not operation.group else getattr(Recollect, operation.group).fget
    method = getattr(home, operation.verb)
    assert callable(method.fget.__call__ if name in GROUPS else method)  # `mem.backup(...)` beside `mem.backup.list()`
    assert signature(operation).parameters
    assert all(field.description for field in operation.request.model_fields.values())


def test_routes_are_unique_and_name_fields_of_the_request() -> None:
    routes = [operation.route for operation in OPERATIONS.values()]
    assert len(set(routes)) == len(routes)
    for operation in OPERATIONS.values():
        for part in operation.route.split("/"):
            if part.startswith("{"):
                assert part.strip("{}") in operation.request.model_fields, operation.name


def test_too_many_or_doubled_values_are_refused(mem: Any) -> None:
    with pytest.raises(InvalidInput, match="positional arguments"):
        mem.remember("a", "b")
    with pytest.raises(InvalidInput, match="twice"):
        mem.remember("a", content="b")
    with pytest.raises(InvalidInput, match="no operation"):
        mem.call("fly")


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    mem = recollect.open(tmp_path / "x.db", embedder="hash")
    mem.close()
    mem.close()
    with pytest.raises(Closed):
        mem.remember("too late")
    with pytest.raises(Closed):
        mem.recall("too late")


def test_closing_lets_go_of_the_store_whatever_befalls_the_index(tmp_path: Path, monkeypatch: Any) -> None:
    """Else a DuckDB file stays locked for as long as the process lives."""

    def failing() -> None:
        raise KeyboardInterrupt

    address = f"duckdb:///{tmp_path}/x.duckdb"
    mem = recollect.open(address, embedder="hash")
    index = mem._core.vectors
    with monkeypatch.context() as patch:
        patch.setattr(index, "close", failing)
        with pytest.raises(KeyboardInterrupt):
            mem.close()
    index.close()
    recollect.open(address, embedder="hash").close()


def test_within_shares_the_store_but_not_the_data(mem: Any) -> None:
    other = mem.within("acme", actor="bob")
    receipt = other.remember("acme's own")
    assert mem.stats().memories == 0
    assert other.organization == "acme"
    other.close()
    assert mem.within("acme").show(receipt.id).fields["created_by"] == "bob"


def test_settings_arguments_beat_the_environment_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("organization: file\ntimezone: Asia/Bangkok\nembedder:\n  provider: none\n  threads: 1\n")
    monkeypatch.setenv("RECOLLECT_ORGANIZATION", "environment")
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    assert load(path).organization == "environment"
    assert load(path, organization="argument").organization == "argument"
    assert (load(path).embedder.provider, load(path).embedder.threads) == ("hash", 1)
    assert load(path).timezone == "Asia/Bangkok"


@pytest.mark.parametrize(
    "text",
    ["colour: red", "timezone: Mars/Olympus", "- a list", "embedder: {provider: psychic}", "a: [", "organization: ''"],
)
def test_wrong_settings_are_refused_with_a_pointer(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(InvalidSettings):
        load(path)


@pytest.mark.parametrize("address", ["mysql://x", "postgres:/y.db/z.db", "/proc/nope/x.db"])
def test_an_address_that_cannot_be_opened_is_a_typed_error(address: str) -> None:
    with pytest.raises(RecollectError):
        recollect.open(address, embedder="hash")


def test_sqlite_addresses_and_paths_mean_the_same(tmp_path: Path) -> None:
    with recollect.open(f"sqlite:///{tmp_path}/a%20b.db", embedder="hash") as mem:
        mem.remember("here")
    with recollect.open(tmp_path / "a b.db", embedder="hash") as mem:
        assert mem.stats().memories == 1


def test_an_endpoint_needs_its_address(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="base_url"):
        recollect.open(tmp_path / "x.db", embedder={"provider": "openai"})


def test_words_alone_work_without_any_model(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="none") as mem:
        receipt = mem.remember("only words here")
        assert receipt.indexed == ["text"]
        assert mem.recall("words")[0].id == receipt.id
        assert mem.verify().sound


def test_a_store_cut_to_nothing_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        mem.remember("here once")
        mem._core.vectors.refresh()
    (tmp_path / "x.db").write_bytes(b"")
    with pytest.raises(DamagedData):
        recollect.open(tmp_path / "x.db", embedder="hash")


def test_an_operation_of_a_room_is_called_through_its_room(mem: Any) -> None:
    class Client(Recollect):
        pass

    operation = Operation("desk.stats", "upkeep:stats", "read", "GET /desk", (), "Like stats.")
    attach(Client, [operation], {"desk": "All that lies on the desk."})
    called = []
    client = Client(mem._core, mem._scope, mem._prepare, owns=False)
    client.call = lambda name, **fields: called.append((name, fields))  # type: ignore[method-assign]
    client.desk.stats()  # type: ignore[attr-defined]
    assert called == [("desk.stats", {})]
    assert operation.command == "desk stats"


def test_secrets_come_from_the_environment_or_a_file_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_WORD", "p@ss/w:rd")
    (tmp_path / "word").write_text("fr√m a file\n")
    path = tmp_path / "r.yaml"
    path.write_text("store: postgresql://app:${DB_WORD}@db.local/memory\n")
    settings = load(path)
    assert settings.store == "postgresql://app:p%40ss%2Fw%3Ard@db.local/memory"
    assert "p%40ss" not in repr(settings)
    assert "app:***@db.local" in repr(settings)
    path.write_text(f"actor: ${{file:{tmp_path}/word}}\n")
    assert load(path).actor == "fr√m a file"
    for missing in ("${NOT_SET_AT_ALL}", "${file:/nowhere/at/all}"):
        path.write_text(f"store: {missing}\n")
        with pytest.raises(InvalidSettings, match=r"NOT_SET_AT_ALL|nowhere"):
            load(path)


@pytest.mark.parametrize("address", [":memory:", "sqlite:///:memory:", "memory://"])
def test_in_memory_as_sqlite_says_it_makes_no_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with recollect.open(address, embedder="hash") as mem:
        mem.remember("tea is hot")
        assert mem.recall("tea").hits
        assert repr(mem).startswith("<Recollect memory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["", "  ", 7, b"store.db", ["store.db"], {"store": "x"}, object(), MemoryStore])
def test_what_is_no_store_is_refused_and_makes_no_file(
    given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSettings) as refused:
        recollect.open(given, embedder="hash")
    assert "postgresql://" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_a_service_or_of_nothing_we_know_says_what_to_do() -> None:
    with pytest.raises(InvalidSettings, match="RECOLLECT_API_KEY"):
        recollect.open("http://127.0.0.1:7070")
    with pytest.raises(InvalidSettings, match="duckdb:///path"):
        recollect.open("mysql://host/db")


class HalfAnEmbedder:
    model = "half"

    def embed_query(self, text: str) -> list[float]:
        return [1.0]


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ({"embedder": HalfAnEmbedder()}, "HalfAnEmbedder is not an embedder: it has no dimensions, embed"),
        ({"language_model": object()}, "object is not a language model: it has no ask, model"),
    ],
)
def test_a_model_that_lacks_something_is_refused_with_what_it_lacks(given: dict[str, Any], lacks: str) -> None:
    with pytest.raises(InvalidSettings, match=lacks):
        recollect.open("memory://", **given)


def test_a_record_store_of_ones_own_is_opened_and_stays_ones_own(tmp_path: Path) -> None:
    for store in (MemoryStore(), SqliteStore(tmp_path / "own.db")):
        with recollect.open(store, embedder="hash") as mem:
            id = mem.remember("tea is hot").id
        with recollect.open(store, embedder="hash") as mem:
            assert mem.recall("tea").hits[0].id == id
        assert store.tenants() == ["default"]
        store.close()
    assert sorted(path.name for path in tmp_path.iterdir() if "MemoryStore" in path.name) == []


def test_opening_without_making(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"absent\.db"):
        recollect.open(tmp_path / "absent.db", embedder="hash", create=False)
    assert list(tmp_path.iterdir()) == []
    recollect.open(tmp_path / "there.db", embedder="hash").close()
    recollect.open(tmp_path / "there.db", embedder="hash", create=False).close()


def test_objects_answer_the_probes_of_tools(tmp_path: Path) -> None:
    """What a notebook, a debugger, a copy or a test framework asks of any object."""
    remote = recollect.connect("http://127.0.0.1:9", "rk.YWNtZQ.id.secret")
    nameless = recollect.connect("http://127.0.0.1:9", "something-else")
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        for one in (mem, remote, nameless, mem.run, remote.run):
            for name in (*dir(one), "_repr_html_", "__len__", "_ipython_display_", "organization", "shape", "_core"):
                hasattr(one, name)
            inspect.getmembers(one)
            assert "secret" not in repr(one)
            assert bool(one)
            with pytest.raises(TypeError, match="open it again"):
                pickle.dumps(one)
            copy.deepcopy(one)
        assert (copy.copy(mem), copy.deepcopy(mem)) == (mem, mem)
        assert (remote.organization, hasattr(nameless, "organization")) == ("acme", False)
    repr(mem)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda one: one.name)
def test_help_shows_what_a_method_takes(operation: Operation) -> None:
    home = getattr(Recollect, operation.group).fget if operation.group else Recollect
    method = getattr(home, operation.verb) if operation.name not in GROUPS else getattr(Recollect, operation.name).fget
    shown = inspect.signature(method.__call__ if operation.name in GROUPS else method)
    assert list(shown.parameters)[1 : 1 + len(operation.positional)] == list(operation.positional)
    told = {"progress"} if operation.progress else set()
    assert set(shown.parameters) == {"self", *operation.request.model_fields, *told}
    assert "Annotated" not in str(shown)


def test_a_bound_method_shows_the_same_without_itself() -> None:
    with recollect.open(":memory:") as mem:
        shown = inspect.signature(mem.recall)
        assert str(shown).startswith("(query: str, *, user: ")
        assert shown.bind("where", limit=3).arguments == {"query": "where", "limit": 3}
        assert "limit: int = 10" in pydoc.plain(pydoc.render_doc(mem.recall))
