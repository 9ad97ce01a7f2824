"""Rules of convolutions and of matrix products, as loops.

What is computed of a result is then computed in the same kernel, and a kernel of few tiles
is split along its sums.  A library is faster for large ones, which are called, and for
products of which nothing is computed.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch

from wrapperir.frontend.lowering.decompositions import is_called
from wrapperir.frontend.lowering.element_positions import both
from wrapperir.frontend.lowering.elementwise import broadcast_point
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.pool_windows import FixedWindow
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.ir import DType, Expr
from wrapperir.lowering.matrix_product import LEAST_EXTENT, LEAST_TERMS
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.split_reductions import product_parts, product_tiles

aten: Any = torch.ops.aten

DEVICES = frozenset({"cuda"})
_DTYPES = frozenset({DType.F16, DType.BF16})
_MOVES = frozenset[Any](
    {
        *(aten.view.default, aten._unsafe_view.default, aten.reshape.default),
        *(aten.clone.default, aten._to_copy.default),
    }
)
MOST_TERMS = 1 << 29
"""The most multiplications: for more a library is faster (``bench.gpu.own_products``)."""


@rule(aten.convolution.default)
def convolve(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower a convolution in a half type."""
    given: Any = node.args
    source, weight = scope.tensor(given[0]), scope.tensor(given[1])
    bias = None if given[2] is None else scope.tensor(given[2])
    stride, padding, dilation, is_transposed, _, groups = given[3:]
    if is_transposed or groups != 1:
        raise NotLoweredError("a grouped or transposed convolution")
    result = scope.allocate(node.name, node.meta["val"])
    images, columns, *pixels = _known(result.size)
    depth = math.prod(_known(weight.size[1:]))
    _check(scope, source, weight, images * math.prod(pixels), columns, depth)
    builder, point = _in_memory_order(scope, result)
    windows = [
        FixedWindow(
            source=of_source,
            results=of_result,
            kernel=side,
            stride=step,
            padding=around,
            dilation=apart,
        )
        for of_source, of_result, side, step, around, apart in zip(
            *(source.size[2:], pixels, _known(weight.size[2:]), _known(stride)),
            *(_known(padding), _known(dilation)),
            strict=True,
        )
    ]
    with builder.inner(weight.size[1:]) as (channel, *offsets):
        masks: list[str | None] = []
        places: list[Expr] = [point[0], channel]
        for window, at, offset in zip(windows, point[2:], offsets, strict=True):
            masks += window.has_offset(builder, at, offset)
            places.append(window.position(at, offset))
        left = builder.load(source, places, mask=both(builder, *masks))
        right = builder.load(weight, (point[1], channel, *offsets))
        total = _sum_of_products(builder, left, right)
    if bias is not None:
        addend = builder.cast(builder.load(bias, point[1:2]), DType.F32)
        total = builder.apply(ScalarOp.ADD, total, addend)
    builder.store(result, point, total)
    scope.add_nest(builder, node.name)
    return result


def _in_memory_order(
    scope: LoopScope, result: IndexedTensor
) -> tuple[NestBuilder, tuple[Expr, ...]]:
    """Return the builder of a nest with the longest strides outside, and its point.

    What is between the kernels of a product that is split has this order, too.
    """
    stride = _known(scope.buffers[result.buffer].stride)
    order = sorted(range(len(stride)), key=lambda dim: stride[dim], reverse=True)
    builder = NestBuilder(tuple(result.size[dim] for dim in order))
    point = tuple(builder.point[order.index(dim)] for dim in range(len(order)))
    return builder, point


def _known(sizes: Sequence[Expr]) -> tuple[int, ...]:
    """Return sizes as numbers.

    Raises:
        NotLoweredError: one is symbolic.
    """
    found = tuple(size for size in sizes if isinstance(size, int))
    if len(found) != len(sizes):
        raise NotLoweredError("a product of symbolic size")
    return found


@rule(aten.mm.default)
def multiply(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower a product of two matrices in a half type."""
    given: Any = node.args
    return _multiply(scope, node, scope.tensor(given[0]), scope.tensor(given[1]), None)


@rule(aten.addmm.default)
def multiply_add(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower a product of matrices, and what is added to it."""
    given: Any = node.args
    if node.kwargs.get("beta", 1) != 1 or node.kwargs.get("alpha", 1) != 1:
        raise NotLoweredError("a product is scaled")
    bias, left, right = map(scope.tensor, given)
    return _multiply(scope, node, left, right, bias)


def _multiply(
    scope: LoopScope,
    node: torch.fx.Node,
    left: IndexedTensor,
    right: IndexedTensor,
    bias: IndexedTensor | None,
) -> NodeValue:
    rows, depth, columns = _known((*left.size, right.size[1]))
    _check(scope, left, right, rows, columns, depth)
    parts = product_parts(product_tiles(rows, columns), depth, depth)
    if parts == 1 and not ends_in_elements(node):
        raise NotLoweredError("a library call and what reads it are as fast")
    result, builder = scope.elements_of(node)
    row, column = builder.point
    with builder.inner((depth,)) as (term,):
        value = builder.load(left, (row, term))
        factor = builder.load(right, (term, column))
        total = _sum_of_products(builder, value, factor)
    if bias is not None:
        place = broadcast_point(bias, result.size, builder.point)
        addend = builder.cast(builder.load(bias, place), DType.F32)
        total = builder.apply(ScalarOp.ADD, total, addend)
    return scope.add_elements(node, result, builder, total)


def ends_in_elements(node: torch.fx.Node) -> bool:
    """Say whether only operators on elements read a node, and what they compute of it.

    Then what reads the last of them would need a kernel before it.  Not where a reduction
    reads one: its kernel computes the elements, too.
    """
    pending, seen = [node], {node}
    computes = False
    while pending:
        for user in pending.pop().users:
            tags: Any = getattr(user.target, "tags", ())
            is_pointwise = torch.Tag.pointwise in tags
            computes = computes or is_pointwise
            if is_pointwise or user.target in _MOVES:
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
            elif user.op != "output" and not is_called(user.target):
                return False
    return computes


def _sum_of_products(builder: NestBuilder, left: str, right: str) -> str:
    """Return the sum of the products of two values over the inner loop, in ``f32``."""
    product = builder.apply(
        ScalarOp.MUL, builder.cast(left, DType.F32), builder.cast(right, DType.F32)
    )
    (total,) = builder.reduce(ReduceOp.SUM, product)
    return total


def _check(
    scope: LoopScope,
    left: IndexedTensor,
    right: IndexedTensor,
    rows: int,
    columns: int,
    depth: int,
) -> None:
    """Raise unless loops multiply two matrices at least as fast as a library.

    Raises:
        NotLoweredError: a library is called.
    """
    kinds = {scope.buffers[each.buffer].device.kind for each in (left, right)}
    if not kinds <= DEVICES or left.dtype is not right.dtype or left.dtype not in _DTYPES:
        raise NotLoweredError("loops multiply halves on GPUs only")
    if min(rows, columns, depth) < LEAST_EXTENT:
        raise NotLoweredError("the matrices are thin")
    if not LEAST_TERMS <= rows * columns * depth <= MOST_TERMS:
        raise NotLoweredError("a library multiplies such matrices faster")
