"""The conformance kit, run on the FX emitter."""

import pytest

from tests.fx_emitter.running import without_dead_code
from tests.torch_release import BEFORE_2_13
from wrapperir.ir import KernelDefinitionLine, Language
from wrapperir.testing import CASES, Case, Outcome, check_case
from wrapperir_fx.emitter import FxEmitter


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(case: Case) -> None:
    """No case is unsupported: the kit asks for nothing that a graph lacks."""
    assert check_case(FxEmitter(), case) is Outcome.PASSED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance_without_dead_code(case: Case) -> None:
    """Results stay, and so do the faults of checks, symbols and inputs."""
    if BEFORE_2_13 and any(
        isinstance(kernel, KernelDefinitionLine) and kernel.language is Language.TRITON
        for kernel in case.program.definitions
    ):
        pytest.skip("FX of torch 2.11 takes launches of Triton kernels for unused")
    assert check_case(FxEmitter(compile_graph=without_dead_code), case) is Outcome.PASSED
