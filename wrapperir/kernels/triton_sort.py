"""Inductor's ``sort_with_index`` by numpy: its bitonic network takes seconds in Python."""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeStubs=false

from typing import Any

import numpy as np
import triton.language as tl

from wrapperir.kernels.triton_builder import numbers_of
from wrapperir.kernels.triton_numbers import Array
from wrapperir.kernels.triton_reduce import block, plain


def sort_with_index(
    x: tl.tensor,
    idxs: tl.tensor,
    rnumel: Any,
    dim: Any = None,
    stable: Any = False,
    descending: Any = False,
) -> tuple[tl.tensor, tl.tensor]:
    """Sort the last dimension; elements whose index is not below ``rnumel`` go last.

    NaN counts as the greatest number.  Equal elements keep their order, stable or not.
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
