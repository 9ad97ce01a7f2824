"""Graph modules in pickles: node by node, with their lines, and never traced again."""

import io
import pickle
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Node, map_arg

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit.support import fit_program
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.interp import interpret
from wrapperir.testing import CASES, Case, Outcome, check_case
from wrapperir.testing.inputs import example_constants
from wrapperir.text import parse_program
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_module import build_graph_module
from wrapperir_fx.nodes import NoTracer

SAVED = [
    case
    for case in CASES
    # A copy of a constant is another tensor.
    if not any(constant.mutated for constant in case.program.constants)
]
TEXT = """\
wrapperir 1

program @main(%x: f32[s0, 4]) {
  symbol s0: int 2..16 = size(%x, 0)
  constant %w: f32[4] = "w"
  %y = allocate f32[s0, 4]
  comment "scaled"
  extern_kernel aten.mul.out(%x, %w, out = %y) writes(%y) from(mul)
  free %x
  return %y, s0
}

origins {
  place 0: "m.py" 3
  mul: at 0
}
"""


def saved(module: GraphModule) -> GraphModule:
    loaded: GraphModule = pickle.loads(pickle.dumps(module))  # noqa: S301 its own
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize("case", SAVED, ids=lambda case: case.name)
def test_a_saved_graph_does_the_same(case: Case) -> None:
    assert check_case(FxEmitter(compile_graph=saved), case) is Outcome.PASSED


def described(module: GraphModule) -> list[tuple[object, ...]]:
    """Return each node of a module as data, with the nodes of nested modules."""

    def name(node: Node) -> Any:
        return node.name

    nodes: list[tuple[object, ...]] = []
    for path, owner in module.named_modules():
        if isinstance(owner, GraphModule):
            for node in owner.graph.nodes:
                keys = ("wrapperir", "provenance", "stack_trace")
                meta = [node.meta.get(key) for key in keys]
                args, kwargs = map_arg((node.args, node.kwargs), name)
                nodes.append((path, node.op, node.name, node.target, args, kwargs, meta))
    return nodes


def built(case: Case) -> GraphModule:
    """Return the graph of a case, whose collectives are calls of operators."""
    program = fit_program(case.program, FxEmitter.support)
    return build_graph_module(program, example_constants(program, 0))


@pytest.mark.parametrize("case", SAVED, ids=lambda case: case.name)
def test_a_saved_graph_has_the_same_nodes_and_lines(case: Case) -> None:
    module = built(case)
    loaded = saved(module)
    assert described(loaded) == described(module)
    assert loaded.code == module.code
    assert loaded.meta["wrapperir"] == module.meta["wrapperir"]
    assert saved(loaded).code == module.code


def module() -> GraphModule:
    return build_graph_module(parse_program(TEXT), {"w": torch.arange(4.0)})


def test_what_was_changed_is_saved() -> None:
    changed = module()
    (product,) = changed.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.out)
    product.target = torch.ops.aten.add.out
    changed.recompile()
    y, rows = saved(changed)(torch.ones(2, 4))
    assert y.tolist() == [[1, 2, 3, 4]] * 2
    assert rows == 2


def test_memory_of_two_calls_is_not_shared() -> None:
    loaded = saved(module())
    first, _ = loaded(torch.ones(2, 4))
    second, _ = loaded(torch.zeros(2, 4))
    assert first.data_ptr() != second.data_ptr()
    assert first.sum() == 12


def test_a_module_that_cannot_be_loaded_is_not_saved() -> None:
    built = module()
    plain = GraphModule(built, built.graph)
    for save in (pickle.dumps, lambda value: torch.save(value, io.BytesIO())):
        with pytest.raises(DiagnosticError) as caught:
            save(plain)
        assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE


def test_the_code_of_a_graph_is_not_traced_again() -> None:
    with pytest.raises(DiagnosticError) as caught:
        NoTracer().trace(module())
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE


def values(module: GraphModule) -> dict[str, str]:
    """Return what each node's value looks like, nested ones too, as text."""
    return {
        f"{path}.{node.name}": repr(node.meta["val"])
        for path, owner in module.named_modules()
        if isinstance(owner, GraphModule)
        for node in owner.graph.nodes
        if "val" in node.meta
    }


@pytest.mark.parametrize("case", SAVED, ids=lambda case: case.name)
def test_a_saved_graph_has_its_values_again(case: Case) -> None:
    module = built(case)
    assert values(saved(module)) == values(module)


def doubled(module: GraphModule) -> Node:
    """Add the first output to itself in the graph; return the new node."""
    (output,) = module.graph.find_nodes(op="output")
    y, *rest = output.args[0]
    with module.graph.inserting_before(output):
        twice = module.graph.call_function(torch.ops.aten.add.Tensor, (y, y))
    output.args = ((twice, *rest),)
    module.recompile()
    return twice


def test_a_saved_graph_may_be_changed_and_read_as_a_program() -> None:
    loaded = saved(module())
    (product,) = loaded.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.out)
    doubled(loaded).meta["val"] = product.kwargs["out"].meta["val"]
    lowered = lower_graph_module(loaded)
    y, rows = interpret(lowered.program, [torch.ones(2, 4)], lowered.constants)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [[0, 2, 4, 6]] * 2
    assert rows == 2


def test_what_was_changed_has_no_value_after_it_was_saved() -> None:
    changed = module()
    (product,) = changed.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.out)
    product.kwargs["out"].update_arg(0, (3, 4))
    wanted = values(changed)
    del wanted[".y"], wanted[".mul_out"]
    assert values(saved(changed)) == wanted


def test_a_graph_whose_lines_are_no_program_has_no_values() -> None:
    changed = module()
    doubled(changed)
    for node in changed.graph.nodes:
        if node.target is torch.empty_strided:
            del node.meta["wrapperir"]
    assert values(saved(changed)) == {}
