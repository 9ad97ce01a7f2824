"""Lowering of lines with nested blocks: conditionals, loops, calls of subgraphs."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from torch._inductor import ir
from torch._inductor.virtualized import V

from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.boundary import (
    constant_type,
    free_rest,
    input_symbols,
    input_type,
    lower_outputs,
)
from wrapperir.frontend.inductor.layouts import layout_type, scalar_type
from wrapperir.frontend.inductor.operands import lower_operand
from wrapperir.frontend.inductor.records import BranchLine, InvokeLine, LoopLine
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.provenance import origins_provenance
from wrapperir.ir import Expr, OpaqueType, TensorType, ValueType
from wrapperir.ir import line as wir


@frozen
class _Lowered:
    """A block, and the positions of the parameters that it writes."""

    block: wir.Block
    written: tuple[int, ...]


def lower_branch(scope: Scope, line: BranchLine) -> None:
    """Lower a ``torch.cond``."""
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    predicate = _operand(scope, node.predicate, temporaries, at)
    operands, kept = _operands(scope, node.operands, temporaries, at)
    blocks = [
        _lower_block(scope, subgraph.graph.name, kept, operands)
        for subgraph in (node.true_subgraph, node.false_subgraph)
    ]
    results = _results(scope, node, node.outputs)
    scope.append(
        wir.ConditionalLine(
            results=results,
            predicate=predicate,
            operands=operands,
            on_true=blocks[0].block,
            on_false=blocks[1].block,
            provenance=at,
        )
    )
    _define(scope, results)
    _note_writes(scope, operands, blocks)
    scope.free_all(temporaries)


def lower_loop(scope: Scope, line: LoopLine) -> None:
    """Lower a ``while_loop``.

    Raises:
        DiagnosticError: WIR651, it stacks what each iteration gives, as in training, or
            it changes what it carries in place.
    """
    node: Any = line.node
    if line.stack_output or node.mutation_outputs:
        what = "stacks its iterations" if line.stack_output else "mutates what it carries"
        raise Code.INDUCTOR_LINE.error(f"a while_loop that {what} has no form in a program")
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    carried = tuple(_carried(scope, n, temporaries, at) for n in node.carried_inputs)
    everything = range(len(carried) + len(node.additional_inputs))
    invariant = tuple(_operand(scope, n, temporaries, at) for n in node.additional_inputs)
    blocks = [
        _lower_block(scope, subgraph.graph.name, tuple(everything), (*carried, *invariant))
        for subgraph in (node.cond_subgraph, node.body_subgraph)
    ]
    results = _results(scope, node, node.outputs)
    scope.append(
        wir.WhileLoopLine(
            results=results,
            carried=carried,
            invariant=invariant,
            condition=blocks[0].block,
            body=blocks[1].block,
            provenance=at,
        )
    )
    _define(scope, results)
    _note_writes(scope, (*carried, *invariant), blocks)
    scope.free_all(temporaries)


def lower_invoke(scope: Scope, line: InvokeLine) -> None:
    """Lower a call of a subgraph."""
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    operands, kept = _operands(scope, node.inputs, temporaries, at)
    name = node.subgraph.graph.name
    lowered = _lower_block(scope, name, kept, operands)
    results = _results(scope, node, node.outputs)
    scope.append(
        wir.SubgraphCallLine(
            results=results,
            name=name,
            operands=operands,
            body=lowered.block,
            provenance=at,
        )
    )
    _define(scope, results)
    _note_writes(scope, operands, [lowered])
    scope.free_all(temporaries)


def _operand(
    scope: Scope, node: Any, temporaries: list[str], at: wir.Provenance | None
) -> wir.KernelArgument:
    operand = lower_operand(scope, node, temporaries, at)
    assert isinstance(operand, wir.BufferRef) or not isinstance(
        operand, bool | str | tuple | None
    )
    argument: Any = operand
    kernel_argument: wir.KernelArgument = argument
    return kernel_argument


def _carried(
    scope: Scope, node: Any, temporaries: list[str], at: wir.Provenance | None
) -> wir.KernelArgument:
    """Return an operand that begins where its storage does, as what replaces it will."""
    operand = _operand(scope, node, temporaries, at)
    if isinstance(operand, wir.BufferRef) and _offset(scope, operand) != 0:
        operand = wir.BufferRef(_copy(scope, operand.name))
        temporaries.append(operand.name)
    return operand


def _operands(
    scope: Scope, nodes: Sequence[Any], temporaries: list[str], at: wir.Provenance | None
) -> tuple[tuple[wir.KernelArgument, ...], tuple[int, ...]]:
    """Return operands and their positions, without sizes: a block sees those anyway."""
    kept = tuple(
        position
        for position, node in enumerate(nodes)
        if not isinstance(node, ir.ShapeAsConstantBuffer)
    )
    return tuple(_operand(scope, nodes[i], temporaries, at) for i in kept), kept


def _results(scope: Scope, node: Any, outputs: Sequence[Any]) -> tuple[wir.Result, ...]:
    """Return the results of a line with blocks, by the names that Inductor gives them."""
    results = tuple(
        wir.Result(scope.name(output.get_name()), layout_type(output.get_layout()))
        if isinstance(output, ir.MultiOutput)
        else wir.Result(scope.session.temporary("result"), _scalar_type(output))
        for output in outputs
    )
    scope.results[node.get_name()] = tuple(result.name for result in results)
    return results


def _scalar_type(output: Any) -> ValueType:
    if output is None or isinstance(output, ir.NoneAsConstantBuffer):
        return OpaqueType("none")
    return scalar_type(
        output.expr if isinstance(output, ir.ShapeAsConstantBuffer) else output
    )


def _define(scope: Scope, results: tuple[wir.Result, ...]) -> None:
    for result in results:
        scope.types[result.name] = result.type
        if isinstance(result.type, TensorType | OpaqueType):
            scope.live[result.name] = None
            scope.written.add(result.name)


def _note_writes(
    scope: Scope, operands: Sequence[wir.KernelArgument], blocks: Sequence[_Lowered]
) -> None:
    for position in sorted({p for lowered in blocks for p in lowered.written}):
        operand = operands[position]
        if isinstance(operand, wir.BufferRef):
            scope.write(operand.name)


def _lower_block(
    outer: Scope,
    name: str,
    kept: tuple[int, ...],
    operands: Sequence[wir.KernelArgument],
) -> _Lowered:
    """Lower a subgraph to a block whose parameters are its inputs at ``kept``.

    A parameter begins where its operand, one of ``operands``, does.  Each use of a
    subgraph is a block of its own, with names of its own.
    """
    from wrapperir.frontend.inductor.lines import lower_lines  # blocks hold lines

    session = outer.session
    subgraph = session.subgraphs[name]
    graph: Any = subgraph.graph
    use = session.used[name] = session.used.get(name, -1) + 1
    scope = Scope(session, graph, nested=True, suffix=f"_{use}" if use else "")
    scope.symbols = set(outer.symbols)
    scope.stream = outer.stream
    inputs = {scope.name(n): graph.graph_inputs[n] for n in graph.graph_input_names}
    parameters: list[wir.BlockParameter] = []
    given_at = dict(zip(kept, operands, strict=True))
    for position, (parameter, value) in enumerate(inputs.items()):
        if position in given_at:
            type = input_type(value, _offset(outer, given_at[position]))
            parameters.append(wir.BlockParameter(parameter, type))
            scope.borrow(parameter, type)
    for constant, tensor in graph.constants.items():
        session.constants[constant] = tensor
        scope.rename(constant, constant)
        scope.borrow(constant, constant_type(tensor))
    given = {n: v for n, v in inputs.items() if n in scope.types}
    for symbol in input_symbols(scope, given):
        scope.append(symbol)
    with V.set_graph_handler(graph):
        lower_lines(scope, subgraph.lines)
        results = _own_results(scope, lower_outputs(scope, graph.graph_outputs))
    free_rest(scope, results)
    session.mutated |= scope.mutated & graph.constants.keys()
    written = tuple(i for i, p in enumerate(parameters) if p.name in scope.mutated)
    block = wir.Block(
        parameters=tuple(parameters), lines=tuple(scope.lines), results=results
    )
    return _Lowered(block, written)


def _offset(scope: Scope, operand: wir.KernelArgument) -> Expr:
    if isinstance(operand, wir.BufferRef):
        type = scope.types[operand.name]
        if isinstance(type, TensorType):
            return type.offset
    return 0


def _own_results(
    scope: Scope, results: tuple[wir.Argument, ...]
) -> tuple[wir.Argument, ...]:
    """Copy what a block would return of its caller's."""
    owned: list[wir.Argument] = []
    for result in results:
        if isinstance(result, wir.BufferRef) and scope.is_view_of_borrowed(result.name):
            result = wir.BufferRef(_copy(scope, result.name))
        owned.append(result)
    return tuple(owned)


def _copy(scope: Scope, source: str) -> str:
    type = scope.tensor(source)
    name = scope.session.temporary("copy")
    fresh = TensorType(
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
