"""Faults put into valid programs are found: by their code, on the guilty line."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from wrapperir.diagnostics import Code
from wrapperir.ir.builder import ProgramBuilder, Value
from wrapperir.ir.program import Program
from wrapperir.ir.types import tensor
from wrapperir.testing.faults import FaultKind, inject
from wrapperir.testing.programs import programs
from wrapperir.text import format_with_positions
from wrapperir.verify import verify

ONE_DIAGNOSTIC = frozenset(FaultKind) - {
    # these change what other lines were told, too, and each such line is wrong
    FaultKind.SWAP_ARGUMENTS,
    FaultKind.WRONG_DTYPE,
    FaultKind.WRONG_DEVICE,
    FaultKind.UNINITIALIZED_READ,
    FaultKind.INCOMPATIBLE_REUSE,
    FaultKind.SHRINK_BUFFER,
}


OF_DEFINITIONS = {
    # any multi-kernel has a place for these, so that fewer programs do
    *(FaultKind.CHOICE_INDEX, FaultKind.NO_HINTS, FaultKind.UNKNOWN_SIZE_IN_TREE),
    *(FaultKind.EXTRA_TIME, FaultKind.SIZE_OF_SCALAR, FaultKind.REPEATED_CHOICE),
    *(FaultKind.NEED_OF_READ, FaultKind.CLASHING_MODES, FaultKind.SAME_MULTI_KERNEL),
}


@pytest.mark.parametrize("kind", FaultKind)
def test_fault_is_found_where_it_is(kind: FaultKind) -> None:
    injected = 0
    # A write put in by itself would race with what other streams do: a second fault.
    streams = kind is not FaultKind.FORBIDDEN_WRITE

    def check(program: Program, seed: int) -> None:
        nonlocal injected
        faulty = inject(program, kind, seed)
        if faulty is None:
            return
        injected += 1
        diagnostics = verify(faulty.program)
        assert (faulty.code, faulty.path) in {(d.code, d.path) for d in diagnostics}
        if kind in ONE_DIAGNOSTIC:
            assert len(diagnostics) == 1, diagnostics
        if kind is FaultKind.BAD_OPERATOR:
            return  # no text says it
        _, positions = format_with_positions(faulty.program)
        for diagnostic in diagnostics:
            assert diagnostic.path in positions

    for most in (
        20 if kind in OF_DEFINITIONS else 60,
        600,
    ):  # few programs have a place for a rare kind
        settings(
            max_examples=most,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # a program that shows a miss is found, not made small
        )(given(programs(max_steps=20, streams=streams), st.integers(0, 10**6))(check))()
        if injected:
            return
    raise AssertionError(f"no program has a place for {kind}")


def test_reuse_of_a_name_that_was_reported_is_not_reported_again() -> None:
    b = ProgramBuilder()
    missing = Value("missing", tensor("f32", (8,)))
    small = b.reuse(missing, tensor("f32", (4,)))
    large = b.reuse(small, tensor("f32", (8,)))
    b.free(large)
    assert [d.code for d in verify(b.build())] == [Code.UNDEFINED_NAME]
