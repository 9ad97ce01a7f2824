"""Defaults of tuning, also of the command line.

This module imports nothing, so that help texts need not import torch.
"""

SAMPLES = 256
"""The number of samples of its symbols at which a multi-kernel is timed."""

SECONDS = 0.05
"""How long a case is timed, without compiling its kernels and running each once."""

LARGEST_BYTES = 1 << 30
"""The most bytes of a case's tensors together; four times as many if all are static."""
