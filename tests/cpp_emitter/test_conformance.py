"""The conformance kit, run on the C++ emitter."""

import pytest

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import check_support
from wrapperir.ir import KernelDefinitionLine, Language
from wrapperir.testing import CASES, Case, Outcome, check_case
from wrapperir_cpp.emitter import CppEmitter


def has_triton(case: Case) -> bool:
    return any(
        isinstance(line, KernelDefinitionLine) and line.language is Language.TRITON
        for line in case.program.definitions
    )


@pytest.mark.parametrize(
    "case", [case for case in CASES if not has_triton(case)], ids=lambda case: case.name
)
def test_conformance(case: Case) -> None:
    assert check_case(CppEmitter(), case) is Outcome.PASSED


@pytest.mark.parametrize(
    "case", [case for case in CASES if has_triton(case)], ids=lambda case: case.name
)
def test_triton_kernels_are_refused_on_the_cpu(case: Case) -> None:
    assert {d.code for d in refusals(case)} == {Code.UNSUPPORTED_FEATURE}


def refusals(case: Case) -> tuple[Diagnostic, ...]:
    emitter = CppEmitter()
    found = check_support(case.program, emitter.name, emitter.support)
    if found:
        return found
    with pytest.raises(DiagnosticError) as caught:
        emitter.emit(case.program)
    return caught.value.diagnostics
