"""Inputs of a graph that have a layout of another library."""

from collections.abc import Sequence

import torch

from wrapperir.diagnostics import Code
from wrapperir.frontend.failures import node_location


def refuse_opaque_inputs(graph: torch.fx.GraphModule, inputs: Sequence[object]) -> None:
    """Refuse a graph that is given a tensor without strides or elements at an address.

    PyTorch traces such a tensor as if it had the strides that it reports.

    Raises:
        DiagnosticError: WIR604, an input is a tensor of oneDNN's.
    """
    given = graph.graph.find_nodes(op="placeholder")
    for node, value in zip(given, inputs, strict=False):
        if isinstance(value, torch.Tensor) and value.is_mkldnn:
            place = next(filter(None, map(node_location, node.users)), None)
            raise Code.UNSUPPORTED_VALUE.error(
                f"the input {node.name} has the layout {value.layout}, which has no type in"
                " a program",
                origin=None if place is None else f"{place.file}:{place.line}",
                hint="call to_dense() on it first, or keep this part of the model out with"
                " torch.compiler.disable",
            )
