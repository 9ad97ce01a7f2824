"""Exported programs as programs of our own kernels."""

import warnings
from typing import Any

import torch
from torch.export import ExportedProgram

from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.aten.signature import (
    HELD,
    MUTATIONS,
    RETURNED,
    held_tensor,
    inputs_by_target,
    unsupported,
)
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.lower import HeldTensor, LoweringStages, lower_to_program
from wrapperir.lowering.schedule import Rounding


def lower_exported(
    exported: ExportedProgram, rounding: Rounding = Rounding.FUSED
) -> LoweringStages:
    """Return the program of an exported module, with the stages before it.

    Inputs, outputs and constants are those of
    :func:`wrapperir.frontend.export.lower_exported`.

    Raises:
        DiagnosticError: WIR600 to WIR605, what neither loops nor lines express.
    """
    with warnings.catch_warnings():  # torch copies trees in a way that it deprecates
        warnings.simplefilter("ignore", FutureWarning)
        functional = exported.run_decompositions(dict(table()))
    module = functional.graph_module
    held: dict[torch.fx.Node, HeldTensor] = {}
    placeholders = module.graph.find_nodes(op="placeholder")
    specs = functional.graph_signature.input_specs
    for node, spec in zip(placeholders, specs, strict=True):
        if spec.kind in HELD:
            tensor = held_tensor(functional, node, spec)
            held[node] = HeldTensor(key=str(spec.target), tensor=tensor)
        elif spec.kind.name != "USER_INPUT":
            raise unsupported(f"input {node.name} is a {spec.kind.name}")
    _write_back(functional, module.graph)
    return lower_to_program(module, rounding, held)


def _write_back(exported: ExportedProgram, graph: torch.fx.Graph) -> None:
    """Write new values of inputs to them in the graph, and leave what is returned."""
    inputs = inputs_by_target(exported)
    output = graph.output_node()
    results: Any = output.args[0]
    kept: list[Any] = []
    found: list[DiagnosticError] = []
    for value, spec in zip(results, exported.graph_signature.output_specs, strict=True):
        if spec.kind in MUTATIONS:
            target = inputs[str(spec.target)]
            if target is value:
                continue
            with graph.inserting_before(output):
                copied = graph.call_function(torch.ops.aten.copy_.default, (target, value))
            copied.meta["val"] = target.meta["val"]
        elif spec.kind in RETURNED and not isinstance(value, str):
            kept.append(value)
        else:
            what = "a string" if isinstance(value, str) else f"a {spec.kind.name}"
            found.append(unsupported(f"an output is {what}"))
    if found:
        raise DiagnosticError(*(each.diagnostics[0] for each in found))
    output.args = (tuple(kept),)
