"""What passes did to memory is listed by value."""

from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import Program
from wrapperir.ir.line_effects import value_names
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import ChosenPass, run_passes
from wrapperir.report.memory_changes import (
    MemoryChange,
    MemoryChangeKind,
    format_memory_changes,
    frontend_reuse,
    memory_changes,
)
from wrapperir.testing import programs
from wrapperir.text import parse_program

REUSING = """\
wrapperir 1

program @main(%x: f32[8, 8]) {
  %a = allocate f32[8, 8]
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  %b = reuse %a as f32[64]
  %c = reuse %b as f32[8, 8] by(reuse_buffers)
  extern_kernel aten.cos.out(%x, out = %c) writes(%c)
  return %c
}
"""

TEXT = """\
wrapperir 1

program @main(%x: f32[8, 8]) {
  %unused = allocate f32[8]
  free %unused
  %a = allocate f32[8, 8]
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  %b = allocate f32[8, 8]
  extern_kernel aten.cos.out(%a, out = %b) writes(%b)
  free %a
  %c = allocate f32[8, 8]
  extern_kernel aten.exp.out(%b, out = %c) writes(%c)
  free %b
  %d = extern_kernel aten.sum.default(%c) : f32[]
  free %c
  return %d
}
"""


def changes_of(program: Program, passes: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def observe(ran: ChosenPass, old: Program, new: Program) -> None:
        for each in memory_changes(old, new, {}):
            found.append((ran.name, f"%{each.value} {each.text}, {each.bytes}"))

    run_passes(program, passes, after=observe)
    return found


def test_a_change_says_what_was_done_with_which_memory_by_which_pass() -> None:
    program = parse_program(TEXT)
    assert changes_of(program, "remove_dead_lines, reuse_buffers") == [
        ("remove_dead_lines", "%unused removed, 32"),
        ("reuse_buffers", "%c given the memory of %a, 256"),
    ]
    assert changes_of(program, "plan_memory") == [
        ("plan_memory", "%pool0 given memory of its own, 256"),
        ("plan_memory", "%unused placed in %pool0 at 0, 32"),
        ("plan_memory", "%a placed in %pool0 at 0, 256"),
    ]
    assert memory_changes(program, program, {}) == ()


def test_a_value_that_is_placed_elsewhere_changed() -> None:
    text = "  %p = allocate_pool pool[512]\n  %a = place f32[8, 8] in %p at 0\n"
    before = parse_program(
        TEXT.replace("  %a = allocate f32[8, 8]\n", text).replace(
            "  return", "  free %p\n  return"
        )
    )
    after = parse_program(
        TEXT.replace("  %a = allocate f32[8, 8]\n", text.replace("at 0", "at 256")).replace(
            "  return", "  free %p\n  return"
        )
    )
    assert memory_changes(before, after, {}) == (
        MemoryChange("a", MemoryChangeKind.PLACED, "p", 256, 256),
    )


@settings(max_examples=draws(20, fuzz=200), deadline=None)
@given(programs())
def test_changes_name_values_of_either_program(program: Program) -> None:
    result = run_passes(program, MEMORY_PASSES)
    old, new = set(value_names(program)), set(value_names(result))
    for each in memory_changes(program, result, {}):
        is_removed = each.kind is MemoryChangeKind.REMOVED
        assert each.value in (old - new if is_removed else new)
        if each.holder is not None:
            assert each.holder in new


def test_a_reuse_that_no_pass_made_is_the_frontends() -> None:
    found = frontend_reuse(parse_program(REUSING), {})
    assert [(x.value, x.holder, x.bytes) for x in found] == [("b", "a", 256)]
    shown = format_memory_changes([("the frontend", change) for change in found])
    assert shown == (
        "\nwhat the frontend and passes did to the memory of values:\n"
        "  the frontend:\n    %b given the memory of %a, 256 bytes\n"
    )
