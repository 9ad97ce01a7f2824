"""Conformance programs with multi-kernels: one or more for each selection policy.

The choices of a real multi-kernel have equal results, so that a wrong choice is not seen.
Here the choices of ``nearest_shape``, ``computed`` and ``recorded`` differ: one adds,
another subtracts, so that a wrong choice changes a result.  Only the choices of
``benchmark`` agree, as it may pick any.
"""

from collections.abc import Mapping, Sequence

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, Operand, ProgramBuilder
from wrapperir.testing.cell_kernels import count_kernel
from wrapperir.testing.conformance_case import BOOL, CELL, MATRIX, Case
from wrapperir.testing.kernels import KernelKind, library_kernel

_SQUARE = wir.tensor("f32", (8, 8))
_SMALL = wir.tensor("f32", (2, 2))
P, Q, COUNT = wir.Symbol("P"), wir.Symbol("Q"), wir.Symbol("xnumel")

_DOUBLE, _ZERO, _TOTAL = 0, 1, 2
"""The choices of :func:`_three_ways`: ``x + x``, ``x - x`` and ``x + y``."""


def _where(condition: wir.Expr, yes: wir.Expr, no: wir.Expr) -> wir.Operation:
    return wir.Operation(wir.ExprOp.WHERE, (condition, yes, no))


class _ChoiceKernels:
    """The kernels of one program, and multi-kernels of them."""

    def __init__(self, builder: ProgramBuilder, language: wir.Language) -> None:
        self._builder, self.language = builder, language
        self.add = builder.kernel(library_kernel(KernelKind.ADD, language))
        self.subtract = builder.kernel(library_kernel(KernelKind.SUBTRACT, language))
        self.scratch = builder.kernel(library_kernel(KernelKind.SCRATCH_ADD, language))

    def three_ways(self, selection: wir.Selection) -> wir.MultiKernelLine:
        """Choose between x + x, x - x and x + y by the sizes P and Q of y.

        The first two take one argument twice, and leave out y.
        """
        return self._builder.multi_kernel(
            (self.add, self.subtract, self.add),
            positions=((0, 0, 2, 3), (0, 0, 2, 3), (0, 1, 2, 3)),
            sizes={"P": ("in_ptr1", 0), "Q": ("in_ptr1", 1)},
            selection=selection,
        )

    def with_workspace(self, selection: wir.Selection) -> wir.MultiKernelLine:
        """Choose between x, by way of a workspace, and x + x, without one."""
        needs = {"ws_ptr": (COUNT, wir.ZeroMode.ZERO_ON_CALL)}
        return self._builder.multi_kernel(
            (self.scratch, self.add),
            positions=((0, 1, 2, 3), (0, 0, 2, 3)),
            sizes={"P": ("in_ptr0", 0)},
            workspaces={self.scratch.name: needs},
            selection=selection,
        )


_NEAREST = wir.NearestChoice(
    (
        wir.Hint(_ZERO, (2, 8)),
        wir.Hint(_DOUBLE, (0, 8)),
        wir.Hint(_TOTAL, (8, 8)),
        wir.Hint(_ZERO, (8, 1)),
        wir.Hint(_TOTAL, (64, 1)),
    )
)
_NEAREST_OTHERWISE = wir.NearestChoice(
    (wir.Hint(_TOTAL, (8, 8)), wir.Hint(_DOUBLE, (0, 8)), wir.Hint(_ZERO, (2, 8)))
)
"""Of hints at one distance the first wins, so their order matters."""

NEAR_TIE = wir.NearestChoice((wir.Hint(_ZERO, (10, 28)), wir.Hint(_DOUBLE, (8, 35))))
"""Both hints are as near to smaller sizes, as 10 * 28 is 8 * 35, but for rounding.

So logarithms, or quotients in another order, pick otherwise.
"""

_COMPUTED = wir.ComputedChoice(
    _where(
        wir.compare(wir.ExprOp.LT, P * Q, COUNT),
        _where(wir.compare(wir.ExprOp.EQ, wir.mod(P, 2), 0), _DOUBLE, _ZERO),
        _where(wir.compare(wir.ExprOp.GT, COUNT, P * 3 - Q), _TOTAL, _ZERO),
    ),
    "a machine",
)


def _settled(language: wir.Language) -> wir.Program:
    """Run what is recorded, in two ways to say so."""
    b = ProgramBuilder()
    x, y = b.input(MATRIX), b.input(MATRIX)
    kernels = _ChoiceKernels(b, language)
    outputs: list[NamedValue] = []
    for selection in (
        wir.RecordedChoice(1, (2.5, 1.0, None), "here"),
        wir.ComputedChoice(2),
    ):
        out = b.allocate(MATRIX)
        b.call(kernels.three_ways(selection), x, y, out, 32)
        outputs.append(out)
    return b.build(*outputs)


def _benchmark(language: wir.Language) -> wir.Program:
    """Time kernels that change what they read: only copies of it may be used for that."""
    b = ProgramBuilder()
    total = b.input(MATRIX, mutated=True)
    x = b.input(MATRIX)
    kinds = (KernelKind.ADD, KernelKind.ADD_REVERSED)
    add = b.multi_kernel(
        [b.kernel(library_kernel(kind, language)) for kind in kinds],
        selection=wir.BenchmarkChoice(),
    )
    kinds = (KernelKind.SCRATCH_ADD, KernelKind.SCRATCH_WRITE)
    scratch, write = (b.kernel(library_kernel(kind, language)) for kind in kinds)
    copy = b.multi_kernel(
        [scratch, write],
        workspaces={
            scratch.name: {"ws_ptr": (COUNT, wir.ZeroMode.ZERO_ON_CALL)},
            write.name: {"ws_ptr": (COUNT, wir.ZeroMode.UNINITIALIZED)},
        },
        selection=wir.BenchmarkChoice(),
    )
    for _ in range(2):
        b.call(add, total, x, total, 32)
    workspace = b.allocate(wir.tensor("f32", (32,)), workspace=wir.ZeroMode.ZERO_ON_CALL)
    out = b.allocate(MATRIX)
    b.call(copy, total, workspace, out, 32)
    b.free(workspace)
    return b.build(out)


def _static_sizes(language: wir.Language) -> wir.Program:
    """Call multi-kernels at many shapes, all known when code is emitted."""
    b = ProgramBuilder()
    x, y = b.input(MATRIX), b.input(_SQUARE)
    kernels = _ChoiceKernels(b, language)
    shapes: Mapping[wir.Selection, Sequence[tuple[int, int]]] = {
        _NEAREST: ((0, 8), (1, 8), (2, 8), (4, 8), (8, 8), (16, 1), (64, 1), (32, 2)),
        _NEAREST_OTHERWISE: ((1, 8), (4, 8), (3, 8)),
        _COMPUTED: ((2, 8), (3, 8), (4, 8), (16, 2), (0, 8)),
    }
    outputs: list[NamedValue] = []
    for selection, sizes in shapes.items():
        multi_kernel = kernels.three_ways(selection)
        for size in sizes:
            view = b.reinterpret(y, wir.tensor("f32", size))
            out = b.allocate(MATRIX)
            b.call(multi_kernel, x, view, out, 32)
            b.free(view)
            outputs.append(out)
    return b.build(*outputs)


def _dynamic_sizes(language: wir.Language) -> wir.Program:
    """Call multi-kernels at shapes that the inputs decide, 0 and 1 among them."""
    rows, columns, more = wir.Symbol("s0"), wir.Symbol("s1"), wir.Symbol("s2")
    b = ProgramBuilder()
    x, y = b.input(_SMALL), b.input(wir.tensor("f32", (rows, columns)))
    z = b.input(wir.tensor("f32", (more, 4)))
    b.symbol("s0", wir.SizeOf(y.name, 0), lower=0, upper=8)
    b.symbol("s1", wir.SizeOf(y.name, 1), lower=0, upper=8)
    b.symbol("s2", wir.SizeOf(z.name, 0), lower=1, upper=8)
    kernels = _ChoiceKernels(b, language)
    near = wir.NearestChoice(
        (
            wir.Hint(_ZERO, (1, 1)),
            wir.Hint(_DOUBLE, (0, 8)),
            wir.Hint(_DOUBLE, (8, 0)),
            wir.Hint(_TOTAL, (8, 8)),
        )
    )
    outputs: list[NamedValue] = []
    for selection in (near, NEAR_TIE, _COMPUTED):
        out = b.allocate(_SMALL)
        b.call(kernels.three_ways(selection), x, y, out, 4)
        outputs.append(out)
    odd = wir.compare(
        wir.ExprOp.EQ, wir.mod(P * COUNT, 8), 4
    )  # where P is, for COUNT is 4 * P
    either = kernels.with_workspace(wir.ComputedChoice(_where(odd, 0, 1)))
    workspace = b.allocate(
        wir.tensor("f32", (more * 4,)), workspace=wir.ZeroMode.ZERO_ON_CALL
    )
    out = b.allocate(wir.tensor("f32", (more, 4)))
    b.call(either, z, workspace, out, more * 4, device=wir.CPU)
    b.free(workspace)
    return b.build(*outputs, out)


class _Operators:
    """What a loop does beside its multi-kernels, with operators."""

    def start(self, b: ProgramBuilder) -> NamedValue:
        """Return a cell to count from."""
        return b.extern("aten.full.default", (), 0, dtype=wir.DType.I64, type=CELL)

    def zeros(self, b: ProgramBuilder, x: NamedValue) -> NamedValue:
        """Return zeros."""
        return b.extern("aten.mul.Scalar", x, 0, type=_SMALL)

    def is_below(self, block: BlockBuilder, i: NamedValue) -> Operand:
        """Return whether a cell is less than 3."""
        return block.extern("aten.lt.Scalar", i, 3, type=BOOL)

    def following(self, block: BlockBuilder, i: NamedValue) -> NamedValue:
        """Return one more than a cell."""
        return block.extern("aten.add.Scalar", i, 1, type=CELL)

    def joined(self, block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        """Return ``p / 2 + q``, which depends on their order."""
        halved = block.extern("aten.mul.Scalar", p, 0.5, type=_SMALL)
        total = block.extern("aten.add.Tensor", halved, q, type=_SMALL)
        block.free(halved)
        return total


class _Kernels(_Operators):
    """The same, with kernels."""

    def __init__(self, kernels: _ChoiceKernels, b: ProgramBuilder) -> None:
        self._subtract = kernels.subtract
        self._count = b.kernel(count_kernel(kernels.language))
        self._cell = b.input(CELL)
        b.define_symbol("u2", wir.ItemOf(self._cell.name), lower=0, upper=3)

    def start(self, b: ProgramBuilder) -> NamedValue:
        """Return a cell that an input decides."""
        return self._counted(b, self._cell, 0)

    def zeros(self, b: ProgramBuilder, x: NamedValue) -> NamedValue:
        """Return zeros."""
        return self.joined(b, x, x)

    def is_below(self, block: BlockBuilder, i: NamedValue) -> Operand:
        """Return whether a cell is less than 3."""
        symbol = block.define_symbol("u1", wir.ItemOf(i.name))
        return wir.compare(wir.ExprOp.LT, symbol, 3)

    def following(self, block: BlockBuilder, i: NamedValue) -> NamedValue:
        """Return one more than a cell."""
        return self._counted(block, i, 1)

    def joined(self, block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        """Return ``p - q``."""
        out = block.allocate(_SMALL)
        block.call(self._subtract, p, q, out, 4)
        return out

    def _counted(self, block: BlockBuilder, cell: NamedValue, step: int) -> NamedValue:
        out = block.allocate(CELL)
        block.call(self._count, cell, out, step)
        return out


def _blocks(language: wir.Language, *, kernels_only: bool = False) -> wir.Program:
    """Call multi-kernels in blocks, at shapes that change with each iteration."""
    rows = wir.Symbol("s0")
    b = ProgramBuilder()
    x, y = b.input(_SMALL), b.input(wir.tensor("f32", (rows, 8)))
    flag = b.input(BOOL)
    b.symbol("s0", wir.SizeOf(y.name, 0), lower=1, upper=8)
    kernels = _ChoiceKernels(b, language)
    other = _Kernels(kernels, b) if kernels_only else _Operators()
    near = kernels.three_ways(_NEAREST)
    computed = kernels.three_ways(
        wir.ComputedChoice(
            _where(wir.compare(wir.ExprOp.LT, P, 3), _where(P - 1, _ZERO, _TOTAL), 0)
        )
    )

    def call(
        block: BlockBuilder, which: wir.MultiKernelLine, p: NamedValue, q: NamedValue
    ) -> NamedValue:
        out = block.allocate(_SMALL)
        block.call(which, p, q, out, 4)
        return out

    def on_true(block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        return call(block, near, p, q)

    def on_false(block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        return call(block, computed, p, q)

    (picked,) = b.conditional(flag, [x, y], on_true, on_false, results=[_SMALL])
    start, zeros = other.start(b), other.zeros(b, picked)

    def condition(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue, r: NamedValue
    ) -> Operand:
        return other.is_below(block, i)

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue, r: NamedValue
    ) -> list[NamedValue]:
        turn = block.define_symbol("u0", wir.ItemOf(i.name), lower=0, upper=3)
        following = other.following(block, i)
        view = block.reinterpret(r, wir.tensor("f32", (wir.maximum(rows - turn, 1), 8)))
        new = call(block, computed, q, view)
        block.free(view)
        total = other.joined(block, p, new)
        block.free(new)
        return [following, total]

    count, total = b.while_loop([start, zeros], condition, body, invariant=[x, y])
    b.free(start, zeros, count)
    return b.build(picked, total)


def _without_value(language: wir.Language) -> wir.Program:
    """Choose by a quotient that has no value when the program runs."""
    b = ProgramBuilder()
    x, y, cell = b.input(_SMALL), b.input(_SMALL), b.input(CELL)
    u0 = b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=9)
    kernels = _ChoiceKernels(b, language)
    quotient = wir.floordiv(16, COUNT - 4)
    tree = _where(wir.compare(wir.ExprOp.GT, quotient, 2), _DOUBLE, _ZERO)
    out = b.allocate(_SMALL)
    b.call(kernels.three_ways(wir.ComputedChoice(tree)), x, y, out, u0 - u0 + 4)
    return b.build(out)


def selection_cases(language: wir.Language) -> tuple[Case, ...]:
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


def kernel_selection_cases(language: wir.Language) -> tuple[Case, ...]:
    """Return the programs without operators of which others have twins with operators."""
    program = _blocks(language, kernels_only=True)
    name = f"kernel_selection_in_blocks_{language.value}"
    return (Case(name, program, seeds=(*range(6),)),)
