"""Everything that matches a filter is judged together, over all pages, and taken back together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.together("browser")
AXE = Path(__file__).parents[2] / ".node/axe/node_modules/axe-core/axe.min.js"


def _all(page: Any, verdict: str) -> None:
    page.get_by_role("button", name=f"{verdict} all…").click()
    page.get_by_role("button", name="Yes").click()


def _waiting(page: Any) -> int:
    return int(page.locator("[data-waiting]").inner_text().replace(",", ""))


def _ids(page: Any) -> set[str]:
    page.goto("/console/review?size=100&kinds=conversation")
    return {card.get_attribute("data-id") for card in page.locator(".review > li").all()}


def test_all_that_match_are_rejected_over_all_pages_and_all_come_back(visit: Any) -> None:
    page = visit("/review?size=20&kinds=conversation", bypass_csp=True)
    number = _waiting(page)
    assert number > page.locator(".review > li").count(), "there is more than one page"
    all_of_them = _ids(page)
    page.goto("/console/review?size=20&kinds=conversation")
    _all(page, "Reject")
    page.locator("[data-whole-said]", has_text=f"Rejected: {number}.").wait_for()
    page.get_by_text("Nothing to review").wait_for()
    page.goto("/console/sessions")
    page.goto("/console/review?size=20&kinds=conversation")
    page.get_by_role("button", name=f"Undo all {number}").click()  # also after the page was left
    page.locator("#told", has_text=f"Undone: {number}.").wait_for()
    assert not page.get_by_role("button", name="Undo all").is_visible()
    assert _ids(page) == all_of_them
    assert len(all_of_them) == number
    if AXE.exists():
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ rules: { 'color-contrast': { enabled: false } } })")["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_only_the_filter_is_judged_and_what_was_refused_says_why(visit: Any) -> None:
    page = visit("/review?reason=uncited")
    visit.expected = ("409 (Conflict)", "422", "400 (Bad Request)")
    number = _waiting(page)
    _all(page, "Approve")
    page.locator("[data-whole-said]", has_text=f"Approved: 0. Refused: {number} (").wait_for()
    assert "citation" in page.locator("[data-whole-said]").inner_text()
    assert not page.get_by_role("button", name="Undo all").is_visible()


def test_a_stretch_is_chosen_by_keyboard(visit: Any) -> None:
    page = visit("/review")
    for key in ("j", "Space", "j", "j", "Shift+Space"):
        page.keyboard.press(key)
    assert page.locator("[data-choose]:checked").count() == 3
    page.keyboard.press("Shift+A")
    assert page.evaluate("document.activeElement.dataset.whole") == "approve"
