"""Collectives are calls of PyTorch's operators in a graph."""

from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.distributed import _functional_collectives as collectives

from tests.fx_emitter.features import TRITON, calls, run

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()),
    reason="needs torch.distributed with gloo",
)


@pytest.fixture
def group(device: torch.device, tmp_path: Path) -> Generator[distributed.ProcessGroup]:
    """Return a group of this process alone."""
    backend = "gloo" if device.type == "cpu" else "nccl"
    store = (tmp_path / "store").as_uri()
    distributed.init_process_group(backend, init_method=store, rank=0, world_size=1)
    found = distributed.group.WORLD
    assert found is not None
    yield found
    distributed.destroy_process_group()


def test_collectives(device: torch.device, group: distributed.ProcessGroup) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        reduced = collectives.all_reduce(x + 1, "sum", group)
        gathered = collectives.all_gather_tensor(x * 2, 0, group)
        scattered = collectives.reduce_scatter_tensor(x * 3, "sum", 0, group)
        return reduced * 2, gathered + 1, scattered - 1

    ran = run(function, torch.randn(4, device=device))
    operators = torch.ops._c10d_functional
    (reduced,) = calls(ran.graph, operators.all_reduce_.default)
    assert reduced.args[1:] == ("sum", group.group_name)
    (gathered,) = calls(ran.graph, operators.all_gather_into_tensor_out.default)
    (scattered,) = calls(ran.graph, operators.reduce_scatter_tensor_out.default)
    waits = calls(ran.graph, operators.wait_tensor.default)
    written = [reduced.args[0], gathered.kwargs["out"], scattered.kwargs["out"]]
    assert [wait.args[0] for wait in waits] == written
    nodes = list(ran.graph.graph.nodes)
    for wait in waits:
        (source,) = wait.all_input_nodes
        readers = [n for n in calls(ran.graph, TRITON) if source in n.all_input_nodes]
        assert nodes.index(readers[-1]) > nodes.index(wait)
