"""Rules of operators that write elements at positions that other tensors have."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from wrapperir.frontend.lowering.element_positions import (
    indexed,
    out_of_bounds,
    position,
)
from wrapperir.frontend.lowering.elementwise import broadcast_point, number_operand
from wrapperir.frontend.lowering.gather import extent_of, matched, replaced
from wrapperir.frontend.lowering.masked_updates import put_where
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.overwriting import changed
from wrapperir.frontend.lowering.rules import RULES, NotLoweredError, argument, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.frontend.lowering.views import normal, reshaped
from wrapperir.ir import DType, Expr, product
from wrapperir.lowering.dtypes import HALVES, identity
from wrapperir.lowering.loops import StoreMode
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten

UpdatePlace: TypeAlias = Callable[[NestBuilder], tuple[Sequence[Expr], str]]
"""Returns where a point of the updates writes, and the value."""

_ATOMIC: dict[StoreMode, frozenset[DType]] = {
    StoreMode.ADD: frozenset(
        {DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I32}
    ),
    StoreMode.MIN: frozenset({DType.F64, DType.F32, DType.I64, DType.I32}),
    StoreMode.MAX: frozenset({DType.F64, DType.F32, DType.I64, DType.I32}),
}
"""Dtypes that GPUs combine in memory."""

_REDUCTIONS = {
    StoreMode.ADD: ReduceOp.SUM,
    StoreMode.MUL: ReduceOp.PROD,
    StoreMode.MIN: ReduceOp.MIN,
    StoreMode.MAX: ReduceOp.MAX,
}


def require_mode(scope: LoopScope, target: IndexedTensor, mode: StoreMode) -> None:
    """Raise unless several points may write to one element of a tensor.

    Raises:
        NotLoweredError: the device cannot combine such elements, or the result has to be
            the same each time.
    """
    if torch.are_deterministic_algorithms_enabled():
        raise NotLoweredError("the order of writes is not defined")
    is_cpu = scope.buffers[target.buffer].device.kind == "cpu"
    if is_cpu or mode is StoreMode.OVERWRITE:
        return
    if target.dtype not in _ATOMIC.get(mode, ()):
        raise NotLoweredError(f"no atomic {mode.value} of {target.dtype.value}")


def write_updates(
    scope: LoopScope,
    node: torch.fx.Node,
    target: IndexedTensor,
    size: Sequence[Expr],
    place: UpdatePlace,
    mode: StoreMode,
) -> IndexedTensor:
    """Append a nest over updates that writes them to a tensor; return the tensor."""
    if 0 not in size:
        builder = NestBuilder(tuple(size))
        point, value = place(builder)
        builder.store(target, point, value, mode=mode)
        scope.add_nest(builder, node.name)
    return target


def _update_along(
    scope: LoopScope, node: torch.fx.Node, source: IndexedTensor
) -> UpdatePlace:
    """Return the updates of ``scatter(source, dim, index, values)``."""
    dim = normal(int(node.args[1]), len(source.size))  # type: ignore[arg-type]
    index = scope.tensor(node.args[2])
    given = node.args[3]
    extent = extent_of(source, dim)

    def place(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
        along = builder.load(index, builder.point)
        at = position(builder, along, extent, out_of_bounds(dim, extent))
        if isinstance(given, torch.fx.Node) and isinstance(
            scope.values[given], IndexedTensor
        ):
            values = scope.tensor(given)
            value = builder.load(values, matched(values, builder.point))
        else:
            value = number_operand(builder, scope.expr(given), source.dtype)
        return replaced(source, builder.point, dim, at), value

    return place


def _scatter(scope: LoopScope, node: torch.fx.Node, *, mode: StoreMode) -> NodeValue:
    """Lower an operator that writes, or adds, along a dimension."""
    source = scope.tensor(node.args[0])
    require_mode(scope, source, mode)
    size = scope.tensor(node.args[2]).size
    place = _update_along(scope, node, source)
    return write_updates(scope, node, changed(scope, node), size, place, mode)


for _operator in (aten.scatter.src, aten.scatter.value):
    RULES[_operator] = partial(_scatter, mode=StoreMode.OVERWRITE)
RULES[aten.scatter_add.default] = partial(_scatter, mode=StoreMode.ADD)


@rule(aten.scatter.reduce, aten.scatter.value_reduce)
def _scatter_combining(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    reduce = node.kwargs.get("reduce", node.args[-1])
    modes = {"add": StoreMode.ADD, "multiply": StoreMode.MUL}
    return _scatter(scope, node, mode=modes[str(reduce)])


@rule(aten.scatter_reduce.two)
def _scatter_reduce(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    size = scope.tensor(node.args[2]).size
    place = _update_along(scope, node, source)
    return _reduced(scope, node, size, place, str(node.args[4]))


@rule(aten.index_reduce.default)
def _index_reduce(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    dim = normal(int(node.args[1]), len(source.size))  # type: ignore[arg-type]
    index, values = scope.tensor(node.args[2]), scope.tensor(node.args[3])
    extent = extent_of(source, dim)

    def place(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
        along = builder.load(index, matched(index, builder.point[dim : dim + 1]))
        at = position(builder, along, extent, out_of_bounds(dim, extent))
        return (
            replaced(source, builder.point, dim, at),
            builder.load(values, builder.point),
        )

    return _reduced(scope, node, values.size, place, str(node.args[4]))


def _reduced(
    scope: LoopScope,
    node: torch.fx.Node,
    size: Sequence[Expr],
    place: UpdatePlace,
    reduce: str,
) -> NodeValue:
    """Lower a reduction of updates into elements, which count too if the node says so."""
    source = scope.tensor(node.args[0])
    own = argument(node, 5, "include_self", True)
    modes = {"sum": StoreMode.ADD, "mean": StoreMode.ADD, "prod": StoreMode.MUL}
    modes |= {"amin": StoreMode.MIN, "amax": StoreMode.MAX}
    mode = modes[reduce]
    require_mode(scope, source, mode)
    target = changed(scope, node)
    if not own:

        def reset(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
            point, _ = place(builder)
            start = identity(_REDUCTIONS[mode], source.dtype)
            assert start is not None
            return point, builder.literal(start, source.dtype)

        write_updates(scope, node, target, size, reset, StoreMode.OVERWRITE)
    write_updates(scope, node, target, size, place, mode)
    if reduce == "mean":
        return _divided(scope, node, target, size, place, 1 if own else 0)
    return target


def _divided(
    scope: LoopScope,
    node: torch.fx.Node,
    total: IndexedTensor,
    size: Sequence[Expr],
    place: UpdatePlace,
    start: int,
) -> IndexedTensor:
    """Append nests that count the updates of each element and divide its sum by that."""
    count = scope.workspace(total.size, total.dtype, total)
    builder = NestBuilder(count.size)
    builder.store(count, builder.point, number_operand(builder, start, count.dtype))
    scope.add_nest(builder, node.name)

    def one(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
        point, _ = place(builder)
        return point, number_operand(builder, 1, count.dtype)

    write_updates(scope, node, count, size, one, StoreMode.ADD)
    result, builder = scope.elements_of(node)
    sums, counts = builder.load(total, builder.point), builder.load(count, builder.point)
    divisor = builder.apply(Op.MAXIMUM, counts, number_operand(builder, 1, count.dtype))
    op = Op.DIV if total.dtype.is_float else Op.FLOORDIV
    if total.dtype in HALVES:
        sums, divisor = (builder.cast(each, DType.F32) for each in (sums, divisor))
    return scope.add_elements(node, result, builder, builder.apply(op, sums, divisor))


@rule(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given: Any = node.args[1]
    adds = argument(node, 3, "accumulate", False)
    source, values = scope.tensor(node.args[0]), scope.tensor(node.args[2])
    masked = put_where(scope, node, source, values, adds=bool(adds))
    if masked is not None:
        return masked
    chosen = indexed(scope, source, given)
    mode = StoreMode.ADD if adds else StoreMode.OVERWRITE
    require_mode(scope, source, mode)
    checks = node.target is aten.index_put.default

    def place(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
        point = chosen.point(builder, checks=checks)
        at = broadcast_point(values, builder.size, builder.point)
        return point, builder.load(values, at)

    return write_updates(scope, node, changed(scope, node), chosen.size, place, mode)


@rule(aten.put.default)
def _put(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    index, values = scope.tensor(node.args[1]), scope.tensor(node.args[2])
    adds = argument(node, 3, "accumulate", False)
    mode = StoreMode.ADD if adds else StoreMode.OVERWRITE
    require_mode(scope, source, mode)
    count = product(index.size)
    flat_index = reshaped(scope, index, (count,))
    flat_values = reshaped(scope, values, (count,))
    result = changed(scope, node)
    extent = product(result.size)
    flat = reshaped(scope, result, (extent,))

    def place(builder: NestBuilder) -> tuple[Sequence[Expr], str]:
        at = position(
            builder,
            builder.load(flat_index, builder.point),
            extent,
            wraps=True,
            message="out of range: tried to access an index",
        )
        return (at,), builder.load(flat_values, builder.point)

    write_updates(scope, node, flat, (count,), place, mode)
    return result


def zeros_to_add_to(
    scope: LoopScope, node: torch.fx.Node, result: IndexedTensor
) -> IndexedTensor:
    """Append a nest of zeros; return the result, or a workspace if it is of a half type."""
    total = result
    if result.dtype in HALVES:
        total = scope.workspace(result.size, DType.F32, result)
    builder = NestBuilder(total.size)
    builder.store(total, builder.point, number_operand(builder, 0, total.dtype))
    scope.add_nest(builder, node.name)
    return total


@rule(aten.embedding_dense_backward.default)
def _embedding_backward(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    gradient, index = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    rows, padding = scope.expr(node.args[2]), scope.expr(node.args[3])
    if node.args[4]:
        raise NotLoweredError("gradients divided by frequencies")
    require_mode(scope, gradient, StoreMode.ADD)
    result = scope.allocate(node.name, node.meta["val"])
    total = zeros_to_add_to(scope, node, result)
    if 0 not in gradient.size:
        builder = NestBuilder(gradient.size)
        row = builder.cast(builder.load(index, builder.point[:-1]), DType.I64)
        zero, end, skipped = (
            number_operand(builder, each, DType.I64) for each in (0, rows, padding)
        )
        inside = builder.apply(
            Op.AND, builder.apply(Op.GE, row, zero), builder.apply(Op.LT, row, end)
        )
        counts = builder.apply(Op.AND, inside, builder.apply(Op.NE, row, skipped))
        at = position(builder, row, rows, None)
        value = builder.cast(builder.load(gradient, builder.point), total.dtype)
        point = (at, builder.point[-1])
        builder.store(total, point, value, mask=counts, mode=StoreMode.ADD)
        scope.add_nest(builder, node.name)
    if total is not result:
        scope.copy(total, result, node.name)
    return result
