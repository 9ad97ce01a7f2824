"""Lowering of operators that own graphs: conditionals, loops, subgraph calls."""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.frontend.export.arguments import lower_argument
from wrapperir.frontend.export.graph import lower_nodes
from wrapperir.frontend.export.provenance import provenance_of
from wrapperir.frontend.export.scope import Lowering, Poison, Scope
from wrapperir.frontend.export.symbols import define_symbols, scalar_facts, tensor_facts
from wrapperir.frontend.export.values import SCALARS
from wrapperir.ir.expr import Operation, Symbol
from wrapperir.ir.line import (
    Argument,
    Block,
    BlockParameter,
    BodyLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    KernelArgument,
    Result,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WhileLoopLine,
)
from wrapperir.ir.types import DType, ScalarType, TensorType


def lower_higher_order(
    scope: Scope, node: torch.fx.Node, operator: torch._ops.HigherOrderOperator
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
            raise DiagnosticError(
                Diagnostic(
                    code=Code.UNSUPPORTED_OPERATOR,
                    message=f"no line expresses the higher-order operator {name}",
                )
            )


@frozen
class _Operand:
    """What a block is given; ``inside`` says that the block sees the value anyway."""

    argument: KernelArgument
    inside: bool


def _lower_cond(scope: Scope, node: torch.fx.Node) -> None:
    predicate, true, false, *rest = node.args
    graphs = (_graph(scope, true), _graph(scope, false))
    operands = _operands(scope, rest[0] if rest else (), graphs)
    line_predicate = _kernel_argument(scope, predicate)
    on_true, on_false = (_lower_block(scope, graph, operands) for graph in graphs)
    results, definitions = _results(scope, node)
    scope.lines.append(
        ConditionalLine(
            results=results,
            predicate=line_predicate,
            operands=_passed(operands),
            on_true=on_true,
            on_false=on_false,
            provenance=provenance_of(node),
        )
    )
    scope.lines.extend(definitions)


def _lower_while_loop(scope: Scope, node: torch.fx.Node) -> None:
    condition, body, carried, *rest = node.args
    graphs = (_graph(scope, condition), _graph(scope, body))
    values: Any = (*carried, *(rest[0] if rest else ()))  # type: ignore[misc]
    count = len(carried)  # type: ignore[arg-type]
    operands = _operands(scope, values, graphs)
    operands[:count] = [_Operand(operand.argument, False) for operand in operands[:count]]
    blocks = [_lower_block(scope, graph, operands) for graph in graphs]
    results, definitions = _results(scope, node)
    scope.lines.append(
        WhileLoopLine(
            results=results,
            carried=_passed(operands[:count]),
            invariant=_passed(operands[count:]),
            condition=blocks[0],
            body=blocks[1],
            provenance=provenance_of(node),
        )
    )
    scope.lines.extend(definitions)


def _lower_subgraph_call(scope: Scope, node: torch.fx.Node) -> None:
    graph = _graph(scope, node.args[0])
    operands = _operands(scope, node.args[2:], (graph,))
    body = _lower_block(scope, graph, operands)
    results, definitions = _results(scope, node)
    scope.lines.append(
        SubgraphCallLine(
            results=results,
            name=str(node.args[1]),
            operands=_passed(operands),
            body=body,
            provenance=provenance_of(node),
        )
    )
    scope.lines.extend(definitions)


def _inline(scope: Scope, node: torch.fx.Node, graph: Any, values: Sequence[Any]) -> None:
    """Lower a graph in place: what it would set for its nodes changes no value."""
    module = _graph(scope, graph)
    for placeholder, value in zip(_placeholders(module), values, strict=True):
        scope.values[placeholder] = lower_argument(scope, value)
    owner, scope.owner = scope.owner, module
    lower_nodes(scope, module.graph.nodes)
    scope.owner = owner
    returned = [_returned_value(scope, item) for item in _returned(module)]
    poisoned = any(isinstance(value, Poison) for value in returned)
    single = not isinstance(_output(module), tuple | list)
    if poisoned:
        scope.values[node] = Poison()
    else:
        plain = tuple(lower_argument(scope, item) for item in _returned(module))
        scope.values[node] = plain[0] if single else plain


def _returned_value(scope: Scope, item: Any) -> Lowering:
    return scope.values[item] if isinstance(item, torch.fx.Node) else item


def _graph(scope: Scope, node: Any) -> torch.fx.GraphModule:
    module: Any = scope.owner
    for part in str(node.target).split("."):
        module = getattr(module, part)
    assert isinstance(module, torch.fx.GraphModule)
    return module


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _output(module: torch.fx.GraphModule) -> Any:
    return next(iter(reversed(module.graph.nodes))).args[0]


def _returned(module: torch.fx.GraphModule) -> list[Any]:
    output = _output(module)
    return list(output) if isinstance(output, tuple | list) else [output]


def _operands(
    scope: Scope, values: Any, graphs: Sequence[torch.fx.GraphModule]
) -> list[_Operand]:
    parameters = [_placeholders(graph) for graph in graphs]
    operands: list[_Operand] = []
    for index, value in enumerate(values):
        argument = _kernel_argument(scope, value)
        examples = [nodes[index].meta.get("val") for nodes in parameters]
        inside = not isinstance(argument, BufferRef) and all(
            _is_visible(scope, example) for example in examples
        )
        operands.append(_Operand(argument, inside))
    return operands


def _is_visible(scope: Scope, value: Any) -> bool:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return all(scope.is_defined(s.name) for s in value.node.expr.free_symbols)
    return isinstance(value, int | float | bool)


def _kernel_argument(scope: Scope, value: Any) -> KernelArgument:
    argument = lower_argument(scope, value)
    if isinstance(argument, bool):
        return int(argument)
    if isinstance(argument, BufferRef | int | float | Symbol | Operation):
        return argument
    raise DiagnosticError(
        Diagnostic(
            code=Code.UNSUPPORTED_ARGUMENT,
            message=f"a block cannot be given {argument!r}",
        )
    )


def _passed(operands: Sequence[_Operand]) -> tuple[KernelArgument, ...]:
    return tuple(operand.argument for operand in operands if not operand.inside)


def _lower_block(
    outer: Scope, module: torch.fx.GraphModule, operands: Sequence[_Operand]
) -> Block:
    scope = outer.nested(module)
    parameters: list[BlockParameter] = []
    given: dict[str, str] = {}
    for node, operand in zip(_placeholders(module), operands, strict=True):
        example = node.meta.get("val")
        if operand.inside:
            scope.values[node] = scope.lower_scalar(example)
            continue
        name = scope.new_name(node.name)
        argument = operand.argument
        if isinstance(argument, BufferRef):
            type = outer.types[argument.name]
            given[name] = argument.name
            scope.values[node] = BufferRef(name)
        else:
            type = _scalar_type(example)
            scope.lines.extend(define_symbols(scope, scalar_facts(name, example)))
            scope.values[node] = scope.lower_scalar(example)
        scope.declare_root(name, type)
        parameters.append(BlockParameter(name, type))
    lower_nodes(scope, module.graph.nodes)
    results = _block_results(scope, module)
    for name in scope.written & given.keys():
        outer.write(given[name])
    return Block(parameters=tuple(parameters), lines=tuple(scope.lines), results=results)


def _scalar_type(example: Any) -> ScalarType:
    if isinstance(example, torch.SymFloat | float):
        return ScalarType(DType.F64)
    boolean = isinstance(example, torch.SymBool | bool)
    return ScalarType(DType.BOOL if boolean else DType.I64)


def _block_results(scope: Scope, module: torch.fx.GraphModule) -> tuple[Argument, ...]:
    """Return what the block gives back; memory that is not its own is copied."""
    results: list[Argument] = []
    for item in _returned(module):
        if isinstance(_returned_value(scope, item), Poison):
            return ()
        result = lower_argument(scope, item)
        if isinstance(result, BufferRef) and (
            scope.roots[result.name] or result in results
        ):
            result = _copy(scope, item, result.name)
        results.append(result)
    return tuple(results)


def _copy(scope: Scope, node: torch.fx.Node, source: str) -> BufferRef:
    value = node.meta["val"]
    with value.fake_mode:
        type = scope.lower_type(value.clone())
    assert isinstance(type, TensorType)
    result = scope.new_name(f"{node.name}_copy")
    scope.declare(result, type)
    scope.lines.append(
        ExternKernelLine(
            result=result,
            type=type,
            operator="aten.clone.default",
            arguments=(BufferRef(source),),
            device=type.device,
            provenance=provenance_of(node),
        )
    )
    return BufferRef(result)


def _results(
    scope: Scope, node: torch.fx.Node
) -> tuple[tuple[Result, ...], list[BodyLine]]:
    """Name the results; return them and the definitions of the symbols they bring."""
    value = node.meta["val"]
    leaves = list(value) if isinstance(value, tuple | list) else [value]
    results: list[Result] = []
    found: list[Argument] = []
    definitions: list[BodyLine] = []
    for index, leaf in enumerate(leaves):
        name = scope.new_name(f"{node.name}_{index}")
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
