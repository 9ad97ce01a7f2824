"""The alignment of PyTorch's allocations, and memory that PyTorch cannot allocate."""

from collections.abc import Iterator

from wrapperir.ir import DEFAULT_SPACE, Device, PoolType, TensorType

CPU_ALIGNMENT = 64
"""Bytes to which PyTorch aligns every allocation on the CPU."""
CUDA_ALIGNMENT = 512
"""Bytes to which PyTorch's caching allocator aligns every allocation on a GPU."""


def natural_alignment(device: Device) -> int:
    """Return the bytes to which PyTorch aligns every allocation on a device."""
    return CUDA_ALIGNMENT if device.kind == "cuda" else CPU_ALIGNMENT


def unsupported_memory(
    type: TensorType | PoolType, spaces: frozenset[str] = frozenset({DEFAULT_SPACE})
) -> Iterator[tuple[str, str | None]]:
    """Yield why a type cannot be allocated: a message, and its subject if it has one.

    ``spaces`` are the memory spaces that the emitter knows.
    """
    if type.space not in spaces:
        yield f"memory space {type.space[:80]!a} is unknown", type.space
    if isinstance(type, TensorType) and type.layout is not None:
        name = type.layout.name
        yield f"vendor layout {name[:80]!a} is unknown", name
    if type.pinned and (type.alignment or 0) > CPU_ALIGNMENT:
        yield f"pinned memory has no alignment beyond {CPU_ALIGNMENT} bytes", None
