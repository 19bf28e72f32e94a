"""Finding one's way by keyboard, drawing and time: the command palette, the graph, the timeline, export and import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.together("browser")
AXE = Path(__file__).parents[2] / ".node/axe/node_modules/axe-core/axe.min.js"


def complaints_of_axe(page: Any) -> list[str]:
    page.add_script_tag(content=AXE.read_text())
    found = page.evaluate(
        "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ')))"
    )
    return [str(one) for one in found]


def test_the_palette_finds_pages_memories_and_what_can_be_done(visit: Any) -> None:
    page = visit("/review", bypass_csp=True)
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    palette.get_by_role("combobox").fill("aud")
    assert palette.get_by_role("option", selected=True).inner_text().startswith("Audit")
    palette.get_by_role("combobox").fill("billing pool")
    hit = palette.get_by_role("group", name="Memories").get_by_role("option", name="The billing pool has 20").first
    hit.wait_for()
    assert complaints_of_axe(page) == []
    hit.click()
    page.wait_for_url("**/console/memories/*")
    page.goto("/console/review")
    page.keyboard.press("j")
    page.keyboard.press(".")
    line = palette.get_by_role("group", name="On the selected line")
    assert line.get_by_role("option", name="Reject").count() == 1
    page.keyboard.press("Escape")
    assert not palette.is_visible()
    assert page.evaluate("document.activeElement.matches('.review > li.at')")


def test_the_palette_offers_a_reader_nothing_that_changes(visit: Any) -> None:
    page = visit("/review", who="priya", viewport={"width": 390, "height": 844})
    page.keyboard.press("j")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    palette.get_by_role("combobox").fill(">")
    said = palette.get_by_role("option").all_inner_texts()
    assert said
    assert not [one for one in said if "Approve" in one or "Reject" in one]
    palette.get_by_role("combobox").fill("alert owned")
    palette.get_by_role("option", name='<script>alert("owned")</script>').wait_for()
    assert palette.get_by_role("option", name="Audit").count() == 0
    box = palette.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_a_graph_shows_the_evidence_and_grows_where_it_is_expanded(visit: Any, filled: Any) -> None:
    page = visit(f"/memories/{filled.ids['memory']}/graph?hops=1", bypass_csp=True)
    squares, memories = page.locator("#drawing a.evidence"), page.locator("#drawing a.memory")
    assert squares.count() == 3  # Priya and the file; Jonas, on whom all others rest, once
    assert page.locator("#drawing a.evidence.broken").count() == 1
    assert page.locator("#drawing path.contradicts").count() == page.locator("[data-type=contradicts]").count() == 1
    proof = page.locator('meta[name="recollect-proof"]').get_attribute("content")
    other = page.locator("[data-node]").nth(1).get_attribute("data-node")
    headers = {"x-recollect-csrf": proof}
    made = page.request.post("/v1/memories", data={"content": "it has a neighbour"}, headers=headers)
    link = {"to": made.json()["id"], "type": "replaces"}
    page.request.post(f"/v1/memories/{other}/links", data=link, headers=headers)
    page.reload()
    before = memories.count()
    page.locator(f'#drawing a[data-at="{other}"]').focus()
    page.keyboard.press("e")
    page.wait_for_url(f"**expand={other}")
    assert memories.count() == before + 1
    assert page.locator("#drawing path.replaces").count() == 1
    assert page.evaluate("document.activeElement.dataset.at") == other
    assert page.locator('[data-hops="0"]').get_attribute("data-node") == filled.ids["memory"]
    assert complaints_of_axe(page) == []
    page.get_by_role("link", name="evidence", exact=True).click()
    page.wait_for_url("**evidence=no*")
    assert squares.count() == 0
    page.locator("#nodes").get_by_role("link", name="The database allows 200 connections").first.click()
    page.wait_for_url("**/graph?*")
    page.request.post(f"/v1/memories/{made.json()['id']}/forget", data={}, headers=headers)
    page.goto(f"/console/memories/{filled.ids['memory']}/graph?hops=1&expand={made.json()['id']}")
    assert page.get_by_role("heading", name="Graph").is_visible()


def test_the_timeline_zooms_into_a_day(visit: Any) -> None:
    page = visit("/timeline", bypass_csp=True, viewport={"width": 390, "height": 844})
    assert page.locator(".days li").count() == 30
    assert page.locator(".event.run", has_text="Write the weekly report").count() == 1
    assert page.locator(".event.correction", has_text="replaces: Scheduler keeps its jobs in Redis").count() == 1
    assert page.locator(".event", has_text='<script>alert("owned")</script>').count() == 1
    assert complaints_of_axe(page) == []
    page.get_by_role("link", name="quarter").click()
    page.wait_for_url("**span=quarter")
    assert page.locator(".days li").count() == 90
    shown = page.locator(".event", has_text="The small grinder shows as out of stock")
    at = shown.locator("time").get_attribute("datetime")
    page.locator(f".days a[href*='until={at[:10]}']").click()
    page.wait_for_url("**span=day**")
    assert shown.count() == 1
    assert page.get_by_role("heading", level=2).filter(has_text="entr").count() == 1
    page.keyboard.press("n")
    page.wait_for_url(lambda url: at[:10] not in url)
    assert shown.count() == 0
    assert page.get_by_role("link", name="Later").is_visible()
