"""Import by what a person does: a file is dropped, looked at, imported, and found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.together("browser")

AXE = Path(__file__).parents[2] / ".node/axe/node_modules/axe-core/axe.min.js"
CONTRAST = Path(__file__).with_name("contrast.js").read_text()
MARKUP = "<img src=x onerror=alert(1)> zebrafish imported"
EXPORTED = json.dumps({"results": [{"id": "z-1", "memory": MARKUP, "color": "blue"}, {"id": "z-2", "memory": ""}]})


def drop(page: Any, *files: tuple[str, str]) -> None:
    page.evaluate(
        """files => {
          const dropped = new DataTransfer();
          for (const [name, content] of files) dropped.items.add(new File([content], name));
          const event = new DragEvent("drop", { dataTransfer: dropped, cancelable: true });
          document.querySelector(".drop").dispatchEvent(event);
        }""",
        files,
    )


def test_a_file_is_dropped_looked_at_imported_and_found(visit: Any) -> None:
    page = visit("/import", bypass_csp=True, viewport={"width": 390, "height": 844})
    page.on("dialog", lambda dialog: pytest.fail("something ran"))
    drop(page, ("memories.json", EXPORTED))
    page.locator("#seen-title:focus", has_text="What is in memories.json").wait_for()
    seen = page.locator("#seen")
    assert "recognised as mem0" in seen.inner_text()
    assert MARKUP in seen.inner_text()
    assert "Left out" in seen.inner_text()
    assert page.context.request.get("/console/memories/z-1").status == 404, "a preview stores nothing"
    seen.get_by_role("button", name="Import 1 record").click()
    page.locator("#seen-title:focus", has_text="Imported from").wait_for()
    assert page.locator("#counts").inner_text().split("\n") == ["1 new", "0 here already", "1 left out"]
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(CONTRAST) == []
    if AXE.exists():
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ rules: { 'color-contrast': { enabled: false } } })")["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    page.get_by_role("link", name="zebrafish").click()
    page.wait_for_url("**/console/memories/z-1")
    assert MARKUP in page.inner_text("main")


def test_what_cannot_be_imported_says_why(visit: Any) -> None:
    page = visit("/import")
    visit.expected = ("422",)
    drop(page, ("a.json", EXPORTED), ("b.json", EXPORTED))
    page.locator(".uploads .bad [role=alert]", has_text="One file at a time").wait_for()
    page.get_by_label("Choose a file").set_input_files({"name": "x.bin", "mimeType": "", "buffer": b"\0\1"})
    page.locator(".uploads .bad [role=alert]", has_text="not from a source").wait_for()
    assert not page.locator("#seen").is_visible()
