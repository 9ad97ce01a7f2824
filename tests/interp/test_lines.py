"""What each line kind does when it runs without a fault."""

import torch

from tests.interp.running import code, run
from wrapperir.diagnostics import Code
from wrapperir.interp import Interpreter
from wrapperir.ir import (
    CPU,
    ComplexLiteral,
    DType,
    OffsetOf,
    OpaqueType,
    StrideOf,
    TorchEnum,
    TupleType,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder

LOOP = """
    program @main(%x: f32[4], %n: i64[]) {
      %y, %left = while_loop (%x, %n) () : f32[4], i64[] {
        condition (%a: f32[4], %i: i64[]) {
          %more = extern_kernel aten.gt.Scalar(%i, 0) : bool[]
          return %more
        }
        body (%b: f32[4], %j: i64[]) {
          %doubled = extern_kernel aten.add.Tensor(%b, %b) : f32[4]
          %next = extern_kernel aten.sub.Scalar(%j, 1) : i64[]
          return %doubled, %next
        }
      }
      free %left
      return %y
    }
"""


def test_allocate_reuse_reinterpret_free() -> None:
    x = torch.arange(8.0)
    (y,) = run(
        """
    program @main(%x: f32[8]) {
      %a = allocate f32[8] {align = 128}
      assert_alignment %a 128
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      free %x
      %b = reuse %a as f32[2, 2]
      %c = reinterpret %b as f32[4; offset 4]
      free %b
      return %c
    }
    """,
        x,
    )
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, -x[4:])


def test_reuse_of_a_view_leaves_the_memory_aligned() -> None:
    (y,) = run("""
    program @main() {
      %a = allocate f32[8] {align = 128}
      %view = reinterpret %a as f32[8]
      %b = reuse %view as f32[8]
      free %b
      %c = reuse %a as i64[4] {align = 64}
      extern_kernel aten.fill_.Scalar(%c, 3) writes(%c)
      return %c
    }
    """)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [3] * 4


def test_a_view_keeps_the_memory_of_a_freed_name() -> None:
    (y,) = run("""
    program @main() {
      %a = allocate f32[8] workspace(zero_on_call)
      %b = reinterpret %a as f32[4]
      free %a
      %c = extern_kernel aten.add.Scalar(%b, 1) : f32[4]
      free %b
      return %c
    }
    """)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [1] * 4


def test_results_in_a_tuple_share_its_memory() -> None:
    x = torch.arange(8.0)
    first, second = run(
        """
    program @main(%x: f32[8]) {
      %t = extern_kernel aten.split.Tensor(%x, 4) aliases(%x) : (f32[4], f32[4; offset 4])
      %a = multi_output %t[0] : f32[4]
      %b = multi_output %t[1] : f32[4; offset 4]
      free %t
      %c = reinterpret %b as f32[2]
      free %b
      return %a, %c
    }
    """,
        x,
    )
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    assert torch.equal(first, x[:4])
    assert torch.equal(second, x[:2])  # the offset counts from the start of the storage
    assert second.data_ptr() == x.data_ptr()


def test_elements_of_a_tuple_and_opaque_values() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (6,)))
    values = TupleType((tensor("f32", (6,)), tensor("i64", (6,))))
    pair = b.extern("aten.sort.default", x, type=values)
    order = b.multi_output(pair, 1, type=tensor("i64", (6,)))
    b.free(pair)
    script = b.input(OpaqueType("a seed"))
    result = Interpreter(b.build(order, script), {}).run([torch.arange(6.0), None])
    assert isinstance(result[0], torch.Tensor)
    assert result[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert result[1] is None


def test_an_input_begins_where_its_tensor_begins() -> None:
    x = torch.arange(8.0)
    (y,) = run(
        """
    program @main(%x: f32[4]) {
      %y = reinterpret %x as f32[2; offset 1]
      return %y
    }
    """,
        x[3:7],
    )
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [4, 5]


def test_symbols_of_every_source() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (2, 3), (3, 1)))
    rows = b.define_symbol("rows", StrideOf(x.name, 0))
    offset = b.define_symbol("offset", OffsetOf(x.name))
    double = b.define_symbol("double", rows + rows)
    program = b.build(rows, offset, double, None, True, 2.5)
    outputs = Interpreter(program, {}).run([torch.zeros(2, 3)])
    assert outputs == (3, 0, 6, None, True, 2.5)


def test_dynamic_sizes_and_items() -> None:
    text = """
    program @main(%x: f32[s0], %k: i64[]) {
      symbol s0: int 2..8 = size(%x, 0)
      symbol_definition u0: int 0.. = item(%k)
      assert_scalar u0 <= s0 "k is at most the size"
      assert_size_stride %x (s0) (1) "x"
      assert_not_nan %x
      comment "repeat it"
      %y = extern_kernel aten.repeat.default(%x, [u0]) : f32[s0 * u0]
      return %y, s0 * u0
    }
    """
    y, size = run(text, torch.arange(3.0), torch.tensor(2))
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [0, 1, 2, 0, 1, 2]
    assert size == 6


def test_every_kind_of_argument_reaches_the_operator() -> None:
    b = ProgramBuilder()
    filled = b.extern(
        "aten.full.default",
        (2, 2),
        ComplexLiteral(1.0, 2.0),
        dtype=DType.C64,
        layout=TorchEnum("layout", "strided"),
        device=CPU,  # the line's device, not a keyword of the operator
        pin_memory=False,
        type=tensor("c64", (2, 2)),
    )
    copied = b.extern(
        "aten.clone.default",
        filled,
        memory_format=TorchEnum("memory_format", "contiguous_format"),
        type=tensor("c64", (2, 2)),
    )
    sums = b.extern("aten.einsum.default", "ij->i", (copied,), type=tensor("c64", (2,)))
    b.free(filled, copied)
    (result,) = Interpreter(b.build(sums), {}).run([])
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [2 + 4j] * 2


def test_conditional_by_tensor_and_by_condition() -> None:
    text = """
    program @main(%p: PTYPE, %x: f32[4]) {
      SYMBOL
      %y = conditional PREDICATE (%x) : f32[4] {
        true (%a: f32[4]) {
          %t = extern_kernel aten.neg.default(%a) : f32[4]
          return %t
        }
        false (%b: f32[4]) {
          %f = extern_kernel aten.abs.default(%b) : f32[4]
          return %f
        }
      }
      return %y
    }
    """
    x = torch.randn(4)
    tensors = text.replace("PTYPE", "bool[]").replace("SYMBOL\n", "\n")
    numbers = text.replace("PTYPE", "i64").replace("SYMBOL", "symbol p: int = value(%p)")
    for flag, expected in ((True, -x), (False, x.abs())):
        by_tensor = run(tensors.replace("PREDICATE", "%p"), torch.tensor(flag), x)
        by_number = run(numbers.replace("PREDICATE", "p == 1"), int(flag), x)
        for (y,) in (by_tensor, by_number):
            assert isinstance(y, torch.Tensor)
            assert torch.equal(y, expected)


def test_while_loop_results_are_fresh() -> None:
    x = torch.ones(4)
    for n in (0, 1, 3):
        (y,) = run(LOOP, x, torch.tensor(n))
        assert isinstance(y, torch.Tensor)
        assert torch.equal(y, x * 2**n)
        assert y.data_ptr() != x.data_ptr()


def test_subgraph_call_sees_constants_and_symbols() -> None:
    (y,) = run(
        """
    program @main(%x: f32[s0]) {
      symbol s0: int = size(%x, 0)
      constant %w: f32[1] = "w"
      %y = subgraph_call @f (%x) : f32[s0] {
        body (%a: f32[s0]) {
          symbol_definition twice: int = s0 * 2
          %t = extern_kernel aten.mul.Tensor(%a, %w) : f32[s0]
          %u = extern_kernel aten.add.Scalar(%t, twice) : f32[s0]
          free %t
          return %u
        }
      }
      return %y
    }
    """,
        torch.ones(3),
        constants={"w": torch.tensor([5.0])},
    )
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [11] * 3


def test_mutated_inputs_and_constants_are_written_in_place() -> None:
    x, w = torch.zeros(4), torch.zeros(4)
    outputs = run(
        """
    program @main(%x: mutated f32[4]) {
      constant %w: mutated f32[4] = "w"
      extern_kernel aten.fill_.Scalar(%x, 1) writes(%x)
      extern_kernel aten.copy_.default(%w, %x) writes(%w)
      return
    }
    """,
        x,
        constants={"w": w},
    )
    assert outputs == ()
    assert x.tolist() == w.tolist() == [1] * 4


VIEW_OF_WORKSPACE = """
program @main() {
  %ws = allocate f32[4] workspace(zero_per_program)
  %v = reinterpret %ws as i32[2; offset 1]
  extern_kernel aten.add_.Scalar(%v, 0) writes(%v)
  %r = extern_kernel aten.clone.default(%ws) : f32[4]
  LINE
  return %r
}
"""


def test_a_view_of_a_program_workspace_is_freed_as_any_view_is() -> None:
    (output,) = run(VIEW_OF_WORKSPACE.replace("LINE", "free %v"))
    assert isinstance(output, torch.Tensor)
    assert torch.equal(output, torch.zeros(4))
    assert code(VIEW_OF_WORKSPACE.replace("  LINE\n", "")) is Code.RUN_LEAK
    assert code(VIEW_OF_WORKSPACE.replace("LINE", "free %ws")) is Code.RUN_BORROWED
    reuse = "%u = reuse %v as i32[2]"
    assert code(VIEW_OF_WORKSPACE.replace("LINE", reuse)) is Code.RUN_BORROWED
    given_back = VIEW_OF_WORKSPACE.replace("  LINE\n", "").replace("%r\n}", "%r, %v\n}")
    assert code(given_back) is Code.RUN_BORROWED
