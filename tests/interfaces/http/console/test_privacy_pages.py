"""The pages of the privacy officer and the operator: what they show, to whom, and that nothing goes unseen."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

from console_pages import HOSTILE, Tags, page, proof, sign_in, with_key
from recollect.domain.access import ROLES
from recollect.domain.backups import Backup
from recollect.ports.query import Query
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Update

PATHS = ("/privacy", "/retention?preview=1", "/cold", "/backups")


def cold_session(mem: Any, text: str) -> str:
    session = mem.session.add(text).id
    mem.message.add("user", f"{text} was said here", session=session)
    mem.cold.store(session=session)
    return str(session)


def test_a_person_is_found_erased_and_certified(console: Any, mem: Any) -> None:
    bob = mem.user.add("Bob", email="bob@example.com").id
    mem.remember("Bob keeps bees", user=bob)
    mem.remember("Bob is allergic to nuts")
    sign_in(console)
    shown = page(console, f"/privacy?user={bob}")
    assert "About <bdi>Bob</bdi>" in shown
    assert "about them" in shown
    assert f'data-typed="{bob}"' in shown, "who erases types the id"
    assert f"recollect privacy export FOLDER --user {bob}" in shown
    assert "nothing" in page(console, "/privacy?user=nobody-at-all").lower()
    sent = {"x-recollect-csrf": proof(console)}
    plan = console.post("/v1/privacy/erase", json={"user": bob, "dry_run": True}, headers=sent).json()
    assert plan["dry_run"]
    assert mem.user.show(bob).name == "Bob", "a preview changes nothing"
    done = console.post("/v1/privacy/erase", json={"user": bob}, headers=sent).json()
    id = done["certificate"]["id"]
    shown = page(console, "/privacy")
    assert f'data-verify="{id}"' in shown
    assert "Bob" not in shown
    assert console.post("/v1/privacy/verify", json={"id": id}, headers=sent).json()["sound"]


def test_rules_holds_cold_sessions_and_backups_are_shown(console: Any, mem: Any, tmp_path: Path) -> None:
    old = mem.remember("an old remark", kind="observation").id
    rule = mem.retention.set(kind="observation", keep_days=1e-7, then="forget", reason="remarks age").id
    user = mem.user.add("Ann").id
    hold = mem.hold.place(user=user, reason="case 17").id
    session = cold_session(mem, "winter stock")
    mem.backup(str(tmp_path / "backups") + "/")
    sign_in(console)
    shown = page(console, "/retention")
    assert f'data-delete="/v1/retention/{rule}"' in shown
    assert f'data-post="/v1/holds/{hold}/release"' in shown
    assert "data-preview-path" not in shown, "nothing is applied that was not looked at"
    shown = page(console, "/retention?preview=1")
    assert "an old remark" in shown
    assert 'data-typed="apply"' in shown
    assert mem.show(old).text == "an old remark"
    mem.hold.release(hold)
    assert "No legal hold is in force" in page(console, "/retention")
    assert "case 17" in page(console, "/retention?released=1")
    assert f'data-post="/v1/cold/{session}/restore"' in page(console, "/cold")
    assert "winter stock was said here" in page(console, "/cold?q=stock")
    assert "No results" in page(console, "/cold?q=unheard")
    shown = page(console, "/backups")
    assert "ever restored to try it" in shown
    mem.backup.drill()
    shown = page(console, "/backups")
    assert "✓ restored" in shown
    assert "ever restored to try it" not in shown
    scope = Scope("default")
    (made,) = mem._core.store.find(scope, Query(Backup)).records
    mem._core.store.transact(
        scope, [Update(revised(made, scope, drill={"sound": False, "problems": ["a page is damaged"]}))]
    )
    assert 'The last restore drill failed: <span dir="auto">a page is damaged' in page(console, "/backups")


@pytest.mark.parametrize("text", HOSTILE[:2])
def test_stored_text_stays_text_here_too(text: str, console: Any, mem: Any) -> None:
    user = mem.user.add(text, id="eve").id
    mem.remember(f"about {text}", user=user)
    mem.hold.place(user=user, reason=text)
    mem.retention.set(kind="fact", keep_days=3, then="forget", reason=text)
    cold_session(mem, text)
    sign_in(console)
    for path in (*PATHS, "/privacy?user=eve", "/cold?q=said"):
        content = page(console, path)
        assert Tags(content).wrong == [], path
        assert text in unescape(content) or path == "/backups", path


def test_readers_see_cold_sessions_and_can_change_nothing(console: Any, mem: Any) -> None:
    cold_session(mem, "stock")
    with_key(console, mem, ROLES["reader"])
    shown = page(console, "/cold")
    assert "stock" in shown
    assert "/restore" not in shown
    for path in ("/privacy", "/retention", "/backups"):
        page(console, path, 403)
