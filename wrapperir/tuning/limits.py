"""How much tuning does unless it is told: these are the defaults of the command line too.

It imports nothing, so that a help text does not wait for torch.
"""

SAMPLES = 256
"""How many values of its symbols a multi-kernel is timed at."""

SECONDS = 0.05
"""How long a case is timed, beside compiling its kernels and running each once."""

LARGEST_BYTES = 1 << 30
"""The bytes that a case's tensors may take together; four times as many if static."""
