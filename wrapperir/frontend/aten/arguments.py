"""Arguments of operator calls."""

from typing import Any

import torch

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.scope import Elements, GraphScope, Poison
from wrapperir.frontend.aten.values import is_symbolic, leaves_of, lower_constant
from wrapperir.ir.storage_operators import may_keep


def lower_argument(scope: GraphScope, value: Any) -> wir.Argument:
    """Return the argument for a value in a node's ``args`` or ``kwargs``.

    Several results of a node become a tuple.

    Raises:
        DiagnosticError: WIR603, no argument expresses it.
    """
    if isinstance(value, torch.fx.Node):
        lowered = scope.values[value]
        if isinstance(lowered, Elements):
            return tuple(lowered[index] for index in range(lowered.count))
        assert not isinstance(lowered, Poison)
        return lowered
    if isinstance(value, list | tuple):
        return tuple(lower_argument(scope, item) for item in leaves_of(value))
    return scope.lower_scalar(value) if is_symbolic(value) else lower_constant(value)


def kernel_argument(scope: GraphScope, value: Any) -> wir.KernelArgument:
    """Return the argument of a kernel or block for a value.

    Raises:
        DiagnosticError: WIR603, a kernel or block cannot be given it.
    """
    argument = lower_argument(scope, value)
    if isinstance(argument, bool):
        return int(argument)
    if isinstance(argument, wir.BufferRef | int | float | wir.Symbol | wir.Operation):
        return argument
    raise Code.UNSUPPORTED_ARGUMENT.error(f"a block cannot be given {argument!r}")


def tensor_argument(scope: GraphScope, value: Any) -> tuple[str, wir.TensorType]:
    """Return the name and type of the tensor that a value is.

    Raises:
        DiagnosticError: WIR603, it is not a strided tensor.
    """
    argument = lower_argument(scope, value)
    if isinstance(argument, wir.BufferRef):
        type = scope.types[argument.name]
        if isinstance(type, wir.TensorType):
            return argument.name, type
    raise Code.UNSUPPORTED_ARGUMENT.error(f"{value} is not a strided tensor")


def view(
    scope: GraphScope,
    name: str,
    source: str,
    type: wir.TensorType,
    provenance: wir.Provenance,
) -> str:
    """Return the name of a view of ``source``, or ``source`` if the type is the same.

    A view of a tensor with another layout than the example's would read other elements,
    so tensors from a caller or an operator are checked before their first view.
    """
    if scope.types[source] == type:
        return source
    assert_layout(scope, source, f"%{source} is not as in the example", provenance)
    return append_view(scope, name, source, type, provenance)


def append_view(
    scope: GraphScope,
    name: str,
    source: str,
    type: wir.TensorType,
    provenance: wir.Provenance | None,
) -> str:
    """Append a view of a tensor of known layout, and return its name."""
    result = scope.new_name(name)
    scope.declare(result, type, (source,))
    scope.laid_out.add(result)
    scope.lines.append(
        wir.ReinterpretLine(result=result, source=source, type=type, provenance=provenance)
    )
    return result


def assert_layout(
    scope: GraphScope, name: str, message: str, provenance: wir.Provenance | None
) -> None:
    """Append a check of a tensor's size and stride, unless they are known."""
    type = scope.types[name]
    if name in scope.laid_out or not isinstance(type, wir.TensorType):
        return
    scope.laid_out.add(name)
    scope.lines.append(
        wir.AssertSizeStrideLine(
            buffer=name,
            size=type.size,
            stride=type.stride,
            message=message,
            provenance=provenance,
        )
    )


def result_subject(operator: str) -> str:
    """Return how messages of checks of an operator's result begin, and what to do.

    The fake implementation of an operator of another library may be wrong.
    """
    subject = f"torch.ops.{operator}"
    if not may_keep(operator):  # it is PyTorch's
        return subject
    return f"{subject}, whose fake implementation may be wrong (see torch.library.opcheck)"
