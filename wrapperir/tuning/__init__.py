"""Times the choices of multi-kernels, records the best in the program, and keeps times.

``tune`` tunes a program; ``decision`` derives a policy from times at many shapes;
``choice_cache`` keeps times on disk.  ``kernel_choices``, ``kernel_times`` and
``choice_facts`` are copied beside emitted Python.
"""
