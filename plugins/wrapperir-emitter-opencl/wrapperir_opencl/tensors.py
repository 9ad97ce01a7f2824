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

    def view(self, given: object, begin: int, size: list[int], stride: list[int]) -> object:
        """Return a view of an input, or the input itself."""
        assert isinstance(given, torch.Tensor)
        if begin == 0 and list(given.shape) == size and list(given.stride()) == stride:
            return given
        offset = given.storage_offset() + begin // given.element_size()
        return given.detach().as_strided(size, stride, offset)
