"""Llama-like models that are split over ranks: by tensors, and fully sharded."""

from functools import partial
from typing import Any

import torch
from attrs import frozen
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.nn.utils import parametrize
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


@frozen(kw_only=True)
class Shape:
    """The sizes of a model and of what a rank is given."""

    layers: int
    width: int
    hidden: int
    head: int
    batch: int
    length: int


class Layer(nn.Module):
    """A layer of a Llama: attention and a gated unit, both with a norm before."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, hidden = shape.width, shape.hidden
        self.head = shape.head
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        """Return the layer's output."""
        y = self.norm1(x)
        q, k, v = (
            part(y).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def new_model(shape: Shape) -> nn.Sequential:
    """Return the layers, with the same numbers on all ranks."""
    torch.manual_seed(0)
    return nn.Sequential(*(Layer(shape) for _ in range(shape.layers)))


def split_tensors(model: nn.Sequential, mesh: DeviceMesh, regather: bool) -> nn.Module:
    """Return the model with its matrices split by columns, then by rows."""
    columns = dict.fromkeys(("q", "k", "v", "gate", "up"), ColwiseParallel)
    rows = dict.fromkeys(("o", "down"), RowwiseParallel)
    for layer in model:
        plan = {name: make() for name, make in {**columns, **rows}.items()}
        parallelize_module(layer, mesh, plan)
    return model


class _Gather(nn.Module):
    """Gathers a parameter where it is used; its gradient is the mean of all ranks."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again = again

    def forward(self, sharded: DTensor) -> Any:
        if not self.again:
            return _gathered(sharded)
        contexts = partial(create_selective_checkpoint_contexts, _policy)
        return checkpoint(_gathered, sharded, use_reentrant=False, context_fn=contexts)


def _gathered(sharded: DTensor) -> Any:
    whole = sharded.redistribute(placements=[Replicate()])
    return whole.to_local(grad_placements=[Partial("avg")])


def _policy(context: object, operator: object, *args: object, **kwargs: object) -> object:
    """Have collectives and what follows them run again in the backward pass."""
    return CheckpointPolicy.MUST_RECOMPUTE


def shard_fully(model: nn.Sequential, mesh: DeviceMesh, regather: bool) -> nn.Module:
    """Return the model with each parameter sharded, and gathered where it is used.

    The collectives are in the graph, as in SimpleFSDP (arXiv 2411.00284).  With
    ``regather``, the backward pass gathers them again.
    """
    for module in list(model.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            sharded = distribute_tensor(parameter.detach(), mesh, [Shard(0)])
            setattr(module, name, nn.Parameter(sharded))
            gather = _Gather(regather)
            parametrize.register_parametrization(module, name, gather, unsafe=True)
    return model


SPLITS = {"tensor": split_tensors, "sharded": shard_fully}
"""The ways to split a model over the ranks of a mesh."""
