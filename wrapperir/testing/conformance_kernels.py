"""Conformance programs with kernels."""

from wrapperir.ir import (
    CPU,
    Expr,
    FirstChoice,
    ForcedChoice,
    ItemOf,
    Language,
    Program,
    SizeOf,
    Symbol,
    ZeroMode,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder, Value
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.descriptor_kernels import BLOCK, descriptor_kernel
from wrapperir.testing.kernels import KernelKind, library_kernel

_MATRIX = tensor("f32", (4, 8))
_FLAT = tensor("f32", (32,))
_BOOL = tensor("bool", ())
_CELL = tensor("i64", ())


def _kernels(language: Language) -> Program:
    rows = Symbol("s0")
    matrix = tensor("f32", (rows, 8))
    b = ProgramBuilder()
    x, y = b.input(matrix), b.input(matrix)
    b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=9)
    add = b.kernel(library_kernel(KernelKind.ADD, language))
    relu = b.kernel(library_kernel(KernelKind.RELU_INPLACE, language))
    row_sum = b.kernel(library_kernel(KernelKind.ROW_SUM, language))
    total = b.allocate(matrix)
    b.call(add, x, y, total, rows * 8)
    b.free(x)
    tail = b.reinterpret(total, tensor("f32", (4,), offset=4))
    b.call(relu, tail, 4)
    sums = b.allocate(tensor("f32", (rows,)))
    b.call(row_sum, total, sums, rows, 8)
    b.free(tail)
    return b.build(total, sums)


def _workspaces(language: Language) -> Program:
    b = ProgramBuilder()
    x = b.input(_MATRIX)
    outputs: list[Value] = []
    for mode in ZeroMode:
        kind = (
            KernelKind.SCRATCH_WRITE
            if mode is ZeroMode.UNINITIALIZED
            else KernelKind.SCRATCH_ADD
        )
        kernel = library_kernel(kind, language)
        if kernel.name not in {line.name for line in b.build().definitions}:
            b.kernel(kernel)
        workspace = b.allocate(_FLAT, workspace=mode)
        for _ in range(2):
            out = b.allocate(_MATRIX)
            b.call(kernel, x, workspace, out, 32)
            outputs.append(out)
        if mode is not ZeroMode.ZERO_PER_PROGRAM:
            b.free(workspace)
    return b.build(*outputs)


def _multi_kernel(language: Language, choice: int | None) -> Program:
    b = ProgramBuilder()
    x, y = b.input(_MATRIX), b.input(_MATRIX)
    kinds = (KernelKind.ADD, KernelKind.ADD_REVERSED)
    kernels = [b.kernel(library_kernel(kind, language)) for kind in kinds]
    selection = FirstChoice() if choice is None else ForcedChoice(choice)
    either = b.multi_kernel(kernels, selection=selection)
    out = b.allocate(_MATRIX)
    b.call(either, x, y, out, 32, device=CPU)
    return b.build(out)


def _descriptors(rows: Expr) -> Program:
    """Add matrices behind descriptors: a whole input, rows of one, a buffer."""
    columns = 3 * BLOCK[1]
    b = ProgramBuilder()
    x, y = b.input(tensor("f32", (rows, columns))), b.input(tensor("f32", (rows, 16)))
    if not isinstance(rows, int):
        b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=9)
    add = b.kernel(descriptor_kernel())
    total = b.allocate(tensor("f32", (rows, columns)))
    part = b.reinterpret(y, tensor("f32", (rows, columns), (16, 1), offset=4))
    b.call(add, x, part, total, rows, columns)
    b.free(part)
    twice = b.allocate(tensor("f32", (rows, columns)))
    b.call(add, total, total, twice, rows, columns)
    return b.build(total, twice)


def _misaligned_descriptor() -> Program:
    b = ProgramBuilder()
    x, cell = b.input(tensor("f32", (4, 16))), b.input(_CELL)
    b.symbol("u0", ItemOf(cell.name), lower=-9, upper=9)
    add = b.kernel(descriptor_kernel())
    late = Symbol("u0") - Symbol("u0") + 1
    part = b.reinterpret(x, tensor("f32", (4, 8), (16, 1), offset=late))
    out = b.allocate(tensor("f32", (4, 8)))
    b.call(add, part, part, out, 4, 8)
    b.free(part)
    return b.build(out)


DESCRIPTOR_CASES = (
    Case("descriptors", _descriptors(7)),
    Case("descriptors_of_dynamic_size", _descriptors(Symbol("s0")), seeds=(0, 1, 2)),
    Case("misaligned_descriptor", _misaligned_descriptor(), faults=True),
)
"""Programs whose kernels take tensors behind descriptors."""


def kernel_cases(language: Language) -> tuple[Case, ...]:
    """Return the programs whose kernels are in a language."""
    of = language.value
    return (
        Case(f"kernels_{of}", _kernels(language), seeds=(0, 1, 2)),
        Case(f"workspaces_{of}", _workspaces(language)),
        Case(f"multi_kernel_first_{of}", _multi_kernel(language, None)),
        Case(f"multi_kernel_forced_{of}", _multi_kernel(language, 1)),
    )
