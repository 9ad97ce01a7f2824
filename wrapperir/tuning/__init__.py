"""Times the choices of multi-kernels, records the best in the program, and keeps times.

``choice_cache`` keeps the times of cases on disk for later runs; ``decision`` makes a
policy of times at many shapes; ``tune`` does it all for a program.
"""
