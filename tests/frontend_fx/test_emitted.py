"""Graphs of the FX emitter: read back exactly, and by what their nodes say."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch.fx import GraphModule

from tests.draws import draws
from tests.frontend_fx.checked import lowered
from tests.frontend_fx.emitted import emitted, known_kernels, without_lines
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.interp import interpret
from wrapperir.ir import (
    AllocatePoolLine,
    AssertNotNanLine,
    BodyLine,
    ExternKernelLine,
    PlaceLine,
    Program,
)
from wrapperir.testing import programs
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.text import parse_program

_aten = torch.ops.aten

CHAIN = parse_program(
    """
wrapperir 1
program @main(%x: f32[s0, 4]) {
  symbol s0: int 2..6 = size(%x, 0)
  constant %weight: f32[4, 4] = "layers.0.weight"

  %buf0 = allocate f32[s0, 4]
  extern_kernel aten.mm.out(%x, %weight, out = %buf0) writes(%buf0)
  free %x
  comment "activation"
  %buf1 = extern_kernel aten.relu.default(%buf0) : f32[s0, 4]
  free %buf0
  return %buf1
}
"""
)


def outputs_of(program: Program, constants: Any) -> tuple[list[Any], list[Any]]:
    """Run a program on examples; return its outputs, and its inputs as it left them."""
    inputs = example_inputs(program)
    return list(interpret(program, inputs, constants)), inputs


def chain() -> GraphModule:
    """Return the graph of a product and an activation."""
    return emitted(CHAIN, example_constants(CHAIN))


def replaced(module: GraphModule, old: Any, new: Any) -> GraphModule:
    """Replace the operator of a call, as a pass over the graph does."""
    (node,) = module.graph.find_nodes(op="call_function", target=old)
    with module.graph.inserting_before(node):
        other = module.graph.call_function(new, node.args, node.kwargs)
    other.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(other)
    module.graph.erase_node(node)
    module.recompile()
    return module


@settings(max_examples=draws(25, fuzz=60))
@given(programs())
def test_a_graph_gives_the_program_that_it_was_built_of(program: Program) -> None:
    constants = example_constants(program)
    found = lower_graph_module(emitted(program, constants))
    assert found.program == program
    assert found.constants.keys() == constants.keys()
    assert all(torch.equal(found.constants[key], constants[key]) for key in constants)


@settings(max_examples=draws(20, fuzz=40))
@given(programs())
def test_what_the_nodes_say_computes_the_same(program: Program) -> None:
    module = without_lines(emitted(program, example_constants(program)))
    with known_kernels(program):
        found = lowered(module)
    try:
        outputs, inputs = outputs_of(program, example_constants(program))
    except DiagnosticError:  # the program faults on these inputs
        return
    given = example_inputs(program)
    results = interpret(found.program, given, found.constants)
    for actual, expected in zip((*results, *given), (*outputs, *inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_a_copied_graph_gives_the_program_too() -> None:
    assert lower_graph_module(copy.deepcopy(chain())).program == CHAIN


def test_another_operator_in_a_graph_is_in_the_program() -> None:
    module = replaced(chain(), _aten.relu.default, _aten.sigmoid.default)
    found = lowered(module)
    operators = [
        line.operator for line in found.program.lines if isinstance(line, ExternKernelLine)
    ]
    assert operators == ["aten.mm.out", "aten.sigmoid.default"]
    assert found.program.inputs[0].name == "x"
    assert [constant.key for constant in found.program.constants] == ["layers.0.weight"]
    x = torch.randn(3, 4)
    (result,) = interpret(found.program, [x], found.constants)
    torch.testing.assert_close(result, (x @ found.constants["layers.0.weight"]).sigmoid())


def test_an_argument_that_was_changed_is_in_the_program() -> None:
    module = chain()
    (node,) = module.graph.find_nodes(op="call_function", target=_aten.mm.out)
    x, weight = node.args
    node.args = (x, x)
    found = lowered(module)
    (line,) = [line for line in found.program.lines if line_is(line, "aten.mm.out")]
    assert isinstance(line, ExternKernelLine)
    assert line.arguments[0] == line.arguments[1]
    assert weight.name == "weight"


def line_is(line: BodyLine, operator: str) -> bool:
    """Say whether a line calls an operator."""
    return isinstance(line, ExternKernelLine) and line.operator == operator


def test_a_value_that_is_used_after_its_free_is_freed_later() -> None:
    module = chain()
    (relu,) = module.graph.find_nodes(op="call_function", target=_aten.relu.default)
    output = next(iter(reversed(module.graph.nodes)))
    buffer = relu.args[0]
    with module.graph.inserting_before(output):
        late = module.graph.call_function(_aten.neg.default, (buffer,))
    late.meta["val"] = relu.meta["val"]
    output.args = ((relu, late),)
    found = lowered(module)
    x = torch.randn(2, 4)
    first, second = interpret(found.program, [x], found.constants)
    assert isinstance(second, torch.Tensor)
    torch.testing.assert_close(first, torch.relu(-second))


def test_bytes_that_are_only_viewed_are_a_pool() -> None:
    program = parse_program(
        """
wrapperir 1
program @main(%x: f32[4]) {
  %pool = allocate_pool pool[64]
  %buf0 = place f32[4] in %pool at 32
  extern_kernel aten.add.out(%x, %x, out = %buf0) writes(%buf0)
  %buf1 = extern_kernel aten.neg.default(%buf0) : f32[4]
  free %x
  free %buf0
  free %pool
  return %buf1
}
"""
    )
    found = lowered(without_lines(emitted(program, {})))
    (place,) = [line for line in found.program.lines if isinstance(line, PlaceLine)]
    assert place.offset == 32
    assert any(isinstance(line, AllocatePoolLine) for line in found.program.lines)


def placed_names(text: str) -> set[str]:
    """Return the placed buffers of a program that is read from its nodes alone."""
    found = lowered(without_lines(emitted(parse_program(text), {})))
    return {line.result for line in found.program.lines if isinstance(line, PlaceLine)}


def lent(type: str, bytes: int) -> str:
    """Return lines that wait for stream 1 and lend ``%pool`` to a block."""
    return f"""\
  %event0 = record_event stream(1)
  wait_event %event0
  %buf2 = subgraph_call @block(%x, %pool) : {type} {{
    body (%y: {type}, %bytes: pool[{bytes}]) {{
      %buf3 = extern_kernel aten.neg.default(%y) : {type}
      return %buf3
    }}
  }}
"""


def test_parts_of_lent_bytes_that_streams_write_are_placed_apart() -> None:
    placed = placed_names(
        """
wrapperir 1
program @main(%x: f32[s0, 1]) {
  symbol s0: int 2..6 = size(%x, 0)

  %pool = allocate_pool pool[64]
  %buf0 = place f32[s0, 1] in %pool at 0
  extern_kernel aten.relu.out(%x, out = %buf0) writes(%buf0)
  %buf1 = place f32[s0, 1] in %pool at 32
  extern_kernel aten.neg.out(%x, out = %buf1) writes(%buf1) stream(1)
"""
        + lent("f32[s0, 1]", 64)
        + """\
  free %x
  free %buf0
  free %buf1
  free %pool
  return %buf2
}
"""
    )
    assert placed >= {"buf0", "buf1"}


def test_a_view_of_a_placed_buffer_of_symbolic_size_is_no_other_part() -> None:
    placed = placed_names(
        """
wrapperir 1
program @main(%x: f32[s0, 6]) {
  symbol s0: int 2..6 = size(%x, 0)

  %pool = allocate_pool pool[512]
  %buf0 = place f64[s0, 6] in %pool at 0
  %view0 = reinterpret %buf0 as f64[s0, 3; stride 6, 1; offset 3]
  extern_kernel aten.fill_.Scalar(%view0, 3) writes(%view0)
  %buf1 = place f32[s0, 6] in %pool at 320
  extern_kernel aten.neg.out(%x, out = %buf1) writes(%buf1) stream(1)
"""
        + lent("f32[s0, 6]", 512)
        + """\
  free %x
  free %buf0
  free %view0
  free %buf1
  free %pool
  return %buf2
}
"""
    )
    assert placed >= {"buf0", "buf1"}
    assert "view0" not in placed


def test_a_placed_buffer_that_is_viewed_again_keeps_its_elements() -> None:
    program = parse_program(
        """
wrapperir 1
program @main(%x: f32[s0, 1]) {
  symbol s0: int 2..6 = size(%x, 0)

  %pool = allocate_pool pool[64]
  %buf0 = place f32[s0, 1] in %pool at 32
  extern_kernel aten.neg.out(%x, out = %buf0) writes(%buf0)
  free %x
  %buf1 = reuse %buf0 as f32[s0, 1]
  %buf2 = extern_kernel aten.relu.default(%buf1) : f32[s0, 1]
  free %buf1
  free %pool
  return %buf2
}
"""
    )
    found = lowered(without_lines(emitted(program, {})))
    x = torch.tensor([[-1.0], [2.0]])
    (result,) = interpret(found.program, [x], {})
    torch.testing.assert_close(result, (-x).relu())


def test_a_check_of_all_elements_is_one_line() -> None:
    program = parse_program(
        """
wrapperir 1
program @main(%x: f32[4]) {
  assert_not_nan %x "x"
  return %x
}
"""
    )
    found = lowered(without_lines(emitted(program, {})))
    assert found.program.lines == (
        AssertNotNanLine(
            buffer="x", message="x", provenance=found.program.lines[0].provenance
        ),
    )


def test_a_graph_without_examples_is_refused() -> None:
    module = without_lines(chain())
    for node in module.graph.nodes:
        node.meta.pop("val", None)
    with pytest.raises(DiagnosticError, match="WIR606"):
        lower_graph_module(module)
