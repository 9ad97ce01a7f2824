"""Tensors of new storages, and of those that came from outside."""

import torch

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.layout import Layout
from wrapperir.interp.storage import GUARD_BYTES, Owner, Storage, guarded_bytes
from wrapperir.interp.torch_values import DTYPES
from wrapperir.interp.values import TensorValue
from wrapperir.ir import TensorType


def allocate(type: TensorType, layout: Layout, *, zeroed: bool) -> TensorValue:
    """Return a new buffer: zeroed and written, or poisoned and not written.

    The storage spans just the type's extent and is aligned as the type promises.

    Raises:
        FaultError: the device is not the CPU, or the memory cannot be had.
    """
    nbytes = nbytes_of(layout)
    block, base = guarded_bytes(type.device, nbytes, type.alignment or 1)
    storage = Storage(
        memory=block.untyped_storage(),
        base=base,
        nbytes=nbytes,
        owner=Owner.BLOCK,
        writable=True,
        type=type,
        written=None if zeroed else torch.zeros(nbytes, dtype=torch.uint8),
        behind=block[base + nbytes : base + nbytes + GUARD_BYTES],
    )
    storage.fill(zeroed=zeroed)
    return TensorValue(storage.tensor(layout), layout, storage)


def nbytes_of(layout: Layout) -> int:
    """Return the bytes of a storage that spans just a layout."""
    return 0 if layout.is_empty else layout.end


def adopt(
    tensor: torch.Tensor,
    *,
    owner: Owner,
    writable: bool,
    type: TensorType | None,
    offset: int = 0,
) -> TensorValue:
    """Return a tensor that came from outside, with a storage of its own.

    The storage begins ``offset`` elements before the tensor's first element.

    Raises:
        FaultError: the tensor is not strided, or its dtype has no name.
    """
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPES:
        message = f"a tensor of {tensor.dtype}, {tensor.layout} has no type here"
        raise FaultError(Code.RUN_VALUE_KIND, message)
    memory = tensor.untyped_storage()
    base = (int(tensor.storage_offset()) - offset) * tensor.element_size()
    if base < 0:
        message = f"offset is {tensor.storage_offset()}, not {offset}"
        raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
    storage = Storage(
        memory=memory,
        base=base,
        nbytes=int(memory.nbytes()) - base,
        owner=owner,
        writable=writable,
        type=type,
    )
    return TensorValue(tensor.detach(), layout_in(tensor, storage), storage)


def layout_in(tensor: torch.Tensor, storage: Storage) -> Layout:
    """Return a tensor's layout, its offset counted from the start of ``storage``."""
    return Layout(
        DTYPES[tensor.dtype],
        tuple(tensor.size()),
        tuple(tensor.stride()),
        int(tensor.storage_offset()) - storage.base // tensor.element_size(),
    )
