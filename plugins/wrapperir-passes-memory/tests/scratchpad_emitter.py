"""An emitter for a device whose scratchpad has pools, and the scratchpad itself."""

import weakref

import torch

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import TensorType
from wrapperir_python.emitter import PythonEmitter
from wrapperir_python.lines import PythonLines

CAPACITY = 20_000
SPACE = "lx"

sizes: list[int] = []
"""Bytes of the pools that were allocated."""

live: set[int] = set()


def scratchpad(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Return all of the scratchpad's memory that a program has, once at a time."""
    pool = torch.empty_strided(size, stride, dtype=dtype)
    nbytes = pool.untyped_storage().nbytes()
    if live or nbytes > CAPACITY:
        raise MemoryError(f"{nbytes} bytes of scratchpad memory")
    sizes.append(nbytes)
    live.add(id(pool))
    weakref.finalize(pool.untyped_storage(), live.clear)
    return pool


class ScratchpadLines(PythonLines):
    """Allocates pools of the space ``lx`` in the scratchpad."""

    def format_allocation(self, type: TensorType, *, in_call: bool = True) -> Fragment:
        """Call ``scratchpad``."""
        if type.space != SPACE:
            return super().format_allocation(type, in_call=in_call)
        return fragment(
            "{}({}, {}, {})",
            self.module.import_from("scratchpad_emitter", "scratchpad"),
            self.expressions.format_tuple(type.size),
            self.expressions.format_tuple(type.stride),
            self.arguments.format_dtype(type.dtype),
        )


class ScratchpadEmitter(PythonEmitter):
    """Emits Python for that device."""

    name = "scratchpad"
    lines = ScratchpadLines
