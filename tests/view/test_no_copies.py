"""Where nothing is copied, the page says so under its own heading, and counts no copy."""

from tests.report.conftest import Opener
from tests.report.test_copies import FUSED_COPY, SCATTERED
from tests.view.test_view_page import viewed
from wrapperir.view import format_view

PLACED = SCATTERED.replace(
    """\
  full, select_scatter: aten.select_backward.default
  add: aten.add.Tensor
  clone: aten.clone.default
""",
    """\
  place 0: "model.py" 3
  place 1: "model.py" 4
  place 2: "model.py" 5
  full, select_scatter: aten.select_backward.default at 0
  add: aten.add.Tensor at 1
  clone: aten.clone.default at 2
""",
)


def test_a_copy_and_no_copy_have_their_own_headings(opener: Opener) -> None:
    page = opener.open(format_view(viewed(PLACED, [])), height=1000)
    page.locator(".panel[data-name=program] .line", has_text="kernel_call").click()
    details = page.locator("#details").inner_text()
    made, not_made = details.split("Why there is a copy")[1].split(
        "Why there is no other copy"
    )
    assert "select_scatter" in made
    assert "lays it out" not in made
    assert "lays it out, without a copy" in not_made


def test_no_copy_is_another_one_only_beside_a_copy(opener: Opener) -> None:
    page = opener.open(format_view(viewed(PLACED, [])), height=1000)
    details = page.locator("#details")
    page.evaluate("view.pin({ kind: 'place', index: '0:5' })")
    assert "Why there is no copy" in details.inner_text()
    assert "Why there is a" not in details.inner_text()


def test_what_is_no_copy_is_not_counted(opener: Opener) -> None:
    page = opener.open(format_view(viewed(PLACED, [])), height=1000)
    details = page.locator("#details")
    page.evaluate("view.pin({ kind: 'place', index: '0:4' })")
    assert "its lines make or read 1 copy for other nodes" in details.inner_text()
    page.evaluate("view.pin({ kind: 'place', index: '0:3' })")
    assert "Why there is a copy" in details.inner_text()
    assert "for other nodes" not in details.inner_text()


def test_the_search_has_no_copies_in_a_group_of_their_own(opener: Opener) -> None:
    text = FUSED_COPY.replace(
        '"copies.c.y" = 64', '"copies.c.y" = 64\n  metadata "copies.c.y.computed" = true'
    )
    page = opener.open(format_view(viewed(text, [])), height=1000)
    page.fill("#search", "copy:")
    page.locator("#results .group", has_text="written without a copy").wait_for()
    results = page.locator("#results > *").all_inner_texts()
    at = [results.index(name) for name in ("copies", "written without a copy")]
    assert at[0] < at[1]
    assert all("why there is a copy" in each for each in results[at[0] + 1 : at[1]])
    assert "why there is no copy: writes what it computes for %y" in results[at[1] + 1]
