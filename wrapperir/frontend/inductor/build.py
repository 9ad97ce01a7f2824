"""Programs, built from the lines that wrappers collected."""

from typing import TYPE_CHECKING, Any

import sympy
import torch
from attrs import evolve
from torch._inductor import config, ir
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from wrapperir import ir as wir
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.collectives import lower_collectives
from wrapperir.frontend.aten.storage_offsets import input_places
from wrapperir.frontend.inductor.lines import lower_lines
from wrapperir.frontend.inductor.memory_origins import with_memory_origins
from wrapperir.frontend.inductor.missing_waits import add_missing_waits
from wrapperir.frontend.inductor.multi_kernels import united_parameters
from wrapperir.frontend.inductor.passed_objects import (
    give_objects,
    is_object,
    take_results,
)
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.storage_offsets import input_offsets, place_symbols
from wrapperir.frontend.inductor.symbol_lines import define_symbol
from wrapperir.frontend.inductor.user_streams import (
    begin_streams,
    end_streams,
    find_streams,
)
from wrapperir.frontend.inductor.values import (
    layout_type,
    lower_operand,
    scalar_type,
    tensor_type,
)
from wrapperir.passes import check_nans
from wrapperir.symbolic import lower_sympy

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session
    from wrapperir.frontend.inductor.wrapper import CaptureWrapper


def build_program(wrapper: "CaptureWrapper") -> Lowered:
    """Return the program of the outermost graph, and its constants."""
    session = wrapper.session
    graph: Any = V.graph
    scope = BlockScope(session, graph, nested=False)
    types: dict[str, wir.ValueType] = {}
    places = input_places(graph.graph, input_offsets(graph))
    donated: set[str] = set()
    for index, name in enumerate(graph.graph_input_names):
        offset = places[name].offset if name in places else 0
        value = graph.graph_inputs.get(name)
        types[name] = (
            wir.OpaqueType("object")
            if is_object(graph, value)
            else input_type(value, offset)
        )
        if index in (session.donated or ()) and _may_own(graph, name, types[name]):
            donated.add(name)
            scope.own(name, types[name])
        else:
            freeable = not isinstance(types[name], wir.OpaqueType)
            scope.borrow(name, types[name], freeable=freeable)
    borrow_constants(scope)
    for name in graph.torchbind_constants:
        scope.borrow(name, wir.OpaqueType("object"))
    symbols = input_symbols(scope, graph.graph_inputs) + place_symbols(scope, places)
    session.streams = find_streams(wrapper.lines, graph)
    begin_streams(scope)
    lower_lines(scope, wrapper.lines)
    passed = session.passed
    outputs = lower_outputs(scope, take_results(graph, wrapper.get_graph_outputs(), passed))
    if config.nan_asserts:
        for output in outputs:
            if isinstance(output, wir.BufferRef):
                scope.append(wir.AssertNotNanLine(buffer=output.name))
    end_streams(scope, outputs)
    free_rest(scope, outputs)
    give_objects(graph, types, scope.lines, passed)
    mutated = scope.mutated | session.mutated | set(graph.mutated_inputs)
    given = {str(node.target): node for node in graph.graph.find_nodes(op="placeholder")}
    program = wir.Program(
        inputs=tuple(
            wir.Input(
                name=name,
                type=type,
                mutated=name in mutated,
                donated=name in donated,
                provenance=session.origins.given(given[name]) if name in given else None,
            )
            for name, type in types.items()
        ),
        symbols=tuple(symbols),
        constants=tuple(
            wir.ConstantInput(
                name=name, type=_constant_type(tensor), key=name, mutated=name in mutated
            )
            for name, tensor in session.constants.items()
        ),
        definitions=_finished_definitions(session),
        lines=with_memory_origins(scope.lines, session.memory_origins),
        outputs=outputs,
    )
    program = lower_collectives(session.origins.listed(program))
    if session.streams is not None:
        program = add_missing_waits(program, lambda: session.temporary("event"))
    if config.nan_asserts:
        program = check_nans(program)
    return Lowered(program, session.constants)


def _may_own(graph: Any, name: str, type: wir.ValueType) -> bool:
    """Say whether a donated input is the program's: Inductor may write dense ones."""
    known = graph.graph_inputs_original[name]
    return (
        isinstance(type, wir.TensorType)
        and name not in graph.mutated_inputs
        and wir.is_dense(type) is isinstance(known, ir.DonatedBuffer)
    )


def _finished_definitions(session: "Session") -> tuple[wir.DefinitionLine, ...]:
    """Return the kernels, with the accesses and copies that their calls have shown."""
    definitions = dict(session.definitions)
    for (name, position), access in session.accesses.items():
        definition = definitions[name]
        parameter = wir.runtime_parameters(definition.parameters)[position]
        assert isinstance(parameter, wir.TensorParameter)
        known = evolve(parameter, access=access)
        definitions[name] = evolve(
            definition,
            parameters=tuple(known if p is parameter else p for p in definition.parameters),
        )
    for name, copies in session.copies.items():
        definition = definitions[name]
        assert isinstance(definition, wir.KernelDefinitionLine)
        facts = (entry for copy in copies for entry in copy.metadata)
        definitions[name] = evolve(definition, metadata=(*definition.metadata, *facts))
    return tuple(
        evolve(line, parameters=united_parameters(line, definitions))
        if isinstance(line, wir.MultiKernelLine)
        else line
        for line in definitions.values()
    )


def input_type(value: Any, offset: wir.Expr) -> wir.ValueType:
    """Return the type of a graph input with a storage offset."""
    if isinstance(value, ir.TensorBox):
        return layout_type(value.get_layout(), offset=offset)
    if isinstance(value, sympy.Basic | int | float):
        return scalar_type(value)
    return wir.OpaqueType("none" if value is None else type(value).__name__)


def _constant_type(tensor: torch.Tensor) -> wir.TensorType:
    layout = wir.ONEDNN_LAYOUT if tensor.is_mkldnn else None
    return tensor_type(
        tensor.dtype, tensor.size(), tensor.stride(), tensor.device, layout=layout
    )


def borrow_constants(scope: BlockScope) -> None:
    """Add the constants of a graph to the session and to the scope."""
    for name, tensor in scope.graph.constants.items():
        scope.session.constants[name] = tensor
        scope.names[name] = name
        scope.borrow(name, _constant_type(tensor))


def input_symbols(
    scope: BlockScope, inputs: dict[str, Any]
) -> list[wir.SymbolDefinitionLine]:
    """Return the symbols that inputs give values to, numbers first.

    A symbol that guards have replaced by another is defined as that other symbol: checks
    that run later may still name it.
    """
    replaced: dict[Any, list[Any]] = {}
    for old, new in scope.graph.sizevars.shape_env.replacements.items():
        if not symbol_is_type(old, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
            replaced.setdefault(new, []).append(old)
    found: list[wir.SymbolDefinitionLine] = []

    def bind(symbol: Any, source: wir.SymbolSource) -> None:
        if not isinstance(symbol, sympy.Symbol) or symbol.name in scope.symbols:
            return
        found.append(define_symbol(scope, symbol, source))
        for old in replaced.get(symbol, ()):
            if old.name not in scope.symbols:
                found.append(define_symbol(scope, old, lower_sympy(symbol)))

    for name, value in inputs.items():
        if not is_object(scope.graph, value):
            bind(value, wir.ValueOf(name))
    for name, value in inputs.items():
        if isinstance(value, ir.TensorBox):
            for dim, size in enumerate(value.get_size()):
                bind(size, wir.SizeOf(name, dim))
            for dim, stride in enumerate(value.get_stride()):
                bind(stride, wir.StrideOf(name, dim))
    return found


def lower_outputs(scope: BlockScope, nodes: list[Any]) -> tuple[wir.Argument, ...]:
    """Return the results of a program or block; a view gets a name that is not freed."""
    outputs = tuple(lower_operand(scope, node) for node in nodes)
    scope.temporaries.clear()
    return outputs


def free_rest(scope: BlockScope, outputs: tuple[wir.Argument, ...]) -> None:
    """Free the names that Inductor leaves to the end of the Python function."""
    kept = {output.name for output in outputs if isinstance(output, wir.BufferRef)}
    for name in [name for name in scope.live if name not in kept]:
        scope.free(name)
