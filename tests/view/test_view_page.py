"""The page of a program, in a real browser."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from playwright.sync_api import Page

from tests.draws import draws
from tests.report.conftest import Opener
from tests.report.reports import HOSTILE
from tests.view.small_program import write_model
from wrapperir.emit import Emitter
from wrapperir.emit.pipeline import find_emitter
from wrapperir.ir import Program
from wrapperir.pipelines import find_passes
from wrapperir.report import visible
from wrapperir.testing import programs
from wrapperir.text import (
    format_program,
    format_with_positions,
    parse_program,
    parse_with_positions,
)
from wrapperir.view import ProgramText, ProgramView, format_view, run_steps, view_program
from wrapperir.view.pass_steps import PassStep

SLOWEST = 100
"""Milliseconds of the longest task while a pane is scrolled."""


def viewed(
    text: str, emitters: Sequence[Emitter] | None = None, passes: str = ""
) -> ProgramView:
    """Return the view of the program of a text, after passes."""
    steps: tuple[PassStep, ...] = ()
    if passes:
        result, steps = run_steps(parse_program(text), find_passes(passes), {})
        text = format_program(result)
    parsed = parse_with_positions(text)
    if emitters is None:
        emitters = [find_emitter(name) for name in ("python", "cpp", "fx")]
    shown = ProgramText(parsed.program, text, parsed.positions)
    return view_program(shown, "model.wir", {}, emitters, steps)


@pytest.fixture
def small(opener: Opener, tmp_path: Path) -> Page:
    return opener.open(format_view(viewed(write_model(tmp_path))), height=1000)


def row(page: Page, pane: str, text: str) -> int:
    """Return the 1-based number of the only row in sight with this text."""
    lines = page.locator(f".panel[data-name={pane}] .line", has_text=text)
    assert lines.count() == 1, lines.all_inner_texts()
    return int(lines.locator(".at").inner_text())


def click(page: Page, pane: str, text: str) -> None:
    page.locator(f".panel[data-name={pane}] .line", has_text=text).first.click()


def lit(page: Page, pane: str, how: str = "pinned") -> list[str]:
    """Return the texts of the rows of a pane that belong to what is pinned, or lit."""
    wanted = ("line", "inner", "outer")
    rows = ", ".join(f".panel[data-name={pane}] .line[data-{how}={x}]" for x in wanted)
    code = page.locator(rows).locator(".code")
    return sorted(text.strip() for text in code.all_inner_texts())


def test_a_line_of_the_source_lights_what_it_became(small: Page) -> None:
    click(small, "source", "return x * 2")
    assert lit(small, "source") == ["return scale(torch.relu(y))", "return x * 2"]
    assert [text.split(" from")[0] for text in lit(small, "program")] == [
        "%z = allocate f32[8, 8]",
        "kernel_call @fused(%y, %z)",
    ]
    small.click("#emitters [data-emitter=python]")
    assert any("fused(y, z)" in text for text in lit(small, "code"))
    assert not any("aten.mm" in text for text in lit(small, "code"))
    assert "layer" in small.locator("#details").inner_text()


def test_emitted_code_leads_back_to_the_source(small: Page) -> None:
    small.click("#emitters [data-emitter=fx]")
    click(small, "code", "torch.ops.aten.mm.default(x, w)")
    assert lit(small, "source") == ["y = x @ w"]
    assert len(lit(small, "program")) == 1
    assert small.locator("#details h2").inner_text() == "line 13"


def test_hovering_lights_and_leaving_ends_it(small: Page) -> None:
    small.locator(".panel[data-name=source] .line", has_text="y = x @ w").hover()
    assert lit(small, "program", "lit")[0].startswith("%y = extern_kernel aten.mm")
    assert "mm" in small.locator("#details").inner_text()
    small.hover("h1")
    assert lit(small, "program", "lit") == []
    assert "Point at a line" in small.locator("#details").inner_text()


def test_a_kernel_shows_what_was_fused_and_what_it_costs(small: Page) -> None:
    rows = small.locator(".panel[data-name=kernels] .line")
    assert [text.split() for text in rows.all_inner_texts()] == [
        [
            "13",
            "1",
            "1",
            "512",
            "bytes",
            "256",
            "bytes",
            "whole",
            "values",
            "aten.mm.default",
            "layer",
        ],
        [
            "1",
            "of",
            "1",
            "17",
            "1",
            "2",
            "256",
            "bytes",
            "256",
            "bytes",
            "whole",
            "values",
            "@fused",
            "layer",
        ],
    ]
    rows.nth(1).click()
    details = small.locator("#details").inner_text()
    assert "kernel @fused" in details
    assert "2 nodes of the graph" in details
    assert "Parameter that it uses" not in details
    assert "layer.weight" not in details
    assert "parameter of its modules" not in details
    assert "aten.relu.default" in details
    assert "aten.mul.Tensor" in details
    assert lit(small, "source") == ["return scale(torch.relu(y))", "return x * 2"]


def test_kernels_are_sorted_by_the_column_that_is_clicked(small: Page) -> None:
    small.click("#kernel-head [data-column=nodes]")
    first = small.locator(".panel[data-name=kernels] .line").first
    assert first.locator(".name").inner_text() == "@fused"


def test_nodes_are_listed_by_module(small: Page) -> None:
    small.click("#tabs [data-panel=graph]")
    rows = small.locator(".panel[data-name=graph] .line .name").all_inner_texts()
    assert rows == ["layer", "mm", "relu", "mul"]
    click(small, "graph", "aten.relu.default")
    assert lit(small, "source") == ["return scale(torch.relu(y))"]


def test_the_peak_is_a_click_away(small: Page) -> None:
    small.click("#peak")
    assert small.locator("#details h2").inner_text() == "line 16"
    small.click("#tabs [data-panel=memory]")
    assert small.locator("#map rect.buffer").count() == 2
    small.locator("#map rect.buffer").first.click()
    assert small.locator("#details h2").inner_text() == "value %y"
    assert len(lit(small, "program")) == 3
    assert small.locator("#map rect.selected").count() == 1


def test_a_value_leads_to_the_lines_that_make_and_use_it(small: Page) -> None:
    click(small, "program", "free %y")
    small.locator("#details button", has_text="%y").click()
    texts = [text.split(" from")[0].split("(")[0] for text in lit(small, "program")]
    assert texts == ["%y = extern_kernel aten.mm.default", "free %y", "kernel_call @fused"]


def test_search_goes_to_what_it_finds(small: Page) -> None:
    small.keyboard.press("/")
    small.keyboard.type("torch.RELU")
    small.locator("#results .result").first.wait_for()
    assert small.locator("#results .match").first.inner_text() == "torch.relu"
    small.keyboard.press("Enter")
    assert small.locator("#results").is_hidden()
    assert small.locator("#details h2").inner_text() == "model.py:7"
    small.fill("#search", "nothing has this")
    small.locator("#results .hint").wait_for()
    assert small.locator("#results .hint").inner_text() == "Nothing found."


def test_the_keyboard_moves_pins_and_unpins(small: Page) -> None:
    listing = small.locator(".panel[data-name=source] .listing")
    listing.focus()
    for _ in range(6):
        small.keyboard.press("ArrowDown")
    assert lit(small, "source", "lit") == ["y = x @ w"]
    small.keyboard.press("Enter")
    assert lit(small, "source") == ["y = x @ w"]
    program = small.locator(".panel[data-name=program] .listing")
    program.focus()
    small.keyboard.press("n")
    assert "aten.mm" in small.locator(".panel[data-name=program] .cursor").inner_text()
    small.keyboard.press("Escape")
    assert lit(small, "source") == []


def test_the_slider_shows_what_each_pass_changed(opener: Opener, tmp_path: Path) -> None:
    unused = "  %unused = allocate f32[8, 8]\n  free %unused\n"
    text = write_model(tmp_path).replace("  %z = alloc", f"{unused}  %z = alloc")
    passes = "insert_frees, remove_dead_lines, reuse_buffers"
    page = opener.open(format_view(viewed(text, passes=passes)), height=1000)
    page.click("#tabs [data-panel=passes]")
    assert "2 of 3: remove_dead_lines" in page.locator("#step").inner_text()
    page.locator(".panel[data-name=passes] input").press("ArrowLeft")
    assert "1 of 3: insert_frees" in page.locator("#step").inner_text()
    assert "nothing changed" in page.locator("#step").inner_text()
    page.locator(".panel[data-name=passes] input").press("ArrowRight")
    assert "2 of 3: remove_dead_lines" in page.locator("#step").inner_text()
    assert "+0 −2" in page.locator("#step").inner_text()
    removed = page.locator(".panel[data-name=passes] [data-change='-'] .code")
    assert removed.all_inner_texts() == unused.splitlines()
    page.locator(".panel[data-name=passes] .line", has_text="kernel_call @fused").click()
    assert page.locator("#details h2").inner_text() == "value %y"
    page.fill("#search", "- %unused")
    page.locator("#results .group").first.wait_for()
    assert page.locator("#results .group").all_inner_texts() == ["pass remove_dead_lines"]
    page.click("#steps button:has-text('insert_frees')")
    page.fill("#search", "- %unused =")
    page.locator("#results .result").first.wait_for()
    number = page.locator("#results .result .at").inner_text()
    page.keyboard.press("Enter")
    found = page.locator(".panel[data-name=passes] .line.found")
    assert found.locator(".code").inner_text() == unused.splitlines()[0]
    assert found.locator(".at").first.inner_text() == number == "16"


def test_what_a_capture_of_graphs_leaves_out_has_a_reason(
    opener: Opener, tmp_path: Path
) -> None:
    text = write_model(tmp_path)
    page = opener.open(format_view(viewed(text, passes="capture_graphs")), height=1000)
    page.click("#tabs [data-panel=decisions]")
    rows = page.locator(".panel[data-name=decisions] .line")
    assert [text.split()[:2] for text in rows.all_inner_texts()] == [
        ["not", "captured"]
    ] * 2
    rows.last.click()
    details = page.locator("#details").inner_text()
    assert "not captured" in details
    assert "kernel_call @fused(%y, %z)" in details
    assert "device without graphs: there are no graphs for cpu" in details


def test_without_passes_there_is_no_slider(small: Page) -> None:
    tabs = small.locator("#tabs [data-panel]")
    assert tabs.all_inner_texts() == ["Kernels", "Graph", "Memory"]


def test_a_file_that_is_gone_is_named(opener: Opener, tmp_path: Path) -> None:
    text = write_model(tmp_path)
    (tmp_path / "model.py").unlink()
    page = opener.open(format_view(viewed(text)))
    shown = page.locator(".panel[data-name=source] .empty").inner_text()
    assert shown == f"{tmp_path / 'model.py'}: there is no such file here"


def test_a_refusal_is_shown_with_its_reason(opener: Opener, tmp_path: Path) -> None:
    view = viewed(write_model(tmp_path))
    refused = evolve(view.program.codes[1], files=(), refusals=("WIR704: not there",))
    codes = (view.program.codes[0], refused)
    page = opener.open(format_view(evolve(view, program=evolve(view.program, codes=codes))))
    page.click("#emitters [data-emitter=cpp]")
    shown = page.locator(".panel[data-name=code] .empty").inner_text()
    assert shown == "The cpp emitter refuses the program: WIR704: not there"
    click(page, "program", "aten.mm")
    page.click("#emitters [data-emitter=python]")
    assert lit(page, "code")


def test_narrow_screens_show_a_panel_at_a_time(opener: Opener, tmp_path: Path) -> None:
    passes = "remove_dead_lines"
    view = format_view(viewed(write_model(tmp_path), passes=passes))
    page = opener.open(view, width=390, height=800)
    right = "(buttons) => Math.max(...buttons.map((x) => x.getBoundingClientRect().right))"
    assert page.locator("#panels button").evaluate_all(right) <= 390
    for name in ("source", "program", "code", "kernels", "graph", "memory", "details"):
        page.click(f"#panels [data-panel={name}]")
        panels = page.locator(".panel").all()
        shown = [x.get_attribute("data-name") for x in panels if x.is_visible()]
        assert shown == [name]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_light_dark_and_the_other(opener: Opener, tmp_path: Path) -> None:
    html = format_view(viewed(write_model(tmp_path)))
    background = "getComputedStyle(document.body).backgroundColor"
    light = opener.open(html)
    dark = opener.open(html, dark=True)
    colours = light.evaluate(background), dark.evaluate(background)
    assert colours[0] != colours[1]
    light.click("#theme")
    dark.click("#theme")
    assert (dark.evaluate(background), light.evaluate(background)) == colours


def test_text_of_a_program_and_its_source_stays_text(
    opener: Opener, tmp_path: Path
) -> None:
    folder = tmp_path / "a'b<img src=x onerror=alert(1)>"
    folder.mkdir()
    text = write_model(folder)
    file = folder / "model.py"
    file.write_text(f"{HOSTILE!r}\n{HOSTILE}\n" * 4, encoding="utf-8")
    text = text.replace('in "layer"', 'in "</script><img src=x onerror=alert(1)>"')
    text = text.replace(
        "    | extern", "    | // </script><img src=x onerror=alert(1)>\n    | extern"
    )
    view = evolve(viewed(text), source=HOSTILE)
    page = opener.open(format_view(view))
    assert page.locator("img").count() == 0
    assert page.title() == f"@main in {visible(HOSTILE)}"
    shown = page.locator(".panel[data-name=source] .line[data-row='5']")
    assert shown.locator(".code").text_content() == visible(HOSTILE)
    shown.click()
    page.fill("#search", "img src")
    page.locator("#results .result").first.wait_for()
    page.click("#tabs [data-panel=graph]")
    assert page.locator("img").count() == 0
    assert "<img" in (page.locator(".panel[data-name=graph]").text_content() or "")


def long_program(steps: int) -> str:
    """Return a program of three lines a step."""
    lines = ["wrapperir 1", "", "program @main(%x0: f32[64]) {"]
    for step in range(steps):
        lines.append(f"  %y{step} = reinterpret %x{step} as f32[8, 8] from(node_{step})")
        call = f"%x{step + 1} = extern_kernel aten.relu.default(%y{step}) : f32[8, 8]"
        lines += [f"  {call} from(node_{step})", f"  free %y{step}", f"  free %x{step}"]
    lines += [f"  return %x{steps}", "}", "", "origins {"]
    lines += [f"  node_{step}: aten.relu.default" for step in range(steps)]
    return "\n".join([*lines, "}", ""])


@pytest.mark.slow
def test_ten_thousand_lines_scroll_smoothly(opener: Opener) -> None:
    view = viewed(long_program(2500), [find_emitter("python")])
    assert len(view.program.lines) == 10_000
    page = opener.open(format_view(view))
    assert page.locator(".panel[data-name=program] .line").count() < 200
    page.evaluate(
        "window.tasks = []; new PerformanceObserver((list) => window.tasks.push("
        "...list.getEntries().map((each) => each.duration))).observe({type: 'longtask'})"
    )
    slowest: float = 0
    for _ in range(6):  # other processes may take the processor's time
        page.evaluate("window.tasks.length = 0")
        for pane in ("program", "code"):
            page.evaluate(
                """async (name) => {
                  const { element } = view.panes[name];
                  for (let top = 0; top < element.scrollHeight; top += 2100) {
                    element.scrollTop = top;
                    await new Promise(requestAnimationFrame);
                  }
                }""",
                pane,
            )
        page.evaluate("view.pin({ kind: 'line', index: 9000 })")
        page.wait_for_timeout(100)
        slowest = page.evaluate("Math.max(0, ...window.tasks)")
        if slowest <= SLOWEST:
            break
    assert slowest <= SLOWEST
    assert "%y2250" in lit(page, "program")[0]


def test_any_program_opens(opener: Opener) -> None:
    @settings(
        max_examples=draws(6, fuzz=40),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def opens(program: Program) -> None:
        text, _ = format_with_positions(program)
        page = opener.open(format_view(viewed(text)))
        for index in range(len(program.lines)):
            page.evaluate("(index) => view.pin({ kind: 'line', index })", index)
        assert page.locator("#details").inner_text()

    opens()
