"""Asserts of a graph."""

from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.fx.numbers import expression, expressions
from wrapperir.frontend.provenance import node_provenance
from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BufferRef,
)


def lower_assert_size_stride(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a check of a layout."""
    buffer, size, stride, message = _given(node, ("x", "size", "stride", "subject"))
    line = AssertSizeStrideLine(
        buffer=_name(scope, buffer),
        size=expressions(scope, size),
        stride=expressions(scope, stride),
        provenance=node_provenance(node),
    )
    message = _own_message(message, layout_subject(line))
    scope.lines.append(evolve(line, message=message))
    scope.values[node] = None


def lower_assert_alignment(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a check of an address."""
    buffer, bytes, message = _given(node, ("x", "bytes", "message"))
    line = AssertAlignmentLine(
        buffer=_name(scope, buffer), bytes=bytes, provenance=node_provenance(node)
    )
    message = _own_message(message, alignment_message(line))
    scope.lines.append(evolve(line, message=message))
    scope.values[node] = None


_NAN_CHECK: tuple[Any, ...] = (
    torch.ops.aten.isfinite.default,
    torch.ops.aten.all.default,
    torch.ops.aten.item.default,
    torch.ops.aten._assert_scalar.default,
)


def is_in_nan_check(node: torch.fx.Node) -> bool:
    """Say whether a node belongs to a NaN check of a tensor and is not its last node."""
    rest = _NAN_CHECK
    if node.target is torch.ops.aten.to.dtype and len(node.users) == 1:
        (node,) = node.users
    while rest and rest[0] is not node.target:
        rest = rest[1:]
    while len(rest) > 1 and node.target is rest[0] and len(node.users) == 1:
        rest = rest[1:]
        (node,) = node.users
    return len(rest) == 1 and node.target is rest[0] and _checked_tensor(node) is not None


def _checked_tensor(node: torch.fx.Node) -> torch.fx.Node | None:
    """Return the tensor whose elements an assert checks; ``None`` for another assert."""
    value: Any = node
    for target in reversed(_NAN_CHECK):
        own = isinstance(value, torch.fx.Node) and value.target is target
        if not own or (value is not node and len(value.users) != 1):
            return None
        value = value.args[0]
    if not isinstance(value, torch.fx.Node):
        return None
    narrow = value.target is torch.ops.aten.to.dtype and len(value.users) == 1
    source: Any = value.args[0] if narrow else value
    return source if isinstance(source, torch.fx.Node) else None


def lower_assert_scalar(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a check of a condition, or of all elements of a tensor.

    A condition that is always true is left out.
    """
    condition, message = _given(node, ("self", "assert_msg"))
    checked = _checked_tensor(node)
    if checked is not None:
        scope.values[node] = None
        check = AssertNotNanLine(
            buffer=_name(scope, checked), provenance=node_provenance(node)
        )
        message = _own_message(message, not_nan_message(check))
        scope.lines.append(evolve(check, message=message))
        return
    value = expression(scope, condition)
    if not isinstance(value, int | float) or not value:
        line = AssertScalarLine(condition=value, provenance=node_provenance(node))
        message = _own_message(message, scalar_message(line))
        scope.lines.append(evolve(line, message=message))
    scope.values[node] = None


def _own_message(message: str | None, added: str) -> str:
    """Return a message without what the FX emitter adds to that of a line."""
    return (message or "").removesuffix(added).removesuffix(": ")


def _given(node: torch.fx.Node, names: tuple[str, ...]) -> list[Any]:
    """Return a call's arguments in order; what is left out is ``None``."""
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return [given.get(name) for name in names]


def _name(scope: GraphScope, value: Any) -> str:
    lowered = lower_argument(scope, value)
    if isinstance(lowered, BufferRef):
        return lowered.name
    raise DiagnosticError.of(Code.UNSUPPORTED_ARGUMENT, f"{value} is not a tensor")


CHECKS: dict[str, Callable[[GraphScope, torch.fx.Node], None]] = {
    "wrapperir::assert_alignment": lower_assert_alignment,
    "aten::_assert_scalar": lower_assert_scalar,
}
"""The operators that check something, by name."""
