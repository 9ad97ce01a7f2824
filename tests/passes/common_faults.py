"""What is wrong with a program for all ranks that a pass made."""

from collections.abc import Sequence

from wrapperir.ir import Program
from wrapperir.testing.rank_check import rank_behaviour, rank_pass_faults


def faults_of(programs: Sequence[Program], after: Program, limit: float) -> tuple[str, ...]:
    """Return the faults of a program that replaces the one of all ranks."""
    made = rank_behaviour([after] * len(programs))
    return rank_pass_faults(rank_behaviour(programs), made, limit)
