"""OR-tools' CP-SAT solver, to compare plans with; it proves the optimum, given time."""

import time
from collections.abc import Sequence
from math import gcd

from attrs import evolve
from ortools.sat.python import cp_model

from wrapperir.planning import Buffer, Plan, Sections, plan_greedily


def plan_with_or_tools(buffers: Sequence[Buffer], seconds: float) -> Plan:
    """Return the lowest plan that CP-SAT finds, starting from the greedy plan."""
    deadline = time.monotonic() + seconds
    plan = plan_greedily(buffers, seconds=seconds)
    left = deadline - time.monotonic()
    if plan.optimal or left <= 0:
        return plan
    sections = Sections.of(buffers)
    # As low as it fits, a buffer is at a multiple of what all of these are multiples of.
    unit = gcd(*sections.sizes, *(a for a in sections.alignments if a > 1))
    top = plan.height // unit
    model = cp_model.CpModel()
    height = model.new_int_var(-(-plan.lower_bound // unit), top, "")
    offsets: list[cp_model.IntVar] = []
    times: list[cp_model.IntervalVar] = []
    ranges: list[cp_model.IntervalVar] = []
    steps: list[int] = []
    for place, index in enumerate(sections.buffers):
        first, stop = sections.first[place], sections.stop[place]
        size = sections.sizes[place] // unit
        step = max(sections.alignments[place] // unit, 1)
        offset = model.new_int_var(0, (top - size) // step, "")
        model.add_hint(offset, plan.offsets[index] // (step * unit))
        model.add(offset * step + size <= height)
        steps.append(step)
        offsets.append(offset)
        times.append(model.new_fixed_size_interval_var(first, stop - first, ""))
        ranges.append(model.new_fixed_size_interval_var(offset * step, size, ""))
    model.add_no_overlap_2d(times, ranges)
    model.minimize(height)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = left
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return plan
    found = [
        solver.value(offset) * step * unit
        for offset, step in zip(offsets, steps, strict=True)
    ]
    lower = sections.revise(plan, found, "or-tools")
    best = lower if lower.height < plan.height else plan
    return evolve(best, proven=best.height) if status == cp_model.OPTIMAL else best
