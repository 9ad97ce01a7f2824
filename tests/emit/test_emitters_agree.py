"""Generated programs: interpreter, Python, C++ and FX emitter agree bit for bit."""

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.ir import Language, Program
from wrapperir.passes import MEMORY_PASSES, PASSES, capture_regions
from wrapperir.pipelines import run_passes
from wrapperir.testing import Case, Outcome, check_case, programs
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

CPP = (Language.CPP,)
SEEDS = st.integers(0, 2**16)
# Each program is a library, so there are fewer than of what is only interpreted.
slow = settings(
    max_examples=draws(6, fuzz=20),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check(program: Program, seed: int) -> None:
    case = Case("generated", program, seeds=(seed,))
    for emitter in (CppEmitter(), PythonEmitter(), FxEmitter()):
        assert check_case(emitter, case) is Outcome.PASSED


@slow
@given(programs(languages=CPP), SEEDS)
def test_emitters_agree(program: Program, seed: int) -> None:
    check(program, seed)


@slow
@given(programs(languages=(), max_steps=40), SEEDS)
def test_emitters_agree_on_long_programs(program: Program, seed: int) -> None:
    check(program, seed)


@slow
@given(programs(languages=(), max_steps=30), SEEDS)
def test_emitters_agree_on_programs_with_planned_memory(
    program: Program, seed: int
) -> None:
    for name in MEMORY_PASSES:
        program = PASSES[name](program)
    check(program, seed)


@slow
@given(programs(languages=(), max_steps=30), SEEDS)
def test_emitters_agree_on_programs_with_graph_regions(program: Program, seed: int) -> None:
    captured = capture_regions(program, None, -math.inf).program
    check(run_passes(captured, ("plan_memory", "reuse_buffers")), seed)
