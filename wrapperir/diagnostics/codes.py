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
    UNSUPPORTED_FUNCTION = "WIR600"
    """A symbolic size uses a function that expressions lack."""
    UNSUPPORTED_SYMBOL_NAME = "WIR601"
    """A symbol's name is no identifier."""
    UNSUPPORTED_OPERATOR = "WIR602"
    """An exported graph calls something that no line expresses."""
    UNSUPPORTED_ARGUMENT = "WIR603"
    """An operator of an exported graph is given a value that no argument expresses."""
    UNSUPPORTED_VALUE = "WIR604"
    """A node of an exported graph has a value that no type expresses."""
    UNSUPPORTED_SIGNATURE = "WIR605"
    """The signature of an exported program has a part that a program cannot carry."""
    # 7: passes, plugins and emitters
    # 8: running a program
    # 9: command line and files
