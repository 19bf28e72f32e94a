"""The documentation as a site that can be searched: `make site` writes it to build/site.

The pages stay as they are, readable in the repository. Here they are copied, links that leave the documentation are led
to the repository, and Zensical makes the site, in strict mode: a link that leads nowhere fails the build. The order and
the names of the pages are those of docs/index.md, whose headings are the sections; there is no second list to keep.
Nothing is loaded from elsewhere: no fonts, no scripts, and the search runs in the browser.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BUILD = ROOT / "build"
LINK = re.compile(r"(\[[^\]]*\])\(([^)\s]+)\)")
NAMED = re.compile(r"\[([^\]]+)\]\(([^)\s#]+\.md)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LOADED = re.compile(
    r"""(?:<(?:script|img|iframe)[^>]*\ssrc|<link[^>]*rel=["']?(?:stylesheet|preconnect)[^>]*\shref)=["']?(https?://[^"'\s>]+)"""
)
FIGURES = "figures"
COPIED = (".md", ".svg", ".png", ".css")


def main() -> int:
    source, site = BUILD / "site-source", BUILD / "site"
    for folder in (source, site):
        shutil.rmtree(folder, ignore_errors=True)
    (source / "docs").mkdir(parents=True)
    for file in sorted(one for one in DOCS.rglob("*") if one.suffix in COPIED):
        to = source / "docs" / file.relative_to(DOCS)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            to.write_text(page_of_the_site(file), encoding="utf-8")
        else:
            shutil.copyfile(file, to)
    shutil.copytree(ROOT / "bench/results", source / "docs" / FIGURES, ignore=_all_but_figures, dirs_exist_ok=True)
    (source / "zensical.toml").write_text(settings(), encoding="utf-8")
    return _built(source, site)


def _built(source: Path, site: Path) -> int:
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=source, check=False)
    if done.returncode:
        return done.returncode
    (source / "site").rename(site)
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    if strange := {url for page in pages for url in LOADED.findall(page)}:
        print(f"the pages would load {', '.join(sorted(strange))}")
        return 1
    print(f"{len(pages)} pages; to look at them: python -m http.server -d {site.relative_to(ROOT)}")
    return 0


def _all_but_figures(_: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith((".svg", ".png"))]


def page_of_the_site(file: Path) -> str:
    """A page whose links out of the documentation lead to the repository."""
    parts = FENCE.split(file.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else LINK.sub(lambda one: _led(file, one), part) for part in parts)


def _led(file: Path, link: re.Match[str]) -> str:
    path, _, anchor = link[2].partition("#")
    if "://" in path or not path:
        return link[0]
    target = (file.parent / path).resolve()
    if target.is_relative_to(DOCS) and target.suffix in COPIED:
        return link[0]
    if target.suffix in (".svg", ".png"):  # a figure is part of the site, wherever it stands in the repository
        up = "../" * (len(file.relative_to(DOCS).parts) - 1)
        return f"{link[1]}({up}{FIGURES}/{target.name})"
    kind = "tree" if target.is_dir() else "blob"
    there = f"{_project()['urls']['Repository']}/{kind}/main/{target.relative_to(ROOT).as_posix()}"
    return f"{link[1]}({there}{'#' + anchor if anchor else ''})"


def navigation(index: str) -> list[dict[str, object]]:
    """Sections and pages as docs/index.md lists them: its headings, and under each the pages it links to."""
    sections: dict[str, list[dict[str, str]]] = {}
    for part in re.split(r"^## ", index, flags=re.MULTILINE):
        heading = part.partition("\n")[0].strip()
        for title, path in NAMED.findall(part):
            if not path.startswith(".."):
                sections.setdefault(heading, []).append({title[0].upper() + title[1:]: path})
    return [{"Recollect": "index.md"}, *({name: pages} for name, pages in sections.items())]


def settings() -> str:
    """zensical.toml: what the project is called and where it lives comes from pyproject.toml."""
    project = _project()
    return (
        (DOCS / "site.toml")
        .read_text(encoding="utf-8")
        .format(
            description=json.dumps(project["description"]),
            url=json.dumps(project["urls"]["Documentation"]),
            navigation=_toml(navigation((DOCS / "index.md").read_text(encoding="utf-8"))),
        )
    )


def _toml(entries: object) -> str:
    if isinstance(entries, list):
        return "[" + ", ".join(map(_toml, entries)) + "]"
    if isinstance(entries, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(inner)}" for name, inner in entries.items()) + "}"
    return json.dumps(entries)


def _project() -> dict[str, dict[str, str]]:
    loaded: dict[str, dict[str, str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return loaded


if __name__ == "__main__":
    sys.exit(main())
