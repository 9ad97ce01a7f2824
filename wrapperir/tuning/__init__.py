"""Times the choices of multi-kernels, records the best in the program, and keeps times.

``tune`` tunes a program; ``decision`` derives a policy from times at many shapes;
``choice_cache`` keeps times on disk.  ``kernel_choices``, ``kernel_times`` and
``choice_facts`` are copied beside emitted Python.  The defaults are here, where reading
them for a help text imports no torch.
"""

SAMPLES = 256
"""The number of samples of its symbols at which a multi-kernel is timed."""

SECONDS = 0.05
"""How long a case is timed, without compiling its kernels and running each once."""

LARGEST_BYTES = 1 << 30
"""The most bytes of a case's tensors together; four times as many if all are static."""
