"""Loads, stores, atomic updates and checks of a kernel."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from wrapperir.ir import DType, Expr, symbols_in
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.substitution import (
    index_of,
    instructions,
    operands,
    results,
)
from wrapperir.lowering.triton.dtypes import TYPES, number_text
from wrapperir.lowering.triton.index_code import IndexWriter
from wrapperir.lowering.triton.tile import BlockDimension
from wrapperir.lowering.triton.writer import BlockValue, Writer, joined

_ATOMIC: Mapping[StoreMode, str] = {
    StoreMode.ADD: "tl.atomic_add",
    StoreMode.MIN: "tl.atomic_min",
    StoreMode.MAX: "tl.atomic_max",
}

FAILED = "an index is out of range"
"""The message of an assertion."""


@frozen
class _Guard:
    """A check that was made: what it was computed from, and its condition."""

    sources: frozenset[str]
    condition: BlockValue


class MemoryCode:
    """Writes what accesses memory.

    Elements outside of the tile's extents are masked.  So are accesses at positions that a
    check found to be out of range: a kernel goes on after a check that fails.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        writer: Writer,
        index: IndexWriter,
        values: Mapping[str, BlockValue],
    ) -> None:
        """Begin with no access made."""
        self._kernel = kernel
        self._writer = writer
        self._index = index
        self._values = values
        self._buffers = {buffer.name: buffer.type for buffer in kernel.buffers}
        steps = list(instructions(kernel.nest.body))
        self._written = {step.buffer for step in steps if isinstance(step, Store)}
        self._defined = {name for step in steps for name in results(step)}
        self._has_loops = any(isinstance(step, InnerLoop) for step in kernel.nest.body)
        self._versions: dict[str, int] = {}
        # What was accessed since threads last waited for each other.
        self._is_read: set[str] = set()
        self._is_stored: set[str] = set()
        self._checks = 0
        self._guards: list[_Guard] = []
        has_checks = any(isinstance(step, Check) for step in steps)
        self._sources = _sources(steps) if has_checks else {}
        self._loop: BlockDimension | None = None
        self._here = 0
        self._reads_left = _reads_by_loop(kernel.nest)

    def begin_loop(self, number: int, dim: BlockDimension) -> None:
        """Take the instructions of an inner loop, the step of this number."""
        self._loop = dim
        self._here = number

    def end_loop(self) -> None:
        """Take instructions that are in no inner loop."""
        self._loop = None

    def may_precede(self, step: Load) -> bool:
        """Say whether a load needs no value of the nest, and reads what nothing writes."""
        is_plain = self._defined.isdisjoint(_index_names(step.index))
        return is_plain and step.mask is None and step.buffer not in self._written

    def load(self, step: Load) -> BlockValue:
        """Return the value of a load."""
        offset = self._index.offset(step.index, self._buffers[step.buffer].stride)
        selecting = self._selecting(step.mask, _index_names(step.index))
        offset, masks = self._masked(offset, offset.dims, selecting)
        options = [mask.text for mask in masks[:1]]
        is_factor = self._loop is not None and self._kernel.tiling.multiplies
        if masks and (step.mask is not None or is_factor):
            options.append(f"other={number_text(step.other, step.dtype)}")
        hint = self._hint(step.buffer, offset)
        if hint is not None:
            options.append(f'eviction_policy="{hint}"')
        pointer = _pointer(step.buffer, offset)
        text = f"tl.load({', '.join([pointer, *options])})"
        level = max(value.level for value in (offset, *masks))
        if level != self._writer.level and not self._may_hoist(step.buffer):
            level = self._writer.level
        version = self._versions.get(step.buffer, 0)
        if step.buffer in self._is_stored:
            self._wait()
        self._is_read.add(step.buffer)
        value = BlockValue(text, step.dtype, offset.dims, level)
        return self._writer.define(value, step.result, f"{text} #{version}")

    def store(self, step: Store) -> None:
        """Write a store."""
        offset = self._index.offset(step.index, self._buffers[step.buffer].stride)
        value = self._values[step.value]
        dims = offset.dims | value.dims
        if step.mode is not StoreMode.OVERWRITE:  # each point counts
            loop = () if self._loop is None else (self._loop,)
            dims = frozenset((*self._writer.tile.parallel, *loop))
        selecting = self._selecting(step.mask, _index_names(step.index))
        offset, masks = self._masked(offset, dims, selecting)
        pointer = _pointer(step.buffer, offset)
        mask = masks[0].text if masks else None
        if self._has_loops and step.buffer in self._is_read:
            self._wait()
        if step.mode in (StoreMode.MIN, StoreMode.MAX) and value.dtype.is_float:
            self._store_extreme(step.mode, pointer, value, mask)
        else:
            self._writer.add(_format_store(step.mode, pointer, value.text, mask))
        self._versions[step.buffer] = self._versions.get(step.buffer, 0) + 1
        self._is_stored.add(step.buffer)

    def _wait(self) -> None:
        """Have the threads of a program wait for each other's accesses.

        Several threads may load an element that one stores, or one that another stored.
        """
        self._writer.add("tl.debug_barrier()")
        self._is_read.clear()
        self._is_stored.clear()

    def check(self, step: Check) -> None:
        """Write a check: in the fault buffer, if there is one, or by an assertion."""
        self._checks += 1
        condition = self._values[step.condition]
        names = [step.condition]
        if step.mask is not None:
            mask = self._values[step.mask]
            names.append(step.mask)
            inverse = BlockValue(f"({mask.text} == 0)", DType.BOOL, mask.dims, mask.level)
            condition = joined([condition, inverse], "|", DType.BOOL)
            condition = self._writer.define(condition)
        if self._kernel.fault is None:
            self._write_assertion(condition)
        else:
            self._write_fault(self._kernel.fault.name, condition)
        self._guards.append(_Guard(self._all_sources(names), condition))

    def _write_assertion(self, condition: BlockValue) -> None:
        masks = self._writer.mask(condition.dims)
        text = f'{condition.text}, "{FAILED}"'
        if masks:
            text += f", {joined(masks, '&', DType.BOOL).text}"
        self._writer.add(f"tl.device_assert({text})")

    def _write_fault(self, name: str, condition: BlockValue) -> None:
        fails = BlockValue(
            f"({condition.text} == 0)", DType.BOOL, condition.dims, condition.level
        )
        fails = self._writer.define(fails)
        offset, masks = self._masked(BlockValue("0", DType.I32), fails.dims, [fails])
        pointer = f"{name} + {offset.text}" if offset.dims else name
        self._writer.add(f"tl.store({pointer}, {self._checks}, {masks[0].text})")

    def _store_extreme(
        self, mode: StoreMode, pointer: str, value: BlockValue, mask: str | None
    ) -> None:
        """Write an atomic minimum or maximum of real numbers, in which NaN wins.

        The hardware compares bits: a NaN with the sign is the least, one without the
        greatest.  A NaN of the other sign that was in memory is put back.
        """
        bits = 8 * value.dtype.itemsize
        quiet = 0x7FC00000 if bits == 32 else 0x7FF8000000000000
        if mode is StoreMode.MIN:
            quiet |= 1 << bits - 1
        text = f"tl.full([], {quiet}, tl.uint{bits}).to({TYPES[value.dtype]}, bitcast=True)"
        nan = self._writer.define(BlockValue(text, value.dtype)).text
        given = f"tl.where({value.text} != {value.text}, {nan}, {value.text})"
        before = self._writer.names.fresh("before")
        self._writer.add(f"{before} = {_format_store(mode, pointer, given, mask)}")
        was_nan = f"{before} != {before}"
        both = was_nan if mask is None else f"({was_nan}) & {mask}"
        self._writer.add(_format_store(mode, pointer, nan, both))

    def _selecting(self, mask: str | None, names: Iterable[str]) -> list[BlockValue]:
        """Return the masks of an access beside those of the tile."""
        found = [] if mask is None else [self._values[mask]]
        if self._guards:
            sources = self._all_sources(names)
            found += [g.condition for g in self._guards if g.sources & sources]
        return found

    def _masked(
        self,
        offset: BlockValue,
        dims: frozenset[BlockDimension],
        selecting: Sequence[BlockValue],
    ) -> tuple[BlockValue, list[BlockValue]]:
        """Return an offset in the shape of an access, and its mask, if it has one."""
        dims = dims.union(*(value.dims for value in selecting))
        masks = [*self._writer.mask(dims), *selecting]
        if offset.dims != dims:
            level = max([offset.level, *(self._writer.level_of(dim) for dim in dims)])
            text = f"tl.zeros({self._writer.shape(dims)}, tl.int32)"
            if offset.text != "0":
                text = f"({offset.text}) + {text}"
            offset = BlockValue(text, offset.dtype, dims, level)
        if not masks:
            return offset, []
        return offset, [joined(masks, "&", DType.BOOL)]

    def _may_hoist(self, buffer: str) -> bool:
        """Say whether a load may move out of the loop that is open.

        What is read must not change, and a loop that never runs must read nothing.
        """
        if buffer in self._written:
            return False
        extent = None if self._loop is None else self._loop.extent
        return isinstance(extent, int) and extent > 0

    def _hint(self, buffer: str, offset: BlockValue) -> str | None:
        """Return the eviction policy of a load: what is read again stays in the cache."""
        if not self._has_loops or self._kernel.tiling.multiplies:
            return None
        loop = () if self._loop is None else (self._loop,)
        dims = {d for d in (*self._writer.tile.parallel, *loop) if d.extent != 1}
        if offset.dims and dims - offset.dims:
            return "evict_last"
        if self._loop is None or self._loop.is_held or self._loop not in offset.dims:
            return None
        is_last = buffer not in self._reads_left.get(self._here, frozenset())
        return "evict_first" if is_last else "evict_last"

    def _all_sources(self, names: Iterable[str]) -> frozenset[str]:
        """Return all values that values are computed from, themselves too."""
        found: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in self._sources and name not in found:
                found.add(name)
                pending += self._sources[name]
        return frozenset(found)


def _format_store(mode: StoreMode, pointer: str, value: str, mask: str | None) -> str:
    arguments = [pointer, value, *([] if mask is None else [mask])]
    if mode is not StoreMode.OVERWRITE:
        arguments.append('sem="relaxed"')
    return f"{_ATOMIC.get(mode, 'tl.store')}({', '.join(arguments)})"


def _pointer(buffer: str, offset: BlockValue) -> str:
    if offset.text == "0":
        return buffer
    is_atom = offset.text.isidentifier() or offset.text.isdigit()
    return f"{buffer} + {offset.text if is_atom else f'({offset.text})'}"


def _index_names(index: Sequence[Expr]) -> list[str]:
    return [name for expr in index for name in symbols_in(expr)]


def _sources(steps: Iterable[Instruction]) -> dict[str, tuple[str, ...]]:
    """Return, for values but constants, the names that each is computed from."""
    return {
        step.result: (*_index_names(index_of(step)), *operands(step))
        for step in steps
        if isinstance(step, IndexValue | Load | Apply)
    }


def _reads_by_loop(nest: Nest) -> dict[int, frozenset[str]]:
    """Return the buffers that are read after each inner loop."""
    found: dict[int, frozenset[str]] = {}
    later: set[str] = set()
    for number in reversed(range(len(nest.body))):
        step = nest.body[number]
        found[number] = frozenset(later)
        body = step.body if isinstance(step, InnerLoop) else (step,)
        later.update(part.buffer for part in body if isinstance(part, Load))
    return found
