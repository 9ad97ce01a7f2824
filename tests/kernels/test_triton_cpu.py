"""Triton kernels on CPU tensors, as a loader of emitted modules runs them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITFunction

from wrapperir.kernels.triton_cpu import InterpretedKernel, interpreted_triton

SIZES = st.integers(1, 70)
few = settings(max_examples=25)


def load_kernels() -> ModuleType:
    path = Path(__file__).with_name("triton_kernels.py")
    spec = importlib.util.spec_from_file_location("triton_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with interpreted_triton():
        spec.loader.exec_module(module)
    return module


K: Any = load_kernels()


def cdiv(extent: int, block: int) -> int:
    return -(-extent // block)


@few
@given(SIZES, st.sampled_from([torch.float32, torch.float64, torch.int64, torch.int32]))
def test_elementwise(n: int, dtype: torch.dtype) -> None:
    x = torch.arange(n).to(dtype)
    y = torch.full((n + 3,), -7).to(dtype)
    K.add_one[(cdiv(n, 16),)](x, y, n, BLOCK=16, num_warps=4)
    assert torch.equal(y[:n], x + 1)
    assert torch.equal(y[n:], torch.full((3,), -7).to(dtype))  # the mask holds


@few
@given(SIZES)
def test_bf16_rounds_to_the_nearest_even_at_each_step(n: int) -> None:
    x = torch.randn(n).bfloat16()
    y = torch.empty_like(x)
    K.scale[(cdiv(n, 16),)](x, y, n, 1.0, BLOCK=16)
    assert torch.equal(y, x * x + x * 1.0)


@few
@given(st.integers(1, 9), SIZES)
def test_row_reduction_over_a_loop(rows: int, columns: int) -> None:
    x = torch.randn(rows, columns)
    y = torch.empty(rows)
    K.row_sum[(rows,)](x, y, columns, columns, 16)
    torch.testing.assert_close(y, x.sum(1))


@few
@given(st.integers(1, 9), st.integers(1, 32))
def test_softmax_with_a_device_function_and_libdevice(rows: int, columns: int) -> None:
    x = torch.randn(rows, columns)
    y = torch.empty_like(x)
    K.softmax[(cdiv(rows, 4),)](x, y, rows, columns, ROWS=4, BLOCK=32)
    torch.testing.assert_close(y, x.softmax(1))


@few
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
def test_matmul(m: int, n: int, k: int, dtype: torch.dtype) -> None:
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    c = torch.empty(m, n)
    K.matmul[lambda meta: (cdiv(m, meta["M"]), cdiv(n, meta["N"]))](
        a, b, c, m, n, k, 16, 16, 16
    )
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


def test_semaphores_are_left_zero_for_the_next_launch() -> None:
    semaphore = torch.zeros(1, dtype=torch.int32)
    for n in (40, 64, 7):
        x, out = torch.randn(n), torch.empty(1)
        partial = torch.empty(cdiv(n, 8))
        K.last_block_sum[(cdiv(n, 8),)](x, partial, semaphore, out, n, BLOCK=8)
        torch.testing.assert_close(out[0], x.sum())
        assert semaphore.item() == 0


def test_atomics_add_up_lanes_that_share_an_address() -> None:
    x = torch.randint(0, 5, (60,))
    counts = torch.zeros(5, dtype=torch.int32)
    K.histogram[(4,)](x, counts, 60, BLOCK=16)
    assert torch.equal(counts, torch.bincount(x, minlength=5).int())


@pytest.mark.parametrize("rows", [1, 8])
def test_masks_of_atomics_are_broadcast(rows: int) -> None:
    x, sums = torch.randn(rows, 16), torch.zeros(16)
    K.column_sums[(1,)](x, sums, rows, ROWS=rows, COLUMNS=16)
    torch.testing.assert_close(sums, x.sum(0))


@few
@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(1, 99)), min_size=1))
def test_integers_divide_toward_zero_in_64_bits(pairs: list[tuple[int, int]]) -> None:
    x, y = torch.tensor(pairs).T.contiguous()
    quotient, remainder = torch.empty_like(x), torch.empty_like(x)
    n = len(pairs)
    K.integers[(cdiv(n, 16),)](x, y, quotient, remainder, n, BLOCK=16)
    assert torch.equal(quotient, torch.div(x, y, rounding_mode="trunc"))
    assert torch.equal(remainder, torch.fmod(x, y))


@few
@given(st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_scans_and_reductions_keep_the_order_of_their_operator(n: int) -> None:
    scales, offsets = torch.rand(n), torch.randn(n)
    running, both = torch.empty(n), torch.empty(2)
    K.recurrence[(1,)](scales, offsets, running, N=n)
    K.compose_all[(1,)](scales, offsets, both, N=n)
    h, expected = 0.0, []
    for scale, offset in zip(scales.tolist(), offsets.tolist(), strict=True):
        h = scale * h + offset
        expected.append(h)
    torch.testing.assert_close(running, torch.tensor(expected))
    torch.testing.assert_close(both, torch.stack([scales.prod(), running[-1]]))


def test_functions_of_the_library_are_methods_of_a_value() -> None:
    x, y = torch.randn(8), torch.empty(1)
    K.methods[(1,)](x, y, N=8)
    torch.testing.assert_close(y[0], x.sum() + x.max())


def test_an_error_has_the_line_of_the_kernel() -> None:
    x = torch.ones(8)
    with pytest.raises(InterpreterError, match=r"at line \d+ of add_one"):
        K.add_one[(1,)](x, x, 8, BLOCK=7)


def snapshot() -> list[dict[str, object]]:
    owners: list[Any] = [tl, tl.core, tl.math, tl.standard, tl.dtype, libdevice]
    owners += [interpreter, interpreter.interpreter_semantic, JITFunction, tl.tensor]
    owners += [triton.knobs.runtime, triton.runtime.jit]
    return [{k: v for k, v in vars(o).items() if k != "__annotations__"} for o in owners]


def test_triton_is_left_as_it_was() -> None:
    K.add_one[(1,)](torch.ones(8), torch.ones(8), 8, BLOCK=8)  # what loads once, is loaded
    before, environment = snapshot(), dict(os.environ)
    kernels = load_kernels()
    kernels.methods[(1,)](torch.ones(8), torch.ones(1), N=8)
    with pytest.raises(InterpreterError):
        kernels.add_one[(1,)](torch.ones(8), torch.ones(8), 8, BLOCK=7)
    assert snapshot() == before
    assert dict(os.environ) == environment

    @triton.jit
    def outside(x):  # type: ignore[no-untyped-def]
        pass

    assert isinstance(outside, JITFunction)
    assert isinstance(kernels.add_one, InterpretedKernel)


def test_globals_of_a_kernel_are_left_as_they_were() -> None:
    kernels = load_kernels()
    before = set(vars(kernels))
    kernels.methods[(1,)](torch.ones(8), torch.ones(1), N=8)
    assert set(vars(kernels)) == before


def test_a_library_first_imported_by_a_kernels_module_is_not_interpreted() -> None:
    script = (
        "from wrapperir.kernels.triton_cpu import interpreted_triton\n"
        "with interpreted_triton():\n"
        "    from torch._inductor.runtime import triton_helpers\n"
        "print(type(triton_helpers.x_grid_barrier).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "JITFunction"
