"""Values of expressions and types: numbers, and layouts of tensors."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError
from wrapperir.emit.number_kinds import kind_of

N = TypeVar("N", bound=wir.Number)

_LIMIT = 2**63


@frozen
class Layout:
    """Sizes, strides and offset of a tensor, in elements of ``dtype``."""

    dtype: wir.DType
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def is_empty(self) -> bool:
        """Whether there is no element."""
        return 0 in self.size

    @property
    def extent(self) -> int:
        """Elements spanned from the offset on; 0 where there is none."""
        if self.is_empty:
            return 0
        steps = zip(self.size, self.stride, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in steps)

    @property
    def nbytes(self) -> int:
        """Bytes of a storage that spans just this layout."""
        return 0 if self.is_empty else self.end

    @property
    def begin(self) -> int:
        """First byte, counted from the start of the storage."""
        return self.offset * self.dtype.itemsize

    @property
    def end(self) -> int:
        """Byte after the last one, counted from the start of the storage."""
        return (self.offset + self.extent) * self.dtype.itemsize

    def __str__(self) -> str:
        """Return the layout as a type is written."""
        size = ", ".join(map(str, self.size))
        stride = ", ".join(map(str, self.stride))
        offset = f"; offset {self.offset}" if self.offset else ""
        return f"{self.dtype.value}[{size}; stride {stride}{offset}]"


def same_elements(left: Layout, right: Layout) -> bool:
    """Say whether two layouts place their elements alike.

    Dimensions of size 1 may have any stride; without elements all strides may differ.
    """
    if left.dtype is not right.dtype or left.size != right.size:
        return False
    if left.is_empty:
        return True
    return left.offset == right.offset and all(
        size == 1 or a == b
        for size, a, b in zip(left.size, left.stride, right.stride, strict=True)
    )


def value_of(expr: wir.Expr, symbols: Mapping[str, wir.Number]) -> wir.Number:
    """Return the value of an expression; a :class:`FaultError` where it has none."""
    return _computed(wir.evaluate, expr, symbols)


def integer_of(expr: wir.Expr, symbols: Mapping[str, wir.Number]) -> int:
    """Return the value of an expression; a :class:`FaultError` where it is not whole."""
    return _computed(wir.evaluate_int, expr, symbols)


def _computed(
    compute: Callable[[wir.Expr, Mapping[str, wir.Number]], N],
    expr: wir.Expr,
    symbols: Mapping[str, wir.Number],
) -> N:
    try:
        value = compute(expr, symbols)
    except wir.EvaluationError as error:
        raise FaultError(Code.RUN_EVALUATION, str(error)) from None
    if isinstance(value, int) and not -_LIMIT <= value < _LIMIT:
        raise FaultError(Code.RUN_EVALUATION, "a number does not fit 64 bits")
    return value


def number_as(dtype: wir.DType, value: wir.Number) -> wir.Number | None:
    """Return a number as a float, bool or int, as ``dtype`` is; see `number_of_kind`."""
    return number_of_kind(kind_of(dtype), value)


def number_of_kind(kind: wir.SymbolKind, value: wir.Number) -> wir.Number | None:
    """Return a number as one of a kind; ``None`` for an int that would not be whole."""
    match kind:
        case wir.SymbolKind.FLOAT:
            return float(value)
        case wir.SymbolKind.BOOL:
            return bool(value)
        case wir.SymbolKind.INT:
            return int(value) if isinstance(value, int) or value.is_integer() else None


def layout_of(type: wir.TensorType, symbols: Mapping[str, wir.Number]) -> Layout:
    """Return the layout of a type.

    Raises:
        FaultError: an expression has no value, or a size, stride or offset is negative.
    """
    size = tuple(integer_of(expr, symbols) for expr in type.size)
    stride = tuple(integer_of(expr, symbols) for expr in type.stride)
    layout = Layout(type.dtype, size, stride, integer_of(type.offset, symbols))
    if len(size) != len(stride):
        message = f"{len(size)} sizes but {len(stride)} strides"
        raise FaultError(Code.RUN_EVALUATION, message)
    if min((*size, *stride, layout.offset)) < 0:
        raise FaultError(Code.RUN_EVALUATION, f"{layout} has a negative number")
    if layout.end >= _LIMIT:
        raise FaultError(Code.RUN_EVALUATION, f"{layout} does not fit 64 bits")
    return layout
