"""Faults put into valid programs are found: by their code, on the guilty line."""

import random
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.draws import draws
from wrapperir.diagnostics import Code
from wrapperir.ir import Program, tensor
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.testing.faults import FAULTS, Faulty, inject
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, format_with_positions
from wrapperir.verify import verify

ONE_DIAGNOSTIC = FAULTS.keys() - {
    # these change what other lines were told, too, and each such line is wrong
    "swap_arguments",
    "wrong_dtype",
    "wrong_device",
    "uninitialized_read",
    "incompatible_reuse",
    "shrink_buffer",
}

FURTHER = {
    # what is not freed keeps its room in a pool, which later lines may be given
    "drop_free": {Code.PLACEMENT_OVERLAP},
}


@cache
def drawn(streams: bool, most: int) -> tuple[Program, ...]:
    """Return programs that all kinds of faults are put into: drawing takes the longest."""
    found: list[Program] = []

    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(programs(max_steps=20, streams=streams))
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return tuple(found)


@pytest.mark.parametrize("kind", FAULTS)
def test_fault_is_found_where_it_is(kind: str) -> None:
    # A write put in by itself would race with what other streams do: a second fault.
    streams = kind != "forbidden_write"
    # Few programs have a place for a rare kind.
    for most in (draws(100 if streams else 40, fuzz=600), draws(600, fuzz=2400)):
        seeds = random.Random(kind)
        faults = [inject(p, kind, seeds.randrange(10**6)) for p in drawn(streams, most)]
        injected = [faulty for faulty in faults if faulty is not None]
        for faulty in injected:
            check(kind, faulty)
        if injected:
            return
    raise AssertionError(f"no program has a place for {kind}")


def check(kind: str, faulty: Faulty) -> None:
    diagnostics = verify(faulty.program)
    found = {(d.code, d.path) for d in diagnostics}
    assert (faulty.code, faulty.path) in found, f"\n{format_program(faulty.program)}"
    if kind in ONE_DIAGNOSTIC:
        others = {code for code, _ in found} - FURTHER.get(kind, set())
        assert others == {faulty.code}, diagnostics
        assert len(diagnostics) == 1 or kind in FURTHER, diagnostics
    if kind == "bad_operator":
        return  # no text says it
    _, positions = format_with_positions(faulty.program)
    for diagnostic in diagnostics:
        assert diagnostic.path in positions


def test_reuse_of_a_name_that_was_reported_is_not_reported_again() -> None:
    b = ProgramBuilder()
    missing = NamedValue("missing", tensor("f32", (8,)))
    small = b.reuse(missing, tensor("f32", (4,)))
    large = b.reuse(small, tensor("f32", (8,)))
    b.free(large)
    assert [d.code for d in verify(b.build())] == [Code.UNDEFINED_NAME]
