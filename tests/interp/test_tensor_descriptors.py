"""Tensors behind descriptors: what a kernel reads and writes of them."""

import pytest
import torch

from tests.interp.running import code, fault, read, run
from wrapperir import compile_program
from wrapperir.diagnostics import Code
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.interp import interpret
from wrapperir.ir import Access, DescriptorParameter, DType, block_fault


def kernel(source: str, out: str = "write", dtype: str = "f32") -> str:
    """Return a kernel of two descriptors with blocks of 4 by 16."""
    block = f"descriptor {dtype}[4, 16]"
    return f"""
    kernel_definition @k triton(x: read {block}, y: {out} {block}) {{
      grid = (1)
      entry = k
      source {{
        | import triton
        | import triton.language as tl
        |
        |
        | @triton.jit
        | def k(x, y):
        |     {source}
      }}
    }}
    """


COPY = "y.store([0, 0], x.load([0, 0]))"
PROGRAM = """
    program @main(%x: f32[3, 20]) {
      %y = allocate f32[4, 16]
      kernel_call @k(%x, %y)
      return %y
    }
"""


def test_what_is_outside_of_the_tensor_reads_as_zero() -> None:
    x = torch.randn(3, 20)
    (y,) = run(kernel("y.store([0, 0], x.load([1, 12]))") + PROGRAM, x)
    expected = torch.zeros(4, 16)
    expected[:2, :8] = x[1:, 12:]
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, expected)


def test_what_is_outside_of_the_tensor_is_not_written() -> None:
    x, whole = torch.randn(4, 16), torch.zeros(6, 24)
    run(
        kernel(COPY, "read_write")
        + """
    program @main(%x: f32[4, 16], %whole: mutated f32[6, 24]) {
      %part = reinterpret %whole as f32[3, 6; stride 24, 1; offset 28]
      kernel_call @k(%x, %part)
      free %part
      return
    }
    """,
        x,
        whole,
    )
    expected = torch.zeros(6, 24)
    expected[1:4, 4:10] = x[:3, :6]
    assert torch.equal(whole, expected)


ALL_DTYPES = [
    dtype
    for dtype in DType
    if block_fault(DescriptorParameter("x", dtype, (4, 16), Access.READ)) is None
]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_every_dtype_is_copied_as_it_is(dtype: DType) -> None:
    bytes = torch.randint(0, 255, (4, 16 * dtype.itemsize), dtype=torch.uint8)
    x = bytes.view(torch_dtype(dtype))
    program = read(
        kernel(COPY, dtype=dtype.value)
        + PROGRAM.replace("f32[3, 20]", "f32[4, 16]").replace("f32", dtype.value)
    )
    for (y,) in (interpret(program, [x], {}), compile_program(program)([x])):
        assert isinstance(y, torch.Tensor)
        assert torch.equal(y.view(torch.uint8), bytes)


def test_a_write_that_is_not_declared_is_a_fault() -> None:
    text = kernel("x.store([0, 0], x.load([0, 0]))") + PROGRAM
    assert code(text, torch.ones(3, 20)) is Code.RUN_READ_ONLY


def test_a_read_of_what_nothing_wrote_is_a_fault() -> None:
    source = "y.store([0, 0], y.load([0, 0]))"
    text = kernel(source, "read_write") + PROGRAM
    assert code(text, torch.ones(3, 20)) is Code.RUN_UNINITIALIZED_READ


def test_a_partial_overlap_is_a_fault() -> None:
    text = (
        kernel(COPY)
        + """
    program @main(%x: mutated f32[8, 20]) {
      %y = reinterpret %x as f32[4, 20; stride 20, 1; offset 20]
      kernel_call @k(%x, %y)
      free %y
      return
    }
    """
    )
    assert code(text, torch.ones(8, 20)) is Code.RUN_OVERLAP


def test_the_message_names_parameter_and_reason() -> None:
    text = kernel(COPY) + PROGRAM.replace("f32[3, 20]", "f32[3, 21]")
    message = fault(text, torch.ones(3, 21)).message
    assert message == (
        "x of @k is given a tensor that has a stride of 21 elements, "
        "which is not a multiple of 16 bytes"
    )
