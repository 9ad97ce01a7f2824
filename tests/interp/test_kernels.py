"""Kernel calls: both languages, multi-kernels, workspaces, and what is watched."""

import pytest
import torch

from tests.interp.running import code, fault, read, run
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import Interpreter

TRITON = """
    kernel_definition @half triton(x: read f32*, y: write f32*, n: i32, BLOCK: constexpr) {
      grid = (ceildiv(n, BLOCK))
      config BLOCK = 4, num_warps = 1
      config BLOCK = 8, num_warps = 2
      entry = half
      source {
        | @triton.jit
        | def half(x, y, n, BLOCK: tl.constexpr):
        |     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        |     tl.store(y + i, tl.load(x + i, i < n) * 0.5, i < n)
      }
    }
"""
CPP = """
    kernel_definition @double cpp(x: read f32*, y: write f32*, n: i64, times: f64) {
      entry = twice
      source {
        | extern "C" void twice(const float* x, float* y, long n, double times) {
        |   for (long i = 0; i < n; ++i) y[i] = static_cast<float>(x[i] * times);
        | }
      }
    }
"""


def test_triton_and_cpp_kernels() -> None:
    x = torch.randn(6)
    (y,) = run(
        TRITON
        + CPP
        + """
    program @main(%x: f32[6]) {
      %a = allocate f32[6]
      kernel_call @half(%x, %a, 6)
      %b = allocate f32[6]
      kernel_call @double(%a, %b, 6, 4.0)
      free %a
      return %b
    }
    """,
        x,
    )
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, x * 2)


def test_views_pass_the_address_of_their_first_element() -> None:
    x = torch.arange(8.0)
    (y,) = run(
        TRITON
        + """
    program @main(%x: f32[8]) {
      %y = allocate f32[8] workspace(zero_on_call)
      %from = reinterpret %x as f32[4; offset 2]
      %to = reinterpret %y as f32[4; offset 4]
      kernel_call @half(%from, %to, 4)
      free %from
      free %to
      return %y
    }
    """,
        x,
    )
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [0, 0, 0, 0, 1, 1.5, 2, 2.5]


@pytest.mark.parametrize(("selection", "expected"), [("first", 0.5), ("forced(1)", 3.0)])
def test_a_multi_kernel_runs_its_choice_with_its_slice_of_the_arguments(
    selection: str, expected: float
) -> None:
    text = (
        TRITON
        + CPP
        + f"""
    multi_kernel @either(x: read f32*, y: write f32*, times: f64, n: i64) {{
      choice @half(0, 1, 3)
      choice @double(0, 1, 3, 2)
      select {selection}
    }}

    program @main(%x: f32[6]) {{
      %y = allocate f32[6]
      kernel_call @either(%x, %y, 3.0, 6)
      return %y
    }}
    """
    )
    x = torch.ones(6)
    (y,) = run(text, x)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, x * expected)


def test_multi_kernel_faults() -> None:
    call = """
    program @main() {
      kernel_call @either(1)
      return
    }
    """
    choice = "multi_kernel @either(n: i64) {\n choice @none(0)\n select first\n}\n"
    assert code(choice + call) is Code.RUN_UNDEFINED_KERNEL
    forced = (
        CPP + "multi_kernel @either(n: i64) {\n choice @double(0)\n select forced(3)\n}\n"
    )
    assert code(forced + call) is Code.RUN_UNDEFINED_KERNEL
    slices = CPP + "multi_kernel @either(n: i64) {\n choice @double(4)\n select first\n}\n"
    assert code(slices + call) is Code.RUN_KERNEL_ARGUMENTS


COUNTER = """
    kernel_definition @bump triton(ws: read_write i32*, out: write i32*, keep: i32) {
      grid = (4)
      entry = bump
      source {
        | @triton.jit
        | def bump(ws, out, keep):
        |     arrived = tl.atomic_add(ws, 1)
        |     tl.store(out + tl.program_id(0), arrived)
        |     if (arrived == tl.num_programs(0) - 1) & (keep == 0):
        |         tl.store(ws, 0)
      }
    }

    program @main(%keep: i64) {
      symbol keep: int = value(%keep)
      %ws = allocate i32[1] workspace(MODE)
      %out = allocate i32[4]
      kernel_call @bump(%ws, %out, keep)
      END
      return %out
    }
"""


def workspace(mode: str) -> Interpreter:
    end = "comment" if mode == "zero_per_program" else "free"
    text = COUNTER.replace("MODE", mode).replace("END", f"{end} %ws")
    return Interpreter(read(text.replace("comment %ws", 'comment "kept"')), {})


@pytest.mark.parametrize("mode", ["zero_on_call", "zero_per_program"])
def test_a_zeroed_workspace_is_zero_at_every_call(mode: str) -> None:
    interpreter = workspace(mode)
    for _ in range(3):
        (out,) = interpreter.run([0])
        assert isinstance(out, torch.Tensor)
        assert out.tolist() == [0, 1, 2, 3]


def test_a_program_workspace_must_be_left_zero_and_recovers() -> None:
    interpreter = workspace("zero_per_program")
    with pytest.raises(DiagnosticError) as caught:
        interpreter.run([1])
    assert caught.value.diagnostics[0].code is Code.RUN_WORKSPACE_NOT_ZERO
    (out,) = interpreter.run([0])
    assert isinstance(out, torch.Tensor)
    assert out.tolist() == [0, 1, 2, 3]


def test_an_uninitialized_workspace_may_not_be_read_first() -> None:
    with pytest.raises(DiagnosticError) as caught:
        workspace("uninitialized").run([0])
    assert caught.value.diagnostics[0].code is Code.RUN_UNINITIALIZED_READ


def test_triton_stores_are_noted_byte_by_byte() -> None:
    text = (
        TRITON
        + """
    program @main(%x: f32[6]) {
      %a = allocate f32[6]
      kernel_call @half(%x, %a, 5)
      %b = allocate f32[6]
      kernel_call @half(%a, %b, COUNT)
      %c = reinterpret %b as f32[5]
      free %a
      free %b
      return %c
    }
    """
    )
    x = torch.ones(6)
    (y,) = run(text.replace("COUNT", "5"), x)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [0.25] * 5
    assert code(text.replace("COUNT", "6"), x) is Code.RUN_UNINITIALIZED_READ


def test_cpp_reads_of_memory_that_nothing_wrote() -> None:
    text = (
        CPP
        + """
    program @main() {
      %a = allocate f32[6]
      %b = allocate f32[6]
      kernel_call @double(%a, %b, 6, 2.0)
      free %a
      return %b
    }
    """
    )
    assert code(text) is Code.RUN_UNINITIALIZED_READ


def test_a_store_through_a_read_parameter() -> None:
    text = (
        TRITON.replace("y: write", "y: read")
        + """
    program @main(%x: mutated f32[6], %y: mutated f32[6]) {
      kernel_call @half(%x, %y, 6)
      return
    }
    """
    )
    assert code(text, torch.ones(6), torch.ones(6)) is Code.RUN_READ_ONLY


def test_interleaved_views_do_not_overlap() -> None:
    source = """
    kernel_definition @columns triton(a: write f32*, b: write f32*) {
      grid = (1)
      entry = columns
      source {
        | @triton.jit
        | def columns(a, b):
        |     i = tl.arange(0, 4) * 2
        |     tl.store(a + i, 1.0)
        |     tl.store(b + i, 2.0)
      }
    }

    program @main() {
      %y = allocate f32[4, 2]
      %a = reinterpret %y as f32[4; stride 2]
      %b = reinterpret %y as f32[4; stride 2; offset 1]
      kernel_call @columns(%a, %b)
      free %a
      free %b
      return %y
    }
    """
    (y,) = run(source)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [[1, 2]] * 4


def test_build_errors_have_line_and_column_and_the_place_of_the_call() -> None:
    text = (
        CPP.replace("double times)", "double tims)")
        + """
    program @main(%x: f32[6]) {
      %y = allocate f32[6]
      kernel_call @double(%x, %y, 6, 2.0)
      return %y
    }
    """
    )
    diagnostic = fault(text, torch.ones(6))
    assert diagnostic.code is Code.RUN_KERNEL_BUILD
    assert diagnostic.path == ("lines", 1)
    assert "2:" in diagnostic.message
    assert "times" in diagnostic.message


@pytest.mark.parametrize(
    "change",
    [
        ("entry = half", "entry = quarter"),
        ("def half(x, y,", "def half(x, z,"),
        ("@triton.jit", "@triton.jit("),
        ("@triton.jit", "import no_such_module"),
    ],
)
def test_triton_sources_that_do_not_load(change: tuple[str, str]) -> None:
    text = (
        TRITON.replace(*change)
        + """
    program @main(%x: f32[6], %y: mutated f32[6]) {
      kernel_call @half(%x, %y, 6)
      return
    }
    """
    )
    assert code(text, torch.ones(6), torch.ones(6)) is Code.RUN_KERNEL_BUILD


@pytest.mark.parametrize(
    "arguments", ["%x, %y", "%x, %y, %x", "6, %y, 6", "%x, %i, 6", "%x, %y, 6.5"]
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    text = (
        TRITON
        + f"""
    program @main(%x: f32[6], %y: mutated f32[6], %i: mutated i32[6]) {{
      kernel_call @half({arguments})
      return
    }}
    """
    )
    inputs = torch.ones(6), torch.ones(6), torch.ones(6, dtype=torch.int32)
    assert code(text, *inputs) is Code.RUN_KERNEL_ARGUMENTS


def test_a_kernel_whose_programs_wait_for_each_other_is_refused() -> None:
    text = """
    kernel_definition @wait triton(sem: read_write i32*) {
      grid = (2)
      entry = wait
      source {
        | from torch._inductor.runtime import triton_helpers
        | @triton.jit
        | def wait(sem):
        |     triton_helpers.x_grid_barrier(sem)
      }
    }

    program @main(%sem: mutated i32[1]) {
      kernel_call @wait(%sem)
      return
    }
    """
    diagnostic = fault(text, torch.zeros(1, dtype=torch.int32))
    assert diagnostic.code is Code.RUN_KERNEL_FAILED
    assert "wait for each other" in diagnostic.message
