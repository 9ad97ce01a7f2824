"""Lists of the page: what is cut can be opened, and equal layers are together."""

import re

import pytest
from playwright.sync_api import Page

from tests.report.browser import wait_until
from tests.report.conftest import Opener
from tests.report.test_copies import FUSED_COPY
from tests.report.test_explanation import TWO_LOOPS
from tests.report.test_memory_changes import REUSING
from tests.view.small_program import PROGRAM
from tests.view.test_view_page import viewed
from wrapperir.emit.pipeline import find_emitter
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
    page.locator("#details .more", has_text=re.compile("and 11 more$")).first.click()
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
    wait_until(page, "document.querySelector('#kernel-head').scrollLeft === 120")
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
    page.evaluate("view.pin({ kind: 'node', index: view.links.nodes.name.indexOf('add') })")
    assert "\nin layers.1\n" in details.inner_text()
    cells = page.locator(".panel[data-name=kernels] .row:not(.head) .where")
    assert "layers.0.fc, layers.0.norm, layers.1" in cells.all_inner_texts()


def test_a_copy_says_which_views_made_it_necessary_and_for_whom(page: Page) -> None:
    page.locator(".panel[data-name=program] .line", has_text="clone.default(%t2)").click()
    details = page.locator("#details").inner_text()
    assert "Why there is a copy" in details
    assert "t_2 (t, model.py:5 in layers.2)" in details
    assert "line 12, aten.mm.default" in details
    page.locator("#details button", has_text="t_2 (t").click()
    assert page.locator("#details h2").inner_text() == "node t_2"


@pytest.mark.parametrize("wanted", ["copy", "copies", "why there is a copy"])
def test_the_search_lists_the_lines_that_copy(opener: Opener, wanted: str) -> None:
    page = opener.open(format_view(viewed(TWO_LOOPS, [])), height=1000)
    page.fill("#search", wanted)
    result = page.locator("#results .result", has_text="copies").first
    result.wait_for()
    words = "copies to %z for clone, 256 bytes, returned, @both"
    assert result.inner_text() == f"13why there is a copy: {words}"
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
    copies = details.locator(".item", has_text="copies its argument").inner_text()
    assert copies.replace(" ", "").startswith("line13copiesitsargumentto%zthrough")
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


def test_calls_are_in_their_order_if_that_is_asked_for(page: Page) -> None:
    page.click(".panel[data-name=kernels] .head [data-column=first]")
    assert rows(page, "kernels") == ["aten.clone.default", "aten.mm.default"]
    firsts = page.locator(".panel[data-name=kernels] .row:not(.head) .first")
    assert firsts.all_inner_texts() == ["5", "6"]


def test_a_copy_that_is_fused_is_shown_with_what_is_copied_and_for_whom(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(FUSED_COPY, [])), height=1000)
    listed = page.locator(".panel[data-name=program] .line")
    listed.filter(has_text="kernel_call").first.click()
    details = page.locator("#details")
    assert "Why there are copies" in details.inner_text()
    shown = [text.replace(" ", "") for text in details.locator(".item").all_inner_texts()]
    facts = "fromcontiguoustochannelslast,288bytes,forconv(convolution);"
    assert any(f"copies%wto%v,{facts}thecopyisreadbyline17" in each for each in shown)
    assert any("copies%ytoapartof%c,256bytes,returned,forcat" in each for each in shown)
    assert any(each.endswith("fusedwithsin,cat") for each in shown)
    listed.filter(has_text="convolution.default").first.click()
    assert "Why there is a copy" in details.inner_text()
    details.locator("button", has_text="%w").first.click()
    assert page.locator("#details h2").inner_text() == "value %w"


LONG = "a_kernel_whose_name_has_many_operators_and_so_more_than_sixty_letters"


@pytest.mark.parametrize("width", [1440, 1000, 600])
def test_long_names_wrap_or_are_scrolled_to(opener: Opener, width: int) -> None:
    """No heading, result of a search or name in a list is cut without a way to read it."""
    text = PROGRAM.replace("fused", LONG).replace("@main", f"@{LONG}")
    page = opener.open(format_view(viewed(text)), width=width, height=900)
    page.evaluate("view.pin({ kind: 'kernel', index: 0 })")
    page.evaluate("view.showCode(view.texts.codes[1].files.at(-1))")
    if width < 900:
        page.click("#panels [data-panel=details]")
    page.fill("#search", LONG)
    page.locator("#results .result").first.wait_for()
    for selector in ("h1", "#details h2", "#results .result"):
        for element in page.locator(selector).all():
            assert element.evaluate(
                "(element) => element.scrollWidth <= element.clientWidth"
                " && element.getBoundingClientRect().right <= innerWidth"
            ), (selector, element.inner_text())
    page.keyboard.press("Escape")
    assert LONG in str(page.get_attribute("#code-file", "title"))
    if width < 900:
        page.click("#panels [data-panel=kernels]")
    listing = page.locator(".panel[data-name=kernels] .listing")
    listing.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    reach = "element.scrollWidth - element.clientWidth - 1"
    wait_until(listing, f"(element) => element.scrollLeft >= {reach}")


def test_a_node_shows_its_own_copies_and_counts_those_of_others(opener: Opener) -> None:
    text = FUSED_COPY.replace(
        "  sin: aten.sin.default\n  conv: aten.convolution.default\n",
        '  place 0: "model.py" 3\n  place 1: "model.py" 4\n'
        "  sin: aten.sin.default at 0\n  conv: aten.convolution.default at 1\n",
    )
    page = opener.open(format_view(viewed(text, [])), height=1000)
    details = page.locator("#details")
    page.evaluate("view.pin({ kind: 'place', index: '0:4' })")
    assert "Why there is a copy" in details.inner_text()
    assert "%w" in details.locator(".item", has_text="copies").first.inner_text()
    assert "for cat" not in details.inner_text()
    page.evaluate("view.pin({ kind: 'place', index: '0:3' })")
    assert "Why there" not in details.inner_text()
    more = details.locator(
        ".more", has_text="its lines make or read 2 copies for other nodes"
    )
    more.click()
    assert "for conv" in details.inner_text()
    assert "for cat" in details.inner_text()
    page.evaluate("view.pin({ kind: 'value', index: 'c' })")
    assert "for cat" in details.inner_text().split("its lines make or read")[0]
    assert "for conv" not in details.inner_text()


def test_a_node_of_a_fused_line_has_the_parameters_of_its_modules(opener: Opener) -> None:
    page = opener.open(format_view(viewed(TIED, [])), height=1000)
    details = page.locator("#details")
    pin = "(name) => view.pin({ kind: 'node', index: view.links.nodes.name.indexOf(name) })"
    page.evaluate(pin, "norm")  # the line of this node uses %w0 for another one
    assert "Parameter" not in details.inner_text()
    page.evaluate(pin, "mm")
    assert "Parameter that its lines use" in details.inner_text()
    assert "layers.0.fc.weight%w0" in details.inner_text()


def test_the_list_of_nodes_is_scrolled_to_a_node_not_to_its_module(
    opener: Opener,
) -> None:
    nodes = [f"node_{n}" for n in range(60)]
    lines = ["wrapperir 1", "", "program @main(%x0: f32[8]) {"]
    origins = ["", "origins {"]
    for n, name in enumerate(nodes):
        call = f"extern_kernel aten.sin.default(%x{n}) : f32[8] from({name})"
        lines.append(f"  %x{n + 1} = {call}")
        origins.append(f'  {name}: aten.sin.default in "layer"')
    text = "\n".join([*lines, "  return %x60", "}", *origins, "}", ""])
    page = opener.open(format_view(viewed(text, [])), width=1400, height=900)
    page.click("#tabs [data-panel=graph]")
    page.evaluate("view.pin({ kind: 'line', index: 59 })")
    row = page.locator(".panel[data-name=graph] .row", has_text="node_59")
    assert row.get_attribute("data-pinned") == "line"


def test_the_places_of_nodes_are_one_column(opener: Opener) -> None:
    page = opener.open(format_view(viewed(PROGRAM, [])), width=800, height=900)
    page.click("#panels [data-panel=graph]")
    cells = page.locator(".panel[data-name=graph] .cell.where")
    lefts = "(cells) => cells.map((cell) => cell.getBoundingClientRect().left)"
    assert cells.count() == 3
    assert len({round(left) for left in cells.evaluate_all(lefts)}) == 1


def test_kernels_say_whether_bytes_are_what_is_touched(opener: Opener) -> None:
    text = FUSED_COPY.replace(
        "  entry = fused\n",
        """  entry = fused
  metadata "touched.reads" = "x 64, w 72"
  metadata "touched.writes" = "y 64, v 16, c 64"
""",
    )
    page = opener.open(format_view(viewed(text, [])), width=1600, height=1000)
    listed = page.locator(".panel[data-name=kernels] .line")
    touched, whole = (listed.filter(has_text=name) for name in ("@fused", "aten.conv"))
    assert touched.locator(".reads, .writes, .extent").all_inner_texts() == [
        *("544 bytes", "576 bytes", "what is touched")
    ]
    assert whole.locator(".extent").inner_text() == "whole values"
    touched.locator(".name").click()
    assert "reads 544 bytes, writes 576 bytes" in page.locator("#details").inner_text()
    assert "of whole values" not in page.locator("#details .item").first.inner_text()


def test_memory_that_no_pass_reused_is_said_to_be_the_frontends(opener: Opener) -> None:
    page = opener.open(format_view(viewed(REUSING, [], "remove_dead_lines")), height=1000)
    page.click("#tabs [data-panel=passes]")
    summary = page.locator("#memory-changes summary")
    assert summary.inner_text() == "memory of values: reused 1"
    summary.click()
    row = page.locator("#memory-changes .place")
    words = "%bgiventhememoryof%a,256bytes,chosenbythefrontend"
    assert row.inner_text().replace(" ", "") == words
    row.locator("button").first.click()
    details = page.locator("#details")
    assert "What was done to its memory" in details.inner_text()
    assert "reuse chosen by the frontend, not by a pass" in details.inner_text()


def test_copies_are_found_before_nodes_whose_names_have_that_word(opener: Opener) -> None:
    text = FUSED_COPY.replace("sin", "to_copy")
    page = opener.open(format_view(viewed(text, [])), height=1000)
    page.fill("#search", "copy")
    page.locator("#results .group", has_text="nodes of the graph").wait_for()
    assert page.locator("#results .group").first.inner_text() == "copies"
