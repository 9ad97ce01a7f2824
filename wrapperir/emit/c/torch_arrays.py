"""Outputs as tensors of PyTorch."""

import ctypes

import torch


class TorchArrays:
    """Makes outputs that are tensors; those in one memory share their storage."""

    def hold(self, owner: object) -> object:
        """Return the storage of an input, or one of an output's memory."""
        if isinstance(owner, torch.Tensor):
            return owner.untyped_storage()
        assert isinstance(owner, ctypes.Array)
        return torch.frombuffer(owner, dtype=torch.uint8).untyped_storage()

    def make(
        self, held: object, address: int, element: str, size: list[int], stride: list[int]
    ) -> object:
        """Return a tensor at an address in a storage."""
        dtype = getattr(torch, element)
        assert isinstance(held, torch.UntypedStorage)
        assert isinstance(dtype, torch.dtype)
        offset = (address - held.data_ptr()) // dtype.itemsize if 0 not in size else 0
        return torch.empty(0, dtype=dtype).set_(held, offset, size, stride)
