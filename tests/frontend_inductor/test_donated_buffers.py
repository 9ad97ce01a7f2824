"""What the forward saved for the backward is the caller's: no program writes to it."""

import torch

from wrapperir.frontend.inductor import capture
from wrapperir.verify import verify


def two_layers(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return ((x @ weight).exp() @ weight).tanh().sum()


def test_a_backward_program_leaves_saved_tensors_alone() -> None:
    torch._dynamo.reset()
    inputs = [torch.randn(64, 64, requires_grad=True) for _ in range(2)]
    _, backward = capture(two_layers, inputs, training=True)
    assert not [i.name for i in backward.program.inputs if i.mutated]
    assert verify(backward.program) == ()
