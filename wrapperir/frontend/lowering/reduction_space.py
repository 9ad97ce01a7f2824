"""Splitting of a tensor's dimensions into those that are reduced and those that stay."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from attrs import frozen

from wrapperir.frontend.aten.values import lower_extent
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.values import IndexedTensor
from wrapperir.ir import Expr, product


@frozen
class ReductionSpace:
    """The dimensions of a tensor of ``size``, of which ``dims`` are reduced.

    ``dims`` is sorted.  The others are the parallel axes of the nest.
    """

    size: tuple[Expr, ...]
    dims: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The dimensions that stay."""
        return tuple(dim for dim in range(len(self.size)) if dim not in self.dims)

    @property
    def outer(self) -> tuple[Expr, ...]:
        """The extents of the parallel axes."""
        return tuple(self.size[dim] for dim in self.kept)

    @property
    def inner(self) -> tuple[Expr, ...]:
        """The extents of the inner axes; an inner loop has at least one."""
        return tuple(self.size[dim] for dim in self.dims) or (1,)

    @property
    def count(self) -> Expr:
        """The number of elements that are reduced to one."""
        return product(tuple(self.size[dim] for dim in self.dims))

    def builder(self) -> NestBuilder:
        """Return a new nest over the parallel axes."""
        return NestBuilder(self.outer)

    def point(self, outer: Sequence[Expr], inner: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the point of the tensor at values of the parallel and inner axes."""
        parts: dict[int, Expr] = {
            **dict(zip(self.kept, outer, strict=True)),
            **dict(zip(self.dims, inner, strict=False)),
        }
        return tuple(parts[dim] for dim in range(len(self.size)))

    def result_point(
        self, result: IndexedTensor, outer: Sequence[Expr]
    ) -> tuple[Expr, ...]:
        """Return the point of a result, which has the reduced dimensions or lacks them."""
        if len(result.size) == len(outer):
            return tuple(outer)
        return self.point(outer, [0] * len(self.dims))


def reduction_space(
    tensor: IndexedTensor, dims: int | Iterable[int] | None, result: torch.Tensor
) -> ReductionSpace:
    """Return the split of a tensor's dimensions for an operator's argument ``dims``.

    No dimensions mean all of them, unless ``result``, an example, has the tensor's size.
    """
    rank = len(tensor.size)
    given = [dims] if isinstance(dims, int) else [*(dims or ())]
    chosen = {dim % rank for dim in given} if rank else set[int]()
    size = tuple(map(lower_extent, result.shape))
    if not given and (size != tensor.size or dims is None):
        chosen = {*range(rank)}
    return ReductionSpace(tensor.size, tuple(sorted(chosen)))


def arguments(node: torch.fx.Node) -> dict[str, Any]:
    """Return the arguments of a node's operator by name, those not given included."""
    target: Any = node.target
    found: dict[str, Any] = {}
    for place, argument in enumerate(target._schema.arguments):
        name = argument.name
        if place < len(node.args) and not argument.kwarg_only:
            found[name] = node.args[place]
        elif name in node.kwargs:
            found[name] = node.kwargs[name]
        else:
            found[name] = argument.default_value if argument.has_default_value() else None
    return found
