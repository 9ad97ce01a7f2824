"""Programs without multi-kernels, and emitters that are given them."""

import pytest
from hypothesis import given, settings

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, Support, emit_program
from wrapperir.emit.runnable_kernels import resolve_multi_kernels
from wrapperir.interp import interpret
from wrapperir.ir import LINES, KernelCallLine, MultiKernelLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing import CASES, Case, Outcome, check_case, programs
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

WITH_MULTI_KERNELS = [
    case
    for case in CASES
    if any(isinstance(line, MultiKernelLine) for line in case.program.definitions)
]
TEXT = """\
wrapperir 1

kernel_definition @one opaque(x: write f32*, n: i64) {
  entry = one
  source {
    | x = n
  }
}
kernel_definition @two opaque(n: i64, x: write f32*) {
  entry = two
  source {
    | x = n
  }
}
multi_kernel @many(x: write f32*, n: i64) {
  size N = size(x, 0)
  choice @one(0, 1)
  choice @two(1, 0)
  select SELECT
}

program @main(%a: mutated f32[s0], %b: mutated f32[64]) {
  symbol s0: int 0..1000 = size(%a, 0)
  kernel_call @many(%a, 3)
  kernel_call @many(%b, s0)
  kernel_call @one(%b, s0)
  return
}
"""
CALLS = {
    "first": ("one(%a, 3)", "one(%b, s0)"),
    "recorded(1)": ("two(3, %a)", "two(s0, %b)"),
    "benchmark": ("one(%a, 3)", "one(%b, s0)"),
    "nearest_shape(0: (4), 1: (40))": ("one(%a, 3)", "two(s0, %b)"),
    "nearest_shape(1: (4), 1: (40))": ("two(3, %a)", "two(s0, %b)"),
    "computed(where(n < 4, 1, where(N > 70, 1, 0)))": ("two(3, %a)", "one(%b, s0)"),
}


class Settled(PythonEmitter):
    """Emits Python for programs without multi-kernels, and takes no others."""

    name = "settled"
    support = Support(
        lines=frozenset(LINES) - {MultiKernelLine},
        streams=frozenset({"cpu", "cuda"}),
        descriptors=True,
    )

    def emit(self, program: Program) -> Artifact:
        assert not any(isinstance(line, MultiKernelLine) for line in program.definitions)
        return super().emit(program)


@pytest.mark.parametrize("select", CALLS)
def test_calls_name_the_kernels_that_they_run(select: str) -> None:
    text = TEXT.replace("SELECT", select)
    program = parse_program(text)
    assert verify(program) == ()
    first, second = CALLS[select]
    i, j = text.index("multi_kernel"), text.index("program @main")
    wanted = text[:i] + text[j:]
    if "two(" not in first + second:  # @one is called by name
        wanted = wanted[: wanted.index("kernel_definition @two")] + text[j:]
    wanted = wanted.replace("many(%a, 3)", first).replace("many(%b, s0)", second)
    assert resolve_multi_kernels(program) == parse_program(wanted)


def test_a_program_resolve_multi_kernels_is_the_same() -> None:
    program = parse_program("wrapperir 1\nprogram @main() {\n  return\n}\n")
    assert resolve_multi_kernels(program) is program


@settings(max_examples=15)
@given(programs())
def test_what_is_left_computes_the_same(program: Program) -> None:
    settled = resolve_multi_kernels(program)
    assert verify(settled) == ()
    kernels = {line.name for line in settled.definitions}
    for line in walk_lines(settled.lines):
        assert not isinstance(line, KernelCallLine) or line.kernel in kernels
    results: list[object] = []
    for each in (program, settled):
        inputs = example_inputs(program)
        try:
            outputs = interpret(each, inputs, example_constants(program))
        except DiagnosticError as error:
            results.append({d.code for d in error.diagnostics})
            continue
        results.append([repr(value) for value in (*outputs, *inputs)])
    assert results[0] == results[1]


@pytest.mark.parametrize("case", WITH_MULTI_KERNELS[::4], ids=lambda case: case.name)
def test_an_emitter_need_not_know_of_multi_kernels(case: Case) -> None:
    assert check_case(Settled(), case) is Outcome.PASSED


def test_an_emitter_that_does_not_choose_is_given_what_is_settled() -> None:
    program = next(case.program for case in WITH_MULTI_KERNELS)
    assert emit_program(program, Settled()).emitter == "settled"
