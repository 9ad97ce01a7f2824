"""Programs and nested blocks, built from the lines that wrappers collected."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
from attrs import evolve
from torch._inductor import config, ir
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor.lines import lower_lines
from wrapperir.frontend.inductor.multi_kernels import united_parameters
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.storage_offsets import input_places, place_symbols
from wrapperir.frontend.inductor.symbol_lines import define_symbol
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
    places = input_places(graph)
    donated: set[str] = set()
    for index, name in enumerate(graph.graph_input_names):
        offset = places[name].offset if name in places else 0
        types[name] = _input_type(graph.graph_inputs[name], offset)
        if index in (session.donated or ()) and _may_own(graph, name, types[name]):
            donated.add(name)
            scope.own(name, types[name])
        else:
            scope.borrow(name, types[name], freeable=True)
    _borrow_constants(scope)
    symbols = _input_symbols(scope, graph.graph_inputs) + place_symbols(scope, places)
    lower_lines(scope, wrapper.lines)
    outputs = _lower_outputs(scope, wrapper.get_graph_outputs())
    if config.nan_asserts:
        for output in outputs:
            if isinstance(output, wir.BufferRef):
                scope.append(wir.AssertNotNanLine(buffer=output.name))
    _free_rest(scope, outputs)
    mutated = scope.mutated | session.mutated | set(graph.mutated_inputs)
    program = wir.Program(
        inputs=tuple(
            wir.Input(
                name=name, type=type, mutated=name in mutated, donated=name in donated
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
        lines=tuple(scope.lines),
        outputs=outputs,
    )
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
    """Return the kernels, with the accesses that their calls have shown."""
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
    return tuple(
        evolve(line, parameters=united_parameters(line, definitions))
        if isinstance(line, wir.MultiKernelLine)
        else line
        for line in definitions.values()
    )


def _input_type(value: Any, offset: wir.Expr) -> wir.ValueType:
    """Return the type of a graph input with a storage offset."""
    if isinstance(value, ir.TensorBox):
        return layout_type(value.get_layout(), offset=offset)
    if isinstance(value, sympy.Basic | int | float):
        return scalar_type(value)
    return wir.OpaqueType("none" if value is None else type(value).__name__)


def _constant_type(tensor: torch.Tensor) -> wir.TensorType:
    return tensor_type(tensor.dtype, tensor.size(), tensor.stride(), tensor.device)


def _borrow_constants(scope: BlockScope) -> None:
    for name, tensor in scope.graph.constants.items():
        scope.session.constants[name] = tensor
        scope.names[name] = name
        scope.borrow(name, _constant_type(tensor))


def _input_symbols(
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
        bind(value, wir.ValueOf(name))
    for name, value in inputs.items():
        if isinstance(value, ir.TensorBox):
            for dim, size in enumerate(value.get_size()):
                bind(size, wir.SizeOf(name, dim))
            for dim, stride in enumerate(value.get_stride()):
                bind(stride, wir.StrideOf(name, dim))
    return found


def _lower_outputs(scope: BlockScope, nodes: list[Any]) -> tuple[wir.Argument, ...]:
    """Return the results of a block; a repeated result becomes a view."""
    outputs: list[wir.Argument] = []
    for node in nodes:
        output = lower_operand(scope, node)
        if isinstance(output, wir.BufferRef) and output in outputs:
            output = wir.BufferRef(scope.view(output.name, scope.tensor(output.name)))
        outputs.append(output)
    scope.temporaries.clear()
    return tuple(outputs)


def _free_rest(scope: BlockScope, outputs: tuple[wir.Argument, ...]) -> None:
    """Free the names that Inductor leaves to the end of the Python function."""
    kept = {output.name for output in outputs if isinstance(output, wir.BufferRef)}
    for name in [name for name in scope.live if name not in kept]:
        scope.free(name)


# Lines with nested blocks.


def lower_branch(scope: BlockScope, node: Any) -> None:
    """Lower a ``torch.cond``."""
    scope.enter(node)
    predicate = _lower_operand(scope, node.predicate)
    operands, kept = _lower_operands(scope, node.operands)
    on_true, on_false = (
        _lower_block(scope, subgraph.graph.name, kept, operands)
        for subgraph in (node.true_subgraph, node.false_subgraph)
    )
    line = wir.ConditionalLine(
        results=_results(scope, node),
        predicate=predicate,
        operands=operands,
        on_true=on_true,
        on_false=on_false,
        provenance=scope.at,
    )
    _append(scope, line, line.results)


def lower_loop(scope: BlockScope, node: Any, stack_output: bool) -> None:
    """Lower a ``while_loop``.

    A carried value that the body writes in place and returns is an invariant of the line.

    Raises:
        DiagnosticError: WIR651, it stacks the results of all iterations, as in training, or
            it returns another value than the one that it writes in place.
    """
    if stack_output:
        raise Code.INDUCTOR_LINE.error(
            "a while_loop that stacks its iterations has no form in a program"
        )
    scope.enter(node)
    kept = _updated_last(node)
    count = len(node.carried_inputs) - len(node.mutation_outputs)
    nodes = (*node.carried_inputs, *node.additional_inputs)
    carried = tuple(_lower_carried(scope, nodes[i]) for i in kept[:count])
    invariant = tuple(_lower_operand(scope, nodes[i]) for i in kept[count:])
    operands = (*carried, *invariant)
    condition = _lower_block(scope, node.cond_subgraph.graph.name, kept, operands)
    body = _lower_block(
        scope, node.body_subgraph.graph.name, kept, operands, returned=kept[:count]
    )
    line = wir.WhileLoopLine(
        results=_results(scope, node),
        carried=carried,
        invariant=invariant,
        condition=condition,
        body=body,
        provenance=scope.at,
    )
    _append(scope, line, line.results)


def _updated_last(node: Any) -> list[int]:
    """Return the positions of a loop's operands, after the carried ones those it updates.

    Raises:
        DiagnosticError: WIR651, the body returns another value than the one it updates.
    """
    graph = node.body_subgraph.graph
    written = {output.get_mutation_names()[0] for output in node.mutation_outputs}
    carried: list[int] = []
    updated: list[int] = []
    for position, value in enumerate(node.carried_inputs):
        is_updated = value.get_name() in written
        (updated if is_updated else carried).append(position)
        result: Any = graph.graph_outputs[position]
        if is_updated and result.get_name() != graph.graph_input_names[position]:
            raise Code.INDUCTOR_LINE.error(
                "a while_loop that writes a carried value in place and returns another has"
                " no form in a program",
                hint="return the value that is written, or write to a copy",
            )
    count = len(node.carried_inputs)
    return [*carried, *updated, *range(count, count + len(node.additional_inputs))]


def lower_invoke(scope: BlockScope, node: Any) -> None:
    """Lower a call of a subgraph, maybe one that autotuning picked for an operator."""
    scope.enter(node)
    operands, kept = _lower_operands(scope, node.inputs)
    results: tuple[wir.Result, ...]
    if isinstance(node, ir.SubgraphBuffer):
        name = node.subgraph.name
        # The subgraph is given the sizes first.
        kept = tuple(len(node.sym_inputs) + position for position in kept)
        results = (wir.Result(scope.name(node.get_name()), layout_type(node.get_layout())),)
    else:
        name, results = node.subgraph.graph.name, _results(scope, node)
    body = _lower_block(scope, name, kept, operands)
    line = wir.SubgraphCallLine(
        results=results, name=name, operands=operands, body=body, provenance=scope.at
    )
    _append(scope, line, line.results)


def _lower_operand(scope: BlockScope, node: Any) -> wir.KernelArgument:
    operand: Any = lower_operand(scope, node)
    assert not isinstance(operand, bool | str | tuple | None)
    argument: wir.KernelArgument = operand
    return argument


def _lower_carried(scope: BlockScope, node: Any) -> wir.KernelArgument:
    """Return an operand at the start of its storage, as each iteration's result is."""
    operand = _lower_operand(scope, node)
    if isinstance(operand, wir.BufferRef) and _offset(scope, operand) != 0:
        operand = wir.BufferRef(_copy(scope, operand.name))
        scope.temporaries.append(operand.name)
    return operand


def _lower_operands(
    scope: BlockScope, nodes: Sequence[Any]
) -> tuple[tuple[wir.KernelArgument, ...], tuple[int, ...]]:
    """Return operands and their positions, without sizes: a block sees those anyway."""
    kept = tuple(
        position
        for position, node in enumerate(nodes)
        if not isinstance(node, ir.ShapeAsConstantBuffer)
    )
    return tuple(_lower_operand(scope, nodes[i]) for i in kept), kept


def _results(scope: BlockScope, node: Any) -> tuple[wir.Result, ...]:
    """Return the results of a line with blocks, by the names that Inductor gives them."""
    results = tuple(
        wir.Result(scope.name(output.get_name()), layout_type(output.get_layout()))
        if isinstance(output, ir.MultiOutput)
        else wir.Result(scope.session.temporary("result"), _scalar_type(output))
        for output in node.outputs
    )
    scope.results[node.get_name()] = tuple(result.name for result in results)
    return results


def _scalar_type(output: Any) -> wir.ValueType:
    if output is None or isinstance(output, ir.NoneAsConstantBuffer):
        return wir.OpaqueType("none")
    return scalar_type(
        output.expr if isinstance(output, ir.ShapeAsConstantBuffer) else output
    )


def _append(scope: BlockScope, line: wir.BodyLine, results: Sequence[wir.Result]) -> None:
    """Append a line with blocks and define its results."""
    scope.append(line)
    for result in results:
        scope.types[result.name] = result.type
        if isinstance(result.type, wir.TensorType | wir.OpaqueType):
            scope.live[result.name] = None
            scope.written.add(result.name)


def _lower_block(
    outer: BlockScope,
    name: str,
    kept: Sequence[int],
    operands: Sequence[wir.KernelArgument],
    returned: Sequence[int] | None = None,
) -> wir.Block:
    """Lower a subgraph to a block whose parameters are its inputs at ``kept``.

    A parameter begins at the offset of its operand, one of ``operands``.  The results are
    the outputs at ``returned``, by default all.  Each use of a subgraph is a block of its
    own, with names of its own.
    """
    session = outer.session
    lines, graph = session.subgraphs[name]
    scope = BlockScope(session, graph, nested=True, suffix=_suffix(session, name, graph))
    scope.symbols = set(outer.symbols)
    scope.stream = outer.stream
    inputs = {scope.name(n): graph.graph_inputs[n] for n in graph.graph_input_names}
    names = list(inputs)
    lent: dict[str, wir.KernelArgument] = {}
    for position, operand in zip(kept, operands, strict=True):
        parameter = names[position]
        lent[parameter] = operand
        scope.borrow(parameter, _input_type(inputs[parameter], _offset(outer, operand)))
    parameters = tuple(wir.BlockParameter(n, type) for n, type in scope.types.items())
    _borrow_constants(scope)
    for symbol in _input_symbols(scope, {n: v for n, v in inputs.items() if n in lent}):
        scope.append(symbol)
    with V.set_graph_handler(graph):
        lower_lines(scope, lines)
        nodes = graph.graph_outputs
        nodes = nodes if returned is None else [nodes[i] for i in returned]
        results = _own_results(scope, _lower_outputs(scope, nodes))
    _free_rest(scope, results)
    session.mutated |= scope.mutated & graph.constants.keys()
    for parameter, operand in lent.items():
        if parameter in scope.mutated and isinstance(operand, wir.BufferRef):
            outer.write(operand.name)
    return wir.Block(parameters=parameters, lines=tuple(scope.lines), results=results)


def _suffix(session: "Session", name: str, graph: Any) -> str:
    """Return what makes the names of one use of a subgraph differ from earlier uses'."""
    use = session.used[name] = session.used.get(name, -1) + 1
    suffix = f"_{use}" if use else ""
    while use and any(known.endswith(suffix) for known in graph.graph_input_names):
        suffix = f"_{suffix}"
    return suffix


def _offset(scope: BlockScope, operand: wir.KernelArgument) -> wir.Expr:
    type = scope.types[operand.name] if isinstance(operand, wir.BufferRef) else None
    return type.offset if isinstance(type, wir.TensorType) else 0


def _own_results(
    scope: BlockScope, results: tuple[wir.Argument, ...]
) -> tuple[wir.Argument, ...]:
    """Return a block's results, with copies of memory that it borrows."""
    return tuple(
        wir.BufferRef(_copy(scope, result.name))
        if isinstance(result, wir.BufferRef) and scope.is_view_of_borrowed(result.name)
        else result
        for result in results
    )


def _copy(scope: BlockScope, source: str) -> str:
    type = scope.tensor(source)
    name = scope.session.temporary("copy")
    fresh = wir.TensorType(
        dtype=type.dtype, size=type.size, stride=type.stride, device=type.device
    )
    scope.append(wir.AllocateLine(result=name, type=fresh))
    scope.define(name, fresh)
    scope.append(
        wir.ExternKernelLine(
            operator="aten.copy_.default",
            arguments=(wir.BufferRef(name), wir.BufferRef(source)),
            writes=(name,),
            device=type.device,
        )
    )
    scope.write(name)
    return name
