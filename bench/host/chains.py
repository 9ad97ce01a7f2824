"""Chains of small operators, whose run time is mostly that of the host program.

X  100 × (extern mm, then a fused add and relu)
M  200 extern mms
P  200 fused pointwise kernels, kept apart
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import TypeAlias
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling

Chain: TypeAlias = Callable[..., torch.Tensor]

SHAPE = (8, 8)


def mm_add_relu(count: int) -> Chain:
    """X: a matrix product, then a fused pointwise kernel."""

    def chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.relu(torch.mm(x, w) + b)
        return x

    return chain


def mms(count: int) -> Chain:
    """M: matrix products."""

    def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.mm(x, w)
        return x

    return chain


def pointwise(count: int) -> Chain:
    """P: pointwise kernels: an add, then relu and add, at the end a relu."""

    def chain(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(count - 1):
            x = torch.relu(x + b)
        return x

    return chain


def example_inputs(chain: Chain) -> list[torch.Tensor]:
    """Return matrices whose products stay small, one for each parameter."""
    torch.manual_seed(0)
    count = len(inspect.signature(chain).parameters)
    return [torch.rand(SHAPE) / 4 for _ in range(count)]


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Have Inductor write one kernel for each pointwise operator."""
    with (
        config.patch(
            max_fusion_size=1, realize_opcount_threshold=0, realize_reads_threshold=0
        ),
        mock.patch.object(CppScheduling, "MAX_FUSED_KERNEL_ARGS_NUM", 0),
    ):
        yield
