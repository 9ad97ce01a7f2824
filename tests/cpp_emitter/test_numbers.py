"""Numbers in C++: they become what operators and kernels take."""

import pytest
import torch

from tests.cpp_emitter.running import refused, run_both
from wrapperir.emit import fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import DType, SymbolKind
from wrapperir_cpp.literals import format_converted


def test_a_number_whose_kind_the_run_decides_goes_to_an_operator() -> None:
    text = """
    program @main(%x: i64[2], %n: i64) {
      symbol n: int = value(%n)
      %y = extern_kernel aten.mul.Scalar(%x, where(n > 2, n, n > 1)) : i64[2]
      return %y
    }
    """
    for n in (1, 2, 3):
        run_both(text, torch.tensor([3, -4]), n)


SCALARS = """
kernel_definition @k cpp(out: write f64*, {parameters}) {{
  entry = k
  source {{
    | #include <stdint.h>
    | extern "C" void k(double* out, {declared}) {{ {body} }}
  }}
}}
program @main(%n: i64, %f: f64, %b: bool) {{
  symbol n: int = value(%n)
  symbol f: float = value(%f)
  symbol b: bool = value(%b)
  %out = allocate f64[{count}]
  kernel_call @k(%out, {arguments})
  return %out
}}
"""
C_TYPES = {
    **{"f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t"},
    **{"i16": "int16_t", "i8": "int8_t", "u64": "uint64_t", "u32": "uint32_t"},
    **{"u16": "uint16_t", "u8": "uint8_t", "bool": "bool"},
}


def test_kernels_get_numbers_of_their_parameters_types() -> None:
    arguments = ("n", "n + 0.0", "f * 2", "b", "true")
    pairs = [(dtype, argument) for dtype in C_TYPES for argument in arguments]
    text = SCALARS.format(
        parameters=", ".join(f"a{i}: {dtype}" for i, (dtype, _) in enumerate(pairs)),
        declared=", ".join(f"{C_TYPES[dtype]} a{i}" for i, (dtype, _) in enumerate(pairs)),
        body=" ".join(f"out[{i}] = a{i};" for i in range(len(pairs))),
        count=len(pairs),
        arguments=", ".join(argument for _, argument in pairs),
    )
    for n, f in ((3, 0.5), (0, -0.0), (200, 1.5), (-1, -2.5)):
        run_both(text, n, f, True)


def test_a_kernel_gets_no_int_that_is_not_whole() -> None:
    text = SCALARS.format(
        parameters="a: i64",
        declared="long a",
        body="out[0] = a;",
        count=1,
        arguments="f",
    )
    run_both(text, 1, 4.0, False)
    assert "4.5 is not a whole number" in refused(text, 1, 4.5, False)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (SymbolKind.INT, SymbolKind.INT, "x"),
        (SymbolKind.INT, SymbolKind.FLOAT, "double(x)"),
        (SymbolKind.BOOL, SymbolKind.INT, "int64_t(x)"),
        (SymbolKind.FLOAT, SymbolKind.INT, "num::whole(x)"),
        (SymbolKind.FLOAT, SymbolKind.BOOL, "bool(x)"),
        (None, SymbolKind.FLOAT, "double(x)"),
        (None, SymbolKind.INT, "num::whole(x)"),
    ],
)
def test_conversions(old: SymbolKind | None, new: SymbolKind, text: str) -> None:
    assert format_converted(fragment("x"), old, new) == text


def test_the_kinds_of_dtypes() -> None:
    assert kind_of(DType.BOOL) is SymbolKind.BOOL
    assert kind_of(DType.BF16) is SymbolKind.FLOAT
    assert kind_of(DType.U8) is SymbolKind.INT
