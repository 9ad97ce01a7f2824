"""Lists of the page: what is cut can be opened, and equal layers are together."""

import itertools
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.report.conftest import Opener
from tests.report.test_explanation import TWO_LOOPS
from tests.view.small_program import write_model
from tests.view.test_view_page import lit, viewed
from wrapperir.emit.pipeline import find_emitter
from wrapperir.ir import Program
from wrapperir.text import format_program, parse_program
from wrapperir.view import format_view

LAYERS = 12


def layered(layers: int = LAYERS) -> str:
    """Return a program of equal layers, each a view, a copy and a product."""
    lines = ["wrapperir 1", "", "program @main(%x0: f32[8, 8], %w: f32[8, 8]) {"]
    origins = ["", "origins {", '  place 0: "model.py" 5 "forward"']
    origins.append('  place 1: "model.py" 6 "forward"')
    for n in range(layers):
        clone = f"extern_kernel aten.clone.default(%t{n}) : f32[8, 8] from(clone_{n})"
        product = f"extern_kernel aten.mm.default(%c{n}, %w) : f32[8, 8] from(mm_{n})"
        lines += [
            f"  %t{n} = reinterpret %x{n} as f32[8, 8; stride 1, 8] from(t_{n})",
            f"  %c{n} = {clone}",
            f"  %x{n + 1} = {product}",
        ]
        origins += [
            f'  t_{n}: aten.t.default in "layers.{n}" at 0',
            f'  clone_{n}: aten.clone.default in "layers.{n}" at 0',
            f'  mm_{n}: aten.mm.default in "layers.{n}.fc" at 1',
        ]
    return "\n".join([*lines, f"  return %x{layers}", "}", *origins, "}", ""])


@pytest.fixture
def page(opener: Opener) -> Page:
    return opener.open(
        format_view(viewed(layered(), [find_emitter("python")])), width=1600, height=1000
    )


def rows(page: Page, panel: str) -> list[str]:
    names = page.locator(f".panel[data-name={panel}] .row:not(.head) .name")
    return [text.strip() for text in names.all_inner_texts()]


def test_calls_for_equal_layers_are_one_row_that_opens(page: Page) -> None:
    assert sorted(rows(page, "kernels")) == ["aten.clone.default", "aten.mm.default"]
    row = page.locator(".panel[data-name=kernels] .line", has_text="aten.mm.default")
    assert "layers.0–11.fc" in row.inner_text()
    row.locator(".twist").click()
    opened = rows(page, "kernels")
    at = opened.index("aten.mm.default") + 1
    assert opened[at : at + LAYERS] == [f"line {6 + 3 * n}" for n in range(LAYERS)]
    page.locator(".panel[data-name=kernels] .line", has_text="line 9").first.click()
    assert page.locator("#details h2").inner_text() == "line 9"
    row.locator(".twist").click()
    assert len(rows(page, "kernels")) == 2


def test_nodes_of_equal_layers_are_one_row_that_opens(page: Page) -> None:
    page.click("#tabs [data-panel=graph]")
    assert rows(page, "graph") == ["layers.0–11, 12 times", "layers.0–11.fc, 12 times"]
    listing = page.locator(".panel[data-name=graph] .listing")
    listing.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert rows(page, "graph")[:3] == ["layers.0–11, 12 times", "layers.0", "layers.1"]


def test_lines_and_nodes_of_equal_layers_are_together_in_the_details(page: Page) -> None:
    page.evaluate("view.pin({ kind: 'place', index: '0:6' })")
    details = page.locator("#details")
    assert "12 times in layers.0–11.fc: 11 more" in details.inner_text()
    assert "extern_kernel aten.mm.default(%c4, %w)" not in details.inner_text()
    page.locator("#details .more", has_text="12 times").click()
    assert "extern_kernel aten.mm.default(%c4, %w)" in details.inner_text()
    assert "mm_4" not in details.inner_text()
    page.locator("#details .more", has_text="and 11 more").first.click()
    assert "mm_4" in details.inner_text()


CUT = "(cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth).length"


def test_no_cell_is_cut_and_the_head_scrolls_with_the_rows(opener: Opener) -> None:
    long = f"fused_{'view_add_native_layer_norm_' * 5}0"
    text = TWO_LOOPS.replace("@both", f"@{long}")
    page = opener.open(format_view(viewed(text, [])), width=1000, height=800)
    panel = page.locator(".panel[data-name=kernels]")
    assert panel.locator(".cell.name", has_text=long).inner_text() == f"@{long}"
    assert panel.locator(".cell").evaluate_all(CUT) == 0
    listing = panel.locator(".listing")
    listing.evaluate("(element) => element.scrollTo(120, 0)")
    page.wait_for_function("document.querySelector('#kernel-head').scrollLeft === 120")
    lefts = "(cells) => cells.map((cell) => cell.getBoundingClientRect().left)"
    names = panel.locator(".cell.name").evaluate_all(lefts)
    assert len(names) > 1
    assert len({round(left) for left in names}) == 1
    page.click("#tabs [data-panel=graph]")
    nodes = page.locator(".panel[data-name=graph] .cell")
    assert nodes.evaluate_all(CUT) == 0


NORMS = """\
wrapperir 1

program @main(%x: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8] from(norm_0, sin_0)
  %b = extern_kernel aten.sin.default(%a) : f32[8] from(rms_1, sin_1)
  %c = extern_kernel aten.sin.default(%b) : f32[8] from(norm_2, sin_2)
  return %c
}

origins {
  place 0: "model.py" 5 "forward"
  norm_0: aten.native_layer_norm.default in "layers.0.norm" at 0
  sin_0: aten.sin.default in "layers.0" at 0
  rms_1: aten._fused_rms_norm.default in "layers.1.norm" at 0
  sin_1: aten.sin.default in "layers.1" at 0
  norm_2: aten.native_layer_norm.default in "layers.2.norm" at 0
  sin_2: aten.sin.default in "layers.2" at 0
}
"""


def test_layers_with_other_operators_are_not_equal(opener: Opener) -> None:
    page = opener.open(format_view(viewed(NORMS, [])), height=1000)
    page.click("#tabs [data-panel=graph]")
    assert [name for name in rows(page, "graph") if name.startswith("layers")] == [
        *("layers.0,2.norm, 2 times", "layers.0,2, 2 times"),
        *("layers.1.norm", "layers.1"),
    ]


TIED = """\
wrapperir 1

program @main(%x: f32[8, 8]) {
  constant %w0: f32[8, 8] = "layers.0.fc.weight" tied "head.weight"
  constant %w1: f32[8, 8] = "layers.1.fc.weight"
  constant %b: f32[8, 8] = "layers.0.norm.bias"

  %t = reinterpret %w0 as f32[8, 8; stride 1, 8] from(t)
  %y = extern_kernel aten.mm.default(%x, %t) : f32[8, 8] from(mm, norm, add)
  %z = extern_kernel aten.mm.default(%y, %w1) : f32[8, 8] from(mm_1)
  free %y
  return %z
}

origins {
  t: aten.t.default in "layers.0.fc"
  mm: aten.mm.default in "layers.0.fc"
  norm: aten.native_layer_norm.default in "layers.0.norm"
  add: aten.add.Tensor in "layers.1"
  mm_1: aten.mm.default in "layers.1.fc"
}
"""


def test_a_call_has_the_modules_of_all_its_nodes_and_the_parameters_that_it_uses(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(TIED, [])), width=1600, height=1000)
    page.locator(".panel[data-name=program] .line", has_text="%y = ").click()
    details = page.locator("#details")
    assert "in layers.0.fc, layers.0.norm, layers.1\n" in details.inner_text()
    used = details.inner_text().split("Parameter that it uses")[1]
    assert "%w0: f32[8, 8], tied to head.weight" in used
    assert "%b" not in used
    assert "%w1" not in used
    page.click("#details .more:has-text('of its modules that it does not use')")
    assert "%b: f32[8, 8]" in details.inner_text()
    page.evaluate("view.pin({ kind: 'node', index: view.links.nodes.name.indexOf('add') })")
    assert "\nin layers.1\n" in details.inner_text()
    cells = page.locator(".panel[data-name=kernels] .row:not(.head) .where")
    assert "layers.0.fc, layers.0.norm, layers.1" in cells.all_inner_texts()


def test_a_copy_says_which_views_made_it_necessary_and_for_whom(page: Page) -> None:
    page.locator(".panel[data-name=program] .line", has_text="clone.default(%t2)").click()
    details = page.locator("#details").inner_text()
    assert "Why there is a copy" in details
    assert "t_2 (t, model.py:5)" in details
    assert "line 12, aten.mm.default" in details
    page.locator("#details button", has_text="t_2 (t").click()
    assert page.locator("#details h2").inner_text() == "node t_2"


@pytest.mark.parametrize("wanted", ["copy", "copies", "why there is a copy"])
def test_the_search_lists_the_lines_that_copy(opener: Opener, wanted: str) -> None:
    page = opener.open(format_view(viewed(TWO_LOOPS, [])), height=1000)
    page.fill("#search", wanted)
    result = page.locator("#results .result", has_text="copies").first
    result.wait_for()
    assert result.inner_text() == "13why there is a copy: copies to %z for clone, @both"
    assert page.locator("#results .group").first.inner_text() == "copies"
    result.click()
    assert page.locator("#details h2").inner_text() == "line 13"
    assert "Why there is a copy" in page.locator("#details").inner_text()


def test_each_copy_of_a_kernel_has_a_reason_and_a_value_its_own_nodes(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(TWO_LOOPS, [])), height=1000)
    page.locator(".panel[data-name=program] .line", has_text="kernel_call").first.click()
    details = page.locator("#details")
    copies = details.locator(".item", has_text="copies what these views").inner_text()
    assert copies.replace(" ", "").startswith("line13to%zcopies")
    assert "line 15, aten.neg.default" in copies
    details.locator("button", has_text="%z").first.click()
    assert page.locator("#details h2").inner_text() == "value %z"
    assert "exp" not in details.inner_text().split("of the graph")[1]


def test_every_range_of_emitted_code_is_a_click_away(page: Page) -> None:
    page.evaluate("view.pin({ kind: 'place', index: '0:6' })")
    ranges = page.locator("#details .item", has_text="python:").locator("button.link")
    numbers = [text.split()[-1].split("–")[0] for text in ranges.all_inner_texts()]
    assert len(numbers) == len({*numbers}) >= LAYERS
    ranges.last.click()
    assert page.locator(".panel[data-name=code] .cursor .at").inner_text() == numbers[-1]


def test_uses_of_a_value_that_are_cut_are_counted_and_open(
    page: Page, opener: Opener
) -> None:
    page.locator(".panel[data-name=program] .line", has_text="mm.default(%c0, %w)").click()
    uses = page.locator("#details .item", has_text="%w").last
    assert uses.locator("button.number").count() == LAYERS
    page = opener.open(format_view(viewed(layered(40), [])), height=1000)
    page.evaluate("view.pin({ kind: 'line', index: 2 })")
    value = page.locator("#details .item", has=page.locator("button", has_text="%w"))
    more = value.last.locator(".more")
    assert more.inner_text() == "and 16 more"
    more.click()
    assert value.last.locator("button.number").count() == 40


def test_results_that_are_cut_are_counted_and_open(opener: Opener) -> None:
    page = opener.open(format_view(viewed(layered(40), [])), height=1000)
    page.fill("#search", "extern_kernel")
    more = page.locator("#results .result", has_text="and 20 more")
    more.wait_for()
    before = page.locator("#results .result").count()
    more.click()
    assert page.locator("#results .result").count() == before + 19
    assert page.locator("#results").is_visible()


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
    place = page.evaluate(
        "(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop])(view.lists.drawing.canvas)"
    )
    return round(place[0]), round(place[1])


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
    width = "view.lists.drawing.canvas.querySelector('svg').getBoundingClientRect().width"
    before = drawing.evaluate(width)
    drawing.click(".drawing button[aria-label=larger]")
    assert drawing.evaluate(width) == pytest.approx(before * 1.25, rel=1e-3)
    drawing.click(".drawing button[aria-label='all of the drawing']")
    assert drawing.evaluate(width) < before / 4
    drawing.hover(".drawing .canvas")
    drawing.keyboard.down("Control")
    drawing.mouse.wheel(0, -100)
    drawing.keyboard.up("Control")
    drawing.wait_for_function("view.lists.drawing.scale > 0.12")
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
    ends = page.evaluate("""view.lists.drawing.edges.map(({ from, to, fromPlace, toPlace }) => [
      from.at.x + 94 - fromPlace.x, to.at.x - 94 - toPlace.x, fromPlace.y, toPlace.y,
    ])""")
    assert all((begin, end) == (0, 0) for begin, end, _, _ in ends)
    assert len({begin for _, _, begin, _ in ends}) == 3


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


def test_calls_are_in_their_order_if_that_is_asked_for(page: Page) -> None:
    page.click(".panel[data-name=kernels] .head [data-column=first]")
    assert rows(page, "kernels") == ["aten.clone.default", "aten.mm.default"]
    firsts = page.locator(".panel[data-name=kernels] .row:not(.head) .first")
    assert firsts.all_inner_texts() == ["5", "6"]
