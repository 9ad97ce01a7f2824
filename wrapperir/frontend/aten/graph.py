"""Lowering of the nodes of a graph, in order."""

import operator
from collections.abc import Iterable
from typing import Any

import torch
from attrs import evolve
from torch._ops import HigherOrderOperator, OpOverload

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import element
from wrapperir.frontend.aten.operators import lower_operator
from wrapperir.frontend.aten.scope import Poison, Scope
from wrapperir.frontend.aten.values import SCALARS
from wrapperir.ir import BufferRef, ConstantInput, TensorType


def lower_nodes(scope: Scope, nodes: Iterable[torch.fx.Node]) -> None:
    """Append the lines of the nodes.

    What cannot be lowered is added to the diagnostics, with the node's name; what
    depends on it is left out.
    """
    for node in nodes:
        if node.op in ("placeholder", "output"):
            continue
        if any(isinstance(scope.values.get(arg), Poison) for arg in node.all_input_nodes):
            scope.values[node] = Poison()
            continue
        try:
            _lower_node(scope, node)
        except DiagnosticError as error:
            scope.values[node] = Poison()
            scope.shared.diagnostics.extend(
                evolve(found, message=f"{_described(node)}: {found.message}")
                for found in error.diagnostics
            )


def _described(node: torch.fx.Node) -> str:
    return f"node {node.name} ({node.target})"


def _lower_node(scope: Scope, node: torch.fx.Node) -> None:
    from wrapperir.frontend.aten.control_flow import lower_higher_order

    target: Any = node.target
    dialect = scope.shared.dialect
    if dialect is not None and dialect(scope, node):
        return
    if node.op == "get_attr":
        _lower_attribute(scope, node)
    elif target is operator.getitem and not _is_scalar(node):
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        assert isinstance(index, int)
        scope.values[node] = element(scope, scope.values[source], index)
    elif isinstance(target, OpOverload):
        lower_operator(scope, node, target)  # pyright: ignore
    elif isinstance(target, HigherOrderOperator):
        lower_higher_order(scope, node, target)
    elif node.op == "call_function" and _is_scalar(node):
        scope.values[node] = scope.lower_scalar(node.meta["val"])
    else:
        raise Code.UNSUPPORTED_OPERATOR.error("this is not a registered operator")


def _is_scalar(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), SCALARS)


def _lower_attribute(scope: Scope, node: torch.fx.Node) -> None:
    """Lower the use of a tensor that the graph's module holds; graphs are left."""
    held: Any = scope.owner
    for part in str(node.target).split("."):
        held = getattr(held, part)
    if isinstance(held, torch.nn.Module):
        return
    if not isinstance(held, torch.Tensor):
        raise Code.UNSUPPORTED_VALUE.error(
            f"a {type(held).__name__} has no type in a program"
        )
    scope.values[node] = BufferRef(add_constant(scope, str(node.target), node.name, held))


def add_constant(scope: Scope, key: str, name: str, tensor: torch.Tensor) -> str:
    """Add a tensor that is kept outside the program, and return its name."""
    type = scope.lower_type(tensor)
    assert isinstance(type, TensorType)
    chosen = scope.new_name(name)
    unique = key
    while unique in scope.shared.tensors:
        unique += "_"
    scope.declare_root(chosen, type)
    scope.laid_out.add(chosen)
    scope.shared.constants.append(ConstantInput(name=chosen, type=type, key=unique))
    scope.shared.tensors[unique] = tensor.detach()
    return chosen
