"""Rules of operators that view a tensor: indices are rewritten, nothing is copied."""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import evolve

from wrapperir.frontend.aten.values import lower_extent
from wrapperir.frontend.lowering.rules import NotLoweredError, argument, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import (
    IndexedTensor,
    NodeValue,
    dimension,
    dimensions,
)
from wrapperir.ir import Expr, add, floordiv, mod, mul, product, sub

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims


def example_size(node: torch.fx.Node) -> tuple[Expr, ...]:
    """Return the size of the tensor that a node returns."""
    return tuple(map(lower_extent, node.meta["val"].shape))


def normal(dim: int, count: int) -> int:
    """Return a dimension's number, counted from the first."""
    return dim % max(count, 1)


@rule(aten.permute.default, prims.transpose.default)
def _permute(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    order: Any = node.args[1]
    return permuted(tensor, order)


def permuted(tensor: IndexedTensor, order: Sequence[int]) -> IndexedTensor:
    """Return a tensor with its dimensions in another order."""
    count = len(tensor.size)
    point: list[Expr] = [0] * count
    numbers = [normal(dim, count) for dim in order]
    for place, dim in enumerate(numbers):
        point[dim] = dimension(place)
    return tensor.viewed([tensor.size[dim] for dim in numbers], point)


@rule(aten.expand.default)
def _expand(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor, size = scope.tensor(node.args[0]), example_size(node)
    missing = len(size) - len(tensor.size)
    point = [
        0 if extent == 1 else dimension(number + missing)
        for number, extent in enumerate(tensor.size)
    ]
    return tensor.viewed(size, point)


@rule(prims.broadcast_in_dim.default)
def _broadcast_in_dim(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor, size = scope.tensor(node.args[0]), example_size(node)
    places: Any = node.args[2]
    point = [
        0 if extent == 1 else dimension(place)
        for place, extent in zip(places, tensor.size, strict=True)
    ]
    return tensor.viewed(size, point)


@rule(aten.slice.Tensor)
def _slice(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    given: list[Any] = [*node.args, *(0, None, None, 1)[len(node.args) - 1 :]]
    _, dim, start, _, step = given
    number = normal(dim, len(tensor.size))
    extent = tensor.size[number]
    begin: Expr = 0 if start is None else scope.expr(start)
    if isinstance(begin, int) and isinstance(extent, int):
        begin = min(max(begin + extent if begin < 0 else begin, 0), extent)
    elif begin != 0:
        begin = _slice_begin(node, number)
    point = [*dimensions(len(tensor.size))]
    point[number] = add(begin, mul(point[number], scope.expr(step)))
    return tensor.viewed(example_size(node), point)


def _slice_begin(node: torch.fx.Node, number: int) -> Expr:
    """Return the start that the examples show, where sizes or it are symbolic."""
    source: Any = node.args[0]
    given: torch.Tensor = source.meta["val"]
    distance = node.meta["val"].storage_offset() - given.storage_offset()
    step = lower_extent(given.stride(number))
    if step == 0:
        return 0
    return floordiv(lower_extent(distance), step)


@rule(aten.select.int)
def _select(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    number = normal(int(node.args[1]), len(tensor.size))  # type: ignore[arg-type]
    at = scope.expr(node.args[2])
    if not isinstance(at, int):
        raise NotLoweredError("a symbolic position")
    if at < 0:
        at = add(tensor.size[number], at)
    rest = iter(dimensions(len(tensor.size) - 1))
    point = [at if dim == number else next(rest) for dim in range(len(tensor.size))]
    size = [each for dim, each in enumerate(tensor.size) if dim != number]
    return tensor.viewed(size, point)


@rule(aten.unsqueeze.default)
def _unsqueeze(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    count = len(tensor.size) + 1
    number = normal(int(node.args[1]), count)  # type: ignore[arg-type]
    point = [each for dim, each in enumerate(dimensions(count)) if dim != number]
    size = [*tensor.size[:number], 1, *tensor.size[number:]]
    return tensor.viewed(size, point)


@rule(aten.squeeze.dims)
def _squeeze(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    count = len(tensor.size)
    chosen: Any = node.args[1]
    numbers = {normal(dim, count) for dim in chosen}
    dropped = {dim for dim in numbers if dim < count and tensor.size[dim] == 1}
    rest = iter(dimensions(count - len(dropped)))
    point = [0 if dim in dropped else next(rest) for dim in range(count)]
    size = [each for dim, each in enumerate(tensor.size) if dim not in dropped]
    return tensor.viewed(size, point)


@rule(
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten._reshape_alias.default,
    aten._reshape_copy.default,
)
def _view(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    return reshaped(scope, scope.tensor(node.args[0]), example_size(node))


def reshaped(
    scope: LoopScope, tensor: IndexedTensor, size: Sequence[Expr]
) -> IndexedTensor:
    """Return a tensor with the same elements in row-major order.

    Dimensions are matched in groups of equal products, so that indices of a group stay
    apart from those of others.
    """
    size = tuple(size)
    if 0 in size or 0 in tensor.size:
        return tensor.viewed(size, [0] * len(tensor.size))
    ranges = scope.ranges(size)
    point: list[Expr] = []
    old, new = list(tensor.size), list(size)
    a = b = 0
    while a < len(old) or b < len(new):
        first_a, first_b = a, b
        left: Expr = 1
        right: Expr = 1
        if a < len(old):
            left, a = old[a], a + 1
        if b < len(new):
            right, b = new[b], b + 1
        while not ranges.equal(left, right):
            grows_left = _is_smaller(left, right) if a < len(old) else False
            if grows_left or (b >= len(new) and a < len(old)):
                left, a = mul(left, old[a]), a + 1
            elif b < len(new):
                right, b = mul(right, new[b]), b + 1
            else:
                break
        # Dimensions of one element at the end belong to the last group.
        if a < len(old) and all(each == 1 for each in old[a:]) and b == len(new):
            a = len(old)
        if b < len(new) and all(each == 1 for each in new[b:]) and a == len(old):
            b = len(new)
        linear: Expr = 0
        for number in range(first_b, b):
            linear = add(mul(linear, new[number]), dimension(number))
        point += split_position(linear, old[first_a:a])
    return tensor.viewed(size, [ranges.simplify(each) for each in point])


def _is_smaller(left: Expr, right: Expr) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    return isinstance(left, int) and left == 1


def split_position(position: Expr, size: Sequence[Expr]) -> list[Expr]:
    """Return the coordinates of a row-major position among dimensions of these sizes."""
    point: list[Expr] = []
    for number in range(len(size)):
        inner = product(tuple(size[number + 1 :]))
        part = floordiv(position, inner)
        point.append(part if number == 0 else mod(part, size[number]))
    return point


@rule(
    aten.alias.default, aten.detach.default, aten.lift_fresh.default, prims.view_of.default
)
def _alias(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    return scope.tensor(node.args[0])


@rule(aten._assert_tensor_metadata.default)
def _assert_metadata(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Return nothing: a tensor's dtype, device and layout are those it was traced with."""
    if any(argument(node, n, name) is not None for n, name in ((1, "size"), (2, "stride"))):
        raise NotLoweredError("an assertion of sizes")
    return None


@rule(aten.flip.default, prims.rev.default)
def _flip(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    dims: Any = node.args[1]
    point = [*dimensions(len(tensor.size))]
    for dim in dims:
        number = normal(dim, len(tensor.size))
        point[number] = sub(sub(tensor.size[number], 1), point[number])
    return tensor.viewed(tensor.size, point)


@rule(aten.diagonal.default)
def _diagonal(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given: list[Any] = [*node.args[1:], *(0, 0, 1)[len(node.args) - 1 :]]
    return diagonal(scope.tensor(node.args[0]), example_size(node), *given)


def diagonal(
    tensor: IndexedTensor, size: Sequence[Expr], offset: Any, first: int, second: int
) -> IndexedTensor:
    """Return a diagonal of two dimensions, which has a size.

    Raises:
        NotLoweredError: it is a symbolic number away from the main one.
    """
    count = len(tensor.size)
    if not isinstance(offset, int):
        raise NotLoweredError("a symbolic diagonal")
    row, column = (normal(dim, count) for dim in (first, second))
    along = dimension(count - 2)
    rest = iter(dimensions(count - 2))
    point: list[Expr] = []
    for dim in range(count):
        if dim == row:
            point.append(add(along, max(-offset, 0)))
        elif dim == column:
            point.append(add(along, max(offset, 0)))
        else:
            point.append(next(rest))
    return tensor.viewed(size, point)


@rule(aten.split_with_sizes.default)
def _split(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    number = normal(int(argument(node, 2, "dim", 0)), len(tensor.size))
    results: list[NodeValue] = []
    begin: Expr = 0
    for example in node.meta["val"]:
        size = tuple(map(lower_extent, example.shape))
        point = [*dimensions(len(size))]
        point[number] = add(point[number], begin)
        begin = add(begin, size[number])
        results.append(tensor.viewed(size, point))
    return tuple(results)


@rule(aten.unfold.default)
def _unfold(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    count = len(tensor.size)
    number = normal(int(node.args[1]), count)  # type: ignore[arg-type]
    if not tensor.size:
        return tensor.viewed(example_size(node), [])
    point = [*dimensions(count)]
    step = scope.expr(node.args[3])
    point[number] = add(mul(point[number], step), dimension(count))
    return tensor.viewed(example_size(node), point)


@rule(aten.as_strided.default)
def _as_strided(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    type = scope.buffers[tensor.buffer]
    source: Any = node.args[0]
    example: torch.Tensor = source.meta["val"]
    if not has_layout(scope, tensor, example):
        raise NotLoweredError("in eager mode this is other memory")
    steps = scope.exprs(node.args[2])
    begin: Any = node.args[3] if len(node.args) > 3 else None
    start = scope.expr(example.storage_offset() if begin is None else begin)
    return strided_view(scope, tensor, example_size(node), steps, sub(start, type.offset))


def strided_view(
    scope: LoopScope,
    tensor: IndexedTensor,
    size: Sequence[Expr],
    steps: Sequence[Expr],
    start: Expr,
) -> IndexedTensor:
    """Return the elements of a tensor's buffer that are ``steps`` apart, from ``start`` on.

    Raises:
        NotLoweredError: the buffer has a symbolic size, or not all of the elements.
    """
    type = scope.buffers[tensor.buffer]
    if not all(isinstance(each, int) for each in (*type.size, *type.stride)):
        raise NotLoweredError("strides of a symbolic size")
    position = start
    for number, step in enumerate(steps):
        position = add(position, mul(dimension(number), step))
    ranges = scope.ranges(size)
    inside = ranges.is_nonnegative(position)
    if not (inside and ranges.is_below(position, product(type.size))):
        raise NotLoweredError("memory around the tensor")
    point = positions_in(type.size, type.stride, position)
    index = tuple(ranges.simplify(each) for each in point)
    return evolve(tensor, size=tuple(size), index=index)


def has_layout(scope: LoopScope, tensor: IndexedTensor, example: torch.Tensor) -> bool:
    """Say whether a tensor is where the example is in its storage."""
    found = scope.strided(tensor)
    if found is None or found.type.offset != lower_extent(example.storage_offset()):
        return False
    return all(
        extent == 1 or step == lower_extent(wanted)
        for extent, step, wanted in zip(
            tensor.size, found.type.stride, example.stride(), strict=True
        )
    )


def positions_in(
    size: Sequence[Expr], stride: Sequence[Expr], position: Expr
) -> list[Expr]:
    """Return the coordinates of the element at a distance in dense memory.

    Raises:
        NotLoweredError: the memory has gaps.
    """
    order = sorted(
        (number for number in range(len(size)) if size[number] != 1),
        key=lambda number: int(stride[number]),  # type: ignore[arg-type]
    )
    point: list[Expr] = [0] * len(size)
    expected: Expr = 1
    for number in order:
        if stride[number] != expected:
            raise NotLoweredError("memory with gaps")
        point[number] = mod(floordiv(position, expected), size[number])
        expected = mul(expected, size[number])
    return point
