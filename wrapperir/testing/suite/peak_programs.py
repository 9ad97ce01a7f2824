"""Programs that fill large buffers in turn, and free each when the next one is filled.

Code that keeps memory until a program ends holds all of the buffers at once.
"""

from collections.abc import Callable, Mapping

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, Operand, ProgramBuilder
from wrapperir.testing.cell_kernels import count_kernel
from wrapperir.testing.conformance_case import CELL, SmallKernels

SMALL, LARGE = 4, 2048
"""Rows of programs that load modules, and of those that are measured."""
_BUFFERS = 8
_COLUMNS = 1024


def large_bytes(rows: int) -> int:
    """Return the bytes of each buffer of programs with so many rows."""
    return rows * _COLUMNS * wir.DType.F32.itemsize


def peak_programs(
    language: wir.Language, rows: int, *, counting: bool
) -> Mapping[str, wir.Program]:
    """Return programs with buffers of so many rows, by the names of their cases.

    A ``counting`` one writes the most bytes that the C library has given out into its
    first input, a cell.
    """
    return {
        name: fill(_Filling(language, rows, counting=counting))
        for name, fill in _PROGRAMS.items()
    }


class _Filling:
    """A program, its inputs and kernels, and the ways to fill a buffer.

    ``given`` are the buffer to begin with and, in a program that counts, the cell.
    """

    def __init__(self, language: wir.Language, rows: int, *, counting: bool) -> None:
        self.builder = ProgramBuilder()
        self.language = language
        self._kernels = SmallKernels(self.builder, language)
        self._count = rows * _COLUMNS
        self.type = wir.tensor("f32", (rows, _COLUMNS))
        self._flat = wir.tensor("f32", (self._count,))
        self._pool = wir.PoolType(size=large_bytes(rows))
        self._meter = self.builder.kernel(_meter_kernel()) if counting else None
        cells = [self.builder.input(CELL, mutated=True)] if counting else []
        self.given = [self.builder.input(self.type), *cells]

    def plain(
        self, block: BlockBuilder, source: NamedValue, *cells: NamedValue
    ) -> NamedValue:
        """Fill a buffer from another."""
        return self._fill(block, source, block.allocate(self.type), cells)

    def viewed(
        self, block: BlockBuilder, source: NamedValue, *cells: NamedValue
    ) -> NamedValue:
        """Fill a buffer from another, and keep a view of it only."""
        made = self.plain(block, source, *cells)
        view = block.reinterpret(made, self._flat)
        block.free(made)
        return view

    def placed(
        self, block: BlockBuilder, source: NamedValue, *cells: NamedValue
    ) -> NamedValue:
        """Fill a buffer in a pool of its own, whose name is dropped before it."""
        pool = block.allocate_pool(self._pool)
        made = self._fill(block, source, block.place(pool, 0, self.type), cells)
        block.free(pool)
        return made

    def _fill(
        self,
        block: BlockBuilder,
        source: NamedValue,
        out: NamedValue,
        cells: tuple[NamedValue, ...],
    ) -> NamedValue:
        self._kernels.negate(block, source, out, count=self._count)
        if self._meter is not None:
            block.call(self._meter, *cells)
        return out

    def chain(
        self, block: BlockBuilder, *given: NamedValue, fill: "_Fill | None" = None
    ) -> NamedValue:
        """Fill buffers in turn, each from the one before, which is then freed."""
        fill = fill or self.plain
        source, *cells = given
        last = fill(block, source, *cells)
        for _ in range(_BUFFERS - 1):
            following = fill(block, last, *cells)
            block.free(last)
            last = following
        return last


_Fill = Callable[..., NamedValue]


def _buffers(filling: _Filling) -> wir.Program:
    b = filling.builder
    return b.build(filling.chain(b, *filling.given))


def _views(filling: _Filling) -> wir.Program:
    b = filling.builder
    return b.build(filling.chain(b, *filling.given, fill=filling.viewed))


def _pools(filling: _Filling) -> wir.Program:
    b = filling.builder
    return b.build(filling.chain(b, *filling.given, fill=filling.placed))


def _conditional(filling: _Filling) -> wir.Program:
    b = filling.builder
    number = b.input(wir.ScalarType(wir.DType.I64))
    n = b.symbol("n", wir.ValueOf(number.name), lower=1, upper=9)
    test = wir.compare(wir.ExprOp.GT, n, 0)
    results = [filling.type]
    ways = filling.chain, filling.plain
    return b.build(*b.conditional(test, filling.given, *ways, results=results))


def _subgraph(filling: _Filling) -> wir.Program:
    b = filling.builder
    results = [filling.type]
    return b.build(*b.subgraph_call("inner", filling.given, filling.chain, results=results))


def _loop(filling: _Filling) -> wir.Program:
    """Fill a buffer in each iteration: the value of the iteration before goes."""
    b = filling.builder
    count = b.kernel(count_kernel(filling.language))
    cell = b.input(CELL)
    start = b.allocate(CELL)
    b.call(count, cell, start, 0)
    x, *cells = filling.given

    def condition(block: BlockBuilder, i: NamedValue, *given: NamedValue) -> Operand:
        symbol = block.define_symbol("u0", wir.ItemOf(i.name))
        return wir.compare(wir.ExprOp.LT, symbol, _BUFFERS)

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, *lent: NamedValue
    ) -> list[NamedValue]:
        following = block.allocate(CELL)
        block.call(count, i, following, 1)
        return [following, filling.plain(block, p, *lent)]

    i, y = b.while_loop([start, x], condition, body, invariant=cells)
    b.free(start, i)
    return b.build(y)


_PROGRAMS: Mapping[str, Callable[[_Filling], wir.Program]] = {
    "peak_buffers": _buffers,
    "peak_views": _views,
    "peak_pools": _pools,
    "peak_conditional": _conditional,
    "peak_subgraph": _subgraph,
    "peak_loop": _loop,
}


PEAKS = tuple(_PROGRAMS)
"""The names of the cases."""


def _meter_kernel() -> wir.KernelDefinitionLine:
    """Return the C++ kernel that raises a cell to the bytes which glibc has given out."""
    return wir.KernelDefinitionLine(
        name="cpp_bytes_in_use",
        language=wir.Language.CPP,
        parameters=(
            wir.BufferParameter("in_out_ptr0", wir.DType.I64, wir.Access.READ_WRITE),
        ),
        entry="bytes_in_use",
        metadata=(wir.NO_HEADERS,),
        source="#include <malloc.h>\n"
        'extern "C" void bytes_in_use(long* in_out_ptr0) {\n'
        "    const struct mallinfo2 now = mallinfo2();\n"
        "    const long bytes = now.uordblks + now.hblkhd;\n"
        "    if (bytes > in_out_ptr0[0]) in_out_ptr0[0] = bytes;\n"
        "}\n",
    )
