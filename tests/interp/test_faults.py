"""Faults beyond the one example that the reference has for each code."""

import pytest
import torch

from tests.interp.running import code, fault, fault_of, read
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import Interpreter, interpret
from wrapperir.ir import (
    Block,
    BodyLine,
    Device,
    Program,
    ScalarType,
    SubgraphCallLine,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder

ONES = torch.ones(8)


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(9),
        torch.ones(8, dtype=torch.float64),
        torch.ones(16)[::2],
        torch.ones(8, 1),
        torch.ones(8, device="meta"),
        3,
        None,
    ],
)
def test_inputs_that_are_not_what_they_are_declared(
    value: torch.Tensor | int | None,
) -> None:
    text = "program @main(%x: f32[8]) {\n  return\n}"
    expected = {Code.RUN_INPUT_MISMATCH, Code.RUN_DEVICE}
    diagnostic = fault(text, value)
    assert diagnostic.code in expected
    assert diagnostic.path == ("inputs", 0)


def test_sizes_that_share_a_symbol_must_agree() -> None:
    text = """
    program @main(%x: f32[s0], %y: f32[s0]) {
      symbol s0: int = size(%x, 0)
      return
    }
    """
    diagnostic = fault(text, torch.ones(3), torch.ones(4))
    assert diagnostic.code is Code.RUN_INPUT_MISMATCH
    assert diagnostic.path == ("inputs", 1)


def test_a_number_for_a_whole_number() -> None:
    b = ProgramBuilder()
    b.input(ScalarType(tensor("i64", ()).dtype))
    assert fault_of(b.build(), [1.5]).code is Code.RUN_INPUT_MISMATCH


def test_a_use_after_free_notes_where_it_was_freed() -> None:
    text = """
    program @main(%x: f32[8]) {
      free %x
      %y = reinterpret %x as f32[4]
      return %y
    }
    """
    diagnostic = fault(text, ONES)
    assert diagnostic.code is Code.RUN_USE_AFTER_FREE
    assert diagnostic.path == ("lines", 1)
    assert diagnostic.subject == "%x"
    assert [note.path for note in diagnostic.notes] == [("lines", 0)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("free %w", Code.RUN_BORROWED),
        ("%z = reuse %w as f32[8]", Code.RUN_BORROWED),
        ("%v = reinterpret %x as f32[8]\n%z = reuse %v as f32[8]", Code.RUN_BORROWED),
        ("free %x\nfree %x", Code.RUN_DOUBLE_FREE),
        ("%z = reuse %a as f32[8]\nfree %a", Code.RUN_DOUBLE_FREE),
        ("free %a\n%z = reuse %a as f32[8]", Code.RUN_DOUBLE_FREE),
        ("%z = reuse %a as f32[8]@cuda:0", Code.RUN_REUSE_MISMATCH),
        ("%z = reuse %a as f32[8] {pinned}", Code.RUN_REUSE_MISMATCH),
        ("%z = reuse %a as f32[8] {align = 64}", Code.RUN_REUSE_MISMATCH),
        ("%z = reuse %a as f32[8] {space = comm}", Code.RUN_REUSE_MISMATCH),
        ("%z = reuse %a as f32[8] {layout = acme.tiled(16)}", Code.RUN_REUSE_MISMATCH),
        ("%z = reuse %x as f32[9]", Code.RUN_BORROWED),
        ("%z = reinterpret %a as f32[2, 2; stride 8, 1]", Code.RUN_VIEW_OUT_OF_BOUNDS),
        ("%z = allocate f32[0 - 4]", Code.RUN_EVALUATION),
        ("%z = allocate f32[7 / 2]", Code.RUN_EVALUATION),
        ("%z = allocate f32[9223372036854775807 * 4]", Code.RUN_EVALUATION),
        ("%z = allocate f32[q]", Code.RUN_EVALUATION),
        ("assert_scalar 1 % 0", Code.RUN_EVALUATION),
        ("assert_alignment %a 0", Code.RUN_ASSERT_ALIGNMENT),
        ("assert_size_stride %a (8) ()", Code.RUN_ASSERT_SIZE_STRIDE),
        ("assert_not_nan %a", Code.RUN_UNINITIALIZED_READ),
        ("symbol_definition u: int = item(%x)", Code.RUN_VALUE_KIND),
        ("symbol_definition u: int = size(%x, 3)", Code.RUN_EVALUATION),
        ("symbol_definition u: int = 5 / 2", Code.RUN_EVALUATION),
        ("symbol_definition u: int ..3 = 4", Code.RUN_SYMBOL_RANGE),
        (
            "symbol_definition u: int = 1\nsymbol_definition u: int = 1",
            Code.RUN_REDEFINED_NAME,
        ),
        ("%z = extern_kernel aten.relu.default(%a) : f32[8]", Code.RUN_UNINITIALIZED_READ),
        ("%z = extern_kernel aten.relu.nope(%x) : f32[8]", Code.RUN_UNKNOWN_OPERATOR),
        ("%z = extern_kernel aten.relu(%x) : f32[8]", Code.RUN_UNKNOWN_OPERATOR),
        ("%z = extern_kernel torch.ops.aten(%x) : f32[8]", Code.RUN_UNKNOWN_OPERATOR),
        (
            "%z = extern_kernel aten.__class__.default(%x) : f32[8]",
            Code.RUN_UNKNOWN_OPERATOR,
        ),
        ("%z = extern_kernel aten.relu.default(%x, %x) : f32[8]", Code.RUN_OPERATOR_FAILED),
        (
            "%z = extern_kernel aten.relu.default(%x) : (f32[8], f32[8])",
            Code.RUN_RESULT_MISMATCH,
        ),
        ("%z = extern_kernel aten.relu.default(%x) : i64", Code.RUN_RESULT_MISMATCH),
        (
            "%z = extern_kernel aten.relu.default(%x) : f32[8; stride 2]",
            Code.RUN_RESULT_MISMATCH,
        ),
        ("extern_kernel aten.neg.out(%x, out = %x) writes(%x)", Code.RUN_READ_ONLY),
        ("extern_kernel aten.neg.out(%x, out = %w) writes(%w)", Code.RUN_READ_ONLY),
        ("%z = multi_output %x[0] : f32[8]", Code.RUN_VALUE_KIND),
        ("%x = allocate f32[8]", Code.RUN_REDEFINED_NAME),
        ("kernel_call @k(%a) @cuda:0", Code.RUN_DEVICE),
        (
            "%z = conditional %x () : f32[8] {\ntrue () {\nreturn %x\n}\nfalse () {\n"
            "return %x\n}\n}",
            Code.RUN_VALUE_KIND,
        ),
        (
            "%z = subgraph_call @f (%x) : f32[8] {\nbody (%p: f32[8]) {\nfree %p\n"
            "return %p\n}\n}",
            Code.RUN_BORROWED,
        ),
        (
            "%z = subgraph_call @f (%x) : f32[8] {\nbody (%p: f32[8]) {\nreturn %p\n}\n}",
            Code.RUN_BORROWED,
        ),
        (
            "%z = subgraph_call @f (%x) : f32[4] {\nbody (%p: f32[8]) {\n"
            "%v = reinterpret %p as f32[4]\nreturn %v\n}\n}",
            Code.RUN_BORROWED,
        ),
        (
            "%z = subgraph_call @f () : f32[8] {\nbody () {\nreturn %x\n}\n}",
            Code.RUN_UNDEFINED_NAME,
        ),
        (
            "%z = subgraph_call @f () : f32[8] {\nbody () {\n%q = allocate f32[8]\n"
            "return\n}\n}",
            Code.RUN_LEAK,
        ),
        (
            "%z = subgraph_call @f () : f32[8] {\nbody () {\nreturn\n}\n}",
            Code.RUN_BLOCK,
        ),
        (
            "%z = while_loop (%x) () : f32[8] {\ncondition (%p: f32[8]) {\nreturn\n}\n"
            "body (%q: f32[8]) {\nreturn %q\n}\n}",
            Code.RUN_BLOCK,
        ),
        (
            "%z = while_loop (%a) () : f32[8] {\ncondition (%p: f32[8]) {\nreturn 0\n}\n"
            "body (%q: f32[8]) {\nreturn %q\n}\n}",
            Code.RUN_UNINITIALIZED_READ,
        ),
    ],
)
def test_a_line_faults(lines: str, expected: Code) -> None:
    program = read(
        "program @main(%x: f32[8]) {\n"
        'constant %w: f32[8] = "w"\n'
        f"%a = allocate f32[8]\n{lines}\nreturn\n}}"
    )
    with pytest.raises(DiagnosticError) as caught:
        interpret(program, [ONES], {"w": torch.ones(8)})
    assert caught.value.diagnostics[0].code is expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("%a", Code.RUN_UNINITIALIZED_READ),
        ("%t", Code.RUN_VALUE_KIND),
        ("%ws", Code.RUN_BORROWED),
        ("%gone", Code.RUN_UNDEFINED_NAME),
        ("7 // 0", Code.RUN_EVALUATION),
    ],
)
def test_an_output_faults(returned: str, expected: Code) -> None:
    diagnostic = fault(
        f"""
    program @main(%x: f32[8]) {{
      %a = allocate f32[8]
      %ws = allocate u8[8] workspace(zero_per_program)
      %t = extern_kernel aten.split.Tensor(%x, 4) aliases(%x) : (f32[4], f32[4; offset 4])
      return {returned}
    }}
    """,
        ONES,
    )
    assert diagnostic.code is expected
    assert diagnostic.path == ("outputs", 0)


def test_every_leak_is_reported_where_it_was_defined() -> None:
    program = read(
        "program @main() {\n%a = allocate f32[8]\n%b = allocate f32[8]\nreturn\n}"
    )
    with pytest.raises(DiagnosticError) as caught:
        interpret(program, [], {})
    assert [d.path for d in caught.value.diagnostics] == [("lines", 0), ("lines", 1)]
    assert {d.code for d in caught.value.diagnostics} == {Code.RUN_LEAK}


def test_a_fault_in_a_nested_block_has_its_place_there() -> None:
    text = """
    program @main(%p: bool[]) {
      %y = conditional %p () : f32[8] {
        true () {
          comment "inner"
          free %nothing
          return %nothing
        }
        false () {
          %z = allocate f32[8]
          return %z
        }
      }
      return %y
    }
    """
    diagnostic = fault(text, torch.tensor(True))
    assert diagnostic.path == ("lines", 0, "on_true", "lines", 1)


def test_a_cpp_kernel_that_writes_past_the_end_is_noticed() -> None:
    text = """
    kernel_definition @fill cpp(out: write f32*) {
      entry = fill
      source {
        | extern "C" void fill(float* out) { for (int i = 0; i < 9; ++i) out[i] = 1; }
      }
    }

    program @main() {
      %a = allocate f32[8]
      kernel_call @fill(%a)
      return %a
    }
    """
    assert code(text) is Code.RUN_ACCESS_OUT_OF_BOUNDS


def test_deep_blocks_are_refused() -> None:
    def nest(levels: int) -> Program:
        lines: tuple[BodyLine, ...] = ()
        for _ in range(levels):
            block = Block(lines=lines)
            lines = (SubgraphCallLine(results=(), name="f", operands=(), body=block),)
        return Program(lines=lines)

    assert interpret(nest(20), [], {}) == ()
    assert fault_of(nest(2000)).code is Code.RUN_NESTING


def test_the_interpreter_runs_again_after_a_fault() -> None:
    text = """
    program @main(%x: f32[8]) {
      assert_not_nan %x
      return %x
    }
    """
    interpreter = Interpreter(read(text), {})
    with pytest.raises(DiagnosticError):
        interpreter.run([torch.full((8,), torch.inf)])
    assert interpreter.run([ONES])[0] is not None


def test_a_program_for_a_gpu() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,), device=Device("cuda", 0)))
    assert fault_of(b.build(x), [ONES]).code is Code.RUN_INPUT_MISMATCH
