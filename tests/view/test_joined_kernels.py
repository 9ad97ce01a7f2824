"""Kernels that run others in turn show their nodes by these parts."""

import pytest
import torch
from playwright.sync_api import Page

from tests.report.conftest import Opener
from tests.view.test_lowering_stages import links
from wrapperir.frontend.lowering.exported import lower_exported
from wrapperir.text import format_with_positions
from wrapperir.view import ProgramText, format_view, view_program


class TwoSums(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin().sum(0), x.cos().sum(1)


@pytest.fixture
def page(opener: Opener) -> Page:
    stages = lower_exported(torch.export.export(TwoSums(), (torch.randn(16, 32),)))
    text, positions = format_with_positions(stages.lowered.program)
    shown = ProgramText(stages.lowered.program, text, positions)
    view = view_program(shown, "model.py", {}, [], stages=links(stages))
    (kernel,) = view.program.kernels
    names = [[view.program.nodes[node].name for node in part] for _, part in kernel.parts]
    assert names == [["sin", "sum_1"], ["cos", "sum_2"]]
    return opener.open(format_view(view), height=1000)


def test_nodes_of_a_kernel_are_listed_by_its_parts(page: Page) -> None:
    details = page.locator("#details")
    for target in ("kernel", "line"):
        line = "view.links.kernels.calls[0][0]" if target == "line" else "0"
        page.evaluate(f"view.pin({{ kind: '{target}', index: {line} }})")
        shown = details.inner_text()
        assert "4 nodes of the graph, in 2 kernels that run in turn" in shown
        first, second = shown.split("1 of 2: ")[1].split("2 of 2: ")
        assert "sin" in first
        assert "cos" not in first
        assert "cos" in second
        assert "sin" not in second


def test_views_of_no_part_are_listed_after_the_parts(opener: Opener) -> None:
    class Scattered(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            zeros = torch.zeros(3, 16, 32)
            z = [torch.select_scatter(zeros, part, 0, n) for n, part in enumerate((x, y))]
            return (z[0] + z[1] + x).permute(1, 2, 0).contiguous()

    inputs = torch.randn(16, 32), torch.randn(16, 32)
    stages = lower_exported(torch.export.export(Scattered(), inputs))
    text, positions = format_with_positions(stages.lowered.program)
    shown = ProgramText(stages.lowered.program, text, positions)
    view = view_program(shown, "model.py", {}, [], stages=links(stages))
    (kernel,) = view.program.kernels
    named = {node for _, part in kernel.parts for node in part}
    left = {*view.program.lines[kernel.calls[0]].nodes} - named
    assert [view.program.nodes[node].name for node in left] == ["permute"]
    page = opener.open(format_view(view), height=1000)
    page.evaluate("view.pin({ kind: 'kernel', index: 0 })")
    details = page.locator("#details").inner_text()
    assert "permute" in details.split("views that these read through")[1]


def test_nodes_of_a_place_are_in_one_list(page: Page) -> None:
    page.evaluate("view.pin({ kind: 'node', index: 0 })")
    assert "in turn" not in page.locator("#details").inner_text()


def test_statements_of_other_kernels_do_not_belong_to_a_call(opener: Opener) -> None:
    """Both kernels read the same view; a call of one lights no loop of the other."""

    class Views(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x.t()
            z = (y.sin() @ w).cos()
            return z, (y + z)

    inputs = torch.randn(16, 16), torch.randn(16, 16)
    stages = lower_exported(torch.export.export(Views(), inputs))
    text, positions = format_with_positions(stages.lowered.program)
    shown = ProgramText(stages.lowered.program, text, positions)
    view = view_program(shown, "model.py", {}, [], stages=links(stages))
    page = opener.open(format_view(view), height=1000)
    first, last = view.program.kernels
    shared = {*view.program.lines[first.calls[0]].nodes}
    assert shared & {*view.program.lines[last.calls[0]].nodes}
    page.evaluate(f"view.pin({{ kind: 'line', index: {last.calls[0]} }})")
    rows = page.locator(".panel[data-name=code] .line")
    states = [
        (row.inner_text().split("\n")[-1], row.get_attribute("data-pinned") or "")
        for row in rows.all()
    ]
    kernel, of_kernel = "", dict[str, set[str]]()
    for row, state in states:
        if row.startswith("kernel "):
            kernel = row.split("(")[0].split()[1]
        if kernel and row.startswith("    "):
            of_kernel.setdefault(kernel, set()).add(state)
        elif not row.startswith("kernel "):
            kernel = ""
    assert of_kernel[first.name] == {""}
    assert of_kernel[last.name] == {"kernel"}
