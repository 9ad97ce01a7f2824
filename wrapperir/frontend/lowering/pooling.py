"""Rules of poolings, whose results are reductions of windows, and of their gradients.

A gradient is computed for each element of the source, from the windows that have it: no
two points write the same element.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from wrapperir.frontend.lowering.element_positions import both
from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.pool_windows import AdaptiveWindow, FixedWindow, Window
from wrapperir.frontend.lowering.reduction_space import arguments
from wrapperir.frontend.lowering.rules import RULES, NotLoweredError
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.frontend.lowering.views import split_position
from wrapperir.ir import DType, Expr, Symbol, add, mul
from wrapperir.lowering.dtypes import accumulated, limits
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten

Windows: TypeAlias = tuple[Window, ...]
MakeWindows: TypeAlias = Callable[[dict[str, Any], Sequence[Expr], Sequence[Expr]], Windows]
"""Returns the windows from arguments, and the sizes of the source and of the results."""


def fixed_windows(
    given: dict[str, Any], sources: Sequence[Expr], results: Sequence[Expr]
) -> tuple[FixedWindow, ...]:
    """Return the windows of a pooling whose arguments say their lengths."""
    count = len(sources)

    def each(name: str, default: Sequence[int]) -> list[int]:
        values: Any = given.get(name) or default
        several = [values] if isinstance(values, int) else [*values]
        if not all(isinstance(value, int) for value in several):
            raise NotLoweredError("a symbolic window")
        return several * count if len(several) == 1 else several

    kernel = each("kernel_size", ())
    stride, padding = each("stride", kernel), each("padding", (0,))
    dilation = each("dilation", (1,))
    return tuple(
        FixedWindow(
            source=sources[dim],
            results=results[dim],
            kernel=kernel[dim],
            stride=stride[dim],
            padding=padding[dim],
            dilation=dilation[dim],
        )
        for dim in range(count)
    )


def _adaptive(
    given: dict[str, Any], sources: Sequence[Expr], results: Sequence[Expr]
) -> Windows:
    return tuple(
        AdaptiveWindow(source=source, results=result)
        for source, result in zip(sources, results, strict=True)
    )


def _linear(point: Sequence[Expr], windows: Windows) -> Expr:
    """Return the row-major number of a position in the source."""
    total: Expr = 0
    for at, window in zip(point, windows, strict=True):
        total = add(mul(total, window.source), at)
    return total


def _load_window(
    builder: NestBuilder,
    source: IndexedTensor,
    windows: Windows,
    offsets: Sequence[Expr],
    other: int | float | bool,
) -> str:
    """Read the element at offsets of the point's windows; ``other`` outside the source."""
    outer = len(builder.size) - len(windows)
    point = [*builder.point]
    masks: list[str | None] = []
    for dim, (window, offset) in enumerate(zip(windows, offsets, strict=True), outer):
        result = builder.point[dim]
        masks += window.has_offset(builder, result, offset)
        point[dim] = window.position(result, offset)
    mask = both(builder, *masks)
    if mask is None:
        return builder.load(source, point)
    return builder.load(source, point, mask=mask, other=other)


def _max_pool(
    scope: LoopScope, node: torch.fx.Node, *, rank: int, make: MakeWindows
) -> NodeValue:
    """Lower a pooling that returns maxima and where they are."""
    source = scope.tensor(node.args[0])
    examples: Any = node.meta["val"]
    values, places = (scope.allocate(node.name, each) for each in examples)
    builder = NestBuilder(values.size)
    outer = len(values.size) - rank
    windows = make(arguments(node), source.size[outer:], values.size[outer:])
    sizes = [window.length for window in windows]
    with builder.inner(sizes) as offsets:
        value = _load_window(builder, source, windows, offsets, limits(source.dtype)[0])
        value = builder.cast(value, accumulated(source.dtype))
        (largest,) = builder.reduce(ReduceOp.MAX, value)
        (place,) = builder.reduce(ReduceOp.ARGMAX, value)
    builder.store(values, builder.point, largest)
    found = [
        window.position(result, window.first_offset(result, offset))
        for window, result, offset in zip(
            windows,
            builder.point[outer:],
            split_position(Symbol(place), sizes),
            strict=True,
        )
    ]
    index = builder.index_value(_linear(found, windows), DType.I64)
    builder.store(places, builder.point, index)
    scope.add_nest(builder, node.name)
    return values, places


def _gradient(
    scope: LoopScope,
    node: torch.fx.Node,
    rank: int,
    make: MakeWindows,
    part: Callable[[NestBuilder, Windows, Sequence[Expr], str | None], str],
) -> IndexedTensor:
    """Append the nest of a gradient: the sum of what windows add to each element.

    ``part`` returns what the windows at a point of the gradient of the results add; it
    reads nothing where its last argument is false.
    """
    gradient = scope.tensor(node.args[0])
    result, builder = scope.elements_of(node)
    outer = len(result.size) - rank
    windows = make(arguments(node), result.size[outer:], gradient.size[outer:])
    at = builder.point[outer:]
    with builder.inner([window.candidates for window in windows]) as numbers:
        masks: list[str | None] = []
        point = [*builder.point[:outer]]
        for window, position, number in zip(windows, at, numbers, strict=True):
            chosen = window.candidate(position, number)
            masks += window.has_position(builder, chosen, position)
            point.append(chosen)
        value = part(builder, windows, point, both(builder, *masks))
        (total,) = builder.reduce(ReduceOp.SUM, value)
    return scope.add_elements(node, result, builder, total)


def _max_pool_backward(
    scope: LoopScope, node: torch.fx.Node, *, rank: int, make: MakeWindows
) -> NodeValue:
    """Lower the gradient of a pooling of maxima."""
    gradient = scope.tensor(node.args[0])
    places = scope.tensor(arguments(node)["indices"])

    def part(
        builder: NestBuilder, windows: Windows, point: Sequence[Expr], mask: str | None
    ) -> str:
        place = builder.load(places, point, mask=mask, other=-1)
        value = builder.load(gradient, point, mask=mask)
        value = builder.cast(value, accumulated(gradient.dtype))
        own = builder.index_value(_linear(builder.point[-rank:], windows), DType.I64)
        zero = number_operand(builder, 0, builder.dtype(value))
        return builder.apply(Op.WHERE, builder.apply(Op.EQ, place, own), value, zero)

    return _gradient(scope, node, rank, make, part)


def _divided(
    builder: NestBuilder,
    value: str,
    given: dict[str, Any],
    windows: Windows,
    point: Sequence[Expr],
) -> str:
    """Return a sum divided by the number of positions in its windows."""
    dtype = builder.dtype(value)
    override = given.get("divisor_override")
    counts = bool(given.get("count_include_pad"))
    spans = [
        window.span(result, counts_padding=counts)
        for window, result in zip(windows, point, strict=True)
    ]
    if "kernel_size" in given:
        total: Expr = 1
        for span in spans:
            total = mul(total, span)
        spans = [total if override is None else override]
    for span in spans:
        op = Op.DIV if dtype.is_float else Op.TRUNCDIV
        value = builder.apply(op, value, builder.index_value(span, dtype))
    return value


def _average_pool(
    scope: LoopScope, node: torch.fx.Node, *, rank: int, make: MakeWindows
) -> NodeValue:
    """Lower a pooling that returns means."""
    source = scope.tensor(node.args[0])
    given = arguments(node)
    result, builder = scope.elements_of(node)
    outer = len(result.size) - rank
    windows = make(given, source.size[outer:], result.size[outer:])
    with builder.inner([window.length for window in windows]) as offsets:
        value = _load_window(builder, source, windows, offsets, 0)
        (total,) = builder.reduce(
            ReduceOp.SUM, builder.cast(value, accumulated(source.dtype))
        )
    mean = _divided(builder, total, given, windows, builder.point[outer:])
    return scope.add_elements(node, result, builder, mean)


def _average_pool_backward(
    scope: LoopScope, node: torch.fx.Node, *, rank: int, make: MakeWindows
) -> NodeValue:
    """Lower the gradient of a pooling of means."""
    gradient = scope.tensor(node.args[0])
    given = arguments(node)

    def part(
        builder: NestBuilder, windows: Windows, point: Sequence[Expr], mask: str | None
    ) -> str:
        value = builder.load(gradient, point, mask=mask)
        value = builder.cast(value, accumulated(gradient.dtype))
        quotient = _divided(builder, value, given, windows, point[-rank:])
        if mask is None:
            return quotient
        # Windows that do not exist may have no positions.
        zero = number_operand(builder, 0, builder.dtype(value))
        return builder.apply(Op.WHERE, mask, quotient, zero)

    return _gradient(scope, node, rank, make, part)


for _rank in (2, 3):
    for _name, _rule, _make in (
        (f"max_pool{_rank}d_with_indices", _max_pool, fixed_windows),
        (f"max_pool{_rank}d_with_indices_backward", _max_pool_backward, fixed_windows),
        (f"avg_pool{_rank}d", _average_pool, fixed_windows),
        (f"avg_pool{_rank}d_backward", _average_pool_backward, fixed_windows),
        (f"adaptive_max_pool{_rank}d", _max_pool, _adaptive),
        (f"adaptive_max_pool{_rank}d_backward", _max_pool_backward, _adaptive),
        (f"_adaptive_avg_pool{_rank}d", _average_pool, _adaptive),
        (f"_adaptive_avg_pool{_rank}d_backward", _average_pool_backward, _adaptive),
    ):
        RULES[getattr(aten, _name).default] = partial(_rule, rank=_rank, make=_make)
