"""Arguments of operator calls."""

from typing import Any

import torch

from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.scope import Lowering, Poison, Results, Scope, Views
from wrapperir.frontend.aten.values import leaves_of, lower_device, lower_dtype
from wrapperir.frontend.provenance import node_provenance
from wrapperir.ir import (
    Argument,
    AssertSizeStrideLine,
    BufferRef,
    ComplexLiteral,
    MultiOutputLine,
    Provenance,
    ReinterpretLine,
    TensorType,
    TorchEnum,
)


def lower_argument(scope: Scope, value: Any) -> Argument:
    """Return the argument for a value in a node's ``args`` or ``kwargs``.

    Raises:
        DiagnosticError: WIR603, no argument expresses it.
    """
    match value:
        case torch.fx.Node():
            return lowered_argument(scope, scope.values[value])
        case list() | tuple():
            return tuple(lower_argument(scope, item) for item in leaves_of(value))
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return scope.lower_scalar(value)
        case None | bool() | int() | float() | str():
            return value
        case complex():
            return ComplexLiteral(value.real, value.imag)
        case torch.dtype():
            return lower_dtype(value)
        case torch.device():
            return lower_device(value)
        case torch.layout():
            return TorchEnum("layout", str(value).removeprefix("torch."))
        case torch.memory_format():
            return TorchEnum("memory_format", str(value).removeprefix("torch."))
        case _:
            raise Code.UNSUPPORTED_ARGUMENT.error(
                f"no argument expresses a {type(value).__name__}"
            )


def lowered_argument(scope: Scope, value: Lowering) -> Argument:
    """Return the argument for a lowered value; several results become a tuple."""
    if isinstance(value, Views):
        return tuple(element(scope, value, i) for i in range(len(value.types)))
    if isinstance(value, Results):
        return tuple(element(scope, value, i) for i in range(len(value.names)))
    assert not isinstance(value, Poison)
    return value


def element(scope: Scope, value: Lowering, index: int) -> Argument:
    """Return one of several results; the first time, a line names it."""
    if isinstance(value, Views):
        if index not in value.named:
            name = view(
                scope,
                f"{value.node.name}_{index}",
                value.sources[index],
                value.types[index],
                node_provenance(value.node),
            )
            value.named[index] = BufferRef(name)
        return value.named[index]
    if isinstance(value, Results):
        if index not in value.named:
            value.named[index] = _output(scope, value, index)
        return value.named[index]
    assert isinstance(value, tuple)
    return value[index]


def _output(scope: Scope, results: Results, index: int) -> BufferRef:
    name, type = results.names[index], results.type.elements[index]
    scope.declare(name, type, (results.source,))
    scope.lines.append(
        MultiOutputLine(
            result=name,
            source=results.source,
            indices=(index,),
            type=type,
            provenance=node_provenance(results.node),
        )
    )
    return BufferRef(name)


def view(
    scope: Scope, name: str, source: str, type: TensorType, provenance: Provenance
) -> str:
    """Return the name of a view of ``source``: its own where the type is the same.

    A view of what is laid out otherwise than the example would read other elements, so
    what came from a caller or an operator is checked before it is first viewed.
    """
    if scope.types[source] == type:
        return source
    _assert_layout(scope, source, provenance)
    result = scope.new_name(name)
    scope.declare(result, type, (source,))
    scope.laid_out.add(result)
    scope.lines.append(
        ReinterpretLine(result=result, source=source, type=type, provenance=provenance)
    )
    return result


def _assert_layout(scope: Scope, name: str, provenance: Provenance) -> None:
    type = scope.types[name]
    if name in scope.laid_out or not isinstance(type, TensorType):
        return
    scope.laid_out.add(name)
    scope.lines.append(
        AssertSizeStrideLine(
            buffer=name,
            size=type.size,
            stride=type.stride,
            message=f"%{name} is not as in the example",
            provenance=provenance,
        )
    )
