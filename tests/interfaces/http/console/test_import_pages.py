"""The page of imports: for who may import over the API, with the proof of our own pages, and first without storing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from console_pages import HOSTILE, Tags, page, proof, sign_in, with_key
from recollect.domain.access import PERMISSIONS
from recollect.errors import NotFound
from recollect.interfaces.http.console.page_context import Page, PageContext
from recollect.interfaces.serve import application
from recollect.services.importers.registry import NAMES
from recollect.settings import Settings

FILE = json.dumps({"results": [{"id": f"m-{n}", "memory": text} for n, text in enumerate(HOSTILE)]})
PATH = "/v1/import?path=memories.json&source=auto"


def test_the_page_names_every_product_and_the_bound(console: Any) -> None:
    sign_in(console)
    shown = page(console, "/import")
    assert Tags(shown).wrong == []
    assert all(f'<option value="{name}">' in shown for name in NAMES)
    assert 'data-import="/v1/import"' in shown
    assert f'data-most="{Settings().server.most_upload_bytes}"' in shown


@pytest.mark.parametrize("permission", [one for one in PERMISSIONS if one != "admin"])
def test_who_may_not_import_over_the_api_may_not_here(permission: str, console: Any, mem: Any) -> None:
    with_key(console, mem, {"read", permission})
    refused = console.get("/console/import")
    assert refused.status_code == 403
    assert "data-import" not in refused.text
    assert "admin" in refused.text, "which permission is missing"
    assert 'href="/console/import"' not in page(console)
    assert console.post(PATH, content=FILE, headers={"x-recollect-csrf": proof(console)}).status_code == 403


def test_another_site_imports_nothing_and_a_preview_stores_nothing(console: Any, mem: Any) -> None:
    sign_in(console)
    assert console.post(PATH, content=FILE).status_code == 403
    proven = {"x-recollect-csrf": proof(console)}
    seen = console.post(f"{PATH}&dry_run=true", content=FILE, headers=proven).json()
    assert (seen["records"], seen["dry_run"], seen["source"]) == (0, True, "mem0")
    assert mem.list().memories == []
    assert console.post(PATH, content=FILE, headers=proven).json()["records"] == seen["found"]["memory (fact)"] > 0


def test_a_page_reads_no_file_of_the_machine(console: Any, mem: Any) -> None:
    """Import is offered with a file that is sent; a page itself can name none."""
    reached = []

    def gather(context: PageContext) -> dict[str, object]:
        assert context.may("import_")
        with pytest.raises(NotFound):
            context.call("import_", path="/etc/hostname")
        reached.append(context.may("backup.restore"))
        return {"products": [], "most_bytes": 1}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "recollect.interfaces.http.console.import_pages.PAGES", (Page("/import", "import.html", "import_", gather),)
        )
        app = application(mem._core, Settings(server={"upkeep_seconds": 1e6}))
        with TestClient(app, "http://127.0.0.1", follow_redirects=False) as client:
            sign_in(client)
            page(client, "/import")
    assert reached == [False]
