"""Asserts in graphs; what the nodes of any graph look like is what they then are."""

import re
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx import GraphModule, Interpreter, Node

from tests.draws import draws
from tests.fx_emitter.running import built
from wrapperir.fx import functions
from wrapperir.ir import Program
from wrapperir.testing import example_constants, example_inputs, programs
from wrapperir_fx.graph_module import build_graph_module


class Comparing(Interpreter):
    """Runs a graph, and compares each tensor with its ``val``, in what both know."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.compared = 0
        # Memory that is aligned begins where the run finds it.
        graphs = [part.graph for part in module.modules() if isinstance(part, GraphModule)]
        nodes = (node for graph in graphs for node in graph.nodes)
        self.moves = any(node.target is functions.aligned for node in nodes)

    def run_node(self, n: Node) -> object:
        result: object = super().run_node(n)
        self._compare(n, n.meta.get("val"), result)
        return result

    def _compare(self, node: Node, val: object, result: object) -> None:
        if isinstance(val, tuple):
            assert isinstance(result, tuple | list)
            pairs: Any = zip(val, result, strict=True)
            for part, element in pairs:
                self._compare(node, part, element)
        elif isinstance(val, torch.Tensor):
            assert isinstance(result, torch.Tensor), node
            self._compare_tensors(node, val, result)

    def _compare_tensors(self, node: Node, val: torch.Tensor, result: torch.Tensor) -> None:
        assert val.dtype is result.dtype, node
        assert val.dim() == result.dim(), node
        pairs: list[tuple[object, object]] = list(
            zip(val.size(), result.size(), strict=True)
        )
        if result.numel():
            steps = zip(val.stride(), result.stride(), result.size(), strict=True)
            pairs += [(look, step) for look, step, size in steps if size != 1]
        if node.op != "placeholder" and not self.moves:
            pairs.append((val.storage_offset(), result.storage_offset()))
        for look, number in pairs:
            if not isinstance(look, torch.SymInt):
                assert look == number, (node, val, result.size(), result.stride())
                self.compared += 1


def compare(module: GraphModule, *inputs: object) -> int:
    """Return how many numbers of the looks of a graph were those of its run."""
    interpreter = Comparing(module)
    with torch.no_grad():
        interpreter.run(*inputs)
    return interpreter.compared


@settings(max_examples=draws(30, fuzz=60), suppress_health_check=[HealthCheck.too_slow])
@given(programs(languages=(), max_steps=40), st.integers(0, 2**16))
def test_values_look_as_they_are(program: Program, seed: int) -> None:
    module = build_graph_module(program, example_constants(program, seed))
    compare(module, *example_inputs(program, seed))


def test_last_values_of_stacks_look_as_they_are() -> None:
    module = built(
        """
        program @main(%x: f32[2, 3]) {
          %i = extern_kernel aten.full.default([], 0, dtype = dtype(i64)) : i64[]
          %n, %y, %ns, %ys = while_loop stacked (%i, %x) () : i64[], f32[2, 3], \
i64[u0], f32[u0, 2, 3] {
            condition (%j: i64[], %z: f32[2, 3]) {
              symbol_definition u1: int 0.. = item(%j)
              return u1 < 3
            }
            body (%m: i64[], %v: f32[2, 3]) {
              %k = extern_kernel aten.add.Scalar(%m, 1) : i64[]
              %w = extern_kernel aten.neg.default(%v) : f32[2, 3]
              return %k, %w
            }
          }
          symbol_definition u0: int 1.. = size(%ns, 0)
          free %i
          free %n
          free %ns
          free %ys
          return %y
        }
        """
    )
    assert compare(module, torch.randn(2, 3)) > 0


_EXTENTS = st.sampled_from((0, 1, 2, 3))
_STEPS = st.sampled_from((0, 1, 2, 3, 4, 6, 7, 12))


@given(
    st.lists(st.tuples(_EXTENTS, _STEPS), max_size=4),
    st.sampled_from((0, 5)),
    st.sampled_from(("f32", "f8e4m3fn", "i64", "c64")),
)
def test_checks_of_any_layout_look_as_they_are(
    dims: list[tuple[int, int]], offset: int, dtype: str
) -> None:
    size, stride = tuple(n for n, _ in dims), tuple(n for _, n in dims)
    steps = ", ".join(map(str, stride))
    layout = f"; stride {steps}" if dims else ""
    shape = ", ".join(map(str, size))
    module = built(
        f"""
        program @main(%x: {dtype}[64]) {{
          %v = reinterpret %x as {dtype}[{shape}{layout}; offset {offset}]
          assert_not_nan %v
          free %v
          return
        }}
        """
    )
    names = {"f32": "float32", "f8e4m3fn": "float8_e4m3fn", "i64": "int64", "c64": ""}
    given_dtype = getattr(torch, names[dtype] or "complex64")
    assert compare(module, torch.ones(64).to(given_dtype)) > 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            'assert_size_stride %x (4) (1) "m"',
            "m: %x has size [3] and stride [1], not [4] and [1]",
        ),
        ('assert_scalar n > 3 "m"', "m"),
        ("assert_not_nan %x", "%x holds NaN or infinity"),
        ("assert_alignment %x 1048576", "%x is not aligned to 1048576 bytes"),
    ],
)
def test_a_failed_assert_has_the_message_of_all_emitters(line: str, message: str) -> None:
    module = built(
        f"""
        program @main(%x: f32[n]) {{
          symbol n: int 0.. = size(%x, 0)
          {line}
          return
        }}
        """
    )
    memory = torch.full((8,), float("nan"))
    skipped = 1 if memory.data_ptr() % 1048576 == 0 else 0
    with pytest.raises((AssertionError, RuntimeError), match=re.escape(message)):
        module(memory[skipped:][:3])


def test_a_check_of_a_symbolic_layout_is_dense_in_its_order() -> None:
    module = built(
        """
        program @main(%x: f32[s, 3, 2; stride 7, 1, s * 7]) {
          symbol s: int 2..9 = size(%x, 0)
          assert_not_nan %x
          return
        }
        """
    )
    (node,) = module.graph.find_nodes(
        op="call_function", target=torch.ops.aten.isfinite.default
    )
    val = node.meta["val"]
    assert [str(step) for step in val.stride()] == ["3", "1", str(val.size(0) * 3)]
    x = torch.ones(2, 4, 7).as_strided((4, 3, 2), (7, 1, 28))
    assert torch.isfinite(x).stride() == (3, 1, 12)
    assert compare(module, x) > 0
