"""Lowering of allocations, views and frees."""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import (
    append_view,
    lower_argument,
    tensor_argument,
)
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.aten.values import lower_device, lower_dtype
from wrapperir.frontend.fx.numbers import expression, expressions
from wrapperir.frontend.fx.state import example_of
from wrapperir.fx import functions

_GIVEN = frozenset({"dtype", "device", "pin_memory"})


def lower_empty(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append an allocation, unless the only user aligns it and so allocates it.

    Raises:
        DiagnosticError: WIR603, an argument; WIR604, a dtype that cannot be expressed.
    """
    users = list(node.users)
    if len(users) == 1 and users[0].target is functions.aligned:
        return
    _allocate(scope, node, node, node.args, None)


def lower_aligned(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append an allocation with an alignment.

    Memory that a module keeps is viewed from its start: no line depends on its address.

    Raises:
        DiagnosticError: WIR602, the memory is used otherwise too.
    """
    memory, *layout, alignment = node.args
    assert isinstance(memory, torch.fx.Node)
    assert isinstance(alignment, int)
    if len(memory.users) > 1:
        raise Code.UNSUPPORTED_OPERATOR.error(
            f"where {memory.name} is aligned is known when it runs only",
            hint="use the memory in no other node",
        )
    if scope.values.get(memory) is not None:
        _view(scope, node, memory, (*layout, 0))
    else:
        _allocate(scope, node, memory, layout, alignment)


def _allocate(
    scope: GraphScope,
    node: torch.fx.Node,
    call: torch.fx.Node,
    layout: Sequence[Any],
    alignment: int | None,
) -> None:
    unknown = call.kwargs.keys() - _GIVEN
    if unknown or len(layout) != 2:
        raise Code.UNSUPPORTED_ARGUMENT.error(
            "an allocation has just a size, a stride, a dtype, a device and pin_memory"
        )
    dtype: Any = call.kwargs.get("dtype") or torch.get_default_dtype()
    device: Any = call.kwargs.get("device")
    size, stride = layout
    type = wir.TensorType(
        dtype=lower_dtype(dtype),
        size=expressions(scope, size),
        stride=expressions(scope, stride),
        device=wir.CPU if device is None else lower_device(torch.device(device)),
        space="comm" if call.target is functions.empty_symmetric else wir.DEFAULT_SPACE,
        pinned=bool(call.kwargs.get("pin_memory")),
        alignment=alignment,
    )
    _append_allocation(scope, node, type, None)


def lower_kept(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a ``zero_per_program`` workspace, one for each layout that is asked for."""
    type = scope.lower_type(example_of(node))
    assert isinstance(type, wir.TensorType)
    size, stride = node.args
    layout = expressions(scope, size), expressions(scope, stride)
    type = evolve(type, size=layout[0], stride=layout[1])
    _append_allocation(scope, node, type, wir.ZeroMode.ZERO_PER_PROGRAM)


def _append_allocation(
    scope: GraphScope,
    node: torch.fx.Node,
    type: wir.TensorType,
    workspace: wir.ZeroMode | None,
) -> str:
    name = scope.new_name(node.name)
    scope.declare(name, type)
    scope.laid_out.add(name)
    scope.values[node] = wir.BufferRef(name)
    scope.lines.append(
        wir.AllocateLine(
            result=name, type=type, workspace=workspace, provenance=scope.provenance(node)
        )
    )
    return name


def lower_as_strided(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a view; its offset counts from the start of the source's storage.

    Raises:
        DiagnosticError: WIR603, the source is not a tensor or an argument is not a number.
    """
    given: dict[str, Any] = dict(zip(_AS_STRIDED, node.args, strict=False))
    given.update(node.kwargs)
    source = given.get("self", given.get("input"))
    _view(scope, node, source, [given.get(name) for name in _AS_STRIDED[1:]])


_AS_STRIDED = ("self", "size", "stride", "storage_offset")


def _view(
    scope: GraphScope, node: torch.fx.Node, value: Any, layout: Sequence[Any]
) -> None:
    source, type = tensor_argument(scope, value)
    size, stride, offset = layout
    viewed = evolve(
        type,
        size=expressions(scope, size),
        stride=expressions(scope, stride),
        offset=type.offset if offset is None else expression(scope, offset),
        alignment=None,
    )
    _append_view(scope, node, source, viewed)


def lower_retyped(scope: GraphScope, node: torch.fx.Node) -> bool:
    """Append a view in another dtype; return whether a view can express it.

    If the size of elements changes, those of the last dimension must be adjacent.
    """
    source, type = tensor_argument(scope, node.args[0])
    dtype: Any = node.args[1]
    retyped = evolve(type, dtype=lower_dtype(dtype), alignment=None)
    old, new = type.dtype.itemsize, retyped.dtype.itemsize
    if old != new:
        if type.stride[-1:] != (1,):
            return False
        *outer, last = type.size
        steps = [wir.divided(wir.mul(step, old), new) for step in type.stride[:-1]]
        retyped = evolve(
            retyped,
            size=(*outer, wir.divided(wir.mul(last, old), new)),
            stride=(*steps, 1),
            offset=wir.divided(wir.mul(type.offset, old), new),
        )
    _append_view(scope, node, source, retyped)
    return True


def _append_view(
    scope: GraphScope, node: torch.fx.Node, source: str, type: wir.TensorType
) -> None:
    name = append_view(scope, node.name, source, type, scope.provenance(node))
    scope.values[node] = wir.BufferRef(name)


def lower_laid_out(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a copy of a tensor with the given layout, if its own layout differs."""
    given, size, stride, offset = node.args
    source, type = tensor_argument(scope, given)
    wanted = evolve(
        type,
        size=expressions(scope, size),
        stride=expressions(scope, stride),
        offset=expression(scope, offset),
        pinned=bool(node.kwargs.get("pinned")),
    )
    if wanted == type:
        scope.values[node] = wir.BufferRef(source)
        return
    copy = _append_allocation(scope, node, wanted, None)
    scope.lines.append(
        wir.ExternKernelLine(
            operator="aten.copy_.default",
            arguments=(wir.BufferRef(copy), wir.BufferRef(source)),
            writes=(copy,),
            device=type.device,
            provenance=scope.provenance(node),
        )
    )


def lower_free(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a free; :func:`~wrapperir.frontend.fx.pools.keep_last_frees` checks it."""
    value = lower_argument(scope, node.args[0])
    if isinstance(value, wir.BufferRef):
        scope.lines.append(
            wir.FreeLine(buffer=value.name, provenance=scope.provenance(node))
        )
