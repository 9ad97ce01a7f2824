"""Lines with nested blocks: ``torch.cond``, ``while_loop`` and calls of subgraphs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve
from torch._inductor import ir
from torch._inductor.virtualized import V

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.build import (
    borrow_constants,
    free_rest,
    input_symbols,
    input_type,
    lower_outputs,
)
from wrapperir.frontend.inductor.lines import lower_lines
from wrapperir.frontend.inductor.memory_origins import with_memory_origins
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.values import layout_type, lower_operand, scalar_type

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session


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
        results=_results(scope, node, node.outputs),
        predicate=predicate,
        operands=operands,
        on_true=on_true,
        on_false=on_false,
        provenance=scope.at,
    )
    _append(scope, line, line.results)


def lower_loop(scope: BlockScope, node: Any, stack_output: bool) -> None:
    """Lower a ``while_loop``.

    Of the values that Inductor carries, the line carries those that the body computes anew.
    A value that the body returns as it was given is an invariant of the line, also where
    the body writes to its memory.  Its result is the operand if it is written, otherwise a
    copy.  With ``stack_output``, as in training, Inductor's outputs are the stacks of what
    all iterations return, and all values are carried.

    Raises:
        DiagnosticError: WIR651, it returns another value than the one that it writes in
            place.
    """
    scope.enter(node)
    nodes = (*node.carried_inputs, *node.additional_inputs)
    updated, unchanged = ([], []) if stack_output else _returned_as_given(node)
    carried = [
        position
        for position in range(len(node.carried_inputs))
        if position not in updated and position not in unchanged
    ]
    kept = [*carried, *(i for i in range(len(nodes)) if i not in carried)]
    first = [_lower_carried(scope, nodes[i]) for i in carried]
    invariant = [_lower_operand(scope, nodes[i]) for i in kept[len(carried) :]]
    operands = (*first, *invariant)
    given = dict(zip(kept, operands, strict=True))
    for position in updated:
        _fill_unwritten(scope, given[position])
    condition = _lower_block(scope, node.cond_subgraph.graph.name, kept, operands)
    body = _lower_block(
        scope, node.body_subgraph.graph.name, kept, operands, returned=carried
    )
    outputs = {output.indices[0][1]: output for output in node.outputs}
    results = _results(scope, node, [outputs[i] for i in carried])
    last: tuple[wir.Result, ...] = ()
    if stack_output:
        last = tuple(_last_result(scope, nodes[i]) for i in carried)
    line = wir.WhileLoopLine(
        results=(*last, *results),
        carried=tuple(first),
        invariant=tuple(invariant),
        stacked=stack_output,
        condition=condition,
        body=body,
        provenance=scope.at,
    )
    _append(scope, line, line.results)
    scope.temporaries += [result.name for result in last]
    for position in unchanged:
        operand = given[position]
        assert isinstance(operand, wir.BufferRef)
        _copy(scope, operand.name, scope.name(outputs[position].get_name()))


def _last_result(scope: BlockScope, node: Any) -> wir.Result:
    """Name a loop's last value, for which Inductor has no name: it names the stack."""
    type = evolve(layout_type(node.get_layout()), offset=0)
    return wir.Result(scope.session.temporary("last"), type)


def _returned_as_given(node: Any) -> tuple[list[int], list[int]]:
    """Return the positions of carried values that a loop's body returns as it was given.

    The first are those that the body writes to, the second the others.

    Raises:
        DiagnosticError: WIR651, the body returns another value than the one it writes to.
    """
    graph = node.body_subgraph.graph
    written = {output.get_mutation_names()[0] for output in node.mutation_outputs}
    updated: list[int] = []
    unchanged: list[int] = []
    for position, value in enumerate(node.carried_inputs):
        if isinstance(value, ir.ShapeAsConstantBuffer):
            continue
        given = graph.graph_inputs[graph.graph_input_names[position]]
        result: Any = graph.graph_outputs[position]
        is_given = (
            result.get_name() == given.get_name()
            and result.get_layout() == given.get_layout()
        )
        if value.get_name() in written:
            if not is_given:
                raise Code.INDUCTOR_LINE.error(
                    "a while_loop that writes to a value it carries and returns another has"
                    " no form in a program",
                    hint="return the value that is written, or write to a copy",
                )
            updated.append(position)
        elif is_given:
            unchanged.append(position)
    return updated, unchanged


def _fill_unwritten(scope: BlockScope, operand: wir.KernelArgument) -> None:
    """Fill memory with zeros that a loop writes part by part, if nothing was written."""
    assert isinstance(operand, wir.BufferRef)
    if not scope.is_initialized(operand.name):
        scope.zero(operand.name, scope.at)


def lower_invoke(scope: BlockScope, node: Any) -> None:
    """Lower a call of a subgraph, maybe one that autotuning picked for an operator."""
    scope.enter(node)
    operands, kept = _lower_operands(scope, node.inputs)
    subgraph: Any = node.subgraph
    results: tuple[wir.Result, ...]
    if isinstance(node, ir.SubgraphBuffer):
        name = subgraph.name
        # The subgraph is given the sizes first.
        kept = tuple(len(node.sym_inputs) + position for position in kept)
        results = (wir.Result(scope.name(node.get_name()), layout_type(node.get_layout())),)
    else:
        name, results = subgraph.graph.name, _results(scope, node, node.outputs)
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


def _results(
    scope: BlockScope, node: Any, outputs: Sequence[Any]
) -> tuple[wir.Result, ...]:
    """Return the results of a line with blocks, by the names that Inductor gives them."""
    results = tuple(
        wir.Result(scope.name(output.get_name()), layout_type(output.get_layout()))
        if isinstance(output, ir.MultiOutput)
        else wir.Result(scope.session.temporary("result"), _scalar_type(output))
        for output in outputs
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
        scope.borrow(parameter, input_type(inputs[parameter], _offset(outer, operand)))
    parameters = tuple(wir.BlockParameter(n, type) for n, type in scope.types.items())
    borrow_constants(scope)
    for symbol in input_symbols(scope, {n: v for n, v in inputs.items() if n in lent}):
        scope.append(symbol)
    with V.set_graph_handler(graph):
        lower_lines(scope, lines)
        nodes = graph.graph_outputs
        nodes = nodes if returned is None else [nodes[i] for i in returned]
        results = _own_results(scope, lower_outputs(scope, nodes))
    free_rest(scope, results)
    session.mutated |= scope.mutated & graph.constants.keys()
    for parameter, operand in lent.items():
        if parameter in scope.mutated and isinstance(operand, wir.BufferRef):
            outer.write(operand.name)
    own = with_memory_origins(scope.lines, scope.session.memory_origins)
    return wir.Block(parameters=parameters, lines=own, results=results)


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
    """Return a block's results: copies of borrowed memory, views of repeated names."""
    own: list[wir.Argument] = []
    for result in results:
        if isinstance(result, wir.BufferRef):
            name = result.name
            if result in own:
                name = scope.view(name, scope.tensor(name))
            if scope.is_view_of_borrowed(name):
                name = _copy(scope, name)
            own.append(wir.BufferRef(name))
        else:
            own.append(result)
    scope.temporaries.clear()
    return tuple(own)


def _copy(scope: BlockScope, source: str, name: str | None = None) -> str:
    """Append a copy of a tensor, by default under a new name, and return its name."""
    type = scope.tensor(source)
    name = scope.session.temporary("copy") if name is None else name
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
