"""OR-tools as a solver: an independent oracle, proven optimal given time.

It needs the extra ``solver``; nothing else here does.
"""

import time
from collections.abc import Sequence
from math import gcd

from attrs import evolve, frozen

from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.slots import Slots


@frozen
class OrToolsSolver:
    """CP-SAT on rectangles that do not overlap, which begins at the greedy plan."""

    name: str = "or-tools"

    def solve(
        self, buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float
    ) -> Plan:
        """Return the lowest plan; see :class:`~wrapperir.planning.instance.Solver`.

        Raises:
            ImportError: OR-tools is not installed.
        """
        try:
            from ortools.sat.python import cp_model
        except ImportError as error:
            raise ImportError(
                "OR-tools is not installed; pip install 'wrapperir[solver]'"
            ) from error
        deadline = time.monotonic() + seconds
        plan = GreedySolver().solve(buffers, enough=enough, seconds=seconds)
        low = max(plan.lower_bound, enough or 0)
        left = deadline - time.monotonic()
        if plan.height <= low or left <= 0:
            return plan
        slots = Slots.of(buffers)
        # As low as it fits, a buffer is at a multiple of what all of these are.
        unit = gcd(*slots.sizes, *(a for a in slots.alignments if a > 1))
        top = plan.height // unit
        model = cp_model.CpModel()
        height = model.new_int_var(-(-low // unit), top, "")
        offsets: list[cp_model.IntVar] = []
        times: list[cp_model.IntervalVar] = []
        rooms: list[cp_model.IntervalVar] = []
        for place, index in enumerate(slots.buffers):
            first, stop = slots.first[place], slots.stop[place]
            size = slots.sizes[place] // unit
            step = max(slots.alignments[place] // unit, 1)
            offset = model.new_int_var(0, (top - size) // step, "")
            model.add_hint(offset, plan.offsets[index] // (step * unit))
            model.add(offset * step + size <= height)
            offsets.append(offset)
            times.append(model.new_fixed_size_interval_var(first, stop - first, ""))
            rooms.append(model.new_fixed_size_interval_var(offset * step, size, ""))
        model.add_no_overlap_2d(times, rooms)
        model.minimize(height)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = left
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return plan
        found = list(plan.offsets)
        reached = 0
        for place, (index, offset) in enumerate(zip(slots.buffers, offsets, strict=True)):
            step = max(slots.alignments[place] // unit, 1) * unit
            found[index] = solver.value(offset) * step
            reached = max(reached, found[index] + slots.sizes[place])
        if reached >= plan.height:
            return plan
        return evolve(plan, offsets=tuple(found), height=reached, solver=self.name)
