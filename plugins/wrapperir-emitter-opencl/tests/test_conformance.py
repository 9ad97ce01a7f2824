"""The cases of the conformance kit, with kernels in OpenCL C on the OpenCL device."""

import pytest

from device_programs import moved
from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value, check_support
from wrapperir.emit.support import fit_program
from wrapperir.interp import Interpreter
from wrapperir.testing import CASES, Case, example_constants, example_inputs
from wrapperir.testing.inputs import difference
from wrapperir_opencl.emitter import OpenclEmitter

EMITTER = OpenclEmitter()


def is_supported(case: Case) -> bool:
    """Say whether the emitter does not refuse a case on its device."""
    program = placed(case)
    if check_support(program, EMITTER.name, EMITTER.support):
        return False
    try:
        EMITTER.emit(program)
    except DiagnosticError as error:
        return {d.code for d in error.diagnostics} != {Code.UNSUPPORTED_FEATURE}
    return True


def placed(case: Case) -> wir.Program:
    """Return the program of a case on the device."""
    return moved(fit_program(case.program, EMITTER.support))


SUPPORTED = [
    case
    for case in CASES
    # The choice that faults is replaced for emitters that do not choose.
    if is_supported(case) and case.name != "selection_without_value_cpp"
]


def test_some_cases_are_supported() -> None:
    assert {"kernels_cpp", "workspaces_cpp", "pools_and_kernels_cpp"} <= {
        case.name for case in SUPPORTED
    }


@pytest.mark.device
@pytest.mark.parametrize("case", SUPPORTED, ids=lambda case: case.name)
def test_conformance(case: Case) -> None:
    artifact = EMITTER.emit(placed(case))
    assert EMITTER.emit(placed(case)) == artifact
    for seed in case.seeds:
        mine, reference = (example_constants(case.program, seed) for _ in range(2))
        interpreter = Interpreter(fit_program(case.program, EMITTER.support), reference)
        program = EMITTER.load(artifact, mine)
        if case.faults:
            with pytest.raises(DiagnosticError):
                interpreter.run(example_inputs(case.program, seed))
            with pytest.raises(RuntimeError):
                program(example_inputs(case.program, seed))
            continue
        kept = []
        before = None
        for run in (seed, seed, seed + 1000):
            inputs, wanted_inputs = (example_inputs(case.program, run) for _ in range(2))
            wanted = interpreter.run(list(wanted_inputs))
            given = list(inputs)
            found = program(given)
            assert given == []
            compare(found, wanted)
            donated = [item.donated for item in case.program.inputs]
            for got, want, gone in zip(inputs, wanted_inputs, donated, strict=True):
                assert gone or difference(got, want) is None
            for key, constant in mine.items():
                assert difference(constant, reference[key]) is None
            kept.append((found, wanted))
            live = program.live_bytes  # type: ignore[attr-defined]
            assert before in (None, live), "a call leaves memory"
            before = live
        outputs = case.program.outputs
        for found, wanted in kept[:1]:
            fresh = [n for n, x in enumerate(outputs) if isinstance(x, wir.BufferRef)]
            given_names = {x.name for x in (*case.program.inputs, *case.program.constants)}
            for n in fresh:
                output = outputs[n]
                assert isinstance(output, wir.BufferRef)
                if output.name not in given_names:
                    assert difference(found[n], wanted[n]) is None, "a later run changed it"


def compare(found: tuple[Value, ...], wanted: tuple[Value, ...]) -> None:
    """Assert that outputs are equal bit for bit, with equal dtypes, sizes and strides."""
    assert len(found) == len(wanted)
    for index, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert difference(got, want) is None, index
