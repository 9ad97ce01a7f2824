"""Limits of readers and writers, so that cost is linear in the length of a file."""

MAX_DIGITS = 300
"""Digits of an integer; Python's conversion is quadratic and stops at 4,300."""

MAX_INTEGER = 10**MAX_DIGITS - 1
"""The largest magnitude of an integer."""

MAX_DEVICE_INDEX = 10**9 - 1
"""The largest index of a device."""

MAX_RANK = 64
"""Dimensions of a tensor, as in PyTorch."""

MAX_BLOCK_DEPTH = 64
"""Blocks within blocks, so that recursion over a program is always safe."""

MAX_NESTING = 210
"""Steps of recursion within a line.

An expression of height ``MAX_DEPTH`` takes at most two for each level, so only redundant
parentheses are refused.
"""

MAX_LIST_DEPTH = 32
"""Lists of arguments within lists, and tuple types within tuple types."""

MAX_DIAGNOSTICS = 100
"""Diagnostics reported for one file."""
