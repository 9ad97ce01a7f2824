"""Going to a line, a kernel and a value of the page, and what is alive at the peak."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.report.browser import wait_until
from tests.report.conftest import Opener
from tests.report.test_memory_changes import TEXT as MEMORY
from tests.report.test_text import GIVEN
from tests.view.small_program import PAIR, write_model
from tests.view.test_view_page import click, lit, viewed
from wrapperir.view import format_view

VALUES = """\
wrapperir 1

program @main(%x: f32[256]) {
  %buf2 = extern_kernel aten.sin.default(%x) : f32[256]
  %buf20 = extern_kernel aten.cos.default(%buf2) : f32[256]
  %unused = extern_kernel aten.exp.default(%x) : f32[256]
  return %buf20
}
"""


@pytest.fixture
def small(opener: Opener, tmp_path: Path) -> Page:
    return opener.open(format_view(viewed(write_model(tmp_path))), height=1000)


@pytest.fixture
def page(opener: Opener) -> Page:
    passes = "remove_dead_lines, insert_frees"
    return opener.open(format_view(viewed(VALUES, [], passes)), height=1000)


def search(page: Page, text: str) -> list[str]:
    """Return the rows that a search finds."""
    page.fill("#search", text)
    page.locator("#results > *").first.wait_for()
    wait_until(page, "!document.querySelector('#results').hidden")
    return page.locator("#results .result").all_inner_texts()


def test_a_name_is_found_as_a_whole(page: Page) -> None:
    found = search(page, "%buf2")
    assert found
    assert all("%buf2 " in row or "%buf2)" in row or row.endswith("%buf2") for row in found)
    assert any("- %unused" in row for row in search(page, "- %unused"))
    assert any("%buf20" in row for row in search(page, "%buf"))  # no row has that name
    assert search(page, "buf2") != found


def test_a_line_is_gone_to_by_its_number(small: Page) -> None:
    small.locator("body").press(":")
    small.keyboard.type("17")
    small.locator("#results .result").first.wait_for()
    small.keyboard.press("Enter")
    assert small.locator("#details h2").inner_text() == "line 17"
    groups = search(small, ":7") and small.locator("#results .group").all_inner_texts()
    assert groups[0] == "program"
    assert any(group.endswith("model.py") for group in groups)
    assert search(small, ":99999") == []


def test_a_number_is_of_the_texts_that_are_shown_or_of_the_one_that_is_named(
    small: Page,
) -> None:
    groups = small.locator("#results .group")
    small.click("#emitters [data-emitter=cpp]")
    assert len(search(small, ":7")) == 4
    assert [text.split("/")[-1] for text in groups.all_inner_texts()] == [
        *("program", "model.py", "cpp: program.cpp"),
    ]
    small.click("#results button:has-text('more texts')")
    assert "python: program.py" in groups.all_inner_texts()
    small.locator("#results .result", has_text="7").last.click()
    assert small.locator(".panel[data-name=code] .cursor .at").inner_text() == "7"
    assert search(small, "model.py:7") == ["7        return scale(torch.relu(y))"]
    assert search(small, "nothing.py:7") == []


def test_a_line_of_a_kernel_leads_to_the_kernels_own_code(small: Page) -> None:
    small.click("#emitters [data-emitter=cpp]")
    click(small, "program", "for (int i = 0; i < 64; ++i)")
    assert small.locator("#details h2").inner_text() == "kernel @fused"
    cursor = small.locator(".panel[data-name=code] .cursor")
    assert "for (int i = 0; i < 64; ++i)" in cursor.inner_text()
    assert cursor.get_attribute("data-pinned") == "kernel"


def test_a_kernel_of_the_outline_is_pinned(small: Page) -> None:
    small.select_option("#outline", label="@fused")
    assert small.locator("#details h2").inner_text() == "kernel @fused"
    assert lit(small, "source") == ["return scale(torch.relu(y))", "return x * 2"]


def test_a_kernel_of_the_list_shows_its_call_and_leads_to_its_definition(
    opener: Opener, tmp_path: Path
) -> None:
    text = write_model(tmp_path)
    text = text.replace("  source {\n", "  source {\n" + "    | // filler\n" * 300)
    page = opener.open(format_view(viewed(text, [])), height=1000)
    calls = [n for n, line in enumerate(text.splitlines()) if "kernel_call" in line]
    page.evaluate("view.panes.program.list.reveal(0)")
    in_sight = "(row) => view.panes.program.list.isInSight(row)"
    assert [page.evaluate(in_sight, row) for row in (2, *calls)] == [True, False]
    row = page.locator(".panel[data-name=kernels] .line", has_text="@fused")
    assert "1 of 1" in row.inner_text()
    row.click()
    assert [page.evaluate(in_sight, row) for row in (2, *calls)] == [False, True]
    assert "kernel 1 of 1, cpp" in page.locator("#details").inner_text()
    page.click("#details button:has-text('defined at line 3')")
    assert [page.evaluate(in_sight, row) for row in (2, *calls)] == [True, False]
    assert page.locator("#details h2").inner_text() == "kernel @fused"
    assert search(page, "kernel 1 of 1") == ["1@fused  kernel 1 of 1"]


def test_a_line_of_the_source_without_operators_says_so_and_which_are_near(
    small: Page,
) -> None:
    details = small.locator("#details")
    click(small, "source", "def forward(self, x, w)")
    assert "No operator that is left in the program" in details.inner_text()
    below = details.inner_text().split("Lines below it that have operators")[1]
    assert [line for line in below.split("\n") if line] == [
        "6y = x @ w",
        "7return scale(torch.relu(y))",
    ]
    assert lit(small, "source") == ["def forward(self, x, w):"]
    click(small, "source", "import torch")
    near = details.inner_text().split("The nearest lines that have operators")[1]
    assert near.split() == ["6y", "=", "x", "@", "w"]
    details.locator("button", has_text="6").click()
    assert lit(small, "source") == ["y = x @ w"]


def test_the_peak_lists_what_is_alive_there(small: Page) -> None:
    place = "peak 512 bytes at line 16, model.py:7 in layer"
    assert small.locator("#peak").inner_text() == place
    small.click("#peak")
    details = small.locator("#details").inner_text()
    assert "Alive at the peak on cpu: 512 bytes" in details
    before, found = details.split("Alive at the peak")
    assert before.split("\n")[0] == "line 16"
    assert "Line of the program" not in before
    _, taken, heading, *alive = found.split("\n")
    assert taken.startswith("This line takes 256 bytes for %zmade by relu")
    assert taken.endswith("and written first by line 17, @fused")
    assert heading == "The 2 values that are alive, the largest first"
    assert [row[:2] for row in alive[:4:2]] == ["%y", "%z"]
    click(small, "program", "free %y")
    assert "Alive here on cpu" in small.locator("#details").inner_text()


LAYERS = """\
wrapperir 1

program @main(%x: f32[64]) {
  %a = extern_kernel aten.sin.default(%x) : f32[64] from(sin)
  %b = extern_kernel aten.sin.default(%a) : f32[64] from(sin_1)
  free %a
  return %b
}

origins {
  place 0: "model.py" 3 "forward"
  sin: aten.sin.default in "layers.0" at 0
  sin_1: aten.sin.default in "layers.1" at 0
}
"""


def test_the_peak_and_what_is_alive_there_name_the_modules_of_one_line(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(LAYERS, [])), height=1000)
    assert page.locator("#peak").inner_text().endswith("model.py:3 in layers.1")
    page.click("#peak")
    alive = page.locator("#details").inner_text().split("Alive at the peak")[1]
    assert "sin_1 (sin, model.py:3 in layers.1)" in alive
    assert "sin (sin, model.py:3 in layers.0)" in alive


def test_a_donated_input_that_is_alive_at_the_peak_is_said_to_be_one(
    opener: Opener,
) -> None:
    text = VALUES.replace("%x: f32[256]", "%x: donated f32[256]")
    page = opener.open(format_view(viewed(text, [])), height=1000)
    page.click("#peak")
    row = page.locator("#details .item", has_text="donated input")
    assert row.inner_text().startswith("%x")


def test_a_peak_of_what_the_call_is_given_says_so(opener: Opener) -> None:
    page = opener.open(format_view(viewed(GIVEN, [])), height=1000)
    page.click("#peak")
    details = page.locator("#details").inner_text()
    assert "1.5 KiB of it is what the call is given, which it frees." in details
    assert "This line takes" not in details
    assert [row[:2] for row in details.split("largest first\n")[1].split("\n")[:4:2]] == [
        *("%x", "%y"),
    ]


def test_what_the_call_is_given_has_the_node_that_made_it(opener: Opener) -> None:
    text = GIVEN.replace("%x: donated f32[256]", "%x: donated f32[256] from(sin)")
    text += 'origins {\n  place 0: "m.py" 7\n  sin: aten.sin.default in "fc" at 0\n}\n'
    page = opener.open(format_view(viewed(text, [])), height=1000)
    page.click("#peak")
    details = page.locator("#details")
    row = details.locator(".item", has_text="donated input").first
    assert "donated input, saved as sin (sin, m.py:7 in fc)" in row.inner_text()
    row.locator("button", has_text="%x").click()
    assert "aten.sin.default in fc" in details.inner_text()
    page.evaluate("view.pin({ kind: 'node', index: 0 })")
    assert "The program is given what was made of it" in details.inner_text()
    details.locator("button", has_text="%x").click()
    assert details.locator("h2").inner_text() == "value %x"


def test_an_element_of_a_tuple_leads_to_the_call_that_makes_it(opener: Opener) -> None:
    page = opener.open(format_view(viewed(PAIR, [])), height=1000)
    page.click("#peak")
    row = page.locator("#details .item", has_text="%p[0]").first
    assert "made at line 4by minmax" in row.inner_text()
    row.locator("button", has_text="%p[0]").click()
    details = page.locator("#details").inner_text()
    assert "No line of the program came from it" not in details
    assert "aten.aminmax.default" in details


def test_what_is_pinned_is_shown_from_its_title_on(opener: Opener, tmp_path: Path) -> None:
    view = format_view(viewed(write_model(tmp_path)))
    page = opener.open(view, width=1000, height=500)
    click(page, "program", "kernel_call")
    panel = page.locator(".panel[data-name=details]")
    panel.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    assert panel.evaluate("(element) => element.scrollTop") > 0
    click(page, "program", "aten.mm")
    assert panel.evaluate("(element) => element.scrollTop") == 0


REUSED = """\
wrapperir 1

program @main(%x: f32[64]) {
  %a = extern_kernel aten.sin.default(%x) : f32[64]
  %b = reuse %a as f32[64] from(cos, sin)
  extern_kernel aten.cos.out(%x, out = %b) writes(%b) from(sin, cos)
  %c = extern_kernel aten.exp.default(%b) : f32[64] from(exp)
  %n = allocate f32[]
  extern_kernel aten.zero_.default(%n) writes(%n)
  free %n
  free %b
  return %c
}

origins {
  place 0: "model.py" 3 "forward"
  sin: aten.sin.default at 0
  cos: aten.cos.default at 0
  exp: aten.exp.default at 0
}
"""


def test_the_peak_has_names_as_they_are_there_and_the_line_that_took_most(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(REUSED, [])), height=1000)
    page.click("#peak")
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "line 8"
    alive = details.inner_text().split("Alive at the peak")[1]
    assert not [row for row in alive.split("\n") if row.startswith("%a")]
    held = details.locator(".item", has_text="%b256 bytes, 44%").inner_text()
    reused = "made at line 4 as %a, reused at line 5made by cos (cos, model.py:3)and 1 more"
    assert reused in held
    taken = (
        "Before it, since memory last fell, line 7took most: 256 bytes for %cmade by exp"
    )
    assert taken in alive
    details.locator("button", has_text="line 7").first.click()
    assert details.locator("h2").inner_text() == "line 7"


def test_a_pass_lists_the_values_that_it_removed(page: Page) -> None:
    page.click("#tabs [data-panel=passes]")
    values = page.locator("#step-values")
    assert values.inner_text() == "removed 1 value:%unused"
    values.locator("button", has_text="%unused").click()
    found = page.locator(".panel[data-name=passes] .line.found")
    assert "%unused = extern_kernel" in found.inner_text()
    page.click("#steps button:has-text('insert_frees')")
    assert values.inner_text() == "removed no value"
    removals = page.locator("#removals")
    assert removals.inner_text() == "values were removed by remove_dead_lines: 1"
    removals.locator("button").click()
    assert values.inner_text() == "removed 1 value:%unused"


def test_what_passes_did_to_memory_is_listed_by_value_with_the_pass(
    opener: Opener,
) -> None:
    page = opener.open(format_view(viewed(MEMORY, [], "plan_memory")), height=1000)
    page.click("#tabs [data-panel=passes]")
    summary = page.locator("#memory-changes summary")
    assert summary.inner_text() == "memory of values: allocated 1, placed 2"
    summary.click()
    rows = page.locator("#memory-changes .place").all_inner_texts()
    shown = [row.replace(" ", "") for row in rows]
    assert "%aplacedin%pool0at0,256bytes,byplan_memory(1of1)" in shown
    assert "%pool0givenmemoryofitsown,256bytes,byplan_memory(1of1)" in shown
    page.locator("#memory-changes .place", has_text="%a").locator("button").first.click()
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "value %a"
    assert "What passes did to its memory" in details.inner_text()
    details.locator("button", has_text="plan_memory").first.click()
    found = page.locator(".panel[data-name=passes] .line.found")
    assert "%a = place f32[8, 8] in %pool0 at 0" in found.inner_text()


def test_a_value_that_a_pass_removed_says_so(opener: Opener) -> None:
    page = opener.open(format_view(viewed(MEMORY, [], "remove_dead_lines")), height=1000)
    page.click("#tabs [data-panel=passes]")
    page.click("#memory-changes summary")
    page.locator("#memory-changes .place button", has_text="%unused").click()
    details = page.locator("#details").inner_text().replace(" ", "")
    assert "%unusedremoved,32bytes,byremove_dead_lines" in details


def test_the_passes_say_at_once_that_none_removed_a_value(opener: Opener) -> None:
    page = opener.open(format_view(viewed(VALUES, [], "insert_frees")), height=1000)
    page.click("#tabs [data-panel=passes]")
    assert page.locator("#removals").inner_text() == "no pass removed a value"


@pytest.mark.parametrize("width", [1440, 1000])
def test_all_buttons_of_passes_and_emitters_are_in_sight(
    opener: Opener, tmp_path: Path, width: int
) -> None:
    view = viewed(write_model(tmp_path), passes="memory")
    page = opener.open(format_view(view), width=width, height=900)
    page.click("#tabs [data-panel=passes]")
    for button in page.locator("#steps button, #emitters button").all():
        panel = button.locator("xpath=ancestor::section").bounding_box()
        box = button.bounding_box()
        assert box is not None
        assert panel is not None
        assert box["x"] >= panel["x"]
        assert box["x"] + box["width"] <= panel["x"] + panel["width"]


def test_the_source_is_scrolled_to_the_line_of_most_nodes(
    opener: Opener, tmp_path: Path
) -> None:
    file = tmp_path / "model.py"
    file.write_text("x = 1\n" * 200)
    places = f'  place 0: "{file}" 3 "forward"\n  place 1: "{file}" 150 "forward"\n'
    text = REUSED.replace('  place 0: "model.py" 3 "forward"\n', places)
    for name in ("sin", "cos"):
        origin = f"  {name}: aten.{name}.default at"
        text = text.replace(f"{origin} 0", f"{origin} 1")
    text = text.replace("writes(%b) from(sin, cos)", "writes(%b) from(exp, sin, cos)")
    page = opener.open(format_view(viewed(text, [])), height=1000)
    in_sight = "(row) => view.panes.source.list.isInSight(row)"
    assert [page.evaluate(in_sight, row) for row in (2, 149)] == [True, False]
    click(page, "program", "aten.cos.out")
    assert [page.evaluate(in_sight, row) for row in (2, 149)] == [False, True]


def test_the_buttons_of_emitters_have_one_row(opener: Opener, tmp_path: Path) -> None:
    name = "a_kernel_whose_name_has_many_operators_and_so_more_than_sixty_letters"
    text = write_model(tmp_path).replace("fused", name)
    page = opener.open(format_view(viewed(text)), width=1400, height=900)
    page.evaluate("view.showCode(view.texts.codes[1].files.at(-1))")
    boxes = [button.bounding_box() for button in page.locator("#emitters button").all()]
    assert len({box["y"] for box in boxes if box is not None}) == 1


def test_a_kernel_says_first_which_one_it_is_and_where_it_is_defined(small: Page) -> None:
    small.evaluate("view.pin({ kind: 'kernel', index: 0 })")
    title, module, facts = small.locator("#details > *").all_inner_texts()[:3]
    assert (title, module) == ("kernel @fused", "in layer")
    assert facts == "kernel 1 of 1, cpp, defined at line 3"
    assert small.locator("#details button", has_text="@fused").count() == 0


def test_the_program_begins_at_its_inputs(opener: Opener, tmp_path: Path) -> None:
    text = write_model(tmp_path)
    text = text.replace("  source {\n", "  source {\n" + "    | // filler\n" * 300)
    text = text.replace(
        "  free %y\n",
        "  free %y\n"
        + "".join(
            f"  %e{n} = extern_kernel aten.sin.default(%z) : f32[8, 8]\n" for n in range(60)
        ),
    )
    page = opener.open(format_view(viewed(text, [])), height=1000)
    header = page.locator(".panel[data-name=program] .line", has_text="program @main(")
    listing = page.locator(".panel[data-name=program] .listing")
    top = "(element) => element.getBoundingClientRect().top"
    assert 0 <= header.evaluate(top) - listing.evaluate(top) < 20
