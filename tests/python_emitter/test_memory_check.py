"""Emitted code that checks its memory: silent where all is right, and else it says what."""

import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.python_emitter.line_cases import CASES
from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value, compile_program
from wrapperir.interp import interpret
from wrapperir.ir import Language, Program
from wrapperir.testing.conformance import CASES as CONFORMANCE
from wrapperir.testing.conformance import Case as ConformanceCase
from wrapperir.testing.conformance import Outcome, check_case
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.text import parse_program
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir_python.emitter import PythonEmitter

CHECKING = PythonEmitter(check_memory=True)


@settings(max_examples=draws(30, fuzz=60), suppress_health_check=list(HealthCheck))
@given(programs(languages=(Language.CPP,)), st.integers(0, 9))
def test_a_valid_program_passes_the_checks(program: Program, seed: int) -> None:
    constants = example_constants(program, seed)
    call = CHECKING.load(CHECKING.emit(program), constants)
    outputs = call(list(example_inputs(program, seed)))
    constants = example_constants(program, seed)
    assert_same(outputs, interpret(program, example_inputs(program, seed), constants))


@pytest.mark.parametrize("name", CASES)
def test_every_line_passes_the_checks(name: str) -> None:
    program = parse_program(CASES[name].text)
    call = CHECKING.load(CHECKING.emit(program), {"fc.weight": torch.eye(8)})
    for rows in (2, 4, 4):
        x = torch.ones(rows, 8)
        call([x, torch.full((8, 8), 2.0), 5, torch.tensor(True)])


SELECTING = [
    case
    for case in CONFORMANCE
    if case.name.startswith("selection_") and case.name.endswith("_cpp")
]


@pytest.mark.parametrize("case", SELECTING, ids=lambda case: case.name)
def test_programs_that_choose_between_kernels_pass_the_checks(
    case: ConformanceCase,
) -> None:
    with fresh_choice_cache():
        assert check_case(CHECKING, case) is Outcome.PASSED


PROGRAM = """\
wrapperir 1

program @main(%x: f32[8, 8]) {
  %p = allocate_pool pool[512]
  %a = place f32[8, 8] in %p at 0
  extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a)
  %b = place f32[8, 8] in %p at 256
  extern_kernel aten.add.out(%a, %x, out = %b) writes(%b)
  free %a
  %c = allocate f32[8, 8]
  extern_kernel aten.add.out(%b, %x, out = %c) writes(%c)
  free %b
  free %p
  %v = reinterpret %c as f32[4, 8; offset 32]
  %r = extern_kernel aten.relu.default(%v) : f32[4, 8]
  free %v
  free %c
  return %r
}
"""

WRONG = {
    "a view elsewhere": (
        ("(p, (8, 8), (8, 1), 64)", "(p, (8, 8), (8, 1), 32)"),
        ("%b is at byte 128 of %p, planned at 256", ("lines", 3)),
    ),
    "a view of another size": (
        ("(p, (8, 8), (8, 1), 0)", "(p, (4, 8), (8, 1), 0)"),
        ("%a is ((4, 8), (8, 1), torch.float32), planned is", ("lines", 1)),
    ),
    "a pool that is too small": (
        ("p = empty_strided_cpu((128,)", "p = empty_strided_cpu((64,)"),
        ("%p has 256 bytes, planned are 512", ("lines", 0)),
    ),
    "a buffer that is too large": (
        ("c = empty_strided_cpu(", "c = empty_strided_cpu((9, 8), (8, 1), float32)[:8]#"),
        ("%c has 288 bytes, planned are 256", ("lines", 6)),
    ),
    "a view beyond its memory": (
        ("(c, (4, 8), (8, 1), 32)", "(c, (4, 8), (8, 1), 40)"),
        ("%v takes bytes 160..288 of the 256 of %c", ("lines", 10)),
    ),
    "a buffer that is kept": (
        ("    del c\n", "    kept = c; del c\n"),
        ("%c keeps its memory when %c is dropped", ("lines", 13)),
    ),
    "a pool that is kept": (
        ("    del p, p_at_0_f32, p_at_256_f32\n", "    del p, p_at_0_f32\n"),
        ("%p keeps its memory when %p is dropped", ("lines", 9)),
    ),
    "a result that moves": (
        (
            "    memory.written('b'",
            "    p_at_256_f32.set_(p_at_256_f32.clone()); memory.written('b'",
        ),
        ("%b was moved", ("lines", 4)),
    ),
    "a free in the wrong place": (
        ("    mm_out(", "    memory.freed('a', ('lines', 2)); mm_out("),
        ("%a is written where it is not alive", ("lines", 2)),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_is_named_with_its_buffer_and_line(name: str) -> None:
    (old, new), (message, place) = WRONG[name]
    artifact = CHECKING.emit(parse_program(PROGRAM))
    text = str(artifact.files["program.py"])
    assert text.count(old) == 1, text
    files = {**artifact.files, "program.py": text.replace(old, new)}
    call = CHECKING.load(evolve(artifact, files=files), {})
    with pytest.raises(DiagnosticError) as caught:
        call([torch.ones(8, 8)])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code is Code.RUN_MEMORY_PLAN
    assert message in diagnostic.message
    assert diagnostic.path == place


def refused(lines: str, *inputs: Value) -> tuple[str, object]:
    """Run lines that lie, unverified; return what the checks say."""
    text = f"wrapperir 1\nprogram @main(%x: f32[8]) {{\n{lines}\n}}\n"
    call = CHECKING.load(CHECKING.emit(parse_program(text)), {})
    with pytest.raises(DiagnosticError) as caught:
        call(list(inputs))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code is Code.RUN_MEMORY_PLAN
    return diagnostic.message, diagnostic.path


def test_a_placement_on_one_that_lives_is_named() -> None:
    message, path = refused(
        """
        %p = allocate_pool pool[96]
        %a = place f32[8] in %p at 0
        %b = place f32[8] in %p at 64
        %c = place f32[8] in %p at 16
        free %a
        free %b
        free %c
        free %p
        return
        """,
        torch.ones(8),
    )
    assert message == "%c overlaps %a, which is alive"
    assert path == ("lines", 3)


def test_a_placement_outside_its_pool_is_named() -> None:
    message, path = refused(
        """
        %p = allocate_pool pool[64]
        %q = place pool[64] in %p at 32
        free %q
        free %p
        return
        """,
        torch.ones(8),
    )
    assert message == "%q takes bytes 32..96 of a pool of 64"
    assert path == ("lines", 1)


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_an_operator_that_resizes_its_out_is_named() -> None:
    message, path = refused(
        """
        %p = allocate_pool pool[128]
        %a = place f32[4] in %p at 0
        extern_kernel aten.add.out(%x, %x, out = %a) writes(%a)
        return %a
        """,
        torch.ones(8),
    )
    assert message.startswith("%a was changed from ((4,), (1,), torch.float32) to ((8,),")
    assert path == ("lines", 2)


def test_a_result_that_shares_memory_is_named() -> None:
    message, path = refused(
        """
        %p = allocate_pool pool[128]
        %a = place f32[8] in %p at 64
        %r = extern_kernel aten.view.default(%a, [2, 4]) : f32[2, 4]
        free %a
        free %p
        return %r
        """,
        torch.ones(8),
    )
    assert message == "%r shares the memory of %a"
    assert path == ("lines", 2)


def test_what_is_never_freed_is_named() -> None:
    message, path = refused("%a = allocate f32[8]\nreturn %x", torch.ones(8))
    assert message == "%a is alive, and neither freed nor returned"
    assert path == ("outputs",)


def test_a_program_is_compiled_with_checks() -> None:
    program = parse_program(PROGRAM)
    x = torch.rand(8, 8)
    (checked,) = compile_program(program, check_memory=True)([x])
    (plain,) = compile_program(program)([x])
    assert_same([checked], [plain])
    assert "memory" not in str(PythonEmitter().emit(program).files["program.py"])


VIEWS = """\
wrapperir 1

program @main(%x: f32[s1], %n: i64) {
  symbol s0: int 1..100 = value(%n)
  symbol s1: int 1..100 = size(%x, 0)
  constant %w: f32[8] = "w"
  VIEW
  %r = extern_kernel aten.clone.default(%v) : f32[s0]
  free %v
  return %r
}
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [("x", "%v takes bytes 0..32 of the 24 of %x"), ("w", "0..36 of the 32 of %w")],
)
def test_a_view_outside_an_input_or_constant_is_named(source: str, message: str) -> None:
    text = VIEWS.replace("VIEW", f"%v = reinterpret %{source} as f32[s0]")
    program = parse_program(text)
    call = CHECKING.load(CHECKING.emit(program), {"w": torch.ones(8)})
    call([torch.ones(6), 6])
    with pytest.raises(DiagnosticError, match=message) as caught:
        call([torch.ones(6), 8 if source == "x" else 9])
    assert caught.value.diagnostics[0].code is Code.RUN_MEMORY_PLAN


def test_views_that_share_the_memory_of_an_input_pass_the_checks() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[4], %y: f32[4; offset 4]) {
  %v = reinterpret %y as f32[4]
  %a = extern_kernel aten.add.Tensor(%x, %v) : f32[4]
  free %x
  free %v
  free %y
  return %a
}
"""
    memory = torch.arange(8.0)
    call = CHECKING.load(CHECKING.emit(parse_program(text)), {})
    for _ in range(2):
        (a,) = call([memory[:4], memory[4:]])
        assert isinstance(a, torch.Tensor)
        assert a.tolist() == [0, 2, 4, 6]


def test_a_donated_input_that_shares_memory_is_reported() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: donated f32[4], %y: f32[4]) {
  extern_kernel aten.neg_.default(%x) writes(%x)
  free %x
  return %y
}
""")
    memory = torch.ones(8)
    call = CHECKING.load(CHECKING.emit(program), {})
    call([memory[:4], memory[4:]])
    with pytest.raises(DiagnosticError, match="%x shares the memory of %y") as error:
        call([memory[:4], memory[2:6]])
    assert error.value.diagnostics[0].code is Code.RUN_MEMORY_PLAN
    assert error.value.diagnostics[0].path == ("inputs", 0)
