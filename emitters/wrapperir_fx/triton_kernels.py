"""Triton kernels in PyTorch's side table, where graphs find them by index."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator, Sequence
from typing import Any, cast

from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch.fx import GraphModule, Node

from wrapperir.ir.line import DefinitionLine, KernelDefinitionLine
from wrapperir_fx.kernel_functions import triton_function


def bind_triton_kernels(
    module: GraphModule, definitions: Sequence[DefinitionLine], *, interpreted: bool
) -> None:
    """Put the Triton kernels that a built graph calls into PyTorch's side table.

    In the calls, in nested graphs too, indices into ``definitions`` become indices into
    that table.  It is the process's, and ``torch._dynamo.reset`` empties it: a graph that
    was bound before then is to be built again.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    calls = list(triton_calls(module))
    if not calls:
        return
    table: dict[int, int] = {}
    constant_args = kernel_side_table.add_constant_args({})
    for _, node in calls:
        index = cast(int, node.kwargs["kernel_idx"])
        if index not in table:
            definition = definitions[index]
            assert isinstance(definition, KernelDefinitionLine)
            function = triton_function(definition, interpreted=interpreted)
            table[index] = kernel_side_table.add_kernel(cast(Any, function))
        node.update_kwarg("kernel_idx", table[index])
        node.update_kwarg("constant_args_idx", constant_args)
    for owner in dict.fromkeys(owner for owner, _ in calls):
        owner.recompile()


def triton_calls(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """Yield each launch of a Triton kernel, nested ones too, with the module it is of."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            for node in owner.graph.find_nodes(
                op="call_function", target=triton_kernel_wrapper_mutation
            ):
                yield owner, node
