"""Tuning any program leaves it valid, readable, and equal in what it computes."""

import hashlib
from collections.abc import Mapping, Sequence

import torch
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.diagnostics import Severity
from wrapperir.emit import Value, compile_program
from wrapperir.interp import interpret
from wrapperir.ir import BenchmarkChoice, MultiKernelLine, NearestChoice, Number, Program
from wrapperir.testing import example_constants, example_inputs, programs
from wrapperir.text import format_json, format_program, parse_json, parse_program
from wrapperir.tuning.measure import Times
from wrapperir.tuning.record import format_record, parse_record
from wrapperir.tuning.text import format_tuning
from wrapperir.tuning.tune import tune_program
from wrapperir.verify import verify


def by_chance(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
    """Give each choice a time that its name and the values decide, and some none."""

    def time(program: Program) -> float | None:
        text = f"{program.definitions[0].name} {sorted(values.items())}"
        number = hashlib.sha256(text.encode()).digest()[0]
        return None if number < 20 else float(number)

    times = tuple(map(time, programs))
    return Times(times, tuple("by chance" if t is None else None for t in times))


def errors(program: Program) -> list[str]:
    return [d.message for d in verify(program) if d.severity is Severity.ERROR]


def outputs(program: Program, *, emitted: bool = False) -> Sequence[Value]:
    inputs, constants = example_inputs(program), example_constants(program)
    if emitted:
        return compile_program(program, constants=constants)(inputs)
    return interpret(program, inputs, constants)


@settings(max_examples=draws(40, fuzz=80))
@given(programs(max_steps=10))
def test_a_tuned_program_computes_what_it_did(program: Program) -> None:
    tuned = tune_program(program, samples=4, interpreted=True, timer=by_chance)
    after = tuned.program
    assert errors(after) == []
    assert parse_program(format_program(after)) == after
    assert parse_json(format_json(after)) == after
    assert parse_record(format_record(tuned.report)) == tuned.report
    assert f"@{program.name}" in format_tuning(tuned.report)
    chosen = {k.kernel for k in tuned.report.kernels if k.chosen is not None}
    for line in after.definitions:
        if isinstance(line, MultiKernelLine) and line.name in chosen:
            assert not isinstance(line.selection, BenchmarkChoice | NearestChoice)
    if after == program:
        return
    before = outputs(program)
    for found in (outputs(after), outputs(after, emitted=True)):
        torch.testing.assert_close(list(found), list(before), equal_nan=True)
