"""Exporting what a search shows: the same filters and permissions as the page, streamed, safe for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from console_pages import page, sign_in, with_key
from recollect.interfaces.http.console.export import AT_ONCE, COLUMNS


def lines(console: Any, query: str = "") -> list[dict[str, Any]]:
    answer = console.get(f"/console/search/export?format=jsonl&{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="memories.jsonl"'
    return [json.loads(line) for line in answer.text.splitlines()]


def rows(console: Any, query: str = "") -> list[dict[str, str]]:
    answer = console.get(f"/console/search/export?format=csv&{query}")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_everything_the_filter_shows_is_exported_page_by_page(console: Any, mem: Any) -> None:
    many = [{"content": f"note {number}", "tags": ["many"]} for number in range(AT_ONCE + 3)]
    mem.remember_many([*many, {"content": "of another kind", "kind": "reflection", "author": "Jonas"}])
    sign_in(console)
    assert len(lines(console, "tags=many")) == AT_ONCE + 3
    assert len(rows(console)) == AT_ONCE + 4
    (one,) = lines(console, "kinds=reflection")
    assert list(one) == COLUMNS
    assert (one["text"], one["author"], one["status"]) == ("of another kind", "Jonas", "hypothesis")
    assert {one["text"] for one in lines(console, "q=of+another+kind&kinds=reflection")} == {"of another kind"}
    assert '/console/search/export?kinds=reflection&amp;format=csv"' in page(console, "/search?kinds=reflection&after=")


@pytest.mark.parametrize("text", ["=1+1", "+49 30", "-1", "@now", "\tcell"])
def test_a_spreadsheet_takes_nothing_for_a_formula(text: str, console: Any, mem: Any) -> None:
    mem.remember({"text": text}, author='<b>, "quoted"\n')
    sign_in(console)
    (told,), (shown,) = lines(console), rows(console)
    assert shown["text"] == f"'{told['text']}" if told["text"].startswith(("=", "+", "-", "@", "\t")) else told["text"]
    assert shown["author"] == told["author"]


def test_forgotten_ones_are_exported_where_they_are_shown(console: Any, mem: Any) -> None:
    mem.forget(mem.remember("gone").id)
    mem.remember("here")
    sign_in(console)
    assert [one["text"] for one in lines(console)] == ["here"]
    assert [one["text"] for one in lines(console, "forgotten=1")] == ["gone"]


def test_who_may_not_read_exports_nothing(console: Any, mem: Any) -> None:
    mem.remember("a secret")
    assert console.get("/console/search/export").headers["location"].startswith("/console/sign-in")
    with_key(console, mem, {"write"})
    for query in ("", "?format=csv", "?q=secret"):
        refused = console.get(f"/console/search/export{query}")
        assert refused.status_code == 403
        assert "a secret" not in refused.text


def test_a_senseless_export_is_refused_as_a_page(console: Any) -> None:
    sign_in(console)
    for query in ("format=<script>", "since=never"):
        refused = console.get(f"/console/search/export?{query}")
        assert refused.status_code in (400, 422)
        assert "<script>alert" not in refused.text
        assert refused.headers["content-type"].startswith("text/html")
