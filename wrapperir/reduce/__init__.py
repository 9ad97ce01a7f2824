"""Reduction of a program to a small one that still shows something: delta debugging."""

from wrapperir.reduce.reduction import Interesting, reduce_program

__all__ = [
    "Interesting",
    "reduce_program",
]
