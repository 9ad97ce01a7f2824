"""Graph regions in C++: blocks that are recorded as CUDA graphs and replayed."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from wrapperir import ir as wir
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.arena import plain_device
from wrapperir.emit.graph_regions import (
    RegionStreams,
    region_ranks,
    region_streams,
    region_symbols,
    written_tensors,
)
from wrapperir_cpp.blocks import CppBlocks, EmitLines
from wrapperir_cpp.context import Context
from wrapperir_cpp.debugged_values import show_values
from wrapperir_cpp.layout import RUNTIME
from wrapperir_cpp.literals import format_bool, format_int, format_string
from wrapperir_cpp.memory import tensor_address
from wrapperir_cpp.streams import (
    emit_fork_from,
    format_device_call,
    format_stream_number,
    on_stream,
)
from wrapperir_cpp.value_storage import RootStorage, StorageView, bytes_of, handle_of

_LONGEST_NAME = 180


def _reason_against_recording(
    context: Context, line: wir.GraphRegionLine, streams: RegionStreams
) -> str | None:
    """Return why a region is not recorded, ``None`` if it is."""
    table = context.table_of(line.device)
    if table is None or not table.recorder:
        return f"{line.device} has no graphs"
    if streams.acts_on_first and (streams.side or line.stream):
        return "it fills memory, or has a block, beside its stream"
    if any(not isinstance(result.type, wir.TensorType) for result in line.results):
        return "it returns a value that is not a tensor"
    for operand in line.operands:
        if not isinstance(operand, wir.BufferRef):
            continue
        type = context.facts.types[operand.name]
        if isinstance(type, wir.ScalarType):
            continue
        if not isinstance(type, wir.TensorType):
            return "it is given a value that is neither a tensor nor a number"
        if not context.has_exact_layout(operand.name):
            return f"the layout of %{operand.name} is not certain"
    return None


class _RegionBlocks(CppBlocks):
    """Emits a block whose tensors are at the addresses that each run is given."""

    def __init__(
        self,
        context: Context,
        line: wir.GraphRegionLine,
        emit_lines: EmitLines,
        places: Mapping[str, int],
    ) -> None:
        """Emit the block of ``line``; ``places`` are those of its parameters."""
        super().__init__(context, line.results, emit_lines)
        self._places = places

    def bind(self, parameter: wir.BlockParameter, operand: wir.KernelArgument) -> None:
        """Let a tensor begin at its address; numbers are those of outside."""
        context, type = self._context, parameter.type
        if not isinstance(type, wir.TensorType):
            super().bind(parameter, operand)
            return
        base = fragment("c.places[{}]", format_int(self._places[parameter.name]))
        begin = wir.mul(type.offset, -type.dtype.itemsize)
        view = StorageView(RootStorage(base), type, begin, room=bytes_of(type))
        context.values.put(parameter.name, view)
        context.checked.add(parameter.name)
        show_values(context, [parameter.name])


def emit_region(context: Context, line: wir.GraphRegionLine, emit_lines: EmitLines) -> None:
    """Append a run of a region; a region that is not recorded is appended in place."""
    streams = region_streams(context.facts, line)
    reason = _reason_against_recording(context, line, streams)
    if reason is None:
        _emit_run(context, line, streams, emit_lines)
        return
    remark = f"graph region {line.name} is not recorded: {reason}"
    context.writer.emit_comment(remark)
    has_branches = bool(streams.side or (streams.acts_on_first and line.stream))
    with _freeing_late(context, has_branches=has_branches):
        CppBlocks(context, line.results, emit_lines).emit_subgraph(line)
    if has_branches and plain_device(line.device) in context.devices.devices:
        emit_fork_from(context, line.device, line.stream)


@contextmanager
def _freeing_late(context: Context, *, has_branches: bool) -> Generator[None]:
    """Free what a region's block allocates where its streams have met, at its end."""
    if not has_branches:
        yield
        return
    late = context.late_drops = []
    yield
    context.late_drops = None
    for slot in late:
        context.writer.emit_line("{}.reset();", slot)


def _emit_run(
    context: Context,
    line: wir.GraphRegionLine,
    streams: RegionStreams,
    emit_lines: EmitLines,
) -> None:
    """Append ``run_region(3, c.regions[0], region_layer, *c.cuda_0, ...);``."""
    name = context.module.names.claim(f"region_{line.name[:_LONGEST_NAME]}")
    ranks = region_ranks(context.facts, line)
    facts = (
        *(format_string(line.name), format_int(line.recordings)),
        format_stream_number(context, line.device, line.stream),
        format_bool(bool(streams.side)),
    )
    context.module.statics.emit_line(
        "constexpr RegionFact {} = {{{}}};", name, joined(", ", facts)
    )
    number = format_int(len(context.regions))
    context.regions.append(name)
    table = context.table_of(line.device)
    assert table is not None  # it has a recorder
    for path in table.recorder:
        context.module.files[f"{RUNTIME}{path.name}"] = path.read_text("utf-8")
    written = written_tensors(context.facts, line)
    places: dict[str, int] = {}
    tensors: list[Fragment] = []
    numbers = [context.symbols[symbol] for symbol in region_symbols(line)]
    for parameter, operand in zip(line.body.parameters, line.operands, strict=True):
        if not isinstance(operand, wir.BufferRef):
            continue
        if not isinstance(parameter.type, wir.TensorType):
            numbers.append(context.values.scalar(operand.name))
            continue
        places[parameter.name] = len(tensors)
        tensors.append(
            _format_tensor(
                context,
                operand.name,
                parameter.type,
                is_written=operand.name in written,
                is_fixed=operand.name in ranks.tensors,
            )
        )
    blocks = _RegionBlocks(context, line, emit_lines, places)
    results = [_slot(context, result.name) for result in line.results]
    given = tensors, [fragment("bits_of({})", value) for value in numbers], results
    with on_stream(context, line.device, line.stream):
        writer = context.writer
        writer.emit_line(
            "run_region({}, c.regions[{}], {}, *{}, {}, [&](char* const* places) {{",
            *(context.line_number(), number, name),
            format_device_call(context, line.device),
            joined(", ", [fragment("{{{}}}", joined(", ", each)) for each in given]),
        )
        with writer.indented():
            writer.emit_line("c.places = places;")
            with _freeing_late(context, has_branches=bool(streams.side)):
                blocks.emit_subgraph(line)
        writer.emit_line("}});")


def _format_tensor(
    context: Context, name: str, type: wir.TensorType, *, is_written: bool, is_fixed: bool
) -> Fragment:
    """Return the address of a tensor, its bytes, and the bytes that the block may write.

    One that a collective is given says so.
    """
    item = type.dtype.itemsize
    bytes = wir.mul(wir.storage_extent(type), item)
    written: wir.Expr = item if is_written else 0
    for size in type.size:
        written = wir.mul(written, size)
    return fragment(
        "{{{}, {}, {}{}}}",
        tensor_address(context, name),
        *(context.expressions.format_index(number) for number in (bytes, written)),
        fragment(", true") if is_fixed else fragment(""),
    )


def _slot(context: Context, name: str) -> Fragment:
    """Return the address of the slot that owns a result."""
    storage = context.values[name].storage
    assert storage.slot is not None
    assert storage.handle == handle_of(storage.slot)
    return fragment("&{}", storage.slot)
