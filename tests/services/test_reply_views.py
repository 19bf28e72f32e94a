"""Replies in a notebook and in a REPL: whatever they hold, it is shown as text, and nothing is fetched."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

import recollect
from recollect.catalogue import OPERATIONS, Operation
from recollect.interfaces.client import Recollect
from recollect.services.notebook import LONGEST_TEXT
from recollect.services.recall.hits import Hit
from recollect.services.reply_texts import _TEXTS
from recollect.services.reply_views import _VIEWS
from recollect.services.requests import Reply

HOSTILE = "\"><script src='https://evil'>x</script><img src=x onerror=y>\u202e\x1b[31m\ud800'&<!--"
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Checked(HTMLParser):
    """Tags that are opened and closed in order, none that fetches or runs anything, no attribute but a style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.shown = ""
        html.encode()  # a lone surrogate could not be sent
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", html)
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "thead", "tbody", "tr", "th", "td", "p", "small", "b", "br", "code", "div", "pre",
                       "details", "summary", "span", "h4", "h5"}, tag  # fmt: skip
        assert {name for name, _ in attributes} <= {"style"}
        assert not any("url(" in (value or "") or "evil" in (value or "") for _, value in attributes)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment hides what follows")

    def handle_data(self, data: str) -> None:
        self.shown += data


def _made(annotation: Any, depth: int = 0) -> Any:
    """A value of a type in which every text is hostile."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _made(next(one for one in inner if one is not type(None)), depth)
    if origin is Literal:
        return inner[-1]
    if origin in (list, tuple):
        return [] if depth > 3 else [_made(inner[0], depth + 1)]
    if origin in (dict, Mapping) or annotation is dict:
        return {HOSTILE: HOSTILE}
    if origin is not None and inner:  # Annotated
        return _made(inner[0], depth)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _reply(annotation, depth + 1)
    plain: dict[Any, Any] = {bool: True, int: 3, float: 0.5, datetime: WHEN, bytes: b"<b>"}
    return plain.get(annotation, HOSTILE)


SHAPED: dict[str, Any] = {
    "rows": [[HOSTILE]],
    "joins": [dict.fromkeys(("column", "to_name", "to_column"), HOSTILE)],
    "statistics": {"nulls": 1, "distinct": 1, "top": [{"value": HOSTILE, "count": 1}]},
}
"""JSON that has a form of its own."""


def _reply(kind: type[BaseModel], depth: int = 0) -> Any:
    made = {name: _made(info.annotation, depth) for name, info in kind.model_fields.items()}
    shaped = {name: value for name, value in SHAPED.items() if isinstance(made.get(name), list | dict)}
    return kind.model_construct(**made | shaped)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda one: one.name)
def test_a_hostile_text_is_text_in_every_reply(operation: Operation) -> None:
    reply = _reply(operation.reply)
    html = reply._repr_html_()
    shown = Checked(html).shown
    assert "<script" not in html
    assert "<img" not in html
    if any(isinstance(value, str) for value in vars(reply).values()):
        assert "<script" in shown, "it is not shown at all"


@pytest.mark.parametrize("name", [*_VIEWS, *_TEXTS])
def test_what_has_a_view_of_its_own_is_there(name: str) -> None:
    """They are known by their names: one that was renamed would silently be shown as any other."""
    module, _, kind = name.partition(":")
    assert issubclass(getattr(__import__(f"recollect.services.{module}", fromlist=[kind]), kind), Reply)


@pytest.mark.parametrize("name", _TEXTS)
def test_a_repl_is_given_lines_without_what_would_move_its_cursor(name: str) -> None:
    module, _, kind = name.partition(":")
    reply = _reply(getattr(__import__(f"recollect.services.{module}", fromlist=[kind]), kind))
    shown = repr(reply)
    shown.encode()
    assert not re.search("[\u202a-\u202e\x1b]", shown)
    assert "<script" in shown
    assert max(map(len, shown.splitlines())) < 1000


@pytest.fixture
def mem() -> Iterator[Recollect]:
    with recollect.open(":memory:", embedder="hash", background=False) as mem:
        mem.remember(
            "the key hangs behind the boiler", id="m1", author="ann", cites=[recollect.cite.user("ann", "told me")]
        )
        mem.remember("word " * 1000, id="m2")
        yield mem


def test_a_repl_shows_a_line_for_each_hit(mem: Recollect) -> None:
    found = mem.recall("where is the key?")
    first, *hits = repr(found).splitlines()
    assert first.startswith("2 hits")
    assert len(hits) == 2
    assert "the key hangs behind the boiler  [hypothesis, 1 cited]  m1" in hits[0]
    assert str(found) == repr(found)
    assert repr(found[0]).startswith("<Hit ")
    assert repr(mem.list()).splitlines()[0] == "2 of 2 memories"
    assert repr(mem.context("key")).startswith("<Context of 2 entries")
    assert str(mem.context("key")).startswith("<memories>"), "for a prompt it is the text itself"


def test_a_notebook_shows_hits_with_status_source_and_id(mem: Recollect) -> None:
    for shown in (mem.recall("where is the key?"), mem.recall("where is the key?")[0], mem.show("m1")):
        text = Checked(shown._repr_html_()).shown
        for part in ("the key hangs behind the boiler", "hypothesis", "user:ann", "unchecked", "m1"):
            assert part in text


def test_a_long_text_is_cut_and_says_how_to_read_on(mem: Recollect) -> None:
    text = Checked(mem.list()._repr_html_()).shown
    assert f"{4999 - LONGEST_TEXT:,} more characters" in text
    assert "show(id)" in text
    assert len(mem.list()._repr_html_()) < 4000


def test_everything_is_still_there_for_programs(mem: Recollect) -> None:
    hit = mem.recall("key")[0]
    assert Hit.model_validate(hit.model_dump()) == hit


def test_a_run_shows_its_steps(mem: Recollect) -> None:
    run = mem.run.start("sort <b>it</b>", agent="a").id
    claimed = mem.run.claim("w")
    step = mem.run.propose(run, claimed.fence, tool="search", arguments={"what": HOSTILE[:20]})
    mem.run.record(run, claimed.fence, number=step.number, outcome="success", summary="found <i>two</i>")
    text = Checked(mem.run.show(run)._repr_html_()).shown
    for part in ("sort <b>it</b>", "search(what=", "found <i>two</i>", run):
        assert part in text
    assert run in Checked(mem.run.list()._repr_html_()).shown
    assert len(repr(mem.run.show(run)).splitlines()) == 2


def test_to_show_nothing_loads_no_view() -> None:
    script = (
        "import sys, recollect\n"
        "with recollect.open(':memory:', embedder='hash', background=False) as mem:\n"
        "    mem.remember('a'); mem.recall('a'); mem.list()\n"
        "print([one for one in sys.modules if 'reply_views' in one or 'reply_texts' in one or one == 'html'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
