"""Numbers in C++: they become what their type says where they enter programs and blocks."""

import math

import pytest
import torch

from tests.cpp_emitter.running import refused, run_both
from wrapperir.emit import Value, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir.line import SymbolKind
from wrapperir.ir.types import DType
from wrapperir_cpp.numbers import format_converted

BORDERS = """
program @main(%n: {given}) {{
  symbol s: {kind} = value(%n)
  %r = {line}
  return %r
}}
"""
SUBGRAPH = """subgraph_call @b (s) : {dtype} {{
    body (%p: {dtype}) {{
      symbol_definition w: {kind} = value(%p)
      return {result}
    }}
  }}"""
LOOP = """while_loop (s) () : {dtype} {{
    condition (%p: {dtype}) {{
      symbol_definition u: {kind} = value(%p)
      return u < 3
    }}
    body (%q: {dtype}) {{
      symbol_definition v: {kind} = value(%q)
      return v + 1
    }}
  }}"""
COND = """conditional s > 1 (s) : {dtype} {{
    true (%p: {dtype}) {{
      symbol_definition w: {kind} = value(%p)
      return w + 1
    }}
    false (%q: {dtype}) {{
      return s
    }}
  }}"""


@pytest.mark.parametrize("line", [SUBGRAPH, LOOP, COND])
def test_whole_numbers_become_floats(line: str) -> None:
    line = line.format(dtype="f64", kind="float", result="2")
    text = BORDERS.format(given="i64", kind="int", line=line)
    for start in (0, 7):
        (result,) = run_both(text, start)
        assert type(result) is float


@pytest.mark.parametrize("line", [SUBGRAPH, LOOP, COND])
def test_whole_floats_become_ints(line: str) -> None:
    line = line.format(dtype="i64", kind="int", result="2.0")
    text = BORDERS.format(given="f64", kind="float", line=line)
    for start in (0.0, 7.0):
        (result,) = run_both(text, start)
        assert type(result) is int


def test_numbers_become_bools() -> None:
    line = SUBGRAPH.format(dtype="bool", kind="int", result="w + 4")
    (result,) = run_both(BORDERS.format(given="i64", kind="int", line=line), 3)
    assert result is True


@pytest.mark.parametrize("result", ["w + 0.5", "0.5"])
def test_a_result_that_is_not_whole_is_a_fault(result: str) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result=result)
    said = refused(BORDERS.format(given="i64", kind="int", line=line), 3)
    assert "is not a whole number" in said


def test_an_operand_that_is_not_whole_is_a_fault() -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result="1")
    text = BORDERS.format(given="f64", kind="float", line=line)
    for number in (0.5, math.inf, math.nan):
        assert "int" in refused(text, number) or "whole" in refused(text, number)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("f64", (2, -0.0, math.nan, math.inf, True)),
        ("f32", (True, 0.1)),
        ("i64", (True, -(2**63))),
        ("i32", (3,)),
        ("bool", (2, False)),
    ],
)
def test_an_input_becomes_its_type(dtype: str, values: tuple[Value, ...]) -> None:
    for given in values:
        run_both(f"program @main(%n: {dtype}) {{\n  return %n\n}}", given)


@pytest.mark.parametrize("dtype", ["i64", "u8", "bool"])
def test_a_float_is_no_whole_input(dtype: str) -> None:
    assert "not a float" in refused(f"program @main(%n: {dtype}) {{\n  return %n\n}}", 2.0)


def test_conditions_are_bools() -> None:
    outputs = run_both(
        """
        program @main(%x: bool, %n: i64) {
          symbol b: bool = value(%x)
          symbol n: int = value(%n)
          symbol many: bool = n
          %full = extern_kernel aten.full.default([2], n > 1) : bool[2]
          %flag = extern_kernel aten.full.default([n > 2, 2], many) : bool[1, 2]
          return %full, %flag, b, many, b + b, -b, n > 1, not n, n and 7, b or many, \
bitand(b, many), min(b, 2), where(n == 3, b, 1), where(n == 3, 1, 0.5), n ** n, 7, true
        }
        """,
        True,
        3,
    )
    assert [type(x) for x in outputs[2:]] == [
        *(bool, bool, int, int, bool, bool, bool, bool, int, bool, bool),
        *(int, int, int, bool),
    ]


def test_what_is_not_taken_is_not_evaluated() -> None:
    text = """
    program @main(%n: i64) {
      symbol n: int = value(%n)
      return where(n != 0, 10 // n, 7), n != 0 and 10 // n, n == 0 or 10 // n
    }
    """
    assert run_both(text, 0) == (7, False, True)


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
        (SymbolKind.FLOAT, SymbolKind.BOOL, "x != 0"),
    ],
)
def test_conversions(old: SymbolKind, new: SymbolKind, text: str) -> None:
    assert format_converted(fragment("x"), old, new) == text


def test_the_kinds_of_dtypes() -> None:
    assert kind_of(DType.BOOL) is SymbolKind.BOOL
    assert kind_of(DType.BF16) is SymbolKind.FLOAT
    assert kind_of(DType.U8) is SymbolKind.INT
