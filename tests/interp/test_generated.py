"""Properties over generated programs."""

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import Interpreter, interpret
from wrapperir.ir import Language, Program, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import arbitrary
from wrapperir.testing.faults import FAULTS, inject
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.verify import verify

slow = settings(max_examples=draws(30, fuzz=60), suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 2**16)


def copies(values: list[Value]) -> list[Value]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def given_to(program: Program, seed: int) -> tuple[list[Value], dict[str, torch.Tensor]]:
    return example_inputs(program, seed), example_constants(program, seed)


@slow
@given(programs(), SEEDS)
def test_what_the_verifier_accepts_does_not_fault(program: Program, seed: int) -> None:
    assert verify(program) == ()
    inputs, constants = given_to(program, seed)
    kept = {key: tensor.clone() for key, tensor in constants.items()}
    interpreter = Interpreter(program, constants)
    first = interpreter.run(copies(inputs))
    for key, value in kept.items():
        constants[key].copy_(value)
    torch.testing.assert_close(interpreter.run(copies(inputs)), first, rtol=0, atol=0)


@slow
@given(
    programs(languages=(Language.TRITON,)),  # a C++ kernel out of bounds ends the process
    st.sampled_from(sorted(FAULTS)),
    SEEDS,
)
def test_a_seeded_fault_gives_a_placed_diagnostic_or_none(
    program: Program, kind: str, seed: int
) -> None:
    faulty = inject(program, kind, seed)
    if faulty is not None:
        inputs, constants = given_to(program, seed)
        _run_any(faulty.program, inputs, constants)


@slow
@given(arbitrary.programs)
def test_any_program_gives_results_or_placed_diagnostics(program: Program) -> None:
    _run_any(evolve(program, definitions=(), inputs=(), symbols=(), constants=()), [], {})


def _run_any(
    program: Program, inputs: list[Value], constants: dict[str, torch.Tensor]
) -> None:
    try:
        interpret(program, inputs, constants)
    except DiagnosticError as error:
        assert all(d.path is not None for d in error.diagnostics)  # noqa: PT017


UNARY = ("neg", "relu", "abs", "cos", "sigmoid", "clone")
BINARY = ("add", "mul", "maximum", "sub")
STEP = st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 9), st.integers(0, 9))


@given(st.lists(STEP, min_size=1, max_size=12), st.booleans(), SEEDS)
def test_operators_compute_what_eager_computes(
    steps: list[tuple[str, int, int]], out: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    type = tensor("f32", (3, 5))
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    b = ProgramBuilder()
    values, eager = [b.input(type), b.input(type)], [x, y]
    for name, left, right in steps:
        picked = [left % len(values), right % len(values)][: 1 if name in UNARY else 2]
        operands = [values[i] for i in picked]
        overload = "Tensor" if name in ("add", "mul", "sub") else "default"
        eager.append(getattr(torch, name)(*(eager[i] for i in picked)))
        if out:
            values.append(b.allocate(type))
            b.extern_out(f"aten.{name}.out", *operands, out=values[-1])
        else:
            values.append(b.extern(f"aten.{name}.{overload}", *operands, type=type))
    b.free(*values[2:-1])
    (result,) = interpret(b.build(values[-1]), [x, y], {})
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, eager[-1])
