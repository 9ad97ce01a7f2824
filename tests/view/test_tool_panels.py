"""The passes and the decisions: what is wanted of them is in sight."""

import pytest
from attrs import evolve
from playwright.sync_api import Page

from tests.report.conftest import Opener
from tests.view.test_view_page import viewed
from wrapperir.view import format_view
from wrapperir.view.links import ShownDecision


def many_values() -> str:
    """Return a program of enough values that the list of their memory is long."""
    lines = ["wrapperir 1", "", "program @main(%x: f32[64]) {"]
    for n in range(40):
        lines += [
            f"  %a{n} = allocate f32[64]",
            f"  extern_kernel aten.sin.out(%x, out = %a{n}) writes(%a{n})",
            f"  %b{n} = extern_kernel aten.cos.default(%a{n}) : f32[64]",
            f"  free %a{n}",
        ]
    outputs = ", ".join(f"%b{n}" for n in range(40))
    return "\n".join([*lines, f"  return {outputs}", "}", ""])


def open_tool(page: Page, name: str) -> None:
    buttons = "panels" if page.evaluate("innerWidth") < 900 else "tabs"
    page.click(f"#{buttons} [data-panel={name}]")


def is_in_sight(page: Page, selector: str) -> bool:
    """Whether an element is shown whole: nothing is over it, and no panel cuts it."""
    box = page.locator(selector).bounding_box()
    assert box is not None
    is_at = "([x, y, it]) => Boolean(document.elementFromPoint(x, y)?.closest(it))"
    corners = [(box["x"] + 3, box["y"] + 1), (box["x"] + 3, box["y"] + box["height"] - 2)]
    return all(page.evaluate(is_at, [x, y, selector]) for x, y in corners)


@pytest.mark.parametrize(("width", "height"), [(1400, 700), (1400, 900), (800, 900)])
def test_a_pass_of_the_list_of_memory_shows_what_it_changed(
    opener: Opener, width: int, height: int
) -> None:
    view = viewed(many_values(), [], "plan_memory")
    page = opener.open(format_view(view), width=width, height=height)
    open_tool(page, "passes")
    page.click("#memory-changes summary")
    row = page.locator("#memory-changes .place", has_text="%a30").last
    row.locator("button", has_text="plan_memory").click()
    found = ".panel[data-name=passes] .line.found"
    assert "%a30 = place" in page.locator(found).inner_text()
    assert is_in_sight(page, found)
    assert row.is_visible()
    assert page.locator("#memory-changes .place").first.is_visible()


@pytest.mark.parametrize("width", [1400, 800])
def test_reasons_of_decisions_are_in_sight(opener: Opener, width: int) -> None:
    subject = " ".join(f"mul_{n}_loop" for n in range(40))
    decided = ShownDecision(
        kind="not fused", subject=subject, reason="the iteration spaces differ", bytes=4096
    )
    fused = ShownDecision(kind="fused", subject="sin_loop with cos_loop")
    view = evolve(viewed(many_values(), []), decisions=(decided, fused))
    page = opener.open(format_view(view), width=width, height=900)
    open_tool(page, "decisions")
    panel = page.locator(".panel[data-name=decisions]")
    reason = panel.locator(".reason").first.bounding_box()
    bounds = panel.bounding_box()
    assert reason is not None
    assert bounds is not None
    assert reason["x"] + reason["width"] <= bounds["x"] + bounds["width"]
    rows = panel.locator(".row").all_inner_texts()
    assert [" ".join(row.split()) for row in rows] == [
        f"not fused 4 KiB the iteration spaces differ {subject}",
        "fused sin_loop with cos_loop",
    ]
