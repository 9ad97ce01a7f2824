"""Trains a tensor-parallel model on several ranks, and compares gradients with eager's.

``python -m tests.backend.distributed_training RANKS EMITTER FRONTEND``; each rank is a fork
of this process, with all that it imported.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import parallel


def train(rank: int, ranks: int, emitter: str, frontend: str, meeting: str) -> None:
    """Compare gradients of the compiled model with those of the model itself."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks
    )
    try:
        torch.manual_seed(0)
        first, last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        model = torch.nn.Sequential(first, torch.nn.ReLU(), last)
        parallel.parallelize_module(
            model,
            init_device_mesh("cpu", (ranks,)),
            {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()},
        )
        x = torch.randn(4, 8)
        options: Any = {"emitter": emitter, "frontend": frontend}
        compiled = torch.compile(model, backend="wrapperir", options=options)
        torch.testing.assert_close(_step(compiled, model, x), _step(model, model, x))
    finally:
        distributed.destroy_process_group()


def _step(function: Any, model: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the result of a function and the gradients of this rank."""
    model.zero_grad()
    result = function(x)
    result.square().sum().backward()
    gradients: list[Any] = [parameter.grad for parameter in model.parameters()]
    return [result.detach(), *(gradient.to_local().clone() for gradient in gradients)]


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    ranks, *compiler = sys.argv[1:]
    with TemporaryDirectory() as folder:
        given = int(ranks), *compiler, str(Path(folder) / "meeting")
        start: Any = vars(multiprocessing)["start_processes"]
        start(train, given, nprocs=int(ranks), start_method="fork")
    print("trained")
