"""The statements of kernels on the page: which of them a line of the source became."""

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page

from tests.report.conftest import Opener
from tests.view.small_program import write_model
from tests.view.test_view_page import click, viewed
from wrapperir.emit.pipeline import find_emitter
from wrapperir.frontend.lowering.exported import lower_exported
from wrapperir.text import format_with_positions
from wrapperir.view import ProgramText, StageLinks, format_view, view_program


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.exp(x)  # made of one statement
        y = y * 1
        return torch.tanh(y)  # made of two


@pytest.fixture
def page(opener: Opener) -> Page:
    """A page of a model with its kernel, whose C++ is shown."""
    stages = lower_exported(torch.export.export(Model(), (torch.randn(64),)))
    program = stages.lowered.program
    links = StageLinks(
        program, stages.loops, stages.schedule, stages.symbols, stages.joined
    )
    shown = ProgramText(program, *format_with_positions(program))
    emitters = [find_emitter(name) for name in ("python", "cpp")]
    view = view_program(shown, "model.py", {}, emitters, stages=links)
    page = opener.open(format_view(view), height=1000)
    page.click("#emitters [data-emitter=cpp]")
    return page


def choose_line(page: Page, text: str) -> None:
    """Click a line of the source, which is maybe not in sight."""
    page.evaluate(
        "(text) => { const pane = view.panes.source;"
        " pane.pin(pane.text.rows.findIndex((row) => row.includes(text))); }",
        text,
    )


def marked(page: Page, pane: str, how: str) -> list[str]:
    """Return the rows of a pane that belong to what is pinned in a way."""
    rows = page.locator(f".panel[data-name={pane}] .line[data-pinned={how}] .code")
    return [text.strip() for text in rows.all_inner_texts()]


def test_a_line_lights_its_statements_in_a_kernel_and_no_others(page: Page) -> None:
    choose_line(page, "# made of one statement")
    load, exp = marked(page, "code", "statement")
    assert load.endswith("= p0[i0];")
    assert "= exp(" in exp
    rows = marked(page, "code", "kernel")
    assert rows[0].startswith('extern "C" void map_exp_mul_tanh_0(')
    lines = marked(page, "code", "line")
    assert not any("inline" in row or "tanh(" in row for row in lines)
    assert page.locator(".panel[data-name=code] .line[data-pinned=head]").count() == 0
    choose_line(page, "# made of two")
    tanh, store = marked(page, "code", "statement")
    assert "= tanh(" in tanh
    assert store.startswith("p1[i0] =")
    details = page.locator("#details").inner_text()
    assert "cpp: kernels/cpp_map_exp_mul_tanh_0.cpp" in details


def test_a_line_that_is_chosen_shows_the_file_of_its_statements(page: Page) -> None:
    page.click("#emitters [data-emitter=python]")
    choose_line(page, "# made of one statement")
    page.click("#emitters [data-emitter=cpp]")
    (row,) = page.evaluate(
        "view.panes.code.text.rows.flatMap((row, n) => row.includes('= exp(') ? [n] : [])"
    )
    assert page.evaluate("(row) => view.panes.code.list.isInSight(row)", row)


def test_the_rows_of_loops_are_lit_by_the_line_that_they_compute(page: Page) -> None:
    page.click("#emitters [data-emitter=loops]")
    choose_line(page, "# made of two")
    found = marked(page, "code", "line")
    assert any(" = tanh " in row for row in found)
    assert not any(" = exp " in row for row in found)


def test_a_statement_leads_back_to_its_line(page: Page) -> None:
    choose_line(page, "# made of two")
    click(page, "code", "= exp(")
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "statement of kernel @map_exp_mul_tanh_0"
    assert "exp" in details.inner_text()
    assert "aten.tanh" not in details.inner_text()
    found = marked(page, "source", "inner")
    assert found == ["y = torch.exp(x)  # made of one statement"]
    assert any("kernel_call" in row for row in marked(page, "program", "line"))


def test_a_line_of_which_no_statement_is_left_marks_the_head(page: Page) -> None:
    choose_line(page, "y = y * 1")
    page.select_option("#code-file", label="kernels/cpp_map_exp_mul_tanh_0.cpp")
    (head,) = marked(page, "code", "head")
    assert head.startswith('extern "C" void map_exp_mul_tanh_0(')
    note = page.locator(".panel[data-name=code] .line[data-pinned=head] .code")
    assert note.get_attribute("data-note") == "no statement below is left of it"
    assert marked(page, "code", "statement") == []


def test_a_kernel_is_shown_from_its_own_code_on(page: Page) -> None:
    page.locator(".panel[data-name=kernels] .line", has_text="@map_exp_mul_tanh_0").click()
    rows = marked(page, "code", "kernel")
    assert rows[0].startswith('extern "C" void map_exp_mul_tanh_0(')
    assert any("exp(" in row for row in rows)
    assert marked(page, "code", "statement") == []


UNKNOWN = """\
    | #include <cmath>
    | inline float twice(float x) { return 2 * x; }
"""


def test_where_all_of_a_kernel_is_for_a_line_all_of_it_is_lit(
    opener: Opener, tmp_path: Path
) -> None:
    text = write_model(tmp_path).replace('  mul: aten.mul.Tensor in "layer" at 2\n', "")
    text = text.replace("from(relu, mul)", "from(relu)")
    page = opener.open(format_view(viewed(text)), height=1000)
    click(page, "source", "return scale(torch.relu(y))")
    page.click("#emitters [data-emitter=cpp]")
    page.select_option("#code-file", label="kernels/cpp_fused.cpp")
    assert marked(page, "code", "head") == []
    rows = marked(page, "code", "kernel")
    assert rows[0].startswith('extern "C" void fused(')
    assert any("p0[i] > 0" in row for row in rows)


def test_where_statements_are_not_known_the_head_says_so(
    opener: Opener, tmp_path: Path
) -> None:
    text = write_model(tmp_path).replace("  source {\n", f"  source {{\n{UNKNOWN}")
    page = opener.open(format_view(viewed(text)), height=1000)
    click(page, "source", "return x * 2")
    page.click("#emitters [data-emitter=cpp]")
    for pane in ("program", "code"):
        assert marked(page, pane, "statement") == []
    (head,) = marked(page, "program", "head")
    assert 'extern "C" void fused(' in head
    note = page.locator(".panel[data-name=program] .line[data-pinned=head] .code")
    expected = "which of the statements below belong to it is not known"
    assert note.get_attribute("data-note") == expected
    page.select_option("#code-file", label="kernels/cpp_fused.cpp")
    (head,) = marked(page, "code", "head")
    assert head.startswith('extern "C" void fused(')
    page.select_option("#outline", label="@fused")
    assert note.count() == 0
    page.locator("#details button", has_text="lines").last.click()
    assert not any("#include" in row for row in marked(page, "code", "kernel"))
