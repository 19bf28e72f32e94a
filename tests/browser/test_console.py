"""The console by what a person does, in a real Chromium: nothing fails, nothing leaves the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from seeds import some

pytestmark = pytest.mark.together("browser")

PAGES = (
    "",
    "/search?q=billing+pool",
    "/search",
    "/timeline?span=quarter",
    "/review",
    "/citations",
    "/citations?state=broken",
    "/sessions",
    "/agents",
    "/runs",
    "/approvals",
    "/workspaces",
    "/patterns",
    "/sources",
    "/ask",
    "/connections",
    "/import",
    "/audit",
    "/privacy",
    "/retention?preview=1",
    "/cold",
    "/backups",
    "/users",
    "/keys",
    "/settings",
    "/account",
)
FOR_ADMINS = ("/import", "/audit", "/privacy", "/retention?preview=1", "/backups", "/users", "/keys", "/settings")
# The contrast of every piece of text with what is behind it, by the rule of WCAG 2.
CONTRAST = Path(__file__).with_name("contrast.js").read_text()
AXE = Path(__file__).parents[2] / ".node/axe/node_modules/axe-core/axe.min.js"


def pages(ids: dict[str, str], purpose: str) -> list[str]:
    """A third of all pages, others for each purpose and with each seed; every page in a soak."""
    return some(9, every_page(ids), purpose)


def every_page(ids: dict[str, str]) -> list[str]:
    more = [
        f"/memories/{ids['memory']}",
        f"/memories/{ids['memory']}/graph",
        f"/sessions/{ids['session']}",
        f"/agents/{ids['agent']}",
    ]
    more += [f"/runs/{ids[name]}" for name in ("run", "failed", "asks", "rewound", "waiting")]
    more += [f"/workspaces/{ids['workspace']}?since={ids['since']}&path=weekly.md", f"/patterns/{ids['pattern']}"]
    more += [f"/sources/{ids['source']}", *(f"/ask?run={ids[name]}" for name in ("query", "asked", "markup query"))]
    return [*PAGES, *more, *hostile_pages(ids)]


def hostile_pages(ids: dict[str, str]) -> list[str]:
    return [f"/{name.removeprefix('hostile ')}/{id}" for name, id in ids.items() if name.startswith("hostile ")]


def test_somebody_signs_in_looks_around_and_signs_out(visit: Any, filled: Any) -> None:
    page = visit("/search?q=pool", who=None)
    filled.enter(page, "maya")
    page.wait_for_url("**/console/search?q=pool")
    page.goto("/console")
    assert page.locator(".who").inner_text().split("\n")[:3] == ["Maya", "owner in default", "times in UTC"]
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
    assert page.locator(".graph a").count() == page.locator(".graph path").count() == 5
    page.go_back()
    page.locator(".hit").first.wait_for()
    assert page.get_by_label("Question").input_value() == "billing pool connections"


def test_why_not_explains_what_was_missed(visit: Any, filled: Any) -> None:
    page = visit("/search?q=lunch")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Status", exact=True).select_option("published")
    page.get_by_text("Why not?").click()
    page.get_by_label("The memory you expected").fill(filled.ids["memory"])
    page.get_by_text("its status is not published").wait_for()


def test_eight_hits_on_a_screen_the_newest_answer_stays_and_a_search_is_saved(visit: Any) -> None:
    page = visit("/search?q=release+of+the+service&messages=yes", viewport={"width": 1280, "height": 800})
    shown = [hit.bounding_box() for hit in page.locator(".hit").all()]
    assert sum(box["y"] + box["height"] <= 800 for box in shown) >= 8
    held: list[Any] = []
    page.route("**/search/results?q=first*", lambda route: held.append(route))  # the first answer comes last
    page.get_by_label("Question").fill("first")
    page.wait_for_timeout(300)
    page.get_by_label("Question").fill("billing pool")
    page.locator(".hit", has_text="The billing pool has 20 connections").first.wait_for()
    assert len(held) == 1
    held[0].fulfill(body="<p>too late</p>")
    page.wait_for_timeout(200)
    assert page.get_by_text("too late").count() == 0
    page.get_by_text("Saved searches").click()
    page.get_by_label("Name of this search").fill("pools & <b>")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("#told", has_text="Saved").wait_for()
    page.goto("/console/search")
    page.get_by_text("Saved searches (1)").click()
    page.get_by_role("link", name="pools & <b>").click()
    page.wait_for_url("**q=billing+pool**")
    page.get_by_text("Saved searches (1)").click()
    page.get_by_role("button", name="Remove the saved search pools").click()
    page.locator("#told", has_text="Removed").wait_for()
    assert page.get_by_text("Saved searches (1)").count() == 0


def test_a_graph_is_walked_by_click_and_keyboard(visit: Any, filled: Any) -> None:
    page = visit(f"/memories/{filled.ids['memory']}/graph")
    nodes = page.locator("#drawing a.memory")
    assert nodes.count() == page.locator("[data-node]").count() == 6
    assert page.locator("#drawing path[marker-end]").count() == page.locator("[data-edge]").count() == 5
    page.locator("#drawing a.first").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):  # to the first that is a memory
        if page.evaluate("document.activeElement.matches('.first, .evidence')"):
            page.keyboard.press(key)
    chosen = page.evaluate("document.activeElement.dataset.at")
    assert chosen != filled.ids["memory"]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/memories/{chosen}/graph")
    assert page.evaluate("document.activeElement.dataset.at") == chosen
    assert page.locator('[data-hops="0"]').get_attribute("data-node") == chosen
    page.locator(f'#drawing a[data-at="{filled.ids["memory"]}"] circle').click()
    page.wait_for_url(f"**/memories/{filled.ids['memory']}/graph")
    page.go_back()
    page.locator(f'[data-hops="0"][data-node="{chosen}"]').wait_for()
    page.get_by_role("link", name="1 link away").click()
    page.wait_for_url("**hops=1")
    assert nodes.count() == page.locator("[data-node]").count() == 2
    page.get_by_role("link", name="Open the memory in the middle").click()
    page.wait_for_url(f"**/memories/{chosen}")


def test_why_not_takes_words_where_nobody_knows_the_id(visit: Any, filled: Any) -> None:
    page = visit(f"/memories/{filled.ids['memory']}")
    page.get_by_role("link", name="Why was it not found?").click()
    page.get_by_text("Enter the question").wait_for()
    page.goto("/console/search?q=lunch&statuses=published&why_not=billing+pool+waits+30+s")
    page.get_by_role("link", name="The billing pool has 20 connections").first.click()
    page.get_by_text("its status is not published").wait_for()


def test_what_is_older_passes_the_same_filters(visit: Any) -> None:
    page = visit("/search?statuses=hypothesis")
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**after=*")
    assert set(page.locator(".line .status").all_inner_texts()) == {"hypothesis"}
    assert page.get_by_label("Status", exact=True).input_value() == "hypothesis"


def test_a_hypothesis_is_approved_by_keyboard_and_another_merged(visit: Any) -> None:
    page = visit("/review")
    cards = page.locator(".review > li")
    before = cards.count()
    approvable = page.locator(".review > li:has(.source):not(:has(.broken))").first
    id = approvable.get_attribute("data-id")
    while "at" not in (page.locator(f'[data-id="{id}"]').get_attribute("class") or "").split():
        page.keyboard.press("j")
    page.keyboard.press("a")
    page.locator("#told", has_text="Approved").wait_for()
    assert cards.count() == before - 1
    page.get_by_role("button", name="Undo").click()
    page.locator("#told", has_text="Undone").wait_for()
    assert cards.count() == before
    page.locator(f'[data-id="{id}"]').get_by_role("button", name="Approve").click()
    page.locator("#told", has_text="Approved").wait_for()
    page.keyboard.press("j")
    merged = page.locator(".review > li.at").get_attribute("data-id")
    page.locator(f'[data-id="{merged}"] .near, [data-id="{merged}"] .neighbours p').first.wait_for()
    page.keyboard.press("m")
    page.locator("#told", has_text="Select the similar memory").wait_for()
    page.locator(f'[data-id="{merged}"] .near input').first.check()
    page.keyboard.press("m")
    page.locator("#told", has_text="Merged").wait_for()
    page.goto(f"/console/memories/{id}")
    assert page.locator("h1 + .facts .status").inner_text() == "verified"
    page.goto(f"/console/memories/{merged}")
    assert page.locator("h1 + .facts .status").inner_text() == "archived"
    assert page.get_by_text("merged into").count() >= 1


def test_keys_that_mean_something_to_a_field_stay_its_own(visit: Any) -> None:
    page = visit("/review")
    page.keyboard.press("j")
    card = page.locator(".review > li").first
    neighbour = card.locator(".near input").nth(1)
    neighbour.wait_for()
    neighbour.focus()
    page.keyboard.press("Space")
    assert neighbour.is_checked()
    assert not card.locator("[data-choose]").is_checked()
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Space")
    assert card.locator("[data-choose]").is_checked()
    id = card.get_attribute("data-id")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/memories/{id}")


def test_a_merge_and_verdicts_in_bulk_are_taken_back(visit: Any) -> None:
    page = visit("/review?kinds=observation")
    cards = page.locator(".review > li")

    def shown() -> list[Any]:
        """In no order: what other tests have read is counted meanwhile, and what is used most comes first."""
        return sorted(card.get_attribute("data-id") for card in cards.all())

    before = [card.get_attribute("data-id") for card in cards.all()]
    page.locator(f'[data-id="{before[0]}"] .near input').first.check()
    page.locator(f'[data-id="{before[0]}"]').get_by_role("button", name="Merge into").click()
    page.locator("#told", has_text="Merged").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.locator("#told", has_text="Undone").wait_for()
    assert shown() == sorted(before)
    page.get_by_label("Select all").check()
    page.get_by_role("group", name="All selected").get_by_role("button", name="Reject").click()
    page.locator("#told", has_text=f"Rejected: {len(before)}").wait_for()
    page.get_by_role("button", name="Undo").click()  # also when the page was loaded anew, since nothing was left on it
    page.locator("#told", has_text=f"Undone: {len(before)}").wait_for()
    assert [card.get_attribute("data-id") for card in cards.all()] == before


def test_a_merge_is_taken_back_on_the_page_of_the_memory_too(visit: Any) -> None:
    page = visit("/review?kinds=reflection")
    card = page.locator(".review > li").first
    id = card.get_attribute("data-id")
    card.locator(".near input").first.check()
    card.get_by_role("button", name="Merge into").click()
    page.locator("#told", has_text="Merged").wait_for()
    page.goto(f"/console/memories/{id}")
    page.get_by_role("button", name="Undo the merge").click()
    page.get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Merge undone").wait_for()
    assert page.locator("h1 + .facts .status").inner_text() == "hypothesis"
    assert page.get_by_role("button", name="Undo the merge").count() == 0


def test_several_are_rejected_at_once(visit: Any) -> None:
    page = visit("/review")
    before, waiting = page.locator(".review > li").count(), int(page.locator("[data-waiting]").inner_text())
    reject = page.get_by_role("group", name="All selected").get_by_role("button", name="Reject")
    assert reject.is_disabled()
    for number in (0, 1):
        page.locator("[data-choose]").nth(number).check()
    assert page.locator("[data-chosen]").inner_text() == "2 selected"
    reject.click()
    page.locator("#told", has_text="Rejected: 2").wait_for()
    assert page.locator(".review > li").count() == before - 2
    assert int(page.locator("[data-waiting]").inner_text()) == waiting - 2
    assert reject.is_disabled()


def test_of_several_each_that_is_refused_says_why(visit: Any) -> None:
    page = visit("/review?reason=uncited")
    visit.expected = ("409 (Conflict)", "422", "400 (Bad Request)")
    uncited = page.locator(".review > li:has-text('No citations yet')").first
    uncited.locator("[data-choose]").check()
    page.get_by_role("group", name="All selected").get_by_role("button", name="Approve").click()
    page.locator("#told.bad", has_text="Approved: 0. Refused: 1").wait_for()
    assert "citation" in uncited.get_by_role("alert").inner_text()


def test_a_hypothesis_shows_its_neighbours_unasked(visit: Any) -> None:
    page = visit("/review")
    card = page.locator(".review > li").first
    card.locator(".near li").first.wait_for()
    assert card.get_by_role("button", name="Merge into the selected one").is_visible()


def test_a_reader_reads_and_finds_no_dead_button(visit: Any, filled: Any) -> None:
    page = visit(who="priya")
    assert page.get_by_role("link", name="Audit").count() == 0
    allowed = {"Menu", "Switch between light and dark", "Keyboard shortcuts", "Sign out", "Search", "Filter", "Compare"}
    allowed |= {"Change the password", "Pause updates", "Go to… Ctrl K"}  # their own
    allowed |= {"Ask", "Run", "Find"}  # questions are a way to read, and a button for each part of an answer
    readable = [
        path for path in pages(filled.ids, "a reader") if path not in FOR_ADMINS and not path.startswith("/ask?run=")
    ]
    for path in readable:
        page.goto(f"/console{path}")
        named = {one.get_attribute("aria-label") or one.inner_text() for one in page.locator("button:visible").all()}
        assert named <= allowed, path
        assert page.locator("main input[type=checkbox]:visible").count() == 0 or path.startswith("/search"), path
    visit.expected = ("403 (Forbidden)",)
    page.goto("/console/audit")
    assert page.get_by_text("log needs the permission 'admin'").is_visible()


def test_who_is_signed_out_in_the_middle_loses_nothing(visit: Any, filled: Any) -> None:
    visit.expected = ("401 (Unauthorized)", "403 (Forbidden)")
    page = visit("/search")
    headers = {"x-recollect-csrf": page.locator('meta[name="recollect-proof"]').get_attribute("content")}
    made = page.request.post("/v1/memories", data={"content": "The cache of the shop has 20 entries"}, headers=headers)
    page = visit(f"/memories/{made.json()['id']}", who=None)
    filled.enter(page, "maya")
    page.wait_for_url(f"**/memories/{made.json()['id']}")  # loaded: without its script a form just sends
    page.get_by_text("Change the text").click()
    page.get_by_label("New text").fill("The cache of the shop has 25 entries")
    kept = page.context.cookies()
    page.context.clear_cookies()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("dialog", name="You are signed out").wait_for()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in").click()
    filled.enter(opened.value, "maya")
    opened.value.wait_for_url("**/console")
    assert page.context.cookies() != kept
    page.get_by_role("button", name="Close").click()
    assert page.get_by_label("New text").input_value().startswith("The cache of the shop has 25")
    page.get_by_role("button", name="Save").click()
    page.locator("#told", has_text="Saved").wait_for()


def test_what_is_clicked_twice_is_done_once(visit: Any) -> None:
    page = visit("/keys")
    page.get_by_label("What it is for").fill("clicked twice")
    page.evaluate("for (const _ of [1, 2]) document.querySelector('[data-add-key]').requestSubmit()")
    page.locator("#keys", has_text="clicked twice").wait_for()
    page.reload()
    assert page.locator("tr", has_text="clicked twice").count() == 1


def test_a_service_that_is_gone_is_said_to_be(visit: Any) -> None:
    visit.expected = ("ERR_FAILED", "ERR_INTERNET_DISCONNECTED")
    page = visit("/search")
    page.context.set_offline(True)
    page.get_by_label("Question").fill("pool")
    page.locator("#told.bad", has_text="cannot be reached").wait_for()
    assert page.locator("#results").get_attribute("aria-busy") == "false"


def test_there_is_a_page_for_what_is_not_there(visit: Any) -> None:
    visit.expected = ("404 (Not Found)",)
    page = visit("/nowhere/at/all")
    assert page.get_by_text("there is no such page").is_visible()
    assert page.get_by_role("link", name="Overview", exact=True).is_visible()
    page.goto("/console/")
    page.wait_for_url("**/console")


def test_evidence_is_given_to_what_has_none(visit: Any) -> None:
    page = visit("/review?reason=uncited")
    page.get_by_role("link", name="Add a citation").first.click()
    page.get_by_text("Vouch for it").click()
    page.get_by_label("What you know about it").fill("I was there")
    page.get_by_role("button", name="Add as a citation").click()
    page.locator("#told", has_text="Cited").wait_for()
    assert page.locator(".citations li > div").inner_text() == "user Maya I was there"


def test_runs_say_how_they_went_and_go_on(visit: Any, filled: Any) -> None:
    page = visit(f"/runs/{filled.ids['failed']}")
    assert "error" in (page.locator(".timeline .status").get_attribute("class") or "")
    assert "no permission on letters" in page.inner_text("main")
    page.goto(f"/console/runs/{filled.ids['rewound']}")
    page.get_by_text("2 steps abandoned").click()
    assert page.get_by_text("Wrote paragraph 3").is_visible()
    page.goto(f"/console/runs/{filled.ids['asks']}")
    assert page.get_by_role("button", name="Resume").count() == 0
    page.get_by_role("button", name="It happened").click()
    page.locator("#told", has_text="The run continues").wait_for()
    page.goto(f"/console/agents/{filled.ids['agent']}")
    mailer = page.locator(".run", has_text="Mend the mailer")
    mailer.get_by_role("button", name="Resume").click()
    page.locator("#told", has_text="Resumed").wait_for()
    assert mailer.locator(".status").inner_text() == "queued"


def test_a_page_of_runs_keeps_itself_up_to_date(visit: Any, filled: Any, address: str) -> None:
    page = visit("/runs")
    proof = page.locator('meta[name="recollect-proof"]').get_attribute("content")
    goal = "Water the plants while somebody watches"
    made = page.request.post(
        f"{address}/v1/runs", data={"goal": goal, "agent": filled.ids["agent"]}, headers={"x-recollect-csrf": proof}
    )
    assert made.ok
    page.locator(".run", has_text=goal).wait_for()
    assert page.get_by_role("status").filter(has_text="Live").count() == 1
    page.get_by_role("button", name="Pause updates").click()
    page.request.post(f"{address}/v1/runs/{made.json()['id']}/cancel", headers={"x-recollect-csrf": proof}, data={})
    page.wait_for_timeout(4000)
    assert page.locator(".run", has_text=goal).locator(".status").inner_text() == "queued"
    page.get_by_role("button", name="Resume updates").click()
    page.locator(".run.cancelled", has_text=goal).wait_for()


def test_steps_that_wait_are_approved_and_rejected_with_a_reason(visit: Any, filled: Any) -> None:
    page = visit("/approvals")
    assert page.locator(".run").count() == 2
    page.locator(".run", has_text="Refund order 18").get_by_role("button", name="Reject").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the photo shows a whole one")
    page.get_by_role("dialog").get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Rejected").wait_for()
    assert page.locator(".run").count() == 1
    page.goto(f"/console/runs/{filled.ids['waiting']}")
    assert page.get_by_text("Step 1 waits for approval").is_visible()
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Approved").wait_for()
    assert "approved by Maya" in page.inner_text(".timeline")
    page.goto("/console/approvals")
    assert page.get_by_text("Nothing waits for approval").is_visible()


def test_snapshots_are_named_and_compared(visit: Any, filled: Any) -> None:
    page = visit(f"/workspaces/{filled.ids['workspace']}")
    page.get_by_role("button", name="Take a snapshot").click()
    page.get_by_role("dialog").get_by_label("Label").fill("before the weekend")
    page.get_by_role("dialog").get_by_role("button", name="Yes").click()
    page.locator(".snapshots", has_text="before the weekend").wait_for()
    page.get_by_role("link", name="changes", exact=True).click()
    assert page.locator(".diff .ins", has_text="+Search: mended on Thursday.").count() == 1
    assert page.locator(".diff", has_text="---").count() == 0
    page.get_by_role("link", name="figures.csv").click()
    assert page.get_by_text("billing,2").first.is_visible()


def test_a_user_gets_another_role(visit: Any) -> None:
    page = visit("/users")
    assert page.get_by_role("button", name="Suspend Maya").count() == 0, "nobody locks themselves out"
    page.get_by_role("button", name="Change Aiko").click()
    page.get_by_role("dialog").get_by_label("Role").select_option("writer")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.locator("#told", has_text="Changed").wait_for()
    assert "writer" in page.locator("tr", has_text="aiko@example.com").inner_text()


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
        tab.get_by_text("Change the text").click()
        tab.get_by_label("New text").fill(text)
    other.get_by_role("button", name="Save").click()
    other.locator("#told", has_text="Saved").wait_for()
    visit.expected = ("409 (Conflict)",)
    with page.expect_response(lambda answer: answer.request.method == "PATCH") as answered:
        page.get_by_role("button", name="Save").click()
    assert answered.value.status == 409
    page.locator("#told.bad", has_text="changed by someone else").wait_for()


def test_a_key_is_shown_once(visit: Any) -> None:
    page = visit("/keys")
    page.get_by_label("What it is for").fill("nightly job")
    page.get_by_role("button", name="Create key").click()
    page.locator("#made-key").wait_for()
    key = page.locator("#made-key-text").inner_text()
    assert key.startswith("rk.")
    page.locator("#keys", has_text="nightly job").wait_for()
    page.reload()
    assert "nightly job" in page.inner_text("main")
    assert key not in page.content()


def test_the_log_is_verified(visit: Any) -> None:
    page = visit("/audit")
    page.get_by_role("button", name="Verify the log").click()
    page.get_by_text(re.compile("The log was not tampered with")).wait_for()
    page.get_by_role("button", name="Seal new entries").click()
    page.locator("#told", has_text="All entries are sealed").wait_for()
    sealed = page.locator(".log tr", has_text="audit.verify").first
    assert re.search(r"Maya.*succeeded\s+\d+", sealed.inner_text(), re.DOTALL)
    sealed.get_by_text("show").click()
    assert "from 127.0.0.1" in sealed.inner_text()
    page.get_by_role("link", name="failed").click()
    page.wait_for_url("**outcome=failed")
    assert "succeeded" not in (page.locator(".log").inner_text() if page.locator(".log").count() else "")


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
    for path in pages(filled.ids, scheme):
        page.goto(f"/console{path}")
        assert page.evaluate(CONTRAST) == [], path


@pytest.mark.skipif(not AXE.exists(), reason=f"NOT RUN, there is no {AXE}: make test fetches it")
def test_every_page_keeps_the_rules_of_accessibility(visit: Any, filled: Any) -> None:
    page = visit(bypass_csp=True)
    page.add_init_script(path=AXE)
    one_of_each = {re.sub(r"/[0-9a-f-]{36}|\?.*", "/", path): path for path in every_page(filled.ids)}
    for path in (*some(9, one_of_each.values(), "accessibility"), "/sign-in"):
        page.goto(f"/console{path}")
        found = page.evaluate("axe.run({ rules: { 'color-contrast': { enabled: false } } })")["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], path


@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_screen(width: int, visit: Any, filled: Any) -> None:
    page = visit(viewport={"width": width, "height": 800})
    for path in pages(filled.ids, f"width {width}"):
        page.goto(f"/console{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.locator("h1").count() == 1, path


def test_a_phone_has_a_menu(visit: Any) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    assert not page.get_by_role("link", name="Audit").is_visible()
    menu = page.get_by_role("button", name="Menu")
    menu.click()
    page.keyboard.press("Escape")
    assert not page.get_by_role("link", name="Audit").is_visible()
    menu.click()
    assert page.locator("#menu").bounding_box()["height"] > 780
    page.get_by_role("link", name="Audit").click()
    page.wait_for_url("**/console/audit")


def test_what_somebody_stored_never_runs(visit: Any, filled: Any) -> None:
    page = visit()
    page.on("dialog", lambda dialog: pytest.fail("something ran"))
    odd = ("/search?q=<img+src=x+onerror=alert(1)>", "/search?q=pool&why_not=<script>alert(3)</script>")
    for path in (*pages(filled.ids, "stored text"), *hostile_pages(filled.ids), *odd):
        page.goto(f"/console{path}")
        assert page.locator("main img, main script, main iframe, main [onerror]").count() == 0, path
        assert page.locator("a[href^='javascript:']").count() == 0, path
    for path in hostile_pages(filled.ids):
        page.goto(f"/console{path}")
        assert "<script>alert(2)</script>{{7*7}}" in page.inner_text("main"), path
    page.goto("/console/search?q=alert+owned")
    page.locator(".hit", has_text='<script>alert("owned")</script>').first.wait_for()


def test_somebody_changes_their_password_and_stays_signed_in_here_alone(visit: Any, filled: Any) -> None:
    elsewhere, page = visit(who="tomás"), visit(who=None)
    filled.enter(page, "tomás")
    page.wait_for_url("**/console")
    page.get_by_title("Your account").click()
    page.get_by_label("Current password").fill(filled.password)
    page.get_by_label("New password", exact=True).fill("some other words")
    page.get_by_label("New password again").fill("some other word")
    page.get_by_role("button", name="Change the password").click()
    page.locator("#told", has_text="The two new passwords differ").wait_for()
    page.get_by_label("New password again").fill("some other words")
    page.get_by_role("button", name="Change the password").click()
    page.locator("#told", has_text="you are signed out everywhere else").wait_for()
    page.reload()
    assert page.get_by_role("heading", name="Your account").is_visible()
    elsewhere.reload()
    assert elsewhere.get_by_role("heading", name="Sign in").is_visible()


def test_a_person_is_erased_after_a_preview_and_a_typed_id(visit: Any, filled: Any, address: str) -> None:
    page = visit("/privacy")
    proof = page.locator('meta[name="recollect-proof"]').get_attribute("content")
    headers = {"x-recollect-csrf": proof}
    id = page.request.post(f"{address}/v1/users", data={"name": "Zebedee Quirk"}, headers=headers).json()["id"]
    page.request.post(f"{address}/v1/memories", data={"content": "keeps bees", "user": id}, headers=headers)
    page.get_by_label("User (id)").fill(id)
    page.get_by_role("button", name="Find").click()
    page.get_by_role("heading", name="About Zebedee Quirk").wait_for()
    page.get_by_label("On whose request").fill("their own")
    page.get_by_role("button", name="Preview the erasure").click()
    dialog = page.get_by_role("dialog", name="Erase this person for good?")
    dialog.get_by_text("Nothing was changed yet").wait_for()
    assert "memory: 1" in dialog.inner_text()
    assert dialog.get_by_role("button", name="Do it").is_disabled()
    dialog.get_by_label("To confirm, type").fill("something else")
    assert dialog.get_by_role("button", name="Do it").is_disabled()
    dialog.get_by_label("To confirm, type").fill(id)
    dialog.get_by_role("button", name="Do it").click()
    page.locator("#told", has_text="Erased").wait_for()
    page.get_by_role("button", name="Verify the certificate").first.click()
    page.get_by_text("It is genuine").wait_for()
    page.goto("/console/retention")
    page.get_by_text("Place a hold").click()
    page.get_by_label("Id", exact=True).fill(filled.ids["agent"])
    page.get_by_label("On a").select_option("agent")
    page.get_by_role("region", name="Legal holds").get_by_label("Reason").fill("case 17")
    page.get_by_role("button", name="Place the hold").click()
    page.locator("#told", has_text="Placed").wait_for()
    page.get_by_role("button", name="Release the hold").click()
    page.get_by_role("dialog").get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Released").wait_for()
    assert page.get_by_text("No legal hold is in force").is_visible()


def test_what_broke_is_found_from_the_overview_and_dealt_with(visit: Any) -> None:
    page = visit()
    page.get_by_role("link", name="Broken citations").click()
    page.get_by_text("What to do about a broken citation").wait_for()
    cards = page.locator(".review > li")
    before = cards.count()
    card = page.locator(".review > li", has_text="pool.yaml")
    card.get_by_role("button", name="Check").click()
    page.locator("#told", has_text="1 broken").wait_for()
    card.get_by_role("button", name="Remove").click()
    page.get_by_text("This cannot be undone").wait_for()
    page.get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Removed").wait_for()
    assert cards.count() == before - 1
