"""Move lines so that work runs while collectives are in flight."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis import Body, order_streams, rewrite_bodies
from wrapperir.analysis.line_cost import LineCosts
from wrapperir.analysis.machines import MACHINES, Machine, machine_of
from wrapperir.diagnostics import Code
from wrapperir.ir.blocks import walk_lines
from wrapperir.passes.overlap_problem import BlockNodes
from wrapperir.passes.overlap_report import (
    BlockOverlap,
    OverlappedCollective,
    OverlapReport,
)
from wrapperir.passes.overlap_schedule import (
    OverlapProblem,
    Prediction,
    delay_waits,
    predict,
    raise_starts,
)

BY_DEVICE = "device"
"""The argument ``machine`` for the machine that devices of their kind are taken to be."""
MEMORY_LIMIT = 1.02
"""The peak of bytes after the pass, at most, as a multiple of the peak before."""
_SHARES = (1.0, 0.5, 0.25, 0.125)
"""Shares of the collectives' seconds that are tried until the peak is within the limit."""
_LEAST_GAIN = 1e-7
"""Seconds that a new order saves at least."""


@frozen
class Overlapped:
    """A program whose collectives are overlapped, and the report of the pass."""

    program: wir.Program
    report: OverlapReport


def overlap_collectives(
    program: wir.Program, *, machine: str = BY_DEVICE, limit: float = MEMORY_LIMIT
) -> wir.Program:
    """Return the program with work between the starts of collectives and their waits.

    Before::

        program @main(%x: f32[4096, 4096], %y: mutated f32[4096, 4096]) {
          group "0" size 2

          %a = extern_kernel aten.mm.default(%x, %x) : f32[4096, 4096]
          %w = collective all_reduce(sum) "0" reads(%y) writes(%y)
          wait_collective %w reads(%y) writes(%y)
          free %w
          return %a
        }

    After::

        program @main(%x: f32[4096, 4096], %y: mutated f32[4096, 4096]) {
          group "0" size 2

          %w = collective all_reduce(sum) "0" reads(%y) writes(%y)
          %a = extern_kernel aten.mm.default(%x, %x) : f32[4096, 4096]
          wait_collective %w reads(%y) writes(%y)
          free %w
          return %a
        }

    Waits come later and starts earlier, by as much work as is predicted to hide the
    collective on ``machine``; the order of the starts stays.  The peak of live bytes grows
    to at most ``limit`` times what it was.
    """
    return overlap_lines(program, find_machine(program, machine), limit).program


def find_machine(program: wir.Program, name: str) -> Machine:
    """Return the machine of a name; ``device`` is the one of the collectives' devices.

    Raises:
        DiagnosticError: WIR742, there is no such machine.
    """
    if name == BY_DEVICE:
        starts = (x for x in walk_lines(program.lines) if isinstance(x, wir.CollectiveLine))
        first = next(starts, None)
        return machine_of("cpu" if first is None else first.device.kind)
    found = MACHINES.get(name)
    if found is None:
        known = ", ".join((BY_DEVICE, *MACHINES))
        message = f"there is no machine {name[:80]!r}"
        raise Code.WRONG_PASS_ARGUMENT.error(message, hint=f"machines are {known}")
    return found


def overlap_lines(
    program: wir.Program,
    machine: Machine,
    limit: float = MEMORY_LIMIT,
    host_ranks: Mapping[str, int] | None = None,
) -> Overlapped:
    """Return the program with its lines moved, and a report.

    ``host_ranks`` are the ranks of a group that one host has; other groups fill hosts.
    Symbols count as 32, or as the value of their range that is next to it.  Takes n log n
    steps in the lines.
    """
    blocks: list[BlockOverlap] = []
    result = program
    if has_collectives(program.lines):
        costs = LineCosts.of_program(program, machine, host_ranks or {})

        def overlapped(body: Body) -> Sequence[wir.BodyLine]:
            if not any(isinstance(line, wir.CollectiveLine) for line in body.lines):
                return body.lines
            lines, decided = _overlapped(body, costs, limit)
            blocks.append(decided)
            return lines

        result = rewrite_bodies(program, overlapped)
    report = OverlapReport(program=program, machine=machine, blocks=tuple(blocks))
    return Overlapped(result, report)


def _overlapped(
    body: Body, costs: LineCosts, factor: float
) -> tuple[Sequence[wir.BodyLine], BlockOverlap]:
    """Return the lines of a block in their new order, and what was decided."""
    block = BlockNodes.of(body, costs)
    problem = block.problem(costs)
    before = predict(problem)
    limit = int(before.peak * max(factor, 1.0))
    order, kept = None, "it uses several streams of a device"
    if order_streams(block.found.effects).is_trivial:
        order, kept = _faster_order(problem, before.seconds, limit)
    ordered = problem if order is None else problem.ordered(order)
    lines = body.lines if order is None else block.ordered(order)
    after = before if order is None else predict(ordered)
    decided = _decided(block, costs, (problem, ordered), (before, after), limit, kept)
    return lines, decided


def _faster_order(
    problem: OverlapProblem, before: float, limit: int
) -> tuple[list[int] | None, str]:
    """Return an order that is predicted to take less than ``before``, or why none does."""
    fitting: list[tuple[float, list[int]]] = []
    for looks_ahead in (False, True):
        for share in _SHARES:
            first = delay_waits(problem, limit, share, looks_ahead=looks_ahead)
            later = problem.ordered(first)
            second = raise_starts(later, limit, share, looks_ahead=looks_ahead)
            after = predict(later.ordered(second))
            if after.peak <= limit:
                fitting.append((after.seconds, [first[node] for node in second]))
                break
    if not fitting:
        return None, "faster orders need more memory than the limit"
    seconds, order = min(fitting, key=lambda found: found[0])
    if seconds < before - _LEAST_GAIN:
        return order, ""
    return None, "no other order is predicted to be faster"


def _decided(
    block: BlockNodes,
    costs: LineCosts,
    problems: tuple[OverlapProblem, OverlapProblem],
    predictions: tuple[Prediction, Prediction],
    limit: int,
    kept: str,
) -> BlockOverlap:
    """Return the decisions for a block, from its problem before and after."""
    old, new = problems
    before, after = predictions
    queues: dict[str, float] = {}
    for each in old.collectives:
        queues[each.queue] = queues.get(each.queue, 0.0) + each.seconds
    worked, works = _work_before(old), _work_before(new)
    decided: list[OverlappedCollective] = []
    for number, (was, now) in enumerate(zip(old.collectives, new.collectives, strict=True)):
        index = block.nodes[was.start]
        line = block.lines[index]
        assert isinstance(line, wir.CollectiveLine)
        decided.append(
            OverlappedCollective(
                line=line,
                index=index,
                bytes=costs.collective_bytes(line),
                seconds=was.seconds,
                stalled=before.stalls[number],
                stalls=after.stalls[number],
                worked=worked[was.wait] - worked[was.start],
                works=works[now.wait] - works[now.start],
            )
        )
    return BlockOverlap(
        is_nested=block.is_nested,
        collectives=tuple(decided),
        seconds_before=before.seconds,
        seconds=after.seconds,
        bound=max(sum(old.work), *queues.values()),
        peak_before=before.peak,
        peak=after.peak,
        limit=limit,
        kept=kept,
    )


def _work_before(problem: OverlapProblem) -> list[int]:
    """Return how many nodes before each one take time."""
    counts = [0]
    for seconds in problem.work:
        counts.append(counts[-1] + (seconds > 0))
    return counts


def has_collectives(lines: Sequence[wir.BodyLine]) -> bool:
    """Say whether lines, or those of their blocks, start collectives."""
    return any(isinstance(line, wir.CollectiveLine) for line in walk_lines(lines))
