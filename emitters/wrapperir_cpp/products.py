"""Matrix products of PyTorch's operators, and their calls of cuBLAS on CUDA devices."""

import ctypes
import math

from attrs import frozen

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.arena import plain_device
from wrapperir.ir import (
    DEFAULT_SPACE,
    Argument,
    BufferRef,
    Device,
    DType,
    ExternKernelLine,
    TensorType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_dtype, format_float, format_int
from wrapperir_cpp.memory import tensor_address
from wrapperir_cpp.streams import format_device_call, format_stream_number
from wrapperir_cpp.surveys import PRODUCTS

_INTO_TENSORS = frozenset(f"{name}.out" for name in PRODUCTS)
_ADDED = frozenset({"aten.addmm.out", "aten.baddbmm.out"})
_CUDA_DTYPES = frozenset({DType.F16, DType.BF16, DType.F32, DType.F64})


@frozen
class MatrixProduct:
    """``out = alpha * left @ right + beta * source``; these are names of tensors.

    Without a source, ``beta`` is 0.
    """

    out: str
    left: str
    right: str
    source: str | None = None
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def names(self) -> list[str]:
        """The tensors, with the source last if there is one."""
        return [self.out, self.left, self.right, *([self.source] if self.source else [])]


def parse_product(context: Context, line: ExternKernelLine) -> MatrixProduct | None:
    """Return the product of a line that writes it to a tensor; ``None`` for other lines.

    Factors must be known numbers that fit the element type.
    """
    keywords = dict(line.keywords)
    out = keywords.pop("out", None)
    if line.result is not None or not isinstance(out, BufferRef):
        return None
    tensors = [a.name for a in line.arguments if isinstance(a, BufferRef)]
    if len(tensors) != len(line.arguments) or line.operator not in _INTO_TENSORS:
        return None
    is_added = line.operator in _ADDED
    allowed = frozenset({"alpha", "beta"} if is_added else ())
    if len(tensors) != (3 if is_added else 2) or not keywords.keys() <= allowed:
        return None
    dtype = context.facts.tensor_type(out.name).dtype
    if not is_added:
        left, right = tensors
        return MatrixProduct(out.name, left, right)
    alpha = _scale(keywords.get("alpha", 1), dtype)
    beta = _scale(keywords.get("beta", 1), dtype)
    if alpha is None or beta is None:
        return None
    source, left, right = tensors
    return MatrixProduct(out.name, left, right, source, alpha, beta)


def _scale(value: Argument, dtype: DType) -> float | None:
    """Return a factor as BLAS takes it; ``None`` if ATen refuses it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if dtype is DType.F64:
        return float(value) if abs(value) <= 2**53 or isinstance(value, float) else None
    if isinstance(value, float) and not math.isfinite(value):
        return value
    single = ctypes.c_float(float(value)).value if abs(value) < 2**1000 else math.inf
    return None if math.isinf(single) else float(value)


def format_scale(scale: float) -> Fragment:
    """Return a factor as a C++ number."""
    is_short = (scale.is_integer() and 0 < abs(scale) < 1000) or repr(scale) == "0.0"
    return format_int(int(scale)) if is_short else format_float(scale)


def emit_cuda_product(
    context: Context, line: ExternKernelLine, product: MatrixProduct
) -> bool:
    """Append ``multiply(3, c.cuda_0_products, *c.cuda_0, 0, DType::f16, ...);``.

    Return ``False`` if the element types, the device or the layouts do not allow it.
    """
    names = product.names
    types = [type for n in names if isinstance(type := context.facts.types[n], TensorType)]
    if len(types) != len(names) or not all(map(context.has_exact_layout, names)):
        return False
    out, device = types[0], line.device
    if out.dtype not in _CUDA_DTYPES or len(out.size) not in (2, 3):
        return False
    for type in types:
        is_plain = type.space == DEFAULT_SPACE and type.layout is None
        if not is_plain or type.dtype is not out.dtype or type.device != out.device:
            return False
    if device.kind != "cuda" or plain_device(out.device) != plain_device(device):
        return False
    operands = [_format_operand(context, n, t) for n, t in zip(names, types, strict=True)]
    factors = [product.alpha, product.beta] if product.source else []
    arguments = [
        *(context.line_number(), format_products(context, device)),
        fragment("*{}", format_device_call(context, device)),
        *(format_stream_number(context, device, line.stream), format_dtype(out.dtype)),
        *(*operands, *map(format_scale, factors)),
    ]
    context.writer.emit_line("multiply({});", joined(", ", arguments))
    return True


def _format_operand(context: Context, name: str, type: TensorType) -> Fragment:
    sizes, strides = map(context.format_ints, (type.size, type.stride))
    return fragment("{{{}, {}, {}}}", tensor_address(context, name), sizes, strides)


def format_products(context: Context, device: Device) -> Fragment:
    """Return the state of cuBLAS on a device, a ``Products``."""
    return fragment("c.{}", context.product_states[plain_device(device)])
