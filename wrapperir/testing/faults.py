"""Faults put into valid programs, each with the code and place it must be found by.

They test a verifier as mutants test a test suite: a faulty program that is accepted shows
a missing check.
"""

from collections.abc import Mapping
from random import Random

from wrapperir.ir import Program
from wrapperir.testing import (
    call_faults,
    choice_faults,
    collective_faults,
    memory_faults,
    pool_faults,
    region_faults,
)
from wrapperir.testing.injection import Faulty, Injector, NoPlaceError

__all__ = ["FAULTS", "Faulty", "inject"]

FAULTS: Mapping[str, Injector] = {
    name: value
    for module in (
        *(memory_faults, call_faults, pool_faults, choice_faults, region_faults),
        collective_faults,
    )
    for name, value in vars(module).items()
    if isinstance(value, Injector)
}
"""The kinds of faults, by their names, such as ``double_free``."""


def inject(program: Program, kind: str, seed: int = 0) -> Faulty | None:
    """Return the program with a fault, or ``None`` where it has no place for the kind.

    ``kind`` is a key of :data:`FAULTS`.  ``seed`` picks one of the possible places.
    """
    try:
        return FAULTS[kind].inject(program, Random(seed))  # noqa: S311 - repeatable
    except NoPlaceError:
        return None
