"""The renderer of OpenCL C kernels."""

from wrapperir_opencl.renderer.renderer import OpenclRenderer

__all__ = ["OpenclRenderer"]
