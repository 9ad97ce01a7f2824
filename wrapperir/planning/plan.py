"""The plan that compilers ask for: the fast tier first, more only where it pays."""

from collections.abc import Sequence

from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan


def plan(
    buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float = 1.0
) -> Plan:
    """Return a plan within about ``seconds``, sooner at a height of at most ``enough``.

    ``enough`` is the lower bound if ``None``.

    Raises:
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    return GreedySolver().solve(buffers, enough=enough, seconds=seconds)
