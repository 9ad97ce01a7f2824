"""Lowering of Inductor's memory lines: allocate, free, reuse, view."""

from typing import Any

from torch._inductor import ir
from torch._inductor.codegen.common import WorkspaceArg, WorkspaceZeroMode
from torch._inductor.codegen.wrapper import (
    AllocateLine,
    FreeIfNotReusedLine,
    FreeLine,
    ReinterpretLine,
    ReuseLine,
)

from wrapperir.frontend.inductor.layouts import buffer_type, lower_shape, tensor_type
from wrapperir.frontend.inductor.operands import view_type
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.ir import TensorType, VendorLayout, ZeroMode
from wrapperir.ir import line as wir

ZERO_MODES = {
    WorkspaceZeroMode.UNINITIALIZED: ZeroMode.UNINITIALIZED,
    WorkspaceZeroMode.ZERO_ON_CALL: ZeroMode.ZERO_ON_CALL,
    WorkspaceZeroMode.ZERO_PER_GRAPH: ZeroMode.ZERO_PER_PROGRAM,
}
"""Zero mode of each of Inductor's workspace modes."""

SYMMETRIC_MEMORY = "inductor.symmetric_memory"
"""Vendor layout of a buffer for collectives; its parameter is the group's name."""


def lower_allocate(scope: Scope, line: AllocateLine) -> None:
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
        if node.zero_mode is WorkspaceZeroMode.ZERO_PER_GRAPH:
            del scope.live[name]
        return
    type = _comm_type(node) if line.comm_buffer else buffer_type(node)
    padded = lower_shape(scope.graph.get_allocation_size(node))
    if padded != type.size:
        room = tensor_type(node.get_dtype(), padded, node.get_stride(), node.get_device())
        _allocate(scope, f"{name}_padded", room)
        scope.reuse(name, f"{name}_padded", type)
        return
    _allocate(scope, name, type)


def _allocate(
    scope: Scope, name: str, type: TensorType, mode: ZeroMode | None = None
) -> None:
    scope.append(wir.AllocateLine(result=name, type=type, workspace=mode))
    scope.define(name, type)


def _comm_type(node: Any) -> TensorType:
    layout: Any = node.get_output_spec()
    return tensor_type(
        layout.dtype,
        layout.size,
        layout.stride,
        layout.device,
        space="comm",
        layout=VendorLayout(SYMMETRIC_MEMORY, (str(layout.group_name),)),
    )


def lower_free(scope: Scope, line: FreeLine) -> None:
    """Lower a free of an input or script object."""
    scope.free(scope.name(line.node.get_name()))


def lower_free_if_not_reused(scope: Scope, line: FreeIfNotReusedLine) -> None:
    """Lower a free, unless a later line reuses the memory."""
    name = line.node.get_name()
    if not line.is_reused and name not in scope.merged:
        scope.free(scope.name(name))


def lower_reuse(scope: Scope, line: ReuseLine) -> None:
    """Lower a reuse; where both names stay in use it is a view."""
    node: Any = line.reused_as
    source, result = scope.name(line.node.get_name()), scope.name(node.get_name())
    type = buffer_type(node)
    if line.node.get_name() in scope.graph.get_output_names() or not line.delete_old:
        base = scope.tensor(source)
        scope.reinterpret(result, source, _moved(type, base), None)
        scope.written.discard(result)
        return
    scope.reuse(result, source, _moved(type, scope.tensor(source)))
    if isinstance(node, WorkspaceArg):
        _zero_reused(scope, node)


def _moved(type: TensorType, base: TensorType) -> TensorType:
    """Return ``type`` at the place of ``base``, where that is not its storage's start."""
    if base.offset == 0:
        return type
    return TensorType(
        dtype=type.dtype,
        size=type.size,
        stride=type.stride,
        offset=base.offset,
        device=type.device,
    )


def _zero_reused(scope: Scope, node: WorkspaceArg) -> None:
    if node.zero_mode is WorkspaceZeroMode.UNINITIALIZED:
        return
    name = scope.name(node.get_name())
    scope.append(
        wir.ExternKernelLine(
            operator="aten.zero_.default",
            arguments=(wir.BufferRef(name),),
            writes=(name,),
            device=scope.tensor(name).device,
        )
    )
    scope.write(name)


def lower_reinterpret(scope: Scope, line: ReinterpretLine) -> None:
    """Lower a buffer that is a view of another, unless it was fused away."""
    if line.reused_as.get_name() in scope.graph.removed_buffers:
        return
    layout: Any = line.layout
    view: ir.ReinterpretView = layout.view
    source = scope.name(view.get_name())
    name = scope.name(line.reused_as.get_name())
    scope.reinterpret(name, source, view_type(scope, source, view.layout), None)
