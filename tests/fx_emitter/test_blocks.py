"""Nested blocks as nested graphs: what they are given, what they return, what they keep."""

import operator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx import GraphModule, Node

from tests.draws import draws
from tests.fx_emitter.running import (
    built,
    lines_of,
    load,
    parsed,
    refuse_both,
    run_both,
    without_dead_code,
)
from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.emit.blocks import MAX_NESTING
from wrapperir.fx import LINES, block_functions
from wrapperir.interp import interpret
from wrapperir.ir import ConditionalLine, Program, SubgraphCallLine, WhileLoopLine
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing import Case, Outcome, check_case, programs
from wrapperir.testing.conformance_memory import BLOCK_CASES
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_module import build_graph_module

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
      comment "one of two"
      %f, %g = conditional c2 % 2 > 0 (%e, c2) : f32[4], i64 {
        true (%h: f32[4], %hi: i64) {
          %j = allocate f32[8] workspace(zero_on_call)
          %k = reinterpret %j as f32[4]
          extern_kernel aten.copy_.default(%k, %h) writes(%k)
          free %j
          comment "that is all"
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


def graphs_in(module: GraphModule) -> list[GraphModule]:
    return [found for found in module.modules() if isinstance(found, GraphModule)]


def operators_of(module: GraphModule) -> list[str]:
    return [
        str(node.target)
        for graph in graphs_in(module)
        for node in graph.graph.nodes
        if node.op == "call_function"
    ]


def inputs_of(graph: GraphModule) -> list[str]:
    return [node.name for node in graph.graph.nodes if node.op == "placeholder"]


@pytest.mark.parametrize("case", BLOCK_CASES, ids=lambda case: case.name)
def test_conformance_without_dead_code(case: Case) -> None:
    assert check_case(FxEmitter(compile_graph=without_dead_code), case) is Outcome.PASSED


@settings(max_examples=draws(20, fuzz=40), suppress_health_check=[HealthCheck.too_slow])
@given(programs(languages=(), max_steps=24), st.integers(0, 99))
def test_generated_programs_run_as_interpreted(program: Program, seed: int) -> None:
    case = Case("generated", program, seeds=(seed,))
    assert check_case(FxEmitter(compile_graph=without_dead_code), case) is Outcome.PASSED


@settings(max_examples=draws(20, fuzz=40), suppress_health_check=[HealthCheck.too_slow])
@given(programs(languages=(), max_steps=24))
def test_every_line_of_every_block_is_in_a_graph_once(program: Program) -> None:
    module = build_graph_module(
        program, {item.key: torch.empty(0) for item in program.constants}
    )
    found = [line for graph in graphs_in(module) for line in lines_of(graph)]
    # A block's graph follows that of the block around it, so the order may differ.
    wanted = list(walk_lines(program.lines))
    assert sorted(map(id, found)) == sorted(map(id, wanted))


@pytest.mark.parametrize("most", [-1, 0, 1, 2, 7])
def test_a_loop_computes_all_next_values_before_it_takes_them(most: int) -> None:
    run_both(COUNT, torch.arange(4.0), most, 2**60 + 1)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("most", [0, 1, 5, 9])
def test_blocks_inside_blocks(most: int, grad: bool) -> None:
    with torch.set_grad_enabled(grad):
        run_both(NESTED, torch.arange(4.0), most)


def test_each_block_is_a_module_with_the_lines_that_it_holds() -> None:
    module = built(NESTED)
    line = parsed(NESTED).lines[2]
    assert isinstance(line, WhileLoopLine)
    (loop,) = [n for n in module.graph.nodes if line in n.meta.get(LINES, ())]
    # The first node of a line has it: here, what makes the first operand.
    assert loop.op == "get_attr"
    body = module.while_loop_body_graph_0
    assert isinstance(body, GraphModule)
    assert lines_of(body)[: len(line.body.lines)] == line.body.lines
    branch = body.true_graph_0
    assert isinstance(branch, GraphModule)
    inner = line.body.lines[4]
    assert isinstance(inner, ConditionalLine)
    assert lines_of(branch) == inner.on_true.lines
    (output,) = branch.graph.find_nodes(op="output")
    assert output.meta[LINES] == inner.on_true.lines[-1:]
    assert isinstance(output.args[0], tuple)
    assert output.args[0][1] == 1


def test_floats_are_carried_exactly() -> None:
    text = """
    program @main(%s: f64, %n: i64) {
      symbol most: int 0..64 = value(%n)
      symbol begin: float = value(%s)
      %r, %i, %b = while_loop (begin, 0, begin > 1.0) () : f64, i64, bool {
        condition (%c: f64, %ci: i64, %cb: bool) {
          symbol_definition i0: int = value(%ci)
          return i0 < most
        }
        body (%d: f64, %di: i64, %db: bool) {
          symbol_definition s: float = value(%d)
          symbol_definition i1: int = value(%di)
          symbol_definition b: bool = value(%db)
          return where(b, s / 3, s * 7 + 0.1), i1 + 1, not b
        }
      }
      return %r, %i, %b
    }
    """
    for begin in (0.1, -0.0, 1e308, float("inf"), float("nan")):
        for count in (0, 1, 5):
            outputs = run_both(text, begin, count)
            assert [type(value) for value in outputs] == [float, int, bool]


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
    assert "whole" in refuse_both(text, 0.5)


def test_blocks_of_one_line_may_declare_a_number_each_their_own_way() -> None:
    text = """
    program @main(%x: f64, %go: bool[]) {
      symbol s: float = value(%x)
      %r = conditional %go (s, 3) : f64 {
        true (%a: i64, %b: f64) {
          symbol_definition p: int = value(%a)
          symbol_definition q: float = value(%b)
          return p + q
        }
        false (%c: bool, %d: bool) {
          symbol_definition t: bool = value(%c)
          symbol_definition u: bool = value(%d)
          return t + u * 2
        }
      }
      return %r
    }
    """
    assert run_both(text, 4.0, torch.tensor(True)) == (7.0,)
    assert run_both(text, 0.5, torch.tensor(False)) == (3.0,)
    assert "whole" in refuse_both(text, 0.5, torch.tensor(True))


def test_a_plain_result_of_a_loop_is_not_checked() -> None:
    for text, count in ((COUNT, 0), (COUNT.replace("f32[4]", "f32[4; offset 1]"), 1)):
        if count:
            text = text.replace("aten.add.Tensor(%d, %d)", "aten.clone.default(%d)")
        graph = build_graph(parsed(text)).graph
        nodes = graph.find_nodes(op="call_function", target=block_functions.laid_out)
        assert len(nodes) == count


LIFTED = """
program @main(%x: f32[s0, 4], %y: f32[2], %n: i64, %q: f64, %t: bool) {
  symbol s0: int 1..64 = size(%x, 0)
  symbol n: int 0..9 = value(%n)
  symbol q: float = value(%q)
  symbol t: bool = value(%t)
  constant %w: f32[4] = "w"
  constant %v: f32[4] = "v"
  symbol_definition unused: int = n + 5
  symbol_definition five: int = 5
  %r = subgraph_call @outer(%x) : f32[s0, 4] {
    body (%a: f32[s0, 4]) {
      symbol_definition own: int = n + 1
      %b = conditional t (%a) : f32[s0, 4] {
        true (%c: f32[s0, 4]) {
          %d = allocate f32[s0, 4]
          extern_kernel aten.add.out(%c, %w, alpha = own + five, out = %d) writes(%d)
          return %d
        }
        false (%e: f32[s0, 4]) {
          %f = extern_kernel aten.add.Scalar(%e, q) : f32[s0, 4]
          return %f
        }
      }
      return %b
    }
  }
  return %r, unused
}
"""


def test_blocks_are_given_the_constants_and_symbols_that_they_use() -> None:
    program = parsed(LIFTED)
    constants = {"w": torch.arange(4.0), "v": torch.zeros(4)}
    module = build_graph_module(program, constants)
    outer = module.outer_graph
    assert isinstance(outer, GraphModule)
    assert inputs_of(outer) == ["a", "w", "s0", "n", "q_cell", "t"]
    for name in ("true_graph_0", "false_graph_0"):
        branch = getattr(outer, name)
        first = "c" if name == "true_graph_0" else "e"
        assert inputs_of(branch) == [first, "w", "s0", "q_cell", "own"]
    x, y = torch.arange(12.0).reshape(3, 4), torch.zeros(2)
    call = load(program, constants)
    for t in (False, True):
        given: list[Value] = [x, y, 3, 0.25, t]
        assert_same(call(list(given)), interpret(program, given, constants))


def test_graphs_of_one_name_have_different_identifiers() -> None:
    text = """
    program @main(%x: f32[4]) {
      %a = subgraph_call @same(%x) : f32[4] {
        body (%y: f32[4]) {
          %b = extern_kernel aten.neg.default(%y) : f32[4]
          return %b
        }
      }
      %c = subgraph_call @same(%a) : f32[4] {
        body (%z: f32[4]) {
          %d = extern_kernel aten.abs.default(%z) : f32[4]
          return %d
        }
      }
      free %a
      return %c
    }
    """
    run_both(text, torch.arange(4.0))
    module = built(text)
    calls = [n for n in module.graph.nodes if "invoke_subgraph" in str(n.target)]
    assert [call.args[1] for call in calls] == ["same", "same_"]
    assert [module.get_submodule(n.args[0].target) for n in calls] == graphs_in(module)[1:]


def deep(depth: int) -> str:
    text = "return 1\n"
    for level in range(depth):
        text = (
            f"%r{level} = conditional n > 0 () : i64 {{\ntrue () {{\n{text}}}\n"
            f"false () {{\nreturn 0\n}}\n}}\n"
            f"symbol_definition v{level}: int = value(%r{level})\nreturn v{level} + 1\n"
        )
    return f"program @main(%n: i64) {{\nsymbol n: int = value(%n)\n{text}}}\n"


def test_blocks_may_be_nested_deep() -> None:
    assert run_both(deep(MAX_NESTING), 1) == (MAX_NESTING + 1,)


def test_blocks_that_are_nested_too_deep_are_refused() -> None:
    with pytest.raises(DiagnosticError, match=f"deeper than {MAX_NESTING}") as caught:
        FxEmitter().emit(parsed(deep(MAX_NESTING + 4)))
    (problem,) = caught.value.diagnostics
    assert problem.code is Code.UNSUPPORTED_FEATURE


def test_what_is_opaque_is_not_given_to_a_block() -> None:
    text = """
    program @main(%x: opaque("a stream")) {
      subgraph_call @use(%x) {
        body (%y: opaque("a stream")) {
          return
        }
      }
      return %x
    }
    """
    with pytest.raises(DiagnosticError, match="neither tensor nor number"):
        FxEmitter().emit(parsed(text))


def test_the_operators_are_those_of_pytorch() -> None:
    module = built(NESTED)
    found = [name for name in operators_of(module) if name in ("cond", "while_loop")]
    assert sorted(found) == ["cond", "while_loop"]
    (loop,) = [n for n in module.graph.nodes if str(n.target) == "while_loop"]
    taken = [node for node in loop.users if node.target is operator.getitem]
    assert [node.name for node in taken] == ["r", "i"]
    assert isinstance(loop.args[0], Node)
    assert isinstance(parsed(NESTED).lines[2], WhileLoopLine | SubgraphCallLine)
