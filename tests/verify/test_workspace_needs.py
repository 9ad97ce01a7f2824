"""Workspaces that the choices of multi-kernels need, and those that calls give them."""

import pytest

from tests.verify.multi_kernel_text import (
    CALL,
    SIZES,
    codes,
    found,
)
from wrapperir.diagnostics import Code
from wrapperir.ir import ZeroMode


def choice(*needs: str) -> str:
    return "  choice @split(0, 1, 2, 3) " + " ".join(f"workspace({n})" for n in needs)


@pytest.mark.parametrize(
    "need",
    [
        "ws, 0, uninitialized",
        "ws, n * 4, zero_on_call",
        "ws, max(M, 64), zero_per_program",
        "out, 4, uninitialized",
        "ws, ceil(t) * 0 + n, uninitialized",
    ],
)
def test_needs_that_are_sound(need: str) -> None:
    is_mixed = "ceil(t)" in need
    assert codes(SIZES + choice(need)) == ([Code.WORKSPACE_NEED] if is_mixed else [])


@pytest.mark.parametrize(
    "needs",
    [
        ("x, 4, uninitialized",),  # it is read
        ("n, 4, uninitialized",),
        ("9, 4, uninitialized",),
        ("-1, 4, uninitialized",),
        ("ws, 4, uninitialized", "ws, 8, uninitialized"),
        ("out, 4, zero_on_call",),  # it is not read
        ("out, 4, zero_per_program",),
        ("ws, -4, uninitialized",),
        ("ws, 4.0, uninitialized",),
        ("ws, t, uninitialized",),
        ("ws, s0 * 4, uninitialized",),
        ("ws, x, uninitialized",),
    ],
)
def test_needs_that_are_not(needs: tuple[str, ...]) -> None:
    (diagnostic,) = found(choice(*needs))
    assert diagnostic.code is Code.WORKSPACE_NEED
    assert diagnostic.path == ("definitions", 4, "choices", 0)


def test_a_choice_needs_nothing_of_what_it_does_not_take() -> None:
    assert codes("  choice @plain(0, 2, 3) workspace(ws, 4, uninitialized)") == [
        Code.WORKSPACE_NEED
    ]


MODES = [mode.value for mode in ZeroMode]


@pytest.mark.parametrize("left", MODES)
@pytest.mark.parametrize("right", MODES)
def test_modes_combine_or_both_choices_are_named(left: str, right: str) -> None:
    other = f"  choice @other(0, 1, 2, 3) workspace(ws, 8, {right})"
    diagnostics = found(f"{choice(f'ws, 4, {left}')}\n{other}")
    refused = left != right and "zero_per_program" in (left, right)
    assert [d.code for d in diagnostics] == [Code.WORKSPACE_MODES] * refused
    for diagnostic in diagnostics:
        assert "workspace ws" in diagnostic.message
        assert left in diagnostic.message
        assert right in diagnostic.message
        assert diagnostic.path == ("definitions", 4, "choices", 1)


# What choices need, how the argument begins, and whether the one does for the other.
DOES = [
    ("uninitialized", None, True),  # as passes make of a workspace
    ("uninitialized", "uninitialized", True),
    ("uninitialized", "zero_on_call", True),
    ("uninitialized", "zero_per_program", False),
    ("zero_on_call", None, False),
    ("zero_on_call", "uninitialized", False),
    ("zero_on_call", "zero_on_call", True),
    ("zero_on_call", "zero_per_program", False),
    ("zero_per_program", None, False),
    ("zero_per_program", "uninitialized", False),
    ("zero_per_program", "zero_on_call", True),
    ("zero_per_program", "zero_per_program", True),
]


def allocate(mode: str | None, size: str = "64") -> str:
    workspace = "" if mode is None else f" workspace({mode})"
    lines = f"  %ws = allocate f32[{size}]{workspace}\n"
    if mode in (None, "uninitialized"):
        lines += "  extern_kernel aten.zero_.default(%ws) writes(%ws)\n"
    return lines


def freed(mode: str | None) -> str:
    return "" if mode == "zero_per_program" else "\n  free %ws"


@pytest.mark.parametrize(("need", "mode", "does"), DOES)
def test_a_workspace_begins_as_choices_need_it(
    need: str, mode: str | None, does: bool
) -> None:
    lines = allocate(mode) + CALL + freed(mode)
    diagnostics = found(choice(f"ws, 64, {need}"), lines)
    assert [d.code for d in diagnostics] == [Code.WORKSPACE_ARGUMENT] * (not does)
    assert all(d.subject == "%ws" for d in diagnostics)


@pytest.mark.parametrize(("need", "mode", "does"), DOES)
def test_a_block_is_lent_workspaces(need: str, mode: str | None, does: bool) -> None:
    inside = CALL.replace("%ws", "%p").replace("%x", "%q").replace("%y", "%r")
    lines = f"""{allocate(mode)}  subgraph_call @f (%ws, %x, %y) {{
    body (%p: f32[64], %q: f32[s0, 8], %r: f32[s0, 8]) {{
    {inside}
      return
    }}
  }}{freed(mode)}"""
    assert codes(choice(f"ws, 64, {need}"), lines) == [Code.WORKSPACE_ARGUMENT] * (not does)


def test_workspaces_of_pools_and_views_count() -> None:
    placed = """  %pool = allocate_pool pool[256]
  %ws = place f32[64] in %pool at 0 workspace(zero_on_call)
"""
    need = choice("ws, 64, zero_on_call")
    assert codes(need, f"{placed}{CALL}\n  free %ws\n  free %pool") == []
    view = "  %v2 = reinterpret %ws as f32[8, 8]\n"
    call = CALL.replace("%ws", "%v2")
    assert codes(need, f"{placed}{view}{call}\n  free %v2\n  free %ws\n  free %pool") == []
    again = "  %v2 = reuse %ws as f32[64]\n"  # it begins with what was there
    assert codes(need, f"{placed}{again}{call}\n  free %v2\n  free %pool") == [
        Code.WORKSPACE_ARGUMENT
    ]


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        ("64", "64", True),
        ("65", "64", False),
        ("64", "8, 8", True),
        ("65", "8, 8", False),
        ("n", "8", True),  # the call gives 8
        ("n + 1", "8", False),
        ("M * N", "s0 * 8", True),
        ("M * N", "8, s0", True),
        ("M * N + 1", "s0 * 8", False),
        ("M * N", "15", False),  # s0 is 2 or more
        ("M * N", "16", True),  # perhaps
        ("M * N", "799", True),  # perhaps
        ("max(M, 64)", "64", True),
        ("max(M, 64)", "63", False),
        ("ceildiv(M, 2) * 2", "s0", True),  # where s0 is even
        ("where(M < 3, 64, 32)", "31", False),
        ("where(M < 3, 64, 32)", "32", True),
        ("M + 0.5", "1", True),  # counts that are not whole are not checked
    ],
)
def test_a_workspace_is_large_enough(count: str, size: str, expected: bool) -> None:
    mode = "zero_on_call"
    lines = allocate(mode, size) + CALL + freed(mode)
    small = f"  choice @other(0, 1, 2, 3) workspace(ws, 1, {mode})"
    body = f"{SIZES}{small}\n{choice(f'ws, {count}, {mode}')}"
    diagnostics = found(body, lines)
    assert [d.code for d in diagnostics] == [Code.WORKSPACE_ARGUMENT] * (not expected)
    assert all("@split" in d.message for d in diagnostics)


@pytest.mark.parametrize(
    ("count", "size", "amounts"),
    [
        ("65", "64", "65 elements of %ws, which has 64"),
        ("65", "8, 8", "65 elements of %ws, which has 64"),
        ("n * 2 + 1", "8", "n * 2 + 1 = 17 elements of %ws, which has 8"),
        ("M * N + 1", "s0 * 8", "M * N + 1 elements of %ws, which has s0 * 8"),
        ("M * N + 1", "8, s0", "M * N + 1 elements of %ws, which has 8 * s0"),
        ("M * N", "s0 - 1", "M * N elements of %ws, which has s0 - 1"),
        ("M * N", "s0 - 1, 2", "M * N elements of %ws, which has (s0 - 1) * 2"),
        (" + ".join("M" * 40), "s0", "another number of elements of %ws, which has s0"),
        (" + ".join("n" * 40), "s0", "320 elements of %ws, which has s0"),
    ],
)
def test_a_small_workspace_is_told_with_what_is_needed(
    count: str, size: str, amounts: str
) -> None:
    lines = allocate("zero_on_call", size) + CALL + freed("zero_on_call")
    (diagnostic,) = found(f"{SIZES}{choice(f'ws, {count}, zero_on_call')}", lines)
    assert diagnostic.message == f"the choice @split needs {amounts}"


def test_what_a_call_is_given_wrongly_is_reported_once() -> None:
    body = f"{SIZES}{choice('ws, n, zero_on_call')}"
    assert codes(body, CALL) == [Code.UNDEFINED_NAME]
    assert codes(body, "  kernel_call @any(8, %w, %y, 8, 0)")[0] is Code.ARGUMENT_KIND
    wrong = "  kernel_call @any(%x, 8, %y, 8, 0)"
    assert codes(body, wrong) == [Code.ARGUMENT_KIND]
    block = """  subgraph_call @f (%nothing) {
    body (%p: f32[64]) {
      return
    }
  }"""
    assert codes(body, block) == [Code.UNDEFINED_NAME]
