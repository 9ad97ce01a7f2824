"""Make graph regions calls of subgraphs, which nothing records or replays."""

from collections.abc import Iterator, Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.blocks import rewrite_blocks, walk_lines
from wrapperir.ir.line_effects import LineEffects, value_names

_EFFECTS = LineEffects(None)


def open_graph_regions(program: wir.Program) -> wir.Program:
    """Return the program with a ``subgraph_call`` for each ``graph_region``.

    Before::

        program @main(%x: f32[8]) {
          %y = graph_region @region (%x) stream(1) : f32[8] {
            body (%p: f32[8]) {
              %buf0 = extern_kernel aten.relu.default(%p) stream(1) : f32[8]
              return %buf0
            }
          }
          return %y
        }

    After::

        program @main(%x: f32[8]) {
          %event0 = record_event stream(1)
          wait_event %event0
          %y = subgraph_call @region (%x) : f32[8] {
            body (%p: f32[8]) {
              %buf0 = extern_kernel aten.relu.default(%p) : f32[8]
              return %buf0
            }
          }
          %event1 = record_event
          wait_event %event1 stream(1)
          return %y
        }

    Blocks are on stream 0, so all work of the region moves there, and the events in it go.
    For emitters without graph regions the pipeline runs this pass.  Linear in the program.
    """
    if not any(isinstance(line, wir.GraphRegionLine) for line in walk_lines(program.lines)):
        return program
    names = wir.FreshNames(value_names(program))
    return evolve(program, lines=_opened(program.lines, names))


def _opened(
    lines: Sequence[wir.BodyLine], names: wir.FreshNames
) -> tuple[wir.BodyLine, ...]:
    made: list[wir.BodyLine] = []
    for line in lines:
        if isinstance(line, wir.GraphRegionLine):
            call = wir.SubgraphCallLine(
                results=line.results,
                name=line.name,
                operands=line.operands,
                body=evolve(line.body, lines=tuple(_on_stream_0(line.body.lines))),
                provenance=line.provenance,
            )
            if line.stream:
                made += _ordered(line, names, line.stream, 0)
                made += [call, *_ordered(line, names, 0, line.stream)]
            else:
                made.append(call)
        else:
            made.append(
                rewrite_blocks(
                    line, lambda block: evolve(block, lines=_opened(block.lines, names))
                )
            )
    return tuple(made)


def _ordered(
    line: wir.GraphRegionLine, names: wir.FreshNames, first: int, then: int
) -> tuple[wir.BodyLine, ...]:
    """Return lines by which one stream of the region's device waits for another."""
    event, device, origin = names.new(None, "event"), line.device, line.provenance
    if origin is not None:  # an event is no part of what the region computes
        origin = evolve(origin, origins=())
    return (
        wir.RecordEventLine(result=event, device=device, stream=first, provenance=origin),
        wir.WaitEventLine(event=event, device=device, stream=then, provenance=origin),
    )


def _on_stream_0(lines: Sequence[wir.BodyLine]) -> Iterator[wir.BodyLine]:
    """Yield the lines of a region on stream 0, without its events."""
    events: set[str] = set()
    for line in lines:
        effects = _EFFECTS.visit(line)
        if effects.records is not None:
            events.add(effects.records)
        elif effects.awaits is None and effects.drops not in events:
            if isinstance(line, wir.KernelCallLine | wir.ExternKernelLine):
                line = evolve(line, stream=0)
            yield line
