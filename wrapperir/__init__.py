"""wrapperir: a typed, serialisable, verified IR of the host program around kernels."""

__version__ = "0.1.0"
