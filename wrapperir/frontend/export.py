"""Exported programs: inputs, constants, outputs and mutation."""

from collections.abc import Hashable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.graph import (
    add_constant,
    finished_program,
    lower_given,
    lower_nodes,
)
from wrapperir.frontend.aten.scope import GraphScope, Poison, Shared
from wrapperir.frontend.aten.signature import (
    HELD,
    MUTATIONS,
    RETURNED,
    held_name,
    held_tensor,
    inputs_by_target,
    tensor_identity,
    unsupported,
    with_tied_keys,
    without_unused_constants,
)
from wrapperir.frontend.named_program import name_program
from wrapperir.frontend.user_names import exported_names
from wrapperir.passes import insert_frees

__all__ = ["lower_exported"]


def lower_exported(exported: ExportedProgram) -> Lowered:
    """Return the program of an exported module, and its parameters and constants.

    The graph's dialect is taken as it is: one line for each operator call, a
    ``reinterpret`` where the call is a view.  ``exported.run_decompositions()`` before
    gives the core ATen dialect, without mutation.

    The program's inputs are the leaves of ``(args, kwargs)``, in the order of
    ``torch.utils._pytree``; its outputs are the leaves of the result.  Constants
    keep the names of ``state_dict`` as keys, and share their memory.  Tied ones are one
    constant, with the first of their keys; those that are not used are left out.

    Raises:
        DiagnosticError: WIR600 to WIR605, one for each thing that cannot be lowered.
    """
    shared = Shared(exported.range_constraints)  # pyright: ignore
    scope = GraphScope(shared, exported.graph_module)
    _lower_inputs(scope, exported)
    lower_nodes(scope, exported.graph.nodes)
    outputs = _lower_outputs(scope, exported)
    program = insert_frees(finished_program(scope, outputs))
    named = name_program(program, exported_names(exported))
    lowered = without_unused_constants(Lowered(named, shared.tensors))
    return with_tied_keys(lowered, exported)


def _lower_inputs(scope: GraphScope, exported: ExportedProgram) -> None:
    placeholders = exported.graph.find_nodes(op="placeholder")
    specs = exported.graph_signature.input_specs
    names = {node.name for node in placeholders}
    given: list[torch.fx.Node] = []
    constants: dict[Hashable, wir.BufferRef] = {}
    for node, spec in zip(placeholders, specs, strict=True):
        try:
            if spec.kind is InputKind.USER_INPUT:
                given.append(node)
            elif spec.kind in HELD:
                tensor = held_tensor(exported, node, spec)
                identity, key = tensor_identity(tensor), str(spec.target)
                if identity not in constants:
                    name = held_name(key, node.name, names)
                    added = add_constant(scope, key, name, tensor)
                    constants[identity] = wir.BufferRef(added)
                scope.values[node] = constants[identity]
            else:
                raise unsupported(f"input {node.name} is a {spec.kind.name}")
        except DiagnosticError as error:
            scope.poison(node, *error.diagnostics)
    lower_given(scope, given)


def _lower_outputs(
    scope: GraphScope, exported: ExportedProgram
) -> tuple[wir.Argument, ...]:
    specs = exported.graph_signature.output_specs
    inputs = inputs_by_target(exported)
    outputs: list[wir.Argument] = []
    returned: Any = exported.graph.output_node().args[0]
    for value, spec in zip(returned, specs, strict=True):
        if isinstance(value, torch.fx.Node) and isinstance(scope.values[value], Poison):
            continue
        if spec.kind in MUTATIONS:
            _copy_back(scope, inputs[str(spec.target)], value)
        elif spec.kind in RETURNED and not isinstance(value, str):
            outputs.append(lower_argument(scope, value))
        else:
            what = "a string" if isinstance(value, str) else f"a {spec.kind.name}"
            error = unsupported(f"an output is {what}")
            scope.shared.diagnostics.extend(error.diagnostics)
    return tuple(outputs)


def _copy_back(scope: GraphScope, target: torch.fx.Node, value: torch.fx.Node) -> None:
    """Write the new value of an input or buffer, as torch does after the graph."""
    name, source = lower_argument(scope, target), lower_argument(scope, value)
    assert isinstance(name, wir.BufferRef)
    if name == source:
        return
    scope.write(name.name)
    type = scope.types[name.name]
    scope.lines.append(
        wir.ExternKernelLine(
            operator="aten.copy_.default",
            arguments=(name, source),
            writes=(name.name,),
            device=type.device if isinstance(type, wir.TensorType) else wir.CPU,
        )
    )
