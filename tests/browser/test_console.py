"""The console by what a person does, in a real Chromium: nothing fails, nothing leaves the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("browser")

PAGES = (
    "",
    "/search?q=billing+pool",
    "/search",
    "/review",
    "/sessions",
    "/agents",
    "/audit",
    "/users",
    "/keys",
    "/settings",
)
# The contrast of every piece of text with what is behind it, by the rule of WCAG 2.
CONTRAST = Path(__file__).with_name("contrast.js").read_text()


def every_page(ids: dict[str, str]) -> list[str]:
    more = [f"/memories/{ids['memory']}", f"/sessions/{ids['session']}", f"/agents/{ids['agent']}"]
    if "run" in ids:
        more += ["/runs", f"/runs/{ids['run']}"]
    if "workspace" in ids:
        more += ["/workspaces", f"/workspaces/{ids['workspace']}?since={ids['since']}"]
    if "pattern" in ids:
        more += ["/patterns", f"/patterns/{ids['pattern']}"]
    return [*PAGES, *more]


def test_somebody_signs_in_looks_around_and_signs_out(visit: Any, filled: Any) -> None:
    page = visit("/search?q=pool", is_signed_in=False)
    page.get_by_label("Email").fill(filled.email)
    page.get_by_label("Password").fill(filled.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/search?q=pool")
    page.goto("/console")
    assert page.get_by_role("heading", name="Overview").is_visible()
    chart = page.get_by_role("img", name="Memories over the last 30 days")
    assert chart.bounding_box()["width"] > 200
    assert len(chart.locator("polyline").get_attribute("points").split()) == 30
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/sign-in")
    page.goto("/console")
    assert page.get_by_role("heading", name="Sign in").is_visible()


def test_results_come_while_typing_and_open_a_memory(visit: Any) -> None:
    page = visit("/search")
    page.get_by_label("Question").press_sequentially("billing pool connections")
    hit = page.locator(".hit", has_text="The billing pool has 20 connections").first
    hit.wait_for()
    assert "q=billing" in page.url
    assert hit.locator(".why rect").count() >= 1
    assert hit.get_by_text("broken").count() == 1
    hit.get_by_role("link").first.click()
    page.get_by_role("heading", name="History").wait_for()
    assert page.locator("del", has_text="10").count() == 1
    assert page.locator("ins", has_text="30").count() == 1
    assert page.locator(".graph a").count() == 5


def test_why_not_explains_what_was_missed(visit: Any, filled: Any) -> None:
    page = visit("/search?q=lunch")
    page.get_by_text("Filters and").click()
    page.get_by_label("Status", exact=True).select_option("published")
    page.get_by_label("Why not this id?").fill(filled.ids["memory"])
    page.get_by_text("its status is not published").wait_for()


def test_a_hypothesis_is_approved_by_keyboard_and_another_merged(visit: Any) -> None:
    page = visit("/review")
    cards = page.locator(".review > li")
    before = cards.count()
    approvable = page.locator(".review > li:has(.source:text('user:')):not(:has(.broken))").first
    id = approvable.get_attribute("data-id")
    while "at" not in (page.locator(f'[data-id="{id}"]').get_attribute("class") or "").split():
        page.keyboard.press("j")
    page.keyboard.press("a")
    page.locator("#told", has_text="Approved").wait_for()
    assert cards.count() == before - 1
    merged = page.locator(".review > li.at").get_attribute("data-id")
    page.locator(f'[data-id="{merged}"] .near, [data-id="{merged}"] .neighbours p').first.wait_for()
    page.keyboard.press("m")
    page.locator("#told", has_text="Merged").wait_for()
    page.goto(f"/console/memories/{id}")
    assert page.locator("h1 + .facts .status").inner_text() == "verified"
    page.goto(f"/console/memories/{merged}")
    assert page.locator("h1 + .facts .status").inner_text() == "archived"
    assert page.get_by_text("merged into").count() >= 1


def test_several_are_rejected_at_once(visit: Any) -> None:
    page = visit("/review")
    before = page.locator(".review > li").count()
    for number in (0, 1):
        page.locator("[data-choose]").nth(number).check()
    page.get_by_role("button", name="Reject chosen").click()
    page.locator("#told", has_text="Rejected: 2").wait_for()
    assert page.locator(".review > li").count() == before - 2


def test_forgetting_asks_first_and_can_be_undone(visit: Any) -> None:
    page = visit("/search?q=time-outs+are+set+per+service")
    page.locator(".hit a").first.click()
    page.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Forget").click()
    dialog.get_by_label("Reason").fill("said twice")
    dialog.get_by_label("Reason").press("Enter")
    page.locator("#told", has_text="Forgotten").wait_for()
    page.get_by_role("button", name="Restore").click()
    dialog.get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Restored").wait_for()
    assert page.locator(".history", has_text="said twice").count() == 1


def test_text_is_changed_unless_somebody_was_faster(visit: Any) -> None:
    page = visit("/search?q=the+database+allows+200+connections")
    page.locator(".hit a").first.click()
    page.wait_for_url("**/memories/*")
    other = visit(page.url.split("/console")[1])
    for tab, text in ((other, "The database allows 300 connections"), (page, "The database allows 400 connections")):
        tab.get_by_text("Change it").click()
        tab.get_by_label("New text").fill(text)
    other.get_by_role("button", name="Save").click()
    other.locator("#told", has_text="Changed").wait_for()
    visit.expected = ("409 (Conflict)",)
    with page.expect_response(lambda answer: answer.request.method == "PATCH") as answered:
        page.get_by_role("button", name="Save").click()
    assert answered.value.status == 409
    page.locator("#told.bad", has_text="changed by someone else").wait_for()


def test_a_key_is_shown_once(visit: Any) -> None:
    page = visit("/keys")
    page.get_by_label("What it is for").fill("nightly job")
    page.get_by_role("button", name="Make the key").click()
    page.locator("#made-key").wait_for()
    key = page.locator("#made-key-text").inner_text()
    assert key.startswith("rk.")
    page.reload()
    assert "nightly job" in page.inner_text("main")
    assert key not in page.content()


def test_the_log_is_verified(visit: Any) -> None:
    page = visit("/audit")
    page.get_by_role("button", name="Verify the log").click()
    page.get_by_text(re.compile("The log is whole")).wait_for()


def test_the_keyboard_goes_everywhere(visit: Any) -> None:
    page = visit()
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/console/review")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "quick"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keyboard").is_visible()
    page.keyboard.press("Escape")
    page.goto("/console/sessions")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/sessions/*")


def test_light_and_dark_follow_the_system_until_chosen(visit: Any) -> None:
    def ground(page: Any) -> int:
        shade: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", shade)[:3]))

    dark = visit(color_scheme="dark")
    assert ground(dark) < 150
    dark.keyboard.press("t")
    assert ground(dark) > 600
    dark.reload()
    assert ground(dark) > 600, "the choice is kept"
    assert ground(visit(color_scheme="light")) > 600


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read(scheme: str, visit: Any, filled: Any) -> None:
    page = visit(color_scheme=scheme)
    for path in every_page(filled.ids):
        page.goto(f"/console{path}")
        assert page.evaluate(CONTRAST) == [], path


@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_screen(width: int, visit: Any, filled: Any) -> None:
    page = visit(viewport={"width": width, "height": 800})
    for path in every_page(filled.ids):
        page.goto(f"/console{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.locator("h1").count() == 1, path


def test_a_phone_has_a_menu(visit: Any) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    assert not page.get_by_role("link", name="Audit").is_visible()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Audit").click()
    page.wait_for_url("**/console/audit")


def test_what_somebody_stored_never_runs(visit: Any, filled: Any) -> None:
    page = visit()
    page.on("dialog", lambda dialog: pytest.fail("something ran"))
    for path in ("", "/search?q=alert+owned", "/review", "/search?q=<img+src=x+onerror=alert(1)>"):
        page.goto(f"/console{path}")
        assert page.locator("main img, main script").count() == 0
    page.goto("/console/search?q=alert+owned")
    page.locator(".hit", has_text='<script>alert("owned")</script>').first.wait_for()
