"""The drawing of the graph: calls in boxes, and the values between them."""

import itertools
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.report.browser import wait_until
from tests.report.conftest import Opener
from tests.view.small_program import write_model
from tests.view.test_page_lists import layered
from tests.view.test_view_page import lit, viewed
from wrapperir.ir import Program
from wrapperir.text import format_program, parse_program
from wrapperir.view import format_view


def boxes(page: Page) -> set[str]:
    found = page.locator(".drawing [role=button][aria-label]").all()
    return {box.get_attribute("aria-label") or "" for box in found}


def test_calls_are_drawn_with_the_values_between_them(
    opener: Opener, tmp_path: Path
) -> None:
    page = opener.open(format_view(viewed(write_model(tmp_path))), height=1000)
    page.click("#tabs [data-panel=graph]")
    assert boxes(page) == {
        *("aten.mm.default, line 13", "@fused, line 17"),
        "close layer",
    }
    assert page.locator(".drawing .edge").count() == 1
    page.click(".drawing [aria-label='@fused, line 17']")
    assert page.locator("#details h2").inner_text() == "line 17"
    assert page.locator(".drawing .pinned").count() == 1
    assert lit(page, "source") == ["return scale(torch.relu(y))", "return x * 2"]
    page.click(".drawing [aria-label='close layer']")
    assert boxes(page) == {"layer, 2 calls", "open layer"}
    page.click(".drawing [aria-label='open layer']")
    assert len(boxes(page)) == 3


def test_modules_are_drawn_closed_where_there_are_many_calls(opener: Opener) -> None:
    page = opener.open(format_view(viewed(layered(40), [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    assert boxes(page) == {"layers, 80 calls", "open layers"}
    page.click(".drawing [aria-label='open layers']")
    assert "layers.39, 2 calls" in boxes(page)
    assert page.locator(".drawing .edge").count() == 39


def scrolled(page: Page) -> tuple[int, int]:
    canvas = page.locator(".drawing .canvas")
    left, top = canvas.evaluate("({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]")
    return round(left), round(top)


def is_in_sight(page: Page, name: str) -> bool:
    box = page.locator(f".drawing [role=button][aria-label='{name}']").bounding_box()
    canvas = page.locator(".drawing .canvas").bounding_box()
    assert box is not None
    assert canvas is not None
    return (
        canvas["x"] <= box["x"]
        and box["x"] + box["width"] <= canvas["x"] + canvas["width"]
        and canvas["y"] <= box["y"]
        and box["y"] + box["height"] <= canvas["y"] + canvas["height"]
    )


@pytest.fixture
def drawing(opener: Opener) -> Page:
    page = opener.open(format_view(viewed(format_program(flat(40)), [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    return page


def test_the_drawing_goes_to_what_is_pinned_and_is_moved_with_the_pointer(
    drawing: Page,
) -> None:
    first, last = "aten.sin.default, line 4", "aten.sin.default, line 43"
    assert is_in_sight(drawing, first)
    assert not is_in_sight(drawing, last)
    drawing.evaluate("view.pin({ kind: 'line', index: 39 })")
    assert is_in_sight(drawing, last)
    left, _ = scrolled(drawing)
    box = drawing.locator(".drawing .canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + 20
    drawing.mouse.move(x, y)
    drawing.mouse.down()
    drawing.mouse.move(x + 100, y)
    drawing.mouse.up()
    assert scrolled(drawing)[0] == left - 100
    assert drawing.locator("#details h2").inner_text() == "line 43"


def test_the_drawing_has_other_scales_and_all_of_it_fits(drawing: Page) -> None:
    width = "document.querySelector('.drawing svg').getBoundingClientRect().width"
    before = drawing.evaluate(width)
    drawing.click(".drawing button[aria-label=larger]")
    assert drawing.evaluate(width) == pytest.approx(before * 1.25, rel=1e-3)
    drawing.click(".drawing button[aria-label='all of the drawing']")
    assert drawing.evaluate(width) < before / 4
    drawing.hover(".drawing .canvas")
    drawing.keyboard.down("Control")
    drawing.mouse.wheel(0, -100)
    drawing.keyboard.up("Control")
    wait_until(drawing, "view.lists.drawing.canvas.scale > 0.12")
    height = "document.querySelector('#tools .drawing').clientHeight"
    small = drawing.evaluate(height)
    drawing.click("#larger")
    assert drawing.evaluate(height) > 2 * small
    assert drawing.locator("main").is_hidden()


TWO_WAYS = """\
wrapperir 1

program @main(%x: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  %b = extern_kernel aten.cos.default(%a) : f32[8]
  %v = reinterpret %a as f32[2, 4]
  %c = extern_kernel aten.exp.default(%v) : f32[2, 4]
  %d = extern_kernel aten.tan.default(%b) : f32[8]
  return %c, %d
}
"""


def test_edges_into_and_out_of_a_call_are_told_apart_and_name_values(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(TWO_WAYS, [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    flows = page.locator(".drawing .flow")
    assert sorted(each.get_attribute("aria-label") or "" for each in flows.all()) == [
        "%a from aten.sin.default, line 4 to aten.cos.default, line 5",
        "%a from aten.sin.default, line 4 to aten.exp.default, line 7",
        "%b from aten.cos.default, line 5 to aten.tan.default, line 8",
    ]
    page.click(".drawing [role=button][aria-label='aten.cos.default, line 5']")
    page.hover("h1")
    assert page.locator(".drawing .flow.into").count() == 1
    assert "to aten.tan" in (
        page.locator(".drawing .flow.out").get_attribute("aria-label") or ""
    )
    assert page.locator(".drawing .flow.apart").count() == 1
    page.locator(".drawing .flow.into").dispatch_event("pointerenter")
    assert page.locator(".drawing .flow.apart").count() == 2
    assert page.locator(".drawing .lit").count() >= 2
    page.locator(".drawing .flow.out").dispatch_event("click")
    assert page.locator("#details h2").inner_text() == "value %a"


def test_edges_begin_and_end_at_places_of_their_own(opener: Opener) -> None:
    page = opener.open(format_view(viewed(TWO_WAYS, [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    ends = page.evaluate("""view.lists.drawing.edges.map((edge) => [
      edge.from.at.x + BOX.width / 2 - edge.fromPlace.x,
      edge.to.at.x - BOX.width / 2 - edge.toPlace.x, edge.fromPlace.y,
    ])""")
    assert all((begin, end) == (0, 0) for begin, end, _ in ends)
    assert len({place for _, _, place in ends}) == 3


def test_names_in_the_drawing_are_apart(opener: Opener) -> None:
    page = opener.open(format_view(viewed(layered(3), [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    for path in ("layers", "layers.0", "layers.0.fc", "layers.1", "layers.1.fc"):
        page.evaluate(f"view.lists.drawing.toggle('{path}', true)")
    places = page.locator(".drawing text").evaluate_all("""(texts) => texts.map((text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect();
      return [text.textContent, left, right, top, bottom];
    })""")
    assert len(places) > 10
    for one, two in itertools.combinations(places, 2):
        across = min(one[2], two[2]) - max(one[1], two[1])
        down = min(one[4], two[4]) - max(one[3], two[3])
        assert across <= 0 or down <= 2, (one, two)


def flat(calls: int) -> Program:
    lines = [
        f"  %x{n + 1} = extern_kernel aten.sin.default(%x{n}) : f32[8]"
        for n in range(calls)
    ]
    head = ["wrapperir 1", "", "program @main(%x0: f32[8]) {"]
    return parse_program("\n".join([*head, *lines, f"  return %x{calls}", "}", ""]))


def test_of_a_large_graph_what_is_around_the_pinned_is_drawn(opener: Opener) -> None:
    page = opener.open(format_view(viewed(format_program(flat(400)), [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    assert "There are 400 boxes" in page.locator(".drawing").inner_text()
    page.evaluate("view.pin({ kind: 'line', index: 200 })")
    assert len(boxes(page)) == 7
    assert page.locator(".drawing .edge").count() == 6
