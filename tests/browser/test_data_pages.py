"""The pages about data by what a person does: files are added, questions asked, answers changed and drawn."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.together("browser")

CSV = "region,amount,day\n" + "".join(
    f"{('north', 'south', 'east')[n % 3]},{n},2025-0{1 + n % 9}-01\n" for n in range(300)
)


def _drawn(page: Any) -> Any:
    page.locator("#answer .drawn svg").first.wait_for()
    return page.locator("#answer .drawn svg").first


def _sql(page: Any, statement: str) -> None:
    if not page.get_by_label("SQL", exact=True).is_visible():
        page.get_by_text("Write SQL", exact=True).click()
    page.get_by_label("SQL", exact=True).fill(statement)
    page.keyboard.press("Control+Enter")


def test_a_file_is_uploaded_profiled_and_gets_a_second_version(visit: Any, tmp_path: Path) -> None:
    page = visit("/sources")
    file = tmp_path / "browser upload.csv"
    file.write_text(CSV)
    page.get_by_label("Choose files").set_input_files(str(file))
    page.wait_for_url("**/console/sources/*")
    page.locator("#told", has_text="Added browser upload").wait_for()
    assert page.get_by_role("img", name="Histogram of amount").locator("rect").count() > 5
    assert page.locator(".top li", has_text="north").count() == 1
    file.write_text(CSV.replace("region,amount,day", "region,amount,date") + "west,1,2025-01-01\n")
    page.get_by_label("New version").set_input_files(str(file))
    page.get_by_role("heading", name="Versions").wait_for()
    assert "column added: browser_upload.date" in page.locator(".changes").inner_text()
    assert "300 rows before, now 301" in page.locator(".changes").inner_text()


def test_files_are_dropped_and_one_that_is_refused_says_why(visit: Any) -> None:
    page = visit("/sources")
    visit.expected = ("422",)
    page.evaluate(
        """content => {
          const dropped = new DataTransfer();
          dropped.items.add(new File([content], "dropped.csv"));
          dropped.items.add(new File([""], "empty.csv"));
          const event = new DragEvent("drop", { dataTransfer: dropped, cancelable: true });
          document.querySelector(".drop").dispatchEvent(event);
        }""",
        CSV,
    )
    page.locator(".uploads .bad [role=alert]").wait_for()
    assert "empty" in page.locator(".uploads .bad").inner_text()
    assert "300 rows in 1 table" in page.locator(".uploads li").first.inner_text()


def test_columns_are_filtered_and_rows_that_were_not_read_are_shown(visit: Any) -> None:
    page = visit("/sources")
    page.locator(".source-line", has_text="wide").get_by_role("link").first.click()
    page.get_by_label("Filter columns of wide").fill("measure_19")
    page.wait_for_load_state()
    assert page.locator("[data-column]:visible").count() == 11
    page.goto("/console/sources")
    page.locator(".source-line", has_text="ragged").get_by_role("link").first.click()
    page.get_by_text("could not be read").click()
    assert page.get_by_role("region", name="Rows that could not be read").locator("td").count() >= 3


def test_a_source_is_described_removed_and_restored(visit: Any, tmp_path: Path) -> None:
    page = visit("/sources")
    file = tmp_path / "passing.csv"
    file.write_text("a,b\n1,2\n3,4\n")
    page.get_by_label("Choose files").set_input_files(str(file))
    page.wait_for_url("**/console/sources/*")
    page.get_by_role("button", name="Describe").click()
    page.get_by_label("What it is about").fill("Two small numbers")
    page.get_by_role("button", name="Save").click()
    page.locator(".lead", has_text="Two small numbers").wait_for()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Yes").click()
    page.wait_for_url("**/console/sources")
    page.get_by_role("button", name="Restore passing").click()
    page.locator(".source-line", has_text="passing").wait_for()


def test_a_statement_becomes_rows_and_a_chart_of_another_kind(visit: Any) -> None:
    page = visit("/ask")
    _sql(page, "select region, sum(amount) as total from sales group by 1 order by 2 desc")
    assert _drawn(page).locator("[aria-roledescription=bar]").count() == 4
    assert page.locator(".result tbody tr").count() == 4
    page.get_by_label("Kind of chart").select_option("pie")
    page.locator(".mark-arc path").first.wait_for()
    assert page.locator(".mark-arc path").count() == 4
    page.reload()
    _drawn(page)
    assert page.locator(".mark-arc path").count() == 4, "the address names the answer, and its chart is kept"


def test_a_chart_follows_light_and_dark_and_the_width(visit: Any, filled: Any) -> None:
    page = visit(f"/ask?run={filled.ids['query']}", color_scheme="light")
    _drawn(page)
    light = page.locator("[aria-roledescription=bar]").first.get_attribute("fill")
    page.keyboard.press("t")
    page.locator(f'[aria-roledescription=bar]:not([fill="{light}"])').first.wait_for()
    wide = _drawn(page).get_attribute("width")
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator(f'#answer .drawn svg:not([width="{wide}"])').first.wait_for()
    assert _drawn(page).bounding_box()["width"] < 390


def test_the_values_of_a_chart_are_read_on_hover(visit: Any, filled: Any) -> None:
    page = visit(f"/ask?run={filled.ids['query']}")
    _drawn(page).locator("[aria-roledescription=bar]").first.hover()
    page.locator("#vg-tooltip-element.visible", has_text="region").wait_for()


def test_a_question_is_answered_and_its_reading_changed(visit: Any) -> None:
    page = visit("/ask")
    page.get_by_label("Question", exact=True).fill("how many customers are there")
    page.get_by_role("form", name="Ask a question").get_by_role("button", name="Ask").click()
    page.locator("#answer-title:focus", has_text="how many customers are there").wait_for()
    assert page.locator(".result tbody td").inner_text() == "80"
    page.get_by_role("button", name="+ add").click()
    dialog = page.get_by_role("dialog", name="Add a part")
    dialog.get_by_label("Column").fill("customers.city")
    dialog.get_by_label("Value").fill("Lima")
    dialog.get_by_role("button", name="Change").click()
    page.locator(".part.where", has_text="Lima").wait_for()
    assert page.locator(".result tbody td").inner_text() != "80"
    page.get_by_role("button", name="Remove: ").click()
    page.locator(".part.where").wait_for(state="detached")
    assert page.locator(".result tbody td").inner_text() == "80"


def test_what_cannot_be_answered_is_said(visit: Any) -> None:
    page = visit("/ask")
    page.get_by_label("Question", exact=True).fill("what is the weather on mars")
    page.get_by_role("form", name="Ask a question").get_by_role("button", name="Ask").click()
    page.locator("#answer .trouble, #answer .status.warn").first.wait_for()
    visit.expected = ("422", "404")
    _sql(page, "select nonsense from nowhere")
    page.locator("#answer .trouble", has_text="nowhere").wait_for()
    _sql(page, "drop table sales")
    page.locator("#answer .trouble", has_text="SELECT").wait_for()


def test_markup_in_data_stays_text(visit: Any, filled: Any) -> None:
    page = visit(f"/ask?run={filled.ids['markup query']}")
    page.on("dialog", lambda dialog: pytest.fail("something ran"))
    _drawn(page).locator("[aria-roledescription=bar]").first.hover()
    page.locator("#vg-tooltip-element.visible").wait_for()
    assert page.locator("main img, #vg-tooltip-element img, main script").count() == 0
    assert "<script>alert(2)</script>{{7*7}}" in page.inner_text("main")


def test_questions_are_asked_by_keyboard_alone(visit: Any) -> None:
    page = visit("/sources")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/console/ask")
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.type("how many customers are there")
    page.keyboard.press("Enter")
    page.locator("#answer-title:focus").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.answer') !== null")


def test_data_are_found_by_words_and_values(visit: Any) -> None:
    page = visit("/sources")
    page.get_by_label("What you look for").fill("customers in Lima")
    page.get_by_role("button", name="Find").click()
    page.wait_for_url("**q=customers*")
    found = page.get_by_role("region", name="Found")
    assert found.get_by_role("link", name="customers", exact=True).count() >= 1
    found.get_by_role("link", name="Ask it as a question").click()
    page.wait_for_url("**/ask?q=*")
    assert page.get_by_label("Question", exact=True).input_value() == "customers in Lima"


def test_a_database_is_connected_checked_asked_and_removed(visit: Any, filled: Any) -> None:
    with closing(sqlite3.connect(filled.folder / "shop.db")) as shop:
        shop.execute("create table purchases (id integer primary key, amount real)")
        shop.executemany("insert into purchases (amount) values (?)", [(1.5,), (2.5,)])
        shop.commit()
    page = visit("/connections")
    visit.expected = ("403", "422")
    form = page.get_by_role("form", name="Add a connection")

    def connect(address: str) -> None:
        form.get_by_label("Name", exact=True).fill("shop")
        form.get_by_label("Address").fill(address)
        form.get_by_role("button", name="Connect").click()

    connect("postgresql://reader:secret@db.example.com/shop")
    form.get_by_role("alert").get_by_text("must not contain a password").wait_for()
    connect("sqlite:////etc/hostname")
    form.get_by_role("alert").get_by_text("not open for connections").wait_for()
    connect(f"sqlite:///{filled.folder / 'shop.db'}")
    page.locator("#told", has_text="Connected to shop").wait_for()
    page.get_by_role("button", name="Check shop").click()
    page.locator("#told", has_text="Checked").wait_for()
    assert page.locator(".state.holds").inner_text() == "✓ works"
    page.get_by_role("link", name="shop", exact=True).click()
    page.get_by_role("heading", name="purchases").wait_for()
    page.get_by_role("link", name="Ask about it").click()
    _sql(page, "select sum(amount) as total from purchases")
    page.locator("#answer-title:focus").wait_for()
    assert page.locator(".result tbody td").inner_text() == "4"
    page.goto("/console/connections")
    page.get_by_role("button", name="Remove shop").click()
    page.get_by_role("button", name="Yes").click()
    page.locator("#told", has_text="Removed").wait_for()
    assert page.get_by_text("No connections yet").is_visible()


def test_an_answer_is_judged_saved_and_remembered(visit: Any, filled: Any) -> None:
    page = visit(f"/ask?run={filled.ids['query']}")
    _drawn(page)
    page.get_by_text("Save", exact=True).click()
    for name, begins in (
        ("the rows as CSV", b"region,total"),
        ("the chart as SVG", b"<svg"),
        ("the chart as PNG", b"\x89PNG"),
    ):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Save {name}").click()
        assert Path(saved.value.path()).read_bytes().startswith(begins), name
        assert saved.value.suggested_filename.startswith("Total_amount_by_region.")
    page.get_by_role("button", name="Right").click()
    page.locator("#told", has_text="questions like this").wait_for()
    assert page.get_by_role("button", name="Right").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Remember").click()
    page.wait_for_url("**/console/memories/*")
    assert page.locator(".citations").get_by_role("link", name="select region").count() == 1


def test_a_changed_statement_answers_the_same_question(visit: Any, filled: Any) -> None:
    page = visit(f"/ask?run={filled.ids['query']}")
    page.get_by_role("button", name="Edit the SQL").click()
    assert page.get_by_label("It answers: Total amount by region").is_checked()
    _sql(page, "select region, sum(amount) as total from sales group by 1 order by 1")
    page.locator("#answer-title:focus", has_text="Total amount by region").wait_for()
    assert filled.ids["query"] not in page.url
    assert page.locator(".result tbody td").first.inner_text() == "East"
