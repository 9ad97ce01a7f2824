"""What the block of a graph region depends on, and what it writes."""

from attrs import frozen

from wrapperir.analysis import block_entry, find_storages
from wrapperir.emit.context import ProgramFacts
from wrapperir.ir import (
    BufferRef,
    ExternKernelLine,
    GraphRegionLine,
    Stream,
    SymbolDefinitionLine,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Actor
from wrapperir.ir.mentions import argument_symbols, line_symbols, type_symbols
from wrapperir.ir.recordable_operators import works_with_ranks


def region_symbols(line: GraphRegionLine) -> list[str]:
    """Return the symbols of outside that a region mentions, each once."""
    inner = list(walk_lines(line.body.lines))
    defined = {x.symbol for x in inner if isinstance(x, SymbolDefinitionLine)}
    mentioned = [name for operand in line.operands for name in argument_symbols(operand)]
    mentioned += [name for x in line.body.parameters for name in type_symbols(x.type)]
    mentioned += [name for nested in inner for name in line_symbols(nested)]
    mentioned += [name for result in line.body.results for name in argument_symbols(result)]
    return [name for name in dict.fromkeys(mentioned) if name not in defined]


def written_tensors(facts: ProgramFacts, line: GraphRegionLine) -> set[str]:
    """Return the operands of a region, and constants, whose memory its block may write."""
    body = line.body
    entry = block_entry(body)
    found = find_storages(body.lines, body.results, entry, facts.line_effects)
    written = {
        operand.name
        for parameter, operand in zip(body.parameters, line.operands, strict=True)
        if isinstance(operand, BufferRef)
        for storage in found.of_name.get(parameter.name, ())
        if any(use.writes for use in storage.uses)
    }
    return written | {
        constant.name for constant in facts.program.constants if constant.mutated
    }


@frozen
class RegionRanks:
    """What a region's block has other ranks read or write.

    ``groups`` are the groups of its collectives.  ``tensors`` are the operands of the
    region, and constants, that these are given: a recording keeps the addresses.
    """

    groups: tuple[str, ...]
    tensors: frozenset[str]


def region_ranks(facts: ProgramFacts, line: GraphRegionLine) -> RegionRanks:
    """Return what the block of a region does with other ranks, by calls of operators."""
    body = line.body
    calls = [
        (call, facts.line_effects.visit(call))
        for call in body.lines
        if isinstance(call, ExternKernelLine) and works_with_ranks(call.operator)
    ]
    if not calls:
        return RegionRanks((), frozenset())
    declared = {group.name for group in facts.program.groups}
    given_names = (x for call, _ in calls for x in call.arguments if isinstance(x, str))
    groups = dict.fromkeys(name for name in given_names if name in declared)
    found = find_storages(body.lines, body.results, block_entry(body), facts.line_effects)
    given = {name for _, effects in calls for name in effects.uses}
    storages = {id(each) for name in given for each in found.of_name.get(name, ())}
    tensors = {
        operand.name
        for parameter, operand in zip(body.parameters, line.operands, strict=True)
        if isinstance(operand, BufferRef)
        and any(id(each) in storages for each in found.of_name.get(parameter.name, ()))
    }
    return RegionRanks(tuple(groups), frozenset(tensors | (given & facts.constants)))


@frozen
class RegionStreams:
    """The streams that have work in a region's block.

    ``side`` are those beside the region's own.  ``acts_on_first`` says that a line gives
    stream 0 work without naming a stream: it fills memory, or has a nested block.
    """

    side: tuple[Stream, ...]
    acts_on_first: bool


def region_streams(facts: ProgramFacts, line: GraphRegionLine) -> RegionStreams:
    """Return the streams of a region's block."""
    inner = [facts.line_effects.visit(nested) for nested in walk_lines(line.body.lines)]
    own = Stream(line.device, line.stream)
    used = dict.fromkeys(x.stream for x in inner if x.stream is not None)
    return RegionStreams(
        tuple(stream for stream in used if stream != own),
        any(x.blocks or any(a.by is Actor.STREAM_0 for a in x.accesses) for x in inner),
    )
