"""Which choice a call of a multi-kernel runs, and what is at fault where none can."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interp.running import fault, read, run
from wrapperir.diagnostics import Code
from wrapperir.emit import Value
from wrapperir.emit.runnable_kernels import ComputedAt, NearestAt, dispatch_at
from wrapperir.interp import Interpreter
from wrapperir.ir import (
    BufferRef,
    Hint,
    MultiKernelLine,
    Program,
    Symbol,
    choose,
    evaluate_int,
    nearest,
    tensor,
)
from wrapperir.kernels import cpp_build
from wrapperir.text import format_program


def kernel(index: int) -> str:
    """Return a kernel that writes its number: choices that can be told apart."""
    return f"""
    kernel_definition @k{index} triton(out: write i32*) {{
      grid = (1)
      entry = k{index}
      source {{
        | @triton.jit
        | def k{index}(out):
        |     tl.store(out, {index})
      }}
    }}
    """


KERNELS = "".join(kernel(index) for index in range(3))
MULTI_KERNEL = """
    multi_kernel @which(a: read f32*, b: read f32*, out: write i32*, n: i64, x: f64) {{
      size M = size(a, 0)
      size N = size(b, 1)
      choice @k0(2)
      choice @k1(2)
      choice @k2(2)
      select {}
    }}
"""
PROGRAM = """
    program @main(%a: f32[s0, 2], %b: f32[3, s1], %n: i64, %x: f64) {
      symbol s0: int 0.. = size(%a, 0)
      symbol s1: int 0.. = size(%b, 1)
      symbol s2: int = value(%n)
      symbol f0: float = value(%x)
      %out = allocate i32[1]
      kernel_call @which(%a, %b, %out, s2, f0)
      return %out
    }
"""


def program(selection: str) -> str:
    return KERNELS + MULTI_KERNEL.format(selection) + PROGRAM


def chosen(
    interpreter: Interpreter, m: int = 1, n: int = 1, count: int = 0, factor: float = 0.0
) -> int:
    """Return the choice of a call with ``M = m``, ``N = n`` and scalar arguments."""
    inputs: list[Value] = [torch.zeros(m, 2), torch.zeros(3, n), count, factor]
    (out,) = interpreter.run(inputs)
    assert isinstance(out, torch.Tensor)
    return int(out.item())


def choice_of(selection: str, m: int, n: int, count: int = 0, factor: float = 0.0) -> int:
    return chosen(Interpreter(read(program(selection)), {}), m, n, count, factor)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("first", 0),
        ("forced(2)", 2),
        ("recorded(1)", 1),
        ('recorded(2) microseconds(1.0, none, 99.5) on "a device"', 2),
        ("computed(1)", 1),
    ],
)
def test_a_settled_choice_runs_whatever_the_sizes_are(
    selection: str, expected: int
) -> None:
    interpreter = Interpreter(read(program(selection)), {})
    assert {chosen(interpreter, m, n) for m, n in ((1, 1), (0, 9))} == {expected}


def test_benchmark_times_nothing_and_runs_the_first_choice() -> None:
    assert choice_of("benchmark", 5, 7) == 0


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1, 1), 1),
        ((8, 8), 2),
        ((1, 9), 1),  # log2(9) from the first, 3.17 + 2 from the last
        ((4, 4), 2),
        ((2, 4), 1),  # three steps from either: the first that is listed
        ((0, 1), 1),
    ],
)
def test_nearest_shape_goes_by_the_sizes_of_the_tensors(
    sizes: tuple[int, int], expected: int
) -> None:
    assert choice_of("nearest_shape(1: (1, 1), 2: (8, 8))", *sizes) == expected


def test_nearest_shape_takes_several_hints_of_a_choice() -> None:
    interpreter = Interpreter(
        read(program("nearest_shape(0: (1, 16), 1: (4, 4), 0: (16, 1), 2: (64, 64))")), {}
    )
    sizes = [(1, 16), (16, 1), (3, 5), (16, 2), (99, 40)]
    assert [chosen(interpreter, m, n) for m, n in sizes] == [0, 0, 1, 0, 2]


def test_a_size_of_zero_counts_as_a_half() -> None:
    interpreter = Interpreter(read(program("nearest_shape(2: (2, 1), 1: (0, 1))")), {})
    # one is a step from either, and the first that is listed wins
    assert [chosen(interpreter, m, 1) for m in (0, 1, 2)] == [1, 2, 2]


HINT_LISTS = st.lists(
    st.builds(Hint, st.integers(0, 2), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    min_size=1,
    max_size=4,
)


@settings(max_examples=15)
@given(hints=HINT_LISTS, shapes=st.lists(st.tuples(*[st.integers(0, 9)] * 2), max_size=3))
def test_nearest_shape_follows_its_rule(
    hints: Sequence[Hint], shapes: Sequence[tuple[int, int]]
) -> None:
    listed = ", ".join(f"{h.choice}: {h.sizes}" for h in hints)
    interpreter = Interpreter(read(program(f"nearest_shape({listed})")), {})
    for m, n in [*shapes, hints[-1].sizes]:
        assert chosen(interpreter, m, n) == nearest(hints, (m, n))


@pytest.mark.parametrize(
    ("tree", "numbers", "expected"),
    [
        ("where(M * N <= 12, 0, 1)", (3, 4), 0),
        ("where(M * N <= 12, 0, 1)", (3, 5), 1),
        ("where(M % 4 == 0, where(N < M, 0, 1), 2)", (8, 3), 0),
        ("where(M % 4 == 0, where(N < M, 0, 1), 2)", (4, 4), 1),
        ("where(M % 4 == 0, where(N < M, 0, 1), 2)", (6, 4), 2),
        ("where(n > M and x < 0.5, 1, 2)", (2, 2, 3, 0.25), 1),
        ("where(n > M and x < 0.5, 1, 2)", (2, 2, 3, 0.5), 2),
        ("where(n > M and x < 0.5, 1, 2)", (3, 2, 3, 0.25), 2),
        ("where(M == 0, 1, where(N // M >= 2, 2, 0))", (0, 5), 1),
        ("where(M == 0, 1, where(N // M >= 2, 2, 0))", (2, 5), 2),
    ],
)
def test_computed_goes_by_sizes_and_scalar_arguments(
    tree: str, numbers: tuple[int, int] | tuple[int, int, int, float], expected: int
) -> None:
    assert choice_of(f"computed({tree})", *numbers) == expected


def test_two_calls_of_one_multi_kernel_may_run_different_choices() -> None:
    calls = """
    program @main(%a: f32[4, 2], %b: f32[3, 5], %wide: f32[3, 9]) {
      %one = allocate i32[1]
      %other = allocate i32[1]
      kernel_call @which(%a, %b, %one, 0, 0.0)
      kernel_call @which(%a, %wide, %other, 0, 0.0)
      return %one, %other
    }
    """
    text = KERNELS + MULTI_KERNEL.format("computed(where(N < 9, 1, 2))") + calls
    outs = run(text, torch.zeros(4, 2), torch.zeros(3, 5), torch.zeros(3, 9))
    assert [out.item() for out in outs if isinstance(out, torch.Tensor)] == [1, 2]


def test_a_call_in_a_block_goes_by_the_sizes_there() -> None:
    calls = """
    program @main(%a: f32[s0, 2], %b: f32[3, 5]) {
      symbol s0: int 0..9 = size(%a, 0)
      %zero = extern_kernel aten.full.default([], 0, dtype = dtype(i64)) : i64[]
      %start = extern_kernel aten.full.default([3], -1, dtype = dtype(i32)) : i32[3]
      %i, %kept = while_loop (%zero, %start) (%a, %b) : i64[], i32[3] {
        condition (%i0: i64[], %k0: i32[3], %a0: f32[s0, 2], %b0: f32[3, 5]) {
          %go = extern_kernel aten.lt.Scalar(%i0, 3) : bool[]
          return %go
        }
        body (%i1: i64[], %k1: i32[3], %a1: f32[s0, 2], %b1: f32[3, 5]) {
          symbol_definition u0: int 0..3 = item(%i1)
          %next = extern_kernel aten.add.Scalar(%i1, 1) : i64[]
          %new = extern_kernel aten.clone.default(%k1) : i32[3]
          %slot = reinterpret %new as i32[1; offset u0]
          %rows = reinterpret %a1 as f32[s0 - u0, 2]
          kernel_call @which(%rows, %b1, %slot, u0, 0.0)
          free %slot
          free %rows
          return %next, %new
        }
      }
      free %zero
      free %start
      free %i
      return %kept
    }
    """
    text = KERNELS + MULTI_KERNEL.format("computed(where(n == 1, 1, where(M < 4, 2, 0)))")
    (kept,) = run(text + calls, torch.zeros(4, 2), torch.zeros(3, 5))
    assert isinstance(kept, torch.Tensor)
    assert kept.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("selection", "code", "said"),
    [
        ("forced(3)", Code.RUN_UNDEFINED_KERNEL, "@which has no choice 3"),
        ("recorded(-1)", Code.RUN_UNDEFINED_KERNEL, "@which has no choice -1"),
        ("nearest_shape(7: (1, 1))", Code.RUN_UNDEFINED_KERNEL, "has no choice 7"),
        ("nearest_shape(1: (1))", Code.RUN_UNDEFINED_KERNEL, "has 1 sizes, not 2"),
        ("computed(M + 9)", Code.RUN_UNDEFINED_KERNEL, "has no choice 10"),
        ("computed(where(M // n > 1, 0, 1))", Code.RUN_EVALUATION, "zero"),
        ("computed(where(Q > 1, 0, 1))", Code.RUN_EVALUATION, "Q has no value"),
        ("computed(0.5)", Code.RUN_EVALUATION, "not a whole number"),
    ],
)
def test_a_choice_that_cannot_be_made_is_a_fault_at_the_call(
    selection: str, code: Code, said: str
) -> None:
    found = fault(program(selection), torch.zeros(1, 2), torch.zeros(3, 1), 0, 0.0)
    assert (found.code, found.path, found.subject) == (code, ("lines", 1), "@which")
    assert said in found.message


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("size(a, 2)", "M of @which is of dimension 2 of 2"),
        ("size(a, -1)", "dimension -1"),
        ("size(n, 0)", "argument 3 of @which is not a tensor"),
        ("size(9, 0)", "argument 9 of @which is not a tensor"),
    ],
)
def test_a_size_that_no_argument_has_is_a_fault(size: str, said: str) -> None:
    text = program("computed(where(M < 3, 0, 1))").replace("size(a, 0)", size)
    found = fault(text, torch.zeros(1, 2), torch.zeros(3, 1), 0, 0.0)
    assert found.code is Code.RUN_KERNEL_ARGUMENTS
    assert said in found.message


def test_a_workspace_must_hold_what_the_choice_that_runs_needs() -> None:
    text = program("computed(where(M < 3, 0, 1))").replace(
        "choice @k1(2)", "choice @k1(2) workspace(b, M * n, uninitialized)"
    )
    interpreter = Interpreter(read(text), {})
    assert chosen(interpreter, m=2, n=1, count=99) == 0
    assert chosen(interpreter, m=3, n=2, count=2) == 1
    found = fault(text, torch.zeros(3, 2), torch.zeros(3, 2), 3, 0.0)
    assert found.code is Code.RUN_KERNEL_ARGUMENTS
    assert "@k1 needs a workspace of 9 elements" in found.message


BROKEN = """
    kernel_definition @broken{} cpp(out: write i32*) {{
      entry = f
      source {{
        | number {}
      }}
    }}
"""


@pytest.mark.parametrize(
    ("selection", "built"),
    [
        ("first", [0]),
        ("recorded(2)", [2]),
        ("benchmark", [0]),
        ("nearest_shape(2: (1, 1), 0: (1, 2), 2: (9, 9))", [0, 2]),
        ("computed(1)", [1]),
        ("computed(where(M < 3, 0, 1))", [0, 1, 2]),
        ("forced(7)", []),
    ],
)
def test_only_cpp_kernels_that_may_be_called_are_built(
    selection: str, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def refuse(sources: Sequence[str]) -> list[cpp_build.CppBuildError]:
        given.extend(sources)
        return [cpp_build.CppBuildError("refused") for _ in sources]

    monkeypatch.setattr("wrapperir.kernels.build_libraries", refuse)
    kernels = "".join(BROKEN.format(index, index) for index in range(3))
    multi_kernel = MULTI_KERNEL.format(selection).replace("@k", "@broken")
    found = fault(
        kernels + multi_kernel + PROGRAM, torch.zeros(1, 2), torch.zeros(3, 1), 0, 0.0
    )
    assert given == [f"number {index}" for index in built]
    expected = Code.RUN_KERNEL_BUILD if built else Code.RUN_UNDEFINED_KERNEL
    assert found.code is expected


SELECTIONS = (
    "benchmark",
    "recorded(2)",
    "nearest_shape(2: (2, 4), 1: (4, 4), 0: (0, 9))",
    "computed(where(M * N <= n, where(x < M, 0, 1), 2))",
)


@settings(max_examples=60)
@given(
    selection=st.sampled_from(SELECTIONS),
    numbers=st.tuples(*[st.integers(0, 9)] * 4),
    static=st.sets(st.integers(0, 3)),
)
def test_emitters_decide_as_the_interpreter_does(
    selection: str, numbers: tuple[int, int, int, int], static: set[int]
) -> None:
    """Whatever is known when code is emitted: each number may be one or a symbol."""
    line = multi_kernel_of(read(program(selection)))
    names = ("s0", "s1", "s2", "f0")
    m, n, count, factor = (
        number if index in static else Symbol(name)
        for index, (number, name) in enumerate(zip(numbers, names, strict=True))
    )
    types = {"a": tensor("f32", (m, 2)), "b": tensor("f32", (3, n))}
    arguments = (BufferRef("a"), BufferRef("b"), BufferRef("b"), count, factor)
    values = dict(zip(names, numbers, strict=True))
    decided = dispatch_at(line, arguments, types)
    if isinstance(decided, NearestAt):
        sizes = [evaluate_int(size, values) for size in decided.sizes]
        found = nearest(decided.hints, sizes)
    elif isinstance(decided, ComputedAt):
        found = evaluate_int(decided.index, values)
    else:
        found = decided if isinstance(decided, int) else 0
    named = dict(zip(("M", "N", "n", "x"), numbers, strict=True))
    assert found == choose(line.selection, numbers[:2], named)
    if len(static) == 4 and selection != "benchmark":
        assert isinstance(decided, int)


def multi_kernel_of(program: Program) -> MultiKernelLine:
    (line,) = (d for d in program.definitions if isinstance(d, MultiKernelLine))
    assert format_program(program).count(line.name) == 2
    return line
