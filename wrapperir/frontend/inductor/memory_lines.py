"""Lowering of Inductor's memory lines: allocate, free, reuse, view."""

from typing import Any

from attrs import evolve
from torch._inductor import ir
from torch._inductor.codegen import wrapper as inductor
from torch._inductor.codegen.common import WorkspaceArg, WorkspaceZeroMode

from wrapperir import ir as wir
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.user_streams import order_after_main
from wrapperir.frontend.inductor.values import (
    buffer_type,
    lower_shape,
    tensor_type,
    view_type,
)

ZERO_MODES = {
    WorkspaceZeroMode.UNINITIALIZED: wir.ZeroMode.UNINITIALIZED,
    WorkspaceZeroMode.ZERO_ON_CALL: wir.ZeroMode.ZERO_ON_CALL,
    WorkspaceZeroMode.ZERO_PER_GRAPH: wir.ZeroMode.ZERO_PER_PROGRAM,
}
"""Zero mode of each of Inductor's workspace modes."""

SYMMETRIC_MEMORY = "inductor.symmetric_memory"
"""Vendor layout of a buffer for collectives; its parameter is the group's name."""


def lower_allocate(scope: BlockScope, line: inductor.AllocateLine) -> None:
    """Lower an allocation.

    Where Inductor pads a buffer in place, the padded memory is allocated and then
    reused as the buffer, so that its storage keeps the room.
    """
    node: Any = line.node
    name = scope.name(node.get_name())
    if isinstance(node, WorkspaceArg):
        _allocate(scope, name, buffer_type(node), ZERO_MODES[node.zero_mode])
        if node.zero_mode is not WorkspaceZeroMode.UNINITIALIZED:
            scope.written.add(name)
            order_after_main(scope)
        if node.zero_mode is WorkspaceZeroMode.ZERO_PER_GRAPH:
            del scope.live[name]
        return
    type = buffer_type(node)
    if line.comm_buffer:
        group = (str(node.get_output_spec().group_name),)
        layout = wir.VendorLayout(SYMMETRIC_MEMORY, group)
        type = evolve(type, space="comm", layout=layout)
    padded = lower_shape(scope.graph.get_allocation_size(node))
    if padded == type.size:
        _allocate(scope, name, type)
    else:
        room = tensor_type(node.get_dtype(), padded, node.get_stride(), node.get_device())
        _allocate(scope, f"{name}_padded", room)
        scope.reuse(name, f"{name}_padded", type)


def _allocate(
    scope: BlockScope, name: str, type: wir.TensorType, mode: wir.ZeroMode | None = None
) -> None:
    scope.append(wir.AllocateLine(result=name, type=type, workspace=mode))
    scope.define(name, type)
    scope.allocated.add(name)


def lower_free(scope: BlockScope, line: inductor.FreeLine) -> None:
    """Lower a free of an input or script object."""
    scope.free(scope.name(line.node.get_name()))


def lower_free_if_not_reused(scope: BlockScope, line: inductor.FreeIfNotReusedLine) -> None:
    """Lower a free, unless a later line reuses the memory."""
    name = line.node.get_name()
    if not line.is_reused and name not in scope.merged:
        scope.free(scope.name(name))


def lower_reuse(scope: BlockScope, line: inductor.ReuseLine) -> None:
    """Lower a reuse; where both names stay in use it is a view."""
    node: Any = line.reused_as
    source, result = scope.name(line.node.get_name()), scope.name(node.get_name())
    type, base = buffer_type(node), scope.tensor(source)
    if base.offset != 0:  # the new buffer begins where the old one does
        type = evolve(type, offset=base.offset)
    if line.node.get_name() in scope.graph.get_output_names() or not line.delete_old:
        scope.reinterpret(result, source, type)
        scope.written.discard(result)
        return
    scope.reuse(result, source, type)
    if (
        isinstance(node, WorkspaceArg)
        and node.zero_mode is not WorkspaceZeroMode.UNINITIALIZED
    ):
        scope.zero(result)


def lower_reinterpret(scope: BlockScope, line: inductor.ReinterpretLine) -> None:
    """Lower a buffer that is a view of another, unless it was fused away."""
    if line.reused_as.get_name() in scope.graph.removed_buffers:
        return
    layout: Any = line.layout
    view: ir.ReinterpretView = layout.view
    source = scope.name(view.get_name())
    name = scope.name(line.reused_as.get_name())
    scope.reinterpret(name, source, view_type(scope, source, view.layout))
