"""Reductions, scans and sorting in Triton's interpreter, over whole arrays.

Triton's interpreter applies a combine function to one pair of elements at a time, which
takes seconds for a softmax of 64×64.  Both are associative by contract, so here adjacent
halves are combined at once (a balanced tree), and scans double their reach each step
(Hillis and Steele, "Data parallel algorithms", CACM 29(12), 1986): log₂ n steps.  Sorting
is numpy's: Inductor's bitonic network takes seconds in Python.
"""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorHandle

from wrapperir.kernels.triton_builder import Array, handle, numbers_of


def reduce(
    input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False, **_: Any
) -> Any:
    """Stand in for ``tl.reduce``."""
    axis = None if axis is None else _positive(input, plain(axis))
    return _Reduce(axis, combine_fn, bool(plain(keep_dims))).apply(input)


def associative_scan(
    input: Any, axis: int, combine_fn: Any, reverse: bool = False, **_: Any
) -> Any:
    """Stand in for ``tl.associative_scan``."""
    return _Scan(_positive(input, plain(axis)), combine_fn, bool(plain(reverse))).apply(
        input
    )


def block(data: Array, dtype: tl.dtype) -> tl.tensor:
    """Return an array as a block of a scalar type; a scalar where it has no dimension."""
    if data.ndim == 0:
        return tl.tensor(TensorHandle(data.reshape(1), dtype), dtype)
    return tl.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)))


class _Reduce(ReduceOps):  # type: ignore[misc]
    def sum(self, input: tl.tensor) -> tl.tensor:
        numbers = numbers_of(input.handle)
        dtype = numbers.dtype  # numpy would widen small integers
        total = np.sum(numbers, axis=self.axis, keepdims=self.keep_dims, dtype=dtype)
        return block(handle(np.asarray(total), input.dtype).data, input.dtype)

    def generic_reduce(self, input: tuple[tl.tensor, ...]) -> list[tl.tensor]:
        shape = input[0].handle.data.shape
        arrays = [argument.handle.data for argument in input]
        if self.axis is None:
            arrays = [array.reshape(-1) for array in arrays]
        axis = 0 if self.axis is None else self.axis
        arrays = [np.moveaxis(array, axis, 0) for array in arrays]
        while len(arrays[0]) > 1:
            even = len(arrays[0]) // 2 * 2
            left = [array[0:even:2] for array in arrays]
            right = [array[1:even:2] for array in arrays]
            combined = _combine(self.combine_fn, input, left, right)
            rest = [array[even:] for array in arrays]
            arrays = [np.concatenate(pair) for pair in zip(combined, rest, strict=True)]
        results = [array[0] for array in arrays]
        if self.keep_dims:
            kept = [1 if self.axis in (None, i) else n for i, n in enumerate(shape)]
            results = [result.reshape(kept) for result in results]
        pairs = zip(results, input, strict=True)
        return [block(np.asarray(result), argument.dtype) for result, argument in pairs]


class _Scan(ScanOps):  # type: ignore[misc]
    def cumsum(self, input: tl.tensor) -> list[tl.tensor]:
        return [self._accumulate(np.cumsum, input)]

    def cumprod(self, input: tl.tensor) -> list[tl.tensor]:
        return [self._accumulate(np.cumprod, input)]

    def _accumulate(self, op: Any, input: tl.tensor) -> tl.tensor:
        numbers = numbers_of(input.handle)
        running = op(numbers, axis=self.axis, dtype=numbers.dtype)
        return block(handle(running, input.dtype).data, input.dtype)

    def generic_scan(self, input: tuple[tl.tensor, ...]) -> list[tl.tensor]:
        arrays = [np.moveaxis(a.handle.data, self.axis, 0) for a in input]
        reach = 1
        while reach < len(arrays[0]):
            shifted = [np.roll(array, reach, axis=0) for array in arrays]
            combined = _combine(self.combine_fn, input, shifted, arrays)
            heads = [array[:reach] for array in arrays]
            tails = [array[reach:] for array in combined]
            arrays = [np.concatenate(pair) for pair in zip(heads, tails, strict=True)]
            reach *= 2
        arrays = [np.moveaxis(array, 0, self.axis) for array in arrays]
        return [block(a, i.dtype) for a, i in zip(arrays, input, strict=True)]


def _combine(
    combine_fn: Any, like: tuple[tl.tensor, ...], left: list[Array], right: list[Array]
) -> list[Array]:
    operands = [
        block(array, argument.dtype)
        for side in (left, right)
        for array, argument in zip(side, like, strict=True)
    ]
    results = combine_fn(*operands)
    results = results if isinstance(results, tuple) else (results,)
    return [
        np.broadcast_to(
            handle(numbers_of(result.handle), argument.dtype).data.astype(array.dtype),
            array.shape,
        )
        for result, argument, array in zip(results, like, left, strict=True)
    ]


def plain(value: Any) -> Any:
    """Return a constant's value where it is wrapped."""
    return value.value if isinstance(value, tl.constexpr) else value


def _positive(input: Any, axis: int) -> int:
    first = input[0] if isinstance(input, tuple) else input
    return axis % len(first.shape)


def sort_with_index(
    x: tl.tensor,
    idxs: tl.tensor,
    rnumel: Any,
    dim: Any = None,
    stable: Any = False,
    descending: Any = False,
) -> tuple[tl.tensor, tl.tensor]:
    """Stand in for Inductor's: sort the last dimension.

    Elements whose index is not below ``rnumel`` go last.  NaN counts as the
    greatest number.  Equal elements keep their order, stable or not.
    """
    numbers, indices = np.broadcast_arrays(numbers_of(x.handle), idxs.handle.data)
    data = np.broadcast_to(x.handle.data, numbers.shape)
    keys: list[Array] = [indices, *_keys(numbers, bool(plain(descending)))]
    limit = plain(rnumel)
    if limit is not None:
        bound = limit.handle.data if isinstance(limit, tl.tensor) else limit
        keys.append(indices >= bound)
    order = np.lexsort(keys, axis=-1)
    return (
        block(np.take_along_axis(data, order, -1), x.dtype),
        block(np.take_along_axis(indices, order, -1), idxs.dtype),
    )


def _keys(numbers: Array, descending: bool) -> list[Array]:
    """Return what to sort by, the last first."""
    if not np.issubdtype(numbers.dtype, np.floating):
        return [~numbers if descending else numbers]
    nan = np.isnan(numbers)
    finite = np.where(nan, 0, numbers)
    return [-finite, ~nan] if descending else [finite, nan]
