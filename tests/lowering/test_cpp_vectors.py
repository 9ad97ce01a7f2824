"""GCC makes vector instructions of the lane loops of functions, casts and choices."""

import itertools
import re
import subprocess
from collections.abc import Iterable, Sequence

import pytest

from tests.lowering.cpp_kernels import kernel_of, use_processor
from wrapperir.ir import DType, Symbol, tensor
from wrapperir.kernels.cpp_build import kernel_compiler
from wrapperir.kernels.emitted.kernel_flags import is_gcc
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import Apply, Axis, Load, Nest, Step, Store
from wrapperir.lowering.renderer import KernelBuffer, KernelPart, KernelSequence, LoopKernel
from wrapperir.lowering.scalar_op import (
    ScalarOp,
    operand_count,
    result_dtype,
    takes_dtype,
)

_LENGTH = 4096
_NO_FUNCTIONS = frozenset(
    {
        *(ScalarOp.CAST, ScalarOp.BITCAST, ScalarOp.WHERE),
        *(ScalarOp.LGAMMA, ScalarOp.NEXTAFTER),
    }
)
"""Operators that are not functions of numbers, or that the C library computes."""
_DTYPES = (
    *(DType.F64, DType.F32, DType.F16, DType.BF16),
    *(DType.I64, DType.I32, DType.I16, DType.I8, DType.U8, DType.BOOL),
)


def _kernel(op: ScalarOp, dtypes: Iterable[DType], result: DType) -> LoopKernel:
    """Return a kernel of an operator, with an input for each operand."""
    at = (Symbol("i"),)
    given = {f"in{n}": dtype for n, dtype in enumerate(dtypes)}
    types = {name: tensor(dtype, (_LENGTH,)) for name, dtype in given.items()}
    types["out"] = tensor(result, (_LENGTH,))
    body: list[Step] = [
        Load(result=name, dtype=dtype, buffer=name, index=at)
        for name, dtype in given.items()
    ]
    body += [
        Apply(result="result", dtype=result, op=op, operands=tuple(given)),
        Store(buffer="out", index=at, value="result"),
    ]
    name = "_".join([op.value, *(dtype.value for dtype in given.values()), result.value])
    return kernel_of(Nest(name=name, axes=(Axis("i", _LENGTH),), body=tuple(body)), types)


def _sequence(kernels: Iterable[LoopKernel]) -> KernelSequence:
    buffers: list[KernelBuffer] = []
    parts: list[KernelPart] = []
    for kernel in kernels:
        first = len(buffers)
        buffers += kernel.buffers
        places = tuple(range(first, len(buffers)))
        parts.append(KernelPart(kernel=kernel, buffers=places))
    return KernelSequence(name="all", buffers=tuple(buffers), parts=tuple(parts))


def _scalar(kernels: Sequence[LoopKernel]) -> list[str]:
    """Return the first lines of the kernels that have no vector instructions.

    Flags of emitted C++ let square roots of negative numbers set ``errno``.
    """
    compiler = kernel_compiler()
    if not is_gcc(compiler.version):
        pytest.skip("another compiler")
    flags = ["-fmath-errno", "-fopt-info-vec", "-c", "-x", "c++", "-", "-o", "/dev/null"]
    source = CppRenderer().render_sequence(_sequence(kernels)).source
    command = [*compiler.command, *flags]
    ran = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    found = re.findall(r"^<stdin>:(\d+):.*loop vectorized", ran.stderr, re.MULTILINE)
    vectorized = set(map(int, found))
    lines = source.split("\n")
    functions = [n for n, line in enumerate(lines, 1) if line.startswith("static void")]
    assert len(functions) == len(kernels)
    return [
        lines[begin - 1]
        for begin, end in zip(functions, [*functions[1:], len(lines)], strict=True)
        if vectorized.isdisjoint(range(begin, end))
    ]


@pytest.mark.parametrize("processor", ["native", "x86-64-v3"])
def test_functions_are_vector_instructions(
    processor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_processor(processor, monkeypatch)
    operators = [
        op for op in ScalarOp if takes_dtype(op, DType.F32) and op not in _NO_FUNCTIONS
    ]
    kernels = [
        _kernel(op, [DType.F32] * operand_count(op), result)
        for op in operators
        if (result := result_dtype(op, [DType.F32] * operand_count(op)))
    ]
    assert _scalar(kernels) == []


def test_casts_and_choices_are_vector_instructions() -> None:
    # Arrays are converted from and to f16 outside of the loop.
    pairs = set(itertools.permutations(_DTYPES, 2))
    pairs -= set(itertools.permutations((DType.F16, DType.F32)))
    casts = [_kernel(ScalarOp.CAST, (source,), target) for source, target in pairs]
    choices = [_kernel(ScalarOp.WHERE, (DType.BOOL, d, d), d) for d in _DTYPES]
    assert _scalar([*casts, *choices]) == []
