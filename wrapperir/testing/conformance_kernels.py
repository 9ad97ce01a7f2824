"""Conformance programs whose only calls are of kernels, for emitters without operators.

They are twins of programs in :mod:`wrapperir.testing.conformance_cases`: buffers, views,
symbols, asserts, blocks, pools and streams, with kernels in one language.
"""

import math

from wrapperir import ir as wir
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.testing.cell_kernels import NUMBER_COUNT, count_kernel, numbers_kernel
from wrapperir.testing.conformance_blocks import kernel_block_cases
from wrapperir.testing.conformance_case import CELL, FLAT, MATRIX, Case, SmallKernels
from wrapperir.testing.conformance_kernel_pools import kernel_pool_cases
from wrapperir.testing.conformance_selection import kernel_selection_cases
from wrapperir.testing.kernels import KernelKind, library_kernel

_ROW = wir.tensor("f32", (8,))


def _buffers(language: wir.Language) -> wir.Program:
    """Views are of memory that outlives their source's name, and of its later values."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, y = b.input(MATRIX), b.input(MATRIX)
    first = kernels.subtract(b, x, y)
    row = b.reinterpret(first, wir.tensor("f32", (8,), offset=8))
    column = b.reinterpret(first, wir.tensor("f32", (4,), (8,), offset=3))
    kernels.negate(b, y, first)
    b.free(first, y)
    last = kernels.negate(b, row, b.allocate(_ROW), count=8)
    none = b.allocate(wir.tensor("f32", (0, 8)))
    return b.build(last, column, row, none)


def _reuse(language: wir.Language) -> wir.Program:
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    relu = b.kernel(library_kernel(KernelKind.RELU_INPLACE, language))
    x = b.input(MATRIX)
    first = kernels.negate(b, x)
    view = b.reinterpret(first, FLAT)
    second = b.reuse(first, wir.tensor("f32", (2, 8)))
    b.call(relu, second, 16)
    third = b.reuse(second, wir.tensor("i32", (8,)))
    b.free(third)
    return b.build(view)


def _mutation(language: wir.Language) -> wir.Program:
    """Inputs and constants are changed where the caller sees it, and kept otherwise."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, y = b.input(MATRIX, mutated=True), b.input(MATRIX)
    count = b.constant(MATRIX, "stats.count", mutated=True)
    weight = b.constant(MATRIX, "layer.weight")
    difference = kernels.subtract(b, y, weight)
    kernels.subtract(b, x, difference, x)
    kernels.subtract(b, count, weight, count)
    b.free(difference, y)
    return b.build(x, count)


def _symbols(language: wir.Language) -> wir.Program:
    """Sizes are those of the right input; divisions round down."""
    rows, length = wir.Symbol("s0"), wir.Symbol("s1")
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, y = b.input(wir.tensor("f32", (rows, 8))), b.input(wir.tensor("f32", (length,)))
    cell, scale = b.input(CELL), b.input(wir.ScalarType(wir.DType.F64))
    n = b.input(wir.ScalarType(wir.DType.I64))
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=4)
    b.symbol("s1", wir.SizeOf(y.name, 0), lower=10, upper=20)
    factor = b.symbol("f0", wir.ValueOf(scale.name), kind=wir.SymbolKind.FLOAT)
    number = b.symbol("n", wir.ValueOf(n.name), lower=0, upper=9)
    u0 = b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=9)
    first = b.allocate(wir.tensor("f32", (rows, 8)))
    kernels.negate(b, x, first, count=rows * 8)
    second = b.allocate(wir.tensor("f32", (length,)))
    kernels.negate(b, y, second, count=length)
    tail = b.reinterpret(second, wir.tensor("f32", (length - 3,), offset=3))
    b.define_symbol("u1", wir.StrideOf(x.name, 0))
    b.define_symbol("u2", wir.ceildiv(rows * 8, 3) + u0 % 4 - (u0 - 100) // 7)
    b.define_symbol("u3", wir.minimum(u0, rows) + wir.maximum(number, rows) * 100)
    b.define_symbol("u4", wir.compare(wir.ExprOp.LT, u0, rows), kind=wir.SymbolKind.BOOL)
    chosen = wir.Operation(wir.ExprOp.WHERE, (wir.Symbol("u4"), u0, 1 - length))
    b.define_symbol("u5", chosen)
    b.free(second)
    results = (wir.Symbol(f"u{i}") for i in range(6))
    return b.build(first, tail, *results, factor, factor * 0.1)


def _offsets(language: wir.Language) -> wir.Program:
    """Offsets of types, which are those of the caller's storage only if they ask for it."""
    begin = wir.Symbol("s0")
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(wir.tensor("f32", (4, 8), offset=begin), mutated=True)
    y = b.input(wir.tensor("f32", (4, 8), offset=3))
    b.symbol("s0", wir.OffsetOf(x.name), lower=1, upper=6)
    b.symbol("s1", wir.OffsetOf(y.name))
    last = b.reinterpret(x, wir.tensor("f32", (8,), offset=begin + 24))
    before = b.reinterpret(y, wir.tensor("f32", (8,), offset=1))
    kernels.negate(b, y, x)
    made = kernels.negate(b, before, b.allocate(_ROW), count=8)
    tail = b.reinterpret(made, wir.tensor("f32", (6,), offset=2))
    numbers = [
        b.define_symbol(f"u{i}", wir.OffsetOf(t.name))
        for i, t in enumerate([x, last, tail])
    ]
    b.free(before, made)
    return b.build(tail, last, begin, wir.Symbol("s1"), *numbers)


class _MuchWork:
    """Work on a stream that takes some time: ``made`` is ``-source``, many times."""

    def __init__(
        self, builder: ProgramBuilder, language: wir.Language, stream: int = 0
    ) -> None:
        # The interpreter of Triton on the CPU takes long for more.
        rows, turns = (2, 2) if language is wir.Language.TRITON else (128, 32)
        self.type, self.count = wir.tensor("f32", (rows, 1024)), rows * 1024
        self.kernels = SmallKernels(builder, language)
        source = left = builder.input(self.type)
        self.made, self.other = builder.allocate(self.type), builder.allocate(self.type)
        for turn in range(turns + 1):
            target = self.other if turn % 2 else self.made
            self.kernels.subtract(
                builder, left, source, target, count=self.count, stream=stream
            )
            left = target


def _late_item(language: wir.Language) -> wir.Program:
    """The host reads an element that a kernel writes after much other work."""
    b = ProgramBuilder()
    count = b.kernel(count_kernel(language))
    cell = b.input(CELL)
    work = _MuchWork(b, language)
    later = b.allocate(CELL)
    b.call(count, cell, later, 5)
    number = b.define_symbol("u0", wir.ItemOf(later.name), lower=0)
    b.free(later, work.other)
    return b.build(number, number * 2, work.made)


def _workspaces(language: wir.Language) -> wir.Program:
    """Workspaces that are of one call: any bytes, and zeros."""
    b = ProgramBuilder()
    x = b.input(MATRIX)
    outputs: list[NamedValue] = []
    for kind, mode in (
        (KernelKind.SCRATCH_WRITE, wir.ZeroMode.UNINITIALIZED),
        (KernelKind.SCRATCH_ADD, wir.ZeroMode.ZERO_ON_CALL),
    ):
        kernel = b.kernel(library_kernel(kind, language))
        workspace, out = b.allocate(FLAT, workspace=mode), b.allocate(MATRIX)
        b.call(kernel, x, workspace, out, 32)
        b.free(workspace)
        outputs.append(out)
    return b.build(*outputs)


def _numbers() -> wir.Program:
    """Scalars reach a kernel as numbers of its parameters' types, rounded once."""
    b = ProgramBuilder()
    numbers = b.kernel(numbers_kernel())
    scale, n = (b.input(wir.ScalarType(t)) for t in (wir.DType.F64, wir.DType.I64))
    factor = b.symbol("f0", wir.ValueOf(scale.name), kind=wir.SymbolKind.FLOAT)
    number = b.symbol("n", wir.ValueOf(n.name), lower=0, upper=9)
    rows: list[tuple[wir.Expr, ...]] = [
        (0.1, 0.1, 2**40 + 1, -7, 1),
        (factor * 0.3, factor, number, 3, 0),
        (number, number, (number - 5) // 2, (number - 9) % 4, number % 2),
        (1.5, 2**24 + 1, -(2**62), 2**31 - 1, number),
    ]
    results: list[NamedValue] = []
    for row in rows:
        out = b.allocate(wir.tensor("f64", (NUMBER_COUNT,)))
        b.call(numbers, out, *row)
        results.append(out)
    return b.build(*results)


def _not_finite() -> wir.Program:
    """Fault at an infinity that a kernel writes."""
    b = ProgramBuilder()
    numbers = b.kernel(numbers_kernel())
    out = b.allocate(wir.tensor("f64", (NUMBER_COUNT,)))
    b.call(numbers, out, 1.0, math.inf, 1, 1, 1)
    b.assert_not_nan(out)
    return b.build(out)


def _asserts(language: wir.Language) -> wir.Program:
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, cell = b.input(MATRIX), b.input(CELL)
    b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=9)
    one = b.reinterpret(x, wir.tensor("f32", (1, 32)))
    b.assert_size_stride(x, (4, 8), (8, 1), 'it\'s "x"')
    b.assert_size_stride(one, (1, 32), (99, 1))
    at_least = wir.compare(wir.ExprOp.GE, wir.Symbol("u0"), 0)
    b.assert_scalar(at_least, "back\\slash {braces} %s")
    b.assert_not_nan(x)
    b.free(one)
    return b.build(kernels.negate(b, x))


def _alignment(language: wir.Language, nbytes: int) -> wir.Program:
    """An address is a multiple of 4, and 4 bytes after it is not one of 64."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX)
    made = kernels.negate(b, x)
    part = b.reinterpret(made, wir.tensor("f32", (8,), offset=1))
    b.assert_alignment(part, nbytes, "aligned")
    return b.build(made, part)


def _late_fault(language: wir.Language, kind: str) -> wir.Program:
    """Fault while buffers live, which must go as they do at the end."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, cell = b.input(MATRIX), b.input(CELL)
    u0 = b.define_symbol("u0", wir.ItemOf(cell.name), lower=-90)
    made = kernels.negate(b, x)
    if kind == "condition":
        b.assert_scalar(wir.compare(wir.ExprOp.GT, u0, 100), "too small")
    elif kind == "range":
        b.define_symbol("u1", u0 + 1, lower=100)
    elif kind == "layout":
        b.assert_size_stride(made, (u0 + 50, 8), (8, 1), "not so many rows")
    else:
        b.define_symbol("u1", wir.floordiv(7, u0 - u0))
    return b.build(made)


def _outputs(language: wir.Language) -> wir.Program:
    rows = wir.Symbol("s0")
    matrix = wir.tensor("f32", (rows, 8))
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, unused = b.input(matrix), b.input(CELL)
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    y = b.allocate(matrix)
    kernels.negate(b, x, y, count=rows * 8)
    b.comment('*/ // # """ \\')
    b.free(unused)
    is_long = wir.compare(wir.ExprOp.GT, rows, 4)
    return b.build(y, None, rows * 2 + 1, x, y, 7, 0.5, is_long)


def _donated(language: wir.Language) -> wir.Program:
    """Donated inputs are written, reused as buffers, freed and returned."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, y, z = (b.input(MATRIX, donated=True) for _ in range(3))
    kernels.subtract(b, x, y, x)
    flat = b.reuse(y, FLAT)
    kernels.negate(b, x, flat)
    view = b.reinterpret(x, FLAT)
    b.free(x, z)
    return b.build(flat, view)


def _late_stream(language: wir.Language) -> wir.Program:
    """A stream reads what another one writes after much other work."""
    b = ProgramBuilder()
    work = _MuchWork(b, language, stream=1)
    b.wait_event(b.record_event(stream=1))
    out = b.allocate(work.type)
    work.kernels.negate(b, work.made, out, count=work.count)
    b.free(work.made, work.other)
    return b.build(out)


def kernel_cases(language: wir.Language) -> tuple[Case, ...]:
    """Return the programs whose kernels are in a language."""
    of = language.value
    cases = [
        Case(f"kernel_buffers_{of}", _buffers(language)),
        Case(f"kernel_reuse_{of}", _reuse(language)),
        Case(f"kernel_mutation_{of}", _mutation(language)),
        Case(f"kernel_symbols_{of}", _symbols(language), seeds=(0, 1, 2, 3)),
        Case(f"kernel_offsets_{of}", _offsets(language), seeds=(0, 1, 2)),
        Case(f"kernel_late_item_{of}", _late_item(language)),
        Case(f"kernel_workspaces_{of}", _workspaces(language)),
        Case(f"kernel_asserts_{of}", _asserts(language)),
        Case(f"kernel_alignment_{of}", _alignment(language, 4)),
        Case(f"kernel_false_alignment_{of}", _alignment(language, 64), faults=True),
        *(
            Case(f"kernel_false_{kind}_{of}", _late_fault(language, kind), faults=True)
            for kind in ("condition", "range", "layout", "division")
        ),
        Case(f"kernel_outputs_{of}", _outputs(language), seeds=(0, 1, 2)),
        *kernel_block_cases(language),
        Case(f"kernel_donated_{of}", _donated(language)),
        *kernel_pool_cases(language),
        *kernel_selection_cases(language),
        Case(f"kernel_late_stream_{of}", _late_stream(language)),
    ]
    if language is wir.Language.CPP:
        cases.append(Case("kernel_numbers_cpp", _numbers(), seeds=(0, 1, 2)))
        cases.append(Case("kernel_false_not_nan_cpp", _not_finite(), faults=True))
    return tuple(cases)
