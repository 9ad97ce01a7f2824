"""The renderer of Triton kernels for GPUs."""

from wrapperir.lowering.triton.renderer import TritonRenderer as TritonRenderer
