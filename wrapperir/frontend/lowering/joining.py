"""Rules of operators that put tensors beside each other, or elements around them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from wrapperir.frontend.lowering.creation import fill
from wrapperir.frontend.lowering.element_positions import both, within
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import RULES, NotLoweredError, argument, rule
from wrapperir.frontend.lowering.scatter import (
    require_mode,
    write_updates,
    zeros_to_add_to,
)
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue, dimensions
from wrapperir.frontend.lowering.views import normal, reshaped
from wrapperir.ir import Expr, add, maximum, minimum, mod, mul, product, sub
from wrapperir.lowering.loops import StoreMode
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten

_MOST_SELECTED = 8
"""The most tensors that one nest chooses elements from."""


@rule(aten.cat.default)
def _cat(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given: Any = node.args[0]
    example: torch.Tensor = node.meta["val"]
    tensors = [scope.tensor(each) for each in given]
    # A tensor of size (0,) may be put beside tensors of any size.
    rank = example.dim()
    tensors = [each for each in tensors if len(each.size) == rank and 0 not in each.size]
    if not tensors:
        return fill(scope, node, 0)
    dim = normal(int(argument(node, 1, "dim", 0)), rank)
    if len(tensors) <= _MOST_SELECTED and _is_read_by_elements(node):
        return _selected(scope, node, tensors, dim)
    result = scope.allocate(node.name, example)
    start: Expr = 0
    for tensor in tensors:
        point = [*dimensions(rank)]
        point[dim] = add(point[dim], start)
        scope.copy(tensor, result.viewed(tensor.size, point), node.name)
        start = add(start, tensor.size[dim])
    return result


def _is_read_by_elements(node: torch.fx.Node, depth: int = 3) -> bool:
    """Say whether all users compute each element by itself, perhaps of a view.

    They can then read the elements where they are, and the node's result need not exist.
    """
    return all(_reads_elements(user, depth) for user in node.users)


def _reads_elements(user: torch.fx.Node, depth: int) -> bool:
    tags: Sequence[Any] = getattr(user.target, "tags", ())
    if torch.Tag.pointwise in tags or user.target is aten._to_copy.default:
        return True
    schema: Any = getattr(user.target, "_schema", None)
    is_view = schema is not None and all(each.alias_info for each in schema.returns)
    return is_view and depth > 0 and _is_read_by_elements(user, depth - 1)


def _selected(
    scope: LoopScope, node: torch.fx.Node, tensors: Sequence[IndexedTensor], dim: int
) -> IndexedTensor:
    """Append a nest over the result, which reads each element from its tensor."""
    result, builder = scope.elements_of(node)
    at = builder.point[dim]
    starts: list[Expr] = [0]
    for tensor in tensors:
        starts.append(add(starts[-1], tensor.size[dim]))
    value = ""
    for place in reversed(range(len(tensors))):
        tensor, start = tensors[place], starts[place]
        is_last = place == len(tensors) - 1
        mask = within(builder, at, start, None if is_last else starts[place + 1])
        point = [*builder.point]
        point[dim] = sub(at, start)
        own = builder.cast(builder.load(tensor, point, mask=mask), result.dtype)
        if is_last:
            value = own
            continue
        chosen = within(builder, at, 0, starts[place + 1])
        assert chosen is not None
        value = builder.apply(Op.WHERE, chosen, own, value)
    return scope.add_elements(node, result, builder, value)


def moved(
    scope: LoopScope, node: torch.fx.Node, source: IndexedTensor, point: Sequence[Expr]
) -> IndexedTensor:
    """Append a nest that reads the node's elements at a point over ``d0`` and so on."""
    result = scope.allocate(node.name, node.meta["val"])
    ranges = scope.ranges(result.size)
    simple = [ranges.simplify(each) for each in point]
    scope.copy(source.viewed(result.size, simple), result, node.name)
    return result


@rule(aten.roll.default)
def _roll(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    shifts = _as_list(scope, node.args[1])
    dims: Any = argument(node, 2, "dims", ())
    given = [dims] if isinstance(dims, int) else [*dims]
    if not given:
        linear: Expr = 0
        for part, extent in zip(dimensions(len(source.size)), source.size, strict=True):
            linear = add(mul(linear, extent), part)
        count = product(source.size)
        at = mod(sub(linear, shifts[0]), count)
        return moved(scope, node, reshaped(scope, source, (count,)), [at])
    point = [*dimensions(len(source.size))]
    for dim, shift in zip(given, shifts, strict=True):
        number = normal(dim, len(point))
        point[number] = mod(sub(point[number], shift), source.size[number])
    return moved(scope, node, source, point)


@rule(aten.repeat.default)
def _repeat(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    counts = _as_list(scope, node.args[1])
    missing = len(counts) - len(source.size)
    at = dimensions(len(counts))[missing:]
    point = [
        mod(part, extent) if counts[missing + number] != 1 else part
        for number, (part, extent) in enumerate(zip(at, source.size, strict=True))
    ]
    return moved(scope, node, source, point)


def _as_list(scope: LoopScope, given: Any) -> list[Expr]:
    return [*scope.exprs(given if isinstance(given, list | tuple) else [given])]


@rule(aten.constant_pad_nd.default)
def _constant_pad(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    amounts = _as_list(scope, node.args[1])
    number: Any = argument(node, 2, "value", 0)
    if not isinstance(number, bool | int | float):
        raise NotLoweredError("a symbolic value")
    value = number if source.dtype.is_float else int(number)
    if 0 in source.size:
        return fill(scope, node, value)
    result, builder = scope.elements_of(node)
    point = [*builder.point]
    masks: list[str | None] = []
    for place, before in enumerate(amounts[::2]):
        after = amounts[2 * place + 1]
        dim = len(point) - 1 - place
        first = 0 if _is_negative(before) else before
        masks.append(within(builder, point[dim], first, None))
        point[dim] = sub(point[dim], before)
        if after != 0 and not _is_negative(after):
            masks.append(within(builder, point[dim], 0, source.size[dim]))
    mask = both(builder, *masks)
    if mask is None:
        loaded = builder.load(source, point)
    else:
        loaded = builder.load(source, point, mask=mask, other=value)
    return scope.add_elements(node, result, builder, loaded)


def _is_negative(number: Expr) -> bool:
    return isinstance(number, int) and number < 0


Reflect = Callable[[Expr, Expr], Expr]
"""Returns the position in a dimension, of an extent, that padding repeats."""


def _nearest(at: Expr, extent: Expr) -> Expr:
    return minimum(maximum(at, 0), sub(extent, 1))


def _mirrored(at: Expr, extent: Expr) -> Expr:
    last = sub(extent, 1)
    from_end = sub(last, maximum(at, sub(0, at)))
    return sub(last, maximum(from_end, sub(0, from_end)))


def _padded_point(
    scope: LoopScope, node: torch.fx.Node, source: IndexedTensor, amounts: Any, to: Reflect
) -> list[Expr]:
    """Return where the source has the element ``d0``, ``d1`` … of the padded tensor."""
    befores = _as_list(scope, amounts)[::2]
    point = [*dimensions(len(source.size))]
    for place, before in enumerate(befores):
        dim = len(point) - 1 - place
        point[dim] = to(sub(point[dim], before), source.size[dim])
    return point


def _pad(scope: LoopScope, node: torch.fx.Node, *, to: Reflect) -> NodeValue:
    """Lower a padding that repeats elements."""
    source = scope.tensor(node.args[0])
    point = _padded_point(scope, node, source, node.args[1], to)
    return moved(scope, node, source, point)


def _pad_backward(scope: LoopScope, node: torch.fx.Node, *, to: Reflect) -> NodeValue:
    """Lower the gradient of a padding, which adds up what was repeated."""
    gradient = scope.tensor(node.args[0])
    require_mode(scope, gradient, StoreMode.ADD)
    result = scope.allocate(node.name, node.meta["val"])
    total = zeros_to_add_to(scope, node, result)
    point = _padded_point(scope, node, total, node.args[2], to)
    target = total.viewed(gradient.size, point)

    def place(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
        value = builder.load(gradient, builder.point)
        return builder.point, builder.cast(value, total.dtype)

    write_updates(scope, node, target, gradient.size, place, StoreMode.ADD)
    if total is not result:
        scope.copy(total, result, node.name)
    return result


for _kind, _to in (("reflection", _mirrored), ("replication", _nearest)):
    for _rank in (1, 2, 3):
        _name = f"{_kind}_pad{_rank}d"
        RULES[getattr(aten, _name).default] = partial(_pad, to=_to)
        RULES[getattr(aten, f"{_name}_backward").default] = partial(_pad_backward, to=_to)
