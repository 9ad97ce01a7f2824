"""Static memory allocation: offsets in a pool for buffers with sizes and live ranges."""

from wrapperir.planning.greedy import plan_greedily
from wrapperir.planning.planner import plan
from wrapperir.planning.problem import Buffer, Plan, lower_bound
from wrapperir.planning.sections import Sections

__all__ = [
    "Buffer",
    "Plan",
    "Sections",
    "lower_bound",
    "plan",
    "plan_greedily",
]
