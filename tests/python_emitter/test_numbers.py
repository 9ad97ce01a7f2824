"""Numbers: they become what their type says where they enter a program or a block."""

import math

import pytest
import torch

from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import interpret
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter


def run_both(text: str, *inputs: Value) -> tuple[Value, ...]:
    """Run a program both ways; return the outputs, which are the same."""
    program = parse_program("wrapperir 1\n" + text)
    assert verify(program) == ()
    emitter = PythonEmitter()
    outputs = emitter.load(emitter.emit(program), {})(list(inputs))
    assert_same(outputs, interpret(program, inputs, {}))
    return outputs


def refuse_both(text: str, *inputs: Value) -> None:
    program = parse_program("wrapperir 1\n" + text)
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(program), {})
    with pytest.raises((ValueError, TypeError, OverflowError)):
        call(list(inputs))
    with pytest.raises(DiagnosticError):
        interpret(program, inputs, {})


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
@pytest.mark.parametrize("start", [0, 7])
def test_whole_numbers_become_floats(line: str, start: int) -> None:
    line = line.format(dtype="f64", kind="float", result="2")
    (result,) = run_both(BORDERS.format(given="i64", kind="int", line=line), start)
    assert type(result) is float


@pytest.mark.parametrize("line", [SUBGRAPH, LOOP, COND])
@pytest.mark.parametrize("start", [0.0, 7.0])
def test_whole_floats_become_ints(line: str, start: float) -> None:
    line = line.format(dtype="i64", kind="int", result="2.0")
    (result,) = run_both(BORDERS.format(given="f64", kind="float", line=line), start)
    assert type(result) is int


def test_numbers_become_bools() -> None:
    line = SUBGRAPH.format(dtype="bool", kind="int", result="w + 4")
    (result,) = run_both(BORDERS.format(given="i64", kind="int", line=line), 3)
    assert result is True


@pytest.mark.parametrize("result", ["w + 0.5", "0.5"])
def test_a_result_that_is_not_whole_is_a_fault(result: str) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result=result)
    refuse_both(BORDERS.format(given="i64", kind="int", line=line), 3)


@pytest.mark.parametrize("number", [0.5, math.inf, math.nan])
def test_an_operand_that_is_not_whole_is_a_fault(number: float) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result="1")
    refuse_both(BORDERS.format(given="f64", kind="float", line=line), number)


@pytest.mark.parametrize(
    ("dtype", "given", "wanted"),
    [
        ("f64", 2, 2.0),
        ("f32", True, 1.0),
        ("f64", math.nan, math.nan),
        ("i64", True, 1),
        ("i32", 3, 3),
        ("bool", 2, True),
        ("bool", False, False),
    ],
)
def test_an_input_becomes_its_type(dtype: str, given: Value, wanted: Value) -> None:
    assert_same(
        run_both(f"program @main(%n: {dtype}) {{\n  return %n\n}}", given), (wanted,)
    )


@pytest.mark.parametrize("dtype", ["i64", "u8", "bool"])
def test_a_float_is_no_whole_input(dtype: str) -> None:
    refuse_both(f"program @main(%n: {dtype}) {{\n  return %n\n}}", 2.0)


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
bitand(b, many), min(b, 2), where(n == 3, b, 1)
        }
        """,
        True,
        3,
    )
    assert [type(x) for x in outputs[2:]] == [
        *(bool, bool, int, int, bool, bool, bool, bool, int, bool, bool)
    ]


def test_what_is_not_taken_is_not_evaluated() -> None:
    text = """
    program @main(%n: i64) {
      symbol n: int = value(%n)
      return where(n != 0, 10 // n, 7), n != 0 and 10 // n, n == 0 or 10 // n
    }
    """
    assert run_both(text, 0) == (7, False, True)


def test_a_nan_without_a_range_is_a_value() -> None:
    (output,) = run_both(
        """
        program @main(%x: f32[1]) {
          symbol_definition f: float = item(%x)
          %r = extern_kernel aten.mul.Scalar(%x, f) : f32[1]
          return %r
        }
        """,
        torch.tensor([math.nan]),
    )
    assert isinstance(output, torch.Tensor)
    assert output.isnan().all()


def test_a_nan_is_in_no_range() -> None:
    text = """
    program @main(%y: f64) {
      symbol f: float 0..5 = value(%y)
      return f
    }
    """
    refuse_both(text, math.nan)
