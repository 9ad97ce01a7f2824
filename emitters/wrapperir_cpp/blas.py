"""Small products of matrices, given to BLAS as PyTorch gives them.

The way through PyTorch's operator costs as much as the product itself where matrices are
small.  Results are the same bits: the arguments are those that ATen would pass, and calls
for which ATen would copy an operand first, or use another library, are left to it.
"""

import ctypes
import math
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import frozen

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import (
    DEFAULT_SPACE,
    Argument,
    BufferRef,
    DType,
    ExternKernelLine,
    TensorType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_float, format_int
from wrapperir_cpp.memory import tensor_pointer

MOST_WORK = 64**3
"""Multiplications up to which the way to BLAS counts."""

_FUNCTIONS: Mapping[DType, str] = {DType.F32: "sgemm_", DType.F64: "dgemm_"}


@frozen
class Matrix:
    """A matrix in memory: rows and columns, and the strides along each in elements."""

    rows: int
    columns: int
    row_stride: int
    column_stride: int

    @property
    def transposed(self) -> "Matrix":
        """The same elements with rows and columns exchanged."""
        return Matrix(self.columns, self.rows, self.column_stride, self.row_stride)


@frozen
class Product:
    """A call of ``gemm``: which operand comes first, and what BLAS is told of them.

    ``is_swapped`` says that the second operand of the product is BLAS's first.
    """

    is_swapped: bool
    transposed: str
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int


def plan_product(out: Matrix, left: Matrix, right: Matrix) -> Product | None:
    """Return the call for ``out = left @ right``.

    ``None`` where ATen copies an operand, has nothing to multiply, or the shapes differ.
    """
    if (left.rows, left.columns, right.columns) != (out.rows, right.rows, out.columns):
        return None
    if 0 in (out.rows, out.columns, left.columns):
        return None
    if _is_in_columns(out):
        is_swapped, c, a, b = False, out, left, right
    elif _is_in_columns(out.transposed):
        is_swapped, c, a, b = True, out.transposed, right.transposed, left.transposed
    else:
        return None
    first, second = _order_of(a), _order_of(b)
    if first is None or second is None:
        return None
    m, n, k = c.rows, c.columns, a.columns
    lda = a.row_stride if first == "T" else a.column_stride
    ldb = b.row_stride if second == "T" else b.column_stride
    ldc = c.column_stride
    if n == 1:
        ldc = m
    if first == "T" and m == 1:
        lda = k
    if first == "N" and k == 1:
        lda = m
    if second == "T" and k == 1:
        ldb = n
    if second == "N" and n == 1:
        ldb = k
    fits = max(lda, ldb, ldc) < 2**31
    enough = lda >= (k if first == "T" else m) and ldb >= (n if second == "T" else k)
    if not fits or not enough or ldc < m:
        return None
    return Product(is_swapped, first + second, m, n, k, lda, ldb, ldc)


def _is_in_columns(matrix: Matrix) -> bool:
    """Say whether ATen takes a result as one in Fortran's order."""
    return matrix.row_stride == 1 and (
        matrix.columns == 1 or matrix.column_stride >= max(1, matrix.rows)
    )


def _order_of(matrix: Matrix) -> str | None:
    """Return how ATen passes an operand: ``N``, ``T``, or ``None`` for as a copy."""
    if matrix.row_stride == 1 and matrix.column_stride >= max(1, matrix.rows):
        return "N"
    if matrix.column_stride == 1 and matrix.row_stride >= max(1, matrix.columns):
        return "T"
    return None


def matrix_of(type: TensorType) -> Matrix | None:
    """Return the matrix that a tensor is; ``None`` unless its layout is static."""
    numbers = [n for n in (*type.size, *type.stride) if isinstance(n, int)]
    if len(type.size) != 2 or len(numbers) != 4 or min(numbers) < 0:
        return None
    return Matrix(*numbers)


def plan_operands(types: Sequence[TensorType]) -> Product | None:
    """Return the call for tensors that are ``out``, ``left`` and ``right``.

    ``None`` unless they are small, of one type, and on the CPU.
    """
    dtype = types[0].dtype
    if any(
        type.dtype is not dtype
        or type.device.kind != "cpu"
        or type.space != DEFAULT_SPACE
        or type.layout is not None
        for type in types
    ):
        return None
    matrices = [found for type in types if (found := matrix_of(type)) is not None]
    if len(matrices) != 3 or not is_available(dtype):
        return None
    product = plan_product(*matrices)
    if product is None or product.m * product.n * product.k > MOST_WORK:
        return None
    return product


def is_available(dtype: DType) -> bool:
    """Say whether the installed PyTorch multiplies matrices of a type with this BLAS.

    Where the user lets it use a faster, less precise way, that has the choice; as have
    libraries that it prefers on other processors than x86-64.
    """
    function = _FUNCTIONS.get(dtype)
    if function is None or platform.machine() not in ("x86_64", "AMD64"):
        return False
    import torch

    backend: object = getattr(torch.backends.mkldnn, "matmul", None)
    precision: object = getattr(backend, "fp32_precision", "none")
    return (
        function in _exported()
        and torch.get_float32_matmul_precision() == "highest"
        and precision in ("none", "ieee")
    )


@cache
def _exported() -> frozenset[str]:
    import torch

    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    except OSError:
        return frozenset()
    return frozenset(name for name in _FUNCTIONS.values() if hasattr(library, name))


def format_product(
    product: Product,
    pointers: tuple[Fragment, Fragment, Fragment],
    scales: tuple[float, float] = (1.0, 0.0),
) -> Fragment:
    """Return the call; ``pointers`` are those of out, left and right."""
    out, left, right = pointers
    first, second = (right, left) if product.is_swapped else (left, right)
    m, n, k, lda, ldb, ldc = map(
        format_int,
        (product.m, product.n, product.k, product.lda, product.ldb, product.ldc),
    )
    alpha, beta = map(_format_scale, scales)
    return fragment(
        'op::gemm("{}", {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});',
        *(Fragment(product.transposed), m, n, k),
        *(alpha, first, lda, second, ldb, beta, out, ldc),
    )


def format_copy(
    out: TensorType, source: TensorType, pointers: tuple[Fragment, Fragment]
) -> Fragment | None:
    """Return the copy of a matrix, row or column to ``out``, repeated as it is broadcast.

    ``None`` where the shapes do not allow it.
    """
    matrix = matrix_of(out)
    numbers = [n for n in (*source.size, *source.stride) if isinstance(n, int)]
    dims = len(source.size)
    if matrix is None or len(numbers) != 2 * dims or dims > 2:
        return None
    sizes, strides = numbers[:dims], numbers[dims:]
    sizes, strides = [1] * (2 - dims) + sizes, [0] * (2 - dims) + strides
    if any(
        size not in (1, wanted)
        for size, wanted in zip(sizes, (matrix.rows, matrix.columns), strict=True)
    ):
        return None
    steps = [
        0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)
    ]
    return fragment(
        "op::copy_matrix({}, {}, {}, {}, {}, {}, {}, {});",
        *(pointers[0], format_int(matrix.row_stride), format_int(matrix.column_stride)),
        *(pointers[1], format_int(steps[0]), format_int(steps[1])),
        *(format_int(matrix.rows), format_int(matrix.columns)),
    )


def _format_scale(scale: float) -> Fragment:
    is_short = (scale.is_integer() and 0 < abs(scale) < 1000) or repr(scale) == "0.0"
    return format_int(int(scale)) if is_short else format_float(scale)


def static_scale(value: int | float, dtype: DType) -> float | None:
    """Return a factor as BLAS is given it; ``None`` where ATen refuses it."""
    if dtype is DType.F64:
        return float(value) if abs(value) <= 2**53 or isinstance(value, float) else None
    single = ctypes.c_float(float(value)).value if abs(value) < 2**1000 else math.inf
    if isinstance(value, float) and not math.isfinite(value):
        return value
    return None if math.isinf(single) else float(value)


def emit_product(context: Context, line: ExternKernelLine) -> bool:
    """Append a call of BLAS, where the line is a small product of matrices."""
    keywords = dict(line.keywords)
    out = keywords.pop("out", None)
    if line.result is not None or not isinstance(out, BufferRef):
        return False
    if line.operator == "aten.mm.out" and not keywords:
        return _emit_gemm(context, out, line.arguments, 1, 0)
    if line.operator == "aten.addmm.out" and keywords.keys() <= {"alpha", "beta"}:
        source, *factors = line.arguments
        scales = keywords.get("alpha", 1), keywords.get("beta", 1)
        return _emit_gemm(context, out, factors, *scales, source)
    return False


def _emit_gemm(
    context: Context,
    out: BufferRef,
    factors: Sequence[Argument],
    alpha: Argument,
    beta: Argument,
    source: Argument = None,
) -> bool:
    names = [a.name for a in (out, *factors) if isinstance(a, BufferRef)]
    if len(names) != 3 or not context.layouts.exact.issuperset(names):
        return False
    types = [type for n in names if isinstance(type := context.facts.types[n], TensorType)]
    product = plan_operands(types) if len(types) == 3 else None
    if product is None:
        return False
    dtype = types[0].dtype
    first, second = _scale(alpha, dtype), _scale(beta, dtype)
    if first is None or second is None:
        return False
    c_type = fragment(dtype.cpp_type)
    pointers = [tensor_pointer(context, name, c_type) for name in names]
    if second != 0 and source != out:
        copy = _format_source(context, source, types[0], pointers[0])
        if copy is None:
            return False
        context.writer.emit_line("{}", copy)
    where = pointers[0], pointers[1], pointers[2]
    context.writer.emit_line("{}", format_product(product, where, (first, second)))
    return True


def _scale(value: Argument, dtype: DType) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return static_scale(value, dtype)


def _format_source(
    context: Context, source: Argument, out: TensorType, pointer: Fragment
) -> Fragment | None:
    if not isinstance(source, BufferRef) or source.name not in context.layouts.exact:
        return None
    type = context.facts.types[source.name]
    if not isinstance(type, TensorType) or type.dtype is not out.dtype:
        return None
    if type.device.kind != "cpu":
        return None
    return format_copy(
        out,
        type,
        (pointer, tensor_pointer(context, source.name, fragment(type.dtype.cpp_type))),
    )
