"""Other packages add stores, vector indexes and models by entry points; a broken one is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.app import check_settings
from recollect.errors import InvalidSettings

MODULE = """
from recollect.adapters.records.in_memory import MemoryStore
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.ports.models import Answer, Usage
from recollect.testing.fakes import HashEmbedder

opened = []


def store(address):
    opened.append(address)
    return MemoryStore()


class Index(EmbeddedIndex):
    label = "an index of another package"


def index(truth, settings):
    return Index(truth, None)


def embedder(settings):
    return HashEmbedder(settings.dimensions or 16)


class Model:
    model = "parrot"

    def ask(self, prompt, shape):
        return Answer(shape(), Usage("parrot"))


def language_model(settings):
    return Model()


def fails(*arguments):
    raise OSError("the disk is full")


def nothing(*arguments):
    return object()
"""
ENTRY_POINTS = """
[recollect.stores]
parrot = parrot_memory:store
fails = parrot_memory:fails
nothing = parrot_memory:nothing
absent = parrot_memory.absent:store
twice = parrot_memory:store

[recollect.vectors]
parrot = parrot_memory:index
nothing = parrot_memory:nothing

[recollect.embedders]
parrot = parrot_memory:embedder
nothing = parrot_memory:nothing

[recollect.language_models]
parrot = parrot_memory:language_model
nothing = parrot_memory:nothing
"""


def _install(folder: Path, name: str, entry_points: str, module: str) -> None:
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)
    (folder / f"{name}.py").write_text(module)


@pytest.fixture(autouse=True)
def _packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    _install(tmp_path, "parrot_memory", ENTRY_POINTS, MODULE)
    _install(tmp_path, "another", "[recollect.stores]\ntwice = another:store\n", "")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("parrot_memory", None)


def test_everything_can_come_from_another_package() -> None:
    with recollect.open("parrot://cage/1", embedder="parrot", vectors="parrot", language_model="parrot") as mem:
        id = mem.remember("parrots like nuts").id
        assert mem.recall("nuts").hits[0].id == id
        assert mem._core.vectors.label == "an index of another package"
        assert mem._core.embedders[0].dimensions == 16
        assert mem._core.language_model is not None
        assert mem._core.language_model.model == "parrot"
    assert sys.modules["parrot_memory"].opened == ["parrot://cage/1"]


def test_what_is_not_named_is_not_imported() -> None:
    recollect.open("memory://", embedder="hash").close()
    assert "parrot_memory" not in sys.modules


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"source": "fails://x"},
            r"'fails' of the package parrot_memory 1\.2 failed with OSError: the disk is full",
        ),
        ({"source": "absent://x"}, r"'absent' of the package parrot_memory 1\.2 failed with ModuleNotFoundError"),
        ({"source": "nothing://x"}, r"parrot_memory 1\.2 does not implement RecordStore: it has no backup, "),
        ({"source": "twice://x"}, r"'twice' is added by another 1\.2 and parrot_memory 1\.2"),
        ({"vectors": "nothing"}, r"parrot_memory 1\.2 does not implement VectorStore: it has no behind, "),
        ({"embedder": "nothing"}, r"parrot_memory 1\.2 does not implement Embedder: it has no dimensions, embed, "),
        ({"language_model": "nothing"}, r"parrot_memory 1\.2 does not implement LanguageModel: it has no ask, model"),
    ],
)
def test_a_broken_package_is_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSettings, match=says):
        recollect.open(**dict[str, Any]({"source": "memory://", "embedder": "hash", **settings}))


@pytest.mark.parametrize("name", ["embedder", "vectors", "language_model"])
def test_a_provider_that_nobody_adds_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettings, match="no installed package adds it to recollect"):
        recollect.open("memory://", **dict[str, Any]({name: "macaw"}))
    with pytest.raises(InvalidSettings, match="install the package that adds it"):
        recollect.open("macaw://cage")


def test_the_settings_are_checked_with_what_packages_add(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("store: parrot://cage\nembedder: parrot\nvectors: parrot\n")
    found = {one.name: (one.well, one.says) for one in check_settings(path)}
    assert found["store"] == (True, "parrot://cage: added by parrot_memory 1.2")
    assert found["vectors"] == (True, "parrot: added by parrot_memory 1.2")
    assert found["embedder"][1].endswith("works, with 16 dimensions")
