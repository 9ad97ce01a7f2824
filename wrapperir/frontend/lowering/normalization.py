"""Nests of norms and of their gradients.

A norm is a nest of means and deviations and one of elements, which scheduling fuses.
"""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.reduction_space import (
    ReductionSpace,
    accumulated,
)
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor
from wrapperir.frontend.lowering.variance import inverse_deviation, reduce_moments
from wrapperir.ir import DType, Expr
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op


@frozen
class Normalization:
    """How a tensor of ``size`` is normalised.

    Elements that differ in ``dims`` alone have one mean and one deviation, kept in tensors
    of the other dimensions.  Weight and bias have the dimensions ``parameters``.
    """

    size: tuple[Expr, ...]
    dims: tuple[int, ...]
    parameters: tuple[int, ...]

    @property
    def space(self) -> ReductionSpace:
        """The reduction to means."""
        return ReductionSpace(self.size, self.dims)

    @property
    def parameter_space(self) -> ReductionSpace:
        """The reduction to gradients of weight and bias."""
        others = [dim for dim in range(len(self.size)) if dim not in self.parameters]
        return ReductionSpace(self.size, tuple(others))

    def statistic(self, point: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the point of means for a point of the tensor."""
        return tuple(point[dim] for dim in self.space.kept)

    def parameter(self, point: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the point of weights for a point of the tensor."""
        return tuple(point[dim] for dim in self.parameters)


@frozen(kw_only=True)
class Normalized:
    """The tensors of a norm, in the dimensions of ``norm``."""

    norm: Normalization
    input: IndexedTensor
    weight: IndexedTensor | None
    bias: IndexedTensor | None = None
    mean: IndexedTensor
    deviation: IndexedTensor

    @property
    def dtype(self) -> DType:
        """The dtype of arithmetic."""
        return accumulated(self.input.dtype)

    def load(
        self, builder: NestBuilder, tensor: IndexedTensor, point: Sequence[Expr]
    ) -> str:
        """Return an element in the dtype of arithmetic."""
        return builder.cast(builder.load(tensor, point), self.dtype)

    def statistics(self, builder: NestBuilder, point: Sequence[Expr]) -> tuple[str, str]:
        """Return the mean and inverse deviation that a point is normalised with."""
        place = self.norm.statistic(point)
        mean = self.load(builder, self.mean, place)
        return mean, self.load(builder, self.deviation, place)

    def normal(
        self, builder: NestBuilder, point: Sequence[Expr], mean: str, deviation: str
    ) -> str:
        """Return ``(x - mean) * deviation``."""
        value = self.load(builder, self.input, point)
        return builder.apply(Op.MUL, builder.apply(Op.SUB, value, mean), deviation)

    def weighted(self, builder: NestBuilder, value: str, point: Sequence[Expr]) -> str:
        """Return a value times the weight."""
        if self.weight is None:
            return value
        weight = self.load(builder, self.weight, self.norm.parameter(point))
        return builder.apply(Op.MUL, value, weight)

    def biased(self, builder: NestBuilder, value: str, point: Sequence[Expr]) -> str:
        """Return a value plus the bias."""
        if self.bias is None:
            return value
        bias = self.load(builder, self.bias, self.norm.parameter(point))
        return builder.apply(Op.ADD, value, bias)


def kept_statistics(
    scope: LoopScope, input: IndexedTensor, results: Sequence[IndexedTensor]
) -> list[IndexedTensor]:
    """Return where statistics are kept: ``results``, unless those have less precision."""
    dtype = accumulated(input.dtype)
    return [
        each if each.dtype is dtype else scope.workspace(each.size, dtype, input)
        for each in results
    ]


def write_statistics(
    builder: NestBuilder,
    tensors: Normalized,
    epsilon: Expr,
    results: Sequence[IndexedTensor],
) -> tuple[str, str]:
    """Add the mean and the inverse deviation to a nest, also stored to ``results``.

    Return the mean and the sum of squared differences from it.
    """
    space = tensors.norm.space
    mean, squares = reduce_moments(builder, tensors.input, space)
    deviation = inverse_deviation(builder, squares, space.count, epsilon)
    kept = (tensors.mean, tensors.deviation)
    for target, result, value in zip(kept, results, (mean, deviation), strict=True):
        builder.store(target, builder.point, value)
        if result.buffer != target.buffer:
            builder.store(result, builder.point, value)
    return mean, squares


def write_elements(
    builder: NestBuilder, tensors: Normalized, result: IndexedTensor
) -> None:
    """Add the elements of a norm, with the statistics kept, to a nest of its size."""
    point = builder.point
    value = tensors.normal(builder, point, *tensors.statistics(builder, point))
    value = tensors.weighted(builder, value, point)
    builder.store(result, point, tensors.biased(builder, value, point))


def write_input_gradient(
    builder: NestBuilder,
    tensors: Normalized,
    gradient: IndexedTensor,
    result: IndexedTensor,
) -> None:
    """Add the gradient of a norm's input to a nest.

    For normal values ``n``, deviation ``d`` and weighted gradients ``g`` it is
    ``d * (g - mean(g) - n * mean(g * n))``.
    """
    space = tensors.norm.space
    mean, deviation = tensors.statistics(
        builder, space.point(builder.point, [0] * len(space.dims))
    )

    def values(inner: Sequence[Expr]) -> tuple[str, str]:
        point = space.point(builder.point, inner)
        given = tensors.load(builder, gradient, point)
        return (
            tensors.weighted(builder, given, point),
            tensors.normal(builder, point, mean, deviation),
        )

    with builder.inner(space.inner) as inner:
        given, normal = values(inner)
        (total,) = builder.reduce(ReduceOp.SUM, given)
        (product,) = builder.reduce(ReduceOp.SUM, builder.apply(Op.MUL, given, normal))
    count = number_operand(builder, space.count, tensors.dtype)
    total, product = (builder.apply(Op.DIV, each, count) for each in (total, product))
    with builder.inner(space.inner) as inner:
        given, normal = values(inner)
        rest = builder.apply(Op.SUB, given, total)
        part = builder.apply(Op.MUL, normal, product)
        value = builder.apply(Op.MUL, builder.apply(Op.SUB, rest, part), deviation)
        builder.store(result, space.point(builder.point, inner), value)


def write_parameter_gradients(
    builder: NestBuilder,
    tensors: Normalized,
    gradient: IndexedTensor,
    weight: IndexedTensor | None,
    bias: IndexedTensor | None,
) -> None:
    """Add the gradients of a norm's weight and bias to a nest, where they are wanted."""
    space = tensors.norm.parameter_space
    product, total = "", ""
    with builder.inner(space.inner) as inner:
        point = space.point(builder.point, inner)
        given = tensors.load(builder, gradient, point)
        if bias is not None:
            (total,) = builder.reduce(ReduceOp.SUM, given)
        if weight is not None:
            normal = tensors.normal(builder, point, *tensors.statistics(builder, point))
            (product,) = builder.reduce(ReduceOp.SUM, builder.apply(Op.MUL, given, normal))
    if weight is not None:
        builder.store(weight, builder.point, product)
    if bias is not None:
        builder.store(bias, builder.point, total)
