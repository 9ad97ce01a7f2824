"""Multi-kernels that go by sizes, in emitted Python: what is written, and what it picks."""

import logging
from typing import Any

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python_emitter.stub_kernels import Stub, global_of, kernel, load_with, program_of
from wrapperir.ir import (
    ComputedChoice,
    Expr,
    ExprOp,
    Hint,
    MultiKernelLine,
    NearestChoice,
    Operation,
    Program,
    Selection,
    Symbol,
    choose,
    compare,
    floordiv,
    mod,
)
from wrapperir.ir import nearest as nearest_by_the_rule
from wrapperir.tuning import kernel_choices
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

KERNELS = "".join(kernel(name, "p: write f32*, n: i64") for name in ("k0", "k1", "k2"))
SIZES = st.one_of(st.integers(0, 9), st.integers(0, 1 << 20), st.integers(0, 1 << 40))


def program_with(select: str, size: str = "s0, s1") -> Program:
    """Return a program that calls choices for a matrix, and for its first row."""
    multi = (
        "multi_kernel @m(p: write f32*, n: i64) {\n"
        "  size M = size(p, 0)\n  size N = size(p, 1)\n"
        "  choice @k0(0, 1)\n  choice @k1(0, 1)\n  choice @k2(0, 1)\n"
        f"  select {select}\n}}\n"
    )
    symbols = "  symbol s0: int 0.. = size(%p, 0)\n  symbol s1: int 0.. = size(%p, 1)\n"
    lines = f"{symbols}  kernel_call @m(%p, s0 * 4 + 1)\n  return"
    return program_of(KERNELS + multi, lines, f"%p: mutated f32[{size}]")


def selecting(selection: Selection) -> Program:
    program = program_with("first")
    *kernels, multi = program.definitions
    assert isinstance(multi, MultiKernelLine)
    changed = evolve(multi, selection=selection)
    return evolve(program, definitions=(*kernels, changed))


def picker(program: Program) -> tuple[Any, list[str]]:
    """Return the loaded program, and a list where it notes which kernels run."""
    ran: list[str] = []

    def stub(name: str) -> Stub:
        def run(*_: object) -> None:
            ran.append(name)

        return run

    with pytest.MonkeyPatch.context() as patch:
        call = load_with(patch, program, {name: stub(name) for name in ("k0", "k1", "k2")})
    return call, ran


def text_of(program: Program) -> str:
    text = PythonEmitter(trusts_inputs=True).emit(program).files["program.py"]
    assert isinstance(text, str)
    return text


def test_nearest_is_a_table_of_kernels_by_sizes() -> None:
    text = text_of(program_with("nearest_shape(2: (64, 64), 0: (4096, 1))"))
    assert "    m_by_shape[s0, s1](p, s0 * 4 + 1)\n" in text
    assert (
        """


m_by_shape = kernel_choices.ByShape(
    'm',
    {
        0: kernel_choices.Choice('k0', k0),
        2: kernel_choices.Choice('k2', k2),
    },
    kernel_choices.nearest([(2, (64, 64)), (0, (4096, 1))]),
    'the nearest hint',
)
"""
        in text
    )
    assert text.endswith("\n\ncall.choices = kernel_choices.choices\n")
    assert "# k1 is never called.\n" in text
    assert "# m is one of k0, k1, k2.\n" in text


def test_computed_is_a_function_of_the_call_s_symbols() -> None:
    tree = (
        "where(M * N <= 512, where(n == 9, 2, where(M < N, 1, 0)), where(M % 8 != 0, 1, 2))"
    )
    text = text_of(program_with(f'computed({tree}) on "a machine"'))
    assert "    m_by_shape[s0, s1](p, s0 * 4 + 1)\n" in text
    assert (
        """

def choose_m(s0, s1):
    if not s0 * s1 <= 512:
        if s0 % 8 != 0: return 1
        return 2
    if s0 * 4 + 1 == 9: return 2
    if s0 < s1: return 1
    return 0


m_by_shape = kernel_choices.ByShape(
    'm',
    {
        0: kernel_choices.Choice('k0', k0),
        1: kernel_choices.Choice('k1', k1),
        2: kernel_choices.Choice('k2', k2),
    },
    choose_m,
    'computed from times on a machine',
)
"""
        in text
    )


def test_one_size_is_a_tuple_too() -> None:
    call, ran = picker(program_with("computed(where(M < 8, 1, 2))"))
    assert "    m_by_shape[s0,](p, " in text_of(
        program_with("computed(where(M < 8, 1, 2))")
    )
    call([torch.empty(3, 3)])
    call([torch.empty(9, 3)])
    assert ran == ["k1", "k2"]
    assert [decision.sizes for decision in call.choices()] == [(3,), (9,)]


@pytest.mark.parametrize(
    "select",
    [
        "nearest_shape(1: (3, 5), 0: (100, 100))",
        "computed(where(M < 4, 1, 0))",
        "forced(1)",
    ],
)
def test_sizes_that_are_known_leave_nothing_to_decide(select: str) -> None:
    program = program_with(select, "3, 5")
    text = text_of(program)
    assert "    k1(p, s0 * 4 + 1)\n" in text
    assert "kernel_choices" not in text
    assert "kernel_choices.py" not in PythonEmitter().emit(program).files


def test_a_recorded_choice_is_the_kernel_and_its_times_a_remark() -> None:
    select = 'recorded(1) microseconds(8, 2.5, none) on "H200\\n"'
    text = text_of(program_with(select))
    assert "    k1(p, s0 * 4 + 1)\n" in text
    assert "# m is k1, as recorded: k0 8 us, k1 2.5 us, k2 failed on H200\\n.\n" in text
    assert "kernel_choices" not in text


def test_a_shape_is_decided_once_and_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "wrapperir.choices")
    call, ran = picker(program_with("nearest_shape(2: (4, 4), 0: (4096, 4096))"))
    for rows in (3, 1 << 20, 3, 3):
        call([torch.empty(rows, 8)])
    assert ran == ["k2", "k0", "k2", "k2"]
    assert caplog.messages == [
        "m runs k2 at (3, 8): the nearest hint",
        "m runs k0 at (1048576, 8): the nearest hint",
    ]
    assert [str(decision) for decision in call.choices()] == caplog.messages


def test_the_table_of_shapes_does_not_grow_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call, ran = picker(program_with("computed(where(M < 40, 1, 2))"))
    global_of(call, "kernel_choices").MOST_SHAPES = 10
    for rows in range(100):
        call([torch.empty(rows, 1)])
        assert len(global_of(call, "m_by_shape")) <= 10
    assert ran == ["k1"] * 40 + ["k2"] * 60


SCALARS = "p: write f32*, n: i64, r: f64, b: bool"


def program_of_scalars(tree: str, calls: str) -> Program:
    """Return a program with calls of kernels that take p, and choices by all scalars."""
    multi = (
        f"multi_kernel @m({SCALARS}) {{\n  size M = size(p, 0)\n"
        "  choice @k0(0)\n  choice @k1(0)\n"
        f"  select computed({tree})\n}}\n"
    )
    kernels = kernel("k0", "p: write f32*") + kernel("k1", "p: write f32*")
    lines = (
        "  symbol s0: int 0.. = size(%p, 0)\n  symbol k: int = value(%k)\n"
        "  symbol f: float = value(%f)\n  symbol t: bool = value(%t)\n"
        f"{calls}  return"
    )
    inputs = "%p: mutated f32[s0], %k: i64, %f: f64, %t: bool"
    return program_of(kernels + multi, lines, inputs)


EXACT = f"where((n + M) * {(1 << 53) + 1} % 2 == 1, 0, 1)"
"""Whether n + M is odd; where n is a float, no product of so many bits is."""


def test_equal_numbers_of_two_types_decide_apart() -> None:
    numbers = ("2", "2.0", "k", "f", "0", "false", "0.0", "t", "k * 1.0")
    calls = "".join(f"  kernel_call @m(%p, {n}, 0.5, false)\n" for n in numbers)
    program = program_of_scalars(EXACT, calls)
    *_, multi = program.definitions
    assert isinstance(multi, MultiKernelLine)
    call, ran = picker(program)
    for k, f, t in ((2, 2.0, True), (1, 1.0, True), (0, -0.0, False), (2, 2.0, True)):
        call([torch.empty(1), k, f, t])
        values = (2, 2.0, k, f, 0, False, 0.0, t, k * 1.0)
        wanted = [choose(multi.selection, (1,), {"M": 1, "n": n}) for n in values]
        assert ran == [f"k{choice}" for choice in wanted]
        assert {*ran} == {"k0", "k1"}
        ran.clear()


def test_choices_by_floats_are_not_kept_and_said_where_they_change() -> None:
    calls = "  kernel_call @m(%p, 0, f, t)\n"
    call, ran = picker(program_of_scalars("where(r < 0.5, 0, 1)", calls))
    for f in (0.1, 0.2, 0.2, 0.75, 0.5, float("nan"), 0.0, -0.0):
        call([torch.empty(1), 0, f, True])
    assert ran == ["k0"] * 3 + ["k1"] * 3 + ["k0"] * 2
    assert len(global_of(call, "m_by_shape")) == 0
    assert [str(decision) for decision in call.choices()] == [
        "m runs k0 at (0.1,): computed",
        "m runs k1 at (0.75,): computed",
        "m runs k0 at (0.0,): computed",
    ]


def test_a_number_that_no_choice_takes_need_not_fit_its_parameter() -> None:
    calls = "  kernel_call @m(%p, f, k, t)\n"
    call, ran = picker(program_of_scalars("where(n < 1, 0, 1)", calls))
    for f in (0.5, 1.5):
        call([torch.empty(1), 1, f, True])
    assert ran == ["k0", "k1"]


def test_an_expression_without_a_value_raises_as_others_do() -> None:
    call, ran = picker(program_with("computed(where(12 // M > 3, 1, 2))"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            call([torch.empty(0, 1)])
    call([torch.empty(3, 1)])
    assert ran == ["k1"]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.tuples(SIZES, SIZES)), min_size=1),
    st.tuples(SIZES, SIZES),
)
def test_the_rule_of_nearest_is_that_of_the_ir(
    hints: list[tuple[int, tuple[int, int]]], sizes: tuple[int, int]
) -> None:
    ours = kernel_choices.nearest(hints)(*sizes)
    assert ours == nearest_by_the_rule([Hint(*hint) for hint in hints], sizes)


M, N, SCALAR = Symbol("M"), Symbol("N"), Symbol("n")


def conditions() -> st.SearchStrategy[Expr]:
    terms = st.sampled_from([M, N, SCALAR, M * N, M + N - 3, mod(M, 8), floordiv(N, 3)])
    kinds = st.sampled_from([ExprOp.LE, ExprOp.LT, ExprOp.EQ, ExprOp.NE])
    compared = st.builds(compare, kinds, terms, st.integers(0, 400))
    logic = st.sampled_from([ExprOp.AND, ExprOp.OR])
    both = st.builds(Operation, logic, st.tuples(compared, compared))
    return compared | both


def trees() -> st.SearchStrategy[Expr]:
    return st.recursive(
        st.integers(0, 2),
        lambda below: st.builds(
            Operation, st.just(ExprOp.WHERE), st.tuples(conditions(), below, below)
        ),
        max_leaves=12,
    )


SHAPES = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=8)
HINTS = st.lists(
    st.builds(Hint, st.integers(0, 2), st.tuples(st.integers(0, 99), st.integers(0, 99))),
    min_size=1,
    max_size=4,
)


SELECTIONS = st.builds(NearestChoice, HINTS.map(tuple)) | st.builds(ComputedChoice, trees())


@settings(max_examples=60, deadline=None)
@given(SELECTIONS, SHAPES)
def test_emitted_python_picks_what_the_policy_says(
    selection: Selection, shapes: list[tuple[int, int]]
) -> None:
    program = selecting(selection)
    assert verify(program) == ()
    call, ran = picker(program)
    for rows, columns in shapes:
        call([torch.empty(rows, columns)])
        values = {"M": rows, "N": columns, "n": rows * 4 + 1}
        assert ran.pop() == f"k{choose(selection, (rows, columns), values)}"


def test_the_deepest_tree_of_two_sides_is_python() -> None:
    """Python refuses more than 100 levels of indentation."""
    tree: Expr = 0
    for level in range(98):
        test = compare(ExprOp.LT, M, level)
        other = Operation(ExprOp.WHERE, (compare(ExprOp.LT, N, level), 1, 2))
        sides = (tree, other) if level % 2 else (other, tree)
        tree = Operation(ExprOp.WHERE, (test, *sides))
    program = selecting(ComputedChoice(tree))
    call, ran = picker(program)
    for shape in ((0, 0), (50, 50), (97, 3), (200, 1)):
        call([torch.empty(shape)])
        values = {"M": shape[0], "N": shape[1], "n": 0}
        assert ran.pop() == f"k{choose(ComputedChoice(tree), shape, values)}"
