"""Check loop graphs and schedules: their nests, kernels, launches, and order of items."""

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.ir import TensorType, symbols_in
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol, SizeSymbols
from wrapperir.lowering.loops import (
    BufferView,
    Check,
    ExternCall,
    Load,
    LoopGraph,
    Nest,
    Store,
)
from wrapperir.lowering.nest_checks import check_nest
from wrapperir.lowering.schedule import Schedule
from wrapperir.lowering.substitution import instructions


def check_graph(graph: LoopGraph, symbols: SizeSymbols) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a graph: WIR670 to WIR677 of its nests, and WIR679.

    ``symbols`` is what is known of size symbols; there may be others in buffers' sizes.
    """
    return tuple(_wrong_in_graph(graph, symbols))


def check_schedule(schedule: Schedule, symbols: SizeSymbols) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a schedule: WIR670 to WIR678 of its launches."""
    found: list[Diagnostic] = []
    for number, item in enumerate(schedule.items):
        path: LinePath = ("items", number)
        if isinstance(item, KernelLaunch):
            found += placed_at(path, check_launch(item, schedule.buffers, symbols))
        else:
            found += _unknown_buffers(item, schedule.buffers, path)
    return (*found, *_wrong_outputs(schedule.outputs, schedule.buffers))


def check_launch(
    launch: KernelLaunch, buffers: Mapping[str, TensorType], symbols: SizeSymbols
) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a launch and its kernel: WIR670 to WIR678."""
    kernel = launch.kernel
    found = [Diagnostic(Code.LOOP_LAUNCH, message) for message in _misfits(launch, buffers)]
    pairs = zip(kernel.symbols, launch.symbols, strict=False)
    sizes = {own.name: symbols.get(name, SizeSymbol()) for own, name in pairs}
    types = {buffer.name: buffer.type for buffer in kernel.buffers}
    found += placed_at(("kernel", "nest"), check_nest(kernel.nest, types, sizes))
    return tuple(found)


def placed_at(path: LinePath, found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield diagnostics with a place before the one that they have."""
    for each in found:
        yield evolve(each, path=(*path, *(each.path or ())))


def graph_sizes(graph: LoopGraph, symbols: SizeSymbols) -> SizeSymbols:
    """Return what is known of all size symbols: those of buffers' sizes and calls, too."""
    parts = [part for type in graph.buffers.values() for part in (*type.size, *type.stride)]
    names = {name for part in parts for name in symbols_in(part)}
    for item in graph.items:
        names.update(item.defines if isinstance(item, ExternCall) else ())
    return {**dict.fromkeys(names, SizeSymbol()), **symbols}


def _wrong_in_graph(graph: LoopGraph, symbols: SizeSymbols) -> Iterator[Diagnostic]:
    sizes = graph_sizes(graph, symbols)
    pending = {name for item in graph.items for name in _written(item)} - {*graph.inputs}
    for number, item in enumerate(graph.items):
        path: LinePath = ("items", number)
        if isinstance(item, Nest):
            yield from placed_at(path, check_nest(item, graph.buffers, sizes))
        else:
            yield from _unknown_buffers(item, graph.buffers, path)
        pending -= _written(item)
        for name in sorted(_read(item) & pending):
            message = f"{name} is read here, and a later item writes it first"
            yield Diagnostic(Code.LOOP_ORDER, message, path=path)
    yield from _wrong_outputs(graph.outputs, graph.buffers)


def _read(item: Nest | ExternCall) -> set[str]:
    if isinstance(item, ExternCall):
        return {view.buffer for _, view in item.arguments}
    return {each.buffer for each in instructions(item.body) if isinstance(each, Load)}


def _written(item: Nest | ExternCall) -> set[str]:
    if isinstance(item, ExternCall):
        return {*item.writes}
    return {each.buffer for each in instructions(item.body) if isinstance(each, Store)}


def _unknown_buffers(
    call: ExternCall, buffers: Mapping[str, TensorType], path: LinePath
) -> Iterator[Diagnostic]:
    for name in sorted((_read(call) | _written(call)) - buffers.keys()):
        yield Diagnostic(Code.LOOP_BUFFER, f"there is no buffer {name}", path=path)


def _wrong_outputs(
    outputs: Iterable[tuple[str, BufferView]], buffers: Mapping[str, TensorType]
) -> Iterator[Diagnostic]:
    for number, (name, view) in enumerate(outputs):
        if view.buffer not in buffers:
            message = f"output {name}: there is no buffer {view.buffer}"
            yield Diagnostic(Code.LOOP_BUFFER, message, path=("outputs", number))


def _misfits(launch: KernelLaunch, buffers: Mapping[str, TensorType]) -> Iterator[str]:
    """Yield why a kernel does not fit its nest, or a launch its kernel."""
    kernel = launch.kernel
    axes = [axis.name for axis in kernel.nest.axes]
    if [name for block in kernel.tiling.blocks for name in block] != axes:
        yield f"the blocks of {kernel.name} are not its parallel axes in order"
    checks = sum(isinstance(each, Check) for each in instructions(kernel.nest.body))
    if len(launch.messages) != checks:
        yield f"{kernel.name} has {checks} checks, and {len(launch.messages)} messages"
    if kernel.fault is not None and not checks:
        yield f"{kernel.name} has a buffer for checks, and no check"
    if len(launch.symbols) != len(kernel.symbols):
        yield f"{kernel.name} takes {len(kernel.symbols)} sizes, not {len(launch.symbols)}"
    if len(launch.buffers) != len(kernel.buffers):
        count = len(launch.buffers)
        yield f"{kernel.name} takes {len(kernel.buffers)} buffers, not {count}"
    written = _written(kernel.nest)
    for own, name in zip(kernel.buffers, launch.buffers, strict=False):
        if name not in buffers:
            yield f"there is no buffer {name}"
        elif buffers[name].dtype is not own.type.dtype:
            yield f"{own.name} and {name} have different dtypes"
        if own.access.writes != (own.name in written):
            yield f"{own.name} is declared {own.access.value}, which it is not"
