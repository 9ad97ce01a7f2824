"""Outputs as tensors of PyTorch."""

import ctypes

import torch


class TorchArrays:
    """Makes outputs that are tensors; those in one memory share their storage."""

    def hold(self, block: "ctypes.Array[ctypes.c_char]") -> object:
        """Return a storage of the block."""
        return torch.frombuffer(block, dtype=torch.uint8).untyped_storage()

    def make(
        self, held: object, element: str, begin: int, size: list[int], stride: list[int]
    ) -> object:
        """Return a tensor in a storage."""
        dtype = getattr(torch, element)
        assert isinstance(held, torch.UntypedStorage)
        assert isinstance(dtype, torch.dtype)
        return torch.empty(0, dtype=dtype).set_(held, begin // dtype.itemsize, size, stride)

    def view(
        self, given: object, element: str, begin: int, size: list[int], stride: list[int]
    ) -> object:
        """Return a view of an input, or the input itself."""
        assert isinstance(given, torch.Tensor)
        facts = str(given.dtype), list(given.shape), list(given.stride())
        if begin == 0 and facts == (f"torch.{element}", size, stride):
            return given
        first = given.storage_offset() * given.element_size() + begin
        return self.make(given.untyped_storage(), element, first, size, stride)
