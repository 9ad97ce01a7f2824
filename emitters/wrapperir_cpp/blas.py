"""Small matrix products as direct calls of BLAS.

For small matrices, the dispatch of PyTorch's operator costs as much as the product.  The
results have the same bits: the arguments are the ones that ATen would pass.  If ATen would
copy an operand first, or use another library, the operator is called instead.
"""

import ctypes
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import frozen

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import (
    DEFAULT_SPACE,
    DType,
    TensorType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.memory import tensor_pointer
from wrapperir_cpp.products import MatrixProduct, format_scale

MOST_WORK = 64**3
"""Multiplications of the largest product that is given to BLAS directly."""

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
    """The arguments of a ``gemm`` call.

    ``is_swapped``: the second operand of the product is BLAS's first.
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

    ``None`` if ATen copies an operand or has nothing to multiply, or if the shapes differ.
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
    """Say whether ATen treats a result as column-major."""
    return matrix.row_stride == 1 and (
        matrix.columns == 1 or matrix.column_stride >= max(1, matrix.rows)
    )


def _order_of(matrix: Matrix) -> str | None:
    """Return how ATen passes an operand: ``N``, ``T``, or ``None`` if it copies it."""
    if matrix.row_stride == 1 and matrix.column_stride >= max(1, matrix.rows):
        return "N"
    if matrix.column_stride == 1 and matrix.row_stride >= max(1, matrix.columns):
        return "T"
    return None


def matrix_of(type: TensorType) -> Matrix | None:
    """Return the matrix of a tensor with two static dimensions; ``None`` for others."""
    numbers = [n for n in (*type.size, *type.stride) if isinstance(n, int)]
    if len(type.size) != 2 or len(numbers) != 4 or min(numbers) < 0:
        return None
    return Matrix(*numbers)


def plan_operands(types: Sequence[TensorType]) -> Product | None:
    """Return the call for ``out``, ``left`` and ``right``.

    ``None`` unless they are small, have one element type, and are on the CPU.
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
    """Say whether the installed PyTorch multiplies matrices of a dtype with this BLAS.

    It does not if the user allows faster, less precise products, and it may prefer other
    libraries on processors other than x86-64.
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


def emit_gemm(context: Context, product: MatrixProduct) -> bool:
    """Append a call of BLAS, and return whether it is a small product on the CPU."""
    names = [product.out, product.left, product.right]
    if not context.layouts.exact.issuperset(names):
        return False
    types = [type for n in names if isinstance(type := context.facts.types[n], TensorType)]
    planned = plan_operands(types) if len(types) == 3 else None
    if planned is None:
        return False
    c_type = fragment(types[0].dtype.cpp_type)
    pointers = [tensor_pointer(context, name, c_type) for name in names]
    if product.beta != 0 and product.source != product.out:
        copy = _format_copy(context, product.source, types[0], pointers[0])
        if copy is None:
            return False
        context.writer.emit_line("{}", copy)
    _, left, right = pointers
    first, second = (right, left) if planned.is_swapped else (left, right)
    sizes = (planned.m, planned.n, planned.k, planned.lda, planned.ldb, planned.ldc)
    m, n, k, lda, ldb, ldc = map(format_int, sizes)
    context.writer.emit_line(
        'op::gemm("{}", {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});',
        *(Fragment(planned.transposed), m, n, k, format_scale(product.alpha)),
        *(first, lda, second, ldb, format_scale(product.beta), pointers[0], ldc),
    )
    return True


def _format_copy(
    context: Context, name: str | None, out: TensorType, pointer: Fragment
) -> Fragment | None:
    """Return the copy of a matrix, row or column to ``out``, with broadcasting.

    ``None`` if the shapes, element types or layouts do not allow it.
    """
    if name is None or name not in context.layouts.exact:
        return None
    type = context.facts.types[name]
    if not isinstance(type, TensorType) or type.dtype is not out.dtype:
        return None
    matrix, dims = matrix_of(out), len(type.size)
    numbers = [n for n in (*type.size, *type.stride) if isinstance(n, int)]
    if matrix is None or type.device.kind != "cpu" or len(numbers) != 2 * dims or dims > 2:
        return None
    sizes = [1] * (2 - dims) + numbers[:dims]
    strides = [0] * (2 - dims) + numbers[dims:]
    extents = (matrix.rows, matrix.columns)
    if any(n not in (1, wanted) for n, wanted in zip(sizes, extents, strict=True)):
        return None
    steps = [0 if n == 1 else stride for n, stride in zip(sizes, strides, strict=True)]
    begin = tensor_pointer(context, name, fragment(type.dtype.cpp_type))
    return fragment(
        "op::copy_matrix({}, {}, {}, {}, {}, {}, {}, {});",
        *(pointer, format_int(matrix.row_stride), format_int(matrix.column_stride)),
        *(begin, *map(format_int, (*steps, *extents))),
    )
