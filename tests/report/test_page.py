"""The page in a real browser."""

import re
from importlib.resources import files

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from playwright.sync_api import Page

from tests.report.conftest import Opener
from tests.report.reports import HOSTILE, hostile_report, large_report, small_report
from tests.report.test_build_timeline import REUSED
from wrapperir.ir import Program
from wrapperir.report import (
    MemoryReport,
    build_timeline,
    choose_values,
    format_html,
    visible,
)
from wrapperir.report.timeline import BufferKind
from wrapperir.testing import programs
from wrapperir.text import format_with_positions, parse_with_positions


def tooltip(page: Page) -> list[str]:
    assert page.locator("#tooltip").is_visible()
    return page.locator("#tooltip div").all_inner_texts()


def test_hovering_shows_what_a_buffer_is(opener: Opener) -> None:
    page = opener.open(format_html(small_report()))
    assert page.locator("#tooltip").is_hidden()
    page.hover("rect.buffer[data-buffer='2']")
    assert tooltip(page) == [
        "%b: 2 KiB (2,048 bytes)",
        "f32[512]",
        "alive at lines 4–6",
        "made by an operator",
        "line 4: %b = extern_kernel aten.f(%a)",
        "from m.py:7",
    ]
    page.hover("h1")
    assert page.locator("#tooltip").is_hidden()


def test_memory_that_is_reused_is_from_the_value_at_the_peak(opener: Opener) -> None:
    parsed = parse_with_positions(f"wrapperir 1\n\n{REUSED}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="reused.wir", versions=(version,))
    page = opener.open(format_html(report))
    row = page.locator("#largest tr", has_text="%b").first.inner_text()
    assert "reuse %a as f32[8, 8]" in row
    assert "from m.py:8, aten.cos.default, cos" in row
    page.hover("rect.buffer[data-buffer='1']")
    assert [text for text in tooltip(page) if text.startswith("from")] == [
        "from m.py:7, aten.sin.default, sin",
        "from m.py:8, aten.cos.default, cos",
        "from m.py:8, aten.tan.default, tan",
    ]


def test_a_donated_input_at_the_peak_is_said_to_be_one(opener: Opener) -> None:
    text = REUSED.replace("%x: f32[64]", "%x: donated f32[64]")
    parsed = parse_with_positions(f"wrapperir 1\n\n{text}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="reused.wir", versions=(version,))
    page = opener.open(format_html(report))
    row = page.locator("#largest tr", has=page.get_by_text("%x", exact=True))
    assert "donated input" in row.inner_text()


def test_each_buffer_is_a_rectangle_where_and_when_it_is(opener: Opener) -> None:
    report = small_report()
    page = opener.open(format_html(report))
    for position, version in enumerate(report.versions):
        (memory,) = version.memories
        page.locator(".version").nth(position).click()
        counted = [b for b in memory.buffers if b.kind.counted]
        assert page.locator("rect.buffer").count() == len(counted)
        assert page.locator("rect.pool").count() == len(memory.pools)
        page.check("#uncounted")
        assert page.locator("rect.buffer").count() == len(memory.buffers)
        left, bottom, across, upward = scales(page, memory.buffers[1].size)
        for index, buffer in enumerate(memory.buffers):
            box = page.locator(f"rect.buffer[data-buffer='{index}']")
            x, y, width, height = (
                float(box.get_attribute(name) or "")
                for name in ("x", "y", "width", "height")
            )
            assert x == pytest.approx(left + across * buffer.begin, abs=0.1)
            assert width == pytest.approx(across * (buffer.end - buffer.begin), abs=0.1)
            assert height == pytest.approx(upward * buffer.size, abs=0.1)
            assert y + height == pytest.approx(bottom - upward * buffer.address, abs=0.1)
        page.uncheck("#uncounted")


def scales(page: Page, size: int) -> tuple[float, float, float, float]:
    """Return where the map begins, and its pixels a line and a byte, from its axes."""
    grid = page.locator("#map line.grid")
    left = float(grid.first.get_attribute("x1") or "")
    right = float(grid.first.get_attribute("x2") or "")
    lines = page.evaluate("view.version.numbers.length")
    bottom = float(grid.first.get_attribute("y1") or "")
    one = page.locator("rect.buffer[data-buffer='1']")
    upward = float(one.get_attribute("height") or "") / size
    return left, bottom, (right - left) / lines, upward


def test_a_click_marks_the_line_that_made_a_buffer(opener: Opener) -> None:
    page = opener.open(format_html(small_report()))
    page.click("rect.buffer[data-buffer='3']")
    assert page.locator("#listing .line.selected").inner_text().split() == [
        "5", "%c", "=", "...",
    ]  # fmt: skip
    assert "%c" in page.locator("#largest tr.selected").inner_text()
    page.locator("#largest tr", has_text="%b").click()
    assert page.locator("rect.selected").get_attribute("data-buffer") == "2"
    page.locator(".version").nth(1).click()
    assert page.locator("rect.selected").count() == 0
    page.click("rect.buffer[data-buffer='3']")
    assert page.locator("#listing .line.selected").count() == 1


def test_the_curve_says_what_is_live_at_a_line(opener: Opener) -> None:
    page = opener.open(format_html(small_report()))
    page.locator(".version").nth(1).click()
    box = page.locator("#curve").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 80, box["y"] + 100)
    assert tooltip(page) == [
        "line 3: 0 bytes live",
        "8 KiB (8,192 bytes) held",
        "%p = allocate_pool",
    ]
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + 100)
    assert tooltip(page)[0] == "line 6: 8 KiB (8,192 bytes) live"
    page.mouse.click(box["x"] + box["width"] - 30, box["y"] + 100)
    assert "free" in page.locator("#listing .line.selected").inner_text()


def test_the_versions_are_beside_each_other(opener: Opener) -> None:
    page = opener.open(format_html(small_report()))
    given, planned = page.locator(".version").all_inner_texts()
    assert "as given" in given
    assert "8 KiB peak 3 allocations" in " ".join(given.split())
    assert "10 KiB peak 2 allocations" in " ".join(planned.split())
    assert "1.250 of the lower bound" in planned
    assert "8 KiB (8,192 bytes) at most, in 1 pool" in planned
    assert "s0 = 64" in page.locator("header").inner_text()


def test_the_legend_has_what_the_map_has(opener: Opener) -> None:
    page = opener.open(format_html(small_report()))
    pool = page.locator("#kinds span", has_text=re.compile("^pool$"))
    assert pool.is_hidden()
    page.locator(".version").nth(1).click()
    assert pool.is_visible()


def test_what_made_a_buffer_is_read_in_whole(opener: Opener) -> None:
    report = small_report()
    text = f"%b = extern_kernel aten.addmm.default({', '.join(['%argument'] * 4)})"
    given = report.versions[0]
    lines = (given.lines[0], evolve(given.lines[1], text=text), *given.lines[2:])
    report = evolve(report, versions=(evolve(given, lines=lines),))
    page = opener.open(format_html(report))
    made = page.locator("#largest tr", has_text="%b").locator(".made span").first
    assert made.inner_text() == text
    wide, high = (
        "e => [e.scrollWidth, e.clientWidth]",
        "e => [e.scrollHeight, e.clientHeight]",
    )
    for measure in (wide, high):
        whole, shown = made.evaluate(measure)
        assert whole <= shown


def test_text_of_a_program_stays_text(opener: Opener) -> None:
    page = opener.open(format_html(hostile_report()))
    shown = visible(HOSTILE)
    assert "\\x07 \\u202e" in shown
    assert page.title() == f"Memory of @{shown} in {shown}"
    assert page.locator("img").count() == 0
    assert page.locator("h1 code").text_content() == f"@{shown}"
    page.hover("rect.buffer")
    assert f"from {shown}" in [x.text_content() for x in page.locator("#tooltip div").all()]
    assert shown in (page.locator("#listing").text_content() or "")
    assert "49" not in page.locator("header").inner_text()


def test_light_and_dark(opener: Opener) -> None:
    html = format_html(small_report())
    colours = {
        dark: opener.open(html, dark=dark).evaluate(
            "[getComputedStyle(document.body).color,"
            " getComputedStyle(document.body).backgroundColor]"
        )
        for dark in (False, True)
    }
    for ink, page in colours.values():
        assert contrast(ink, page) > 7
    assert colours[False] != colours[True]


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours (WCAG 2.2, relative luminance)."""
    lights = []
    for colour in (first, second):
        channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
        ]
        weighted = zip((0.2126, 0.7152, 0.0722), linear, strict=True)
        lights.append(sum(weight * c for weight, c in weighted) + 0.05)
    return max(lights) / min(lights)


def test_a_large_program_has_a_rectangle_a_buffer_and_few_line_elements(
    opener: Opener,
) -> None:
    page = opener.open(format_html(large_report(10_000)))
    assert page.locator("rect.buffer").count() == 10_000
    assert page.locator("#listing .line").count() < 100
    page.locator("#largest tr").first.click()
    name = page.locator("#largest tr.selected td").nth(1).inner_text()
    assert name in page.locator("#listing .line.selected").inner_text()


def test_a_program_that_holds_nothing(opener: Opener) -> None:
    text, positions = format_with_positions(Program())
    version = build_timeline(Program(), positions, {}, "as given")
    report = MemoryReport(program="main", source=text[:9], versions=(version,))
    page = opener.open(format_html(report))
    assert page.locator("rect.buffer").count() == 0


def test_any_program_opens(opener: Opener) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(programs())
    def opens(program: Program) -> None:
        _, positions = format_with_positions(program)
        symbols = choose_values(program, {})
        values = {symbol.name: symbol.value for symbol in symbols}
        version = build_timeline(program, positions, values, "as given")
        report = MemoryReport(
            program=program.name, source="x.wir", symbols=symbols, versions=(version,)
        )
        page = opener.open(format_html(report))
        for position, memory in enumerate(version.memories):
            page.locator(".version").nth(position).click()
            counted = sum(b.kind.counted for b in memory.buffers)
            assert page.locator("rect.buffer").count() == counted

    opens()


def test_each_kind_of_buffer_has_a_colour_of_its_own() -> None:
    sheet = files("wrapperir.report").joinpath("page", "base.css").read_text()
    colours = [
        re.findall(rf"--kind-{kind}: (light-dark\([^)]*\))", sheet)
        for kind in range(len(BufferKind))
    ]
    assert len({colour for (colour,) in colours}) == len(BufferKind)
    assert all(f".kind-{kind} {{" in sheet for kind in range(len(BufferKind)))
