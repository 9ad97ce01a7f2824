"""Every emitter stops at NaN: where a kernel is given one, and where it makes one."""

import math
from collections.abc import Callable

import pytest
import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Emitter, Value
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.interp import interpret
from wrapperir.ir import DType, Program
from wrapperir.passes import check_nans
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

Run = Callable[[list[Value]], object]

RATIO = check_nans(
    parse_program(
        """wrapperir 1

kernel_definition @ratio cpp(x: read f32*, y: read f32*, out: write f32*, n: i64) {
  entry = ratio
  source {
    | #include <cstdint>
    | extern "C" void ratio(const float* x, const float* y, float* out, const int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) out[i] = y[i] != y[i] ? 1.0f : x[i] / y[i];
    | }
  }
}

program @main(%x: f32[s0], %y: f32[s0]) {
  symbol s0: int 0.. = size(%x, 0)

  %out = allocate f32[s0]
  kernel_call @ratio(%x, %y, %out, s0)
  return %out
}
"""
    )
)

DTYPES = [
    *(d for d in DType if d.is_float and d is not DType.F4E2M1FN_X2),
    *(DType.C64, DType.C128),
]


def layouts() -> Program:
    """Check views of a tensor of each dtype: one with gaps, and one of no elements."""
    inputs = ", ".join(f"%x{i}: {dtype.value}[12]" for i, dtype in enumerate(DTYPES))
    lines: list[str] = []
    for i, dtype in enumerate(DTYPES):
        strided = f"{dtype.value}[2, 3; stride 1, 3; offset 2]"  # 2, 3, 5, 6, 8 and 9
        lines += [
            f"  %v{i} = reinterpret %x{i} as {strided}",
            f'  assert_not_nan %v{i} "elements of {dtype.value}"',
            f"  free %v{i}",
            f"  %e{i} = reinterpret %x{i} as {dtype.value}[0, 4]",
            f'  assert_not_nan %e{i} "no elements"',
            f"  free %e{i}",
        ]
    body = "\n".join(lines)
    program = parse_program(
        f"wrapperir 1\nprogram @main({inputs}) {{\n{body}\n  return\n}}\n"
    )
    assert verify(program) == ()
    return program


LAYOUTS = layouts()


@pytest.fixture(scope="module", params=[None, PythonEmitter(), CppEmitter(), FxEmitter()])
def runs(request: pytest.FixtureRequest) -> tuple[Run, Run]:
    """Return what runs the two programs."""
    emitter: Emitter | None = request.param

    def run(program: Program) -> Run:
        if emitter is None:
            return lambda given: interpret(program, given, {})
        loaded = emitter.load(emitter.emit(program), {})
        return lambda given: loaded(given)

    return run(RATIO), run(LAYOUTS)


ONES, NANS = torch.ones(4), torch.tensor([1.0, 1.0, math.nan, 1.0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([NANS, ONES], "input x of @ratio is not finite"),
        ([ONES, NANS], "input y of @ratio is not finite"),
        ([torch.zeros(4), torch.tensor([1.0, 2.0, 3.0, 0.0])], "output out of @ratio"),
        ([ONES, torch.zeros(4)], "output out of @ratio"),  # infinities, too
    ],
)
def test_nan_stops_a_program(
    runs: tuple[Run, Run], given: list[Value], message: str
) -> None:
    with pytest.raises(Exception, match=message) as error:
        runs[0]([t.clone() if isinstance(t, torch.Tensor) else t for t in given])
    if isinstance(error.value, DiagnosticError):
        assert error.value.diagnostics[0].code is Code.RUN_ASSERT_NOT_NAN


@pytest.mark.parametrize("size", [4, 0])
def test_finite_numbers_pass(runs: tuple[Run, Run], size: int) -> None:
    runs[0]([torch.ones(size), torch.ones(size)])


def spoilt(index: int, element: int) -> list[Value]:
    """Return an input for each dtype, one of which has NaN in one element."""
    given: list[Value] = []
    for number, dtype in enumerate(DTYPES):
        numbers = torch.ones(12)
        if number == index:
            numbers[element] = math.nan
        given.append(numbers.to(torch_dtype(dtype)))
    return given


@pytest.mark.parametrize("index", range(len(DTYPES)), ids=[d.value for d in DTYPES])
def test_a_view_is_checked_and_no_more(runs: tuple[Run, Run], index: int) -> None:
    for element in (0, 1, 4, 7, 10, 11):
        runs[1](spoilt(index, element))
    for element in (2, 6, 9):
        with pytest.raises(Exception, match=f"elements of {DTYPES[index].value}"):
            runs[1](spoilt(index, element))
