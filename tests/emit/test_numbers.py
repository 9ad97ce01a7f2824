"""Numbers become what their type says where they enter programs and blocks."""

import math
from collections.abc import Callable
from typing import TypeAlias

import pytest
import torch
from attrs import frozen

from tests.cpp_emitter import running as cpp
from tests.fx_emitter import running as fx
from tests.python_emitter import running as python
from wrapperir.emit import Value

Run: TypeAlias = Callable[..., tuple[Value, ...]]
Refuse: TypeAlias = Callable[..., str]


NO_RANGE = "Expected f >= 0 and f <= 5 but received nan"


@frozen
class Runner:
    """Runs the program of a text, as interpreted; or returns why it refuses its inputs.

    ``no_range`` is the message for a NaN in 0..5.
    """

    run: Run
    refuse: Refuse
    no_range: str = NO_RANGE


RUNNERS = {
    "python": Runner(python.run_both, python.refuse_both),
    "cpp": Runner(cpp.run_both, cpp.refused, f"main: {NO_RANGE}"),
    "fx": Runner(fx.run_both, fx.refuse_both),
}


@pytest.fixture(params=RUNNERS)
def emitter(request: pytest.FixtureRequest) -> Runner:
    """Return what runs programs with an emitter."""
    return RUNNERS[request.param]


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
def test_whole_numbers_become_floats(emitter: Runner, line: str) -> None:
    line = line.format(dtype="f64", kind="float", result="2")
    text = BORDERS.format(given="i64", kind="int", line=line)
    for start in (0, 7):
        (result,) = emitter.run(text, start)
        assert type(result) is float


@pytest.mark.parametrize("line", [SUBGRAPH, LOOP, COND])
def test_whole_floats_become_ints(emitter: Runner, line: str) -> None:
    line = line.format(dtype="i64", kind="int", result="2.0")
    text = BORDERS.format(given="f64", kind="float", line=line)
    for start in (0.0, 7.0):
        (result,) = emitter.run(text, start)
        assert type(result) is int


def test_numbers_become_bools(emitter: Runner) -> None:
    line = SUBGRAPH.format(dtype="bool", kind="int", result="w + 4")
    (result,) = emitter.run(BORDERS.format(given="i64", kind="int", line=line), 3)
    assert result is True


@pytest.mark.parametrize("result", ["w + 0.5", "0.5"])
def test_a_result_that_is_not_whole_is_a_fault(emitter: Runner, result: str) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result=result)
    said = emitter.refuse(BORDERS.format(given="i64", kind="int", line=line), 3)
    assert "is not a whole number" in said


def test_an_operand_that_is_not_whole_is_a_fault(emitter: Runner) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result="1")
    text = BORDERS.format(given="f64", kind="float", line=line)
    for number in (0.5, math.inf, math.nan):
        said = emitter.refuse(text, number)
        assert "int" in said or "whole" in said


@pytest.mark.parametrize(
    ("dtype", "pairs"),
    [
        (
            "f64",
            [
                *[(2, 2.0), (-0.0, -0.0), (math.nan, math.nan)],
                *[(math.inf, math.inf), (True, 1.0)],
            ],
        ),
        ("f32", [(True, 1.0), (0.1, 0.1)]),
        ("i64", [(True, 1), (-(2**63), -(2**63))]),
        ("i32", [(3, 3)]),
        ("bool", [(2, True), (False, False)]),
    ],
)
def test_an_input_becomes_its_type(
    emitter: Runner, dtype: str, pairs: list[tuple[Value, Value]]
) -> None:
    for given, wanted in pairs:
        outputs = emitter.run(f"program @main(%n: {dtype}) {{\n  return %n\n}}", given)
        python.assert_same(outputs, (wanted,))


@pytest.mark.parametrize("dtype", ["i64", "u8", "bool"])
def test_a_float_is_no_whole_input(emitter: Runner, dtype: str) -> None:
    said = emitter.refuse(f"program @main(%n: {dtype}) {{\n  return %n\n}}", 2.0)
    assert "not a float" in said


def test_conditions_are_bools(emitter: Runner) -> None:
    outputs = emitter.run(
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


def test_what_is_not_taken_is_not_evaluated(emitter: Runner) -> None:
    text = """
    program @main(%n: i64) {
      symbol n: int = value(%n)
      return where(n != 0, 10 // n, 7), n != 0 and 10 // n, n == 0 or 10 // n
    }
    """
    assert emitter.run(text, 0) == (7, False, True)
    assert emitter.run(text, 3) == (3, True, True)


def test_a_nan_without_a_range_is_a_value(emitter: Runner) -> None:
    (output,) = emitter.run(
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


def test_a_nan_is_in_no_range(emitter: Runner) -> None:
    text = """
    program @main(%y: f64) {
      symbol f: float 0..5 = value(%y)
      return f
    }
    """
    assert emitter.refuse(text, math.nan) == emitter.no_range
