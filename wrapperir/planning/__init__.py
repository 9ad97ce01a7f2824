"""Static memory allocation: offsets in a pool for buffers with sizes and live ranges."""

from wrapperir.planning.first_fit import first_fit
from wrapperir.planning.greedy import plan_greedily
from wrapperir.planning.planner import plan
from wrapperir.planning.problem import Buffer, Plan, Sections, lower_bound

__all__ = [
    "Buffer",
    "Plan",
    "Sections",
    "first_fit",
    "lower_bound",
    "plan",
    "plan_greedily",
]
