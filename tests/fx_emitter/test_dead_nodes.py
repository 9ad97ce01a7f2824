"""What runs is spared what only readers of a graph need, and nothing else."""

from collections.abc import Callable

import torch

from tests.fx_emitter.running import built, parsed
from wrapperir.emit import Value
from wrapperir.fx import functions
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.load import boxed, erase_dead_nodes

REUSED = """
program @main(%x: f32[s0, 4], %w: f32[4, 4]) {
  symbol s0: int 2..16 = size(%x, 0)
  %a = allocate f32[s0, 4]
  extern_kernel aten.mm.out(%x, %w, out=%a) writes (%a)
  free %x
  %b = allocate f32[s0, 4]
  extern_kernel aten.mm.out(%a, %w, out=%b) writes (%b)
  %c = reuse %a as f32[s0, 4]
  extern_kernel aten.mm.out(%b, %w, out=%c) writes (%c)
  %d = reuse %b as f32[s0, 2]
  extern_kernel aten.fill_.Scalar(%d, 3) writes (%d)
  %e = reinterpret %c as f32[s0, 4]
  free %w
  return %c, %d, %e
}
"""


def targets(module: torch.fx.GraphModule) -> list[object]:
    return [node.target for node in module.graph.nodes]


def test_only_dead_nodes_go() -> None:
    module = built(REUSED)
    before = targets(module)
    erase_dead_nodes(module.graph)
    module.graph.lint()
    after = targets(module)
    assert before.count(functions.free) == 2
    assert functions.free not in after
    assert before.count(torch.as_strided) == 3
    assert after.count(torch.as_strided) == 2  # another layout; another name
    assert len(after) == len(before) - 3


def test_what_runs_gives_the_same() -> None:
    x, w = torch.arange(12.0).view(3, 4), torch.arange(16.0).view(4, 4) / 8
    module = built(REUSED)
    expected = module(x, w)
    loaded = boxed(built(REUSED))
    c, d, e = loaded([x, w])
    assert isinstance(c, torch.Tensor)
    assert isinstance(e, torch.Tensor)
    assert torch.equal(c, expected[0])
    assert torch.equal(c, x @ w @ w @ w)
    assert isinstance(d, torch.Tensor)
    assert torch.equal(d, torch.full((3, 2), 3.0))
    assert c is not e
    assert c.data_ptr() == e.data_ptr()


def test_an_input_that_nothing_uses_keeps_its_free() -> None:
    module = built(
        """
        program @main(%x: f32[4], %y: f32[4]) {
          free %x
          %z = extern_kernel aten.relu.default(%y) : f32[4]
          free %y
          return %z
        }
        """
    )
    erase_dead_nodes(module.graph)
    (free,) = module.graph.find_nodes(op="call_function", target=functions.free)
    assert [str(node) for node in free.args] == ["x"]
    module.recompile()
    assert "x = " in module.code.split("relu")[0]


def test_a_reuse_of_a_view_as_what_it_is_a_view_of() -> None:
    text = """
    program @main(%w: f32[4, 4]) {
      %a = allocate f32[4, 4]
      extern_kernel aten.mm.out(%w, %w, out=%a) writes (%a)
      %one = reinterpret %a as f32[16]
      %other = reinterpret %a as f32[16]
      FREE
      %b = reuse %one as f32[4, 4]
      extern_kernel aten.mul.out(%w, %b, out=%b) writes (%b)
      %c = reuse %other as f32[4, 4]
      free %w
      return %b, %cMORE
    }
    """
    for free, more, count in (("free %a", "", 3), ("", ", %a", 4)):
        module = built(text.replace("FREE", free).replace("MORE", more))
        outputs = boxed(module)([torch.ones(4, 4)])
        assert targets(module).count(torch.as_strided) == count
        assert len({id(output) for output in outputs}) == len(outputs)
        for output in outputs:
            assert isinstance(output, torch.Tensor)
            assert torch.equal(output, torch.full((4, 4), 4.0))


def test_a_graph_for_others_keeps_them() -> None:
    given: list[torch.fx.GraphModule] = []

    def compile_graph(module: torch.fx.GraphModule) -> Callable[..., tuple[Value, ...]]:
        given.append(module)
        return module.forward

    emitter = FxEmitter(compile_graph=compile_graph)
    emitter.load(emitter.emit(parsed(REUSED)), {})
    assert targets(given[0]).count(functions.free) == 2
