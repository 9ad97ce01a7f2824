"""The stable codes of every diagnostic.

A code keeps its meaning for ever; a retired one is not given out again.  Each has an
entry with an example in ``docs/reference/diagnostics.md``, which a test holds.
"""

from enum import StrEnum


class Code(StrEnum):
    """``WIR`` and three digits; the first digit is the part that reports it."""

    # 0: reading text and JSON
    # 1: names and structure
    # 2: lifetimes and aliases
    # 3: types and layouts
    # 4: kernels and operators
    # 5: control flow
    # 6: frontends
    # 7: passes, plugins and emitters
    # 8: running a program
    # 9: command line and files
