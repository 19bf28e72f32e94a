"""The console in tests: signing in, asking for pages, and what a browser would make of one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from recollect.domain.access import PERMISSIONS
from recollect.ports.records import Scope
from recollect.services.access import keys

PASSWORD = "a few long words"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe מימין",
    "w" * 3000,
    "👩‍👩‍👧‍👦 & < > \" '",
)


def sign_in(client: Any, **fields: str) -> Any:
    given = fields or {"email": "maya@example.com", "password": PASSWORD}
    return client.post("/console/sign-in", data=given)


def page(client: Any, path: str = "", status: int = 200) -> str:
    answer = client.get(f"/console{path}")
    assert answer.status_code == status, answer.text[:2000]
    return str(answer.text)


def proof(client: Any) -> str:
    found = re.search(r'name="recollect-proof" content="([0-9a-f]+)"', page(client))
    assert found
    return found[1]


def with_key(client: Any, mem: Any, scopes: frozenset[str] | set[str], **more: Any) -> None:
    wanted = sorted(scopes, key=PERMISSIONS.index)
    request = keys.AddKeyRequest(name="probe", scopes=wanted, **more)
    client.cookies.clear()
    client.cookies.set("recollect", keys.add_key(mem._core.for_scope(Scope("default")), request).key)


class Tags(HTMLParser):
    """What a browser would make of a page: its elements, handlers, inline styles and unlabelled fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.wrong: list[str] = []
        self.labelled: set[str] = set()
        self.fields: list[dict[str, str | None]] = []
        self.ids: list[str] = []
        self._in_label = False
        self.feed(text)
        self.wrong += [f"no label: {one}" for one in self.fields if not self._has_name(one)]
        self.wrong += [f"twice: {id}" for id in set(self.ids) if self.ids.count(id) > 1]

    def _has_name(self, given: dict[str, str | None]) -> bool:
        return bool(given.get("aria-label") or given.get("in-label") or (given.get("id") or "") in self.labelled)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.wrong += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        self.wrong += [
            f"{tag} to {value}" for name, value in attrs if name in ("src", "href", "action") and _leaves(value)
        ]
        self.wrong += [tag] if tag in ("style", "iframe", "object", "embed", "base") else []
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag == "script":
            self.scripts.append(given)
        if tag == "label":
            self._in_label = True
            self.labelled.add(given.get("for") or "")
        if tag == "img" and "alt" not in given:
            self.wrong.append("img without alt")
        if tag in ("input", "select", "textarea") and given.get("type") != "hidden":
            self.fields.append(given | ({"in-label": "yes"} if self._in_label else {}))

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self._in_label = False


def _leaves(value: str | None) -> bool:
    return not (value or "").startswith(("/console", "#", "?"))
