"""Buffers of other units lie in gaps of pools, and no peak is raised."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.analysis import Sizes, analyze_memory
from wrapperir.analysis.arithmetic import Interval
from wrapperir.interp import interpret
from wrapperir.ir import AllocatePoolLine, PlaceLine, Program, tensor
from wrapperir.passes import plan_memory
from wrapperir.testing import example_inputs
from wrapperir.text import format_program, parse_expr, parse_program
from wrapperir.verify import verify


def units(left: str, right: str, **ranges: Interval) -> int | None:
    """Return how many units of the bytes ``right`` hold 3 of the bytes ``left``."""
    sizes = Sizes(ranges)
    unit, other = (sizes.of(tensor("u8", (parse_expr(x),))).unit for x in (left, right))
    return sizes.units_for(3, unit, other)


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        ("s * 64", "s * s * 64", 2),
        ("s * 64", "s * t * 64", 1),
        ("s * s * 64", "s * 64", 24),
        ("s * 64", "64", 24),
        ("64", "s * 64", 2),
        ("s * 64 + 64", "s * t * 64", 1),
        ("s * 64", "s * t * 64 + s * 64", 1),
        ("t * 64", "s * 64", None),
        ("s * 64", "u * 64", None),
        ("u * 64", "u * u * 64", 3),
        ("u * 64", "u * t * 64", 1),
        ("s * 63", "s * t * 64", 1),
        ("s * 63", "s * 64", 5),
    ],
)
def test_sizes_are_compared_by_the_ranges_of_their_symbols(
    left: str, right: str, count: int | None
) -> None:
    inf = float("inf")
    assert units(left, right, s=(2, 8), t=(5, inf), u=(0, 4)) == count


HEAD = """\
wrapperir 1

program @main(%x: f32[s, 16]) {
  symbol s: int LOWER.. = size(%x, 0)
  %ones = extern_kernel aten.ones.default([s, s, 999]) : f32[s, s, 999]
  free %ones
"""


def squares(between: str, lower: int = 1) -> Program:
    """Return a program with two buffers of s * s * 1024 bytes, then one of half as much."""
    made = "".join(
        f"  %{name} = allocate f32[s, s, {width}]\n"
        f"  extern_kernel aten.ones.out([s, s, {width}], out = %{name}) writes(%{name})\n"
        for name, width in (("a", 256), ("b", 256))
    )
    text = f"""{HEAD.replace("LOWER", str(lower))}{made}  free %b
  %c = allocate f32[s, s, 128]
  extern_kernel aten.ones.out([s, s, 128], out = %c) writes(%c)
{between}
  free %c
  free %a
  %y = extern_kernel aten.sum.default(%x) : f32[]
  return %y
}}
"""
    program = parse_program(text)
    assert verify(program) == ()
    return program


def buffer(name: str, width: int) -> str:
    return (
        f"  %{name} = allocate f32[s, {width}]\n"
        f"  extern_kernel aten.ones.out([s, {width}], out = %{name}) writes(%{name})\n"
        f"  free %{name}"
    )


def places(program: Program) -> set[str]:
    return {line.result for line in program.lines if isinstance(line, PlaceLine)}


def check(program: Program) -> Program:
    planned = plan_memory(program)
    assert verify(planned) == ()
    for seed in range(8):
        inputs = example_inputs(program, seed)
        found = interpret(planned, example_inputs(program, seed), {})
        assert found == interpret(program, example_inputs(program, seed), {})
        size = inputs[0].shape[0]  # type: ignore[union-attr]
        before, after = (analyze_memory(x, {"s": size}).peak for x in (program, planned))
        assert after <= before
    return planned


@pytest.mark.parametrize(("lower", "width"), [(0, 128), (1, 128), (2, 256)])
def test_a_buffer_takes_a_gap_of_a_pool_of_a_larger_unit(lower: int, width: int) -> None:
    planned = check(squares(buffer("d", width), lower))
    assert places(planned) == {"a", "b", "c", "d"}
    pools = [line for line in planned.lines if isinstance(line, AllocatePoolLine)]
    assert len(pools) == 1


def test_a_buffer_that_may_be_larger_than_the_gap_stays_out() -> None:
    planned = check(squares(buffer("d", 256)))
    assert places(planned) == {"a", "b", "c"}


def test_a_pool_of_a_smaller_unit_becomes_part_of_a_larger_one() -> None:
    many = "\n".join(buffer(f"d{number}", 64) for number in range(4))
    planned = check(squares(many))
    assert places(planned) == {"a", "b", "c", *(f"d{number}" for number in range(4))}
    assert sum(isinstance(line, AllocatePoolLine) for line in planned.lines) == 1


def test_a_buffer_that_outlives_the_pool_is_allocated() -> None:
    text = format_program(squares(buffer("d", 64)))
    later = text.replace("  free %d\n", "").replace("  free %x\n", "  free %x\n  free %d\n")
    later = later.replace("  %y = ", "  %w = allocate f32[]\n  free %w\n  free %d\n  %y = ")
    assert places(check(parse_program(later))) == {"a", "b", "c"}


STATIC = """\
wrapperir 1

program @main(%x: f32[s, 16]) {
  symbol s: int 0..8 = size(%x, 0)
  %ones = extern_kernel aten.ones.default([9999]) : f32[9999]
  free %ones
  %a = allocate f32[256]
  extern_kernel aten.ones.out([256], out = %a) writes(%a)
  %b = allocate f32[256]
  extern_kernel aten.ones.out([256], out = %b) writes(%b)
  free %b
BUFFER
  free %a
  %y = extern_kernel aten.sum.default(%x) : f32[]
  return %y
}
"""


@pytest.mark.parametrize(("width", "more"), [(32, {"d"}), (33, set[str]())])
def test_a_static_pool_holds_a_buffer_of_bounded_size(width: int, more: set[str]) -> None:
    program = parse_program(STATIC.replace("BUFFER", buffer("d", width)))
    assert places(check(program)) == {"a", "b"} | more


SIZES = ("s, s, 64", "s, 64", "s, t, 32", "t, 16", "s, t", "64", "t, t, 16", "s + t, 32")


def of_buffers(buffers: list[tuple[int, int]]) -> Program:
    """Return a program with buffers of some of the sizes, each freed some buffers later.

    It takes more memory before, so that pools have room.
    """
    room = "s, s, t, t, 999"
    lines = [
        f"%room = extern_kernel aten.ones.default([{room}]) : f32[{room}]",
        "free %room",
    ]
    frees: dict[int, list[int]] = {}
    for number, (size, later) in enumerate(buffers):
        of = SIZES[size]
        lines += [
            f"%b{number} = allocate f32[{of}]",
            f"extern_kernel aten.full.out([{of}], {number + 1}, out = %b{number}) "
            f"writes(%b{number})",
        ]
        frees.setdefault(number + later, []).append(number)
        for ended in frees.pop(number, ()):
            lines += [
                f"%y{ended} = extern_kernel aten.amax.default(%b{ended}, []) : f32[]",
                f"free %b{ended}",
            ]
    left = [number for numbers in frees.values() for number in numbers]
    for ended in left:
        lines += [
            f"%y{ended} = extern_kernel aten.amax.default(%b{ended}, []) : f32[]",
            f"free %b{ended}",
        ]
    results = ", ".join(f"%y{number}" for number in range(len(buffers)))
    body = "\n  ".join(lines)
    return parse_program(f"""\
wrapperir 1

program @main(%x: f32[s, t]) {{
  symbol s: int 1..6 = size(%x, 0)
  symbol t: int 2.. = size(%x, 1)
  {body}
  return {results}
}}
""")


@given(
    st.lists(st.tuples(st.integers(0, len(SIZES) - 1), st.integers(0, 6)), min_size=4),
    st.integers(1, 3),
    st.integers(2, 4),
)
def test_whatever_is_filled_keeps_its_values_and_no_peak_rises(
    buffers: list[tuple[int, int]], s: int, t: int
) -> None:
    program = of_buffers(buffers)
    assert verify(program) == ()
    planned = plan_memory(program)
    assert verify(planned) == ()
    x = torch.zeros(s, t)
    assert interpret(planned, [x], {}) == interpret(program, [x], {})
    peaks = [analyze_memory(each, {"s": s, "t": t}).peak for each in (program, planned)]
    assert peaks[1] <= peaks[0]
