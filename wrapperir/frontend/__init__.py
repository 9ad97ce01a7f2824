"""Frontends: other forms of host programs, lowered to programs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir.ir import Program

if TYPE_CHECKING:
    import torch


@frozen
class Lowered:
    """A program and its constants: the key of each ``ConstantInput`` to its tensor."""

    program: Program
    constants: Mapping[str, "torch.Tensor"]
