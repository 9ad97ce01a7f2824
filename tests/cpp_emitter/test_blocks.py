"""Nested blocks: what they are given, what they return, and what they keep."""

import pytest
import torch

from tests.cpp_emitter.running import load, parsed, refused, run_both
from wrapperir.diagnostics import DiagnosticError
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.module_text import LENGTH

COUNT = """
program @main(%x: f32[4], %n: i64, %k: i64) {
  %r, %a, %b = while_loop (%x, 0, %k) (%n) : f32[4], i64, i64 {
    condition (%c: f32[4], %ca: i64, %cb: i64, %cn: i64) {
      symbol_definition i: int = value(%ca)
      symbol_definition most: int = value(%cn)
      return i < most
    }
    body (%d: f32[4], %da: i64, %db: i64, %dn: i64) {
      symbol_definition first: int = value(%da)
      symbol_definition second: int = value(%db)
      %e = extern_kernel aten.add.Tensor(%d, %d) : f32[4]
      return %e, second + 1, first
    }
  }
  return %r, %a, %b
}
"""


@pytest.mark.parametrize("most", [-1, 0, 1, 2, 7])
def test_a_loop_computes_all_next_values_before_it_takes_them(most: int) -> None:
    run_both(COUNT, torch.arange(4.0), most, 0)


def test_without_an_iteration_a_loop_returns_copies() -> None:
    x = torch.arange(4.0)
    (r, *_) = load(parsed(COUNT), {})([x, 0, 0])
    assert isinstance(r, torch.Tensor)
    assert torch.equal(r, x)
    assert r.data_ptr() != x.data_ptr()


def test_a_copy_has_the_offset_of_its_type() -> None:
    (r,) = run_both(
        """
        program @main(%x: f32[8], %go: bool[]) {
          %v = reinterpret %x as f32[4; offset 4]
          %r = while_loop (%v) (%go) : f32[4; offset 4] {
            condition (%a: f32[4; offset 4], %c: bool[]) {
              %t = extern_kernel aten.clone.default(%c) : bool[]
              return %t
            }
            body (%b: f32[4; offset 4], %d: bool[]) {
              %e = allocate f32[4; offset 4]
              extern_kernel aten.neg.out(%b, out = %e) writes(%e)
              return %e
            }
          }
          free %v
          %w = reinterpret %r as f32[2; offset 6]
          free %r
          return %w
        }
        """,
        torch.arange(8.0),
        torch.tensor(False),
    )
    assert isinstance(r, torch.Tensor)
    assert torch.equal(r, torch.tensor([6.0, 7.0]))


NESTED = """
program @main(%x: f32[4], %n: i64) {
  %a = allocate f32[4]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  %r, %i = while_loop (%a, 0) (%n) : f32[4], i64 {
    condition (%b: f32[4], %bi: i64, %bn: i64) {
      symbol_definition c0: int = value(%bi)
      symbol_definition c1: int = value(%bn)
      return c0 < c1
    }
    body (%d: f32[4], %di: i64, %dn: i64) {
      symbol_definition c2: int = value(%di)
      %e = allocate f32[4]
      extern_kernel aten.add.out(%d, %d, out = %e) writes(%e)
      %f, %g = conditional c2 % 2 > 0 (%e, c2) : f32[4], i64 {
        true (%h: f32[4], %hi: i64) {
          %j = allocate f32[8] workspace(zero_on_call)
          %k = reinterpret %j as f32[4]
          extern_kernel aten.copy_.default(%k, %h) writes(%k)
          free %j
          return %k, 1
        }
        false (%l: f32[4], %li: i64) {
          symbol_definition c3: int = value(%li)
          %m = subgraph_call @add(%l, c3) : f32[4] {
            body (%o: f32[4], %oi: f64) {
              symbol_definition c4: float = value(%oi)
              %p = extern_kernel aten.add.Scalar(%o, c4) : f32[4]
              return %p
            }
          }
          return %m, c3 + 2
        }
      }
      free %e
      symbol_definition c5: int = value(%g)
      free %g
      return %f, c2 + c5
    }
  }
  free %a
  return %r, %i
}
"""


@pytest.mark.parametrize("most", [0, 1, 5, 9])
def test_blocks_inside_blocks(most: int) -> None:
    run_both(NESTED, torch.arange(4.0), most)


def test_two_results_of_one_buffer_are_views_of_it() -> None:
    r, q, s = run_both(
        """
        program @main(%x: f32[8]) {
          %r, %q, %s = subgraph_call @halves(%x) : f32[8], f32[4; offset 4], f32[8] {
            body (%y: f32[8]) {
              %a = extern_kernel aten.neg.default(%y) : f32[8]
              %v = reinterpret %a as f32[4; offset 4]
              return %a, %v, %a
            }
          }
          return %r, %q, %s
        }
        """,
        torch.arange(8.0),
    )
    assert isinstance(r, torch.Tensor)
    assert isinstance(q, torch.Tensor)
    assert isinstance(s, torch.Tensor)
    assert q.data_ptr() == r.data_ptr() + 16 == s.data_ptr() + 16


def test_numbers_become_what_a_block_declares() -> None:
    text = """
    program @main(%x: f64) {
      symbol s: float = value(%x)
      %i, %f, %b = subgraph_call @convert(s, s > 1.0) : i64, f32, bool {
        body (%n: i64, %c: f64) {
          symbol_definition t: int = value(%n)
          symbol_definition u: float = value(%c)
          return t + 1, t, u
        }
      }
      return %i, %f, %b
    }
    """
    assert run_both(text, 3.0) == (4, 3.0, True)
    assert "whole" in refused(text, 0.5)


def test_a_tensor_in_the_arena_decides() -> None:
    text = """
    program @main(%x: f32[]) {
      %t = allocate bool[]
      extern_kernel aten.gt.Scalar_out(%x, 0, out = %t) writes(%t)
      %r = conditional %t () : i64 {
        true () {
          return 1
        }
        false () {
          return 2
        }
      }
      free %t
      return %r
    }
    """
    assert run_both(text, torch.tensor(1.0)) == (1,)
    assert run_both(text, torch.tensor(-1.0)) == (2,)


def test_long_blocks_are_cut_into_functions() -> None:
    lines = [
        f"%b{i} = extern_kernel aten.neg.default(%{f'b{i - 1}' if i else 'y'}) : f32[4]"
        + (f"\nfree %b{i - 1}" if i else "")
        for i in range(2 * LENGTH)
    ]
    text = (
        "program @main(%x: f32[4]) {\n"
        "%r = subgraph_call @long(%x) : f32[4] {\nbody (%y: f32[4]) {\n"
        + "\n".join(lines)
        + f"\nreturn %b{2 * LENGTH - 1}\n}}\n}}\nreturn %r\n}}\n"
    )
    run_both(text, torch.arange(4.0))
    source = CppEmitter().emit(parsed(text)).files["program.cpp"]
    assert isinstance(source, str)
    functions = source.split("[[gnu::noinline]] void chunk_")[1:]
    assert len(functions) == 4
    assert all(function.count("aten::neg") <= LENGTH for function in functions)


def test_blocks_that_are_nested_too_deep_are_refused() -> None:
    text = "return 1\n"
    for depth in range(20):
        text = (
            f"%r{depth} = subgraph_call @s{depth}() : i64 {{\nbody () {{\n{text}}}\n}}\n"
            f"symbol_definition v{depth}: int = value(%r{depth})\nreturn v{depth}\n"
        )
    with pytest.raises(DiagnosticError, match="deeper than 16"):
        CppEmitter().emit(parsed(f"program @main() {{\n{text}}}\n"))
