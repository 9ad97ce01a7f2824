"""Asserts in C++: what they let pass and what they say where they do not."""

import ctypes
import math
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.expression_library import build_runtime
from tests.cpp_emitter.running import refused, run_both
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import DType

LAYOUT = """
program @main(%x: f32[s0, s1; stride t0, t1]) {
  symbol s0: int 0..100 = size(%x, 0)
  symbol s1: int 0..100 = size(%x, 1)
  symbol t0: int = stride(%x, 0)
  symbol t1: int = stride(%x, 1)
  assert_size_stride %x (4, s1) (s1, 1) "aten.mm"
  return s0
}
"""


@pytest.mark.parametrize("size", [(4, 3), (4, 1), (4, 0)])
def test_a_layout_as_asserted_passes(size: tuple[int, ...]) -> None:
    run_both(LAYOUT, torch.zeros(size))


def test_strides_of_one_element_or_none_do_not_matter() -> None:
    run_both(LAYOUT, torch.zeros(4, 1).as_strided((4, 1), (1, 99)))
    run_both(LAYOUT, torch.zeros(4, 1).as_strided((4, 0), (7, 9)))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(3, 4), "aten.mm: %x has size [3, 4] and stride [4, 1], not [4, 4]"),
        (torch.zeros(3, 4).t(), "has size [4, 3] and stride [1, 4], not [4, 3] and [3, 1]"),
    ],
)
def test_another_layout_is_refused(tensor: torch.Tensor, message: str) -> None:
    assert message in refused(LAYOUT, tensor)


def test_alignment() -> None:
    text = """
    program @main(%x: f32[4]) {
      assert_alignment %x 16 "the kernel"
      return 1
    }
    """
    base = torch.zeros(64)
    shift = -base.data_ptr() // 4 % 4
    run_both(text, base[shift : shift + 4])
    said = refused(text, base[shift + 1 : shift + 5])
    assert 'program.wir:4, assert_alignment %x 16 "the kernel": the kernel: %x is' in said


def test_a_condition() -> None:
    text = """
    program @main(%n: i64) {
      symbol n: int = value(%n)
      assert_scalar 2 > 1
      assert_scalar n % 4 == 0 "in fours"
      assert_scalar n
      return n
    }
    """
    run_both(text, 8)
    assert 'assert_scalar n % 4 == 0 "in fours": in fours' in refused(text, 7)
    assert ", program.wir:8, assert_scalar n: the condition does not hold" in refused(
        text, 0
    )


FLOATS = [dtype for dtype in DType if dtype.is_float and dtype is not DType.F4E2M1FN_X2]


def test_no_element_may_be_nan_or_infinite() -> None:
    dtypes = [*FLOATS, DType.C64, DType.C128, DType.I32]
    inputs = ", ".join(f"%x{i}: {dtype.value}[2, 3]" for i, dtype in enumerate(dtypes))
    asserts = "\n".join(f'assert_not_nan %x{i} "of {d}"' for i, d in enumerate(dtypes))
    text = f"program @main({inputs}) {{\n{asserts}\nreturn 1\n}}"
    given = [torch.ones(2, 3).to(torch_dtype(dtype)) for dtype in dtypes]
    run_both(text, *given)
    for index, dtype in enumerate(dtypes[:-1]):
        spoilt = torch.ones(2, 3)
        spoilt[1, 2] = math.nan
        tensors = [*given]
        tensors[index] = spoilt.to(torch_dtype(dtype))
        assert tensors[index].to(torch.complex128).isnan().any()
        said = refused(text, *tensors)
        assert f"of {dtype.value}: %x{index} holds NaN or infinity" in said


_FINITE = """
#include "numbers.h"
extern "C" int is_finite(
    const char* first, int dtype, long count, const long* sizes, const long* strides) {
  try {
    wrapperir::num::assert_finite(
        first, static_cast<wrapperir::DType>(dtype), wrapperir::Ints(sizes, count),
        wrapperir::Ints(strides, count), "x", 0);
    return 1;
  } catch (const wrapperir::Failure&) {
    return 0;
  }
}
"""


def test_every_value_of_small_floats_is_finite_or_not_as_in_pytorch(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(build_runtime(tmp_path, _FINITE, "numbers")))
    one = (ctypes.c_long * 1)(1)
    for dtype in FLOATS:
        if dtype.itemsize > 2:
            continue
        integer = torch.uint8 if dtype.itemsize == 1 else torch.uint16
        every = torch.arange(2 ** (8 * dtype.itemsize), dtype=torch.int32).to(integer)
        wanted = every.view(torch_dtype(dtype)).float().isfinite()
        number, address = list(DType).index(dtype), every.data_ptr()
        for index, finite in enumerate(map(bool, wanted)):
            first = ctypes.c_void_p(address + index * dtype.itemsize)
            assert library.is_finite(first, number, 1, one, one) == finite, (dtype, index)
