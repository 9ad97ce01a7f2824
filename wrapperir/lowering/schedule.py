"""From a graph of nests, one for each operator, to kernels and calls in order."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import StrEnum
from typing import TypeAlias, Union

from attrs import evolve, field, frozen

from wrapperir.ir import NodeOrigin, TensorType, symbols_in
from wrapperir.lowering.assembly import assemble
from wrapperir.lowering.axes import arrange_axes
from wrapperir.lowering.axis_parts import join_parts
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.explain import FusionDecision
from wrapperir.lowering.flat_nest import FlatNest, flatten
from wrapperir.lowering.fusion import Fusion
from wrapperir.lowering.in_place import BufferLifetimes, overwritten, renamed
from wrapperir.lowering.item_graph import ItemGraph, Node, accessed_buffers
from wrapperir.lowering.item_order import lowest_peak_order
from wrapperir.lowering.kernel import (
    KernelLaunch,
    SizeSymbol,
    SizeSymbols,
    kernel_of,
    linear_accesses,
)
from wrapperir.lowering.loops import (
    BufferView,
    Check,
    ExternCall,
    InnerLoop,
    Load,
    LoopGraph,
    Nest,
    Store,
)
from wrapperir.lowering.profit import device_kind
from wrapperir.lowering.recompute import Recomputation
from wrapperir.lowering.renderer import LoopKernel, Tiling
from wrapperir.lowering.split_reductions import split_reduction
from wrapperir.lowering.substitution import all_axes, instructions, names_used
from wrapperir.lowering.unroll import MOST_POINTS, MOST_POINTS_ON_GPU, unroll
from wrapperir.lowering.value_numbering import remove_redundancy

ScheduleItem: TypeAlias = Union[KernelLaunch, ExternCall]

_LONGEST_NAME = 48


@frozen(kw_only=True)
class Schedule:
    """Kernels and operator calls, in the order they run.

    ``buffers`` are those that exist: a buffer that only its own kernel reads does not.
    Workspaces are among them.  ``outputs`` are as in the graph.
    """

    items: tuple[ScheduleItem, ...]
    buffers: Mapping[str, TensorType]
    outputs: tuple[tuple[str, BufferView], ...]
    decisions: tuple[FusionDecision, ...] = ()


class Rounding(StrEnum):
    """Where values of half types are rounded.

    ``FUSED``: where they are stored; ``EAGER``: after each operator, as eager does.
    """

    FUSED = "fused"
    EAGER = "eager"


@frozen(kw_only=True)
class SchedulingOptions:
    """Options of scheduling.

    ``symbols`` is what is known of the size symbols.  ``fuse`` is false to give each nest
    a kernel of its own.  ``ordered_calls`` are the names of calls whose order matters
    beyond what they read and write, such as those that draw random numbers.  Results of
    ``owning_calls`` are in memory of their own, which kernels may overwrite.  ``donated``
    are inputs that are freed after their last use.
    """

    symbols: SizeSymbols = field(factory=dict[str, SizeSymbol])
    fuse: bool = True
    rounding: Rounding = Rounding.FUSED
    ordered_calls: frozenset[str] = frozenset()
    owning_calls: frozenset[str] = frozenset()
    donated: frozenset[str] = frozenset()


def plan_kernels(graph: LoopGraph, options: SchedulingOptions | None = None) -> Schedule:
    """Return the kernels of a graph, in order.

    Equal kernels are one object with one name.
    """
    options = options or SchedulingOptions()
    names = _KernelNames()
    if not options.fuse:
        return _separate_kernels(graph, options, names)
    nodes = list(_nodes(graph, options))
    items = ItemGraph(nodes)
    kept = {view.buffer for _, view in graph.outputs} | {*graph.inputs}
    fusion = Fusion(items, graph.buffers, kept, options.symbols)
    fusion.names.update({node.number: (node.item.name,) for node in nodes})
    lasting = kept - (options.donated - {view.buffer for _, view in graph.outputs})
    recompute = Recomputation(
        items, graph.buffers, kept, options.symbols, fusion.names, lasting
    )
    _remove_redundancy(items, kept, options)
    recompute.inline_moves()
    fusion.run()
    _remove_redundancy(items, kept, options)
    if recompute.inline_cheap() and fusion.run():
        _remove_redundancy(items, kept, options)
    buffers = dict(graph.buffers)
    scheduled: list[ScheduleItem] = []
    sizes = TypicalSizes(options.symbols)
    order = lowest_peak_order(items, graph.buffers, lasting, sizes, options.donated)
    lifetimes = BufferLifetimes(items, order, kept, {*graph.inputs}, options.owning_calls)
    for node in order:
        if isinstance(node.item, ExternCall):
            scheduled.append(node.item)
            continue
        nests = _nests_of(node, items, kept, buffers, options)
        alone = lifetimes if len(nests) == 1 else None
        for nest in nests:
            if any(isinstance(each, Store | Check) for each in instructions(nest.body)):
                scheduled.append(names.named(*_kernel(nest, buffers, options, alone, node)))
    used = {name for item in scheduled for name in buffers_of(item)}
    used |= kept
    return Schedule(
        items=tuple(scheduled),
        buffers={name: type for name, type in buffers.items() if name in used},
        outputs=graph.outputs,
        decisions=(*recompute.decisions, *fusion.final_decisions()),
    )


def _separate_kernels(
    graph: LoopGraph, options: SchedulingOptions, names: "_KernelNames"
) -> Schedule:
    items: list[ScheduleItem] = []
    for item in graph.items:
        if isinstance(item, ExternCall):
            items.append(item)
        else:
            items.append(names.named(*_kernel(item, graph.buffers, options)))
    return Schedule(items=tuple(items), buffers=graph.buffers, outputs=graph.outputs)


def _kernel(
    nest: Nest,
    buffers: Mapping[str, TensorType],
    options: SchedulingOptions,
    lifetimes: BufferLifetimes | None = None,
    node: Node | None = None,
) -> tuple[KernelLaunch, Nest]:
    linear = linear_accesses(nest, buffers, options.symbols)
    sources: Mapping[str, str] = {}
    if lifetimes is not None and node is not None:
        new, dying = lifetimes.new(node), lifetimes.dying(node)
        sources = overwritten(linear, new, dying, buffers, options.symbols)
        linear = renamed(linear, sources)
    tiling = Tiling(blocks=(tuple(axis.name for axis in linear.axes),))
    if options.fuse:
        round_casts = options.rounding is Rounding.EAGER
        linear = join_parts(linear, buffers, options.symbols, round_casts=round_casts)
        linear, tiling = arrange_axes(linear, buffers, options.symbols)
    launch = kernel_of(linear, tiling, buffers, options.symbols)
    return evolve(launch, in_place=tuple(sources.items())), linear


def _nodes(graph: LoopGraph, options: SchedulingOptions) -> Iterator[Node]:
    """Yield a node for each item."""
    calls = [item for item in graph.items if isinstance(item, ExternCall)]
    defined = {symbol for call in calls for symbol in call.defines}
    for number, item in enumerate(graph.items):
        flat = None
        if isinstance(item, ExternCall):
            reads = {view.buffer for _, view in item.arguments}
            writes = set(item.writes)
            symbols = set(item.symbols)
        else:
            code = list(instructions(item.body))
            reads = {each.buffer for each in code if isinstance(each, Load)}
            writes = {each.buffer for each in code if isinstance(each, Store)}
            symbols = _symbols_of(item, writes, graph.buffers) if defined else set[str]()
            if all(axis.extent != 0 for axis in all_axes(item.axes, item.body)):
                flat = flatten(item, f"{number}.", options.symbols)
            if flat is not None:
                on_cpu = device_kind(flat, graph.buffers) == "cpu"
                most = MOST_POINTS if on_cpu else MOST_POINTS_ON_GPU
                flat = unroll(flat, options.symbols, most=most)
        yield Node(
            number=number,
            position=number,
            first_position=number,
            item=item,
            flat=flat,
            reads=reads,
            writes=writes,
            symbols=symbols & defined,
            defines=set(item.defines) if isinstance(item, ExternCall) else set(),
            is_ordered=item.name in options.ordered_calls,
        )


def _symbols_of(
    nest: Nest, writes: Set[str], buffers: Mapping[str, TensorType]
) -> set[str]:
    """Return the names in the extents and indices of a nest, and in what it writes."""
    names = {name for each in instructions(nest.body) for name in names_used(each)}
    extents = [axis.extent for axis in all_axes(nest.axes, nest.body)]
    sizes = [size for name in writes for size in buffers[name].size]
    return names.union(*(symbols_in(expr) for expr in (*extents, *sizes)))


def _nests_of(
    node: Node,
    items: ItemGraph,
    kept: Set[str],
    buffers: dict[str, TensorType],
    options: SchedulingOptions,
) -> tuple[Nest, ...]:
    """Return the nest of a node, without stores to what only it reads.

    A reduction that is split has two nests; its workspaces are added to ``buffers``.
    """
    if node.flat is None:
        assert isinstance(node.item, Nest)
        return (node.item,)
    slim = _without_redundancy(node.flat, node, items, kept, options)
    name = node.item.name
    split = split_reduction(slim, name, buffers, options.symbols)
    sequential = buffers if device_kind(slim, buffers) == "cpu" else None
    if split is None:
        return (assemble(slim, name, sequential),)
    buffers.update(split.workspaces)
    return (
        assemble(split.first, name, sequential),
        assemble(split.second, name, sequential),
    )


def _remove_redundancy(
    items: ItemGraph, kept: Set[str], options: SchedulingOptions
) -> None:
    """Forward what nests store to what they load, and drop what nothing reads."""
    for node in reversed(list(items.in_order())):
        if node.flat is not None:
            flat = _without_redundancy(node.flat, node, items, kept, options)
            items.replace(node, flat, *accessed_buffers(flat))
        elif isinstance(node.item, Nest) and _is_unread(node, items, kept):
            items.remove(node)


def _is_unread(node: Node, items: ItemGraph, kept: Set[str]) -> bool:
    """Say whether nothing needs a node: no reader, no check, nothing runs after it."""
    assert isinstance(node.item, Nest)
    return not (
        node.after
        or any(name in kept or items.readers.get(name) for name in node.writes)
        or any(isinstance(each, Check) for each in instructions(node.item.body))
    )


def _without_redundancy(
    flat: FlatNest,
    node: Node,
    items: ItemGraph,
    kept: Set[str],
    options: SchedulingOptions,
) -> FlatNest:
    def is_dead(name: str) -> bool:
        return name not in kept and items.readers.get(name, set()) <= {node.number}

    return remove_redundancy(
        flat,
        flat.ranges(options.symbols),
        is_dead,
        round_casts=options.rounding is Rounding.EAGER,
    )


def buffers_of(item: ScheduleItem) -> Iterator[str]:
    """Yield the buffers that an item uses, some of them more than once."""
    if isinstance(item, KernelLaunch):
        yield from item.buffers
        yield from (source for _, source in item.in_place)
        return
    yield from (view.buffer for _, view in item.arguments)
    yield from item.writes


class _KernelNames:
    """Gives kernels names, and equal kernels the same; each keeps its own origins."""

    def __init__(self) -> None:
        self._names: dict[object, str] = {}

    def named(self, launch: KernelLaunch, nest: Nest) -> KernelLaunch:
        """Return a launch of the kernel with its name."""
        key = _literal_key(launch.kernel)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"{kernel_title(nest)}_{len(self._names)}"
        nest = evolve(launch.kernel.nest, name=name)
        return evolve(launch, kernel=evolve(launch.kernel, name=name, nest=nest))


def _literal_key(kernel: LoopKernel) -> object:
    """Return a key of kernels: literals of one value but other kinds or signs differ."""
    values: list[str] = []
    for each in instructions(kernel.nest.body):
        for value in (getattr(each, "value", None), getattr(each, "other", None)):
            if isinstance(value, int | float):
                values.append(repr(value))
    return (kernel, tuple(values))


def kernel_title(nest: Nest) -> str:
    """Return a name for a nest's kernel: what it loops over and the operators it has."""
    kind = "reduce" if any(isinstance(step, InnerLoop) for step in nest.body) else "map"
    operators = dict.fromkeys(map(_operator_name, nest.origins))
    words = [kind, *filter(None, operators)]
    title = ""
    for word in words:
        if len(title) + len(word) > _LONGEST_NAME:
            break
        title += f"_{word}" if title else word
    return title


def _operator_name(origin: NodeOrigin) -> str:
    """Return ``add`` for ``aten.add.Tensor``."""
    parts = (origin.operator or "").removeprefix("torch.ops.").split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return re.sub(r"\W", "_", name).strip("_")


def launched_kernels(items: Iterable[ScheduleItem]) -> tuple[LoopKernel, ...]:
    """Return the distinct kernels of a schedule's items, in order of first use."""
    found = {
        item.kernel.name: item.kernel for item in items if isinstance(item, KernelLaunch)
    }
    return tuple(found.values())
