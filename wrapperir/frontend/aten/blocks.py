"""Lowering of nested graphs to blocks: operands, lines, results."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.graph import lower_nodes
from wrapperir.frontend.aten.scope import Lowering, Poison, Scope
from wrapperir.frontend.aten.symbols import define_symbols, scalar_facts
from wrapperir.frontend.aten.values import expr_of, is_symbolic, leaves_of
from wrapperir.frontend.provenance import node_provenance
from wrapperir.ir import (
    Argument,
    Block,
    BlockParameter,
    BufferRef,
    DType,
    ExternKernelLine,
    KernelArgument,
    Operation,
    ScalarType,
    Symbol,
    TensorType,
    ValueType,
)


@frozen
class Operand:
    """Operand of a block; ``inside``: the block sees the value without being given it."""

    argument: KernelArgument
    inside: bool


def graph_of(scope: Scope, node: Any) -> torch.fx.GraphModule:
    """Return the graph that a ``get_attr`` node stands for."""
    module: Any = scope.owner
    for part in str(node.target).split("."):
        module = getattr(module, part)
    assert isinstance(module, torch.fx.GraphModule)
    return module


def placeholders_of(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Return the nodes that stand for what a graph is given."""
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def output_of(module: torch.fx.GraphModule) -> Any:
    """Return the output of a graph: nested nodes and numbers."""
    return next(iter(reversed(module.graph.nodes))).args[0]


def returned_by(module: torch.fx.GraphModule) -> list[Any]:
    """Return the outputs of a graph as a flat list."""
    return leaves_of(output_of(module))


def returned_value(scope: Scope, item: Any) -> Lowering:
    """Return the lowered value of a graph's output."""
    return scope.values[item] if isinstance(item, torch.fx.Node) else item


def lower_operands(
    scope: Scope, values: Any, graphs: Sequence[torch.fx.GraphModule]
) -> list[Operand]:
    """Return the operands of graphs; numbers that the graphs see anyway are marked."""
    parameters = [placeholders_of(graph) for graph in graphs]
    operands: list[Operand] = []
    for index, value in enumerate(values):
        argument = kernel_argument(scope, value)
        examples = [nodes[index].meta.get("val") for nodes in parameters]
        inside = not isinstance(argument, BufferRef) and all(
            _is_visible(scope, example) for example in examples
        )
        operands.append(Operand(argument, inside))
    return operands


def _is_visible(scope: Scope, value: Any) -> bool:
    if is_symbolic(value):
        return scope.are_defined(expr_of(value))
    return isinstance(value, int | float | bool)


def kernel_argument(scope: Scope, value: Any) -> KernelArgument:
    """Return the operand for a value.

    Raises:
        DiagnosticError: WIR603, a block cannot be given it.
    """
    argument = lower_argument(scope, value)
    if isinstance(argument, bool):
        return int(argument)
    if isinstance(argument, BufferRef | int | float | Symbol | Operation):
        return argument
    raise Code.UNSUPPORTED_ARGUMENT.error(f"a block cannot be given {argument!r}")


def passed(operands: Sequence[Operand]) -> tuple[KernelArgument, ...]:
    """Return the arguments of operands that blocks do not see anyway."""
    return tuple(operand.argument for operand in operands if not operand.inside)


def lower_block(
    outer: Scope,
    module: torch.fx.GraphModule,
    operands: Sequence[Operand],
    types: Sequence[ValueType] = (),
) -> Block:
    """Lower a graph; results that differ from ``types`` are copied to be of those."""
    scope = outer.nested(module)
    parameters: list[BlockParameter] = []
    given: dict[str, str] = {}
    for node, operand in zip(placeholders_of(module), operands, strict=True):
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
    results = _block_results(scope, module, types)
    for name in scope.written & given.keys():
        outer.write(given[name])
    outer.written |= scope.written & {held.name for held in scope.shared.constants}
    return Block(parameters=tuple(parameters), lines=tuple(scope.lines), results=results)


def _scalar_type(example: Any) -> ScalarType:
    if isinstance(example, torch.SymFloat | float):
        return ScalarType(DType.F64)
    boolean = isinstance(example, torch.SymBool | bool)
    return ScalarType(DType.BOOL if boolean else DType.I64)


def _block_results(
    scope: Scope, module: torch.fx.GraphModule, types: Sequence[ValueType]
) -> tuple[Argument, ...]:
    """Return the results of the block; borrowed memory is copied."""
    results: list[Argument] = []
    for item, type in zip_longest(returned_by(module), types):
        if isinstance(returned_value(scope, item), Poison):
            return ()
        result = lower_argument(scope, item)
        if isinstance(result, BufferRef):
            borrowed = scope.roots[result.name] or result in results
            if borrowed or is_moved(scope, result, type):
                result = append_copy(scope, item, result.name)
        results.append(result)
    return tuple(results)


def is_moved(scope: Scope, value: BufferRef, type: ValueType | None) -> bool:
    """Say whether a tensor has another offset than a type."""
    own = scope.types[value.name]
    if not isinstance(own, TensorType) or not isinstance(type, TensorType):
        return False
    return own.offset != type.offset


def append_copy(scope: Scope, node: torch.fx.Node, source: str) -> BufferRef:
    """Append a copy of a tensor, which then starts a storage of its own."""
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
            provenance=node_provenance(node),
        )
    )
    return BufferRef(result)
