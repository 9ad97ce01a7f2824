"""Frontends: other forms of host programs, lowered to programs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

from wrapperir.ir import Program

if TYPE_CHECKING:
    import torch

    from wrapperir.frontend.lowering.lower import LoweringStages


@frozen
class Lowered:
    """A program and its constants: the key of each ``ConstantInput`` to its tensor.

    ``stages`` are those of our own lowering, of a program that it made.
    """

    program: Program
    constants: Mapping[str, "torch.Tensor"]
    stages: "LoweringStages | None" = field(default=None, eq=False, repr=False)
