"""Lowering of operators that own graphs: conditionals, loops, subgraph calls."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.blocks import (
    Operand,
    append_copy,
    graph_of,
    is_moved,
    kernel_argument,
    lower_block,
    lower_operands,
    output_of,
    passed,
    placeholders_of,
    returned_by,
    returned_value,
)
from wrapperir.frontend.aten.graph import lower_nodes
from wrapperir.frontend.aten.scope import Poison, Scope
from wrapperir.frontend.aten.symbols import define_symbols, scalar_facts, tensor_facts
from wrapperir.frontend.aten.values import SCALARS, leaves_of
from wrapperir.frontend.provenance import node_provenance
from wrapperir.ir import (
    Argument,
    BodyLine,
    BufferRef,
    ConditionalLine,
    KernelArgument,
    Result,
    SubgraphCallLine,
    SymbolDefinitionLine,
    ValueType,
    WhileLoopLine,
)


def lower_higher_order(
    scope: Scope, node: torch.fx.Node, operator: HigherOrderOperator
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
        case "invoke_subgraph":
            _lower_subgraph_call(scope, node)
        case "wrap_with_set_grad_enabled":
            _inline(scope, node, node.args[1], node.args[2:])
        case name:
            raise Code.UNSUPPORTED_OPERATOR.error(
                f"no line expresses the higher-order operator {name}"
            )


def _lower_cond(scope: Scope, node: torch.fx.Node) -> None:
    predicate, true, false, *rest = node.args
    graphs = (graph_of(scope, true), graph_of(scope, false))
    operands = lower_operands(scope, rest[0] if rest else (), graphs)
    line_predicate = kernel_argument(scope, predicate)
    on_true, on_false = (lower_block(scope, graph, operands) for graph in graphs)
    results, definitions = _results(scope, node)
    scope.lines.append(
        ConditionalLine(
            results=results,
            predicate=line_predicate,
            operands=passed(operands),
            on_true=on_true,
            on_false=on_false,
            provenance=node_provenance(node),
        )
    )
    scope.lines.extend(definitions)


def _lower_while_loop(scope: Scope, node: torch.fx.Node) -> None:
    condition, body, *rest = node.args
    carried, invariant = (leaves_of(values) for values in (*rest, ())[:2])
    count = len(carried)
    graphs = (graph_of(scope, condition), graph_of(scope, body))
    operands = lower_operands(scope, [*carried, *invariant], graphs)
    # What is carried is a tensor of its own: the example's offset is that of the graph
    # for training, which keeps all iterations in one tensor.
    results, definitions = _results(scope, node, at_start=True)
    types = [result.type for result in results]
    operands[:count] = [
        Operand(_carried(scope, value, operand.argument, type), False)
        for value, operand, type in zip(carried, operands, types, strict=False)
    ]
    blocks = [
        lower_block(scope, graphs[0], operands),
        lower_block(scope, graphs[1], operands, types),
    ]
    scope.lines.append(
        WhileLoopLine(
            results=results,
            carried=passed(operands[:count]),
            invariant=passed(operands[count:]),
            condition=blocks[0],
            body=blocks[1],
            provenance=node_provenance(node),
        )
    )
    scope.lines.extend(definitions)


def _lower_subgraph_call(scope: Scope, node: torch.fx.Node) -> None:
    graph = graph_of(scope, node.args[0])
    operands = lower_operands(scope, node.args[2:], (graph,))
    body = lower_block(scope, graph, operands)
    results, definitions = _results(scope, node)
    scope.lines.append(
        SubgraphCallLine(
            results=results,
            name=str(node.args[1]),
            operands=passed(operands),
            body=body,
            provenance=node_provenance(node),
        )
    )
    scope.lines.extend(definitions)


def _inline(scope: Scope, node: torch.fx.Node, graph: Any, values: Sequence[Any]) -> None:
    """Lower a graph in place: what it would set for its nodes changes no value."""
    module = graph_of(scope, graph)
    for placeholder, value in zip(placeholders_of(module), values, strict=True):
        scope.values[placeholder] = lower_argument(scope, value)
    owner, scope.owner = scope.owner, module
    lower_nodes(scope, module.graph.nodes)
    scope.owner = owner
    returned = [returned_value(scope, item) for item in returned_by(module)]
    poisoned = any(isinstance(value, Poison) for value in returned)
    single = not isinstance(output_of(module), tuple | list)
    if poisoned:
        scope.values[node] = Poison()
    else:
        plain = tuple(lower_argument(scope, item) for item in returned_by(module))
        scope.values[node] = plain[0] if single else plain


def _carried(
    scope: Scope, node: Any, argument: KernelArgument, type: ValueType
) -> KernelArgument:
    """Return a carried operand, copied where it does not start its storage."""
    if isinstance(argument, BufferRef) and is_moved(scope, argument, type):
        return append_copy(scope, node, argument.name)
    return argument


def _results(
    scope: Scope, node: torch.fx.Node, *, at_start: bool = False
) -> tuple[tuple[Result, ...], list[BodyLine]]:
    """Name the results; return them and the definitions of the symbols they bring.

    With ``at_start``, they begin at the start of their storages.
    """
    value = node.meta["val"]
    leaves = leaves_of(value)
    results: list[Result] = []
    found: list[Argument] = []
    definitions: list[BodyLine] = []
    for index, leaf in enumerate(leaves):
        name = scope.new_name(f"{node.name}_{index}")
        if at_start and isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().as_strided(leaf.size(), leaf.stride(), 0)
        definitions.extend(_definitions(scope, name, leaf))
        type = scope.lower_type(leaf)
        scope.declare(name, type)
        results.append(Result(name, type))
        scalar = isinstance(leaf, SCALARS)
        found.append(scope.lower_scalar(leaf) if scalar else BufferRef(name))
    scope.values[node] = tuple(found) if isinstance(value, tuple | list) else found[0]
    return tuple(results), definitions


def _definitions(scope: Scope, name: str, value: Any) -> list[SymbolDefinitionLine]:
    tensor = isinstance(value, torch.Tensor)
    facts = tensor_facts(name, value) if tensor else scalar_facts(name, value)
    return define_symbols(scope, facts)
