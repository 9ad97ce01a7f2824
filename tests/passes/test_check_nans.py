"""Checks stand around kernel calls, of what may hold NaN and something at all."""

import pytest
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import AssertNotNanLine, Language, Program
from wrapperir.passes import check_nans
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def kernel(name: str, parameters: str) -> str:
    return f"""kernel_definition @{name} cpp({parameters}) {{
  entry = {name}
  source {{
    | ...
  }}
}}

"""


KERNELS = (
    kernel("copy", "x: read f32*, y: write f32*, n: i64")
    + kernel("relu", "x: read_write f32*")
    + kernel("add", "a: read f32*, b: read f32*, y: write f32*")
    + kernel("split", "x: read f32*, ws: read_write f32*, y: write f32*")
    + kernel("ints", "x: read i32*, b: read bool*, y: write i64*")
)
MULTI = """multi_kernel @either(x: read f32*, ws: read_write f32*, y: write f32*) {
  choice @split(0, 1, 2) workspace(ws, 8, zero_on_call)
  select benchmark
}

multi_kernel @some(x: read f32*, y: read_write f32*, n: i64) {
  choice @copy(0, 1, 2)
  choice @relu(1)
  select forced(1)
}

"""


def checked(lines: str, inputs: str = "%x: f32[8], %y: mutated f32[8]") -> list[str]:
    """Return the lines of a program after the pass, but for its first and last."""
    main = f"program @main({inputs}) {{\n{lines}\n  return\n}}\n"
    text = f"wrapperir 1\n\n{KERNELS}{MULTI}{main}"
    before = parse_program(text)
    assert verify(before) == ()
    after = check_nans(before)
    assert verify(after) == ()
    assert check_nans(after) == after
    body = format_program(after).split("program @main(")[1].split("\n")[1:-3]
    return [line.strip() for line in body if line.strip()]


def test_reads_before_and_writes_after() -> None:
    assert checked("  kernel_call @copy(%x, %y, 8)") == [
        'assert_not_nan %x "input x of @copy is not finite"',
        "kernel_call @copy(%x, %y, 8)",
        'assert_not_nan %y "output y of @copy is not finite"',
    ]


def test_what_is_read_and_written_is_checked_twice() -> None:
    assert checked("  kernel_call @relu(%y)") == [
        'assert_not_nan %y "input x of @relu is not finite"',
        "kernel_call @relu(%y)",
        'assert_not_nan %y "output x of @relu is not finite"',
    ]


def test_each_name_once() -> None:
    assert checked("  kernel_call @add(%x, %x, %y)") == [
        'assert_not_nan %x "input a of @add is not finite"',
        "kernel_call @add(%x, %x, %y)",
        'assert_not_nan %y "output y of @add is not finite"',
    ]


def test_what_was_just_checked_is_not_checked_again() -> None:
    lines = """  assert_not_nan %x "mine"
  kernel_call @copy(%x, %y, 8)
  kernel_call @relu(%y)
  assert_not_nan %y "mine, too"
  free %x"""
    assert checked(lines) == [
        'assert_not_nan %x "mine"',
        "kernel_call @copy(%x, %y, 8)",
        'assert_not_nan %y "output y of @copy is not finite"',
        "kernel_call @relu(%y)",
        'assert_not_nan %y "mine, too"',
        "free %x",
    ]


def test_integers_are_not_checked() -> None:
    inputs = "%i: i32[8], %b: bool[8], %l: mutated i64[8]"
    assert checked("  kernel_call @ints(%i, %b, %l)", inputs) == [
        "kernel_call @ints(%i, %b, %l)"
    ]


@pytest.mark.parametrize(
    ("dtype", "is_checked"),
    [
        *((dtype, 1) for dtype in ("f64", "f16", "bf16", "f8e4m3fn", "f8e8m0fnu", "c64")),
        *((dtype, 0) for dtype in ("f4e2m1fn_x2", "u8", "bool", "i64")),
    ],
)
def test_element_types(dtype: str, is_checked: int) -> None:
    text = "wrapperir 1\n" + kernel("k", f"x: read {dtype}*")
    text += f"program @main(%x: {dtype}[8]) {{\n  kernel_call @k(%x)\n  return\n}}\n"
    lines = check_nans(parse_program(text)).lines
    assert sum(isinstance(line, AssertNotNanLine) for line in lines) == is_checked


@pytest.mark.parametrize("mode", ["uninitialized", "zero_on_call", "zero_per_program"])
def test_workspaces_are_not_checked(mode: str) -> None:
    is_kept = mode == "zero_per_program"
    lines = f"""  %ws = allocate f32[8] workspace({mode})
  extern_kernel aten.zero_.default(%ws) writes(%ws)
  %view = reinterpret %ws as f32[2, 4]
  kernel_call @split(%x, %ws, %y)
  kernel_call @split(%x, %view, %y)
  free %view"""
    found = checked(lines if is_kept else f"{lines}\n  free %ws")
    assert not [line for line in found if "assert_not_nan %ws" in line]
    assert not [line for line in found if "assert_not_nan %view" in line]
    # %x once a call, %y after each
    assert len([line for line in found if line.startswith("assert_not_nan")]) == 4


def test_workspaces_of_choices_are_not_checked() -> None:
    lines = """  %ws = allocate f32[8] workspace(zero_on_call)
  kernel_call @either(%x, %ws, %y)
  free %ws"""
    assert checked(lines)[1:4] == [
        'assert_not_nan %x "input x of @either is not finite"',
        "kernel_call @either(%x, %ws, %y)",
        'assert_not_nan %y "output y of @either is not finite"',
    ]


def test_the_arguments_of_all_choices_are_checked() -> None:
    assert checked("  kernel_call @some(%x, %y, 8)") == [
        'assert_not_nan %x "input x of @some is not finite"',
        'assert_not_nan %y "input y of @some is not finite"',
        "kernel_call @some(%x, %y, 8)",
        'assert_not_nan %y "output y of @some is not finite"',
    ]


def test_calls_in_blocks() -> None:
    lines = """  %ws = allocate f32[8] workspace(zero_on_call)
  subgraph_call @f (%ws, %x, %y) {
    body (%p: f32[8], %q: f32[8], %r: f32[8]) {
      kernel_call @split(%q, %p, %r)
      return
    }
  }
  free %ws"""
    assert checked(lines)[3:6] == [
        'assert_not_nan %q "input x of @split is not finite"',
        "kernel_call @split(%q, %p, %r)",
        'assert_not_nan %r "output y of @split is not finite"',
    ]


@settings(max_examples=6)
@given(before=programs(languages=(Language.CPP,), max_steps=10))
def test_the_meaning_stays(before: Program) -> None:
    after = check_nans(before)
    assert check_nans(after) == after
    known = behaviour(before)
    assert not pass_faults(known, behaviour(after, known.symbols))


@settings(max_examples=draws(30, fuzz=60))
@given(before=programs(max_steps=24))
def test_programs_stay_valid(before: Program) -> None:
    after = check_nans(before)
    assert verify(after) == ()
    assert check_nans(after) == after
