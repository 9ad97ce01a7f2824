"""Small products of matrices in BLAS: the bits that PyTorch's operators give."""

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.cpp_emitter.running import assert_same, load, parsed
from wrapperir.emit import Value
from wrapperir.ir import DType, tensor
from wrapperir_cpp.blas import Matrix, Product, is_available, plan_operands, plan_product
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import PROGRAM

pytestmark = pytest.mark.skipif(
    not is_available(DType.F32), reason="this PyTorch multiplies matrices in another way"
)

SIZES = st.sampled_from([1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 32, 33, 64])
ROOM = 70 * 70


@st.composite
def matrices(
    draw: st.DrawFn, rows: int, columns: int, dtype: torch.dtype
) -> tuple[torch.Tensor, Matrix]:
    """A view of numbers with any strides that memory has room for."""
    gap = draw(st.integers(0, 4))
    likely = [(columns + gap, 1), (1, rows + gap), (columns, 1), (1, rows)]
    if rows == 1:
        likely.append((gap, 1))  # a stride that nothing steps along is any
    if columns == 1:
        likely.append((1, gap))
    strides = draw(st.sampled_from(likely))
    seed, offset = draw(st.integers(0, 99)), draw(st.integers(0, 3))
    numbers = torch.randn(2 * ROOM, generator=torch.Generator().manual_seed(seed))
    view = numbers.to(dtype).as_strided((rows, columns), strides, offset)
    return view, Matrix(rows, columns, *strides)


def multiply(
    product: Product,
    out: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    *scales: float,
) -> None:
    """Call BLAS as emitted code does."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    is_single = out.dtype is torch.float32
    function = library.sgemm_ if is_single else library.dgemm_
    real = ctypes.c_float if is_single else ctypes.c_double
    first, second = (right, left) if product.is_swapped else (left, right)

    def whole(value: int) -> Any:
        return ctypes.byref(ctypes.c_int(value))

    def address(matrix: torch.Tensor) -> Any:
        return ctypes.c_void_p(matrix.data_ptr())

    alpha, beta = (ctypes.byref(real(scale)) for scale in scales)
    function(
        *(ctypes.c_char_p(order.encode()) for order in product.transposed),
        *(whole(product.m), whole(product.n), whole(product.k)),
        *(alpha, address(first), whole(product.lda)),
        *(address(second), whole(product.ldb), beta, address(out), whole(product.ldc)),
    )


@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data(), SIZES, SIZES, SIZES, st.sampled_from([torch.float32, torch.float64]))
def test_results_are_the_operators_bits(
    data: st.DataObject, m: int, n: int, k: int, dtype: torch.dtype
) -> None:
    left, first = data.draw(matrices(m, k, dtype))
    right, second = data.draw(matrices(k, n, dtype))
    out, whole = data.draw(matrices(m, n, dtype))
    product = plan_product(whole, first, second)
    assume(product is not None)
    assert product is not None
    if data.draw(st.booleans()):
        out.fill_(float("nan"))
    memory = torch.empty(0, dtype=dtype).set_(out.untyped_storage())
    before = memory.clone()
    alpha, beta = data.draw(st.sampled_from([(1, 0), (0.5, 1), (-2.25, 0.1), (0, 0)]))
    if (alpha, beta) == (1, 0):
        torch.mm(left, right, out=out)
    else:
        torch.addmm(out, left, right, alpha=alpha, beta=beta, out=out)
    wanted = memory.clone()
    memory.copy_(before)
    multiply(product, out, left, right, alpha, beta)
    bits = torch.int32 if dtype is torch.float32 else torch.int64
    assert torch.equal(memory.view(bits), wanted.view(bits))


def test_products_are_planned_for_what_aten_copies_nothing_of() -> None:
    rows, columns = Matrix(4, 4, 4, 1), Matrix(4, 4, 1, 4)
    assert plan_product(rows, rows, columns) == Product(True, "TN", 4, 4, 4, 4, 4, 4)
    assert plan_product(columns, rows, columns) == Product(False, "TN", 4, 4, 4, 4, 4, 4)
    gaps = Matrix(4, 4, 8, 2)
    assert plan_product(gaps, rows, rows) is None
    assert plan_product(rows, gaps, rows) is None
    assert plan_product(rows, rows, gaps) is None
    assert plan_product(rows, rows, Matrix(5, 4, 4, 1)) is None
    empty = Matrix(4, 0, 1, 1)
    assert plan_product(rows, empty, Matrix(0, 4, 4, 1)) is None


def test_large_and_mixed_products_are_left_to_pytorch() -> None:
    small = tensor("f32", (8, 8))
    assert plan_operands([small, small, small]) is not None
    assert plan_operands([small, small, tensor("f64", (8, 8))]) is None
    assert plan_operands([tensor("bf16", (8, 8))] * 3) is None
    assert plan_operands([tensor("f32", (256, 256))] * 3) is None


def test_lower_precision_is_left_to_pytorch() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert not is_available(DType.F32)
    finally:
        torch.set_float32_matmul_precision(before)
    assert is_available(DType.F32)


PROGRAM_TEXT = """
program @main(%x: f32[2, 4], %y: f32[4, 4], %b: f32[4], %z: f64[3, 1]) {
  %0 = allocate f32[2, 4]
  extern_kernel aten.mm.out(%x, %y, out = %0) writes(%0)
  %1 = allocate f32[2, 4]
  extern_kernel aten.addmm.out(%b, %0, %y, out = %1) writes(%1)
  %t = reinterpret %y as f32[4, 4; stride 1, 4]
  %2 = allocate f32[2, 4; stride 1, 2]
  extern_kernel aten.addmm.out(%1, %0, %t, beta = 2, alpha = 0.5, out = %2) writes(%2)
  extern_kernel aten.addmm.out(%2, %x, %y, beta = 0.1, out = %2) writes(%2)
  %3 = allocate f32[2, 4]
  extern_kernel aten.addmm.out(%0, %x, %y, beta = 0, out = %3) writes(%3)
  %w = reinterpret %z as f64[1, 3]
  %4 = allocate f64[3, 3]
  extern_kernel aten.mm.out(%z, %w, out = %4) writes(%4)
  free %t
  free %w
  return %0, %1, %2, %3, %4
}
"""


def test_programs_multiply_as_pytorch_does() -> None:
    program = parsed(PROGRAM_TEXT.replace("%0", "%r").replace("%", "%v"))
    text = str(CppEmitter().emit(program).files[PROGRAM])
    assert text.count("op::gemm(") == 6
    assert text.count("op::copy_matrix(") == 2
    x, y, b = torch.randn(2, 4), torch.randn(4, 4), torch.randn(4)
    z = torch.randn(3, 1, dtype=torch.float64)
    first = torch.mm(x, y)
    second = torch.addmm(b, first, y)
    third = torch.empty(4, 2).t()
    torch.addmm(second, first, y.t(), beta=2, alpha=0.5, out=third)
    torch.addmm(third, x, y, beta=0.1, out=third)
    fourth = torch.addmm(first, x, y, beta=0)
    wanted: list[Value] = [first, second, third, fourth, torch.mm(z, z.view(1, 3))]
    assert_same(load(program, {})([x, y, b, z]), wanted)


def test_what_an_operator_returned_is_left_to_pytorch() -> None:
    program = parsed(
        """
        program @main(%x: f32[4, 4]) {
          %y = extern_kernel aten.relu.default(%x) : f32[4, 4]
          %z = allocate f32[4, 4]
          extern_kernel aten.mm.out(%y, %y, out = %z) writes(%z)
          free %y
          return %z
        }
        """
    )
    text = str(CppEmitter().emit(program).files[PROGRAM])
    assert "aoti_torch_cpu_mm_out(" in text  # its strides need not be those declared
    assert "op::gemm(" not in text
