"""Answers and sources in a notebook: whole, safe, without an address of anybody else's."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.services.data.results import QueryReply, ResultColumn

HOSTILE = "<script>alert(1)</script>"


class Checked(HTMLParser):
    """Tags that are opened and closed in order, and no attribute that fetches or runs anything."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []
        assert not re.search(r"https?:|url\(|<script|javascript:", html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attributes} <= {"style"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def mem(tmp_path: Path) -> Any:
    (tmp_path / "sales.csv").write_text(
        f'region,amount,"{HOSTILE}"\n' + "".join(f"{HOSTILE if n % 2 else '北'},{n}.5,x\n" for n in range(100)),
        encoding="utf-8",
    )
    with recollect.open(tmp_path / "n.db", embedder="hash", background=False) as mem:
        mem.source.add(str(tmp_path / "sales.csv"))
        yield mem


def test_a_result_shows_its_rows_what_was_cut_and_its_sql(mem: Any) -> None:
    html = mem.query.run("select * from sales")._repr_html_()
    Checked(html)
    assert "the first 20 of 100 rows" in html
    assert '<td style="text-align:right">0.5</td>' in html
    assert "&lt;script&gt;" in html
    assert "<summary>SQL</summary>" in html


def test_a_result_with_hundreds_of_columns_is_cut_and_says_so() -> None:
    columns = [ResultColumn(name=f"c{number}", type="BIGINT") for number in range(200)]
    html = QueryReply(run=None, sql="", columns=columns, rows=[list(range(200))], row_count=1)._repr_html_()
    Checked(html)
    assert "the first 30 of 200 columns" in html


def test_an_answer_shows_how_it_was_read_and_how_sure_that_is(mem: Any) -> None:
    answer = mem.ask("total amount by region")
    html = answer._repr_html_()
    Checked(html)
    assert "% sure" in html
    assert all(part.text.replace("<", "&lt;").replace(">", "&gt;") in html for part in answer.reading)
    bundle = answer._repr_mimebundle_()
    assert set(bundle) >= {"text/html", "text/plain"}
    Checked(answer.model_copy(update={"declined": HOSTILE})._repr_html_())


def test_a_source_shows_its_profile(mem: Any) -> None:
    html = mem.source.show("sales")._repr_html_()
    Checked(html)
    assert "100 rows" in html
    assert "height:" in html
    assert "北" in html
