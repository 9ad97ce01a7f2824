"""Faults put into valid programs, each with the code and place it must be found by.

They try a verifier as mutants try a test suite: what is accepted with a fault in it shows
a check that is missing.
"""

import random
from collections.abc import Callable, Mapping
from enum import StrEnum

from wrapperir.ir.program import Program
from wrapperir.testing import (
    call_faults,
    choice_faults,
    descriptor_faults,
    memory_faults,
    pool_faults,
    stream_faults,
)
from wrapperir.testing.injection import Faulty

__all__ = ["FaultKind", "Faulty", "inject"]


class FaultKind(StrEnum):
    """What is done to a valid program."""

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
    return _INJECTORS[kind](program, random.Random(seed))  # noqa: S311 - repeatable


_INJECTORS: Mapping[FaultKind, Callable[[Program, random.Random], Faulty | None]] = {
    FaultKind.DROP_FREE: memory_faults.drop_free,
    FaultKind.DOUBLE_FREE: memory_faults.double_free,
    FaultKind.USE_AFTER_FREE: memory_faults.use_after_free,
    FaultKind.RETURN_AFTER_FREE: memory_faults.return_after_free,
    FaultKind.FREE_CONSTANT: memory_faults.free_constant,
    FaultKind.DROP_ALLOCATION: memory_faults.drop_allocation,
    FaultKind.DUPLICATE_DEFINITION: memory_faults.duplicate_definition,
    FaultKind.DUPLICATE_KERNEL: call_faults.duplicate_kernel,
    FaultKind.SWAP_ARGUMENTS: call_faults.swap_arguments,
    FaultKind.MISSING_ARGUMENT: call_faults.missing_argument,
    FaultKind.WRONG_DTYPE: call_faults.wrong_dtype,
    FaultKind.WRONG_DEVICE: call_faults.wrong_device,
    FaultKind.UNDEFINED_KERNEL: call_faults.undefined_kernel,
    FaultKind.UNBOUND_CONSTEXPR: call_faults.unbound_constexpr,
    FaultKind.UNINITIALIZED_READ: call_faults.uninitialized_read,
    FaultKind.ODD_DESCRIPTOR: descriptor_faults.odd_descriptor,
    FaultKind.MISALIGNED_DESCRIPTOR: descriptor_faults.misaligned_descriptor,
    FaultKind.INCOMPATIBLE_REUSE: memory_faults.incompatible_reuse,
    FaultKind.SHRINK_BUFFER: memory_faults.shrink_buffer,
    FaultKind.VIEW_OUT_OF_BOUNDS: memory_faults.view_out_of_bounds,
    FaultKind.WRONG_RANK: memory_faults.wrong_rank,
    FaultKind.FORBIDDEN_WRITE: memory_faults.forbidden_write,
    FaultKind.OUT_NOT_WRITTEN: call_faults.out_not_written,
    FaultKind.BAD_OPERATOR: call_faults.bad_operator,
    FaultKind.TUPLE_INDEX: call_faults.tuple_index,
    FaultKind.UNDEFINED_SYMBOL: call_faults.undefined_symbol,
    FaultKind.EMPTY_RANGE: call_faults.empty_range,
    FaultKind.OUTER_NAME: call_faults.outer_name,
    FaultKind.OVERLAPPING_PLACEMENT: pool_faults.overlapping_placement,
    FaultKind.PLACEMENT_OUTSIDE: pool_faults.placement_outside,
    FaultKind.MISALIGNED_PLACEMENT: pool_faults.misaligned_placement,
    FaultKind.FOREIGN_PLACEMENT: pool_faults.foreign_placement,
    FaultKind.PLACED_PROGRAM_WORKSPACE: pool_faults.placed_program_workspace,
    FaultKind.PLACED_IN_BUFFER: pool_faults.placed_in_buffer,
    FaultKind.POOL_AS_ARGUMENT: pool_faults.pool_as_argument,
    FaultKind.RETURNED_PLACEMENT: pool_faults.returned_placement,
    FaultKind.WAIT_FOR_BUFFER: pool_faults.wait_for_buffer,
    FaultKind.WAIT_ELSEWHERE: pool_faults.wait_elsewhere,
    FaultKind.UNORDERED_READ: stream_faults.unordered_read,
    FaultKind.UNORDERED_REUSE: stream_faults.unordered_reuse,
    FaultKind.NESTED_STREAM: stream_faults.nested_stream,
    FaultKind.CHOICE_INDEX: choice_faults.choice_index,
    FaultKind.NO_HINTS: choice_faults.no_hints,
    FaultKind.UNKNOWN_SIZE_IN_TREE: choice_faults.unknown_size_in_tree,
    FaultKind.EXTRA_TIME: choice_faults.extra_time,
    FaultKind.SIZE_OF_SCALAR: choice_faults.size_of_scalar,
    FaultKind.MISSING_DIMENSION: choice_faults.missing_dimension,
    FaultKind.REPEATED_CHOICE: choice_faults.repeated_choice,
    FaultKind.NEED_OF_READ: choice_faults.need_of_read,
    FaultKind.UNWRITTEN_BY_CHOICE: choice_faults.unwritten_by_choice,
    FaultKind.CLASHING_MODES: choice_faults.clashing_modes,
    FaultKind.NO_WORKSPACE: choice_faults.no_workspace,
    FaultKind.SMALL_WORKSPACE: choice_faults.small_workspace,
    FaultKind.SAME_MULTI_KERNEL: choice_faults.same_multi_kernel,
}
