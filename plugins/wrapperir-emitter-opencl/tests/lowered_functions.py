"""Programs of our own lowering for the OpenCL device, which PyTorch has no tensors for."""

from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.utils import _pytree as pytree

from wrapperir import ir as wir
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.lower import lower_to_program
from wrapperir.lowering.schedule import Rounding

DEVICE = torch.device("opencl", 0)


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def lower_on_device(
    function: Callable[..., object],
    args: tuple[torch.Tensor, ...],
    dynamic: tuple[dict[int, Any], ...] | None = None,
) -> wir.Program:
    """Return the program of a function, with all of its tensors on the device."""
    shapes = None if dynamic is None else (dynamic,)
    exported = torch.export.export(_Function(function), args, dynamic_shapes=shapes)
    module = exported.run_decompositions(dict(table())).graph_module
    values = [node.meta.get("val") for node in module.graph.nodes]
    mode = detect_fake_mode(values)
    assert mode is not None

    def moved(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        count = value.untyped_storage().nbytes() // value.element_size()
        with mode:
            memory = torch.empty(count, dtype=value.dtype, device=DEVICE)
            return memory.as_strided(value.shape, value.stride(), value.storage_offset())

    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
            continue
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(moved, node.meta["val"])
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": DEVICE}
    return lower_to_program(module, Rounding.EAGER).lowered.program
