"""Types and scalars of a graph's example values."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy.singleton_int import SingletonInt

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit.torch_dtypes import element_type
from wrapperir.symbolic import lower_size

NO_VALUE = wir.OpaqueType("none")
"""The type of a ``None`` among inputs or results."""

SCALARS = (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)


def is_symbolic(value: Any) -> bool:
    """Say whether a value is a symbolic number."""
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def expr_of(value: Any) -> Any:
    """Return the sympy expression of a symbolic number, simplified by guards.

    PyTorch replaces a symbol that a guard says is equal to something, but no computed size:
    of ``x[::3] + y`` it may be guarded that ``(s0 + 2) // 3`` is 1, and ``x`` is broadcast.
    """
    expr = value.node.expr
    if expr.is_Symbol or expr.is_number:
        return expr
    equal = _equal_by_guards(value.node.shape_env)
    return expr.xreplace(equal) if equal else expr


def _equal_by_guards(shapes: Any) -> Mapping[Any, Any]:
    """Return what takes the place of computed sizes that guards compare."""
    count = len(shapes.guards)
    known, found = _EQUAL.get(shapes, (0, dict[Any, Any]()))
    if known != count:
        for guard in shapes.guards[known:]:
            expr = guard.expr
            if expr.is_Relational and expr.rel_op == "==":
                left, right = (side.xreplace(found) for side in expr.args)
                kept, replaced = (left, right) if left.is_Atom else (right, left)
                if not replaced.is_Atom:
                    new = {replaced: kept}
                    found = {key: old.xreplace(new) for key, old in found.items()} | new
        _EQUAL[shapes] = count, found
    return found


_EQUAL: "WeakKeyDictionary[Any, tuple[int, dict[Any, Any]]]" = WeakKeyDictionary()
"""How many guards of an environment have been looked at, and what they say is equal."""


def jagged_size_in(value: Any) -> Any:
    """Return the symbol of a jagged tensor's size that a number is a multiple of, if any.

    At run time such a size is an object: all that it can be is multiplied and compared.
    """
    if not is_symbolic(value):
        return None
    known: Any = value.node.shape_env.backed_var_to_val
    symbols = expr_of(value).free_symbols
    return next((x for x in symbols if isinstance(known.get(x), SingletonInt)), None)


def original_expr_of(value: Any) -> Any:
    """Return the sympy expression of a symbolic number as it was first written."""
    return value.node._expr


def symbols_of(examples: Any) -> list[str]:
    """Return the names of the symbols in sizes, strides and offsets, and in numbers."""
    found: dict[str, None] = {}
    for leaf in pytree.tree_leaves(examples):
        numbers = [leaf]
        if isinstance(leaf, torch.Tensor):
            numbers = [*leaf.shape, *strides_of(leaf), leaf.storage_offset()]
        for number in numbers:
            if is_symbolic(number):
                found.update(dict.fromkeys(s.name for s in expr_of(number).free_symbols))
    return list(found)


def strides_of(value: torch.Tensor) -> Sequence[Any]:
    """Return the strides of a tensor; compressed ones have none."""
    has_strides = value.layout is torch.strided or is_sparse(value) or value.is_mkldnn
    return value.stride() if has_strides else ()


def leaves_of(value: Any) -> list[Any]:
    """Return the elements of a list or tuple; of another value, the value alone."""
    return list(value) if isinstance(value, tuple | list) else [value]  # pyright: ignore


def lower_type(value: Any) -> wir.ValueType:
    """Return the type of an example value: a fake tensor, a number, a list of those.

    Raises:
        DiagnosticError: WIR604, no type expresses the value, such as a compressed tensor.
    """
    if isinstance(value, torch.Tensor):
        return _lower_tensor_type(value)
    if isinstance(value, torch.SymBool | bool):
        return wir.ScalarType(wir.DType.BOOL)
    if isinstance(value, torch.SymInt | int):
        return wir.ScalarType(wir.DType.I64)
    if isinstance(value, torch.SymFloat | float):
        return wir.ScalarType(wir.DType.F64)
    if isinstance(value, tuple | list):
        return wir.TupleType(tuple(map(lower_type, leaves_of(value))))
    if value is None:
        return NO_VALUE
    raise unsupported(f"a value of type {type(value).__name__}")


def is_sparse(value: object) -> bool:
    """Say whether a value is a sparse tensor: its type has strides of 0 and no elements.

    Only operators may be given one.
    """
    return isinstance(value, torch.Tensor) and value.is_sparse


def _lower_tensor_type(value: torch.Tensor) -> wir.TensorType:
    if value.layout is not torch.strided and not is_sparse(value):
        raise unsupported(f"a tensor of layout {value.layout}")
    if is_traceable_wrapper_subclass(value):
        raise unsupported(f"a {type(value).__name__}")
    return wir.TensorType(
        dtype=lower_dtype(value.dtype),
        size=tuple(lower_extent(extent) for extent in value.size()),
        stride=tuple(lower_extent(step) for step in value.stride()),
        offset=lower_extent(value.storage_offset()),
        device=lower_device(value.device),
    )


def lower_dtype(dtype: torch.dtype, code: Code = Code.UNSUPPORTED_VALUE) -> wir.DType:
    """Return the element type.

    Raises:
        DiagnosticError: ``code``, there is none.
    """
    found = element_type(dtype)
    if found is None:
        hint = None
        if str(dtype).startswith(("torch.q", "torch.bits")):
            hint = "keep quantized tensors out, or use integers with a scale of your own"
        raise code.error(f"the dtype {dtype} has no form in a program", hint=hint)
    return found


def is_quantized(dtype: torch.dtype) -> bool:
    """Say whether a dtype is one of quantized tensors."""
    name = str(dtype).removeprefix("torch.")
    return name in wir.TORCH_ENUM_NAMES["quantized_dtype"]


@lru_cache(maxsize=64)
def lower_device(device: torch.device | None) -> wir.Device:
    """Return the device; ``None`` is the CPU, which has no index."""
    if device is None or device.type == "cpu":
        return wir.CPU
    return wir.Device(device.type, device.index)


def lower_constant(value: Any, code: Code = Code.UNSUPPORTED_ARGUMENT) -> wir.Argument:
    """Return the argument for a constant.

    Raises:
        DiagnosticError: ``code``, the value has no form as an argument.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case complex():
            return wir.ComplexLiteral(value.real, value.imag)
        case torch.dtype():
            return lower_dtype(value, code)
        case torch.device():
            return lower_device(value)
        case torch.layout():
            return wir.TorchEnum("layout", str(value).removeprefix("torch."))
        case torch.memory_format():
            return wir.TorchEnum("memory_format", str(value).removeprefix("torch."))
        case _:
            message = f"a {type(value).__name__} has no form as an argument"
            raise code.error(message)


def lower_extent(value: int | torch.SymInt) -> wir.Expr:
    """Return a size, stride or offset."""
    return value if isinstance(value, int) else lower_size(expr_of(value))


def unsupported(what: str) -> DiagnosticError:
    """Return WIR604 for a value that has no type."""
    return Code.UNSUPPORTED_VALUE.error(f"{what} has no type in a program")
