# Inductor says little of its types.
# pyright: reportMissingTypeStubs=false
"""Tensor descriptors, which Inductor makes by lines and programs by kernel parameters."""

import re
from typing import Any

from torch._inductor import ir

# ``tensordesc<fp32[16, 32]>``; a block of symbols has no form in a program.
_SIGNATURE = re.compile(r"tensordesc<(\w+)\[(\d+(?:, ?\d+)*)\]>")


def described(node: Any) -> Any:
    """Return the tensor that a descriptor is of; any other node as it is."""
    return node.get_tensor() if isinstance(node, ir.TMADescriptorStable) else node


def descriptor_signature(kind: str) -> tuple[str, tuple[int, ...]] | None:
    """Return Triton's name of the dtype and the block, of a parameter's type for Triton.

    ``None`` where the type is that of no descriptor.
    """
    found = _SIGNATURE.fullmatch(kind)
    if found is None:
        return None
    return found[1], tuple(map(int, found[2].split(",")))
