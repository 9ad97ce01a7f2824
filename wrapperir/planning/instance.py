"""The problem of static memory allocation: buffers with sizes and lifetimes, and plans.

A plan gives each buffer an offset in one pool, so that buffers that are alive together do
not overlap.  Finding the least height is NP-hard (dynamic storage allocation: Garey and
Johnson, 1979, SR2); no plan is lower than the most bytes alive at once.
"""

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen


@frozen
class Buffer:
    """A buffer of ``size`` bytes, alive from time ``begin`` up to, not including, ``end``.

    Its offset is to be a multiple of ``alignment`` bytes.  A buffer with ``size`` 0 or
    ``begin == end`` overlaps nothing.
    """

    size: int
    begin: int
    end: int
    alignment: int = 1


@frozen
class Plan:
    """Offsets in bytes, in the order of the buffers, and how good they are.

    ``height`` is the size of the pool; ``lower_bound`` the most bytes alive at once;
    ``solver`` names what found the plan.
    """

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    solver: str

    @property
    def gap(self) -> float:
        """How far the height is above the lower bound, as a fraction of it."""
        return self.height / self.lower_bound - 1 if self.lower_bound else 0.0


class Solver(Protocol):
    """Finds a plan; the same input gives the same plan unless time runs out."""

    @property
    def name(self) -> str:
        """What plans say found them."""
        ...

    def solve(
        self, buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float
    ) -> Plan:
        """Return the best plan found within about ``seconds``.

        It stops early at a height of at most ``enough`` (the lower bound, if ``None``).

        Raises:
            ValueError: a buffer has a negative size or ends before it begins, or an
                alignment is not positive.
        """
        ...
