"""A conformance kit: an emitter's programs behave as in the interpreter.

The author of an emitter runs every case in their own tests::

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_conformance(case: Case) -> None:
        check_case(MyEmitter(), case)
"""

from enum import Enum
from typing import TYPE_CHECKING

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Emitter, Loaded, Value, check_support
from wrapperir.emit.support import fit_program
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.conformance_cases import CASES
from wrapperir.testing.inputs import difference, example_constants, example_inputs

if TYPE_CHECKING:
    from wrapperir.interp import Interpreter

__all__ = ["CASES", "Case", "ConformanceError", "Outcome", "check_case"]


class ConformanceError(AssertionError):
    """An emitter's program behaves differently from the interpreter."""


class Outcome(Enum):
    """How a case ended that did not fail."""

    PASSED = "passed"
    UNSUPPORTED = "unsupported"
    """The emitter declares that it lacks something that the case needs."""


def check_case(emitter: Emitter, case: Case) -> Outcome:
    """Compile a case and run it beside the interpreter, twice for each of its seeds.

    Outputs, and inputs and constants that the program may mutate, must be equal bit for
    bit, with equal dtype, size and stride; other inputs and constants must not have
    changed, and the list of inputs must have been emptied.  A case that faults must raise
    an error in both.  This executes the case's kernels.

    Raises:
        ConformanceError: something differs; the message says what.
        DiagnosticError: the emitter refuses a case that it declares to support.
    """
    from wrapperir.interp import Interpreter

    program = fit_program(case.program, emitter.support)
    if check_support(program, emitter.name, emitter.support):
        return Outcome.UNSUPPORTED
    artifact = emitter.emit(program)
    if emitter.emit(program) != artifact:
        raise ConformanceError(f"{case.name}: two emits of the program differ")
    for seed in case.seeds:
        constants = example_constants(case.program, seed)
        expected_constants = {key: t.clone() for key, t in constants.items()}
        loaded = emitter.load(artifact, constants)
        interpreter = Interpreter(program, expected_constants)
        for run in range(2):  # the second starts with the state after the first
            where = f"{case.name}, seed {seed}, run {run}"
            if case.faults:
                _check_fault(where, case, loaded, interpreter, seed)
                break
            _check_run(where, case, loaded, interpreter, seed)
            for key, constant in constants.items():
                _check_equal(f"{where}: constant {key}", constant, expected_constants[key])
    return Outcome.PASSED


def _check_run(
    where: str, case: Case, loaded: Loaded, interpreter: "Interpreter", seed: int
) -> None:
    mine = example_inputs(case.program, seed)
    reference = example_inputs(case.program, seed)
    outputs = interpreter.run(list(reference))
    given = list(mine)
    returned = loaded(given)
    if given:
        raise ConformanceError(f"{where}: the list of inputs was not emptied")
    if len(returned) != len(outputs):
        raise ConformanceError(f"{where}: {len(returned)} outputs, not {len(outputs)}")
    for index, (got, wanted) in enumerate(zip(returned, outputs, strict=True)):
        _check_equal(f"{where}: output {index}", got, wanted)
    for item, got, wanted in zip(case.program.inputs, mine, reference, strict=True):
        if not item.donated:
            _check_equal(f"{where}: input %{item.name} afterwards", got, wanted)


def _check_fault(
    where: str, case: Case, loaded: Loaded, interpreter: "Interpreter", seed: int
) -> None:
    try:
        interpreter.run(example_inputs(case.program, seed))
    except DiagnosticError:
        pass
    else:
        raise ConformanceError(f"{where}: the interpreter does not fault")
    try:
        loaded(example_inputs(case.program, seed))
    except Exception:  # which error it is, is the emitter's own
        return
    raise ConformanceError(f"{where}: no error was raised")


def _check_equal(where: str, got: Value, wanted: Value) -> None:
    found = difference(got, wanted)
    if found is not None:
        raise ConformanceError(f"{where} {found}")
