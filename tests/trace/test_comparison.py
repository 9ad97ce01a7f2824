"""Comparison of values: every dtype, NaN and infinities, tolerances, masks."""

import pytest
import torch

from wrapperir.trace import Comparison, compare

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float4_e2m1fn_x2,
    torch.complex64,
    torch.bool,
    torch.int64,
    torch.uint16,
    torch.uint64,
]


def tensor(dtype: torch.dtype, last: int) -> torch.Tensor:
    packed = dtype is torch.float4_e2m1fn_x2
    made = torch.tensor([[1, 2, 3], [4, 5, last]]).to(torch.uint8 if packed else dtype)
    return made.view(dtype) if packed else made


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_wrong_element_is_found(dtype: torch.dtype) -> None:
    assert compare(tensor(dtype, 6), tensor(dtype, 6)) is None
    found = compare(tensor(dtype, 6), tensor(dtype, 0))
    assert isinstance(found, Comparison)
    assert (found.count, found.total, found.place) == (1, 6, (1, 2))


def test_large_whole_numbers_are_compared_exactly() -> None:
    first = torch.tensor([2**60, 1])
    assert compare(first, first.clone()) is None
    assert compare(first, torch.tensor([2**60 + 1, 1])) is not None


def test_nan_and_infinity_equal_themselves_only() -> None:
    first = torch.tensor([torch.nan, torch.inf, 1.0])
    assert compare(first, first.clone()) is None
    assert compare(first, torch.tensor([torch.nan, -torch.inf, 1.0])) is not None
    assert compare(first, torch.tensor([0.0, torch.inf, 1.0])) is not None


def test_the_tolerance_is_a_part_of_the_greatest_magnitude() -> None:
    first = torch.tensor([100.0, 0.0])
    second = torch.tensor([100.0, 0.001])
    assert compare(first, second) is None
    assert compare(first, second, 0.0) is not None
    assert compare(first[1:], second[1:]) is not None


def test_a_mask_leaves_elements_out() -> None:
    first, second = torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 2.0])
    mask = torch.tensor([True, False, True, False])
    assert compare(first, second, written=mask) is None
    found = compare(first, second, written=torch.tensor([True, True, False, False]))
    assert isinstance(found, Comparison)
    assert (found.count, found.total, found.place) == (1, 2, (1,))


def test_other_types_and_sizes_are_told() -> None:
    assert compare(torch.zeros(2), torch.zeros(3)) == "float32[3] for float32[2]"
    assert compare(torch.zeros(2), torch.zeros(2).double()) == "float64[2] for float32[2]"
    assert str(compare(2, 3)) == "3 for 2"
    assert compare(2, 2) is None
