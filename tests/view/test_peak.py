"""The peak of memory: the line that it is at, and the values that make it up."""

import pytest
from playwright.sync_api import Page

from tests.report.browser import wait_until
from tests.report.conftest import Opener
from tests.view.test_view_page import viewed
from wrapperir.view import format_view

STEPS = """\
wrapperir 1

program @main(%x: f32[64]) {
  %a = allocate f32[64] from(sin)
  extern_kernel aten.sin.out(%x, out = %a) writes(%a) from(sin)
  %b = extern_kernel aten.cos.default(%a) : f32[256] from(cos)
  %c = extern_kernel aten.exp.default(%b) : f32[16] from(exp)
  free %a
  free %b
  return %c
}

origins {
  place 0: "model.py" 3 "forward"
  place 1: "model.py" 4 "forward"
  place 2: "model.py" 5 "forward"
  sin: aten.sin.default at 0
  cos: aten.cos.default at 1
  exp: aten.exp.default at 2
}
"""
"""The peak is at line 7, which takes 64 bytes; line 6 takes a kilobyte."""


@pytest.fixture
def page(opener: Opener) -> Page:
    return opener.open(format_view(viewed(STEPS, [])), height=1000)


def test_the_button_names_the_place_of_the_line_that_it_pins(page: Page) -> None:
    button = page.locator("#peak")
    assert button.inner_text() == "peak 1.31 KiB at line 7, model.py:5"
    button.click()
    assert page.locator("#details h2").inner_text() == "line 7"


def test_the_values_that_make_up_the_peak_have_their_lines_and_source(page: Page) -> None:
    page.click("#peak")
    details = page.locator("#details")
    shown = details.inner_text()
    assert "This line takes 64 bytes for %cmade by exp (exp, model.py:5)" in shown
    before = "Before it, since memory last fell, line 6took most: 1 KiB for %bmade by cos"
    assert before in shown
    assert "just before" not in shown
    rows = details.locator(".item", has_text="alive at").all_inner_texts()
    assert [row.split("alive at")[0].replace("\n", " ") for row in rows] == [
        "%b1 KiB, 76% made at line 6by cos (cos, model.py:4)",
        "%a256 bytes, 19% allocated at line 4made by sin (sin, model.py:3)",
        "%c64 bytes, 5% made at line 7by exp (exp, model.py:5)",
    ]
    taken = details.locator(".item", has_text="%a256 bytes")
    taken.locator("button", has_text="line 4").click()
    assert details.locator("h2").inner_text() == "line 4"


def test_pools_hold_more_than_values_at_the_peak(opener: Opener) -> None:
    text = """\
wrapperir 1

program @main(%x: f32[64]) {
  %pool0 = allocate_pool pool[1024]
  %a = place f32[64] in %pool0 at 0
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  %b = extern_kernel aten.cos.default(%a) : f32[64]
  free %a
  free %pool0
  return %b
}
"""
    page = opener.open(format_view(viewed(text, [])), height=1000)
    page.click("#peak")
    shown = page.locator("#details").inner_text()
    assert "Pools have 768 bytes more, which no value has here." in shown
    assert "placed in a pool at line 5" in shown


def test_a_peak_in_a_pool_says_since_when_its_memory_is_held(opener: Opener) -> None:
    text = """\
wrapperir 1

program @main(%x: f32[64]) {
  %pool0 = allocate_pool pool[1024]
  %a = place f32[64] in %pool0 at 0
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  %b = extern_kernel aten.cos.default(%a) : f32[16]
  %c = place f32[32] in %pool0 at 256
  extern_kernel aten.exp.out(%x, out = %c) writes(%c)
  free %a
  free %c
  free %pool0
  return %b
}
"""
    page = opener.open(format_view(viewed(text, [])), height=1000)
    assert page.locator("#peak").inner_text() == "peak 1.06 KiB at line 8"
    page.click("#peak")
    shown = page.locator("#details").inner_text()
    taken = "This line takes no more memory: a pool that was taken before has 128 bytes"
    assert taken in shown
    since = "As much has been held since line 7; at this line most of it has values."
    assert since in shown
    assert "Not counted: 256 bytes of inputs, constants and kept workspaces." in shown


def test_the_peak_is_told_where_one_panel_is_shown(opener: Opener) -> None:
    page = opener.open(format_view(viewed(STEPS, [])), width=800, height=900)
    page.click("#peak")
    wait_until(page, "document.body.dataset.panel === 'details'")
    assert page.locator("#details", has_text="Alive at the peak").is_visible()


def test_a_value_says_where_its_memory_is_from(page: Page) -> None:
    page.evaluate("view.pin({ kind: 'value', index: 'b' })")
    facts = "f32[256], made by an operator, 1 KiB, alive at lines 6–8"
    assert facts in page.locator("#details").inner_text()
    page.evaluate("view.pin({ kind: 'value', index: 'x' })")
    assert "f32[64], input, 256 bytes" in page.locator("#details").inner_text()
