"""Static memory allocation: offsets in a pool for buffers with sizes and live ranges."""

from wrapperir.planning.greedy import plan_greedily
from wrapperir.planning.planner import plan
from wrapperir.planning.problem import Buffer, Plan

__all__ = ["Buffer", "Plan", "plan", "plan_greedily"]
