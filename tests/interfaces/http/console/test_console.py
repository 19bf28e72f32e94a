"""The console: who comes in and who does not, what a page shows to whom, and that stored text stays text."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from console_pages import HOSTILE, PASSWORD, Tags, page, proof, sign_in, with_key
from recollect import cite
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.catalogue import OPERATIONS
from recollect.domain.access import PERMISSIONS, ROLES
from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey
from recollect.interfaces.http.console import agent_pages, conversation_pages, memory_pages, page_context, templating
from recollect.interfaces.http.console.page_context import MENU
from recollect.interfaces.http.console.templating import (
    chart,
    fans,
    fenced,
    line_kinds,
    parts,
    slices,
    weekly,
    word_diff,
)
from recollect.interfaces.serve import application
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Touch
from recollect.services.access import keys
from recollect.settings import Settings


def test_who_is_not_signed_in_is_asked_to_and_comes_back_to_the_page(console: Any) -> None:
    asked = console.get("/console/search?q=x")
    assert (asked.status_code, asked.headers["location"]) == (303, "/console/sign-in?next=/console/search%3Fq%3Dx")
    assert console.get("/").headers["location"] == "/console"
    entered = sign_in(console, email="maya@example.com", password=PASSWORD, next="/console/search?q=x")
    assert (entered.status_code, entered.headers["location"]) == (303, "/console/search?q=x")
    assert "Overview" in page(console)


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example", "//evil.example", "/consolex", "/console.evil", "\\\\evil"]
)
def test_signing_in_leads_nowhere_else(elsewhere: str, console: Any) -> None:
    answer = sign_in(console, email="maya@example.com", password=PASSWORD, next=elsewhere)
    assert answer.headers["location"] == "/console"


def test_the_cookie_is_for_our_pages_only(console: Any, mem: Any) -> None:
    kept = sign_in(console).headers["set-cookie"].lower()
    assert "httponly" in kept
    assert "samesite=strict" in kept
    assert "secure" not in kept
    secure = Settings(server={"upkeep_seconds": 1e6, "secure_cookies": True})
    with TestClient(application(mem._core, secure), "http://127.0.0.1", follow_redirects=False) as other:
        assert "secure" in sign_in(other).headers["set-cookie"].lower()


def test_unknown_users_and_wrong_passwords_get_the_same_answer(console: Any) -> None:
    def shown(**fields: str) -> tuple[int, str]:
        answer = sign_in(console, **fields)
        assert "set-cookie" not in answer.headers
        return answer.status_code, answer.text.replace(fields.get("email", ""), "").replace(
            fields.get("organization", "default"), ""
        )

    wrong = shown(email="maya@example.com", password="wrong words here")
    assert wrong[0] == 401
    assert shown(email="nobody@example.com", password="wrong words here") == wrong
    assert shown(email="maya@example.com", password="") == wrong
    assert shown(key="rk.x.y.z")[0] == 401
    assert shown(email="maya@example.com", password="x" * 20, organization="\x00")[0] == 401


def test_guessing_is_limited_by_account_and_by_address(console: Any) -> None:
    answers = [sign_in(console, email="maya@example.com", password=f"guess {n}").status_code for n in range(7)]
    assert answers == [401] * 6 + [429]
    assert sign_in(console).status_code == 429, "the right password is not a way to find out"
    by_address = [sign_in(console, key=f"rk.a.b.{n}").status_code for n in range(16)]
    assert by_address[-1] == 429


def test_signing_in_from_another_site_is_refused(console: Any) -> None:
    data = {"email": "maya@example.com", "password": PASSWORD}
    answer = console.post("/console/sign-in", data=data, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_signing_out_ends_the_key_at_once(console: Any) -> None:
    sign_in(console)
    token = console.cookies["recollect"]
    assert console.post("/console/sign-out").status_code == 403, "without the proof"
    assert console.post("/console/sign-out", headers={"x-recollect-csrf": proof(console)}).status_code == 204
    console.cookies.set("recollect", token)
    assert console.get("/console").status_code == 303


def test_a_pasted_key_still_works_for_programs_after_signing_out(console: Any, mem: Any) -> None:
    key = keys.add_key(mem._core.for_scope(Scope("default")), keys.AddKeyRequest(name="robot")).key
    assert sign_in(console, key=f"  {key} ").status_code == 303
    assert console.post("/console/sign-out", headers={"x-recollect-csrf": proof(console)}).status_code == 204
    assert keys.authenticate(mem._core, key).key.name == "robot"


def test_changes_need_the_proof_of_our_own_page(console: Any, mem: Any) -> None:
    sign_in(console)
    id = mem.remember("kept").id
    path = f"/v1/memories/{id}/archive"
    assert console.post(path, json={}).status_code == 403
    assert console.post(path, json={}, headers={"x-recollect-csrf": "0" * 64}).status_code == 403
    crossing = {"x-recollect-csrf": proof(console), "sec-fetch-site": "cross-site"}
    assert console.post(path, json={}, headers=crossing).status_code == 403
    assert mem.show(id).status == "hypothesis"
    assert console.post(path, json={"version": 1}, headers={"x-recollect-csrf": proof(console)}).status_code == 200


@pytest.mark.parametrize("verdict", ["promote", "demote", "archive", "forget", "erase"])
def test_a_verdict_on_what_somebody_else_changed_is_refused(verdict: str, mem: Any) -> None:
    made = mem.remember("as seen", cites=[recollect.cite.user("ann", "said so")])
    mem.revise(made.id, "as it is now")
    with pytest.raises(recollect.errors.VersionConflict):
        getattr(mem, verdict)(made.id, version=1)
    assert mem.show(made.id).text == "as it is now"
    getattr(mem, "archive" if verdict == "demote" else verdict)(made.id, version=2)


def test_every_page_says_that_nothing_foreign_may_run(console: Any) -> None:
    sign_in(console)
    for path in (
        "/console",
        "/console/sign-in",
        "/console/search",
        "/console/memories/absent",
        "/console/static/console.js",
    ):
        headers = console.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"


def test_files_are_kept_by_browsers_until_they_change(console: Any) -> None:
    script = re.search(
        r"/console/static/console.js\?v=[0-9a-f]+",
        console.get("/console/sign-in").text.replace("theme.js", "console.js"),
    )
    assert script
    assert "immutable" in console.get(script[0]).headers["cache-control"]
    assert console.get("/console/static/console.js").headers["cache-control"] == "no-cache"
    assert console.get("/console/static/..%2fpage_context.py").status_code == 404, "no file of ours"


def _fill_with(mem: Any, text: str) -> dict[str, str]:
    user = mem.user.add(text[:200])
    agent = mem.agent.add(text[:200], description=text, system=text)
    session = mem.session.add(text, user=user.id, agent=agent.id)
    cites = [recollect.cite.user(text[:200], text)]
    one = mem.remember(
        {"text": text, "more": {text[:50]: [text]}}, author=text[:200], tags=[text[:60].strip()], session=session.id,
        agent=agent.id, cites=cites, metadata={text[:50]: text},
    )  # fmt: skip
    two = mem.remember(f"before {text}", session=session.id)
    mem.revise(two.id, f"after {text}", why=text)
    mem.relate(one.id, two.id, text[:200])
    mem.key.add(text[:200])
    return {"memory": one.id, "other": two.id, "session": session.id, "agent": agent.id}


def _fill_agent_with(mem: Any, text: str, agent: str, session: str) -> list[str]:
    """Blocks, tools, messages, files, a run, episodes and a summary that say it; gives the pages about them."""
    mem.block.add(text[:100], text[:1500], agents=[agent])
    mem.tool.add(text[:100], text, agents=[agent])
    mem.message.add("user", text, session=session, name=text[:60], tool_calls=[{"name": text}])
    space = mem.workspace.add(agent, text[:100])
    mem.workspace.write(space.id, "a.txt", text)
    since = mem.workspace.snapshot(space.id, text[:100]).id
    mem.workspace.write(space.id, "a.txt", f"{text} changed")
    run = mem.run.start(text, agent=agent)
    held = mem.run.claim("test")
    mem.run.propose(run.id, held.fence, tool=text[:100], arguments={text[:50]: text}, reasoning=text)
    mem.run.record(run.id, held.fence, outcome="success", summary=text, output={"said": text})
    for number in range(3):
        mem.episode.record(f"{text[:1500]} {number}", True, action_plan=[text[:1500]])
    mem.summary.make(session)
    learned = mem.pattern.learn(alike=0.1).founded
    return [
        "/runs", f"/runs/{run.id}", "/workspaces", f"/workspaces/{space.id}?since={since}&path=a.txt", "/patterns",
        *(f"/patterns/{id}" for id in learned),
    ]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_stored_text_stays_text_on_every_page(text: str, console: Any, mem: Any) -> None:
    ids = _fill_with(mem, text)
    more = _fill_agent_with(mem, text, ids["agent"], ids["session"])
    sign_in(console)
    paths = ["", "/search", f"/memories/{ids['memory']}", f"/memories/{ids['other']}", "/review", "/sessions"]
    paths.append(f"/memories/{ids['memory']}/graph")
    paths += [
        f"/sessions/{ids['session']}",
        "/agents",
        f"/agents/{ids['agent']}",
        "/audit",
        "/users",
        "/keys",
        "/settings",
    ]
    shown = [page(console, path) for path in (*paths, *more)]
    shown.append(console.get("/console/search", params={"q": text, "author": text, "why_not": ids["other"]}).text)
    shown.append(console.get("/console/audit", params={"action": text, "by": text[:200]}).text)
    for content in shown:
        tags = Tags(content)
        assert tags.wrong == []
        assert all((script.get("src") or "").startswith("/console/static/") for script in tags.scripts)
        assert len(tags.scripts) == 3 + sum(f"/static/{name}.js" in content for name in ("graph", "live", "review"))
    told = [content for content in shown if text[:20] in unescape(content)]
    assert len(told) >= 12, "it is shown as it was said, not evaluated, stripped or doubly escaped"


@pytest.mark.parametrize("role", [*ROLES])
def test_a_page_shows_only_what_the_role_allows(role: str, console: Any, mem: Any) -> None:
    cited = mem.remember("something", cites=[recollect.cite.user("ann", "x")])
    with_key(console, mem, ROLES[role])
    home = page(console)
    for link in MENU:
        allowed = link.needs in OPERATIONS and OPERATIONS[link.needs].permission in ROLES[role]
        assert (f'href="/console{link.path}" data-letter' in home) is allowed, link.title
        status = 200 if allowed else 403 if link.needs in OPERATIONS else 404
        assert console.get(f"/console{link.path}").status_code == status, link.title
    shown = page(console, f"/memories/{cited.id}")
    for what, needs in (("promote", "govern"), ("archive", "govern"), ("forget", "delete"), ("erase", "delete")):
        assert (f'data-act="{what}"' in shown) is (needs in ROLES[role])
    assert ("data-revise" in shown) is ("write" in ROLES[role])


def test_a_refused_page_is_in_the_access_log(console: Any, mem: Any) -> None:
    with_key(console, mem, {"write"})
    page(console, "/search", 403)
    refused = mem.log(success=False).entries[0]
    assert (refused.action, refused.error) == ("recall", "denied")
    with_key(console, mem, set(PERMISSIONS))
    assert "✗ denied" in page(console, "/audit?outcome=failed")
    assert "✗ denied" not in page(console, "/audit?outcome=worked")


def test_another_tenants_memory_looks_like_none(console: Any, mem: Any) -> None:
    theirs = mem.within("theirs").remember("their secret plan").id
    sign_in(console)
    found = page(console, f"/memories/{theirs}", 404).replace(theirs, "ID")
    assert found == page(console, "/memories/absent", 404).replace("absent", "ID")
    assert "their secret" not in page(console, "/search?q=secret+plan")
    assert "their secret" not in page(console, f"/search?q=secret&why_not={theirs}")


def test_settings_show_no_secret_and_only_to_the_operator(console: Any, mem: Any) -> None:
    sign_in(console)
    shown = page(console, "/settings")
    assert "me:***@host" in shown
    assert "hidden@" not in shown
    mem.within("theirs").remember("there is such a tenant")
    other = keys.add_key(
        mem._core.for_scope(Scope("theirs")), keys.AddKeyRequest(name="x", scopes=list(PERMISSIONS))
    ).key
    console.cookies.clear()
    console.cookies.set("recollect", other)
    assert "me:***@host" not in page(console, "/settings")


def test_search_shows_reasons_filters_and_why_not(console: Any, mem: Any) -> None:
    hit = mem.remember("The billing pool has 20 connections", tags=["db"], cites=[recollect.cite.user("ann", "x")])
    missed = mem.remember("The billing pool was small", kind="observation")
    for text in ("The search pool is another matter", "Lunch is at noon"):
        mem.remember(text)
    sign_in(console)
    shown = page(console, f"/search/results?q=billing+pool&kinds=fact&why_not={missed.id}")
    assert f"/console/memories/{hit.id}" in shown
    assert "its kind is not fact" in shown
    assert 'class="for"' in shown
    assert "<html" not in shown
    assert "20 connections" not in page(console, "/search/results?q=pool&tags=other")
    session = mem.session.add("talk").id
    said = mem.message.add("user", "the billing pool is too small", session=session).id
    asked = page(console, "/search/results?q=billing+pool&messages=yes")
    assert f'/console/sessions/{session}#message-{said}"' in asked
    assert '<span class="status message">message</span>' in asked
    assert f'id="message-{said}"' in page(console, f"/sessions/{session}")
    assert said not in page(console, "/search/results?q=billing+pool&messages=no")
    assert 'role="alert"' in page(console, "/search/results?q=pool&since=yesterday")


def test_a_forgotten_memory_can_be_looked_at_and_restored(console: Any, mem: Any) -> None:
    id = mem.remember("gone for now").id
    mem.forget(id, why="said twice")
    sign_in(console)
    assert "gone for now" in page(console, "/search?forgotten=1")
    shown = page(console, f"/memories/{id}")
    assert 'data-act="restore"' in shown
    assert 'data-act="promote"' not in shown


def test_the_overview_counts_days(console: Any, mem: Any) -> None:
    for text in ("one", "two", "three"):
        mem.remember(text)
    days = mem.activity(days=7).days
    assert [day.remembered for day in days] == [0] * 6 + [3]
    assert [day.total for day in days] == [0] * 6 + [3]
    assert days[-1].accesses >= 3
    sign_in(console)
    assert f"{days[-1].date}: 3" in page(console)


def test_growth_is_by_what_happened_and_looking_is_not_use(console: Any, mem: Any) -> None:
    today = now().replace(hour=12)
    old = mem.remember("the pool was small", at=today - timedelta(days=3)).id
    mem.remember("the pool is large", at=today + timedelta(days=400))
    happened = mem.activity(days=7, by="happened").days
    assert [day.remembered for day in happened] == [0, 0, 0, 1, 0, 0, 0]
    assert [day.total for day in happened] == [0, 0, 0, 1, 1, 1, 1]
    assert [day.total for day in mem.activity(days=7).days] == [0] * 6 + [2]
    sign_in(console)
    assert f"{happened[3].date}: 1" in page(console)
    assert f"{happened[3].date}: 1" not in page(console, "?by=stored").partition("Accesses by")[0]
    mem._core.journal.flush()
    before = mem.activity(days=1).days[0].accesses
    for path in (f"/memories/{old}", "/search?q=pool", "/review", "/audit", ""):
        page(console, path)
    mem._core.journal.flush()
    entries = {(one.operation, one.action) for one in mem.log(operation="view").entries}
    assert {("view", "show"), ("view", "recall"), ("view", "review.list")} <= entries, "it is in the log"
    assert mem.activity(days=1).days[0].accesses - before <= 2, "only what this test asked itself"
    mem.show(old)
    mem._core.journal.flush()
    assert mem.show(old).fields["access_count"] == 1, "a program's reading counts, a person's looking does not"


def test_times_are_shown_in_the_zone_of_who_looks(console: Any, mem: Any) -> None:
    id = mem.remember("midnight", at="2026-03-01T23:30:00Z").id
    sign_in(console)
    assert "2026-03-01 23:30" in page(console, f"/memories/{id}")
    mem.user.revise(mem.user.list().users[0].id, timezone="Asia/Bangkok")
    assert "2026-03-02 06:30" in page(console, f"/memories/{id}")


def test_a_page_asks_the_store_no_more_when_there_is_more(
    console: Any, mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = SqliteStore._read
    monkeypatch.setattr(SqliteStore, "_read", lambda store, *given: asked.append(given[1]) or read(store, *given))
    sign_in(console)
    counts: list[dict[str, int]] = []
    for size in (60, 500):
        here = mem.stats().memories
        mem.remember_many([{"content": f"fact number {n} about service {n % 9}"} for n in range(here, size)])
        counts.append({})
        for path in ("", "/search", "/review", "/audit", "/search?q=service+3"):
            page(console, path)  # the first of its kind reads what is then known
            asked.clear()
            page(console, path)
            counts[-1][path] = len(asked)
    assert all(counts[0].values())
    for path, few in counts[0].items():
        assert counts[1][path] <= few + 3, path  # among few memories no neighbour is left to be read


def test_numbers_behind_the_drawings() -> None:
    assert [(one.name, one.amount, one.start) for one in slices({"a": 1, "b": 3, "c": 0})] == [
        ("b", 3, 0),
        ("a", 1, 75),
    ]
    assert [one.name for one in slices({str(n): 10 - n for n in range(10)}, most=2)] == ["0", "1", "others"]
    drawn = chart(["2026-01-01", "2026-01-02"], [0, 10])
    assert [label for _, label in drawn.ticks] == ["0", "5", "10"]
    assert drawn.bars[1][3] > drawn.bars[0][3] == 0
    assert chart([], []).line == ""
    assert chart([], [], bars=True).cut == []
    assert [(one.name, one.x) for one in parts({"words": 2.0, "session": -1.0, "none": 0.0})] == [
        ("words", 50),
        ("session", 25),
    ]
    to, back = SimpleNamespace(direction="to"), SimpleNamespace(direction="from")
    drawn_fans = fans([to, back, back] + [to] * 20)
    assert [(fan.side, len(fan.links), fan.left_out) for fan in drawn_fans] == [("left", 2, 0), ("right", 8, 13)]
    assert [height for _, height in drawn_fans[0].links] == [25, 75]
    assert [fan.side for fan in fans([to])] == ["right"]
    assert fans([]) == []


def test_code_in_a_message_is_set_apart() -> None:
    said = "see:\n```python\nwait(10)\n```\nor ```not this``` one"
    assert [(piece.kind, piece.text) for piece in fenced(said)] == [
        ("text", "see:\n"), ("code", "wait(10)\n"), ("text", "or ```not this``` one"),
    ]  # fmt: skip
    assert [piece.kind for piece in fenced("```\nnever closed")] == ["text"]


def test_a_diff_of_files_does_not_repeat_their_names() -> None:
    diff = "--- before/a\n+++ after/a\n@@ -1 +1 @@\n--- a rule\n+one"
    assert [piece.kind for piece in line_kinds(diff)] == ["at", "del", "ins"]


def test_a_long_conversation_is_read_by_pages(console: Any, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_pages, "MESSAGES_AT_ONCE", 4)
    session = mem.session.add("long").id
    for number in range(10):
        mem.message.add("user", f"said {number}.", session=session)
        mem.remember(f"kept {number}.", session=session)
    sign_in(console)
    path, pages = f"/sessions/{session}", []
    while path:
        pages.append(page(console, path))
        earlier = re.search(r'href="([^"]+)">↑ Earlier', pages[-1])
        path = f"/sessions/{session}{unescape(earlier[1])}" if earlier else ""
    said = [re.findall(r"(?:said|kept) \d\.", one.split('class="talk"')[1]) for one in pages]
    assert [len(one) for one in said] == [8, 8, 4]
    whole = [f"{what} {number}." for number in range(10) for what in ("said", "kept")]
    assert [turn for one in reversed(said) for turn in one] == whole
    assert "Latest" in pages[1]


def test_a_citation_of_a_page_leads_there_and_no_other_does(console: Any, mem: Any) -> None:
    cites = [recollect.cite.url("https://example.com/a?b=1&c=<2>"), recollect.cite.user("javascript:alert(1)")]
    sign_in(console)
    shown = page(console, f"/memories/{mem.remember('cited', cites=cites).id}")
    assert re.findall(r'class="source" href="([^"]*)" rel="noreferrer noopener"', shown) == [
        "https://example.com/a?b=1&amp;c=&lt;2&gt;"
    ]


def test_a_diff_marks_the_words_that_changed() -> None:
    pieces = word_diff("the pool waits 10 s", "the pool waits 30 s")
    assert [(piece.kind, piece.text) for piece in pieces] == [
        ("same", "the pool waits "), ("del", "10"), ("ins", "30"), ("same", " s"),
    ]  # fmt: skip
    assert "".join(p.text for p in word_diff("a " * 9000, "b " * 9000) if p.kind == "ins") == "b " * 9000


def test_everybody_changes_their_own_password_but_guesses_it_only_a_few_times(console: Any, mem: Any) -> None:
    sign_in(console)
    assert "data-change-password" in page(console, "/account")
    proven = {"x-recollect-csrf": proof(console)}
    wrong = {"password": "not this one", "new_password": "some other words"}
    told = [console.put("/v1/users/me/password", json=wrong, headers=proven).status_code for _ in range(7)]
    assert told == [403] * 6 + [429]
    assert mem.log(action="user.change_password", success=False).entries[0].error == "rate_limited"
    console.app.state.service.counts.forget()
    right = {"password": PASSWORD, "new_password": "some other words"}
    assert console.put("/v1/users/me/password", json=right, headers=proven).json()["ended"] == 1
    assert console.get("/console/account").status_code == 303
    assert sign_in(console).status_code == 401
    assert sign_in(console, email="maya@example.com", password="some other words").status_code == 303


def test_who_has_no_password_is_told_so(console: Any, mem: Any) -> None:
    with_key(console, mem, {"read"})
    assert "only users have passwords" in page(console, "/account")
    user = mem.user.add("Cid")
    mem.user.revise(user.id, role="reader")
    with_key(console, mem, {"read"}, user=user.id)
    assert "An administrator can set one" in page(console, "/account")


def test_a_day_far_above_all_others_is_cut_and_says_what_it_came_to() -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 31)]
    drawn = chart(days, [*range(20, 49), 5587], bars=True)
    assert [label for _, label in drawn.ticks] == ["0", "30", "60"]
    assert [label for _, _, label in drawn.cut] == ["5.59k"]
    assert drawn.bars[29][3] > drawn.bars[28][3] > 40
    for even in ([*range(20, 50)], [0] * 29 + [5587], [5000, 4000, 3000, 2000, *range(1, 27)]):
        assert chart(days, even, bars=True).cut == []
    assert chart(days, [*range(20, 49), 5587]).ticks[2][1] == "6k"


def test_a_year_is_drawn_by_weeks_that_end_today() -> None:
    assert weekly([(f"day {number}", number) for number in range(16)]) == [
        ("day 2", sum(range(2, 9))),
        ("day 9", sum(range(9, 16))),
    ]


def test_the_overview_looks_back_as_far_as_it_is_told(console: Any, mem: Any) -> None:
    mem.remember("The sky is blue")
    sign_in(console)
    for days, drawn in (
        ("", "30 days"),
        ("90", "90 days"),
        ("365", "by week over the last 365 days"),
        ("x", "30 days"),
    ):
        shown = page(console, f"?days={days}")
        assert f"over the last {drawn}" in shown or f"Accesses {drawn}" in shown
    assert page(console, "?days=365").count('<rect class="over"') == 365 + 52


def test_many_files_lie_in_folders_and_on_pages(console: Any, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    space = mem.workspace.add(mem.agent.add("Scribe").id, "reports").id
    for number in range(7):
        mem.workspace.write(space, f"week-{number}/notes.md", "x")
    monkeypatch.setattr(agent_pages, "FILES_AT_ONCE", 5)
    monkeypatch.setattr(agent_pages, "MOST_UNFOLDED", 3)
    sign_in(console)
    shown = page(console, f"/workspaces/{space}?path=week-1/notes.md")
    assert shown.count('<details class="folder">') == 4
    assert shown.count('<details class="folder" open>') == 1
    more = re.search(r'href="(\?[^"#]*files_after[^"#]*)#files">More', shown)
    assert more
    rest = page(console, f"/workspaces/{space}{unescape(more[1])}")
    assert "week-6/notes.md" in rest
    assert "First files" in rest


def test_everybody_is_named_however_many_there_are(console: Any, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, agent = mem.user.list().users[0].id, mem.agent.add("Scribe").id
    memory = mem.remember("The sky is blue", agent=agent, user=first, cites=[cite.user(first, "saw it")])
    session = mem.session.add("Weather", agent=agent)
    run = mem.run.start("Look at the sky", agent=agent)
    for number in range(3):
        mem.user.add(f"User {number}")
        mem.agent.add(f"Agent {number}")
    monkeypatch.setattr(page_context, "MOST_NAMES", 2)
    sign_in(console)
    for path in ("/sessions", f"/sessions/{session.id}", "/runs", f"/runs/{run.id}"):
        assert "Scribe" in page(console, path), path
    shown = page(console, f"/memories/{memory.id}")
    assert ">Scribe<" in shown
    assert '<bdi class="source">Maya</bdi>' in shown
    assert '<bdi class="clip">Maya</bdi></a></td>' in page(console, "/audit")


def test_a_page_asks_once_for_all_the_names_on_it(console: Any, mem: Any) -> None:
    people = [mem.user.add(f"User {number}").id for number in range(5)]
    for id in people:
        mem.remember(f"Said by {id}", cites=[cite.user(id, "saw it")])
    sign_in(console)
    asked = len(mem.log(action="user.list").entries)
    assert "User 4" in page(console, "/review")
    mem._core.journal.flush()
    assert len(mem.log(action="user.list").entries) == asked + 1


def test_only_those_with_a_role_are_listed_where_that_is_asked(console: Any, mem: Any) -> None:
    mem.user.add("Nobody")
    sign_in(console)
    assert "Nobody" in page(console, "/users")
    assert "Nobody" not in page(console, "/users?with_role=1")


def test_keys_that_ended_stand_apart_and_cannot_be_revoked(console: Any, mem: Any) -> None:
    mem.key.add("nightly")
    over = mem.key.add("last year", expires_days=1)
    past = Touch(ApiKey, over.id, put={"expires_at": now() - timedelta(days=40)})
    mem._core.store.transact(Scope("default"), [past])
    mem.key.revoke(mem.key.add("leaked").id)
    sign_in(console)
    usable, _, ended = page(console, "/keys").partition("2 revoked or expired keys")
    assert "nightly" in usable
    assert usable.count("/revoke") == 1
    assert "expired 40 d ago" in ended
    assert "leaked" in ended
    assert "/revoke" not in ended


def test_who_is_cited_by_another_confirms_it_with_a_button_and_nobody_else_has_it(console: Any, mem: Any) -> None:
    maya = mem.user.list()[0].id
    other = mem.user.add("Otto").id
    mem.user.revise(other, role="writer")
    with_key(console, mem, {"read", "write"}, user=other)
    cites = [{"type": "user", "user_id": maya, "comment": "approved"}]
    told = {"content": "the plan is approved", "cites": cites}
    headers = {"x-recollect-csrf": proof(console)}
    id = console.post("/v1/memories", json=told, headers=headers).json()["id"]
    seen = page(console, f"/memories/{id}")
    assert "state claimed" in seen
    assert "I said so" not in seen
    console.cookies.clear()
    sign_in(console)
    button = re.search(r'data-post="(/v1/[^"]+/confirm)"', page(console, f"/memories/{id}"))
    assert button
    assert "quote a user who has not confirmed them" in page(console, "/citations?state=claimed")
    done = console.post(button[1], json={}, headers={"x-recollect-csrf": proof(console)})
    assert done.json()["citations"] == [f"user:{maya}: holds"]
    assert "state holds" in page(console, f"/memories/{id}")


def test_removed_users_can_be_restored_on_the_page(console: Any, mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    sign_in(console)
    assert 'data-remove="/v1/users/ann"' in page(console, "/users")
    mem.user.remove("ann")
    shown = page(console, "/users")
    assert 'data-remove="/v1/users/ann"' not in shown
    assert 'data-post="/v1/users/ann/restore"' in shown


def test_the_inbox_says_why_is_filtered_and_chooses_nothing_by_itself(
    console: Any, mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = mem.remember("The pool holds 20 connections", author="ann", cites=[cite.user("ann", "x")]).id
    two = mem.remember("Lunch is at noon", session=mem.session.add("talk").id).id
    mem.relate(two, one, "contradicts")
    mem.remember_many([{"content": f"plain note number {n}"} for n in range(30)])
    sign_in(console)
    shown = page(console, "/review")
    assert shown.index("Lunch is at noon") < shown.index("plain note number") > shown.index("The pool holds")
    assert "contradiction with 1 memory" in shown
    assert re.search(r"contradictions 2</a>", shown)
    assert shown.count("data-id=") == 20
    assert page(console, "/review?size=50").count("data-id=") == 32
    assert page(console, "/review?reason=contradicted").count("data-id=") == 2
    assert page(console, "/review?reason=nonsense&author=ann").count("data-id=") == 1
    assert page(console, f"/review?session={mem.show(two).session}").count("data-id=") == 1
    following = re.search(r'href="(\?[^"]+)" rel="next"', shown)
    assert following
    rest = page(console, f"/review{unescape(following[1])}")
    assert rest.count("data-id=") == 12
    assert not set(re.findall(r'data-id="([^"]+)', rest)) & set(re.findall(r'data-id="([^"]+)', shown))
    near = page(console, f"/memories/{two}/near")
    assert 'type="radio"' in near
    assert " checked" not in near, "a weak likeness is nobody's choice"
    monkeypatch.setattr(memory_pages, "STRONG_LIKENESS", -1)
    assert page(console, f"/memories/{two}/near").count(" checked") == 1


def test_the_graph_of_a_memory_is_a_list_that_can_be_walked(console: Any, mem: Any) -> None:
    for id in ("harbour", "rope", "knot", "sail"):
        mem.remember(f"about the {id}", id=id)
    for source, target, type in (("rope", "harbour", "ties"), ("knot", "rope", "part_of"), ("sail", "knot", "ties")):
        mem.relate(source, target, type)
    sign_in(console)
    assert 'href="/console/memories/rope/graph"' in page(console, "/memories/rope")
    shown = page(console, "/memories/harbour/graph")
    assert re.findall(r'data-node="(\w+)" data-status="hypothesis" data-hops="(\d)"', shown) == [
        ("harbour", "0"),
        ("rope", "1"),
        ("knot", "2"),
    ]
    assert re.findall(r'data-edge="(\w+)" data-type="(\w+)"', shown) == [("harbour", "ties"), ("rope", "part_of")]
    far = page(console, "/memories/harbour/graph?hops=3")
    assert 'href="/console/memories/sail/graph?hops=3"' in far
    assert 'data-node="knot"' not in page(console, "/memories/harbour/graph?type=ties")
    assert "Nothing is linked to this memory by such links" in page(console, "/memories/harbour/graph?type=x&hops=9")
    page(console, "/memories/absent/graph", 404)


def test_runs_are_polled_without_filling_the_log_and_a_dead_worker_shows(
    console: Any, mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(templating._UNITS, "s", 1e9)  # however long it takes, what happened is from now
    agent = mem.agent.add("Bee").id
    run = mem.run.start("count the bees", agent=agent).id
    sign_in(console)
    assert 'data-live="3"' in page(console, "/runs")
    asked = {"x-recollect-poll": "1"}
    first = console.get("/console/runs", headers=asked)
    entries = mem.log(action="run.list").entries
    assert [one.operation for one in entries] == ["view", "view"], "what was delivered is in the log"
    for _ in range(3):
        again = console.get("/console/runs", headers=asked | {"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert len(mem.log(action="run.list").entries) == 2, "what was not is not"
    held = mem.run.claim("worker", seconds=1)
    mem.run.propose(run, held.fence, tool="count", arguments={})
    news = console.get("/console/runs", headers=asked | {"if-none-match": first.headers["etag"]})
    assert news.status_code == 200
    assert '<span class="status running">running</span>' in news.text
    later = Touch(
        Lease, mem._core.store.select(Scope("default"), Query(Lease), ("id",))[0][0], {}, {"expires_at": now()}
    )
    mem._core.store.transact(Scope("default"), [later])
    dead = console.get("/console/runs", headers=asked | {"if-none-match": news.headers["etag"]})
    assert '<span class="status interrupted">interrupted</span>' in dead.text
    assert '<span class="status interrupted">interrupted</span>' in page(console, f"/runs/{run}")
    console.cookies.clear()
    gone = console.get("/console/runs", headers=asked | {"x-recollect-fragment": "1"})
    assert gone.status_code == 401
