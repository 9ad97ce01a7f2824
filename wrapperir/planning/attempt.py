"""What comes of searching for a plan within a given height."""

from collections.abc import Sequence
from enum import Enum

from attrs import frozen


class Outcome(Enum):
    """How a search ended."""

    FOUND = 1
    INFEASIBLE = 0
    """There is no such plan."""
    UNDECIDED = -1
    """The steps or the time ran out."""


@frozen
class Attempt:
    """How a search ended, with offsets if a plan was found, after how many steps."""

    outcome: Outcome
    offsets: Sequence[int]
    steps: int
