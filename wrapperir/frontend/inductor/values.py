"""Types and arguments of a program, from Inductor's layouts, nodes and constants."""

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten import values as aten
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.symbolic import lower_size, lower_sympy


def lower_dtype(dtype: torch.dtype) -> wir.DType:
    """Return our element type for torch's.

    Raises:
        DiagnosticError: WIR653, there is none.
    """
    return aten.lower_dtype(dtype, Code.INDUCTOR_VALUE)


def lower_shape(values: Sequence[Any]) -> tuple[wir.Expr, ...]:
    """Return sizes or strides as expressions."""
    return tuple(
        [
            value
            if type(value) is int
            # Most sizes are numbers: this saves a look-up in the lowering's cache.
            else (value.p if isinstance(value, sympy.Integer) else lower_size(value))
            for value in values
        ]
    )


def tensor_type(
    dtype: torch.dtype,
    size: Sequence[Any],
    stride: Sequence[Any],
    device: torch.device | None,
    *,
    offset: wir.Expr = 0,
    pinned: bool = False,
    space: str = wir.DEFAULT_SPACE,
    layout: wir.VendorLayout | None = None,
) -> wir.TensorType:
    """Return the type of a strided tensor; sizes and strides may be sympy's."""
    return wir.TensorType(
        dtype=lower_dtype(dtype),
        size=lower_shape(size),
        stride=lower_shape(stride),
        offset=offset,
        device=aten.lower_device(device),
        pinned=pinned,
        space=space,
        layout=layout,
    )


def layout_type(layout: ir.Layout, *, offset: wir.Expr = 0) -> wir.TensorType:
    """Return the type of a tensor with an Inductor layout.

    ``offset`` replaces the layout's: Inductor counts offsets from the tensor it views,
    a type from the start of the storage.
    """
    return tensor_type(
        layout.dtype,
        layout.size,
        layout.stride,
        layout.device,
        offset=offset,
        pinned=bool(getattr(layout, "is_pinned", False)),
    )


def buffer_type(buffer: Any) -> wir.TensorType:
    """Return the type of an Inductor buffer that starts at its own storage."""
    return layout_type(buffer.get_layout())


def scalar_type(value: object) -> wir.ScalarType:
    """Return the type of a number passed by value."""
    # A sympy symbol is an expression and a Boolean: it stands for a number.
    if isinstance(value, sympy.Expr):
        return wir.ScalarType(wir.DType.F64 if value.is_integer is False else wir.DType.I64)
    if isinstance(value, bool | sympy.logic.boolalg.Boolean):
        return wir.ScalarType(wir.DType.BOOL)
    return wir.ScalarType(wir.DType.F64 if isinstance(value, float) else wir.DType.I64)


def lower_operand(scope: BlockScope, node: Any) -> wir.Argument:
    """Return the argument for a node; a view gets a line and a temporary name."""
    while isinstance(node, ir.MutableBox):
        node = node.data
    if isinstance(node, ir.NoneAsConstantBuffer):
        return None
    if isinstance(node, ir.ShapeAsConstantBuffer):
        return scope.resolve(lower_sympy(node.expr))
    name = scope.name(node.get_name())
    if isinstance(node, ir.ReinterpretView):
        type = view_type(scope, name, node.layout)
        if type != scope.types[name]:
            name = scope.view(name, type)
    return wir.BufferRef(name)


def lower_buffer(scope: BlockScope, node: Any) -> str:
    """Return the name of a node's tensor."""
    operand = lower_operand(scope, node)
    assert isinstance(operand, wir.BufferRef)
    return operand.name


def view_type(scope: BlockScope, source: str, layout: ir.Layout) -> wir.TensorType:
    """Return the type of a view of ``source`` with a layout relative to it."""
    base = scope.tensor(source)
    return wir.TensorType(
        dtype=lower_dtype(layout.dtype),
        size=lower_shape(layout.size),
        stride=lower_shape(layout.stride),
        offset=lower_size(layout.offset) + base.offset,
        device=base.device,
        space=base.space,
        pinned=base.pinned,
        layout=base.layout,
    )


def lower_argument(scope: BlockScope, value: Any) -> wir.Argument:
    """Return the argument for a node, a name or a constant of an operator call.

    Raises:
        DiagnosticError: WIR653, the value has no form in a program.
    """
    if isinstance(value, wir.BufferRef):
        return value
    if isinstance(value, ir.IRNode):
        return lower_operand(scope, value)
    if isinstance(value, list | tuple):
        return tuple(lower_argument(scope, item) for item in value)
    if isinstance(value, sympy.Basic):
        return scope.resolve(lower_sympy(value))
    if aten.is_symbolic(value):
        return lower_sympy(aten.expr_of(value))
    if isinstance(value, torch.dtype) and aten.is_quantized(value):
        # The caller gives the result the type of an object, as its fake tensor does not.
        return wir.TorchEnum("quantized_dtype", str(value).removeprefix("torch."))
    return aten.lower_constant(value, Code.INDUCTOR_VALUE)


def described(node: Any) -> Any:
    """Return the tensor of a descriptor node; any other node unchanged."""
    return node.get_tensor() if isinstance(node, ir.TMADescriptorStable) else node
