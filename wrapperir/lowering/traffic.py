"""The memory traffic of a kernel or call: the bytes that it reads and writes."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir.ir import Expr, TensorType, TouchedElements, symbols_in
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol, SizeSymbols
from wrapperir.lowering.loops import (
    ExternCall,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import KernelSequence, LoopKernel
from wrapperir.lowering.substitution import instructions, results


@frozen
class Traffic:
    """Bytes that are read and written, each element of a buffer once at most."""

    read: int
    written: int


def item_traffic(
    item: KernelLaunch | ExternCall,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
) -> Traffic:
    """Return the traffic of an item of a schedule, for typical values of ``symbols``.

    What a kernel stores and loads again is not read.  A store that combines with memory
    reads it, too.
    """
    sizes = TypicalSizes(symbols)
    if isinstance(item, ExternCall):
        given = {view.buffer: view.type for _, view in item.arguments}
        read = sum(map(sizes.bytes, given.values()))
        return Traffic(read, sum(sizes.bytes(buffers[name]) for name in item.writes))
    pairs = zip(item.kernel.symbols, item.symbols, strict=True)
    own_sizes = {own.name: symbols.get(name, SizeSymbol()) for own, name in pairs}
    touched = _touched_by_nest(item.kernel.nest, TypicalSizes(own_sizes))
    totals = [0, 0]
    for own, name in zip(item.kernel.buffers, item.buffers, strict=True):
        for place, counts in enumerate(touched):
            bytes = counts.get(own.name, 0) * own.type.dtype.itemsize
            totals[place] += min(bytes, sizes.bytes(buffers[name]))
    return Traffic(*totals)


def touched_elements(kernel: LoopKernel | KernelSequence) -> TouchedElements | None:
    """Return the elements that a call of a kernel touches, by its parameters.

    ``None`` if they depend on size symbols.  What the parts of a sequence read or write of
    a buffer counts together, up to the whole of it.
    """
    if kernel.symbols:
        return None
    names = [each.name for each in kernel.buffers]
    parts = (
        [(kernel, names)]
        if isinstance(kernel, LoopKernel)
        else [
            (part.kernel, [names[place] for place in part.buffers]) for part in kernel.parts
        ]
    )
    totals = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for part, given in parts:
        own = dict(zip((each.name for each in part.buffers), given, strict=True))
        touched = _touched_by_nest(part.nest, TypicalSizes({}))
        for counts, total in zip(touched, totals, strict=True):
            for name, count in counts.items():
                total[own[name]] += count
    read, written = totals
    for buffer in kernel.buffers:
        size, name = buffer.type.size[0], buffer.name
        if isinstance(size, int):
            read[name] = min(read[name], size) if buffer.access.reads else 0
            written[name] = min(written[name], size)
    return TouchedElements(read, written)


def _touched_by_nest(
    nest: Nest, sizes: TypicalSizes
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many elements of each buffer are read, and how many are written."""
    read: dict[tuple[str, tuple[Expr, ...]], int] = {}
    written: dict[tuple[str, tuple[Expr, ...]], int] = {}
    values = {name for each in instructions(nest.body) for name in results(each)}
    for step in nest.body:
        axes = {axis.name: axis for axis in nest.axes}
        code: tuple[Instruction, ...] = ()
        if isinstance(step, InnerLoop):
            axes.update({axis.name: axis for axis in step.axes})
            code = step.body
        else:
            code = (step,)
        for each in code:
            if not isinstance(each, Load | Store):
                continue
            names = {name for part in each.index for name in symbols_in(part)}
            used = axes if names & values else axes.keys() & names
            key = (each.buffer, each.index)
            count = sizes.points(axes[name] for name in used)
            if isinstance(each, Store):
                if each.mode is not StoreMode.OVERWRITE:
                    read[key] = count
                written[key] = count
            elif key not in written:
                read[key] = count
    return _by_buffer(read), _by_buffer(written)


def _by_buffer(counts: Mapping[tuple[str, tuple[Expr, ...]], int]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (name, _), count in counts.items():
        totals[name] = totals.get(name, 0) + count
    return totals
