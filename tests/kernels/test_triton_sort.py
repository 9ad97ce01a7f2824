"""The stand-in for Inductor's sort."""

import numpy as np
import torch
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.kernels.triton_reduce import block, sort_with_index

VALUES = st.lists(st.floats(width=32), min_size=8, max_size=8)


@given(VALUES, st.booleans())
def test_it_sorts_as_pytorch_does(values: list[float], descending: bool) -> None:
    x = block(np.array(values, dtype=np.float32), tl.float32)
    indices = block(np.arange(8, dtype=np.int16), tl.int16)
    found, order = sort_with_index(x, indices, None, descending=descending)
    expected = torch.tensor(values).sort(stable=True, descending=descending)
    assert order.handle.data.tolist() == expected.indices.tolist()
    np.testing.assert_array_equal(found.handle.data, expected.values.numpy())


@given(st.lists(st.integers(-128, 127), min_size=8, max_size=8), st.integers(0, 8))
def test_lanes_past_the_length_stay_last(values: list[int], length: int) -> None:
    x = block(np.array([values], dtype=np.int8), tl.int8)
    indices = block(np.arange(8, dtype=np.int16)[None, :], tl.int16)
    found, order = sort_with_index(x, indices, length, dim=1, descending=True)
    assert found.handle.data[0, :length].tolist() == sorted(values[:length], reverse=True)
    assert sorted(order.handle.data[0, length:].tolist()) == list(range(length, 8))
