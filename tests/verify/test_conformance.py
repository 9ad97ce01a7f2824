"""The conformance kit passes on the Python emitter and finds what is wrong with others."""

from collections.abc import Callable, Mapping

import pytest
import torch

from tests.verify.lines_of import all_lines
from wrapperir.emit import Artifact, Emitter, Loaded, Support, Value
from wrapperir.interp import Interpreter
from wrapperir.ir import LINES, Language, Program
from wrapperir.testing.conformance import (
    CASES,
    Case,
    ConformanceError,
    Outcome,
    check_case,
)
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_have_no_faults(case: Case) -> None:
    assert verify(case.program) == ()


def test_cases_cover_every_line_kind() -> None:
    assert {type(line) for case in CASES for line in all_lines(case.program)} == set(LINES)
    assert len(BY_NAME) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_python_emitter_conforms(case: Case) -> None:
    assert check_case(PythonEmitter(), case) is Outcome.PASSED


class Interpreting(Emitter):
    """An emitter whose artifact is the program's text, with a fault of choice."""

    name = "interpreting"

    def __init__(
        self,
        spoil: Callable[[tuple[Value, ...]], tuple[Value, ...]] = lambda outputs: outputs,
    ) -> None:
        self.support = Support(languages=frozenset({Language.TRITON}))
        self.spoil = spoil
        self.empties = True

    def emit(self, program: Program) -> Artifact:
        return Artifact(self.name, {"program.wir": format_program(program)}, "program.wir")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        text = artifact.files[artifact.entry]
        assert isinstance(text, str)
        interpreter = Interpreter(parse_program(text), constants)

        def call(inputs: list[Value]) -> tuple[Value, ...]:
            outputs = interpreter.run(inputs)
            if self.empties:
                inputs.clear()
            return self.spoil(outputs)

        return call


def test_an_emitter_that_interprets_conforms() -> None:
    assert check_case(Interpreting(), BY_NAME["mutation"]) is Outcome.PASSED
    assert check_case(Interpreting(), BY_NAME["kernels_triton"]) is Outcome.PASSED


def test_what_an_emitter_lacks_is_no_failure() -> None:
    assert check_case(Interpreting(), BY_NAME["kernels_cpp"]) is Outcome.UNSUPPORTED


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("outputs", lambda outputs: outputs[:-1], "6 outputs, not 7"),
        ("reuse", lambda outputs: (outputs[0] + 1,), "output 0 has other values"),
        ("reuse", lambda outputs: (outputs[0].double(),), "output 0 is .*float64"),
        ("reuse", lambda outputs: (3,), "output 0 is a int, not a tensor"),
        ("outputs", lambda outputs: (*outputs[:5], 7.0, 0.5), "output 5 is 7.0, not 7"),
        (
            "mutation",
            lambda outputs: (outputs[0], outputs[1].add_(1) - 1),
            "constant stats",
        ),
    ],
)
def test_differences_are_found(
    name: str, spoil: Callable[[tuple[Value, ...]], tuple[Value, ...]], message: str
) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_case(Interpreting(spoil), BY_NAME[name])


def test_inputs_that_are_kept_are_found() -> None:
    emitter = Interpreting()
    emitter.empties = False
    with pytest.raises(ConformanceError, match="not emptied"):
        check_case(emitter, BY_NAME["reuse"])


def test_a_missing_fault_is_found() -> None:
    class Forgiving(Interpreting):
        def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
            return lambda inputs: ()

    with pytest.raises(ConformanceError, match="no error was raised"):
        check_case(Forgiving(), BY_NAME["false_assert_scalar"])
