"""Rules: how operators of the graph become loop nests."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from wrapperir.frontend.lowering.values import NodeValue

if TYPE_CHECKING:
    import torch

    from wrapperir.frontend.lowering.scope import LoopScope

Rule: TypeAlias = "Callable[[LoopScope, torch.fx.Node], NodeValue]"
"""Appends the nests of a node, and returns its value."""

RULES: dict[Any, Rule] = {}
"""Rules by operator overload."""

LATE_RULES: dict[str, Rule] = {}
"""Rules of operators that PyTorch registers when it needs them, by name."""


class NotLoweredError(Exception):
    """A node has no loops: it is decomposed or called."""


def rule(*operators: object) -> Callable[[Rule], Rule]:
    """Register a rule for operator overloads."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            assert operator not in RULES, operator
            RULES[operator] = function
        return function

    return register


def argument(node: "torch.fx.Node", place: int, name: str, default: Any = None) -> Any:
    """Return an argument of a node that it may be given by place or by name."""
    given: Any = node.args
    return given[place] if len(given) > place else node.kwargs.get(name, default)
