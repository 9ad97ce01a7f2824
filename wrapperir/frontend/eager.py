"""The values of an exported graph as PyTorch computes them, by node."""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import field, frozen
from torch.export import ExportedProgram

from wrapperir.emit import Value
from wrapperir.frontend.aten.signature import HELD, RETURNED, held_tensor


@frozen(eq=False)
class EagerRun:
    """The tensor of each node by its name, and what the graph returns."""

    values: dict[str, torch.Tensor] = field(factory=dict[str, torch.Tensor])
    outputs: tuple[Value, ...] = ()


class _Recording(torch.fx.Interpreter):
    """Keeps a copy of the tensor that each node makes: a later node may change it."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result: Any = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op != "placeholder":
            self.values[n.name] = result.detach().clone()
        return result


def run_eagerly(exported: ExportedProgram, inputs: Sequence[Value]) -> EagerRun:
    """Run the graph of an exported program, node by node.

    ``inputs`` are the leaves of its arguments.  They are copied, and so are the tensors
    that the program holds.
    """
    given = iter(inputs)
    arguments: list[Any] = []
    nodes = exported.graph.find_nodes(op="placeholder")
    for node, spec in zip(nodes, exported.graph_signature.input_specs, strict=True):
        held = spec.kind in HELD
        value: Any = held_tensor(exported, node, spec) if held else next(given)
        is_tensor = isinstance(value, torch.Tensor)
        arguments.append(value.detach().clone() if is_tensor else value)
    recording = _Recording(exported.graph_module)
    with torch.no_grad():
        returned: Any = recording.run(*arguments)
    kept = [
        value
        for value, spec in zip(returned, exported.graph_signature.output_specs, strict=True)
        if spec.kind in RETURNED
    ]
    return EagerRun(recording.values, tuple(kept))
