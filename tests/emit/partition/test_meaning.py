"""Partitioned programs compute what the interpreter does, whatever is lacking."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.emit.partition.cutting import cut
from tests.emit.partition.partial_emitter import HOSTED, HostedEmitter, PartialEmitter
from wrapperir.emit import Value, check_support
from wrapperir.emit.partition import Partition, PartitioningEmitter, partition_program
from wrapperir.emit.partition.cut import Side
from wrapperir.emit.support import fit_program
from wrapperir.interp import interpret
from wrapperir.ir import LINES, ExternKernelLine, FreeLine, Line, Program
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.renaming import replace_cpu
from wrapperir.passes import memory_passes
from wrapperir.testing.inputs import difference, example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

PROGRAMS = programs(languages=(), max_steps=20)
LAX = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
Run = Callable[[list[Value], Mapping[str, torch.Tensor]], Any]


def results(run: Run, program: Program) -> list[object]:
    """Return a run's outputs, then what it leaves in inputs and constants."""
    inputs, constants = example_inputs(program), example_constants(program)
    given = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    kept = [
        value
        for item, value in zip(program.inputs, given, strict=True)
        if not item.donated and value is not None
    ]
    return [*run(given, constants), *kept, *constants.values()]


def assert_same(run: Run, program: Program) -> None:
    wanted = results(lambda xs, constants: interpret(program, xs, constants), program)
    for found, expected in zip(results(run, program), wanted, strict=True):
        assert difference(found, expected) is None


@settings(max_examples=draws(60, fuzz=400), suppress_health_check=LAX)
@given(PROGRAMS, st.integers(0, 2**16), st.sampled_from([0.1, 0.3, 0.6]))
def test_any_lines_may_be_lacking(program: Program, seed: int, share: float) -> None:
    """The interpreter runs each part: it faults at a leak, and at what is not written."""
    rng = random.Random(seed)
    lacking = [i for i in range(len(program.lines) * 2) if rng.random() < share]
    made = cut(program, lacking, checks_inputs=rng.random() < 0.5)
    assert len(made.parts.parts) == len(made.cut.sides)
    assert_same(made.run, program)


OPERATORS = (
    *("aten.neg.default", "aten.relu.default", "aten.add.out", "aten.add.Tensor"),
    *("aten.neg_.default", "aten.fill_.Scalar", "aten.t.default", "aten.mm.default"),
    *("aten.max.dim", "aten.nonzero.default", "aten.add.Scalar", "aten.amax.default"),
)


@st.composite
def partial_emitters(draw: st.DrawFn) -> PartialEmitter:
    """Draw an emitter with fewer line kinds and operators, which refuses some of these."""
    lacking: set[type[Line]] = set(draw(st.sets(st.sampled_from(LINES), max_size=3)))
    support = PythonEmitter.support
    has_all = draw(st.booleans())
    operators = None if has_all else draw(st.frozensets(st.sampled_from(OPERATORS)))
    refused = draw(st.frozensets(st.sampled_from(OPERATORS), max_size=3))
    less = evolve(
        support,
        lines=frozenset(LINES) - lacking,
        operators=operators,
        greatest_alignment=draw(st.sampled_from([None, 16, 64])),
    )
    return PartialEmitter(support=less, refused=refused)


@settings(max_examples=draws(30, fuzz=200), suppress_health_check=LAX)
@given(PROGRAMS, partial_emitters(), st.booleans())
def test_emitted_parts_are_within_support(
    program: Program, chosen: PartialEmitter, runs_passes: bool
) -> None:
    def passes(emitter: Any) -> tuple[str, ...]:
        return memory_passes(emitter.support.lines) if runs_passes else ()

    fallback = PythonEmitter()
    found = partition_program(program, chosen, fallback, passes)
    for part in found.parts:
        assert verify(part.program) == ()
        if part.emitter is chosen:
            fitted = fit_program(part.program, chosen.support)
            assert check_support(fitted, chosen.name, chosen.support) == ()
            assert not operators_of(fitted) & chosen.refused
    assert_report(found)
    emitter = PartitioningEmitter(chosen, fallback, passes)
    artifact = emitter.emit(program)
    assert artifact.emitter == ("partial" if found.plan is None else "partial+python")

    def run(inputs: list[Value], constants: Mapping[str, torch.Tensor]) -> Any:
        return emitter.load(artifact, constants)(inputs)

    assert_same(run, program)


@settings(max_examples=draws(20, fuzz=200), suppress_health_check=LAX)
@given(PROGRAMS, partial_emitters())
def test_parts_of_a_device_with_memory_of_its_own(
    program: Program, partial: PartialEmitter
) -> None:
    """What a part writes is seen by later parts, on the device and on the host."""
    assert_same_on_device(program, partial)


def assert_same_on_device(program: Program, partial: PartialEmitter) -> Partition:
    """Run a program on a device that has what an emitter has; return its partition."""
    devices = frozenset({HOSTED})
    support = evolve(partial.support, hosted=devices, streams=devices | {"cpu"})
    chosen = HostedEmitter(support=support, refused=partial.refused)
    emitter = PartitioningEmitter(chosen, PythonEmitter())
    artifact = emitter.emit(replace_cpu(program, HOSTED))

    def run(inputs: list[Value], constants: Mapping[str, torch.Tensor]) -> Any:
        return emitter.load(artifact, constants)(inputs)

    assert_same(run, program)
    return emitter.partition(replace_cpu(program, HOSTED))


def test_what_may_share_memory_with_an_argument_is_made_on_the_host() -> None:
    """Its copy would not have what is written to the argument later."""
    program = parse_program("""\
wrapperir 1

program @main(%x: mutated f32[2, 3], %y: f32[2, 3]) {
  %t = extern_kernel aten.t.default(%x) aliases(%x) : f32[3, 2; stride 1, 3]
  extern_kernel aten.relu.out(%y, out = %x) writes(%x)
  return %t, %y, %x
}
""")
    operators = frozenset({"aten.t.default"})
    lacking = evolve(PythonEmitter.support, operators=operators)
    found = assert_same_on_device(program, PartialEmitter(support=lacking))
    assert "may share memory with %x" in found.report.fell_back[0].message


def test_a_refused_part_that_launches_nothing_falls_back() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: donated f32[2, 3]) {
  %t = reinterpret %x as f32[; offset 5]
  free %x
  return %t
}
""")
    lines = frozenset(LINES) - {FreeLine}
    lacking = PartialEmitter(support=evolve(PythonEmitter.support, lines=lines))
    found = assert_same_on_device(program, lacking)
    assert [part.side for part in found.report.parts] == [Side.FALLBACK]


def operators_of(program: Program) -> set[str]:
    lines = (line for line, _ in walk_places(program.lines))
    return {line.operator for line in lines if isinstance(line, ExternKernelLine)}


def assert_report(found: Partition) -> None:
    """The report counts all calls, and has a cause wherever something fell back."""
    report = found.report
    effects = walk_places(report.program.lines)
    calls = sum(type(line).__name__.endswith("KernelLine") for line, _ in effects)
    assert report.calls >= calls
    if report.chosen_calls < report.calls:
        assert report.fell_back
