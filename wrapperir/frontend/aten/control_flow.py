"""Lowering of operators that own graphs: conditionals, loops, subgraph calls."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from attrs import frozen
from torch._ops import HigherOrderOperator

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import kernel_argument, lower_argument
from wrapperir.frontend.aten.graph import lower_nodes
from wrapperir.frontend.aten.opened_operators import can_open, opened
from wrapperir.frontend.aten.scope import GraphScope, Poison
from wrapperir.frontend.aten.symbols import define_symbols, value_facts
from wrapperir.frontend.aten.values import (
    SCALARS,
    expr_of,
    is_symbolic,
    leaves_of,
    lower_type,
)


def lower_higher_order(
    scope: GraphScope, node: torch.fx.Node, operator: HigherOrderOperator
) -> None:
    """Append the line of an operator that owns graphs.

    Raises:
        DiagnosticError: WIR602, no line expresses the operator.
    """
    match str(operator):
        case "cond":
            _lower_cond(scope, node)
        case "while_loop":
            _lower_while_loop(scope, node)
        case "while_loop_stack_output":
            _lower_while_loop(scope, node, stacked=True)
        case "invoke_subgraph":
            graph, name, *values = node.args
            make = partial(wir.SubgraphCallLine, name=str(name))
            lower_named_block(scope, node, graph, values, make)
        case "wrap_with_set_grad_enabled":
            _inline(scope, node, node.args[1], node.args[2:])
        case _ if can_open(node):
            _lower_opened(scope, node)
        case name:
            raise Code.UNSUPPORTED_OPERATOR.error(
                f"no line expresses the higher-order operator {name}"
            )


def _lower_cond(scope: GraphScope, node: torch.fx.Node) -> None:
    predicate, true, false, *rest = node.args
    graphs = (_graph_of(scope, true), _graph_of(scope, false))
    operands = _lower_operands(scope, rest[0] if rest else (), graphs)
    line_predicate = kernel_argument(scope, predicate)
    on_true, on_false = (_lower_block(scope, graph, operands) for graph in graphs)
    results, definitions = _results(scope, node)
    scope.lines.append(
        wir.ConditionalLine(
            results=results,
            predicate=line_predicate,
            operands=_passed(operands),
            on_true=on_true,
            on_false=on_false,
            provenance=scope.provenance(node),
        )
    )
    scope.lines.extend(definitions)


def _lower_while_loop(
    scope: GraphScope, node: torch.fx.Node, *, stacked: bool = False
) -> None:
    condition, body, *rest = node.args
    carried, invariant = (leaves_of(values) for values in (*rest, ())[:2])
    count = len(carried)
    graphs = (_graph_of(scope, condition), _graph_of(scope, body))
    operands = _lower_operands(scope, [*carried, *invariant], graphs)
    # A carried tensor has a storage of its own.  Its example may have an offset, from a
    # graph for training, where one tensor has all iterations.
    stacks: tuple[wir.Result, ...] = ()
    results, definitions = _results(scope, node, at_start=True)
    if stacked:
        stacks, results = results, _last_results(scope, node, carried)
    types = [result.type for result in results]
    operands[:count] = [
        _Operand(_carried(scope, value, operand.argument, type), False)
        for value, operand, type in zip(carried, operands, types, strict=False)
    ]
    blocks = [
        _lower_block(scope, graphs[0], operands),
        _lower_block(scope, graphs[1], operands, types),
    ]
    scope.lines.append(
        wir.WhileLoopLine(
            results=(*results, *stacks),
            carried=_passed(operands[:count]),
            invariant=_passed(operands[count:]),
            stacked=stacked,
            condition=blocks[0],
            body=blocks[1],
            provenance=scope.provenance(node),
        )
    )
    scope.lines.extend(definitions)


def _last_results(
    scope: GraphScope, node: torch.fx.Node, carried: Sequence[Any]
) -> tuple[wir.Result, ...]:
    """Name the last values of a loop whose operator returns their stacks alone."""
    results: list[wir.Result] = []
    for index, value in enumerate(carried):
        type = scope.lower_type(_at_start(value.meta["val"]))
        name = scope.new_name(f"{node.name}_last_{index}")
        scope.declare(name, type)
        results.append(wir.Result(name, type))
    return tuple(results)


def lower_named_block(
    scope: GraphScope,
    node: torch.fx.Node,
    graph: Any,
    values: Sequence[Any],
    make: Callable[..., wir.SubgraphCallLine | wir.GraphRegionLine],
) -> None:
    """Append a line that runs a graph on operands; ``make`` has its other facts."""
    module = _graph_of(scope, graph)
    operands = _lower_operands(scope, values, (module,))
    body = _lower_block(scope, module, operands)
    results, definitions = _results(scope, node)
    scope.lines.append(
        make(
            results=results,
            operands=_passed(operands),
            body=body,
            provenance=scope.provenance(node),
        )
    )
    scope.lines.extend(definitions)


def _inline(
    scope: GraphScope, node: torch.fx.Node, graph: Any, values: Sequence[Any]
) -> None:
    """Lower a graph in place: the mode that it would set changes no value."""
    _inline_module(scope, node, _graph_of(scope, graph), values)


def _inline_module(
    scope: GraphScope,
    node: torch.fx.Node,
    module: torch.fx.GraphModule,
    values: Sequence[Any],
) -> None:
    for placeholder, value in zip(_placeholders_of(module), values, strict=True):
        scope.values[placeholder] = lower_argument(scope, value)
    owner, scope.owner = scope.owner, module
    lower_nodes(scope, module.graph.nodes)
    scope.owner = owner
    output = module.graph.output_node()
    if _is_poisoned(scope, output):
        scope.values[node] = Poison()
    else:
        scope.values[node] = lower_argument(scope, output.args[0])


def _lower_opened(scope: GraphScope, node: torch.fx.Node) -> None:
    """Lower in place the operators that a node stands for."""
    given = [
        each
        for each in node.all_input_nodes
        if not isinstance(scope.held(each), torch.nn.Module)
    ]
    module = opened(node, given, scope.held)
    _inline_module(scope, node, module, given)


def _is_poisoned(scope: GraphScope, output: torch.fx.Node) -> bool:
    return any(isinstance(scope.values[n], Poison) for n in output.all_input_nodes)


def _carried(
    scope: GraphScope, node: Any, argument: wir.KernelArgument, type: wir.ValueType
) -> wir.KernelArgument:
    """Return a carried operand, copied if it has a storage offset."""
    if isinstance(argument, wir.BufferRef) and _is_moved(scope, argument, type):
        return _append_copy(scope, node, argument.name)
    return argument


def _results(
    scope: GraphScope, node: torch.fx.Node, *, at_start: bool = False
) -> tuple[tuple[wir.Result, ...], list[wir.BodyLine]]:
    """Name the results; return them and the definitions of the symbols they bring.

    With ``at_start``, they have no storage offset.
    """
    value = node.meta["val"]
    leaves = leaves_of(value)
    results: list[wir.Result] = []
    found: list[wir.Argument] = []
    definitions: list[wir.BodyLine] = []
    for index, leaf in enumerate(leaves):
        name = scope.new_name(f"{node.name}_{index}")
        if at_start and isinstance(leaf, torch.Tensor):
            leaf = _at_start(leaf)
        definitions.extend(define_symbols(scope, value_facts(name, leaf)))
        type = scope.lower_type(leaf)
        scope.declare(name, type)
        results.append(wir.Result(name, type))
        scalar = isinstance(leaf, SCALARS)
        found.append(scope.lower_scalar(leaf) if scalar else wir.BufferRef(name))
    scope.values[node] = tuple(found) if isinstance(value, tuple | list) else found[0]
    return tuple(results), definitions


def _at_start(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().as_strided(tensor.size(), tensor.stride(), 0)


@frozen
class _Operand:
    """An operand; ``inside``: the block sees the value without being given it."""

    argument: wir.KernelArgument
    inside: bool


def _graph_of(scope: GraphScope, node: Any) -> torch.fx.GraphModule:
    """Return the graph that a ``get_attr`` node stands for."""
    module = scope.held(node)
    assert isinstance(module, torch.fx.GraphModule)
    return module


def _placeholders_of(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return list(module.graph.find_nodes(op="placeholder"))


def _lower_operands(
    scope: GraphScope, values: Any, graphs: Sequence[torch.fx.GraphModule]
) -> list[_Operand]:
    """Return the operands of graphs; mark numbers that the graphs see anyway."""
    parameters = [_placeholders_of(graph) for graph in graphs]
    operands: list[_Operand] = []
    for index, value in enumerate(values):
        argument = kernel_argument(scope, value)
        examples = [nodes[index].meta.get("val") for nodes in parameters]
        inside = not isinstance(argument, wir.BufferRef) and all(
            _is_visible(scope, example) for example in examples
        )
        operands.append(_Operand(argument, inside))
    return operands


def _is_visible(scope: GraphScope, value: Any) -> bool:
    if is_symbolic(value):
        return scope.are_defined(expr_of(value))
    return isinstance(value, int | float | bool)


def _passed(operands: Sequence[_Operand]) -> tuple[wir.KernelArgument, ...]:
    """Return the arguments of operands that blocks do not see anyway."""
    return tuple(operand.argument for operand in operands if not operand.inside)


def _lower_block(
    outer: GraphScope,
    module: torch.fx.GraphModule,
    operands: Sequence[_Operand],
    types: Sequence[wir.ValueType] = (),
) -> wir.Block:
    """Lower a graph; copy results whose types differ from ``types``."""
    scope = outer.nested(module)
    parameters: list[wir.BlockParameter] = []
    given: dict[str, str] = {}
    for node, operand in zip(_placeholders_of(module), operands, strict=True):
        example = node.meta.get("val")
        if operand.inside:
            scope.values[node] = scope.lower_scalar(example)
            continue
        name = scope.new_name(node.name)
        argument = operand.argument
        if isinstance(argument, wir.BufferRef):
            type = outer.types[argument.name]
            given[name] = argument.name
            scope.values[node] = wir.BufferRef(name)
        else:
            type = lower_type(example)
            scope.lines.extend(define_symbols(scope, value_facts(name, example)))
            scope.values[node] = scope.lower_scalar(example)
        scope.declare_root(name, type)
        parameters.append(wir.BlockParameter(name, type))
    lower_nodes(scope, module.graph.nodes)
    results = _block_results(scope, module, types)
    for name in scope.written & given.keys():
        outer.write(given[name])
    outer.written |= scope.written & {held.name for held in scope.shared.constants}
    return wir.Block(
        parameters=tuple(parameters), lines=tuple(scope.lines), results=results
    )


def _block_results(
    scope: GraphScope, module: torch.fx.GraphModule, types: Sequence[wir.ValueType]
) -> tuple[wir.Argument, ...]:
    """Return the results of the block; borrowed memory is copied."""
    results: list[wir.Argument] = []
    output = module.graph.output_node()
    if _is_poisoned(scope, output):
        return ()
    for item, type in zip_longest(leaves_of(output.args[0]), types):
        result = lower_argument(scope, item)
        if isinstance(result, wir.BufferRef):
            borrowed = scope.roots[result.name] or result in results
            if borrowed or _is_moved(scope, result, type):
                result = _append_copy(scope, item, result.name)
        results.append(result)
    return tuple(results)


def _is_moved(scope: GraphScope, value: wir.BufferRef, type: wir.ValueType | None) -> bool:
    """Say whether the storage offsets of a tensor and a type differ."""
    own = scope.types[value.name]
    if not isinstance(own, wir.TensorType) or not isinstance(type, wir.TensorType):
        return False
    return own.offset != type.offset


def _append_copy(scope: GraphScope, node: torch.fx.Node, source: str) -> wir.BufferRef:
    """Append a copy of a tensor, with a storage of its own."""
    value = node.meta["val"]
    with value.fake_mode:
        type = scope.lower_type(value.clone())
    assert isinstance(type, wir.TensorType)
    result = scope.new_name(f"{node.name}_copy")
    scope.declare(result, type)
    scope.lines.append(
        wir.ExternKernelLine(
            result=result,
            type=type,
            operator="aten.clone.default",
            arguments=(wir.BufferRef(source),),
            device=type.device,
            provenance=scope.provenance(node),
        )
    )
    return wir.BufferRef(result)
