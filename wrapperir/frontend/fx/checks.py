"""Lowering of asserts."""

from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve

from wrapperir import ir as wir
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.frontend.aten.arguments import tensor_argument
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.fx.numbers import expression, expressions


def lower_assert_size_stride(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a check of a layout."""
    buffer, size, stride, message = _given(node, ("x", "size", "stride", "subject"))
    line = wir.AssertSizeStrideLine(
        buffer=tensor_argument(scope, buffer)[0],
        size=expressions(scope, size),
        stride=expressions(scope, stride),
        provenance=scope.provenance(node),
    )
    _append(scope, line, message, layout_subject(line))


def lower_assert_alignment(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append a check of an address."""
    buffer, bytes, message = _given(node, ("x", "bytes", "message"))
    name, at = tensor_argument(scope, buffer)[0], scope.provenance(node)
    line = wir.AssertAlignmentLine(buffer=name, bytes=bytes, provenance=at)
    _append(scope, line, message, alignment_message(line))


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
    checked, at = _checked_tensor(node), scope.provenance(node)
    if checked is not None:
        name, _ = tensor_argument(scope, checked)
        check = wir.AssertNotNanLine(buffer=name, provenance=at)
        _append(scope, check, message, not_nan_message(check))
        return
    value = expression(scope, condition)
    if not isinstance(value, int | float) or not value:
        line = wir.AssertScalarLine(condition=value, provenance=at)
        _append(scope, line, message, scalar_message(line))


def _append(
    scope: GraphScope, line: wir.AssertLine, message: str | None, added: str
) -> None:
    """Append a check; its message is without the text that the FX emitter added."""
    own = (message or "").removesuffix(added).removesuffix(": ")
    scope.lines.append(evolve(line, message=own))


def _given(node: torch.fx.Node, names: tuple[str, ...]) -> list[Any]:
    """Return a call's arguments in order, ``None`` for a missing one."""
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return [given.get(name) for name in names]


CHECKS: dict[str, Callable[[GraphScope, torch.fx.Node], None]] = {
    "wrapperir::assert_alignment": lower_assert_alignment,
    "aten::_assert_scalar": lower_assert_scalar,
}
"""The operators that check something, by name."""
