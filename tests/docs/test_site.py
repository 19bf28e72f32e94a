"""What `make site` makes of the pages, without the generator; links inside the documentation are in test_docs.py."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", DOCS / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_stands_once_in_the_navigation_in_the_order_of_the_index(site: Any) -> None:
    sections = tomllib.loads(site.settings())["project"]["nav"]
    pages = [page for section in sections[1:] for listed in section.values() for one in listed for page in one.values()]
    assert sorted(pages) == sorted(set(pages))
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert {*pages, "index.md"} == written
    index = (DOCS / "index.md").read_text()
    assert [index.index(f"]({page})") for page in pages] == sorted(index.index(f"]({page})") for page in pages)


def test_links_out_of_the_documentation_lead_to_the_repository(site: Any) -> None:
    there = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    page = site.page_of_the_site(DOCS / "index.md")
    assert f"]({there}/blob/main/README.md)" in page
    assert "](concepts.md)" in page
    assert "](figures/sessions.svg)" in site.page_of_the_site(DOCS / "growth.md")


def test_code_is_left_as_it_is(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "_project", lambda: {"urls": {"Repository": "https://r"}})
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("[a](../b.py#x)\n```python\nx[0](../y)\n```\n")
    assert site.page_of_the_site(page) == "[a](https://r/blob/main/b.py#x)\n```python\nx[0](../y)\n```\n"


@pytest.mark.parametrize(
    ("page", "loaded"),
    [
        ('<script src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
        ('<link rel="stylesheet" href="https://fonts.example/css">', ["https://fonts.example/css"]),
        ('<link rel="canonical" href="https://ours.example/"><a href="https://other.example">x</a>', []),
        ('<script src="assets/a.js"></script>', []),
    ],
)
def test_what_would_be_loaded_from_elsewhere_is_noticed(site: Any, page: str, loaded: list[str]) -> None:
    assert site.LOADED.findall(page) == loaded
