"""The programs of the conformance kit: one or more for each line kind."""

from collections.abc import Callable

from wrapperir import ir as wir
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.testing.conformance_case import CELL, FLAT, MATRIX, Case, built
from wrapperir.testing.conformance_collectives import COLLECTIVE_CASES
from wrapperir.testing.conformance_memory import MEMORY_CASES
from wrapperir.testing.conformance_selection import selection_cases
from wrapperir.testing.kernels import BLOCK, KernelKind, descriptor_kernel, library_kernel

_COPY = "aten.copy_.default"


def _allocate_and_free(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    first = b.allocate(MATRIX)
    b.extern_out("aten.neg.out", x, out=first)
    b.free(x)
    second = b.allocate(wir.tensor("f32", (8, 4), (1, 8)))
    view = b.extern("aten.t.default", first, type=second.type, aliases=(first,))
    b.extern_out("aten.abs.out", view, out=second)
    b.free(view, first)
    return b.build(second)


def _view_outlives_its_source(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    base = b.extern("aten.neg.default", x, type=MATRIX)
    column = b.reinterpret(base, wir.tensor("f32", (4,), (8,), offset=3))
    b.free(base)
    total = b.extern("aten.sum.default", column, type=wir.tensor("f32", ()))
    return b.build(total, column)


def _reuse(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    first = b.extern("aten.neg.default", x, type=MATRIX)
    view = b.reinterpret(first, FLAT)
    second = b.reuse(first, wir.tensor("f32", (2, 8)))
    b.extern_out("aten.mul_.Scalar", second, 2, writes=(second,))
    third = b.reuse(second, wir.tensor("i32", (8,)))
    b.free(third)
    return b.build(view)


def _multiple_outputs(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    half = [wir.tensor("f32", (4, 4), (8, 1), offset=4 * i) for i in range(2)]
    parts = b.extern(
        "aten.split.Tensor", x, 4, 1, type=wir.TupleType((*half,)), aliases=(x,)
    )
    second = b.multi_output(parts, 1, type=half[1])
    b.free(parts, x)
    row, index = wir.tensor("f32", (4,)), wir.tensor("i64", (4,))
    best = b.extern("aten.max.dim", second, 1, type=wir.TupleType((row, index)))
    values = b.multi_output(best, 0, type=row)
    indices = b.multi_output(best, 1, type=index)
    b.free(best)
    return b.build(values, indices, second)


def _copies(b: ProgramBuilder) -> wir.Program:
    """Copy between layouts: in rows, in columns, a part, and what the caller sees."""
    x, y = b.input(MATRIX), b.input(wir.tensor("f32", (4, 8), (1, 4)), mutated=True)
    rows, columns = b.allocate(MATRIX), b.allocate(wir.tensor("f32", (4, 8), (1, 4)))
    part, start = b.allocate(wir.tensor("f32", (4, 3))), b.allocate(wir.tensor("f32", ()))
    for to, source in ((rows, x), (columns, y), (y, rows)):
        b.extern_out(_COPY, to, source, writes=(to,))
    for to, offset in ((part, 5), (start, 9)):
        assert isinstance(to.type, wir.TensorType)
        strides = (8, 1)[: len(to.type.size)]
        view = b.reinterpret(rows, wir.tensor("f32", to.type.size, strides, offset=offset))
        b.extern_out(_COPY, to, view, writes=(to,)).free(view)
    b.free(rows)
    return b.build(columns, part, start, y)


def _arguments(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    n = b.input(wir.ScalarType(wir.DType.I64), name="n")
    symbol = b.symbol("n", wir.ValueOf(n.name), lower=1, upper=4)
    ones = b.extern(
        "aten.full.default",
        (symbol, 3),
        1.5,
        dtype=wir.DType.F64,
        type=wir.tensor("f64", (symbol, 3)),
    )
    copy = b.extern(
        "aten.clone.default",
        x,
        memory_format=wir.TorchEnum("memory_format", "contiguous_format"),
        type=MATRIX,
    )
    total = b.extern(
        "aten.sum.dim_IntList",
        x,
        (0,),
        True,
        dtype=wir.DType.F64,
        type=wir.tensor("f64", (1, 8)),
    )
    clamped = b.extern("aten.clamp.default", x, None, 1, type=MATRIX)
    joined = b.extern("aten.cat.default", (x, copy), 1, type=wir.tensor("f32", (4, 16)))
    b.free(copy)
    return b.build(ones, total, clamped, joined)


def _mutation(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX, mutated=True)
    y = b.input(MATRIX)
    count = b.constant(wir.tensor("f32", (8,)), "stats.count", mutated=True)
    weight = b.constant(wir.tensor("f32", (8, 8)), "layer.weight")
    product = b.extern("aten.mm.default", y, weight, type=MATRIX)
    b.extern_out("aten.add_.Tensor", x, product, writes=(x,))
    b.extern_out("aten.add_.Scalar", count, 1, writes=(count,))
    b.free(product, y)
    return b.build(x, count)


def _symbols(b: ProgramBuilder) -> wir.Program:
    rows = wir.Symbol("s0")
    x = b.input(wir.tensor("f32", (rows, 8)))
    cell = b.input(CELL)
    scale = b.input(wir.ScalarType(wir.DType.F64))
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    b.symbol("f0", wir.ValueOf(scale.name), kind=wir.SymbolKind.FLOAT)
    b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=9)
    flat = b.reinterpret(x, wir.tensor("f32", (rows * 8,)))
    b.define_symbol("u1", wir.SizeOf(flat.name, 0), lower=0)
    b.define_symbol("u2", wir.StrideOf(x.name, 0))
    b.define_symbol("u3", wir.OffsetOf(x.name))
    u0, u1 = wir.Symbol("u0"), wir.Symbol("u1")
    b.define_symbol("u4", wir.ceildiv(u1, 3) + u0 % 4 - (u1 - 100) // 7)
    b.define_symbol("u5", wir.minimum(u0, rows) + wir.maximum(u0, rows))
    b.define_symbol("u6", wir.compare(wir.ExprOp.LT, u0, rows), kind=wir.SymbolKind.BOOL)
    b.define_symbol("u7", wir.Operation(wir.ExprOp.WHERE, (wir.Symbol("u6"), u0, 1 - u1)))
    padded = b.extern(
        "aten.constant_pad_nd.default",
        flat,
        (0, u0),
        0,
        type=wir.tensor("f32", (rows * 8 + u0,)),
    )
    b.free(flat)
    return b.build(
        padded, *(wir.Symbol(f"u{i}") for i in range(6)), wir.Symbol("u7"), wir.Symbol("f0")
    )


def _asserts(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    cell = b.input(CELL)
    b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=9)
    one = b.reinterpret(x, wir.tensor("f32", (1, 32)))
    b.assert_size_stride(x, (4, 8), (8, 1), 'it\'s "x"')
    b.assert_size_stride(one, (1, 32), (99, 1))
    b.assert_alignment(x, 4, "aligned")
    b.assert_scalar(
        wir.compare(wir.ExprOp.GE, wir.Symbol("u0"), 0), "back\\slash {braces} %s"
    )
    b.assert_not_nan(x)
    b.free(one)
    return b.build()


def _false_assert(add: Callable[[ProgramBuilder, NamedValue], object]) -> wir.Program:
    b = ProgramBuilder()
    x = b.input(MATRIX)
    cell = b.input(CELL)
    b.symbol("u0", wir.ItemOf(cell.name))
    add(b, x)
    return b.build(x)


def _not_finite(b: ProgramBuilder, x: NamedValue) -> None:
    zero = b.extern("aten.mul.Scalar", x, 0, type=MATRIX)
    infinite = b.extern("aten.reciprocal.default", zero, type=MATRIX)
    b.assert_not_nan(infinite).free(zero, infinite)


def _other_size(b: ProgramBuilder, x: NamedValue) -> None:
    size = wir.Symbol("u0") + 5
    b.assert_size_stride(x, (size, 8), (8, 1), "not five rows")


def _misaligned(b: ProgramBuilder, x: NamedValue) -> None:
    view = b.reinterpret(x, wir.tensor("f32", (1,), offset=1))
    b.assert_alignment(view, 8).free(view)


def _comments(b: ProgramBuilder) -> wir.Program:
    x = b.input(MATRIX)
    b.at(b.origin("neg", operator='a "b"', module="c'd"))
    for text in ("plain", "", '"""', "'''\\", "*/ // #", "line\nbreak\rreturn\u2028sep"):
        b.comment(text)
    b.at(b.origin("block_1.neg", stack=[('odd "file"\n.py', 3, "a\rb")]))
    y = b.extern("aten.neg.default", x, type=MATRIX)
    return b.build(y)


def _outputs(b: ProgramBuilder) -> wir.Program:
    rows = wir.Symbol("s0")
    x = b.input(wir.tensor("f32", (rows, 8)))
    unused = b.input(CELL)
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    y = b.extern("aten.neg.default", x, type=wir.tensor("f32", (rows, 8)))
    b.free(unused)
    return b.build(y, None, rows * 2 + 1, x, y, 7, 0.5)


def _kernels(language: wir.Language) -> wir.Program:
    rows = wir.Symbol("s0")
    matrix = wir.tensor("f32", (rows, 8))
    b = ProgramBuilder()
    x, y = b.input(matrix), b.input(matrix)
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    add = b.kernel(library_kernel(KernelKind.ADD, language))
    relu = b.kernel(library_kernel(KernelKind.RELU_INPLACE, language))
    row_sum = b.kernel(library_kernel(KernelKind.ROW_SUM, language))
    total = b.allocate(matrix)
    b.call(add, x, y, total, rows * 8)
    b.free(x)
    tail = b.reinterpret(total, wir.tensor("f32", (4,), offset=4))
    b.call(relu, tail, 4)
    sums = b.allocate(wir.tensor("f32", (rows,)))
    b.call(row_sum, total, sums, rows, 8)
    b.free(tail)
    return b.build(total, sums)


def _workspaces(language: wir.Language) -> wir.Program:
    b = ProgramBuilder()
    x = b.input(MATRIX)
    outputs: list[NamedValue] = []
    for mode in wir.ZeroMode:
        kind = (
            KernelKind.SCRATCH_WRITE
            if mode is wir.ZeroMode.UNINITIALIZED
            else KernelKind.SCRATCH_ADD
        )
        kernel = library_kernel(kind, language)
        if kernel.name not in {line.name for line in b.build().definitions}:
            b.kernel(kernel)
        workspace = b.allocate(FLAT, workspace=mode)
        for _ in range(2):
            out = b.allocate(MATRIX)
            b.call(kernel, x, workspace, out, 32)
            outputs.append(out)
        if mode is not wir.ZeroMode.ZERO_PER_PROGRAM:
            b.free(workspace)
    return b.build(*outputs)


def _multi_kernel(language: wir.Language, choice: int | None) -> wir.Program:
    b = ProgramBuilder()
    x, y = b.input(MATRIX), b.input(MATRIX)
    kinds = (KernelKind.ADD, KernelKind.ADD_REVERSED)
    kernels = [b.kernel(library_kernel(kind, language)) for kind in kinds]
    selection = wir.FirstChoice() if choice is None else wir.ForcedChoice(choice)
    either = b.multi_kernel(kernels, selection=selection)
    out = b.allocate(MATRIX)
    b.call(either, x, y, out, 32, device=wir.CPU)
    return b.build(out)


def _descriptors(rows: wir.Expr) -> wir.Program:
    """Add matrices behind descriptors: a whole input, rows of one, a buffer."""
    columns = 3 * BLOCK[1]
    b = ProgramBuilder()
    x, y = (
        b.input(wir.tensor("f32", (rows, columns))),
        b.input(wir.tensor("f32", (rows, 16))),
    )
    if not isinstance(rows, int):
        b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    add = b.kernel(descriptor_kernel())
    total = b.allocate(wir.tensor("f32", (rows, columns)))
    part = b.reinterpret(y, wir.tensor("f32", (rows, columns), (16, 1), offset=4))
    b.call(add, x, part, total, rows, columns)
    b.free(part)
    twice = b.allocate(wir.tensor("f32", (rows, columns)))
    b.call(add, total, total, twice, rows, columns)
    return b.build(total, twice)


def _misaligned_descriptor() -> wir.Program:
    b = ProgramBuilder()
    x, cell = b.input(wir.tensor("f32", (4, 16))), b.input(CELL)
    b.symbol("u0", wir.ItemOf(cell.name), lower=-9, upper=9)
    add = b.kernel(descriptor_kernel())
    late = wir.Symbol("u0") - wir.Symbol("u0") + 1
    part = b.reinterpret(x, wir.tensor("f32", (4, 8), (16, 1), offset=late))
    out = b.allocate(wir.tensor("f32", (4, 8)))
    b.call(add, part, part, out, 4, 8)
    b.free(part)
    return b.build(out)


DESCRIPTOR_CASES = (
    Case("descriptors", _descriptors(7)),
    Case("descriptors_of_dynamic_size", _descriptors(wir.Symbol("s0")), seeds=(0, 1, 2)),
    Case("misaligned_descriptor", _misaligned_descriptor(), faults=True),
)
"""Programs whose kernels take tensors behind descriptors."""


def _kernel_cases(language: wir.Language) -> tuple[Case, ...]:
    of = language.value
    return (
        Case(f"kernels_{of}", _kernels(language), seeds=(0, 1, 2)),
        Case(f"workspaces_{of}", _workspaces(language)),
        Case(f"multi_kernel_first_{of}", _multi_kernel(language, None)),
        Case(f"multi_kernel_forced_{of}", _multi_kernel(language, 1)),
    )


CASES: tuple[Case, ...] = (
    built(_allocate_and_free),
    built(_view_outlives_its_source),
    built(_reuse),
    built(_multiple_outputs),
    built(_copies),
    built(_arguments, 0, 1, 2),
    built(_mutation),
    built(_symbols, 0, 1, 2, 3),
    built(_asserts),
    Case(
        "false_assert_scalar",
        _false_assert(
            lambda b, _: b.assert_scalar(
                wir.compare(wir.ExprOp.GT, wir.Symbol("u0"), 100), "too small"
            )
        ),
        faults=True,
    ),
    Case("false_assert_size_stride", _false_assert(_other_size), faults=True),
    Case("false_assert_not_nan", _false_assert(_not_finite), faults=True),
    Case("false_assert_alignment", _false_assert(_misaligned), faults=True),
    Case(
        "symbol_outside_its_range",
        _false_assert(lambda b, _: b.define_symbol("u1", wir.Symbol("u0") + 1, lower=100)),
        faults=True,
    ),
    built(_comments),
    built(_outputs),
    *COLLECTIVE_CASES,
    *MEMORY_CASES,
    *_kernel_cases(wir.Language.TRITON),
    *_kernel_cases(wir.Language.CPP),
    *selection_cases(wir.Language.TRITON),
    *selection_cases(wir.Language.CPP),
    *DESCRIPTOR_CASES,
)
"""Every case, for CPU tensors."""
