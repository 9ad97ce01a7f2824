"""Graphs launch Triton kernels through the driver: nodes, and results on a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation

from tests.fx_emitter.running import built
from wrapperir_fx import kernel_functions
from wrapperir_fx.load import boxed

DOUBLE = """
kernel_definition @double triton(x: read f32*, y: write f32*, n: i64, BLOCK: constexpr) {
  grid = (ceildiv(n, BLOCK))
  config BLOCK = 64
  entry = double
  source {
    | @triton.jit
    | def double(x, y, n, BLOCK: tl.constexpr):
    |     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    |     tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
  }
}

program @main(%x: f32[s0, 16], %go: bool[]) {
  symbol s0: int 1..4096 = size(%x, 0)
  %y = allocate f32[s0, 16]
  kernel_call @double(%x, %y, s0 * 16)
  %z = conditional %go (%y) : f32[s0, 16] {
    true (%p: f32[s0, 16]) {
      %a = allocate f32[s0, 16]
      kernel_call @double(%p, %a, s0 * 16)
      return %a
    }
    false (%q: f32[s0, 16]) {
      %b = extern_kernel aten.neg.default(%q) : f32[s0, 16]
      return %b
    }
  }
  free %y
  return %z
}
"""


class Direct:
    """A kernel that keeps its calls, and doubles its first argument."""

    __name__ = "double"
    slow = SimpleNamespace(names=("x", "y", "n"))

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> None:
        self.calls.append((*given[:3], given[5]))
        torch.mul(given[3], 2, out=given[4])


def test_what_the_driver_can_launch_is_called_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = built(DOUBLE)
    ((_, node), *others) = kernel_functions.triton_calls(module)
    assert len(others) == 1
    kernel = Direct()
    direct = {node.kwargs["kernel_idx"]: kernel}
    monkeypatch.setattr(kernel_functions, "_DIRECT", direct)
    call = boxed(module)
    x = torch.randn(5, 16)
    (found,) = call([x, torch.tensor(True)])
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, x * 4)
    assert kernel.calls == [(2, 1, 1, 80)] * 2
    assert not list(kernel_functions.triton_calls(module))


def test_other_kernels_stay_calls_of_the_operator() -> None:
    module = built(DOUBLE)
    x = torch.randn(5, 16)
    (found,) = boxed(module)([x, torch.tensor(False)])
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, x * -2)
    assert len(list(kernel_functions.triton_calls(module))) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver")
@pytest.mark.parametrize("size", [1, 5, 4096])
def test_launches_on_a_gpu(size: int) -> None:
    text = DOUBLE.replace("16]", "16]@cuda:0").replace("bool[]", "bool[]@cuda:0")
    text = text.replace("s0 * 16)\n", "s0 * 16) @cuda:0\n")
    text = text.replace("aten.neg.default(%q)", "aten.neg.default(%q) @cuda:0")
    module = built(text)
    call = boxed(module)
    (launch,) = [node for node in module.graph.nodes if hasattr(node.target, "slow")]
    assert len(launch.args) == 6
    assert triton_kernel_wrapper_mutation not in [n.target for n in module.graph.nodes]
    x = torch.randn(size, 16, device="cuda")
    for go in (True, False):
        (found,) = call([x, torch.tensor(go, device="cuda")])
        assert isinstance(found, torch.Tensor)
        assert torch.equal(found, x * 4 if go else x * -2)
