"""Generated programs run the same from the Python emitter as in the interpreter."""

from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from wrapperir.ir import Language, Program
from wrapperir.testing.conformance import Case, Outcome, check_case
from wrapperir.testing.programs import programs
from wrapperir_python.emitter import PythonEmitter


@settings(
    max_examples=draws(25, fuzz=60), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(programs(languages=(Language.TRITON,), max_steps=18))
def test_generated_programs_run_the_same(program: Program) -> None:
    case = Case("generated", program, seeds=(0, 1))
    assert check_case(PythonEmitter(), case) is Outcome.PASSED
