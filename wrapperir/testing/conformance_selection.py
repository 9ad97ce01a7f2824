"""Conformance programs with multi-kernels: one or more for each selection policy.

The choices of a real multi-kernel do the same, so a wrong one would go unseen.  Those that
``nearest_shape``, ``computed`` and ``recorded`` pick from here do not: one adds, another
subtracts, so that an emitter that does not pick as the policy says is found out.  Only what
``benchmark`` picks from agrees, for it may pick any.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve

from wrapperir.ir import (
    CPU,
    BenchmarkChoice,
    ComputedChoice,
    DType,
    Expr,
    ExprOp,
    Hint,
    ItemOf,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    NearestChoice,
    Operation,
    Program,
    RecordedChoice,
    Selection,
    SizeOf,
    Symbol,
    ZeroMode,
    compare,
    floordiv,
    maximum,
    mod,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, ProgramBuilder, Value
from wrapperir.testing.conformance_case import BOOL, CELL, MATRIX, Case
from wrapperir.testing.kernels import KernelKind, library_kernel

_SQUARE = tensor("f32", (8, 8))
_SMALL = tensor("f32", (2, 2))
P, Q, COUNT = Symbol("P"), Symbol("Q"), Symbol("xnumel")

_DOUBLE, _ZERO, _TOTAL = 0, 1, 2
"""The choices of :func:`_three_ways`: ``x + x``, ``x - x`` and ``x + y``."""


def _subtract(language: Language) -> KernelDefinitionLine:
    """Return the kernel that adds, changed to subtract."""
    add = library_kernel(KernelKind.ADD, language)
    source = add.source.replace("add(", "subtract(")
    for sum in ("left + right", "in_ptr0[x] + in_ptr1[x]"):
        source = source.replace(sum, sum.replace("+", "-"))
    name = f"{language.value}_subtract"
    return evolve(add, name=name, entry="subtract", metadata=(), source=source)


def _where(condition: Expr, yes: Expr, no: Expr) -> Operation:
    return Operation(ExprOp.WHERE, (condition, yes, no))


class _Kernels:
    """The kernels of one program, and multi-kernels of them."""

    def __init__(self, builder: ProgramBuilder, language: Language) -> None:
        self._builder = builder
        self.add = builder.kernel(library_kernel(KernelKind.ADD, language))
        self.subtract = builder.kernel(_subtract(language))
        self.scratch = builder.kernel(library_kernel(KernelKind.SCRATCH_ADD, language))

    def three_ways(self, selection: Selection) -> MultiKernelLine:
        """Choose between x + x, x - x and x + y by the sizes P and Q of y.

        The first two take one argument twice, and leave out y.
        """
        return self._builder.multi_kernel(
            (self.add, self.subtract, self.add),
            positions=((0, 0, 2, 3), (0, 0, 2, 3), (0, 1, 2, 3)),
            sizes={"P": ("in_ptr1", 0), "Q": ("in_ptr1", 1)},
            selection=selection,
        )

    def with_workspace(self, selection: Selection) -> MultiKernelLine:
        """Choose between x, by way of a workspace, and x + x, without one."""
        needs = {"ws_ptr": (COUNT, ZeroMode.ZERO_ON_CALL)}
        return self._builder.multi_kernel(
            (self.scratch, self.add),
            positions=((0, 1, 2, 3), (0, 0, 2, 3)),
            sizes={"P": ("in_ptr0", 0)},
            workspaces={self.scratch.name: needs},
            selection=selection,
        )


_NEAREST = NearestChoice(
    (
        Hint(_ZERO, (2, 8)),
        Hint(_DOUBLE, (0, 8)),
        Hint(_TOTAL, (8, 8)),
        Hint(_ZERO, (8, 1)),
        Hint(_TOTAL, (64, 1)),
    )
)
_NEAREST_OTHERWISE = NearestChoice(
    (Hint(_TOTAL, (8, 8)), Hint(_DOUBLE, (0, 8)), Hint(_ZERO, (2, 8)))
)
"""Of hints at one distance the first wins, so their order matters."""

NEAR_TIE = NearestChoice((Hint(_ZERO, (10, 28)), Hint(_DOUBLE, (8, 35))))
"""Both hints are as near to smaller sizes, as 10 * 28 is 8 * 35, but for rounding.

So logarithms, or quotients in another order, pick otherwise.
"""

_COMPUTED = ComputedChoice(
    _where(
        compare(ExprOp.LT, P * Q, COUNT),
        _where(compare(ExprOp.EQ, mod(P, 2), 0), _DOUBLE, _ZERO),
        _where(compare(ExprOp.GT, COUNT, P * 3 - Q), _TOTAL, _ZERO),
    ),
    "a machine",
)


def _settled(language: Language) -> Program:
    """Run what is recorded, in two ways to say so."""
    b = ProgramBuilder()
    x, y = b.input(MATRIX), b.input(MATRIX)
    kernels = _Kernels(b, language)
    outputs: list[Value] = []
    for selection in (RecordedChoice(1, (2.5, 1.0, None), "here"), ComputedChoice(2)):
        out = b.allocate(MATRIX)
        b.call(kernels.three_ways(selection), x, y, out, 32)
        outputs.append(out)
    return b.build(*outputs)


def _benchmark(language: Language) -> Program:
    """Time kernels that change what they read: only copies of it may be used for that."""
    b = ProgramBuilder()
    total = b.input(MATRIX, mutated=True)
    x = b.input(MATRIX)
    kinds = (KernelKind.ADD, KernelKind.ADD_REVERSED)
    add = b.multi_kernel(
        [b.kernel(library_kernel(kind, language)) for kind in kinds],
        selection=BenchmarkChoice(),
    )
    kinds = (KernelKind.SCRATCH_ADD, KernelKind.SCRATCH_WRITE)
    scratch, write = (b.kernel(library_kernel(kind, language)) for kind in kinds)
    copy = b.multi_kernel(
        [scratch, write],
        workspaces={
            scratch.name: {"ws_ptr": (COUNT, ZeroMode.ZERO_ON_CALL)},
            write.name: {"ws_ptr": (COUNT, ZeroMode.UNINITIALIZED)},
        },
        selection=BenchmarkChoice(),
    )
    for _ in range(2):
        b.call(add, total, x, total, 32)
    workspace = b.allocate(tensor("f32", (32,)), workspace=ZeroMode.ZERO_ON_CALL)
    out = b.allocate(MATRIX)
    b.call(copy, total, workspace, out, 32)
    b.free(workspace)
    return b.build(out)


def _static_sizes(language: Language) -> Program:
    """Call multi-kernels at many shapes, all known when code is emitted."""
    b = ProgramBuilder()
    x, y = b.input(MATRIX), b.input(_SQUARE)
    kernels = _Kernels(b, language)
    shapes: Mapping[Selection, Sequence[tuple[int, int]]] = {
        _NEAREST: ((0, 8), (1, 8), (2, 8), (4, 8), (8, 8), (16, 1), (64, 1), (32, 2)),
        _NEAREST_OTHERWISE: ((1, 8), (4, 8), (3, 8)),
        _COMPUTED: ((2, 8), (3, 8), (4, 8), (16, 2), (0, 8)),
    }
    outputs: list[Value] = []
    for selection, sizes in shapes.items():
        multi_kernel = kernels.three_ways(selection)
        for size in sizes:
            view = b.reinterpret(y, tensor("f32", size))
            out = b.allocate(MATRIX)
            b.call(multi_kernel, x, view, out, 32)
            b.free(view)
            outputs.append(out)
    return b.build(*outputs)


def _dynamic_sizes(language: Language) -> Program:
    """Call multi-kernels at shapes that the inputs decide, 0 and 1 among them."""
    rows, columns, more = Symbol("s0"), Symbol("s1"), Symbol("s2")
    b = ProgramBuilder()
    x, y = b.input(_SMALL), b.input(tensor("f32", (rows, columns)))
    z = b.input(tensor("f32", (more, 4)))
    b.symbol("s0", SizeOf(y.name, 0), lower=0, upper=8)
    b.symbol("s1", SizeOf(y.name, 1), lower=0, upper=8)
    b.symbol("s2", SizeOf(z.name, 0), lower=1, upper=8)
    kernels = _Kernels(b, language)
    near = NearestChoice(
        (
            Hint(_ZERO, (1, 1)),
            Hint(_DOUBLE, (0, 8)),
            Hint(_DOUBLE, (8, 0)),
            Hint(_TOTAL, (8, 8)),
        )
    )
    outputs: list[Value] = []
    for selection in (near, NEAR_TIE, _COMPUTED):
        out = b.allocate(_SMALL)
        b.call(kernels.three_ways(selection), x, y, out, 4)
        outputs.append(out)
    odd = compare(ExprOp.EQ, mod(P * COUNT, 8), 4)  # where P is, for COUNT is 4 * P
    either = kernels.with_workspace(ComputedChoice(_where(odd, 0, 1)))
    workspace = b.allocate(tensor("f32", (more * 4,)), workspace=ZeroMode.ZERO_ON_CALL)
    out = b.allocate(tensor("f32", (more, 4)))
    b.call(either, z, workspace, out, more * 4, device=CPU)
    b.free(workspace)
    return b.build(*outputs, out)


def _blocks(language: Language) -> Program:
    """Call multi-kernels in blocks, at shapes that change with each iteration."""
    rows = Symbol("s0")
    b = ProgramBuilder()
    x, y = b.input(_SMALL), b.input(tensor("f32", (rows, 8)))
    flag = b.input(BOOL)
    b.symbol("s0", SizeOf(y.name, 0), lower=1, upper=8)
    kernels = _Kernels(b, language)
    near = kernels.three_ways(_NEAREST)
    computed = kernels.three_ways(
        ComputedChoice(_where(compare(ExprOp.LT, P, 3), _where(P - 1, _ZERO, _TOTAL), 0))
    )

    def call(block: BlockBuilder, which: MultiKernelLine, p: Value, q: Value) -> Value:
        out = block.allocate(_SMALL)
        block.call(which, p, q, out, 4)
        return out

    def on_true(block: BlockBuilder, p: Value, q: Value) -> Value:
        return call(block, near, p, q)

    def on_false(block: BlockBuilder, p: Value, q: Value) -> Value:
        return call(block, computed, p, q)

    (picked,) = b.conditional(flag, [x, y], on_true, on_false, results=[_SMALL])
    start = b.extern("aten.full.default", (), 0, dtype=DType.I64, type=CELL)
    zeros = b.extern("aten.mul.Scalar", picked, 0, type=_SMALL)

    def condition(block: BlockBuilder, i: Value, p: Value, q: Value, r: Value) -> Value:
        return block.extern("aten.lt.Scalar", i, 3, type=BOOL)

    def body(block: BlockBuilder, i: Value, p: Value, q: Value, r: Value) -> list[Value]:
        turn = block.define_symbol("u0", ItemOf(i.name), lower=0, upper=3)
        following = block.extern("aten.add.Scalar", i, 1, type=CELL)
        view = block.reinterpret(r, tensor("f32", (maximum(rows - turn, 1), 8)))
        new = call(block, computed, q, view)
        block.free(view)
        halved = block.extern("aten.mul.Scalar", p, 0.5, type=_SMALL)
        total = block.extern("aten.add.Tensor", halved, new, type=_SMALL)
        block.free(halved, new)
        return [following, total]

    count, total = b.while_loop([start, zeros], condition, body, invariant=[x, y])
    b.free(start, zeros, count)
    return b.build(picked, total)


def _without_value(language: Language) -> Program:
    """Choose by a quotient that has no value when the program runs."""
    b = ProgramBuilder()
    x, y, cell = b.input(_SMALL), b.input(_SMALL), b.input(CELL)
    u0 = b.define_symbol("u0", ItemOf(cell.name), lower=0, upper=9)
    kernels = _Kernels(b, language)
    quotient = floordiv(16, COUNT - 4)
    tree = _where(compare(ExprOp.GT, quotient, 2), _DOUBLE, _ZERO)
    out = b.allocate(_SMALL)
    b.call(kernels.three_ways(ComputedChoice(tree)), x, y, out, u0 - u0 + 4)
    return b.build(out)


def selection_cases(language: Language) -> tuple[Case, ...]:
    """Return the programs whose kernels are in a language."""
    of = language.value
    return (
        Case(f"selection_settled_{of}", _settled(language)),
        Case(f"selection_benchmark_{of}", _benchmark(language)),
        Case(f"selection_static_sizes_{of}", _static_sizes(language)),
        Case(
            f"selection_dynamic_sizes_{of}", _dynamic_sizes(language), seeds=(*range(10),)
        ),
        Case(f"selection_in_blocks_{of}", _blocks(language), seeds=(*range(6),)),
        Case(f"selection_without_value_{of}", _without_value(language), faults=True),
    )
