"""Make kernels of nests: names are normalised, accesses become linear.

A kernel's buffers are one-dimensional: the index of each access is its distance, in
elements, from the buffer's address.  So kernels that differ only in names, in how a shape
is split into dimensions, or in messages, are equal and are defined once.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import evolve, field, frozen

from wrapperir.analysis.arithmetic import Interval
from wrapperir.ir import (
    CPU,
    Access,
    DType,
    Expr,
    NodeOrigin,
    ScalarParameter,
    Symbol,
    TensorType,
    storage_extent,
    symbols_in,
)
from wrapperir.lowering.indexing import IndexRanges, distance, is_whole
from wrapperir.lowering.loops import (
    Axis,
    Check,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import KernelBuffer, LoopKernel, Tiling
from wrapperir.lowering.substitution import (
    Substitution,
    all_axes,
    instructions,
    map_steps,
    names_used,
    results,
)

_LONGEST_SHORT = (1 << 31) - (1 << 21)


@frozen(kw_only=True)
class KernelLaunch:
    """A kernel and its arguments.

    ``buffers`` and ``symbols`` are the names in the graph, one for each of the kernel's
    buffers and symbols.  ``messages`` are those of the nest's checks, in order, and
    ``checked`` what each of these comes from.  ``origins`` are all that the kernel
    computes, and ``stored`` what it computes for a buffer, where that is less.
    ``in_place`` are results, each with the buffer whose memory it takes.
    """

    kernel: LoopKernel
    buffers: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    checked: tuple[tuple[NodeOrigin, ...], ...] = ()
    origins: tuple[NodeOrigin, ...] = ()
    stored: Mapping[str, tuple[NodeOrigin, ...]] = field(
        factory=dict[str, tuple[NodeOrigin, ...]], eq=False
    )
    in_place: tuple[tuple[str, str], ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """The buffers that the kernel writes."""
        pairs = zip(self.buffers, self.kernel.buffers, strict=True)
        return tuple(name for name, buffer in pairs if buffer.access.writes)

    def origins_of(self, buffer: str) -> tuple[NodeOrigin, ...]:
        """Return what the kernel computes, for a buffer that it writes."""
        return self.stored.get(buffer, self.origins)


@frozen(kw_only=True)
class SizeSymbol:
    """What is known of a size symbol: its kind, its range, and a typical value.

    ``high`` is ``None`` where nothing bounds it.
    """

    dtype: DType = DType.I64
    low: int = 0
    high: int | None = None
    hint: int = 64


SizeSymbols: TypeAlias = Mapping[str, SizeSymbol]


def symbol_intervals(symbols: SizeSymbols) -> dict[str, Interval]:
    """Return the interval of each size symbol."""
    return {
        name: (symbol.low, float("inf") if symbol.high is None else symbol.high)
        for name, symbol in symbols.items()
    }


def linear_accesses(
    nest: Nest, buffers: Mapping[str, TensorType], symbols: SizeSymbols
) -> Nest:
    """Return a nest with one index expression for each access: the element's distance."""
    axes = all_axes(nest.axes, nest.body)
    ranges = IndexRanges.of_axes(axes, symbol_intervals(symbols))

    def linear(instruction: Instruction) -> Instruction:
        if not isinstance(instruction, Load | Store):
            return instruction
        offset = distance(instruction.index, buffers[instruction.buffer].stride)
        return evolve(instruction, index=(ranges.simplify(offset),))

    return evolve(nest, body=map_steps(nest.body, linear))


def flat_type(type: TensorType) -> TensorType:
    """Return the type of a buffer's memory as one dimension."""
    return evolve(type, size=(storage_extent(type),), stride=(1,), offset=0)


def kernel_of(
    nest: Nest, tiling: Tiling, buffers: Mapping[str, TensorType], symbols: SizeSymbols
) -> KernelLaunch:
    """Return the kernel of a nest with linear accesses, and the arguments of its launch.

    The kernel has no name yet.
    """
    code = list(instructions(nest.body))
    accesses = _accesses(code)
    values: dict[str, str] = {}
    for instruction in code:
        for name in results(instruction):
            values[name] = f"v{len(values)}"
    axes = {axis.name: f"i{n}" for n, axis in enumerate(nest.axes)}
    for axis in all_axes((), nest.body):
        axes.setdefault(axis.name, f"r{len(axes) - len(nest.axes)}")
    names: dict[str, str] = {}
    prefix = {Access.READ: "in", Access.WRITE: "out", Access.READ_WRITE: "inout"}
    for access in (Access.READ, Access.READ_WRITE, Access.WRITE):
        found = [name for name, how in accesses.items() if how is access]
        names.update({name: f"{prefix[access]}{n}" for n, name in enumerate(found)})
    extents = [axis.extent for axis in all_axes(nest.axes, nest.body)]
    mentioned = [name for each in code for name in names_used(each)]
    mentioned += [name for extent in extents for name in symbols_in(extent)]
    used = dict.fromkeys(n for n in mentioned if n not in values and n not in axes)
    sizes = {name: f"n{n}" for n, name in enumerate(used)}
    renamed: dict[str, Expr] = {
        name: Symbol(new) for name, new in {**axes, **sizes}.items()
    }
    rename = Substitution(values, renamed, names)
    renamed_steps = map_steps(
        nest.body, lambda each: _without_message(rename.instruction(each))
    )
    body = tuple(
        evolve(step, axes=_renamed_axes(step.axes, axes, rename))
        if isinstance(step, InnerLoop)
        else step
        for step in renamed_steps
    )
    checks = [each for each in code if isinstance(each, Check)]
    device = buffers[next(iter(names))].device if names else CPU
    extents = [axis.extent for axis in all_axes(nest.axes, nest.body)]
    extents += [storage_extent(buffers[name]) for name in names]
    is_short = device.kind != "cpu" and _are_short(extents, symbols)
    kernel = LoopKernel(
        name="",
        buffers=tuple(
            KernelBuffer(
                name=new,
                type=_with_sizes(flat_type(buffers[name]), sizes),
                access=accesses[name],
            )
            for name, new in names.items()
        ),
        symbols=tuple(
            ScalarParameter(new, _symbol_dtype(symbols.get(name), is_short=is_short))
            for name, new in sizes.items()
        ),
        fault=_fault_buffer() if checks and device.kind == "cpu" else None,
        nest=Nest(name="", axes=_renamed_axes(nest.axes, axes, rename), body=body),
        tiling=evolve(
            tiling,
            blocks=tuple(tuple(axes[axis] for axis in block) for block in tiling.blocks),
        ),
    )
    return KernelLaunch(
        kernel=kernel,
        buffers=tuple(names),
        symbols=tuple(sizes),
        messages=tuple(each.message for each in checks),
        checked=tuple(each.origins or nest.origins for each in checks),
        origins=nest.origins,
        stored=nest.stored,
    )


def _are_short(extents: Iterable[Expr], symbols: SizeSymbols) -> bool:
    """Say whether sizes are known to fit 32 bits, with a tile that reaches beyond them."""
    ranges = IndexRanges({}, symbol_intervals(symbols))
    return all(ranges.interval(extent)[1] <= _LONGEST_SHORT for extent in extents)


def _symbol_dtype(symbol: SizeSymbol | None, *, is_short: bool) -> DType:
    dtype = DType.I64 if symbol is None else symbol.dtype
    return DType.I32 if is_short and dtype is DType.I64 else dtype


def _accesses(code: Iterable[Instruction]) -> dict[str, Access]:
    """Return the access to each buffer; what was stored before is not read."""
    found: dict[str, Access] = {}
    stored: set[tuple[str, tuple[Expr, ...]]] = set()
    for instruction in code:
        if isinstance(instruction, Load):
            if (instruction.buffer, instruction.index) in stored:
                continue
            now = Access.READ
        elif isinstance(instruction, Store):
            plain = instruction.mode is StoreMode.OVERWRITE
            now = Access.WRITE if plain else Access.READ_WRITE
            if plain and instruction.mask is None:
                stored.add((instruction.buffer, instruction.index))
        else:
            continue
        before = found.setdefault(instruction.buffer, now)
        if before is not now:
            found[instruction.buffer] = Access.READ_WRITE
    return found


def _renamed_axes(
    axes: Iterable[Axis], names: Mapping[str, str], rename: Substitution
) -> tuple[Axis, ...]:
    return tuple(Axis(names[axis.name], rename.index(axis.extent)) for axis in axes)


def _without_message(instruction: Instruction) -> Instruction:
    if isinstance(instruction, Check):
        return evolve(instruction, message="")
    return instruction


def _with_sizes(type: TensorType, sizes: Mapping[str, str]) -> TensorType:
    """Return a type over the kernel's size symbols, or of unknown size if it lacks some."""
    (size,) = type.size
    if not is_whole(size) or any(name not in sizes for name in symbols_in(size)):
        return evolve(type, size=(Symbol("unknown"),))
    rename = Substitution(indices={name: Symbol(new) for name, new in sizes.items()})
    return evolve(type, size=(rename.index(size),))


def _fault_buffer() -> KernelBuffer:
    type = TensorType(dtype=DType.I32, size=(1,), stride=(1,))
    return KernelBuffer(name="fault", type=type, access=Access.READ_WRITE)
