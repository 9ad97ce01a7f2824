"""Triton kernels in PyTorch's side table, where graphs find them by index.

The table belongs to the process.  PyTorch numbers entries by the table's size, and
``torch._dynamo.reset`` empties it: after that, a graph's index would name another kernel,
or none.  So each kernel of ours has an index made from its definition, the same in every
process, and a reset leaves the kernels that graphs were bound to.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, cast

from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch.fx import GraphModule, Node

from wrapperir.fx import definition_key
from wrapperir.ir import DefinitionLine, KernelDefinitionLine
from wrapperir_fx.kernel_functions import triton_function

_ENTERED: dict[int, Any] = {}
_NO_CONSTANTS = 1 << 62  # index of the constants of all our calls; PyTorch's count from 0


def bind_triton_kernels(
    module: GraphModule, definitions: Sequence[DefinitionLine], *, interpreted: bool
) -> None:
    """Put the Triton kernels that a built graph calls into PyTorch's side table.

    In the calls, in nested graphs too, indices into ``definitions`` become indices into
    that table.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    calls = list(triton_calls(module))
    table: dict[int, int] = {}
    for _, node in calls:
        index = cast(int, node.kwargs["kernel_idx"])
        if index not in table:
            definition = definitions[index]
            assert isinstance(definition, KernelDefinitionLine)
            table[index] = enter_triton_kernel(definition, interpreted=interpreted)
        node.update_kwarg("kernel_idx", table[index])
        node.update_kwarg("constant_args_idx", _NO_CONSTANTS)
    for owner in dict.fromkeys(owner for owner, _ in calls):
        owner.recompile()


def enter_triton_kernel(definition: KernelDefinitionLine, *, interpreted: bool) -> int:
    """Put a Triton kernel into PyTorch's side table for good, and return its index there.

    The index is that of the kernel in other processes too.

    Raises:
        DiagnosticError: WIR709, the kernel does not build.
    """
    function = triton_function(definition, interpreted=interpreted)
    key = f"{definition_key(definition)}:{interpreted}"
    index = int(hashlib.sha256(key.encode()).hexdigest()[:15], 16)
    with kernel_side_table.lock:
        if not _ENTERED:
            _keep_over_resets()
        known = _ENTERED.setdefault(index, function)
        assert known is function
        _write_entries()
    return index


def triton_calls(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """Yield each launch of a Triton kernel and its module, in nested graphs too."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            for node in owner.graph.find_nodes(
                op="call_function", target=triton_kernel_wrapper_mutation
            ):
                yield owner, node


def _keep_over_resets() -> None:
    # Restored at the reset, not where a graph runs: what others traced or compiled from a
    # graph has its indices too, and runs without code of ours.
    reset_table = kernel_side_table.reset_table

    def reset() -> None:
        reset_table()
        with kernel_side_table.lock:
            _write_entries()

    vars(kernel_side_table)["reset_table"] = reset


def _write_entries() -> None:
    kernel_side_table.id_to_kernel.update(_ENTERED)
    kernel_side_table.kernel_to_id.update({kernel: i for i, kernel in _ENTERED.items()})
    kernel_side_table.constant_args[_NO_CONSTANTS] = {}
