"""The body of a kernel: instructions of a nest, each as lines over a tile of its points."""

from collections.abc import Mapping, Sequence

from attrs import define, evolve, field

from wrapperir.ir import DType, Symbol
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Reduce,
    Scan,
    Store,
)
from wrapperir.lowering.matrix_product import find_product
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import all_axes, instructions, results
from wrapperir.lowering.triton.dtypes import TYPES
from wrapperir.lowering.triton.folds import ExtremePlace, Fold
from wrapperir.lowering.triton.index_code import IndexWriter
from wrapperir.lowering.triton.launch_rules import has_whole_vectors
from wrapperir.lowering.triton.memory import MemoryCode
from wrapperir.lowering.triton.moments import Moments, Softmax
from wrapperir.lowering.triton.quotients import has_shared_divisor, shared_quotient
from wrapperir.lowering.triton.reduction import Reduction
from wrapperir.lowering.triton.scalar_code import scalar_code
from wrapperir.lowering.triton.scans import write_scan
from wrapperir.lowering.triton.tile import BlockDimension
from wrapperir.lowering.triton.writer import LOOP, BlockValue, Writer

_REDUCTIONS: Mapping[ReduceOp, type[Reduction]] = {
    ReduceOp.ARGMIN: ExtremePlace,
    ReduceOp.ARGMAX: ExtremePlace,
    ReduceOp.WELFORD: Moments,
    ReduceOp.ONLINE_SOFTMAX: Softmax,
}
_LONGEST_LOADED = 4096
_LEAST_SPLIT = 4096
"""Points of a loop whose whole blocks are worth a loop of their own."""
_INT32 = (-(1 << 31), (1 << 31) - 1)


@define
class KernelBody:
    """Writes the instructions of a kernel's nest."""

    kernel: LoopKernel
    writer: Writer
    ranges: IndexRanges
    is_wide: bool
    values: dict[str, BlockValue] = field(factory=dict[str, BlockValue], init=False)
    index: IndexWriter = field(init=False)
    memory: MemoryCode = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the writers of indices and of memory accesses."""
        symbols = {symbol.name: symbol.dtype for symbol in self.kernel.symbols}
        self.index = IndexWriter(
            self.writer, self.ranges, symbols, self.values, self.is_wide
        )
        self.memory = MemoryCode(self.kernel, self.writer, self.index, self.values)

    def write(self) -> None:
        """Write the whole body."""
        self._write_parallel_indices()
        held: set[BlockDimension] = set()
        for number, step in enumerate(self.kernel.nest.body):
            if isinstance(step, InnerLoop) and self.writer.tile.right is not None:
                self._write_product(step, number, self.writer.tile.right)
            elif isinstance(step, InnerLoop):
                self._write_loop(step, number, held)
            else:
                self._write_instruction(step)

    def _write_product(self, loop: InnerLoop, number: int, right: BlockDimension) -> None:
        """Write the loop of a product of matrices, which adds that of two blocks a time."""
        writer, nest = self.writer, self.kernel.nest
        left = writer.tile.loops[loop.axes]
        whole = frozenset(dim for dim in writer.tile.parallel if not dim.is_single)
        product = find_product(list(instructions(nest.body)), nest.axes, loop.axes)
        assert product is not None
        if set(product.rows) != set(writer.tile.parallel[-2].axes):
            product = product.transposed
        total = writer.names.fresh("total")
        writer.add(f"{total} = tl.zeros({writer.shape(whole)}, tl.float32)")
        extent = self.index.text(left.extent).text
        offset = writer.names.fresh("offset")
        bases = {dim: self._base(dim) for dim in (left, right)}
        factors: list[str] = []
        with writer.loop((f"for {offset} in range(0, {extent}, {left.block}):", {})):
            for dim, name, code in (
                (left, product.left, product.left_code),
                (right, product.right, product.right_code),
            ):
                self.index.enter(dim, loop.axes)
                self.memory.begin_loop(number, dim)
                self._write_index(dim, f"{offset} + {bases[dim]}", extent)
                for step in loop.body:
                    if step in code:
                        self._write_instruction(step)
                factors.append(self._factor(name, dim).text)
            sums = [each for each in loop.body if product.total in results(each)]
            with writer.computing(sums[0].origins):
                writer.add(f"{total} = tl.dot({', '.join(factors)}, {total})")
        self.memory.end_loop()
        self.values[product.total] = BlockValue(total, DType.F32, whole)

    def _base(self, dim: BlockDimension) -> str:
        """Return the name of the places of lanes in the first block of a dimension."""
        text = self.writer.column(f"tl.arange(0, {dim.block})", dim.place)
        kind = ".to(tl.int64)" if self.is_wide else ""
        value = BlockValue(f"{text}{kind}", DType.I32)
        return self.writer.define(value, f"{dim.index}base").text

    def _factor(self, name: str, dim: BlockDimension) -> BlockValue:
        """Return an operand of a product as a whole block, with zeros beyond its end."""
        writer = self.writer
        (across,) = (
            other
            for other in writer.tile.parallel
            if not other.is_single and other.place != dim.place
        )
        value = writer.broadcast(self.values[name], frozenset({across, dim}))
        if not writer.is_masked(dim):
            return value
        text = f"tl.where({dim.mask}, {value.text}, 0.0)"
        return writer.define(evolve(value, text=text, level=LOOP))

    def _write_parallel_indices(self) -> None:
        """Define the index of each parallel dimension; the last varies fastest."""
        dims = self.writer.tile.parallel
        first = dims[0] if dims else None
        kind = ".to(tl.int64)" if self.is_wide else ""
        rest = f"tl.program_id(0){kind}"
        if len(dims) > 1:
            rest = self.writer.define(BlockValue(rest, DType.I32), "program").text
        for dim in reversed(dims):
            here = rest
            extent = self.index.text(dim.extent).text
            if dim is not first:
                count = self.writer.define(
                    BlockValue(f"tl.cdiv({extent}, {dim.block})", DType.I32), "count"
                ).text
                here = f"({rest} % {count})"
                rest = f"{rest} // {count}"
            elif len(dims) > 1:
                here = f"({rest})"
            if dim.is_single:
                self.writer.add(f"{dim.index} = {here}")
            else:
                lanes = self.writer.column(f"tl.arange(0, {dim.block})", dim.place)
                self._write_index(dim, f"{here} * {dim.block} + {lanes}", extent)
            self.index.enter(dim, dim.axes)

    def _write_index(self, dim: BlockDimension, text: str, extent: str) -> None:
        self.writer.add(f"{dim.index} = {text}")
        if self.writer.is_masked(dim):
            self.writer.add(_mask_line(dim, extent))

    def _write_loop(self, loop: InnerLoop, number: int, held: set[BlockDimension]) -> None:
        dim = self.writer.tile.loops[loop.axes]
        writer = self.writer
        extent = self.index.text(dim.extent).text
        lanes = writer.column(f"tl.arange(0, {dim.block})", dim.place)
        kind = ".to(tl.int64)" if self.is_wide else ""
        writer.extents[dim] = extent
        if dim.is_held and dim not in held:
            held.add(dim)
            self._write_index(dim, f"{lanes}{kind}", extent)
            self._write_loads(dim, number)
        self.index.enter(dim, loop.axes)
        self.memory.begin_loop(number, dim)
        if dim.is_held:
            for step in loop.body:
                with writer.computing(step.origins):
                    self._write_in_loop(step, dim, loop.axes)
        else:
            base = self._base(dim)
            offset = writer.names.fresh(f"{dim.index}offset")
            reductions: list[Reduction] = []
            with writer.loop(*self._loop_heads(dim, offset, extent)):
                self._write_index(dim, f"{offset} + {base}", extent)
                for step in loop.body:
                    with writer.computing(step.origins):
                        found = self._write_in_loop(step, dim, loop.axes, offset)
                    if found is not None:
                        reductions.append(found)
            for reduction in reductions:
                with writer.computing(reduction.step.origins):
                    self.values.update(reduction.finish())
        self.memory.end_loop()

    def _loop_heads(
        self, dim: BlockDimension, offset: str, extent: str
    ) -> list[tuple[str, Mapping[str, str]]]:
        """Return the head of a loop over blocks, or of two: over whole ones, and the rest.

        A mask that may end anywhere keeps a thread from loading several elements at once,
        also in blocks where it is true for all.
        """

        def head(first: str, end: str) -> str:
            return f"for {offset} in range({first}, {end}, {dim.block}):"

        count = dim.extent
        is_long = isinstance(count, int) and count >= _LEAST_SPLIT
        is_split = is_long and not has_whole_vectors(count)
        if not is_split or not self.writer.is_masked(dim):
            return [(head("0", extent), {})]
        whole = f"{extent} // {dim.block} * {dim.block}"
        all_true = f"{dim.mask} = tl.full({self.writer.shape((dim,))}, 1, tl.int1)"
        tested = _mask_line(dim, extent)
        return [(head("0", whole), {tested: all_true}), (head(whole, extent), {})]

    def _write_loads(self, dim: BlockDimension, number: int) -> None:
        """Write the loads of a row that is held, for all loops over it from ``number`` on.

        The compiler moves no load over a reduction, which would wait for memory again.
        Longer rows would take the registers of too many threads.
        """
        if not isinstance(dim.extent, int) or dim.extent > _LONGEST_LOADED:
            return
        for place, step in enumerate(self.kernel.nest.body[number:], number):
            if isinstance(step, InnerLoop) and self.writer.tile.loops[step.axes] is dim:
                self.index.enter(dim, step.axes)
                self.memory.begin_loop(place, dim)
                for part in step.body:
                    if isinstance(part, Load) and self.memory.may_precede(part):
                        with self.writer.computing(part.origins):
                            self.memory.load(part)

    def _write_in_loop(
        self, step: Instruction, dim: BlockDimension, axes: Sequence[Axis], offset: str = ""
    ) -> Reduction | None:
        """Write an instruction of an inner loop; return a reduction to be finished."""
        match step:
            case Reduce():
                kind = _REDUCTIONS.get(step.op, Fold)
                operands = tuple([self.values[name] for name in step.operands])
                reduction = kind(step, self.writer, dim, operands)
                if dim.is_held:
                    self.values.update(reduction.whole())
                    return None
                reduction.accumulate(offset)
                return reduction
            case Scan():
                operands = tuple([self.values[name] for name in step.operands])
                place = self.index.text(Symbol(axes[-1].name))
                is_in_parts = any(axis.extent != 1 for axis in axes[:-1])
                found = write_scan(
                    step, self.writer, dim, operands, place, is_in_parts=is_in_parts
                )
                self.values.update(found)
            case Literal() | IndexValue() | Load() | Apply() | Store() | Check():
                self._write_statement(step)
        return None

    def _write_instruction(self, step: Instruction) -> None:
        with self.writer.computing(step.origins):
            self._write_statement(step)

    def _write_statement(self, step: Instruction) -> None:
        match step:
            case Literal():
                self.values[step.result] = self.writer.constant(step.value, step.dtype)
            case IndexValue():
                self._write_index_value(step)
            case Load():
                self.values[step.result] = self.memory.load(step)
            case Apply():
                self._write_apply(step)
            case Store():
                self.memory.store(step)
            case Check():
                self.memory.check(step)
            case Reduce() | Scan():
                raise AssertionError("reductions and scans are in inner loops")

    def _write_index_value(self, step: IndexValue) -> None:
        low, high = self.ranges.interval(step.expr)
        is_short = _INT32[0] <= low and high <= _INT32[1]
        code = self.index.text(step.expr, is_wide=not is_short)
        kind = TYPES[step.dtype]
        text = f"tl.full([], {code.text}, {kind})"
        if code.dims:
            text = f"({code.text}).to({kind})"
        value = BlockValue(text, step.dtype, code.dims, code.level)
        self.values[step.result] = self.writer.define(value, step.result)

    def _write_apply(self, step: Apply) -> None:
        operands = [self.values[name] for name in step.operands]
        if step.op is ScalarOp.DIV and has_shared_divisor(*operands):
            value = shared_quotient(self.writer, *operands)
            self.values[step.result] = self.writer.define(value, step.result)
            return
        code = scalar_code(
            step.op, [value.text for value in operands], operands[-1].dtype, step.dtype
        )
        assert code is not None, f"{step.op} of {operands[-1].dtype}"
        dims = frozenset[BlockDimension]().union(*(value.dims for value in operands))
        level = max(value.level for value in operands)
        value = BlockValue(code, step.dtype, dims, level)
        self.values[step.result] = self.writer.define(value, step.result)


def _mask_line(dim: BlockDimension, extent: str) -> str:
    return f"{dim.mask} = {dim.index} < {extent}"


def index_ranges(kernel: LoopKernel) -> IndexRanges:
    """Return the ranges of a kernel's axes and of its sizes."""
    sizes = {symbol.name: (0, float("inf")) for symbol in kernel.symbols}
    return IndexRanges.of_axes(all_axes(kernel.nest.axes, kernel.nest.body), sizes)
