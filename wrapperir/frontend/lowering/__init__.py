"""Lowering of ATen graphs to loop nests and operator calls, and to programs of kernels."""
