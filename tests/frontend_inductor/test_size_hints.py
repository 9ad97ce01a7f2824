"""Size-hint multi-kernels of Inductor's: kernels tuned for several sizes, behind a call."""

import dataclasses
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch._inductor import config
from torch._inductor.codegen.multi_kernel import SizeHintMultiKernelCall
from torch._inductor.codegen.wrapper import KernelCallLine as KernelCall

from tests.frontend_inductor.captured import capture_all, lines_of
from tests.frontend_inductor.size_hints import size_hints
from tests.frontend_inductor.test_multi_kernels import multi_kernels, selecting
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor.multi_kernels import CapturedMultiKernel, MultiKernels
from wrapperir.interp import interpret
from wrapperir.ir import (
    FirstChoice,
    ForcedChoice,
    Hint,
    KernelCallLine,
    KernelDefinitionLine,
    NearestChoice,
    Selection,
    choose,
)

SIDE = 24


def captured(function: Any, *inputs: torch.Tensor, dims: Sequence[int]) -> Lowered:
    """Capture a matmul tuned at 64 and 256; each input's dimension is dynamic."""
    for tensor, dim in zip(inputs, dims, strict=True):
        torch._dynamo.mark_dynamic(tensor, dim)
    with size_hints(64, 256):
        (lowered,) = capture_all(function, inputs, cpu_backend="triton")
    return lowered


@pytest.fixture(scope="module")
def product() -> Lowered:
    """Return ``x @ w`` of (rows, 24) and (24, columns)."""
    x, w = torch.randn(40, SIDE), torch.randn(SIDE, 48)
    return captured(lambda x, w: x @ w, x, w, dims=(0, 1))


def test_the_nearest_hint_is_picked_over_the_dynamic_sizes(product: Lowered) -> None:
    (line,) = multi_kernels(product.program)
    sizes = [(line.parameters[s.parameter].name, s.dim) for s in line.sizes]
    assert sizes == [("arg_A", 0), ("arg_B", 1), ("out_ptr0", 0), ("out_ptr0", 1)]
    assert line.selection == NearestChoice(
        (Hint(0, (64, 64, 64, 64)), Hint(1, (256, 256, 256, 256)))
    )


@settings(max_examples=100)
@given(rows=st.integers(1, 1 << 16), columns=st.integers(1, 1 << 16))
def test_the_choice_is_inductors_own(product: Lowered, rows: int, columns: int) -> None:
    (line,) = multi_kernels(product.program)
    sizes = [rows, columns, rows, columns]
    inductors: Any = object.__new__(SizeHintMultiKernelCall)
    shapes = ((rows, SIDE), (SIDE, columns), (rows, columns))
    distances = [
        inductors._dist_heuristic(shapes, ((hint, SIDE), (SIDE, hint), (hint, hint)))
        for hint in (64, 256)
    ]
    assume(abs(distances[0] - distances[1]) > 1e-9)
    assert choose(line.selection, sizes, {}) == distances.index(min(distances))


def test_each_kernel_has_a_grid_of_its_own(product: Lowered) -> None:
    kernels = [
        line
        for line in product.program.definitions
        if isinstance(line, KernelDefinitionLine)
    ]
    (call,) = lines_of(product.program, KernelCallLine)
    assert len({kernel.grid for kernel in kernels}) == 2
    assert all(len(k.parameters) == len(call.arguments) == 5 for k in kernels)


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (40, 33)])
def test_every_choice_computes_what_eager_does(
    product: Lowered, rows: int, columns: int
) -> None:
    x, w = torch.randn(rows, SIDE), torch.randn(SIDE, columns)
    given: list[Any] = [rows, x, columns, w]
    for selection in (ForcedChoice(0), ForcedChoice(1), None):
        program = product.program
        if selection is not None:
            program = selecting(program, selection)
        (actual,) = interpret(program, given, product.constants)
        torch.testing.assert_close(actual, x @ w, rtol=1e-4, atol=1e-4)


def test_the_python_emitter_runs_it(product: Lowered) -> None:
    x, w = torch.randn(9, SIDE), torch.randn(SIDE, 70)
    (actual,) = compile_program(product.program, constants=product.constants)([9, x, 70, w])
    torch.testing.assert_close(actual, x @ w, rtol=1e-4, atol=1e-4)


def test_a_size_counts_as_often_as_tensors_have_it() -> None:
    lowered = captured(lambda x: x @ x.t(), torch.randn(40, SIDE), dims=(0,))
    (line,) = multi_kernels(lowered.program)
    assert [(s.parameter, s.dim) for s in line.sizes] == [(0, 0), (0, 0), (1, 0), (1, 1)]
    assert len({size.name for size in line.sizes}) == 4


def test_a_result_with_something_fused_in_has_the_sizes_of_the_product() -> None:
    bias, w = torch.randn(48), torch.randn(SIDE, 48)
    x = torch.randn(40, SIDE)
    lowered = captured(lambda x: torch.relu(x @ w + bias), x, dims=(0,))
    (line,) = multi_kernels(lowered.program)
    named = [(line.parameters[s.parameter].name, s.dim) for s in line.sizes]
    (call,) = lines_of(lowered.program, KernelCallLine)
    assert len(call.arguments) > 4
    assert [dim for _, dim in named] == [0, 0]
    assert named[0][0] == "arg_A"
    assert named[1][0].startswith("out_ptr")


def test_hints_with_one_kernel_need_no_choice() -> None:
    x, w = torch.randn(40, SIDE), torch.randn(SIDE, 48)
    torch._dynamo.mark_dynamic(x, 0)
    with size_hints(64, 65):
        (lowered,) = capture_all(lambda x, w: x @ w, (x, w), cpu_backend="triton")
    (line,) = multi_kernels(lowered.program)
    assert (len(line.choices), line.sizes, line.selection) == (1, (), FirstChoice())


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ((False, True), NearestChoice((Hint(1, (256, 256)),))),
        ((False, False), FirstChoice()),
    ],
    ids=["one kernel", "none"],
)
def test_a_kernel_without_a_shape_key_has_no_hint(
    known: tuple[bool, ...], expected: Selection
) -> None:
    define = MultiKernels.define_kernel

    def forgetful(state: MultiKernels, kernels: Sequence[Any], keys: Sequence[Any]) -> str:
        kept = [key if known[i] else None for i, key in enumerate(keys)]
        return define(state, kernels, kept)

    w = torch.randn(SIDE, 48)
    with mock.patch.object(MultiKernels, "define_kernel", forgetful):
        lowered = captured(lambda x: x @ w, torch.randn(40, SIDE), dims=(0,))
    (line,) = multi_kernels(lowered.program)
    assert len(line.choices) == 2
    assert line.selection == expected


def test_kernels_with_other_arguments_are_refused() -> None:
    calls = CapturedMultiKernel.calls

    def odd(definition: CapturedMultiKernel, line: KernelCall) -> list[KernelCall]:
        first, second = calls(definition, line)
        arguments = [second.call_args[1], second.call_args[0], *second.call_args[2:]]
        return [first, dataclasses.replace(second, call_args=tuple(arguments))]

    with (
        mock.patch.object(CapturedMultiKernel, "calls", odd),
        pytest.raises(DiagnosticError, match=r"WIR654.*do not take the same arguments"),
    ):
        captured(lambda x, w: x @ w, torch.randn(40, 24), torch.randn(24, 48), dims=(0, 1))


def test_static_sizes_have_no_multi_kernel() -> None:
    x, w = torch.randn(40, SIDE), torch.randn(SIDE, 48)
    with size_hints(64, 256):
        (lowered,) = capture_all(lambda x, w: x @ w, (x, w), cpu_backend="triton")
    assert multi_kernels(lowered.program) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="templates are timed on a GPU")
def test_size_hints_on_a_gpu() -> None:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    def inputs(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, w = (
            torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2)
        )
        for tensor in (x, w):
            torch._dynamo.mark_dynamic(tensor, 0)
            torch._dynamo.mark_dynamic(tensor, 1)
        return x, w

    settings: dict[str, Any] = {
        "max_autotune": True,
        "max_autotune_gemm_backends": "TRITON",
        "multi_kernel_hints": [64, 1024],
    }
    with torch.no_grad(), config.patch(settings):
        (lowered,) = capture_all(product, inputs(300))
        torch._dynamo.reset()
        compiled = torch.compile(product, backend="wrapperir")
        for size in (300, 33, 64, 1025):
            x, w = inputs(size)
            torch.testing.assert_close(compiled(x, w), x @ w, rtol=2e-2, atol=2e-1)
    (line,) = multi_kernels(lowered.program)
    assert isinstance(line.selection, NearestChoice | FirstChoice)
