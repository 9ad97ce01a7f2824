"""The programs of the conformance kit: one or more for each line kind."""

from collections.abc import Callable

from wrapperir.ir import (
    DType,
    ExprOp,
    ItemOf,
    Language,
    OffsetOf,
    Operation,
    Program,
    Provenance,
    ScalarType,
    SizeOf,
    SourceLocation,
    StrideOf,
    Symbol,
    SymbolKind,
    TorchEnum,
    TupleType,
    ValueOf,
    ceildiv,
    compare,
    maximum,
    minimum,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder, Value
from wrapperir.testing.conformance_blocks import BLOCK_CASES
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.conformance_kernels import DESCRIPTOR_CASES, kernel_cases
from wrapperir.testing.conformance_memory import MEMORY_CASES
from wrapperir.testing.conformance_selection import selection_cases

_MATRIX = tensor("f32", (4, 8))
_FLAT = tensor("f32", (32,))
_BOOL = tensor("bool", ())
_CELL = tensor("i64", ())


def _build(fill: Callable[[ProgramBuilder], Program]) -> Program:
    return fill(ProgramBuilder())


def _allocate_and_free(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    first = b.allocate(_MATRIX)
    b.extern_out("aten.neg.out", x, out=first)
    b.free(x)
    second = b.allocate(tensor("f32", (8, 4), (1, 8)))
    view = b.extern("aten.t.default", first, type=second.type, aliases=(first,))
    b.extern_out("aten.abs.out", view, out=second)
    b.free(view, first)
    return b.build(second)


def _view_outlives_its_source(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    base = b.extern("aten.neg.default", x, type=_MATRIX)
    column = b.reinterpret(base, tensor("f32", (4,), (8,), offset=3))
    b.free(base)
    total = b.extern("aten.sum.default", column, type=tensor("f32", ()))
    return b.build(total, column)


def _reuse(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    first = b.extern("aten.neg.default", x, type=_MATRIX)
    view = b.reinterpret(first, _FLAT)
    second = b.reuse(first, tensor("f32", (2, 8)))
    b.extern_out("aten.mul_.Scalar", second, 2, writes=(second,))
    third = b.reuse(second, tensor("i32", (8,)))
    b.free(third)
    return b.build(view)


def _multiple_outputs(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    half = [tensor("f32", (4, 4), (8, 1), offset=4 * i) for i in range(2)]
    parts = b.extern("aten.split.Tensor", x, 4, 1, type=TupleType((*half,)), aliases=(x,))
    second = b.multi_output(parts, 1, type=half[1])
    b.free(parts, x)
    row, index = tensor("f32", (4,)), tensor("i64", (4,))
    best = b.extern("aten.max.dim", second, 1, type=TupleType((row, index)))
    values = b.multi_output(best, 0, type=row)
    indices = b.multi_output(best, 1, type=index)
    b.free(best)
    return b.build(values, indices, second)


def _arguments(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    n = b.input(ScalarType(DType.I64), name="n")
    symbol = b.symbol("n", ValueOf(n.name), lower=1, upper=4)
    ones = b.extern(
        "aten.full.default",
        (symbol, 3),
        1.5,
        dtype=DType.F64,
        type=tensor("f64", (symbol, 3)),
    )
    copy = b.extern(
        "aten.clone.default",
        x,
        memory_format=TorchEnum("memory_format", "contiguous_format"),
        type=_MATRIX,
    )
    total = b.extern(
        "aten.sum.dim_IntList", x, (0,), True, dtype=DType.F64, type=tensor("f64", (1, 8))
    )
    clamped = b.extern("aten.clamp.default", x, None, 1, type=_MATRIX)
    joined = b.extern("aten.cat.default", (x, copy), 1, type=tensor("f32", (4, 16)))
    b.free(copy)
    return b.build(ones, total, clamped, joined)


def _mutation(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX, mutated=True)
    y = b.input(_MATRIX)
    count = b.constant(tensor("f32", (8,)), "stats.count", mutated=True)
    weight = b.constant(tensor("f32", (8, 8)), "layer.weight")
    product = b.extern("aten.mm.default", y, weight, type=_MATRIX)
    b.extern_out("aten.add_.Tensor", x, product, writes=(x,))
    b.extern_out("aten.add_.Scalar", count, 1, writes=(count,))
    b.free(product, y)
    return b.build(x, count)


def _symbols(b: ProgramBuilder) -> Program:
    rows = Symbol("s0")
    x = b.input(tensor("f32", (rows, 8)))
    cell = b.input(_CELL)
    scale = b.input(ScalarType(DType.F64))
    b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=9)
    b.symbol("f0", ValueOf(scale.name), kind=SymbolKind.FLOAT)
    b.define_symbol("u0", ItemOf(cell.name), lower=0, upper=9)
    flat = b.reinterpret(x, tensor("f32", (rows * 8,)))
    b.define_symbol("u1", SizeOf(flat.name, 0), lower=0)
    b.define_symbol("u2", StrideOf(x.name, 0))
    b.define_symbol("u3", OffsetOf(x.name))
    u0, u1 = Symbol("u0"), Symbol("u1")
    b.define_symbol("u4", ceildiv(u1, 3) + u0 % 4 - (u1 - 100) // 7)
    b.define_symbol("u5", minimum(u0, rows) + maximum(u0, rows))
    b.define_symbol("u6", compare(ExprOp.LT, u0, rows), kind=SymbolKind.BOOL)
    b.define_symbol("u7", Operation(ExprOp.WHERE, (Symbol("u6"), u0, 1 - u1)))
    padded = b.extern(
        "aten.constant_pad_nd.default",
        flat,
        (0, u0),
        0,
        type=tensor("f32", (rows * 8 + u0,)),
    )
    b.free(flat)
    return b.build(padded, *(Symbol(f"u{i}") for i in range(6)), Symbol("u7"), Symbol("f0"))


def _asserts(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    cell = b.input(_CELL)
    b.define_symbol("u0", ItemOf(cell.name), lower=0, upper=9)
    one = b.reinterpret(x, tensor("f32", (1, 32)))
    b.assert_size_stride(x, (4, 8), (8, 1), 'it\'s "x"')
    b.assert_size_stride(one, (1, 32), (99, 1))
    b.assert_alignment(x, 4, "aligned")
    b.assert_scalar(compare(ExprOp.GE, Symbol("u0"), 0), "back\\slash {braces} %s")
    b.assert_not_nan(x)
    b.free(one)
    return b.build()


def _false_assert(add: Callable[[ProgramBuilder, Value], object]) -> Program:
    b = ProgramBuilder()
    x = b.input(_MATRIX)
    cell = b.input(_CELL)
    b.symbol("u0", ItemOf(cell.name))
    add(b, x)
    return b.build(x)


def _not_finite(b: ProgramBuilder, x: Value) -> None:
    zero = b.extern("aten.mul.Scalar", x, 0, type=_MATRIX)
    infinite = b.extern("aten.reciprocal.default", zero, type=_MATRIX)
    b.assert_not_nan(infinite).free(zero, infinite)


def _other_size(b: ProgramBuilder, x: Value) -> None:
    size = Symbol("u0") + 5
    b.assert_size_stride(x, (size, 8), (8, 1), "not five rows")


def _misaligned(b: ProgramBuilder, x: Value) -> None:
    view = b.reinterpret(x, tensor("f32", (1,), offset=1))
    b.assert_alignment(view, 8).free(view)


def _comments(b: ProgramBuilder) -> Program:
    x = b.input(_MATRIX)
    b.at(Provenance(nodes=('a "b"', "c'd"), operator="aten.neg.default"))
    for text in ("plain", "", '"""', "'''\\", "*/ // #", "line\nbreak\rreturn\u2028sep"):
        b.comment(text)
    b.at(Provenance(location=SourceLocation('odd "file"\n.py', 3)))
    y = b.extern("aten.neg.default", x, type=_MATRIX)
    return b.build(y)


def _outputs(b: ProgramBuilder) -> Program:
    rows = Symbol("s0")
    x = b.input(tensor("f32", (rows, 8)))
    unused = b.input(_CELL)
    b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=9)
    y = b.extern("aten.neg.default", x, type=tensor("f32", (rows, 8)))
    b.free(unused)
    return b.build(y, None, rows * 2 + 1, x, y, 7, 0.5)


CASES: tuple[Case, ...] = (
    Case("allocate_and_free", _build(_allocate_and_free)),
    Case("view_outlives_its_source", _build(_view_outlives_its_source)),
    Case("reuse", _build(_reuse)),
    Case("multiple_outputs", _build(_multiple_outputs)),
    Case("arguments", _build(_arguments), seeds=(0, 1, 2)),
    Case("mutation", _build(_mutation)),
    Case("symbols", _build(_symbols), seeds=(0, 1, 2, 3)),
    Case("asserts", _build(_asserts)),
    Case(
        "false_assert_scalar",
        _false_assert(
            lambda b, _: b.assert_scalar(compare(ExprOp.GT, Symbol("u0"), 100), "too small")
        ),
        faults=True,
    ),
    Case("false_assert_size_stride", _false_assert(_other_size), faults=True),
    Case("false_assert_not_nan", _false_assert(_not_finite), faults=True),
    Case("false_assert_alignment", _false_assert(_misaligned), faults=True),
    Case(
        "symbol_outside_its_range",
        _false_assert(lambda b, _: b.define_symbol("u1", Symbol("u0") + 1, lower=100)),
        faults=True,
    ),
    Case("comments", _build(_comments)),
    Case("outputs", _build(_outputs)),
    *BLOCK_CASES,
    *MEMORY_CASES,
    *kernel_cases(Language.TRITON),
    *kernel_cases(Language.CPP),
    *selection_cases(Language.TRITON),
    *selection_cases(Language.CPP),
    *DESCRIPTOR_CASES,
)
"""Every case, for CPU tensors."""
