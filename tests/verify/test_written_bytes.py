"""Reads of bytes that nothing wrote are found by the verifier and the interpreter alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import Program, TensorType, tensor
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.text import parse_program
from wrapperir.verify import verify


def verified(program: Program) -> set[Code]:
    return {d.code for d in verify(program)}


def faults_of(program: Program) -> set[Code]:
    try:
        interpret(program, example_inputs(program), example_constants(program))
    except DiagnosticError as error:
        return {d.code for d in error.diagnostics}
    return set()


def check(text: str, *, fault: bool) -> None:
    """Hold verifier and interpreter to one answer."""
    program = parse_program(f"wrapperir 1\n{KERNELS}\nprogram @main({PARAMETERS}) {text}")
    assert verified(program) == ({Code.UNINITIALIZED_READ} if fault else set())
    assert faults_of(program) == ({Code.RUN_UNINITIALIZED_READ} if fault else set())


PARAMETERS = "%x: f32[4], %flag: bool[], %n: i64"
KERNELS = """
kernel_definition @copy cpp(source: read f32*, target: write f32*, count: i64) {
  entry = copy
  source {
    | extern "C" void copy(const float* s, float* t, long n) {
    |   for (long i = 0; i < n; ++i) t[i] = s[i];
    | }
  }
}
kernel_definition @fill triton(target: write f32*, count: i32) {
  grid = (1)
  entry = fill
  source {
    | import triton
    | import triton.language as tl
    |
    | @triton.jit
    | def fill(target, count):
    |     i = tl.arange(0, 8)
    |     tl.store(target + i, 1.0, i < count)
  }
}
"""
HALF = """{
  %a = allocate f32[8]
  %h = reinterpret %a as f32[4]
"""
END = """
  free %h
  free %a
  return
}
"""


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("extern_kernel aten.sum.default(%a)", True),
        ("extern_kernel aten.sum.default(%h)", True),
        ("extern_kernel aten.zero_.default(%h) writes(%h)\n  {sum}(%a)", True),
        ("extern_kernel aten.zero_.default(%h) writes(%h)\n  {sum}(%h)", False),
        ("extern_kernel aten.zero_.default(%h) writes(%h)\n  assert_not_nan %a", True),
        ("extern_kernel aten.zero_.default(%h) writes(%h)\n  assert_not_nan %h", False),
        # an operator that looks at sizes, returns a view or writes reads nothing for sure
        ("extern_kernel aten.ones_like.default(%a)", False),
        ("extern_kernel aten.zero_.default(%a) writes(%a)\n  {sum}(%a)", False),
        # a C++ kernel reads some of its argument, which is enough, but not none
        ("kernel_call @copy(%x, %h, 4)\n  kernel_call @copy(%a, %h, 4)", False),
        ("kernel_call @copy(%x, %h, 4)\n  {sum}(%a)", True),
        # what a Triton kernel writes is not known from its argument
        ("kernel_call @fill(%h, 8)\n  {sum}(%a)", False),
    ],
)
def test_a_part_that_is_written(lines: str, fault: bool) -> None:
    text = lines.replace("{sum}", "extern_kernel aten.sum.default")
    check(f"{HALF}  {text}{END}", fault=fault)


def test_a_kernel_that_reads_a_part_that_nothing_wrote() -> None:
    check(
        """{
  %a = allocate f32[8]
  %h = reinterpret %a as f32[4]
  %g = reinterpret %a as f32[4; offset 4]
  %b = allocate f32[4]
  extern_kernel aten.zero_.default(%h) writes(%h)
  kernel_call @copy(%g, %b, 4)
  free %h
  free %g
  free %a
  free %b
  return
}
""",
        fault=True,
    )


@pytest.mark.parametrize(("view", "fault"), [("f32[4]", True), ("f32[8]", False)])
def test_what_a_block_writes_is_written(view: str, fault: bool) -> None:
    check(
        f"""{{
  %a = allocate f32[8]
  conditional 1 (%a) {{
    true (%p: f32[8]) {{
      %v = reinterpret %p as {view}
      extern_kernel aten.zero_.default(%v) writes(%v)
      free %v
      return
    }}
    false (%q: f32[8]) {{
      return
    }}
  }}
  extern_kernel aten.sum.default(%a)
  free %a
  return
}}
""",
        fault=fault,
    )


def test_an_output_need_not_be_written() -> None:
    # ``torch.empty`` gives such an output; only a run of the interpreter refuses it
    text = "program @main() {\n  %a = allocate f32[8]\n  return %a\n}\n"
    program = parse_program(f"wrapperir 1\n{text}")
    assert verified(program) == set()
    assert faults_of(program) == {Code.RUN_UNINITIALIZED_READ}


def test_a_read_is_reported_once() -> None:
    text = HALF + "  extern_kernel aten.sum.default(%a)\n" * 3 + END
    program = parse_program(f"wrapperir 1\nprogram @main() {text}")
    (found,) = verify(program)
    assert found.message == "aten.sum.default reads %a, which nothing has written"


def test_other_programs_may_write_memory_of_collectives() -> None:
    type = "f32[8] {space = comm}"
    text = f"  %a = allocate {type}\n  extern_kernel aten.sum.default(%a)\n  free %a"
    program = parse_program(f"wrapperir 1\nprogram @main() {{\n{text}\n  return\n}}\n")
    assert verified(program) == set()


def test_symbolic_sizes_may_be_zero() -> None:
    text = """wrapperir 1
program @main(%n: i64) {
  symbol n: int LOW.. = value(%n)
  %a = allocate f32[n]
  extern_kernel aten.sum.default(%a)
  free %a
  return
}
"""
    assert verified(parse_program(text.replace("LOW", "0"))) == set()
    assert verified(parse_program(text.replace("LOW", "1"))) == {Code.UNINITIALIZED_READ}


SIZES = st.integers(1, 3)


@st.composite
def views(draw: st.DrawFn, elements: int) -> TensorType:
    """Draw a view of a storage of so many elements, with gaps or overlaps perhaps."""
    size = tuple(draw(st.lists(SIZES, max_size=3)))
    stride = tuple(draw(st.integers(0, 4)) for _ in size)
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if extent > elements:
        size, stride, extent = (), (), 1
    offset = draw(st.integers(0, elements - extent))
    return tensor("f32", size, stride, offset=offset)


@st.composite
def partly_written(draw: st.DrawFn) -> Program:
    """Draw a program that writes views of a buffer and reads another view of it."""
    b = ProgramBuilder()
    elements = draw(st.integers(1, 12))
    buffer = b.allocate(tensor("f32", (elements,)))
    made: list[NamedValue] = []
    for _ in range(draw(st.integers(0, 4))):
        view = b.reinterpret(buffer, draw(views(elements)))
        made.append(view)
        if 0 not in view.type.stride:  # type: ignore[union-attr]
            b.extern_out("aten.zero_.default", view, writes=[view])
    last = b.reinterpret(buffer, draw(views(elements)))
    total = b.extern("aten.sum.default", last, type=tensor("f32", ()))
    b.free(*made, last, buffer)
    return b.build(total)


@settings(max_examples=draws(200, fuzz=1000), deadline=None)
@given(partly_written())
def test_a_read_is_a_fault_for_both_or_for_none(program: Program) -> None:
    assert (Code.UNINITIALIZED_READ in verified(program)) == (
        Code.RUN_UNINITIALIZED_READ in faults_of(program)
    )
