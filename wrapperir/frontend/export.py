"""Exported programs: inputs, constants, outputs and mutation."""

from typing import Any

import torch
from attrs import evolve
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.graph import add_constant, lower_nodes
from wrapperir.frontend.aten.inputs import lower_given
from wrapperir.frontend.aten.scope import Poison, Scope, Shared
from wrapperir.ir import (
    CPU,
    Argument,
    BufferRef,
    ConstantInput,
    ExternKernelLine,
    Input,
    Program,
    SymbolDefinitionLine,
    TensorType,
    ValueType,
)
from wrapperir.passes import insert_frees

__all__ = ["Lowered", "lower_exported"]

_MUTATIONS = frozenset(
    kind
    for name in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
    if (kind := getattr(OutputKind, name, None)) is not None
)
_RETURNED = frozenset({OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT})


def lower_exported(exported: ExportedProgram) -> Lowered:
    """Return the program of an exported module, and its parameters and constants.

    The graph's dialect is taken as it is: one line for each operator call, a
    ``reinterpret`` where the call is a view.  ``exported.run_decompositions()`` before
    gives the core ATen dialect, without mutation.

    The program's inputs are the leaves of ``(args, kwargs)``, in the order of
    ``torch.utils._pytree``; its outputs are those of what the module returns.  Constants
    keep the names of ``state_dict`` as keys, and share their memory.

    Raises:
        DiagnosticError: WIR600 to WIR605, one for each thing that cannot be lowered.
    """
    shared = Shared(exported.range_constraints)  # pyright: ignore
    scope = Scope(shared, exported.graph_module)
    inputs, symbols = _lower_inputs(scope, exported)
    lower_nodes(scope, exported.graph.nodes)
    outputs = _lower_outputs(scope, exported)
    if shared.diagnostics:
        raise DiagnosticError(*shared.diagnostics)
    program = Program(
        inputs=tuple(
            Input(name=name, type=type, mutated=name in scope.written)
            for name, type in inputs
        ),
        symbols=tuple(symbols),
        constants=tuple(_constant(constant, scope) for constant in shared.constants),
        lines=tuple(scope.lines),
        outputs=outputs,
    )
    return Lowered(insert_frees(program), shared.tensors)


def _constant(constant: ConstantInput, scope: Scope) -> ConstantInput:
    return evolve(constant, mutated=constant.name in scope.written)


def _lower_inputs(
    scope: Scope, exported: ExportedProgram
) -> tuple[list[tuple[str, ValueType]], list[SymbolDefinitionLine]]:
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    specs = exported.graph_signature.input_specs
    given: list[torch.fx.Node] = []
    for node, spec in zip(placeholders, specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            given.append(node)
        elif spec.kind in (
            InputKind.PARAMETER,
            InputKind.BUFFER,
            InputKind.CONSTANT_TENSOR,
        ):
            _lower_constant(scope, exported, node, str(spec.target))
        else:
            _report(scope, f"input {node.name} is a {spec.kind.name}")
            scope.values[node] = Poison()
    return lower_given(scope, given)


def _lower_constant(
    scope: Scope, exported: ExportedProgram, node: torch.fx.Node, key: str
) -> None:
    tensor: Any = exported.state_dict.get(key)
    if tensor is None:
        tensor = exported.constants.get(key)
    if not isinstance(tensor, torch.Tensor):
        _report(scope, f"input {node.name} is a constant without a tensor, {key}")
        scope.values[node] = Poison()
        return
    try:
        scope.values[node] = BufferRef(add_constant(scope, key, node.name, tensor))
    except DiagnosticError as error:
        scope.shared.diagnostics.extend(error.diagnostics)
        scope.values[node] = Poison()


def _lower_outputs(scope: Scope, exported: ExportedProgram) -> tuple[Argument, ...]:
    node = next(iter(reversed(exported.graph.nodes)))
    specs = exported.graph_signature.output_specs
    inputs = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    targets = {
        str(spec.target): inputs[spec.arg.name]
        for spec in exported.graph_signature.input_specs
        if spec.target is not None
    }
    outputs: list[Argument] = []
    returned: Any = node.args[0]
    for value, spec in zip(returned, specs, strict=True):
        if isinstance(value, torch.fx.Node) and isinstance(scope.values[value], Poison):
            continue
        if spec.kind in _MUTATIONS and isinstance(spec.arg, TensorArgument):
            target = str(spec.target)
            written = inputs[target] if target in inputs else targets[target]
            _copy_back(scope, written, value)
        elif spec.kind in _RETURNED and not isinstance(value, str):
            outputs.append(lower_argument(scope, value))
        else:
            what = "a string" if isinstance(value, str) else f"a {spec.kind.name}"
            _report(scope, f"an output is {what}")
    return tuple(outputs)


def _copy_back(scope: Scope, target: torch.fx.Node, value: torch.fx.Node) -> None:
    """Write the new value of an input or buffer, as torch does after the graph."""
    name, source = lower_argument(scope, target), lower_argument(scope, value)
    assert isinstance(name, BufferRef)
    if name == source:
        return
    scope.write(name.name)
    type = scope.types[name.name]
    scope.lines.append(
        ExternKernelLine(
            operator="aten.copy_.default",
            arguments=(name, source),
            writes=(name.name,),
            device=type.device if isinstance(type, TensorType) else CPU,
        )
    )


def _report(scope: Scope, what: str) -> None:
    scope.shared.diagnostics.append(
        Diagnostic(Code.UNSUPPORTED_SIGNATURE, f"{what}, which a program cannot carry")
    )
