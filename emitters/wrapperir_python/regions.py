"""Graph regions in Python: functions that are recorded as CUDA graphs and replayed."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from wrapperir import ir as wir
from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.graph_regions import (
    RegionStreams,
    region_ranks,
    region_symbols,
    written_tensors,
)
from wrapperir.emit.python.compiled_launches import CACHE, EMITTED
from wrapperir.emit.python.expressions import (
    format_int,
    format_string,
    format_targets,
    format_tuple,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import uses
from wrapperir_python.blocks import PythonBlocks
from wrapperir_python.context import PythonContext
from wrapperir_python.streams import on_stream

_FILES = (
    *("graphs.cpp", "recording.h", "driver_functions.h", "tensors.h"),
    *("graph_captures.py", "native_module.py", CACHE),
)


def reason_against_recording(
    context: PythonContext, line: wir.GraphRegionLine, streams: RegionStreams
) -> str | None:
    """Return why a region is not recorded, ``None`` if it is."""
    if line.device.kind != "cuda":
        return f"{line.device} has no graphs"
    if any(stream.number == 0 for stream in streams.side):
        return "stream 0 works beside its stream"
    if streams.acts_on_first and (streams.side or line.stream):
        return "it fills memory, or has a block, beside its stream"
    names = (x.name for x in line.operands if isinstance(x, wir.BufferRef))
    types = (context.facts.types[name] for name in names)
    if any(not isinstance(type, wir.TensorType | wir.ScalarType) for type in types):
        return "it is given a value that is neither a tensor nor a number"
    return None


def emit_region(
    context: PythonContext, line: wir.GraphRegionLine, side: Sequence[wir.Stream]
) -> None:
    """Append ``buf1 = attention(arg0, buf0, s0)``, and the function to the module.

    The function's parameters are the tensors and numbers that the block reads, constants
    among them, by the names that they have outside.  ``side`` are the streams of the block
    beside the region's own.
    """
    module, outer = context.module, context.writer
    tensors, numbers = _operands(context, line)
    block = module.names.claim(line.name[:240])
    results = [context.values[result.name] for result in line.results]
    graphs = module.import_file("graphs", EMITTED, *_FILES)
    context.writer = SourceWriter()
    with _in_function(context, line, side, graphs):
        PythonBlocks(context).emit_subgraph(line)
    body, context.writer = context.writer, outer
    functions = module.regions
    functions.emit_blank(2)
    given = joined(", ", [*tensors, *numbers])
    functions.emit_line("def {}({}):", block, given)
    with functions.indented():
        functions.emit_writer(body)
        if results:
            functions.emit_line("return {}", format_tuple(results))
        elif not body.line_count:
            functions.emit_line("pass")
    changed = {context.values[name] for name in written_tensors(context.facts, line)}
    written = [index for index, tensor in enumerate(tensors) if tensor in changed]
    ranks = region_ranks(context.facts, line)
    given_to_ranks = {context.values[name] for name in ranks.tensors}
    fixed = [index for index, tensor in enumerate(tensors) if tensor in given_to_ranks]
    functions.emit_blank(2)
    functions.emit_line("{} = {}.region(", block, graphs)
    with functions.indented():
        functions.emit_line(
            "{}, tensors={}, numbers={}, written={}, device={}, recordings={},",
            block,
            format_int(len(tensors)),
            format_int(len(numbers)),
            format_tuple([format_int(index) for index in written]),
            format_int(_device_index(context, line)),
            format_int(line.recordings),
        )
        if ranks.groups:
            functions.emit_line(
                "groups={}, fixed={},",
                format_tuple([format_string(name) for name in ranks.groups]),
                format_tuple([format_int(index) for index in fixed]),
            )
    functions.emit_line(")")
    call = fragment("{}({})", block, given)
    if results:
        call = fragment("{} = {}", format_targets(results), call)
    stream = wir.Stream(line.device, line.stream) if line.stream else None
    with on_stream(context, stream):  # which also makes its device current
        if stream or _device_index(context, line) == context.arguments.current_gpu:
            outer.emit_line("{}", call)
        else:
            index = format_int(_device_index(context, line))
            outer.emit_line("with torch.cuda._DeviceGuard({}): {}", index, call)


def _device_index(context: PythonContext, line: wir.GraphRegionLine) -> int:
    index = line.device.index
    return (context.arguments.current_gpu or 0) if index is None else index


@contextmanager
def _in_function(
    context: PythonContext,
    line: wir.GraphRegionLine,
    side: Sequence[wir.Stream],
    graphs: Fragment,
) -> Generator[None]:
    """Append lines to a region's function, in which its device and stream are current."""
    module, arguments = context.module, context.arguments
    index = _device_index(context, line)
    outer_streams, module.streams = module.streams, {}
    outer_gpu, arguments.current_gpu = arguments.current_gpu, index
    own = context.region_stream = wir.Stream(line.device, line.stream)
    if side:
        for stream in (own, *side):
            name = module.names.claim(f"region_stream_{stream.number}")
            module.streams[stream] = name
        device = format_int(index)
        context.writer.emit_line(
            "{} = torch.cuda.current_stream({})", module.streams[own], device
        )
        for stream in side:
            name, number = module.streams[stream], format_int(stream.number)
            context.writer.emit_line(
                "{} = {}.side_stream({}, {})", name, graphs, device, number
            )
    with context.streams.in_recorded_block(line, side):
        yield
    context.region_stream = None
    module.streams, arguments.current_gpu = outer_streams, outer_gpu


def _operands(
    context: PythonContext, line: wir.GraphRegionLine
) -> tuple[list[Fragment], list[Fragment]]:
    """Return the tensors and the numbers that a region's block reads."""
    numbers = {context.module.symbols[name]: None for name in region_symbols(line)}
    names = [x.name for x in line.operands if isinstance(x, wir.BufferRef)]
    names += [
        name
        for nested in walk_lines(line.body.lines)
        for name in uses(nested)
        if name in context.facts.constants
    ]
    tensors: dict[Fragment, None] = {}
    for name in names:
        is_number = isinstance(context.facts.types[name], wir.ScalarType)
        (numbers if is_number else tensors)[context.values[name]] = None
    return list(tensors), list(numbers)
