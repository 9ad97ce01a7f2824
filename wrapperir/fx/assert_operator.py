"""The operator ``wrapperir.assert_alignment``: a check that only real memory can have."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from typing import Any

import torch
from torch.fx.node import has_side_effect

# An operator lives as long as its library.
_torch: Any = torch  # it has no types for libraries
_LIBRARY = _torch.library.Library("wrapperir", "FRAGMENT")
_LIBRARY.define("assert_alignment(Tensor tensor, int bytes, str message) -> ()")


def _assert_alignment(tensor: torch.Tensor, bytes: int, message: str) -> None:
    if tensor.data_ptr() % bytes:
        raise AssertionError(message)


def _check_nothing(tensor: torch.Tensor, bytes: int, message: str) -> None:
    """Pass: a tensor without memory has no address."""


_LIBRARY.impl("assert_alignment", _assert_alignment, "CompositeExplicitAutograd")
_LIBRARY.impl("assert_alignment", _check_nothing, "Meta")
has_side_effect(torch.ops.wrapperir.assert_alignment.default)
