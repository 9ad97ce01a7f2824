"""Cut a program into regions that a device records once and replays."""

import itertools
from collections.abc import Container, Mapping

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.ir.line_effects import value_names
from wrapperir.passes.capture_reasons import Outside, Reason
from wrapperir.passes.capture_survey import survey_lines
from wrapperir.passes.region_builder import build_region
from wrapperir.passes.region_memory import RunSplitter
from wrapperir.passes.replay_cost import LEAST_GAIN, replay_gain

ALL_OPERATORS = "all"
"""The argument ``operators`` for every operator."""
GRAPH_DEVICES = frozenset({"cuda"})
"""The kinds of devices that can record and replay work."""


@frozen
class CapturedRegion:
    """A graph region that a capture made.

    ``first`` and ``last`` number its first and last call in the given program's lines.  A
    region that the given program has is both.
    """

    line: wir.GraphRegionLine
    first: int
    last: int


@frozen
class CaptureReport:
    """The regions that a program was cut into, and why other lines are in none.

    ``outside`` has the numbers of these lines in the given ``program``, counted from 0.
    Allocations, views and frees are not among them: they need no reason.  ``moved`` are
    those that now come before a region, as they do not depend on the calls in it.
    """

    program: wir.Program
    regions: tuple[CapturedRegion, ...]
    outside: Mapping[int, Outside]
    moved: frozenset[int]


@frozen
class Captured:
    """A program with graph regions, and the report of their capture."""

    program: wir.Program
    report: CaptureReport


def capture_graphs(
    program: wir.Program,
    *,
    devices: str = "cuda",
    operators: str = ALL_OPERATORS,
    least_gain: float = LEAST_GAIN,
    collectives: bool = False,
) -> wir.Program:
    """Return the program with its calls in graph regions where replay pays.

    Before::

        program @main(%x: f32[8, 8]@cuda) {
          %a = allocate f32[8, 8]@cuda
          extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a) @cuda
          %b = allocate f32[8, 8]@cuda
          extern_kernel aten.relu.out(%a, out = %b) writes(%b) @cuda
          free %a
          %y = reinterpret %b as f32[64]@cuda
          free %b
          free %x
          return %y
        }

    After::

        program @main(%x: f32[8, 8]@cuda) {
          %b = allocate f32[8, 8]@cuda
          graph_region @graph0 (%x, %b) @cuda {
            body (%x_0: f32[8, 8]@cuda, %b_0: f32[8, 8]@cuda) {
              %a = allocate f32[8, 8]@cuda
              extern_kernel aten.mm.out(%x_0, %x_0, out = %a) writes(%a) @cuda
              extern_kernel aten.relu.out(%a, out = %b_0) writes(%b_0) @cuda
              free %a
              return
            }
          }
          %y = reinterpret %b as f32[64]@cuda
          free %b
          free %x
          return %y
        }

    A region holds consecutive calls on one stream, from the first to the last.  Buffers
    that outlive it are allocated before it; operators' results that do are its results,
    which a replay copies.  Frees, views and reuses of such buffers, and of operands, come
    after it.  A conditional on a number is a call, if a region may hold its blocks' lines.
    Outside are lines for which the host reads a value or has work to do, other lines with
    nested blocks, events, symbols, pools, and regions that save less than
    ``least_gain`` microseconds.  Only devices of the kinds ``devices``, with commas between
    them, get regions, which call no operators but ``operators``.  Where one region would
    raise the peak of live bytes, there are several, as
    :mod:`~wrapperir.passes.region_memory` says.

    With ``collectives``, regions hold collectives too.  All groups must then work on the
    streams of the device, as NCCL's do and gloo's do not, and recordings must be dropped
    before the groups are destroyed.
    """
    return capture_named(
        program,
        devices=devices,
        operators=operators,
        least_gain=least_gain,
        collectives=collectives,
    ).program


def capture_named(
    program: wir.Program,
    *,
    devices: str = "cuda",
    operators: str = ALL_OPERATORS,
    least_gain: float = LEAST_GAIN,
    collectives: bool = False,
) -> Captured:
    """Return what :func:`capture_graphs` returns, and a report."""
    return capture_regions(
        program,
        frozenset(devices.split(",")),
        least_gain,
        None if operators == ALL_OPERATORS else frozenset(operators.split(",")),
        collectives=collectives,
    )


def capture_regions(
    program: wir.Program,
    devices: Container[str] | None = GRAPH_DEVICES,
    least_gain: float = LEAST_GAIN,
    operators: Container[str] | None = None,
    *,
    collectives: bool = False,
) -> Captured:
    """Return the program with graph regions, and a report.

    ``devices`` are the kinds of devices that may have regions; ``None`` is every kind.
    ``operators`` are those that regions may call, if they can be recorded; ``None`` is all.
    Regions that save less than ``least_gain`` microseconds a replay are left out.  With
    ``collectives``, regions hold those whose start and wait are in one run.  The time is
    linear in the program, with a logarithm where regions are cut for memory.
    """
    survey = survey_lines(program, devices, operators, collectives=collectives)
    outside = dict(survey.outside)
    names = wir.FreshNames(value_names(program))
    regions: list[CapturedRegion] = []
    for index, line in enumerate(program.lines):
        if isinstance(line, wir.GraphRegionLine):
            regions.append(CapturedRegion(line, index, index))
            del outside[index]
    taken = {region.line.name for region in regions}
    free_names = (n for i in itertools.count() if (n := f"graph{i}") not in taken)
    name = next(free_names)
    constants = frozenset(constant.name for constant in program.constants)
    lines: list[wir.BodyLine] = []
    freed: set[str] = set()
    end = 0
    parts: list[range] = []
    if survey.runs:  # else nothing is to be known of the memory
        splitter = RunSplitter.of_program(program, survey)
        parts = [part for run in survey.runs for part in splitter.split(run)]
    for run in parts:
        built = build_region(program.lines, run, survey, name, names, constants)
        gain = replay_gain(built.line)
        calls = [
            index
            for index in run
            if survey.effects[index].launches and index not in survey.moved
        ]
        if gain < least_gain:
            detail = f"replay of the calls around it would save {max(0.0, gain):.0f} µs"
            outside.update(dict.fromkeys(calls, Outside(Reason.GAIN, detail)))
            continue
        regions.append(CapturedRegion(built.line, calls[0], calls[-1]))
        lines += (*program.lines[end : run.start], *built.lines)
        freed |= built.freed
        end = run.stop
        name = next(free_names)
    lines += program.lines[end:]
    kept = (
        line
        for line in lines
        if not (isinstance(line, wir.FreeLine) and line.buffer in freed)
    )
    regions.sort(key=lambda region: region.first)
    moved = frozenset(i for r in regions for i in range(r.first, r.last) if i in outside)
    report = CaptureReport(program, tuple(regions), outside, moved)
    return Captured(evolve(program, lines=tuple(kept)), report)
