"""Arguments of lines, from Inductor's nodes and constants."""

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor import ir

from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.layouts import (
    layout_type,
    lower_device,
    lower_dtype,
)
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.ir import (
    Argument,
    BufferRef,
    ComplexLiteral,
    Expr,
    Provenance,
    TensorType,
    TorchEnum,
)
from wrapperir.symbolic import lower_size, lower_sympy


def lower_operand(
    scope: Scope, node: Any, temporaries: list[str], at: Provenance | None
) -> Argument:
    """Return the argument for a node.

    A view gets a line and a name of its own, which is added to ``temporaries`` for the
    caller to free.
    """
    while isinstance(node, ir.MutableBox):
        node = node.data
    if isinstance(node, ir.ReinterpretView):
        return BufferRef(_lower_view(scope, node, temporaries, at))
    if isinstance(node, ir.NoneAsConstantBuffer):
        return None
    if isinstance(node, ir.ShapeAsConstantBuffer):
        return scope.resolve(lower_sympy(node.expr))
    return BufferRef(scope.name(node.get_name()))


def view_type(scope: Scope, source: str, layout: ir.Layout) -> TensorType:
    """Return the type of a view of ``source`` with a layout relative to it."""
    base = scope.tensor(source)
    type = layout_type(layout, offset=lower_size(layout.offset) + base.offset)
    return TensorType(
        dtype=type.dtype,
        size=type.size,
        stride=type.stride,
        offset=type.offset,
        device=base.device,
        space=base.space,
        pinned=base.pinned,
        layout=base.layout,
    )


def _lower_view(
    scope: Scope, node: ir.ReinterpretView, temporaries: list[str], at: Provenance | None
) -> str:
    source = scope.name(node.get_name())
    type = view_type(scope, source, node.layout)
    if type == scope.types[source]:
        return source
    view = scope.view(source, type, at)
    temporaries.append(view)
    return view


def lower_argument(
    scope: Scope, value: Any, temporaries: list[str], at: Provenance | None
) -> Argument:
    """Return the argument for a node or a constant of an operator call.

    Raises:
        DiagnosticError: WIR653, the value has no form in a program.
    """
    if isinstance(value, BufferRef):
        return value
    if isinstance(value, ir.IRNode):
        return lower_operand(scope, value, temporaries, at)
    if isinstance(value, list | tuple):
        return tuple(lower_argument(scope, item, temporaries, at) for item in value)
    if value is None or type(value) in (bool, int, float, str):
        plain: Argument = value
        return plain
    if isinstance(value, sympy.Basic):
        return scope.resolve(lower_sympy(value))
    lower = _LOWER.get(type(value))
    if lower is None:
        raise Code.INDUCTOR_VALUE.error(
            f"a {type(value).__name__} has no form as an argument"
        )
    return lower(value)


def _lower_symbolic(value: Any) -> Expr:
    return lower_sympy(value.node.expr)


_LOWER: dict[type, Callable[[Any], Argument]] = {
    complex: lambda value: ComplexLiteral(value.real, value.imag),
    torch.dtype: lower_dtype,
    torch.device: lower_device,
    torch.layout: lambda value: TorchEnum("layout", str(value).removeprefix("torch.")),
    torch.memory_format: lambda value: TorchEnum(
        "memory_format", str(value).removeprefix("torch.")
    ),
    torch.SymInt: _lower_symbolic,
    torch.SymFloat: _lower_symbolic,
    torch.SymBool: _lower_symbolic,
}


def described(node: Any) -> Any:
    """Return the tensor that a descriptor is of; any other node as it is."""
    return node.get_tensor() if isinstance(node, ir.TMADescriptorStable) else node
