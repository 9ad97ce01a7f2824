"""Symbols in C++: where they come from, what they become, and their ranges."""

import ctypes
import math
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.expression_library import build_runtime
from tests.cpp_emitter.running import refused, run_both
from wrapperir.emit import Value
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import DType

SMALL_FLOATS = [
    dtype
    for dtype in DType
    if dtype.is_float and dtype.itemsize < 4 and dtype is not DType.F4E2M1FN_X2
]
_DECODE = """
#include "numbers.h"
extern "C" double decode(int dtype, unsigned bits) {
  return wrapperir::num::small_float(static_cast<wrapperir::DType>(dtype), bits);
}
"""


def test_small_floats_are_read_as_pytorch_reads_them(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(build_runtime(tmp_path, _DECODE, "numbers")))
    library.decode.restype = ctypes.c_double
    for dtype in SMALL_FLOATS:
        bits = dtype.itemsize * 8
        integer = torch.uint8 if bits == 8 else torch.uint16
        every = torch.arange(2**bits, dtype=torch.int32).to(integer)
        wanted = [float(value) for value in every.view(torch_dtype(dtype)).double()]
        number = list(DType).index(dtype)
        for index, value in enumerate(wanted):
            found = library.decode(number, index)
            assert isinstance(found, float)
            same = found == value and math.copysign(1, found) == math.copysign(1, value)
            assert same or (found != found and value != value), (dtype, index)


def test_sizes_strides_offsets_and_values_are_read() -> None:
    text = """
    program @main(%x: f32[s0, 4; stride t0, 1], %n: i64, %f: f64, %b: bool) {
      symbol s0: int 1..10 = size(%x, 0)
      symbol t0: int = stride(%x, 0)
      symbol n: int -5..5 = value(%n)
      symbol f: float = value(%f)
      symbol b: bool = value(%b)
      symbol of_int: float = value(%n)
      symbol is_set: bool = value(%n)
      symbol whole: int = value(%f)
      symbol as_int: int = value(%b)
      symbol sum: float -3..70 = f * 2 + s0
      %y = reinterpret %x as f32[2; offset 1]
      symbol_definition o: int = offset(%y)
      free %y
      return s0, t0, n, f, b, of_int, is_set, whole, as_int, sum, o
    }
    """
    x = torch.zeros(3, 8)[:, :4]
    assert run_both(text, x, -2, 4.0, True)[:3] == (3, 8, -2)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((11, 0.0), "Expected n >= 2 and n <= 10 but received 11"),
        ((1, 0.0), "Expected n >= 2 and n <= 10 but received 1"),
        ((5, 2.5), "Expected f <= 2 but received 2.5"),
        ((5, math.nan), "Expected f <= 2 but received nan"),
    ],
)
def test_what_is_out_of_range_is_refused(inputs: tuple[Value, ...], message: str) -> None:
    text = """
    program @main(%n: i64, %f: f64) {
      symbol n: int 2..10 = value(%n)
      symbol f: float ..2 = value(%f)
      return n, f
    }
    """
    assert message in refused(text, *inputs)


def test_a_range_beyond_64_bits_bounds_nothing_or_all() -> None:
    text = f"""
    program @main(%n: i64, %f: f64) {{
      symbol n: int {-(2**70)}..{2**70} = value(%n)
      symbol f: float {-(2**70) - 1}..{2**900} = value(%f)
      return n, f
    }}
    """
    assert run_both(text, 2**63 - 1, 1e200) == (2**63 - 1, 1e200)
    below = math.nextafter(-(2.0**70), -math.inf)
    assert f"but received {below}" in refused(text, 1, below)


ITEMS = [
    *((dtype, value) for dtype in SMALL_FLOATS for value in (2.0,)),
    (DType.F32, 0.1),
    (DType.F64, 0.1),
    (DType.I64, -(2**63)),
    (DType.I32, -7),
    (DType.I16, -7),
    (DType.I8, -7),
    (DType.U64, 2**63 - 1),
    (DType.U32, 2**32 - 1),
    (DType.U16, 2**16 - 1),
    (DType.U8, 255),
    (DType.BOOL, True),
]


def test_an_element_of_every_type_is_read() -> None:
    kinds = [
        "float" if dtype.is_float else "bool" if dtype is DType.BOOL else "int"
        for dtype, _ in ITEMS
    ]
    inputs = ", ".join(f"%x{i}: {dtype.value}[1]" for i, (dtype, _) in enumerate(ITEMS))
    symbols = "\n".join(
        f"symbol_definition s{i}: {kind} = item(%x{i})\n"
        f"symbol_definition b{i}: bool = item(%x{i})\n"
        f"symbol_definition f{i}: float = item(%x{i})"
        for i, kind in enumerate(kinds)
    )
    names = ", ".join(f"s{i}, b{i}, f{i}" for i in range(len(ITEMS)))
    text = f"program @main({inputs}) {{\n{symbols}\nreturn {names}\n}}"
    given = [
        torch.tensor([value]).to(torch_dtype(dtype))
        if dtype.is_float
        else torch.tensor([value], dtype=torch_dtype(dtype))
        for dtype, value in ITEMS
    ]
    run_both(text, *given)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.tensor([0.5]), "0.5 is not a whole number"),
        (torch.tensor([math.inf]), "inf"),
        (torch.tensor([math.nan]), "nan"),
    ],
)
def test_an_element_that_is_not_whole_is_no_int(tensor: torch.Tensor, message: str) -> None:
    text = """
    program @main(%x: f32[1]) {
      symbol_definition n: int = item(%x)
      return n
    }
    """
    assert message in refused(text, tensor)


def test_only_one_element_is_an_item() -> None:
    text = """
    program @main(%x: i64[s0]) {
      symbol s0: int 0..10 = size(%x, 0)
      symbol_definition n: int = item(%x)
      return n
    }
    """
    assert run_both(text, torch.tensor([7])) == (7,)
    assert "%x has 2 elements, not one" in refused(text, torch.tensor([7, 8]))
