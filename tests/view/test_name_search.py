"""A search for a name leads to what defines the value or kernel, and then to its uses."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.report.conftest import Opener
from tests.report.test_copies import FUSED_COPY
from tests.view.small_program import write_model
from tests.view.test_going_places import search
from tests.view.test_view_page import viewed
from wrapperir.view import format_view


@pytest.fixture
def page(opener: Opener) -> Page:
    return opener.open(format_view(viewed(FUSED_COPY, [])), height=1000)


def groups(page: Page) -> list[str]:
    return page.locator("#results .group").all_inner_texts()


def found_row(page: Page) -> str:
    row = page.locator(".panel[data-name=program] .line.found")
    return row.locator(".code").inner_text().strip()


def test_a_value_is_found_where_it_is_made(page: Page) -> None:
    rows = search(page, "%v")
    assert groups(page)[:2] == ["definition", "uses"]
    assert rows[0].startswith("14%v = allocate")
    assert [int(row[:2]) for row in rows[1:4]] == [16, 17, 19]
    page.keyboard.press("Enter")
    assert page.locator("#details h2").inner_text() == "value %v"
    assert found_row(page).startswith("%v = allocate")
    search(page, "%v")
    page.locator("#results .result").nth(2).click()
    assert found_row(page).startswith("%z = extern_kernel")
    assert page.locator("#details h2").inner_text() == "line 17"


def test_an_input_is_found_where_the_program_takes_it(opener: Opener) -> None:
    long = ", ".join(f"%a_long_name_{n}: f32[{n}]" for n in range(2, 30))
    text = FUSED_COPY.replace("%x: f32", f"{long}, %x: f32")
    page = opener.open(format_view(viewed(text, [])), width=1000, height=1000)
    search(page, "%x")
    assert groups(page)[:2] == ["inputs", "uses"]
    page.keyboard.press("Enter")
    assert found_row(page).startswith("program @main")
    assert page.locator("#details h2").inner_text() == "value %x"
    # The name is far right in its row, which the pane is scrolled to.
    name = page.locator(".line.found .token", has_text="%x").first.bounding_box()
    pane = page.locator(".panel[data-name=program]").bounding_box()
    assert name is not None
    assert pane is not None
    assert pane["x"] < name["x"] < pane["x"] + pane["width"] - name["width"]


def test_a_kernel_is_found_where_it_is_defined(opener: Opener, tmp_path: Path) -> None:
    page = opener.open(format_view(viewed(write_model(tmp_path), [])), height=1000)
    rows = search(page, "@fused")
    assert groups(page)[:3] == ["definition", "uses", "kernels"]
    assert rows[0].startswith("3kernel_definition @fused")
    assert rows[1].startswith("17kernel_call @fused")
    page.keyboard.press("Enter")
    assert found_row(page).startswith("kernel_definition @fused")
    assert page.locator("#details h2").inner_text() == "kernel @fused"


def test_a_name_that_the_program_lacks_is_found_elsewhere(opener: Opener) -> None:
    text = """\
wrapperir 1

program @main(%x: f32[256]) {
  %buf2 = extern_kernel aten.sin.default(%x) : f32[256]
  %unused = extern_kernel aten.exp.default(%x) : f32[256]
  return %buf2
}
"""
    page = opener.open(format_view(viewed(text, [], "remove_dead_lines")), height=1000)
    assert search(page, "%unused")
    assert groups(page) == ["pass remove_dead_lines"]
    search(page, "%buf")
    assert groups(page)[0] == "program"


def test_what_is_pinned_next_is_shown_from_its_left_on(opener: Opener) -> None:
    long = ", ".join(f"%a_long_name_{n}: f32[{n}]" for n in range(2, 30))
    text = FUSED_COPY.replace("%x: f32", f"{long}, %x: f32")
    page = opener.open(format_view(viewed(text, [])), width=1000, height=1000)
    pane = page.locator(".panel[data-name=program] .listing")
    search(page, "%x")
    page.keyboard.press("Enter")
    assert pane.evaluate("(element) => element.scrollLeft") > 0
    number = page.locator(".panel[data-name=program] .line.found .at")
    left = pane.bounding_box()
    at = number.bounding_box()
    assert left is not None
    assert at is not None
    assert left["x"] <= at["x"] < left["x"] + 10
    page.locator(".panel[data-name=kernels] .line").first.click()
    assert pane.evaluate("(element) => element.scrollLeft") == 0


def test_a_row_that_is_revealed_is_there_at_once(opener: Opener) -> None:
    text = FUSED_COPY.replace("  source {\n", "  source {\n" + "    | // filler\n" * 300)
    page = opener.open(format_view(viewed(text, [])), height=1000)
    reveal = "(row) => { const { list } = view.panes.program; list.reveal(row);"
    for row in (0, 310):
        assert page.evaluate(f"{reveal} return list.shown.has(row); }}", row)
