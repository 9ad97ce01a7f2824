"""Faults put into valid programs, each with the code and place it must be found by.

They test a verifier as mutants test a test suite: a faulty program that is accepted shows
a missing check.
"""

from collections.abc import Mapping
from enum import StrEnum
from random import Random

from wrapperir.ir import Program
from wrapperir.testing import call_faults, choice_faults, memory_faults, pool_faults
from wrapperir.testing.injection import Faulty, Injector, NoPlaceError

__all__ = ["FaultKind", "Faulty", "inject"]


class FaultKind(StrEnum):
    """A way to make a valid program faulty."""

    DROP_FREE = "drop_free"
    DOUBLE_FREE = "double_free"
    USE_AFTER_FREE = "use_after_free"
    RETURN_AFTER_FREE = "return_after_free"
    FREE_CONSTANT = "free_constant"
    DROP_ALLOCATION = "drop_allocation"
    DUPLICATE_DEFINITION = "duplicate_definition"
    DUPLICATE_KERNEL = "duplicate_kernel"
    SWAP_ARGUMENTS = "swap_arguments"
    MISSING_ARGUMENT = "missing_argument"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_DEVICE = "wrong_device"
    UNDEFINED_KERNEL = "undefined_kernel"
    UNBOUND_CONSTEXPR = "unbound_constexpr"
    UNINITIALIZED_READ = "uninitialized_read"
    ODD_DESCRIPTOR = "odd_descriptor"
    MISALIGNED_DESCRIPTOR = "misaligned_descriptor"
    INCOMPATIBLE_REUSE = "incompatible_reuse"
    SHRINK_BUFFER = "shrink_buffer"
    VIEW_OUT_OF_BOUNDS = "view_out_of_bounds"
    WRONG_RANK = "wrong_rank"
    FORBIDDEN_WRITE = "forbidden_write"
    OUT_NOT_WRITTEN = "out_not_written"
    BAD_OPERATOR = "bad_operator"
    TUPLE_INDEX = "tuple_index"
    UNDEFINED_SYMBOL = "undefined_symbol"
    EMPTY_RANGE = "empty_range"
    OUTER_NAME = "outer_name"
    OVERLAPPING_PLACEMENT = "overlapping_placement"
    PLACEMENT_OUTSIDE = "placement_outside"
    MISALIGNED_PLACEMENT = "misaligned_placement"
    FOREIGN_PLACEMENT = "foreign_placement"
    PLACED_PROGRAM_WORKSPACE = "placed_program_workspace"
    PLACED_IN_BUFFER = "placed_in_buffer"
    POOL_AS_ARGUMENT = "pool_as_argument"
    RETURNED_PLACEMENT = "returned_placement"
    WAIT_FOR_BUFFER = "wait_for_buffer"
    WAIT_ELSEWHERE = "wait_elsewhere"
    UNORDERED_READ = "unordered_read"
    UNORDERED_REUSE = "unordered_reuse"
    NESTED_STREAM = "nested_stream"
    CHOICE_INDEX = "choice_index"
    NO_HINTS = "no_hints"
    UNKNOWN_SIZE_IN_TREE = "unknown_size_in_tree"
    EXTRA_TIME = "extra_time"
    SIZE_OF_SCALAR = "size_of_scalar"
    MISSING_DIMENSION = "missing_dimension"
    REPEATED_CHOICE = "repeated_choice"
    NEED_OF_READ = "need_of_read"
    UNWRITTEN_BY_CHOICE = "unwritten_by_choice"
    CLASHING_MODES = "clashing_modes"
    NO_WORKSPACE = "no_workspace"
    SMALL_WORKSPACE = "small_workspace"
    SAME_MULTI_KERNEL = "same_multi_kernel"


def inject(program: Program, kind: FaultKind, seed: int = 0) -> Faulty | None:
    """Return the program with a fault, or ``None`` where it has no place for the kind.

    ``seed`` picks the place among those there are.
    """
    try:
        return _INJECTORS[kind](program, Random(seed))  # noqa: S311 - repeatable
    except NoPlaceError:
        return None


_MODULES = (memory_faults, call_faults, pool_faults, choice_faults)
_INJECTORS: Mapping[FaultKind, Injector] = {
    kind: next(getattr(m, kind.value) for m in _MODULES if hasattr(m, kind.value))
    for kind in FaultKind
}
"""The injector of each kind, found by its name."""
